# SPDX-License-Identifier: GPL-2.0
"""Run stressors of stress-ng and read how many bogus operations they did."""
import math
import re
import tempfile
from pathlib import Path

from wqlab.steps import Failure
from wqlab.workload import machine
from wqlab.workload.cases import Wrong

# Some of each class, which run in a small guest. A class as a whole would also take CPUs offline and run out of memory.
CLASSES = {
    'scheduler': ('futex', 'sem', 'switch'),
    'filesystem': ('dentry', 'rename', 'sync-file'),
    'vm': ('mmap', 'mremap', 'vm'),
}
# Small enough for the disks and for the memory of a guest
SIZES = ('--dentries=256', '--sync-file-bytes=8M', '--mmap-bytes=16M', '--mremap-bytes=16M', '--vm-bytes=32M')
RATE = re.compile(r'bogo-ops-per-second-real-time: ([\d.]+)')


def words(name: str, each: int, seconds: float, folder: Path, report: Path) -> list[str]:
    """Return the command that runs `each` instances of all stressors of a class at the same time."""
    chosen = [f'--{stressor}={each}' for stressor in CLASSES[name]]
    return ['stress-ng', *chosen, *SIZES, f'--timeout={math.ceil(seconds)}s', '--verify', '--metrics',
            f'--temp-path={folder}', f'--yaml={report}']


def rate(text: str) -> float:
    """Return the operations per second of all stressors together."""
    return sum(float(number) for number in RATE.findall(text))


def run(name: str, each: int, seconds: float, folder: Path) -> float:
    """Run the stressors of a class for this long, rounded up to whole seconds. Return operations per second."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, 'report')
        try:
            machine.run(*words(name, each, seconds, folder, report))
        except Failure as error:
            if 'fail:' in str(error):
                raise Wrong(str(error)) from None
            raise
        return rate(report.read_text())

# SPDX-License-Identifier: GPL-2.0
"""The record of all runs of the torture test: build/torture/runs.json."""
import dataclasses
import fcntl
import hashlib
import json
import re
from pathlib import Path

from wqlab import files
from wqlab.kernels import kinds
from wqlab.measure import record
from wqlab.paths import ROOT
from wqlab.steps import Failure

FIGURES = ('operations', 'runs', 'attrs', 'masks', 'hotplug', 'violations')
PASSED, NO_VERDICT = 'passed', 'no verdict'
# The files that a result depends on: the workqueue and the test.
SOURCES = ('kernel/workqueue/*', 'kernel/workqueue_internal.h', 'include/linux/workqueue.h', 'lib/cmwq/wqtorture*')


@dataclasses.dataclass
class Run:
    configuration: str
    date: str
    kernel: str             # the name of its build folder
    seconds: int            # duration of the test; 0: it did not run
    seed: int
    operations: int
    runs: int
    attrs: int              # changes of attributes
    masks: int              # changes of CPU masks
    hotplug: int            # times that a CPU was taken down
    violations: int
    verdict: str            # "passed", or the problems
    source: str             # a hash of the workqueue and the test

    @property
    def ok(self):
        return self.verdict == PASSED

    @classmethod
    def made(cls, configuration, kernel, duration, outcome):
        """Make a Run of an outcome. Without a verdict, its figures are 0."""
        figures = dict(re.findall(r'(\w+)=(\d+)', outcome.verdict))
        wrong = list(outcome.complaints)
        if not outcome.verdict:
            wrong.append(NO_VERDICT)
        elif 'SUCCESS' not in outcome.verdict:
            wrong.insert(0, 'violations')
        return cls(configuration, record.now(), kernel, duration if outcome.verdict else 0, outcome.seed,
                   **{name: int(figures.get(name, 0)) for name in FIGURES}, verdict='; '.join(wrong) or PASSED,
                   source=outcome.source)

    @classmethod
    def missing(cls, configuration, kernel, why):
        """Make a Run for a test that could not start."""
        return cls(configuration, record.now(), kernel, 0, 0, **dict.fromkeys(FIGURES, 0), verdict=why, source=source())


def words(folder, cpus=None, topology='', append='', params=''):
    """Describe a configuration. The build folder has a name like uml-cmwq-release-7.3. Another release is named."""
    name = Path(folder).absolute().name.removesuffix(f'-{kinds.LINUX}')
    return ' '.join(filter(None, (name, cpus and f'{cpus} CPUs', topology, append, params)))


def source():
    paths = sorted(path for pattern in SOURCES for path in ROOT.glob(pattern))
    return hashlib.sha256(b''.join(path.read_bytes() for path in paths)).hexdigest()[:12]


def load(folder):
    """Return all recorded runs."""
    path = Path(folder, 'runs.json')
    if not path.exists():
        return []
    try:
        return [Run(**entry) for entry in record.read(path)]
    except TypeError:
        raise Failure(f'{path} was not written by this version of the scripts: move it away') from None


def add(folder, run):
    """Add a run to runs.json. A lock makes this safe if two are added at the same time."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / '.runs.lock', 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = [dataclasses.asdict(entry) for entry in [*load(folder), run]]
        files.write(folder / 'runs.json', json.dumps(entries, indent=1) + '\n')

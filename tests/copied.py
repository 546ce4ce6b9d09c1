# SPDX-License-Identifier: GPL-2.0
"""A copy of the scripts, with empty kernels and a guest that prints what was recorded."""
import json
import shutil
import subprocess
from types import SimpleNamespace

from calls import in_use
from wqlab import procs
from wqlab.kernels.kinds import VARIANTS
from wqlab.measure.boot import kernel, module_of
from wqlab.paths import ROOT


def empty_kernel(root, engine, variant, config='release'):
    """Make what looks like a kernel that was built in a copy of the project. Return its image and its module."""
    made = kernel(engine, variant, config)
    image, module = (path and root / path.relative_to(ROOT) for path in (made.image, module_of(made)))
    folder = root / made.folder.relative_to(ROOT)
    for path in filter(None, (image, module, folder / '.config', folder / 'include/config/kernel.release')):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'7.3.4-{variant}\n')
    image.chmod(0o755)
    return image, module


def project(place, program, guest, kernels, results, recorded):
    """Copy the scripts to a folder, and return what a test needs of it.

    program: of scripts/; guest: the source of what stands in for a guest; kernels: other
    arguments of empty_kernel(); results: where the program's results go; recorded: {name:
    text} of the files that the guest reads.
    """
    scripts = place / 'scripts'
    shutil.copytree(ROOT / 'scripts', scripts)
    (scripts / 'wqlab/guest/run.py').write_text(guest)
    for name, text in recorded.items():
        (scripts / name).write_text(text)
    for variant in VARIANTS:
        empty_kernel(place, **{'engine': 'uml', 'variant': variant, **kernels})
    (place / 'build/venv').symlink_to(ROOT / 'build/venv')

    def run(*argv, wait=True):
        command = [scripts / program, *argv]
        if not wait:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def found():
        folder, = (place / results).iterdir()
        return folder, json.loads((folder / 'results.json').read_text())

    def waits(*argv):
        """Return True if a run waits while another one measures."""
        with in_use(place / 'build/.lock-measurement') as other, \
                procs.kept([scripts / program, *argv], stderr=subprocess.PIPE, text=True) as child:
            return f'measurement is in use by process {other.pid} (' in child.stderr.readline()

    return SimpleNamespace(root=place, waits=waits, run=run, results=found, mark=lambda name: (scripts / name).touch(),
                           calls=lambda: (scripts / 'calls').read_text().splitlines())

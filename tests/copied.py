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

# What each fake guest begins with: its log, the recorded files, and the marks that a test has set
BEGIN = '''import json, pathlib, re, sys, time
here = pathlib.Path(__file__).parents[2]
argv = sys.argv[1:]
def given(name):
    return argv[argv.index(f'--{name}') + 1]
log = pathlib.Path(given('log'))
log.write_text('')
def note(*words):
    with open(here / 'calls', 'a') as calls:
        print(*words, file=calls)
    return len((here / 'calls').read_text().splitlines())
def marked(what):
    return (here / what).exists()
kernel = given('kernel').split('/')[-1]
'''


def parts(place, *names):
    """Copy files and folders of the project, and use its venv."""
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, symlinks=True, ignore=shutil.ignore_patterns('__pycache__'))
        else:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    (place / 'build').mkdir(exist_ok=True)
    (place / 'build/venv').symlink_to(ROOT / 'build/venv')
    return place


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

    program: of scripts/; guest: what stands in for a guest, after BEGIN; kernels: other arguments of
    empty_kernel(); results: where the program's results go; recorded: {name: text} of the files
    that the guest reads.
    """
    scripts = parts(place, 'scripts') / 'scripts'
    (scripts / 'wqlab/guest/run.py').write_text(BEGIN + guest)
    for name, text in recorded.items():
        (scripts / name).write_text(text)
    for variant in VARIANTS:
        empty_kernel(place, **{'engine': 'uml', 'variant': variant, **kernels})

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

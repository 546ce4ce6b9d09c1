# SPDX-License-Identifier: GPL-2.0
"""A copy of the test runner, which runs cases of a test's own. It leaves the files of the real run alone."""
import os
import shutil
import subprocess
from xml.etree import ElementTree

from calls import HEARS_ALL
from wqlab.paths import ROOT

CLEAN_ENV = {key: value for key, value in os.environ.items() if key not in ('VARIANT', 'LINUX')}
COPIED = ('tests/run.sh', 'tests/run.py', 'tests/conftest.py', 'tests/builds.py', 'tests/junit.py',
          'tests/progress.py', 'tests/resume.py', 'tests/background.py', 'pyproject.toml')


class Suite:
    """A copy of the test runner with a scripts/lab that builds nothing."""

    def __init__(self, place):
        self.place = place
        shutil.copytree(ROOT / 'scripts/wqlab', place / 'scripts/wqlab')
        (place / 'build').mkdir()
        (place / 'build/venv').symlink_to(ROOT / 'build/venv')
        for name in COPIED:
            (place / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, place / name)
        self.write('scripts/lab', '#!/bin/sh\nmkdir -p build/uml-cmwq-release-7.3\n')
        (place / 'scripts/lab').chmod(0o755)

    def write(self, name, text):
        (self.place / name).parent.mkdir(parents=True, exist_ok=True)
        (self.place / name).write_text(text)

    def start(self, *args, process_group=None, **env):
        return subprocess.Popen([*HEARS_ALL, self.place / 'tests/run.sh', *args], cwd=self.place,
                                env={**CLEAN_ENV, **env}, text=True, process_group=process_group,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *args, **env):
        with self.start(*args, **env) as child:
            child.out, child.err = child.communicate(timeout=60)
        return child

    def __call__(self, text, *args, **env):
        """Run one file of cases, given as text. Return the status and the last line."""
        self.write('tests/test_it.py', text)
        done = self.run(*args, **env)
        return done.returncode, (done.out.splitlines() or [''])[-1]

    def results(self):
        """Return the cases of junit.xml: name -> passed, failure or skipped."""
        root = ElementTree.parse(self.place / 'build/test/junit.xml')
        return {case.get('name'): next((child.tag for child in case if child.tag in ('failure', 'skipped', 'error')),
                                       'passed') for case in root.iter('testcase')}, root.find('testsuite').attrib

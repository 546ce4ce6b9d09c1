# SPDX-License-Identifier: GPL-2.0
"""The known bugs of tests/mutations still fit the sources that they are bugs of."""
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import mutants

PATCHES = sorted(mutants.PATCHES.glob('*.patch'))


def test_there_are_enough():
    assert len(PATCHES) >= 15


@pytest.mark.parametrize('path', PATCHES, ids=lambda path: path.stem)
def test_applies_and_changes_code(path, tmp_path):
    place = tmp_path / mutants.OURS
    shutil.copytree(mutants.ROOT / mutants.OURS, place)
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    done = subprocess.run(['patch', '-p1', '--fuzz=0', '-d', tmp_path, '-i', path], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    changed = [file.name for file in place.iterdir() if before.get(file.name) != file.read_bytes()]
    assert len(changed) == 1
    bug = next(bug for bug in mutants.bugs() if bug.path == path)
    assert bug.what and bug.engine in ('uml', 'qemu')


def test_table_shows_what_nothing_caught():
    found = [(mutants.Bug('a', 'x', 'uml', Path('a')), mutants.Catch('torture', 3.4, 'why')),
             (mutants.Bug('b-long', 'yy', 'uml', Path('b')), mutants.Catch('', 0, 'no test failed'))]
    lines = mutants.table(found).splitlines()
    assert re.fullmatch(r'a +x +torture +3 s', lines[3]) and re.fullmatch(r'b-long +yy +\*\*nothing\*\*', lines[4])


def test_scratch_tree_gets_new_files(monkeypatch):
    """A copy made before a file came to the project has it afterwards."""
    subprocess.run([mutants.ROOT / 'scripts/tree.sh'], check=True)
    with tempfile.TemporaryDirectory(dir=mutants.ROOT / 'build') as temp:
        monkeypatch.setattr(mutants, 'TREE', Path(temp))
        mutants.add_new_files()
        ours = mutants.ROOT / 'lib/wqtorture_main.c'
        assert (Path(temp) / 'lib/cmwq/wqtorture_main.c').resolve() == ours
        mutants.add_new_files()     # nothing is new

# SPDX-License-Identifier: GPL-2.0
"""make check reports the findings of its checkers."""
import re
import shutil
import subprocess

import pytest

from calls import call
from wqlab.kernels import check
from wqlab.paths import ROOT


def test_scripts_are_clean():
    """ruff, mypy, shellcheck and codespell find nothing."""
    done = call('scripts/lab', 'check', '--no-kernel', timeout=300)
    assert done.returncode == 0, done.stderr
    assert all(re.search(rf'^check: {name}.*: clean$', done.stderr, re.M)
               for name in ('ruff', 'mypy', 'shellcheck, [1-9]', 'codespell'))


@pytest.mark.tier('test')
@pytest.mark.parametrize('name, text, says', [
    ('scripts/wqlab/bad.py', 'import os\n', 'ruff: 1 line'),
    ('scripts/wqlab/bad.py', 'NUMBER: int = "text"\n', 'mypy: 1 line'),
    ('scripts/wqlab/bad.py', 'def number():\n    return "1" + 1\n', 'mypy: 1 line'),
    ('tests/guest/bad.py', 'import guests\nBOOTS: int = guests.BOOTS\n', 'mypy, tests: 1 line'),
    ('tests/guest/bad.py', 'def number():\n    return "1" + 1\n', 'mypy, tests: 1 line'),
    ('tools/workqueue/wqtools/bad.py', 'def number():\n    return "1" + 1\n', 'mypy: 1 line'),
    ('scripts/bad.sh', '#!/bin/bash\nfor f in $(ls); do rm $f; done; cd $1\n', 'shellcheck, .*: [1-9]'),
    ('bad.txt', 'T' + 'eh end\n', 'codespell: 1 line'),
])
def test_findings_are_told(tmp_path, name, text, says):
    """Each checker really runs: one fault of its kind makes the check fail."""
    for part in ('scripts', 'tests', 'tools/workqueue', 'patches', 'pyproject.toml', '.shellcheckrc'):
        copier = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copier(ROOT / part, tmp_path / part)
    (tmp_path / 'build').mkdir()
    (tmp_path / 'build/venv').symlink_to(ROOT / 'build/venv')
    (tmp_path / '.gitignore').write_text('build/\n__pycache__/\n')
    subprocess.run(['git', 'init', '-q', tmp_path], check=True)
    (tmp_path / name).write_text(text)
    done = call(tmp_path / 'scripts/lab', 'check', '--no-kernel', cwd=tmp_path, timeout=300)
    assert done.returncode == 1 and re.search(f'^check: {says}', done.stderr, re.M), done.stderr


def test_check_of_the_base():
    done = call('scripts/lab', 'check', VARIANT='base')
    assert done.returncode == 1 and 'VARIANT=base: must be one of: cmwq' in done.stderr


OUTSIDE = re.compile(r'ROOT[.]parent|[.][.]/shared|\bshared/bin')


def test_nothing_beside_the_repository_is_used():
    """A clone has all that `make check` and the other targets run."""
    assert OUTSIDE.search("tool = ROOT" ".parent / 'x'")
    assert not [name for name in check.tracked() if OUTSIDE.search((ROOT / name).read_text(errors='replace'))]


@pytest.mark.tier('all')
def test_check():
    """The complete check, on the smallest kernel."""
    done = call('scripts/lab', 'check', timeout=3000, ENGINE='uml')
    assert done.returncode == 0, done.stderr
    assert re.search('^check: W=1 and sparse, kernel/workqueue: clean$', done.stderr, re.M)

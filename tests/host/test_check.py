# SPDX-License-Identifier: GPL-2.0
"""make check reports the findings of its checkers. make series writes patches for a maintainer."""
import re
import shutil
import subprocess

import pytest

from calls import call
from wqlab.kernels import series, tree
from wqlab.kernels.build import options
from wqlab.kernels.kinds import LINUX, Kind
from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure


def test_scripts_are_clean():
    """ruff, mypy, shellcheck and codespell find nothing."""
    done = call('scripts/lab', 'check', '--no-kernel', timeout=300)
    assert done.returncode == 0, done.stderr
    assert all(re.search(rf'^check: {name}.*: clean$', done.stderr, re.M)
               for name in ('ruff', 'mypy', 'shellcheck, [1-9]', 'codespell'))


@pytest.mark.parametrize('name, text, says', [
    ('scripts/wqlab/bad.py', 'import os\n', 'ruff: 1 line'),
    ('scripts/wqlab/bad.py', 'NUMBER: int = "text"\n', 'mypy: 1 line'),
    ('scripts/bad.sh', '#!/bin/bash\nfor f in $(ls); do rm $f; done; cd $1\n', 'shellcheck, .*: [1-9]'),
    ('bad.txt', 'T' + 'eh end\n', 'codespell: 1 line'),
])
def test_findings_are_told(tmp_path, name, text, says):
    """Each checker really runs: one fault of its kind makes the check fail."""
    for part in ('scripts', 'patches', 'pyproject.toml', '.shellcheckrc'):
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


@pytest.mark.tier('all')
def test_check():
    """The complete check, on the smallest kernel."""
    done = call('scripts/lab', 'check', timeout=3000, ENGINE='uml')
    assert done.returncode == 0, done.stderr
    assert re.search('^check: W=1 and sparse, kernel/workqueue: clean$', done.stderr, re.M)


# The series

@pytest.fixture(scope='module')
def patches():
    return series.write(LINUX)


def test_series(patches):
    """There is a patch for each step, with an author, for git am. It replaces the old series."""
    assert patches == sorted((BUILD / f'series-{LINUX}').iterdir()) and len(patches) >= 5
    for number, patch in enumerate(patches, 1):
        text = patch.read_text()
        assert re.search(rf'^Subject: \[PATCH {number}/{len(patches)}\] \S', text, re.M), patch.name
        assert re.search(r'^Signed-off-by: .+ <\S+>$', text, re.M), patch.name
    assert series.write(LINUX) == patches and not list(BUILD.glob('.series-*'))


def test_series_that_does_not_fit(monkeypatch, patches):
    """A missing file is noticed, and the old series stays."""
    monkeypatch.setattr(tree, 'our_files', lambda: [pair for pair in ALL if not pair[0].endswith('affinity.c')])
    before = [patch.read_bytes() for patch in patches]
    monkeypatch.setattr(tree, 'compose', lambda linux: BUILD / f'tree-{linux}')
    with pytest.raises(Failure, match=r'differ|does not give'):
        series.write(LINUX)
    assert [patch.read_bytes() for patch in patches] == before


ALL = tree.our_files()


@pytest.mark.tier('all')
def test_each_patch_leaves_a_tree_that_builds(patches):
    """The smallest possible UML kernel, with all our files that the tree has at this patch."""
    place, out = BUILD / f'series-tree-{LINUX}', BUILD / f'series-out-{LINUX}'
    for folder in (place, out):
        shutil.rmtree(folder, ignore_errors=True)
    out.mkdir()
    try:
        subprocess.run(['cp', '-al', BUILD / f'linux-{LINUX}', place], check=True)
        kind = Kind.of('uml')
        make = ['make', '-s', '-C', place, f'O={out}', 'ARCH=um', *kind.make()[-3:-1], '-j2']
        wanted = out / 'wanted'
        wanted.write_text('CONFIG_64BIT=y\nCONFIG_MODULES=y\nCONFIG_DEBUG_FS=y\nCONFIG_SMP=y\nCONFIG_WORKQUEUE_CMWQ=y\n'
                          'CONFIG_RUNTIME_TESTING_MENU=y\nCONFIG_TEST_WORKQUEUE=m\nCONFIG_WQ_TORTURE_TEST=m\n')
        seen = set()
        for patch in patches:
            assert not tree.apply(patch, place), patch.name
            for words in ((f'KCONFIG_ALLCONFIG={wanted}', 'allnoconfig'), ('all',)):
                done = subprocess.run([*make, *words], capture_output=True, text=True, check=False,
                                      env=kind.environment())
                assert done.returncode == 0, f'{patch.name}: {done.stderr[-2000:]}'
            seen |= {name for name, value in options(out / '.config').items() if value != 'n'}
        assert {'CONFIG_WORKQUEUE_CMWQ', 'CONFIG_TEST_WORKQUEUE', 'CONFIG_WQ_TORTURE_TEST'} <= seen
        assert (out / 'kernel/workqueue/affinity.o').exists()
    finally:
        for folder in (place, out):
            shutil.rmtree(folder, ignore_errors=True)

# SPDX-License-Identifier: GPL-2.0
"""The patches in tests/mutations still apply to the sources."""
import itertools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import guests
import mutants
import test_long

PATCHES = sorted(mutants.PATCHES.glob('*.patch'))
DOCUMENT = mutants.ROOT / 'results/mutants.rst'


def documented():
    """Return the rows of the document's table: name, whether it needs QEMU, bug, test that caught it."""
    text = DOCUMENT.read_text(encoding='utf-8')
    rule, rows = re.search(r'^(=[= ]+)\nMutation .*\n\1\n((?:.+\n)+?)\1\n', text, re.M).groups()
    starts = [match.start() for match in re.finditer('=+', rule)]
    for row in rows.splitlines():
        name, bug, test, _ = (row[start:end].strip() for start, end in itertools.zip_longest(starts, starts[1:]))
        yield name.removesuffix(' \\*'), name.endswith('*'), bug, test


def test_the_document_lists_them_all():
    assert list(documented()) == [(bug.name, bug.engine == 'qemu', bug.what, bug.test.split()[0])
                                  for bug in mutants.bugs()]


@pytest.mark.parametrize('path', PATCHES, ids=lambda path: path.stem)
def test_applies_and_changes_code(path, tmp_path):
    place = tmp_path / mutants.OURS
    shutil.copytree(mutants.ROOT / mutants.OURS, place)
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    done = subprocess.run(['patch', '-p1', '--fuzz=0', '--no-backup-if-mismatch', '-d', tmp_path, '-i', path],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    changed = [file.name for file in place.iterdir() if before.get(file.name) != file.read_bytes()]
    assert len(changed) == 1
    bug = next(bug for bug in mutants.bugs() if bug.path == path)
    assert bug.what and bug.engine in ('uml', 'qemu')
    script, _, only = bug.test.partition(' ')
    if bug.test not in ('torture', 'KUnit'):
        assert not only or f'\ntest_{only}()' in (guests.SELFTESTS / f'{script}.sh').read_text()
        assert (guests.SELFTESTS / f'{script}.sh').exists()


def in_guest(rc=0, *, points=('ok 1 x', 'ok 2 y'), end='@@ end pods 0', kernel=''):
    output = '\n'.join(['@@ begin sysfs', '1..1', 'ok 1 a', '@@ end sysfs 0',
                        '@@ begin pods', '1..2', *points, end, ''])
    return mutants.guest.Result(rc, output, kernel + output, kernel, 1.0)


@pytest.mark.parametrize('outcome, why', [
    (in_guest(), ''),
    (in_guest(points=('ok 1 x', 'not ok 2 y')), 'pods: not ok: y'),
    (in_guest(points=('ok 1 x',)), 'pods: not ok: plan'),
    (in_guest(points=('ok 1 x', 'ok 2 y # SKIP no CPU')), 'pods: not ok: y'),
    (in_guest(points=('ok 1 x', 'ok 2 y # SKIP the CPUs are not on two nodes')), ''),
    (in_guest(end='@@ end pods 1'), 'pods: exit status 1'),
    (in_guest(kernel='BUG: KASAN: x\n'), 'line 1: BUG: KASAN: x'),
    (in_guest(mutants.guest.DIED, points=(), end='', kernel='Oops: x\n'), 'line 1: Oops: x'),
    (in_guest(mutants.guest.DIED, points=(), end=''), 'the kernel died'),
    (in_guest(mutants.guest.TIMED_OUT, end=''), 'no end'),
    (in_guest(1, end=''), 'pods: no end'),
])
def test_first_fault(outcome, why):
    assert mutants.first_fault(outcome, guests.Boot('some', 'uml', ('sysfs', 'pods'))) == why


@pytest.mark.usefixtures('composed')
def test_scratch_tree_gets_new_files(monkeypatch):
    """A file that is added to the project is added to an existing copy."""
    with tempfile.TemporaryDirectory(dir=mutants.ROOT / 'build') as temp:
        monkeypatch.setattr(mutants, 'TREE', Path(temp))
        mutants.link_our_files()
        ours = mutants.ROOT / 'lib/cmwq/wqtorture_main.c'
        assert (Path(temp) / 'lib/cmwq/wqtorture_main.c').resolve() == ours
        mutants.link_our_files()     # nothing is new


@pytest.fixture
def tried(monkeypatch, tmp_path):
    """Let tests take no time. Return the tests that were run, and what the next ones find."""
    ran, finds = [], []
    monkeypatch.setattr(mutants, 'PLACE', tmp_path)
    monkeypatch.setattr(mutants, 'lay', lambda bug=None: ran.append(bug.name if bug else 'control'))
    monkeypatch.setattr(mutants, 'hunt', lambda *_: mutants.Catch(3.0, finds.pop()))
    return ran, finds


def test_a_caught_bug_is_not_tried_again(tried, monkeypatch):
    ran, finds = tried
    bugs = mutants.bugs()[:2]
    args = mutants.parse_args([])
    finds += ['lost', '']
    assert [catch.why for _, catch in mutants.run(bugs, args, {})] == ['', 'lost']
    finds += ['at last']
    assert [catch.why for _, catch in mutants.run(bugs, args, {})] == ['at last', 'lost']
    assert ran == [bugs[0].name, bugs[1].name, bugs[0].name]
    monkeypatch.setattr(mutants.Bug, 'key', lambda _: 'other sources')
    finds += ['x', 'y']
    mutants.run(bugs, args, {})
    finds += ['x', 'y']
    mutants.run(bugs, mutants.parse_args(['--again']), {})
    assert len(ran) == 7


def test_control(tried):
    """A test that fails without a bug catches nothing. Otherwise its time sets the limit with a bug."""
    ran, finds = tried
    finds += ['it fails', '']
    assert mutants.control(('uml', '', '', 'own'), 20) == 60 + 4 * 3.0 and ran == ['control']
    with pytest.raises(SystemExit, match='own fails without a bug: it fails'):
        mutants.control(('uml', '', '', 'own'), 20)


def test_each_bug_and_each_configuration_is_a_case():
    assert sorted(bug.name for bug in test_long.BUGS) == sorted(path.stem for path in PATCHES)
    groups = [group for group, _ in itertools.groupby(bug.group for bug in test_long.BUGS)]
    assert len(groups) == len(set(groups)), 'a control would be built more than once'

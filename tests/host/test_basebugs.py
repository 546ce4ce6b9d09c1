# SPDX-License-Identifier: GPL-2.0
"""`make basebugs`: its tests exist, and it distinguishes tests that fail, pass, or do not run."""
import re
import subprocess
import types

import pytest

from wqlab import basebugs
from wqlab.paths import ROOT
from wqlab.steps import Failure

FLUSH = next(bug for bug in basebugs.BUGS if bug.name == 'flush')
LEAK = next(bug for bug in basebugs.BUGS if bug.name == 'leak')


@pytest.mark.parametrize('bug', basebugs.BUGS, ids=lambda bug: bug.name)
def test_the_test_exists_and_is_left_out_on_the_base_kernel(bug):
    place, _, name = bug.test.partition('.')
    if place == 'kunit':
        suite, case = name.split('.')
        text = (ROOT / f'lib/cmwq/{suite}.c').read_text()
        body = re.search(rf'^static void {case}\(.*?^}}', text, re.M | re.S)
        assert body and 'wq_api_skip_on_base(' in body[0]
    else:
        text = (basebugs.SELFTESTS / f'{place}.sh').read_text()
        assert re.search(rf'^test_{name.partition(":")[0]}\(\)', text, re.M)
        skipped = text[text.index('[ "$VARIANT" != base ]'):].partition('run_tests')[0]
        assert name in skipped


def report(text):
    return lambda *args, **kwargs: types.SimpleNamespace(output=text)


FAILS, DID_NOT_RUN = '1 of 1 test points fail', 'the test did not run: see '
OWN = 'KTAP version 1\n1..1\n    1..2\n    {}ok 1 other\n    {}ok 2 flush_work_waits_for_run_after_cancel{}\n{}ok 1 s\n'


@pytest.mark.parametrize('bug, text, says, found', [
    (LEAK, 'TAP version 13\n1..1\nok 1 gone before it ran\n', '0 of 1 test points fail', False),
    (LEAK, 'TAP version 13\n1..1\n# the workqueue is not freed\nnot ok 1 gone before it ran\n', FAILS, True),
    # The guest died before, in or after the test, or the test was not to run.
    (LEAK, '', DID_NOT_RUN, None),
    (LEAK, 'TAP version 13\nBail out!  wq_test_helper does not load\n', DID_NOT_RUN, None),
    (LEAK, 'TAP version 13\n1..1\n', DID_NOT_RUN, None),
    (LEAK, 'TAP version 13\n1..1\nok 1 gone before it ran\nBail out!  no end\n', '1 of 2 test points fail', None),
    (LEAK, 'TAP version 13\n1..1\nnot ok 1 gone before it ran\nBail out!\n', '2 of 2 test points fail', True),
    (LEAK, 'TAP version 13\n1..1\nok 1 gone before it ran # SKIP the base kernel fails it\n', DID_NOT_RUN, None),
    # Only one case of a suite counts.
    (FLUSH, OWN.format('not ', '', '', 'not '), '0 of 1 test points fail', False),
    (FLUSH, OWN.format('', 'not ', '', 'not '), FAILS, True),
    (FLUSH, OWN.format('', '', ' # SKIP the base kernel returns early', ''), DID_NOT_RUN, None),
    (FLUSH, 'KTAP version 1\n1..1\n    1..1\n    not ok 1 other\nnot ok 1 wq_api_flush\n', DID_NOT_RUN, None),
])
def test_result(monkeypatch, tmp_path, capsys, bug, text, says, found):
    monkeypatch.setattr(basebugs.guest, 'run', report(text))
    assert basebugs.has_bug(bug, tmp_path, 'base') is found
    assert capsys.readouterr().out.startswith(f'  base: {says}')


@pytest.mark.parametrize('linux, engine', [('7.2', 'uml'), ('6.12', 'qemu')])
def test_release(monkeypatch, tmp_path, linux, engine):
    """UML of 6.12 has one CPU, so QEMU runs all tests there."""
    kinds, given = [], []
    monkeypatch.setattr(basebugs.build, 'build', lambda kind: kinds.append(kind.name) or tmp_path)
    monkeypatch.setattr(basebugs.guest, 'run',
                        lambda *_, **options: given.append(options) or types.SimpleNamespace(output=''))
    monkeypatch.setenv('LINUX', linux)
    assert basebugs.main(['leak']) == 1
    assert kinds == [f'{engine}-base-release-{linux}', f'{engine}-cmwq-release-{linux}']
    for options in given:
        assert options['engine'] == engine and any(f'/tree-{linux}/' in name for name in options['files'])


@pytest.mark.parametrize('base, ours, status', [
    (True, False, 0), (True, True, 1), (False, False, 1), (None, False, 1), (True, None, 1),
])
def test_verdict(monkeypatch, tmp_path, capsys, base, ours, status):
    found = {'base': base, 'cmwq': ours}
    monkeypatch.setattr(basebugs.build, 'build', lambda kind: tmp_path)
    monkeypatch.setattr(basebugs, 'has_bug', lambda bug, folder, variant: found[variant])
    assert basebugs.main(['leak']) == status
    assert capsys.readouterr().out.splitlines()[-1] == \
        f'{1 - status} of 1 tests fail on the base kernel and pass on ours'


@pytest.mark.parametrize('base, status', [(False, 0), (True, 1), (None, 1)])
def test_with_fixes(monkeypatch, tmp_path, capsys, base, status):
    """Then only the base kernel is built, and has to pass."""
    built = []
    monkeypatch.setenv('FIXED', '1')
    monkeypatch.setattr(basebugs.build, 'build', lambda kind: built.append(kind.variant) or tmp_path)
    monkeypatch.setattr(basebugs, 'has_bug', lambda bug, folder, variant: base)
    assert basebugs.main(['leak']) == status and built == ['base']
    assert capsys.readouterr().out.splitlines()[-1] == \
        f'{1 - status} of 1 tests pass on the base kernel with our fixes'


def test_bad_fixed(monkeypatch):
    monkeypatch.setenv('FIXED', 'yes')
    with pytest.raises(Failure, match='FIXED=yes: must be one of: '):
        basebugs.main(['leak'])


def test_a_page_lists_them_all():
    page = (ROOT / 'Documentation/core-api/workqueue-adopt.rst').read_text()
    table = page.split('``ONLY=``\n===')[1].split('\n\n')[0]
    listed = [name for row in table.splitlines()[1:-1] for name in row.rpartition('  ')[2].split(', ')]
    assert sorted(listed) == sorted(bug.name for bug in basebugs.BUGS)


def test_unknown_bug():
    done = subprocess.run([ROOT / 'scripts/lab', 'basebugs', 'nonsense'], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'there is no bug named nonsense: choose from strict, ' in done.stderr

# SPDX-License-Identifier: GPL-2.0
"""`make basebugs`: its tests exist, and it distinguishes tests that fail, pass, or do not run."""
import re
import subprocess
import types

import pytest

from wqlab import basebugs
from wqlab.paths import ROOT

FLUSH = next(bug for bug in basebugs.BUGS if bug.name == 'flush')
LEAK = next(bug for bug in basebugs.BUGS if bug.name == 'leak')


@pytest.mark.parametrize('bug', basebugs.BUGS, ids=lambda bug: bug.name)
def test_the_test_exists_and_is_left_out_on_the_base_kernel(bug):
    place, _, name = bug.test.partition('.')
    if place == 'kunit':
        suite, case = name.split('.')
        text = (ROOT / f'lib/{suite}.c').read_text()
        body = re.search(rf'^static void {case}\(.*?^}}', text, re.M | re.S)
        assert body and 'wq_api_skip_on_base(' in body[0]
    else:
        text = (basebugs.SELFTESTS / f'{place}.sh').read_text()
        assert re.search(rf'^test_{name.partition(":")[0]}\(\)', text, re.M)
        skipped = text[text.index('[ "$VARIANT" != base ]'):].partition('run_tests')[0]
        assert name in skipped


def report(text):
    return lambda *args, **kwargs: types.SimpleNamespace(output=text)


@pytest.mark.parametrize('bug, text, failed', [
    (LEAK, 'TAP version 13\n1..1\nok 1 gone\n', False),
    (LEAK, 'TAP version 13\n1..1\n# the workqueue is not freed\nnot ok 1 gone\n', True),
    (LEAK, '', True),
    # Only one case of a suite counts.
    (FLUSH, 'KTAP version 1\n1..1\n    1..2\n    not ok 1 other\n'
            '    ok 2 flush_work_waits_for_run_after_cancel\nnot ok 1 wq_api_flush\n', False),
    (FLUSH, 'KTAP version 1\n1..1\n    1..2\n    ok 1 other\n'
            '    not ok 2 flush_work_waits_for_run_after_cancel\nnot ok 1 wq_api_flush\n', True),
    (FLUSH, 'KTAP version 1\n1..1\n    1..1\n    ok 1 other\nok 1 wq_api_flush\n', True),
])
def test_result(monkeypatch, tmp_path, capsys, bug, text, failed):
    monkeypatch.setattr(basebugs.guest, 'run', report(text))
    assert basebugs.shown(bug, tmp_path, 'base') is failed
    assert capsys.readouterr().out.startswith(f'  base: {failed:d} of 1 test points fail\n')


def test_unknown_bug():
    done = subprocess.run([ROOT / 'scripts/lab', 'basebugs', 'nonsense'], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'there is no bug named nonsense: choose from strict, ' in done.stderr

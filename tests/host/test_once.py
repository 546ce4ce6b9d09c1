# SPDX-License-Identifier: GPL-2.0
"""What takes long is done once for each argument."""
import subprocess
import traceback

import pytest

from once import once


@pytest.mark.parametrize('outcome', [7, None, OSError('no disk'), AssertionError('rc 1'), pytest.fail.Exception('no'),
                                     subprocess.CalledProcessError(2, 'make')], ids=repr)
def test_each_outcome_is_kept(outcome):
    calls = []

    @once
    def work(name):
        calls.append(name)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def result(name):
        try:
            return work(name)
        except (Exception, pytest.fail.Exception) as error:
            return error

    assert [result(name) for name in 'aaba'] == [outcome] * 4
    assert calls == ['a', 'b']
    if isinstance(outcome, BaseException):
        frames = [len(traceback.extract_tb(result('a').__traceback__)) for _ in range(3)]
        assert frames == frames[:1] * 3


def test_an_interruption_is_not_kept():
    calls = []

    @once
    def work():
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return 3

    with pytest.raises(KeyboardInterrupt):
        work()
    assert work() == 3

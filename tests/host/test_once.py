# SPDX-License-Identifier: GPL-2.0
"""What takes long is done once for each argument."""
import pytest

from once import once


@pytest.mark.parametrize('outcome', [7, OSError('no disk'), pytest.fail.Exception('no')], ids=repr)
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

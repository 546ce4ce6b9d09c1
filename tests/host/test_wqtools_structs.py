# SPDX-License-Identifier: GPL-2.0
"""On which pwq a CPU queues, read from a kernel made of dictionaries."""
import types

import pytest

from wqtools import structs

PWQ = 0xffff888000001000


class Value(int):
    def value_(self):
        return int(self)


@pytest.fixture(autouse=True)
def percpu(monkeypatch):
    """Let a per-CPU variable be a dictionary by CPU."""
    monkeypatch.setattr(structs, 'per_cpu_ptr', lambda var, cpu: [Value(var[cpu])])


def workqueue(*entries):
    return types.SimpleNamespace(cpu_pwq=dict(enumerate(entries)))


def test_where_a_cpu_queues():
    wq = workqueue(PWQ, PWQ + 1, 0)
    assert [structs.cpu_pwq(wq, cpu) for cpu in range(3)] == [PWQ, PWQ + 1, None]
    # destroyed
    assert structs.cpu_pwq(workqueue(), 2) is None

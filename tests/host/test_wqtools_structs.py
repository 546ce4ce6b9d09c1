# SPDX-License-Identifier: GPL-2.0
"""On which pwq a CPU queues, read from a kernel made of dictionaries."""
import types

import pytest

from wqtools import structs

DEFAULT, OWN, LODGE = 0xffff888000001000, 0xffff888000002000, 0xffff888000003000


class Value(int):
    def value_(self):
        return int(self)


@pytest.fixture(autouse=True)
def percpu(monkeypatch):
    """Let a per-CPU variable be a dictionary by CPU, and a machine have CPUs 0 to 3."""
    monkeypatch.setattr(structs, 'per_cpu', lambda var, cpu: Value(var[cpu]))
    monkeypatch.setattr(structs, 'per_cpu_ptr', lambda var, cpu: [Value(var[cpu])])
    monkeypatch.setattr(structs, 'possible_cpus', lambda prog: range(4))


def kernel(on=True, stand_ins=(0, 1, 0, 1)):
    return {'wq_pool_per_cpu': Value(on), 'wq_stand_in': dict(enumerate(stand_ins))}


def workqueue(*entries, default=DEFAULT):
    return types.SimpleNamespace(cpu_pwq=dict(enumerate(entries)), dfl_pwq=Value(default))


def test_who_has_a_stand_in():
    assert structs.stand_ins(kernel()) == {2: 0, 3: 1}
    assert structs.stand_ins(kernel(stand_ins=range(4))) == {}
    # without the parameter the variables are never written
    assert structs.stand_ins(kernel(on=False, stand_ins=(0, 0, 0, 0))) == {}
    assert structs.stand_ins({}) == {}


def test_where_a_cpu_queues():
    wq, stand_ins = workqueue(OWN, OWN + 1, DEFAULT, LODGE), {2: 0, 3: 1}
    assert [structs.cpu_pwq(wq, cpu, stand_ins) for cpu in range(4)] == [OWN, OWN + 1, OWN, LODGE]
    assert [structs.cpu_pwq(wq, cpu, {}) for cpu in range(4)] == [OWN, OWN + 1, DEFAULT, LODGE]


def test_workqueues_without_entries():
    # per-CPU, then destroyed
    assert structs.cpu_pwq(workqueue(OWN, OWN, OWN, OWN, default=0), 2, {2: 0}) == OWN
    assert structs.cpu_pwq(workqueue(0, 0, 0, 0, default=0), 2, {2: 0}) is None
    assert structs.cpu_pwq(types.SimpleNamespace(cpu_pwq={}), 2, {2: 0}) is None

# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --lines in a guest: lines are found, by struct and field, where CPUs share a pool, and only there."""

import pytest

import guests
from progress import say
from wqlab.bench import options as bench_options
from wqlab.bench.boot import Build
from wqlab.bench.lines import measure
from wqlab.paths import ROOT

ITEMS = 300
# Lines of other memory may move when the scheduler moves a thread, so a few items may meet on any line.
FEW = 0.5


def count(variant, folder, *argv):
    """Boot once. Return {scope: what was counted}."""
    guests.kernel('qemu', variant=variant)
    params, _, _ = bench_options.parse_args(['--lines', '--cpus', '4', '--items', str(ITEMS), '--variant', variant,
                                             '--scopes', 'cpu,system', *argv])
    builds = {variant: Build(ROOT, 'qemu', variant)}
    boot = {'pair': 1, 'shard_size': None, 'variant': variant}
    entry, = measure.play(ROOT, builds, {**params, 'accel': 'tcg'}, [boot], [folder / 'log'],
                          lambda seconds, text: say(f'lines: {seconds:.0f} s, {text}'))
    assert not entry['trouble'] and entry['violations'] == 0
    assert [run['scope'] for run in entry['runs']] == ['cpu', 'system']
    return {run['scope']: run['lines'] for run in entry['runs']}


def moves_of(found, struct, field):
    """Return how often a field of a struct moves per item, if each had a line of its own."""
    return sum(row['fields'].get(field, 0) for row in found['rows']
               if row['workqueue'] and row['what'].startswith(struct))


def check_sums(found):
    assert ITEMS <= found['items'] <= 4 * ITEMS
    mine = [row for row in found['rows'] if row['workqueue']]
    assert found['moves'] == pytest.approx(sum(row['moves'] for row in mine))
    assert found['observed'] == pytest.approx(sum(row['observed'] for row in mine))
    assert all(row['what'] and 0 < row['moves'] and 0 < row['lines'] for row in found['rows'])


def check_shared_pool(found):
    """In the scope system, each item takes the lock of the only pool twice or more. In cpu, each CPU has a lock."""
    for scope in found.values():
        check_sums(scope)
    assert 1 < moves_of(found['system'], 'worker_pool', 'lock') < 10
    for struct, field in (('worker_pool', 'lock'), ('worker_pool', 'worklist'), ('pool_workqueue', 'refcnt')):
        assert moves_of(found['cpu'], struct, field) < FEW
        assert moves_of(found['system'], struct, field) > moves_of(found['cpu'], struct, field)
    assert found['system']['moves'] > found['cpu']['moves'] + 2
    assert any(row['what'] == 'work_struct' and 'entry' in row['fields'] for row in found['system']['rows'])
    others = {row['what'] for scope in found.values() for row in scope['rows'] if not row['workqueue']}
    assert others >= {'task_struct', 'runqueues'}


@pytest.fixture(scope='module')
def shared(tmp_path_factory):
    return count('cmwq', tmp_path_factory.mktemp('shared'))


@guests.needs('qemu')
def test_a_shared_pool_is_found(shared):
    check_shared_pool(shared)


@guests.needs('qemu')
def test_a_pool_for_each_cpu_is_not_shared(shared, tmp_path):
    found = count('cmwq', tmp_path, '--append-cmwq', 'workqueue.pool_per_cpu=1')
    for scope in found.values():
        check_sums(scope)
        assert moves_of(scope, 'worker_pool', 'lock') < FEW
    assert found['system']['moves'] < shared['system']['moves'] - 2


@guests.needs('qemu')
def test_batches(tmp_path):
    check_shared_pool(count('cmwq', tmp_path, '--mode', 'batch'))


@pytest.mark.tier('all')
@guests.needs('qemu', variant='base')
def test_the_base_kernel(tmp_path):
    check_shared_pool(count('base', tmp_path))


@guests.needs('qemu')
def test_a_run_that_ends_too_early_is_an_error(tmp_path, monkeypatch):
    """The plugin waits for more items than the guest queues."""
    monkeypatch.setattr(measure, 'TAIL', -ITEMS // 2)
    with pytest.raises(measure.BootError, match='the pass ended before'):
        count('cmwq', tmp_path)


@guests.needs('qemu')
def test_an_unknown_function_of_items_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, 'ITEM', 'no_such_fn')
    with pytest.raises(measure.BootError, match='has no function no_such_fn'):
        count('cmwq', tmp_path)

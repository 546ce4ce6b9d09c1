# SPDX-License-Identifier: GPL-2.0
"""wq_dump.py without a kernel: text and JSON of hand-made Snapshots, filters, and error messages."""
import dataclasses
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import wq_dump
import wqtools_machines as machines
from wqlab.cpus import parse
from wqlab.paths import ROOT
from wqtools import asbase, filters, jsonout, model, program, text

WQ_DUMP = ROOT / 'tools/workqueue/wq_dump.py'
VENV_PYTHON = ROOT / 'build/venv/bin/python3'
WITH_TOOLS = {**os.environ, 'PYTHONPATH': str(WQ_DUMP.parent)}


def snapshot_of(llcs, pools, workqueues=(), **more):
    """Make a machine with two sockets and nodes, and with these pools and workqueues only."""
    snapshot = machines.machine(llcs, sockets=2, **more)
    snapshot.pools, snapshot.workqueues = list(pools), list(workqueues)
    return snapshot


def small():
    """Make a machine with 4 CPUs and 2 nodes, and with pools, workqueues and items in various states."""
    pools = machines.percpu_pools(range(4))
    late = machines.item('late_fn', workqueue='events')
    pools[10] = machines.pool(10, 'percpu', 2, no_progress_for=3.2, waiting=[late], manager=61, mayday=['rescued'],
                              workers=[
        machines.worker(60, 'hog_fn', 12.5, ['CPU_INTENSIVE'], state='R', cpu=2,
                        scheduled=[machines.item('wq_barrier_func', 0xffff888000005000, barrier=True, worker=60)]),
        machines.worker(61, cpu=2), machines.worker(62, 'slow_fn', 1.0, state='D', rescuer='rescued', cpu=2)])
    pools += [machines.pool(16, 'unbound', cpus=range(4), pod_cpus=[0, 1, 2, 3], refcnt=9,
                            flag_names=['DISASSOCIATED']),
              machines.pool(17, 'unbound', cpus=range(4), pod_cpus=[0, 1], node=0, strict=True),
              machines.pool(18, 'unbound', cpus=range(4), pod_cpus=[2, 3], node=1, flag_names=['MANAGER_ACTIVE'])]
    percpu = {cpu: 4 * cpu + 2 for cpu in range(4)}
    held = [machines.item('held_fn', 0xffff888000006000 + 64 * number, 'batch') for number in range(20)]
    workqueues = [
        machines.workqueue('events', cpu_pool=percpu, pwqs=[machines.pwq(pool) for pool in percpu.values()]),
        machines.workqueue('events_unbound', 'unbound', cpu_pool={0: 17, 1: 17, 2: 18, 3: 18}, dfl_pool=16,
                           min_active=8, flag_names=['UNBOUND', 'SYSFS'],
                           pwqs=[machines.pwq(17), machines.pwq(18), machines.pwq(16)],
                           node_active=[model.NodeActive(0, 2, 512), model.NodeActive(1, 0, 512),
                                        model.NodeActive(-1, 0, 1024)]),
        machines.workqueue('batch', 'unbound', cpu_pool={0: 17, 1: 17, 2: 18, 3: 18}, dfl_pool=16, max_active=4,
                           min_active=4, strict=True, scope='numa', pwqs=[machines.pwq(17, held, 2), machines.pwq(16)],
                           node_active=[model.NodeActive(0, 2, 2)]),
        machines.workqueue('limit', cpu_pool=percpu, max_active=1,
                           pwqs=[machines.pwq(14, [machines.item('second_fn', workqueue='limit')], 1)]),
        machines.workqueue('line', 'ordered', cpu_pool=dict.fromkeys(range(4), 16), dfl_pool=16,
                           pwqs=[machines.pwq(16, plugged=True)]),
        machines.workqueue('rescued', cpu_pool=percpu, flag_names=['MEM_RECLAIM'], rescuer_cpus=[0, 1, 2, 3],
                           pwqs=[machines.pwq(10, mayday=True)],
                           rescuer=machines.worker(62, 'slow_fn', 1.0, state='D', rescuer='rescued'))]
    return snapshot_of([2, 2], pools, workqueues)


def big():
    """Make a machine with 144 CPUs and 18 shards. SMT siblings are 72 apart, so each shard has two ranges of CPUs."""
    shards = [[*range(4 * shard, 4 * shard + 4), *range(72 + 4 * shard, 76 + 4 * shard)] for shard in range(18)]
    snapshot = snapshot_of([36, 36], machines.percpu_pools(range(144)) + [
        machines.pool(577 + number, 'unbound', cpus=range(144), pod_cpus=shard) for number, shard in enumerate(shards)],
        threads=2, shard_size=4)
    snapshot.workqueues = [
        machines.workqueue('events', cpu_pool={cpu: 4 * cpu + 2 for cpu in range(144)}),
        machines.workqueue('events_unbound', 'unbound', dfl_pool=576, cpu_pool={
            cpu: 577 + number for number, shard in enumerate(shards) for cpu in shard})]
    return snapshot


def render(snapshot, *sections, width=None, full=False):
    return '\n'.join(text.lines(snapshot, sections, width, full))


def rows(output, first_word):
    return [line.split() for line in output.splitlines() if line.split()[:1] == [first_word]]


# numbers

def expand(words):
    """Undo text.mapping(). This is written from the description of the format, not from the code."""
    values = {}
    for word in words.split():
        listed, numbers = word.split(':')
        cpus = parse(listed)
        found = []
        for part in numbers.split(','):
            if '..' in part:
                second, last = map(int, part.split('..'))
                step = second - found[-1]
                found += range(second, last + (1 if step > 0 else -1), step)
            else:
                found.append(int(part))
        found = found * len(cpus) if len(found) == 1 else found
        assert len(found) == len(cpus), word
        assert not set(cpus) & set(values)
        values.update(zip(cpus, found))
    return values


@pytest.mark.parametrize('values, words', [
    ({}, ''),
    ({0: 7}, '0:7'),
    ({0: 2, 1: 6}, '0:2 1:6'),
    ({0: 2, 1: 6, 2: 10, 3: 14}, '0-3:2,6,10,14'),
    ({0: 17, 1: 17, 2: 18, 3: 18}, '0-1:17 2-3:18'),
    ({0: 17, 1: 18, 2: 17, 3: 18}, '0,2:17 1,3:18'),
    ({0: 1, 1: 2, 2: 3, 3: 3}, '0:1 1:2 2-3:3'),
    ({0: 0, 2: 1, 4: 2}, '0:0 2:1 4:2'),
    ({cpu: 4 * cpu + 2 for cpu in range(144)}, '0-143:2,6..574'),
    ({cpu: cpu % 72 for cpu in range(144)}, '0-71:0,1..71 72-143:0,1..71'),
    ({0: 9, 1: 6, 2: 3, 3: 0}, '0-3:9,6,3,0'),
])
def test_mapping(values, words):
    assert text.mapping(values) == words
    assert expand(words) == values


def test_mapping_tells_any_map():
    """Any map can be restored from its text."""
    state = 1
    for _ in range(300):
        values = {}
        for cpu in range(24):
            state = state * 1103515245 + 12345 & 0x7fffffff
            if state >> 16 & 7:
                values[cpu] = (state >> 20) % 5
        assert expand(text.mapping(values)) == values


def test_series():
    assert text.series([]) == ''
    assert text.series([4]) == '4'
    assert text.series([1, 2, 3]) == '1,2,3'
    assert text.series(list(range(2, 576, 4)) + [7]) == '2,6..574,7'
    assert text.series([3, 9, *range(20, 40, 2)]) == '3,9,20,22..38'


def test_pieces_lose_nothing():
    assert text.pieces('aa bb cc', 5) == ['aa bb', 'cc']
    assert text.pieces('1-2,3-4,5-6', 8) == ['1-2,3-4,', '5-6']
    assert text.pieces('x' * 12, 5) == ['xxxxx', 'xxxxx', 'xx']
    assert text.pieces('', 5) == ['']


# sections

def test_scopes():
    output = render(small(), 'scopes')
    assert rows(output, 'cache_shard') == [['cache_shard', '(default)', '2', 'node0:', '0:0-1', 'node1:', '1:2-3',
                                            '0-1:0', '2-3:1']]
    assert rows(output, 'cpu')[0][1:] == ['4', 'node0:', '0:0', '1:1', 'node1:', '2:2', '3:3', '0-3:0,1,2,3']
    assert rows(output, 'system')[0][1:] == ['1', 'none:', '0:0-3', '0-3:0']
    assert output.count('(default)') == 1


def test_pools():
    output = render(small(), 'pools')
    assert 'Worker pools: 19' in output
    assert rows(output, '2') == [['2', 'percpu', '0', '0', '1', '1/1']]
    assert rows(output, '3') == [['3', 'percpu', '0', '-20', '1', '1/1']]
    assert rows(output, '16') == [['16', 'unbound', '0-3', '0-3', '0', '9', '0/0']]     # DISASSOCIATED is not shown
    assert rows(output, '17') == [['17', 'unbound', '0-3', '0-1', '0', '0', '1', '0/0', 'strict']]
    assert rows(output, '18')[0][-1] == 'manager_active'


def own_pools():
    """Make a machine where CPUs 1 and 2 have pools of their own."""
    snapshot = small()
    snapshot.pools += [machines.pool(18 + cpu, 'unbound', cpus=range(4), pod_cpus=[0, 1] if cpu < 2 else [2, 3],
                                     own_cpu=cpu) for cpu in (1, 2)]
    for wq in snapshot.workqueues:
        if wq.type == 'unbound':
            wq.cpu_pool = {0: 17, 1: 19, 2: 20, 3: 18}
    return snapshot


def test_own_pools():
    assert 'OWN' not in render(small(), 'pools')
    output = render(own_pools(), 'pools')
    assert ' POD  OWN ' in output.replace('   ', '  ')
    assert rows(output, '16') == [['16', 'unbound', '0-3', '0-3', '0', '9', '0/0']]
    assert rows(output, '19') == [['19', 'unbound', '0-3', '0-1', '1', '0', '1', '0/0']]
    snapshot = own_pools()
    snapshot.pools[-2].waiting = [machines.item('late_fn')]
    assert 'pool 19: unbound, pod 0-1, own=1, nice 0' in render(snapshot, 'now')


def test_select_by_cpu_knows_own_pools():
    assert [pool.id for pool in filters.select(own_pools(), False, 1).pools] == [4, 5, 6, 7, 16, 17, 19]
    assert [pool.id for pool in filters.select(own_pools(), False, 3).pools] == [12, 13, 14, 15, 16, 18]


def test_map():
    output = render(small(), 'map')
    assert rows(output, 'events') == [['events', 'percpu', '0-3:2,6,10,14']]
    assert rows(output, 'events_unbound')[0][1:] == ['unbound', 'default', 'sysfs', '16', '0-1:17', '2-3:18']
    assert rows(output, 'batch') == [['batch', 'unbound', 'numa,strict', '16', '0-1:17', '2-3:18']]
    assert rows(output, 'line') == [['line', 'ordered', 'default', '16', '0-3:16']]


def test_rescuers():
    output = render(small(), 'rescuers')
    assert rows(output, 'rescued') == [['rescued', '62', '0-3', 'runs', 'slow_fn', 'for', '1.0s;', 'called', 'by',
                                        'pool', '10']]
    assert len(output.splitlines()) == 5


def test_active():
    output = render(small(), 'active')
    assert rows(output, 'events_unbound')[0][1:] == ['unbound', '8', '1024', '0', 'node0:2/512', 'node1:0/512',
                                                     'several:0/1024']
    assert rows(output, 'batch') == [['batch', 'unbound', '4', '4', '20', 'node0:2/2']]
    assert rows(output, 'line')[0][2:4] == ['-', '1024']
    assert not rows(output, 'events')


def test_now():
    lines = render(small(), 'now').splitlines()
    start = lines.index('  pool 10: percpu, CPU 2, nice 0, 1 of 2 workers idle, 1 waiting, no item started for 3.2s')
    assert [line.split('  ', 3)[2].split()[0] for line in lines[start + 1:start + 7]] == [
        'runs', 'next', 'rescues', 'manager', 'waits', 'mayday']
    pool = '\n'.join(lines[start:start + 7])
    assert 'hog_fn 0xffff888000002f00 of test for 12s in kworker/60 (pid 60), state R, cpu_intensive' in pool
    assert 'wq_barrier_func 0xffff888000005000 of test (a flush waits for it), only in kworker/60 (pid 60)' in pool
    assert 'slow_fn' in pool and 'for 1.0s in kworker/62 (pid 62), state D' in pool
    assert 'kworker/61 (pid 61) creates a worker' in pool
    assert 'late_fn 0xffff888000001000 of events, none started for 3.2s' in pool
    assert 'the rescuer of rescued was called' in pool
    rest = '\n'.join(lines)
    assert 'second_fn 0xffff888000001000 of limit, 1 of max_active 1 active' in rest
    assert 'held_fn 0xffff888000006000 of batch, 2 of 2 active on node 0' in rest
    assert 'line: until older items of this ordered workqueue are done' in rest
    assert '12 more held_fn of batch' in rest
    assert 'nothing to do in 15 of 19 pools' in rest


def test_now_in_full():
    output = render(small(), 'now', full=True)
    assert output.count('held_fn') == 20 and 'more held_fn' not in output


def test_now_idle():
    snapshot = snapshot_of([1, 1], machines.percpu_pools(range(2)))
    assert 'nothing to do in any pool' in render(snapshot, 'now')


def test_bh_worker_is_the_softirq():
    busy = machines.worker(None, 'tick_fn', 0.1, state='', comm='', item=0x1000, cpu=1)
    snapshot = snapshot_of([1, 1], [machines.pool(4, 'bh', 1, workers=[busy])])
    assert 'runs  tick_fn 0x1000 of test for 0.1s in softirq' in render(snapshot, 'now')


def test_old_kernel():
    """The output leaves out what 6.12 does not have."""
    snapshot = small()
    snapshot.kernel.cache_shard_size = None
    for pool in snapshot.pools:
        for worker in pool.workers:
            worker.running_for = None
    output = render(snapshot, *text.SECTIONS)
    assert 'cache_shard_size' not in output and 'None' not in output


def test_empty_machine():
    """If the dump is damaged, there may be warnings and nothing else."""
    snapshot = snapshot_of([2, 2], [])
    snapshot.warnings = ['worker pools: address is not mapped: 0x10']
    output = render(snapshot, *text.SECTIONS, width=60)
    assert 'Not everything could be read:\n  worker pools: address is not mapped: 0x10' in output


# as the script in a kernel tree

@pytest.mark.parametrize('cpus, words', [
    ([], ''), ([3, 31], '80000008'), ([0, 64], '0x1 0x0 00000001'), (None, '?'),
])
def test_masks_as_base(cpus, words):
    assert asbase.mask(cpus) == words


def test_what_could_not_be_read_as_base():
    """test_drgn.py compares all else with the output of the base kernel's script."""
    snapshot = small()
    snapshot.workqueues[0].cpu_pool.pop(3)
    snapshot.workqueues[1].flag_names.append('MEM_RECLAIM')
    snapshot.workqueues[1].cpus = [0, 1, 2]
    lines = asbase.dump(snapshot, 32)
    assert 'events                           percpu      2  6 10  ?' in lines
    assert 'events_unbound                   00000007          ? ?           ' in lines
    assert 'batch                               4    4       2/2         ?         ?' in lines
    snapshot.kernel.node_cpus = None
    assert asbase.dump(snapshot, 32)[-1] == '=' * len('Unbound workqueue -> node_nr/max_active')


# size

@pytest.mark.parametrize('width', [40, 80, 132, 200])
@pytest.mark.parametrize('machine', [small, big])
def test_width(machine, width):
    """The tables need at least 80 columns. On a narrower terminal they take up to 80."""
    lines = render(machine(), *text.SECTIONS, width=width).splitlines()
    assert max(map(len, lines)) <= max(width, 80)


def test_width_loses_nothing():
    def words(width):
        return sorted(re.sub(r'\s', '', render(big(), 'scopes', 'map', width=width)))
    assert words(80) == words(None)


def test_144_cpus():
    snapshot = big()
    lines = render(snapshot, *text.CONFIGURATION, width=100).splitlines()
    assert len(lines) < 100
    output = render(snapshot, *text.CONFIGURATION)
    assert rows(output, 'events') == [['events', 'percpu', '0-143:2,6..574']]
    shown = rows(output, 'events_unbound')[0]
    assert shown[4:] == [f'{4 * shard}-{4 * shard + 3},{72 + 4 * shard}-{75 + 4 * shard}:{577 + shard}'
                         for shard in range(18)]
    assert rows(output, '2,6..574') == [['2,6..574', 'percpu', '0-143', '0', '1', '1/1']]
    assert rows(output, 'cpu')[0][2:] == ['node0:', '0-35:0-35', 'node1:', '36-71:36-71', 'node0:', '72-107:72-107',
                                            'node1:', '108-143:108-143', '0-143:0,1..143']


def test_own_pools_share_a_line():
    snapshot = big()
    snapshot.pools += [machines.pool(600 + cpu, 'unbound', cpus=range(144), pod_cpus=[0, 1, 2, 3], own_cpu=cpu)
                       for cpu in range(4)]
    assert rows(render(snapshot, 'pools'), '600,601,602,603') == [
        ['600,601,602,603', 'unbound', '0-143', '0-3', '0-3', '0', '1', '0/0']]


def test_144_cpus_in_full():
    snapshot = big()
    assert len(render(snapshot, 'pools', full=True).splitlines()) == len(snapshot.pools) + 4


def test_a_pool_that_differs_has_its_own_line():
    snapshot = big()
    snapshot.pools[6].nr_workers = 7
    output = render(snapshot, 'pools')
    assert rows(output, '6') == [['6', 'percpu', '1', '0', '1', '1/7']]
    assert rows(output, '2,10,14..574') == [['2,10,14..574', 'percpu', '0,2-143', '0', '1', '1/1']]


def test_long_maps_are_written_once():
    snapshot = big()
    snapshot.workqueues.append(dataclasses.replace(snapshot.workqueues[1], name='other'))
    output = render(snapshot, 'map')
    assert rows(output, 'events') == [['events', 'percpu', '0-143:2,6..574']]
    assert [row[4:] for word in ('events_unbound', 'other') for row in rows(output, word)] == [['map1'], ['map1']]
    words = rows(output, 'map1')[0][1:]
    assert len(words) == 18 and expand(' '.join(words)) == snapshot.workqueues[1].cpu_pool


# filters

def test_matcher():
    names = ['events', 'events_unbound', 'kblockd', 'a[b]']

    def found(*patterns, regex=False):
        wanted = filters.matcher(patterns, regex)
        return [name for name in names if wanted(name)]
    assert found() == names
    assert found('events') == ['events']
    assert found('events*') == ['events', 'events_unbound']
    assert found('kblockd', 'events') == ['events', 'kblockd']
    assert found('a[b]') == ['a[b]']        # names may look like patterns
    assert found('un', regex=True) == ['events_unbound']
    assert found('^k|s$', regex=True) == ['events', 'kblockd']


def test_select_by_name_keeps_the_pools_in_use():
    snapshot, same = small(), small()
    snapshot.workqueues = same.workqueues = [wq for wq in snapshot.workqueues if wq.name == 'batch']
    chosen = filters.select(snapshot, True, None)
    assert snapshot == same, 'it was changed'
    assert [pool.id for pool in chosen.pools] == [16, 17, 18]
    assert filters.select(snapshot, False, None) == snapshot


def test_select_by_cpu():
    chosen = filters.select(small(), False, 2)
    assert [cpu.cpu for cpu in chosen.cpus] == [2]
    assert [[pod.id for pod in one.pods] for one in chosen.scopes] == [[2], [2], [1], [1], [1], [0]]
    assert [one.cpu_pod for one in chosen.scopes] == [{2: 2}, {2: 2}, {2: 1}, {2: 1}, {2: 1}, {2: 0}]
    assert [pool.id for pool in chosen.pools] == [8, 9, 10, 11, 16, 18]
    assert {wq.name: wq.cpu_pool for wq in chosen.workqueues} == {
        'events': {2: 10}, 'events_unbound': {2: 18}, 'batch': {2: 18}, 'limit': {2: 10}, 'line': {2: 16},
        'rescued': {2: 10}}
    assert {wq.name: [pwq.pool for pwq in wq.pwqs] for wq in chosen.workqueues} == {
        'events': [10], 'events_unbound': [18, 16], 'batch': [16], 'limit': [], 'line': [16], 'rescued': [10]}


def test_select_by_cpu_without_pools():
    """--section map does not read the pools. The workqueues are filtered anyway."""
    snapshot = small()
    snapshot.pools = []
    assert {wq.name: [pwq.pool for pwq in wq.pwqs] for wq in filters.select(snapshot, False, 2).workqueues}[
        'events_unbound'] == [18, 16]


def test_select_by_cpu_keeps_what_runs_there():
    """A pool is shown if one of its workers runs on the CPU, even if the CPU is outside its pod."""
    snapshot = small()
    snapshot.pools[-2].workers = [machines.worker(70, 'stray_fn', 1.0, state='R', cpu=3)]
    assert [pool.id for pool in filters.select(snapshot, False, 3).pools] == [12, 13, 14, 15, 16, 17, 18]


# JSON

def test_json_is_the_snapshot():
    data = json.loads(jsonout.dumps(small()))
    assert list(data) == ['format'] + [field.name for field in dataclasses.fields(model.Snapshot)]
    assert data['scopes'][3]['pods'][1] == {'id': 1, 'cpus': '2-3', 'node': 1}
    assert data['scopes'][3]['cpu_pod'] == {'0': 0, '1': 0, '2': 1, '3': 1}
    pool = data['pools'][10]
    assert pool['address'] == '0xffff88800010a000' and pool['cpus'] == '2' and pool['pod_cpus'] is None
    assert pool['workers'][0]['item'] == '0xffff888000002f00' and pool['workers'][1]['item'] is None
    assert pool['workers'][0]['scheduled'][0]['barrier'] is True and data['workqueues'][5]['rescuer_cpus'] == '0-3'


def test_json_converts_every_field():
    """Every CPU list becomes a string, and every address becomes hexadecimal."""
    def check(thing, data, where):
        assert set(data) == {field.name for field in dataclasses.fields(thing)}, where
        for field in dataclasses.fields(thing):
            value, plain = getattr(thing, field.name), data[field.name]
            if dataclasses.is_dataclass(value):
                check(value, plain, field.name)
            elif isinstance(value, list) and value and dataclasses.is_dataclass(value[0]):
                for one, other in zip(value, plain):
                    check(one, other, field.name)
            elif isinstance(value, dict) and field.name.endswith('cpus'):
                assert plain == {str(key): model.cpulist(cpus) for key, cpus in value.items()}, field.name
            elif field.name.endswith('cpus') and value is not None:
                assert plain == model.cpulist(value), field.name
            elif isinstance(value, int) and value > 1 << 32:
                assert plain == hex(value), field.name
            elif isinstance(value, list):
                assert plain == value, field.name
    snapshot = small()
    check(snapshot, {key: value for key, value in jsonout.to_dict(snapshot).items() if key != 'format'}, 'Snapshot')


def test_json_of_parts():
    assert list(jsonout.to_dict(small(), {'scopes'})) == ['format', 'kernel', 'cpus', 'scopes', 'warnings']
    assert list(jsonout.to_dict(small(), {'workqueues'})) == ['format', 'kernel', 'workqueues', 'warnings']


def test_json_empty_lists_of_cpus_are_strings():
    snapshot = snapshot_of([2, 2], [])
    snapshot.kernel.unbound_cpus = []
    assert jsonout.to_dict(snapshot)['kernel']['unbound_cpus'] == ''


# errors

class FaultError(Exception):
    """Has the name of drgn's exception, so that the test does not need drgn."""


@pytest.mark.parametrize('error, words', [
    (program.Trouble('do that'), 'do that'),
    (FaultError('address is not mapped: 0x10'), '0x10'),
    (LookupError("could not find 'x'"), 'kind'),
    (AttributeError("'struct worker' has no member 'x'"), "no member 'x'"),
    (ModuleNotFoundError('No module', name='drgn'), 'pip install drgn'),
    (OSError(28, 'No space left on device'), 'output: No space left'),
    (FileNotFoundError(2, 'No such file or directory', 'x.svg'), 'x.svg: No such file'),
])
def test_expected_errors_are_one_line(error, words):
    line = program.describe(error)
    assert words in line and '\n' not in line


@pytest.mark.parametrize('error', [KeyError('x'), AttributeError("no attribute 'x'"),
                                   ModuleNotFoundError('No module', name='wqtools.nix')])
def test_bugs_are_not_hidden(error):
    assert program.describe(error) is None


def run_with(body):
    code = 'import sys\nfrom wqtools import program\n' \
           f'def main():\n    {body}\nsys.argv = ["/x/wq_tool.py"]\nprogram.run(main)\n'
    return subprocess.run([sys.executable, '-c', code], check=False, capture_output=True, text=True, timeout=60,
                          env=WITH_TOOLS)


@pytest.mark.parametrize('body, status, said', [
    ('raise program.Trouble("look elsewhere")', 1, 'wq_tool: look elsewhere\n'), ('return 3', 3, ''), ('pass', 0, ''),
    ('raise KeyboardInterrupt', 130, ''),
])
def test_run(body, status, said):
    done = run_with(body)
    assert (done.returncode, done.stdout, done.stderr) == (status, '', said)


def test_run_shows_bugs():
    assert 'ZeroDivisionError' in run_with('1 / 0').stderr


def test_run_with_a_reader_that_leaves():
    code = 'import sys\nfrom wqtools import program\n' \
           'def main():\n    for number in range(100000):\n        print(number)\nprogram.run(main)\n'
    done = subprocess.run(['bash', '-c', 'set -o pipefail; "$0" -c "$1" | head -1', sys.executable, code],
                          check=False, capture_output=True, text=True, timeout=60, env=WITH_TOOLS)
    assert (done.returncode, done.stdout, done.stderr) == (1, '0\n', '')


def dump(*args, python=VENV_PYTHON):
    env = {key: value for key, value in os.environ.items() if key != 'PYTHONPATH'}
    return subprocess.run([str(python), str(WQ_DUMP), *map(str, args)], check=False, capture_output=True,
                          text=True, timeout=120, env={**env, 'COLUMNS': '100'})


def assert_one_line(done, *words):
    assert done.returncode == 1, done
    assert done.stdout == ''
    assert done.stderr.startswith('wq_dump: ') and done.stderr.count('\n') == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_help_needs_no_drgn():
    done = dump('--help', python=sys.executable)
    assert done.returncode == 0 and done.stderr == ''
    for section in text.SECTIONS:
        assert re.search(rf'^  {section}\s', done.stdout, re.M), section


ELF_CORE = b'\x7fELF\2\1\1' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 4, 62, 1, 0, 64, 0, 0, 64, 56, 0, 0, 0, 0)


@pytest.mark.parametrize('content', [b'', b'no core at all\n', ELF_CORE, Path(sys.executable).read_bytes()],
                         ids=['empty', 'text', 'core', 'program'])
def test_no_kernel(tmp_path, content):
    assert_one_line(dump('--core', tmp_path / 'core'), 'no such file')
    (tmp_path / 'core').write_bytes(content)
    assert_one_line(dump('--core', tmp_path / 'core'), 'a kernel')
    assert_one_line(dump('--core', tmp_path), 'not the memory of a kernel')


def test_no_symbols(tmp_path):
    assert_one_line(dump('--core', '/dev/null', '-s', tmp_path / 'vmlinux'), 'no such file', '--symbols')


@pytest.mark.parametrize('args, words', [
    (['--section', 'nix'], "no section 'nix'"),
    (['--json', '--picture'], '--json can be used with'),
    (['-e', 't_('], 'not a regular expression'),
    (['--width', '0'], 'not a number of columns'),
    (['--stalls', 'nan'], 'number of seconds'),
])
def test_wrong_options(args, words):
    done = dump(*args, python=sys.executable)
    assert done.returncode == 2 and words in done.stderr


def test_groups_of_sections():
    def chosen(*args):
        return [name for names in wq_dump.options(['--section', *args]).section for name in names]
    assert chosen('config') == list(text.CONFIGURATION) == [*text.SECTIONS][:-1]
    assert chosen('all') == list(text.SECTIONS)
    assert chosen('now,scopes') == ['now', 'scopes']


@pytest.mark.parametrize('args, shown', [
    ([], ['base']), (['events'], ['sections']), (['--json'], ['sections']), (['--section', 'map'], ['sections']),
    (['--work', '0x1'], ['work']), (['--work', '0x1', '--json'], ['work']), (['--stalls'], ['machine']),
    (['--picture', '--section', 'now'], ['machine', 'sections']), (['--core', 'x', '-s', 'y'], ['base']),
])
def test_what_options_show(args, shown, monkeypatch):
    called = []
    monkeypatch.setattr(sys, 'argv', ['wq_dump.py', *args])
    monkeypatch.setattr(program, 'get', lambda args: None)
    for name, what in (('as_base', 'base'), ('sections', 'sections'), ('work', 'work'), ('machine', 'machine')):
        monkeypatch.setattr(wq_dump, f'show_{name}', lambda *unused, what=what: called.append(what))
    wq_dump.main()
    assert called == shown


# files

def test_svg_is_written_whole_or_not_at_all(tmp_path):
    picture = tmp_path / 'picture.svg'
    wq_dump.write_file(str(picture), '<svg/>')
    assert picture.read_text() == '<svg/>' and not picture.stat().st_mode & 0o111
    with pytest.raises(UnicodeEncodeError):
        wq_dump.write_file(str(picture), '<svg>\ud800</svg>')
    assert picture.read_text() == '<svg/>'
    assert os.listdir(tmp_path) == ['picture.svg']
    with pytest.raises(program.Trouble, match='cannot write .*nowhere'):
        wq_dump.write_file(str(tmp_path / 'nowhere' / 'x.svg'), '')


# documentation

def test_every_field_is_documented():
    """json.rst describes exactly the fields of each object."""
    document = (WQ_DUMP.parent / 'json.rst').read_text()
    classes = [value for value in vars(model).values() if dataclasses.is_dataclass(value)]
    assert set(re.findall(r'^``(\w+)``\n\^+$', document, re.M)) == {one.__name__ for one in classes}
    for one in classes:
        section = re.search(rf'^``{one.__name__}``\n\^+\n(.*?)(?=^``\w+``\n\^|\Z)', document, re.M | re.S)[1]
        documented = re.findall(r'^``(\w+)``\n    \S', section, re.M)
        assert documented == [field.name for field in dataclasses.fields(one)], one.__name__
    assert f'is its version, {model.FORMAT} at' in document

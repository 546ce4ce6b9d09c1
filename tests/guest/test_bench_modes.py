# SPDX-License-Identifier: GPL-2.0
"""The modes of the benchmark module, on each kind of workqueue: what they do is counted, not timed."""

import math

import pytest

import bench_guests
import guests
from wqlab.bench import parse as bench_parse
from wqlab.logs import check
from wqlab.scopes import FEW

pytestmark = guests.needs('uml')
ITEMS, BATCH, SAMPLE = 200, 8, 17
CASES = [(mode, kind) for mode in bench_parse.MODES for kind in bench_parse.KINDS
         if kind != 'bh' or mode not in ('mixed', 'limit')]
ONE_THREAD = ('burst', 'spread')
SAMPLED = ('latency', 'batch', 'roam', 'limit')
FAULTS = ('lose', 'twice', 'refuse')


def case(mode, kind='unbound', **more):
    """Items that take 2 ms make sure that the run lasts for some ticks of the probe."""
    scopes = 'cpu,system' if kind.startswith('unbound') else ''
    more = {'mode': mode, 'wq': kind, 'items': ITEMS, 'batch': BATCH, 'warmup': 0, 'scopes': scopes,
            'burn_us': 2000 if mode == 'mixed' else 20, **more}
    return ' '.join(f'{key}={value}' for key, value in more.items())


@pytest.fixture(scope='module')
def passes():
    blocks, result = bench_guests.run_each([case(*one) for one in CASES])
    assert not check.bad_lines(result.kernel)
    return blocks


@pytest.mark.parametrize('mode, kind', CASES, ids=lambda value: value)
def test_each_item_ran_once(passes, mode, kind):
    parsed, found = bench_guests.counts(passes[case(mode, kind)])
    assert parsed['status'] == 'ok' and not any(found.values())
    assert [note for note in parsed['notes'] if 'taints kernel' not in note] == []
    assert [run['scope'] for run in parsed['runs']] == \
        (['cpu', 'system'] if kind.startswith('unbound') else ['default'])
    threads = 1 if mode in ONE_THREAD else bench_guests.CPUS
    for run in parsed['runs']:
        assert (run['mode'], run['wq'], run['threads']) == (mode, kind, threads)
        assert run['items'] == ITEMS * threads and run['in_flight'] == (1 if mode == 'latency' else BATCH)
        assert (run['kworkers'] == 0) == (kind == 'bh')


@pytest.mark.parametrize('mode, kind', CASES, ids=lambda value: value)
def test_waits_are_recorded(passes, mode, kind):
    sample = SAMPLE if mode in SAMPLED else 1
    for run in bench_parse.parse_output(passes[case(mode, kind)])['runs']:
        assert run['sample'] == sample and run['waits'] == run['threads'] * math.ceil(ITEMS / sample)
        figures = ['', 'start_', 'done_'] + ['makespan_'] * (mode in ONE_THREAD) + ['probe_'] * (mode == 'mixed')
        for figure in figures:
            found = [run[figure + key] for key in bench_parse.QUANTILES]
            assert found == sorted(found) and found[-1] > 0


@pytest.mark.parametrize('mode, kind', CASES, ids=lambda value: value)
def test_what_only_some_modes_count(passes, mode, kind):
    on_one_cpu = kind in ('percpu', 'reclaim', 'highpri', 'bh')
    for run in bench_parse.parse_output(passes[case(mode, kind)])['runs']:
        assert run['judged'] == ('yes' if on_one_cpu and mode != 'roam' else 'no')
        if mode in ONE_THREAD:
            assert run['rounds'] == ITEMS // BATCH
            assert 1 <= run['cpus_mean'] <= run['cpus'] <= (1 if on_one_cpu else bench_guests.CPUS)
        if mode == 'mixed':
            assert run['probes'] > 0
        if mode == 'roam':
            assert run['moves'] == run['threads'] * math.ceil(ITEMS / BATCH / 2)
        if mode == 'limit':
            assert run['max_active'] == (0 if kind == 'ordered' else BATCH // 4)


@pytest.fixture(scope='module')
def broken():
    """One thread loses one item, the last one. Two threads have each 100th run twice, or refused."""
    cases = [case(mode, scopes='system', fault=fault, timeout=1, **more) for mode in bench_parse.MODES
             for fault, more in (('lose', {'threads': 1, 'every': ITEMS}), ('twice', {'threads': 2, 'every': 100}),
                                 ('refuse', {'threads': 2, 'every': 100}))]
    blocks, result = bench_guests.run_each(cases)
    assert not check.bad_lines(result.kernel)
    return dict(zip([(mode, fault) for mode in bench_parse.MODES for fault in FAULTS], blocks.values(), strict=True))


@pytest.mark.parametrize('fault', FAULTS)
@pytest.mark.parametrize('mode', bench_parse.MODES)
def test_each_mode_notices_faults(broken, mode, fault):
    parsed, found = bench_guests.counts(broken[mode, fault])
    assert parsed['status'] == 'violated'
    assert found.pop({'lose': 'lost', 'twice': 'twice', 'refuse': 'refused'}[fault]) == \
        (1 if fault == 'lose' else 2 * ITEMS // 100)
    assert not any(found.values())


def test_a_lost_probe_counts():
    blocks, _ = bench_guests.run_each([case('mixed', scopes='system', fault='probe', every=1)])
    parsed, found = bench_guests.counts(*blocks.values())
    assert parsed['status'] == 'violated' and found.pop('lost') == bench_guests.CPUS and not any(found.values())
    assert all(run['probes'] == 0 and run['late'] > 0 for run in parsed['runs'])


@pytest.mark.parametrize('kind', ['percpu', 'highpri'])
def test_items_on_another_cpu_count(kind):
    blocks, _ = bench_guests.run_each([case('batch', kind, fault='outside', every=50)])
    parsed, found = bench_guests.counts(*blocks.values())
    assert parsed['status'] == 'violated' and not any(found[key] for key in found if key != 'outside')
    assert found['outside'] == bench_guests.CPUS * ITEMS // 50


# Workqueues without items

DEFAULT_SCOPE = '/sys/module/workqueue/parameters/default_affinity_scope'
LIFE = {kind: f'mode=life wq={kind} batch=64' for kind in bench_parse.KINDS}


@pytest.fixture(scope='module')
def lives():
    blocks, result = bench_guests.run_each(list(LIFE.values()))
    assert not check.bad_lines(result.kernel)
    return blocks


def life_of(block):
    """Return the figures of a pass, of which there is one line."""
    line, = (text for text in bench_parse.tagged_lines(block) if text.startswith('life '))
    assert f'{bench_parse.PREFIX}done status=ok runs=1 ' in block
    return {key: int(value) if value.isdigit() else value
            for key, value in bench_parse.parse_fields(line.removeprefix('life ')).items()}


@pytest.mark.parametrize('kind', bench_parse.KINDS)
def test_life_of_a_workqueue(lives, kind):
    run = life_of(lives[LIFE[kind]])
    assert (run['mode'], run['wq'], run['count']) == ('life', kind, 64) and run['bytes'] >= 0
    for step in ('create', 'flush', *(['change'] if kind.startswith('unbound') else []), 'destroy'):
        assert 0 < run[f'{step}_p25_ns'] <= run[f'{step}_p50_ns'] <= run[f'{step}_max_ns'] >= run[f'{step}_mean_ns']
    assert ('change_p50_ns' in run) == kind.startswith('unbound')


def test_a_rescuer_has_a_stack(lives):
    """Each workqueue of this kind keeps a thread. 64 of them are enough to see their stacks, which are 16 KiB each."""
    assert life_of(lives[LIFE['reclaim']])['bytes'] >= 16384


def test_life_has_the_default_scope():
    steps = [f'echo {scope} >{DEFAULT_SCOPE}; dmesg -c >/dev/null; insmod {bench_guests.MODULE} mode=life batch=4 '
             f"2>/dev/null; echo '@ {scope}'; dmesg -c | grep -a test_bench_faults:" for scope in FEW]
    result = bench_guests.run('; '.join([*steps, 'true']))
    blocks = bench_guests.renamed(result.output).split('@ ')[1:]
    assert [life_of(block)['actual'] for block in blocks] == list(FEW)


@guests.needs('qemu')
def test_cpus_that_take_turns():
    """With icount one of several CPUs runs at a time. So items go from CPU to CPU, and instructions are counted."""
    folder = guests.kernel('qemu')
    modes = ('roam', 'spread')
    steps = [f"dmesg -c >/dev/null; insmod /bench.ko {case(mode, burn_us=2000)} 2>/dev/null; echo '@ {mode}'; "
             f"dmesg -c | grep -a '{bench_parse.PREFIX}'" for mode in modes]
    result = guests.guest.run(folder, '; '.join([*steps, 'true']), engine='qemu', cpus=4, mem='512M', icount=True,
                              timeout=120, files=[f'{folder}/lib/cmwq/test_workqueue.ko:/bench.ko'])
    blocks = dict(block.split('\n', 1) for block in result.output.split('@ ')[1:])
    assert list(blocks) == list(modes)
    for mode in modes:
        parsed, found = bench_guests.counts(blocks[mode])
        assert parsed['status'] == 'ok' and not any(found.values()) and len(parsed['runs']) == 2
    assert all(run['moves'] > 0 for run in bench_parse.parse_output(blocks['roam'])['runs'])
    spread = bench_parse.parse_output(blocks['spread'])['runs'][1]
    assert spread['scope'] == 'system' and spread['cpus_mean'] > 1

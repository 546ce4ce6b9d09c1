# SPDX-License-Identifier: GPL-2.0
"""advise.sh: pods, statistics, verdicts on made-up figures, options, what is put back, whole runs with a fake guest."""
import os
import random
import re
import signal
import subprocess
import sys
import time
import types
from collections import Counter

import pytest

import copied
from calls import HEARS_ALL, stub
from wqlab.advise import keeper, loads, machine, measure, options, pods, verdict, waits, words
from wqlab.advise import run as advise
from wqlab.bench import parse
from wqlab.paths import ROOT
from wqlab.scopes import SCOPES, SHARD
from wqlab.steps import Failure

RECORDED = (ROOT / 'tests/data/bench/uml-base.log').read_text()
ALL = list(loads.LOADS)
KEYS = [loads.key(load, figure) for load, figure in loads.figures_of(ALL)]


# Pods

def described(cores, threads=1, llcs=1, nodes=1, size='8', mode=0o644, **files):
    """Return a machine of so many cores in all. CPU n and n + cores are threads of a core, as on most machines."""
    online = f'0-{cores * threads - 1}'
    found = {pods.ONLINE: online, pods.POSSIBLE: online, pods.SHARD_SIZE: size}
    for cpu in range(cores * threads):
        place, core = f'devices/system/cpu/cpu{cpu}', cpu % cores
        llc = [f'{first}-{first + cores // llcs - 1}' for first in
               (core // (cores // llcs) * (cores // llcs) + cores * thread for thread in range(threads))]
        found[f'{place}/topology/thread_siblings_list'] = ','.join(str(core + cores * n) for n in range(threads))
        found |= {f'{place}/cache/index0/level': '1', f'{place}/cache/index0/shared_cpu_list': str(cpu),
                  f'{place}/cache/index3/level': '3', f'{place}/cache/index3/shared_cpu_list': ','.join(llc)}
    for node in range(nodes):
        each = cores // nodes
        found[f'devices/system/node/node{node}/cpulist'] = ','.join(
            f'{node * each + cores * n}-{node * each + each - 1 + cores * n}' for n in range(threads))
    return pods.Machine({**found, **files}, mode)


def sizes(machine_, scope, size=None):
    return sorted(map(len, machine_.pods(pods.Setting(scope, size))), reverse=True)


@pytest.mark.parametrize('cores, size, ours, wanted', [
    (36, 8, True, [8, 7, 7, 7, 7]), (20, 8, True, [7, 7, 6]), (11, 8, True, [6, 5]), (11, 8, False, [11]),
    (36, 8, False, [8, 7, 7, 7, 7]), (20, 8, False, [7, 7, 6]), (4, 8, False, [4]), (8, 1, True, [1] * 8)])
def test_shards_of_both_kernels(cores, size, ours, wanted):
    """Ours never has more cores in a shard than asked for, the base kernel comes close."""
    one = described(cores, mode=0o644 if ours else 0o444)
    assert sizes(one, SHARD, size) == wanted


def test_shards_do_not_part_threads():
    one = described(6, threads=2, size='4')
    assert sizes(one, SHARD) == [6, 6] and {0, 1, 2, 6, 7, 8} in one.pods(pods.Setting(SHARD))
    assert sizes(one, 'smt') == [2] * 6 and sizes(one, 'cpu') == [1] * 12


def test_pods_of_all_scopes():
    one = described(16, llcs=4, nodes=2)
    assert [len(one.pods(pods.Setting(scope))) for scope in SCOPES] == [16, 16, 4, 4, 2, 1]


def test_cpus_that_unbound_items_may_not_use_are_in_no_pod():
    one = described(8, **{pods.UNBOUND: '000000fe'})
    assert one.usable == set(range(1, 8)) and sizes(one, 'system') == [7]
    # it still has a place in its shard
    one = described(8, size='4', **{pods.UNBOUND: '000000fe'})
    assert sizes(one, SHARD) == [4, 3]


def chosen(one, default='cache_shard', scopes=SCOPES, shard_sizes=()):
    settings, same = pods.choose(one, default, scopes, shard_sizes)
    return [setting.name for setting in settings], same


def test_settings_with_the_same_pods_are_measured_once():
    assert chosen(described(4)) == (['cpu'], {'smt': 'cpu', 'cache': 'cache_shard', 'numa': 'cache_shard',
                                              'system': 'cache_shard'})
    names, same = chosen(described(16, threads=2, llcs=2, nodes=2), shard_sizes=[1, 2, 4, 8, 64])
    assert names == ['cpu', 'smt', 'system', 'cache_shard/2', 'cache_shard/4']
    assert same == {'cache': 'cache_shard', 'numa': 'cache_shard', 'cache_shard/1': 'smt',
                    'cache_shard/64': 'cache_shard'}


def test_unknown_pods_are_not_taken_for_the_same():
    one = described(2)
    files = {path: text for path, text in one.files.items() if '/cache/' not in path and 'topology' not in path}
    assert chosen(pods.Machine(files, 0o644))[0] == ['cpu', 'smt', 'cache', 'numa']
    # CPUs that may come later change the shards
    one = pods.Machine({**one.files, pods.POSSIBLE: '0-7'}, 0o644)
    assert 'cache' in chosen(one)[0]


def test_one_cpu_has_no_choice():
    assert chosen(described(1))[0] == []


# Rounds

def test_a_turn_is_a_round_and_its_reverse():
    names = ['A', 'B', 'C']
    assert [''.join(measure.order_of(names, number)) for number in range(8)] == \
        ['ABC', 'CBA', 'BCA', 'ACB', 'CAB', 'BAC', 'ABC', 'CBA']


def test_items_of_a_slice():
    assert loads.more_items(64, 1000, 2_000) == 128
    assert loads.more_items(64, 10, 1e9) == 640 and loads.more_items(64, 0, 1e9) == 640
    assert loads.more_items(1000, 10**9, 10) == 1
    burst = loads.LOADS['burst']
    assert loads.whole_rounds(burst, 100, 2) == 96 and loads.whole_rounds(burst, 1, 2) == 32
    assert loads.whole_rounds(loads.LOADS['latency'], 101, 2) == 101


class Fake:
    """A machine whose default scope does @rate items in a second, all threads together."""
    cpus, scopes = 2, list(SCOPES)

    def __init__(self, rate=200_000, **changes):
        self.rate, self.changes, self.orders, self.sizes = rate, changes, [], []

    def run(self, order):
        self.orders.append((order, self.sizes[-1] if self.sizes else None))
        items = int(order['items'])
        return {'actual': 'cache_shard', 'items': items, 'elapsed_ns': round(items * 1e9 / self.rate), 'hotplug': 0,
                'items_per_s': self.rate, 'kworkers': 4, 'threads': 2, 'start_p99_ns': 10, 'makespan_p50_ns': 10,
                **self.changes}

    def set_shard_size(self, size):
        self.sizes.append(size)


def test_a_slice_takes_about_as_long_as_asked_for():
    for rate in (500, 200_000, 30_000_000):
        items = measure.calibrated(Fake(rate), 'latency', 100)
        assert 0.05 < items / rate < 0.2


def measuring(fake, **changes):
    params = {'minutes': 0.01, 'threshold': 5, 'shard_sizes': [2], 'engine': None, 'loads': None, 'scopes': None}
    record = {'parameters': params, 'settings': [{'scope': 'cpu', 'shard_size': None},
                                                 {'scope': SHARD, 'shard_size': 2}],
              'present': {'scope': 'cache_shard', 'shard_size': 8, 'can_resize': True}, 'items': {'latency': 5},
              'turns': [], 'same': {}, 'lacking': [], **changes}
    said = []
    return measure.Measuring(fake, record, said.append), record, said


def test_each_setting_runs_each_load_in_each_round():
    fake = Fake()
    one, record, _ = measuring(fake, items={'latency': 5, 'batch': 64})
    one.turn(0)
    names = ['default', 'default again', 'cpu', 'cache_shard/2']
    turn, = record['turns']
    assert [list(found) for found in turn['rounds']] == [['latency', 'batch']] * 2
    assert all(list(runs) == names for found in turn['rounds'] for runs in found.values())
    count = Counter((order['mode'], order['scopes']) for order, _ in fake.orders)
    assert count == {(load, scope): times for load in ('latency', 'batch')
                     for scope, times in (('default', 4), ('cpu', 2), ('cache_shard', 2))}


def test_a_size_of_shards_holds_for_a_run_only():
    fake = Fake()
    one, _, _ = measuring(fake)
    one.turn(0)
    assert fake.sizes == [2, 8] * 2
    assert [size for order, size in fake.orders if order['scopes'] == 'cache_shard'] == [2, 2]
    assert {size for order, size in fake.orders if order['scopes'] != 'cache_shard'} <= {None, 8}


def test_the_size_is_set_back_when_a_run_fails():
    fake = Fake()

    def fail(order):
        raise KeyboardInterrupt
    fake.run = fail
    with pytest.raises(KeyboardInterrupt):
        measure.one_run(fake, pods.Setting(SHARD, 2), 'latency', 5, 8)
    assert fake.sizes == [2, 8]


@pytest.fixture
def slow(monkeypatch):
    """Return a machine on which each run takes 1/64 s, by a clock that nothing else moves."""
    class Slow(Fake):
        seconds = 0.0

        def run(self, order):
            self.seconds += 1 / 64
            return super().run(order)
    fake = Slow()
    monkeypatch.setattr(measure, 'time', types.SimpleNamespace(monotonic=lambda: fake.seconds))
    return fake


def test_turns_are_made_until_the_time_is_over(slow):
    """A turn of 8 runs takes 1/8 s of 0.6 s."""
    one, record, _ = measuring(slow)
    one.go()
    assert len(record['turns']) == 5


def test_a_turn_that_takes_too_long_is_given_up(slow):
    """On a machine with many CPUs a turn may take longer than all the time that there is."""
    one, record, said = measuring(slow)
    one.budget = one.latest = 1 / 16
    one.go()
    assert not record['turns'] and said == ['the last turn took too long, and does not count']


def test_turns_in_which_cpus_come_do_not_count():
    one, record, said = measuring(Fake(hotplug=1))
    one.turn(0)
    assert not record['turns'] and 'CPUs came or went' in said[0]


def test_somebody_else_changes_the_default_scope():
    one, _, _ = measuring(Fake(actual='numa'))
    with pytest.raises(Failure, match='changed from cache_shard to numa'):
        one.turn(0)


# Statistics and verdicts

def turns_of(settings, turns=24, noise=0.02, seed=3, drift=0.0, again=1.0):
    """Make up turns. settings: {name: {key or load: gain over the default, 1 if it is not named}}."""
    chance, names = random.Random(seed), {'default': {}, pods.AGAIN: dict.fromkeys(KEYS, again), **settings}
    found = []
    for _ in range(turns):
        rounds = []
        for half in (0, 1):
            runs = {load: {} for load in ALL}
            state = chance.lognormvariate(0, 0.3)       # of the machine: the same for all settings of a round
            for at, name in enumerate(names):
                place = at if half == 0 else len(names) - 1 - at
                for load, figure in loads.figures_of(ALL):
                    gains = names[name]
                    gain = gains.get(loads.key(load, figure), gains.get(load.name, 1.0))
                    gain *= state * chance.lognormvariate(0, noise) * (1 + drift) ** (place + len(names) * half)
                    value = 1e5 * gain if figure.more else 1e5 / gain
                    runs[load.name].setdefault(name, {'kworkers': 4, 'threads': 2})[figure.metric] = value
            rounds.append(runs)
        found.append({'rounds': rounds})
    return found


def record_of(settings, turns, **changes):
    params = {'threshold': 5, 'shard_sizes': None, 'engine': None, 'minutes': 8, 'loads': None, 'scopes': None}
    parsed = [name.partition('/') for name in settings]
    record = {'parameters': params, 'items': dict.fromkeys(ALL, 1), 'turns': turns, 'same': {}, 'lacking': [],
              'settings': [{'scope': scope, 'shard_size': int(size) if size else None} for scope, _, size in parsed],
              'present': {'scope': 'cache_shard', 'shard_size': 8, 'can_resize': True}, **changes}
    advise.conclude(record)
    return record


def advice_on(settings, **changes):
    record = record_of(settings, turns_of(settings, **changes))
    return record['advice'], record


def test_a_clear_winner_is_chosen():
    advice, record = advice_on({'cpu': {'latency': 0.8}, 'numa': {'latency': 1.4, 'spread': 1.2}, 'system': {}})
    assert advice['verdict'] == verdict.CHOOSE and advice['setting'] == 'numa' and not advice['trades']
    assert {row['key'] for row in advice['gains']} == {'latency items/s', 'latency wait p99', 'spread makespan'}
    for row in advice['gains']:
        stat = row[verdict.PROVE]
        assert stat['low'] <= (1.2 if row['load'] == 'spread' else 1.4) <= stat['high']
    text = advice['text']
    assert text.startswith('Choose numa instead of cache_shard with shards of 8 cores: 1.')
    assert re.search(r'1\.[34]\d \(\d\.\d\d-\d\.\d\d\) times the items/s in latency', text)
    assert 'echo numa >/sys/module/workqueue/parameters/default_affinity_scope' in text
    # 2 threads, 100,000 items/s: 20 us each, 5.7 us less
    assert re.search(r'An item of latency takes 5\.\d\d us less, so a CPU that queues fewer than 1,\d{3} items/s', text)
    assert 'workqueue-admin.rst' in text


def test_no_difference_means_leave_it():
    advice, _ = advice_on({'cpu': {}, 'numa': {'latency': 1.03}, 'system': {}})
    assert advice['verdict'] == verdict.LEAVE and not advice['trades']
    assert advice['text'].startswith('Leave it at cache_shard with shards of 8 cores: no other setting was shown to be '
                                     'better by 5% or more in any figure.')
    assert re.search(r'wider than ±[1-4]%', advice['text'])


def test_a_loss_elsewhere_is_a_trade():
    """Neither is hidden: what wins one load and loses another is no advice for all."""
    advice, _ = advice_on({'cpu': {'batch': 1.5, 'spread': 0.6}, 'system': {'spread': 1.3, 'batch': 0.7}})
    assert advice['verdict'] == verdict.TRADE and 'setting' not in advice
    text = advice['text']
    assert 'there is a trade' in text and 'echo' not in text
    assert re.search(r'cpu gives 1\.\d\d \(.*?\) times the items/s in batch, but costs: spread makespan 0\.[56]', text)
    assert re.search(r'system gives 1\.[23]\d \(.*?\) times as fast in spread, but costs: batch items/s 0\.7\d|'
                     r'batch items/s 0\.6\d', text)


def test_the_best_of_one_load_is_told_beside_a_choice():
    advice, _ = advice_on({'numa': {'latency': 1.2}, 'cpu': {'batch': 2.0, 'burst': 0.5}})
    assert (advice['verdict'], advice['setting']) == (verdict.CHOOSE, 'numa')
    assert 'For one load alone: cpu gives' in advice['text'] and 'but costs: burst makespan' in advice['text']


def test_noise_is_no_gain():
    """The default setting against itself differs by more than the settings do."""
    advice, _ = advice_on({'numa': {'latency': 1.15}}, again=1.2)
    assert advice['verdict'] == verdict.LEAVE
    advice, _ = advice_on({'numa': {'latency': 1.15}}, again=1.5)
    assert advice['verdict'] == verdict.NOISY and 'nothing can be said: in 7 of 7 figures' in advice['text']
    assert sorted(advice['noisy']) == sorted(KEYS)


def noisy_in(loads_of_noise, settings):
    """Make up turns in which the default setting differs from itself in these loads."""
    turns = turns_of(settings)
    for turn in turns:
        for found in turn['rounds']:
            for load in loads_of_noise:
                for figure in loads.LOADS[load].figures:
                    found[load][pods.AGAIN][figure.metric] *= 2
    return record_of(settings, turns)


def test_most_figures_must_be_quiet():
    """If four of seven figures are too noisy, no setting is chosen, since the noise may hide a loss."""
    settings = {'numa': {'latency': 1.5}}
    assert noisy_in(['batch', 'burst', 'spread'], settings)['advice']['verdict'] == verdict.CHOOSE
    record = noisy_in(['batch', 'burst', 'mixed'], settings)
    assert record['advice']['verdict'] == verdict.NOISY
    line = next(line for line in words.lines(record) if line.startswith('numa'))
    assert line.count(' !') == 4 and line.count(' +') == 2


def test_one_noisy_figure_is_left_out():
    advice = noisy_in(['burst'], {'numa': {'latency': 1.5}, 'cpu': {}})['advice']
    assert advice['noisy'] == ['burst makespan'] and advice['verdict'] == verdict.CHOOSE
    assert 'Too noisy to judge: burst makespan.' in advice['text']


@pytest.mark.tier('test')
def test_much_noise_rarely_makes_a_choice():
    """Five settings like the default, with noise of 30%, and a threshold that never helps. Luck must not win."""
    found = Counter()
    for seed in range(12):
        settings = {name: {} for name in ('cpu', 'smt', 'cache', 'numa', 'system')}
        turns = turns_of(settings, noise=0.3, seed=seed)
        found[record_of(settings, turns)['advice']['verdict']] += 1
    assert found[verdict.CHOOSE] + found[verdict.TRADE] <= 1


def test_drift_of_the_machine_is_cancelled():
    """It slows down by 3% with each run. The reverse order of the second round makes up for that."""
    _, record = advice_on({'cpu': {}, 'numa': {}}, drift=-0.03, noise=0.005)
    assert all(abs(row[verdict.PROVE]['median'] - 1) < 0.01 for row in record['rows'])


def test_half_of_the_turns_pick_and_the_others_prove():
    settings = {'numa': {}}
    turns = turns_of(settings, noise=0.01)
    for turn in turns[0::2]:
        for found in turn['rounds']:
            found['batch']['numa']['items_per_s'] *= 2
    record = record_of(settings, turns)
    row, = (row for row in record['rows'] if row['setting'] == 'numa' and row['load'] == 'batch')
    assert row[verdict.PICK]['median'] > 1.9 and abs(row[verdict.PROVE]['median'] - 1) < 0.05
    assert record['advice']['verdict'] == verdict.LEAVE
    assert 'numa looked better in one half of the turns' in record['advice']['text']


def test_the_second_best_is_chosen_if_the_best_is_not_proven():
    settings = {'numa': {}, 'cpu': {'latency': 1.3}}
    turns = turns_of(settings, noise=0.01)
    for turn in turns[0::2]:
        for found in turn['rounds']:
            found['batch']['numa']['items_per_s'] *= 2
    advice = record_of(settings, turns)['advice']
    assert (advice['verdict'], advice['setting']) == (verdict.CHOOSE, 'cpu')


def test_a_possible_loss_prevents_a_choice():
    """batch gets better, and spread perhaps much worse: its interval has 1, but its median is bad."""
    settings = {'cpu': {'batch': 1.5}}
    turns = turns_of(settings)
    for at, turn in enumerate(turns):
        for found in turn['rounds']:
            found['spread']['cpu']['makespan_p50_ns'] *= 2 if at // 6 % 2 else 0.98
    advice = record_of(settings, turns)['advice']
    assert advice['verdict'] != verdict.CHOOSE


def test_few_turns_are_no_advice():
    advice, _ = advice_on({'numa': {'latency': 2.0}}, turns=2 * verdict.FEWEST - 1)
    assert advice['verdict'] == verdict.SHORT and '7 turns were made, and 8 are needed' in advice['text']


def test_same_pods_everywhere():
    record = record_of({}, [], same={'cpu': 'cache_shard'})
    assert record['advice']['verdict'] == verdict.ALIKE and 'nothing to choose' in record['advice']['text']
    assert 'cpu: the same pods as cache_shard, not measured' in words.lines(record)


def test_a_metric_that_is_missing_is_not_settled():
    settings = {'numa': {'latency': 1.5}}
    turns = turns_of(settings)
    for turn in turns:
        for found in turn['rounds']:
            del found['mixed']['numa']['start_p99_ns']
    record = record_of(settings, turns)
    row, = (row for row in record['rows'] if row['setting'] == 'numa' and row['key'] == 'mixed wait p99')
    assert row[verdict.PROVE] is None and row[f'{verdict.PROVE}_class'] == verdict.UNCLEAR
    assert record['advice']['verdict'] == verdict.CHOOSE
    assert 'Not settled: mixed wait p99 -.' in record['advice']['text']


@pytest.mark.parametrize('stat, wanted', [
    ((1.2, 1.1, 1.3), verdict.BETTER), ((0.8, 0.7, 0.9), verdict.WORSE), ((1.0, 0.97, 1.03), verdict.SAME),
    ((1.2, 0.9, 1.4), verdict.UNCLEAR), ((0.8, 0.7, 1.1), verdict.UNCLEAR), ((1.03, 1.01, 1.2), verdict.UNCLEAR),
    ((1.03, 1.01, 1.04), verdict.SAME), ((0.97, 0.96, 0.99), verdict.SAME), (None, verdict.UNCLEAR)])
def test_classes(stat, wanted):
    assert verdict.class_of(stat and dict(zip(('median', 'low', 'high'), stat)), 0.05) == wanted


def test_a_size_of_shards_is_advised():
    settings = {'cpu': {}, 'cache_shard/4': {'latency': 1.3}}
    advice, _ = advice_on(settings)
    wanted = 'Choose cache_shard with shards of 4 cores instead of cache_shard with shards of 8 cores: '
    assert advice['text'].startswith(wanted)
    assert 'echo 4 >/sys/module/workqueue/parameters/cache_shard_size' in advice['text']
    assert 'boot with workqueue.cache_shard_size=4' in advice['text']


@pytest.mark.parametrize('present, sizes_given, text', [
    ({'shard_size': 8, 'can_resize': True}, None, 'Other sizes of shards were not tried: --shard-sizes does that.'),
    ({'shard_size': 8, 'can_resize': False}, None, 'Other sizes of shards were not tried: this kernel can change them '
                                                   'only at boot.'),
    ({'shard_size': None, 'can_resize': False}, None, 'This kernel has no cache_shard, so there is no size to choose.'),
    ({'shard_size': 8, 'can_resize': True}, [2], 'Shards of the sizes asked for are the same as '),
])
def test_why_sizes_were_not_tried(present, sizes_given, text):
    settings = {'cpu': {}}
    record = record_of(settings, turns_of(settings), present={'scope': 'cache', **present})
    record['parameters']['shard_sizes'] = sizes_given
    assert words.of_shards(record).startswith(text)


@pytest.mark.parametrize('settings, same, text', [
    ({'smt': {}, 'cache': {}, 'numa': {}}, {}, 'Of all shards, the smallest (smt) and the largest (cache) were not '
                                               'better in any load, so a size between is not likely to be.'),
    ({'cpu': {}, 'numa': {}}, {'smt': 'cpu', 'cache': 'cache_shard'}, 'Of all shards, the smallest (cpu) were not'),
    ({'cpu': {'batch': 2.0}}, {'smt': 'cpu'}, 'The scope cpu was better in a load, so smaller shards may be.'),
    ({'cache': {'burst': 2.0, 'batch': 0.5}}, {}, 'The scope cache was better in a load, so larger shards may be.'),
    ({'numa': {'burst': 2.0}}, {}, ''),
])
def test_what_the_extremes_say_about_sizes(settings, same, text):
    """smt has the pods of shards of one core, and cache those of shards as large as a cache."""
    record = record_of(settings, turns_of(settings), same=same)
    assert words.between(record).startswith(text) and bool(words.between(record)) == bool(text)
    assert words.between(record) in record['advice']['text']


def test_the_table():
    _, record = advice_on({'cpu': {'latency': 0.5}, 'numa': {'latency': 2.0}})
    lines = words.lines(record)
    assert re.match(r'cpu +0\.\d\d \(0\.\d\d-0\.\d\d\) - +0\.\d\d \(0\.\d\d-0\.\d\d\) - .* 4$',
                    next(line for line in lines if line.startswith('cpu ')))
    assert ' +' in next(line for line in lines if line.startswith('numa '))
    assert max(map(len, lines[-5:])) <= words.WIDTH
    for load in ALL:
        assert any(line.startswith(f'{load}: ') for line in lines)


# Options

@pytest.mark.parametrize('argv, text', [
    (['--loads', 'fast'], '"fast" is not a load: choose from latency, batch'),
    (['--minutes', 'nan'], 'nan is not between'),
    (['--cpus', '2'], 'this machine is advised without --engine: leave --cpus out'),
    (['--variant', 'base'], 'leave --variant out'),
    (['--engine', 'uml', '--module', 'x'], 'leave --module out'),
    (['--engine', 'qemu', '--cpus', '3', '--topology', 'cores=2'], '3 CPUs do not fit'),
    (['--engine', 'uml', '--cpus', '1', '--loads', 'spread'], '--loads spread: needs more CPUs than 1'),
    (['--engine', 'qemu', '--variant', 'base', '--shard-sizes', '2'], 'only at boot'),
])
def test_wrong_options(argv, text, capsys):
    with pytest.raises(SystemExit) as ended:
        options.parse_args(argv)
    assert ended.value.code == 2 and text in capsys.readouterr().err


@pytest.mark.parametrize('name, engine, text', [
    ('LINUX', [], 'LINUX= is for guests: add --engine'), ('KERNEL_SRC', [], 'KERNEL_SRC= is for guests'),
    ('KDIR', ['--engine', 'uml'], 'KDIR= is for this machine: leave --engine out'),
])
def test_variables_without_effect(monkeypatch, capsys, name, engine, text):
    monkeypatch.setenv(name, '6.12')
    with pytest.raises(SystemExit):
        options.parse_args(engine)
    assert text in capsys.readouterr().err
    assert options.parse_args([] if engine else ['--engine', 'uml'])


def test_options():
    params, build = options.parse_args([])
    assert build and params['engine'] is None and params['minutes'] == options.MINUTES
    params, _ = options.parse_args(['--engine', 'qemu', '--topology', 'cores=4', '--loads', 'spread,latency',
                                     '--shard-sizes'])
    assert params['cpus'] == 4 and params['loads'] == ['spread', 'latency']
    assert params['shard_sizes'] == [2, 4, 8, 16, 32]
    assert params['mem'] == '512M' and params['variant'] == 'cmwq'


@pytest.mark.parametrize('load', ALL)
def test_orders(load):
    one = loads.LOADS[load]
    order = one.order('numa', 100, 64)
    assert order['scopes'] == 'numa' and order['mode'] == load and order['items'] == '100' and order['threads'] == '0'
    assert order['batch'] == ('256' if load == 'spread' else '32') and load in parse.MODES
    assert order['warmup'] == (order['batch'] if one.burns else '100')


# This machine

RESULT = [line.partition(parse.PREFIX)[2] for line in RECORDED.splitlines()
          if re.search('(result|wait) scope=cpu ', line)][:2]


def fake_sysfs(root, size='8', loaded=True):
    for path, text in {**described(2, size=size).files, 'devices/virtual/workqueue/x': ''}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f'{text}\n')
    if loaded:
        (root / 'module/test_workqueue/parameters').mkdir(parents=True)
    return root


class FakeHere(machine.Here):
    """The module is a file that gets a result when something is written to run."""
    lacks, error, lost = ('smt',), 0, 0

    def put(self, path, value):
        path.write_text(f'{value}\n')
        if path.name != 'run':
            return
        scope = (path.parent / 'scopes').read_text().strip()
        lines = [line.replace('scope=cpu ', f'scope={scope} ').replace('lost=0', f'lost={self.lost}')
                 for line in RESULT]
        if scope in self.lacks:
            path.write_text('done status=failed runs=0 violations=0 error=-95\n')
            raise OSError(95, os.strerror(95))
        path.write_text('\n'.join([*lines, f"done status={'violated' if self.lost else 'ok'} runs=1 violations=0 "
                                           'error=0\n']))
        if self.error:
            raise OSError(self.error, os.strerror(self.error))


@pytest.fixture
def here(tmp_path):
    return FakeHere(fake_sysfs(tmp_path))


def test_here(here):
    assert here.cpus == 2 and here.describe().can_resize
    here.find_scopes()
    assert here.scopes == [scope for scope in SCOPES if scope != 'smt']
    run = here.run(loads.LOADS['batch'].order('numa', 32, 2))
    assert run['scope'] == 'numa' and run['items_per_s'] > 0
    assert (here.parameters / 'mode').read_text() == 'batch\n'


def test_a_broken_promise_is_told(here):
    here.lost, here.error = 3, 71
    with pytest.raises(Failure, match='the kernel broke a promise in scope numa: 3 lost items'):
        here.run(loads.LOADS['latency'].order('numa', 32, 2))


def test_a_refused_run_is_told(here):
    here.error = 12
    with pytest.raises(Failure, match='the module refuses a run .Cannot allocate memory.: see dmesg'):
        here.run(loads.LOADS['latency'].order('numa', 32, 2))
    here.lacks = SCOPES
    here.error = 0
    here.find_scopes()
    assert here.scopes == []


def test_what_makes_a_machine_unfit(tmp_path, monkeypatch):
    root = fake_sysfs(tmp_path / 'sys')
    modules = tmp_path / 'modules'
    monkeypatch.setattr(machine, 'MODULES', modules)
    with pytest.raises(Failure, match='cannot load modules: .* --engine uml'):
        machine.check_here(root)
    modules.write_text('')
    monkeypatch.setattr(os, 'geteuid', lambda: 1000)
    with pytest.raises(Failure, match='run this as root'):
        machine.check_here(root)
    monkeypatch.setattr(os, 'geteuid', lambda: 0)
    with pytest.raises(Failure, match='loaded already'):
        machine.check_here(root)
    (root / 'module/test_workqueue/parameters').rmdir()
    (root / 'module/test_workqueue').rmdir()
    machine.check_here(root)
    with pytest.raises(Failure, match='mount sysfs'):
        machine.check_here(tmp_path)


@pytest.mark.parametrize('said, why', [
    ('insmod: ERROR: could not insert module x.ko: Key was rejected by service', r'\(Secure Boot wants signed '),
    ('insmod: ERROR: could not insert module x.ko: Operation not permitted', r'\(Secure Boot or a container '),
    ('insmod: ERROR: could not insert module x.ko: Invalid module format', 'loaded: insmod: .*Invalid module format')])
def test_a_module_that_cannot_be_loaded(tmp_path, monkeypatch, said, why):
    root = fake_sysfs(tmp_path / 'sys', loaded=False)
    monkeypatch.setenv('PATH', stub(tmp_path / 'bin', 'insmod', f'echo "{said}" >&2; exit 1'))
    with pytest.raises(Failure, match=why), machine.here(tmp_path / 'x.ko', True, root):
        pass


# Putting things back

# What stands for a running advise.sh: it has changed the size, and waits.
CHANGED = '''
import sys, time
from pathlib import Path
from wqlab.advise.keeper import Keeper
module, size = map(Path, sys.argv[1:])
with Keeper(module, [size]):
    module.mkdir(parents=True)
    size.write_text('2\\n')
    print('changed', flush=True)
    time.sleep(60)
'''


@pytest.fixture
def rmmod(tmp_path, monkeypatch):
    """The module is in use at first, as if a pass still ran."""
    script = f'[ -e {tmp_path}/twice ] || {{ touch {tmp_path}/twice; exit 1; }}; rmdir {tmp_path}/module/"$1"'
    monkeypatch.setenv('PATH', stub(tmp_path / 'bin', 'rmmod', script))


def wait_until(true, seconds=20):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize('number', ['KILL', 'TERM', 'INT', 'HUP'])
def test_all_is_put_back_after_a_signal(tmp_path, rmmod, number):
    size, module = tmp_path / 'cache_shard_size', tmp_path / 'module/test_workqueue'
    size.write_text('8\n')
    environment = {**os.environ, 'PYTHONPATH': str(ROOT / 'scripts')}
    with subprocess.Popen([*HEARS_ALL, sys.executable, '-c', CHANGED, module, size], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout.readline() == 'changed\n' and size.read_text() == '2\n'
        process.send_signal(getattr(signal, f'SIG{number}'))
        process.wait(timeout=20)
    wait_until(lambda: size.read_text() == '8\n' and not module.exists())


def test_all_is_put_back_at_the_end(tmp_path, rmmod):
    size, module = tmp_path / 'cache_shard_size', tmp_path / 'module/test_workqueue'
    size.write_text('8\n')
    with keeper.Keeper(module, [size]):
        module.mkdir(parents=True)
        size.write_text('2\n')
    assert size.read_text() == '8\n' and not module.exists()


def test_what_cannot_be_put_back_is_told(tmp_path, rmmod):
    size, module = tmp_path / 'cache_shard_size', tmp_path / 'module/test_workqueue'
    size.write_text('8\n')
    with pytest.raises(Failure, match='cannot be, and could not be set back to 8'), keeper.Keeper(module, [size]):
        size.unlink()
        size.mkdir()
        monkey = pytest.MonkeyPatch()
        monkey.setattr(type(size), 'read_text', lambda self: 'cannot be')
    monkey.undo()


# Whole runs, with a fake guest

FAKE_GUEST = '''import os, pathlib, re, sys, time
here = pathlib.Path(__file__).parents[2]
recorded = dict(re.findall('test_workqueue: ((?:result|wait) scope=cpu).(.*)', (here / 'recorded').read_text()))
(pathlib.Path(sys.argv[sys.argv.index('--log') + 1])).write_text('')
FASTER = {'system': 1.5}
SIZE = '/sys/module/workqueue/parameters/cache_shard_size'
def tell(scope, **changes):
    lines = []
    for kind, text in recorded.items():
        text = f'scope={scope} ' + text
        for key, value in changes.items():
            text = re.sub(f'(^| ){key}=[^ ]*', f' {key}={value}', text)
        if kind.startswith('wait') and 'mode' in changes and changes['mode'] in ('burst', 'spread'):
            text += ' rounds=1 cpus=2 cpus_mean=2.00 ' + ' '.join(
                f'makespan_{key}_ns={changes["start_p99_ns"]}' for key in ('p50', 'p90', 'p95', 'p99', 'p999', 'max'))
        if kind.startswith('wait') and changes.get('mode') == 'mixed':
            text += ' probes=1 late=0 ' + ' '.join(
                f'probe_{key}_ns=1' for key in ('p50', 'p90', 'p95', 'p99', 'p999', 'max'))
        lines.append('test_workqueue: ' + kind.split()[0] + ' ' + ' '.join(text.split()))
    return lines
def report(lines, runs=1):
    print(*lines, f'test_workqueue: done status=ok runs={runs} violations=0 error=0', '@done', sep='\\n', flush=True)
scopes = ('cpu', 'smt', 'cache', 'cache_shard', 'numa', 'system')
print('@file devices/system/cpu/online:0-1', '@file devices/system/cpu/possible:0-1',
      '@file module/workqueue/parameters/cache_shard_size:8', '@mode 644', '@end', sep='\\n')
report([line for scope in scopes for line in tell(scope, repeat=1)], 6)
orders = open(here / 'orders', 'a')
count = 0
for order in sys.stdin:
    orders.write(order)
    orders.flush()
    count += 1
    if (here / 'blocks').exists() and count == 60:
        # a place that not even root can write to
        results = pathlib.Path(sys.argv[sys.argv.index('--log') + 1]).parents[1] / 'results.json'
        results.unlink()
        (results / 'x').mkdir(parents=True)
    if (here / 'sleeps').exists() and count > 60:
        (here / 'sleeping').touch()
        time.sleep(60)
    words = dict(word.split('=') for word in order.split())
    scope = words['scopes']
    gain = FASTER.get(scope, 1)
    items = int(words['items'])
    time.sleep(0.001)
    report(tell(scope, repeat=1, mode=words['mode'], actual='cache_shard' if scope == 'default' else scope, items=items,
                items_per_s=round(1e5 * gain), elapsed_ns=round(items * 1e4), start_p99_ns=round(5e4 / gain)))
sys.exit(0)
'''


@pytest.fixture
def project(tmp_path):
    return copied.project(tmp_path, 'advise.sh', FAKE_GUEST, {}, 'build/advise', {'recorded': RECORDED})


RUN = ('--engine', 'uml', '--no-build', '--minutes', '0.1', '--slice-ms', '1', '--loads', 'latency,burst',
       '--scopes', 'numa,system')
SHORT = (*RUN[:3], '--minutes', '0.03', *RUN[5:])


@pytest.mark.tier('test')
def test_whole_run(project):
    done = project.run(*RUN)
    assert done.returncode == 0, done.stderr
    folder, record = project.results()
    assert record['complete'] and record['advice']['verdict'] == verdict.CHOOSE
    assert record['advice']['setting'] == 'system' and record['present']['scope'] == 'cache_shard'
    assert [one['scope'] for one in record['settings']] == ['numa', 'system']
    assert len(record['turns']) >= 8
    assert re.search(r'^Choose system instead of cache_shard with shards of 8 cores', done.stdout, re.M)
    assert f'results: build/advise/{folder.name}/results.json' in done.stdout
    assert 'cache_shard_size' not in (project.root / 'scripts/orders').read_text()
    assert re.search(r'advise: note: UML has no caches', done.stderr)


@pytest.mark.tier('test')
def test_sizes_are_changed_for_a_run_only(project):
    done = project.run(*SHORT, '--shard-sizes', '1,8')
    assert done.returncode == 0, done.stderr
    lines = (project.root / 'scripts/orders').read_text().splitlines()
    changed = [number for number, line in enumerate(lines) if 'cache_shard_size=1 ' in line]
    assert changed and all('scopes=cache_shard' in lines[number] for number in changed)
    # unless the next run wants the same size
    assert all(number + 1 in changed or 'cache_shard_size=8 ' in lines[number + 1] for number in changed
               if number + 1 < len(lines))
    assert {'scope': 'cache_shard', 'shard_size': 1} in project.results()[1]['settings']


def test_waits_for_another_measurement(project):
    assert project.waits(*SHORT)


@pytest.mark.tier('test')
def test_results_that_cannot_be_written_do_not_cost_the_advice(project):
    project.mark('blocks')
    done = project.run(*RUN)
    assert done.returncode == 1 and re.search('^Choose system', done.stdout, re.M)
    assert re.search(r'results.json: Is a directory', done.stderr) and 'results: ' not in done.stdout


# The machine's own work

@pytest.mark.parametrize('found, says', [
    ([{'name': 'wb', 'unbound': 1, 'wait_us': {'p50': 2, 'p99': 64}},
      {'name': 'kcryptd', 'unbound': 1, 'wait_us': {'p50': 8, 'p99': 512}},
      {'name': 'quiet', 'unbound': 1}, {'name': 'mm', 'unbound': 0, 'wait_us': {'p50': 1, 'p99': 9999}}],
     'less than 512 us (kcryptd), 64 us (wb)'),
    ([{'name': 'mm', 'unbound': 0, 'wait_us': {'p50': 1, 'p99': 9999}}], 'no item of an unbound workqueue'),
    ([], 'no item of an unbound workqueue'),
])
def test_waits_of_own_work(found, says):
    assert waits.note(found).endswith(says) or says in waits.note(found)


@pytest.mark.parametrize('text, on', [('1\n', True), ('0\n', False), (None, False)])
def test_own_work_is_told_only_while_it_is_measured(tmp_path, monkeypatch, text, on):
    if text:
        (tmp_path / 'latency_enable').write_text(text)
    assert waits.measured(tmp_path) == on
    monkeypatch.setattr(waits, 'measured', lambda: on)
    monkeypatch.setattr(waits, 'rows', list)
    told = [one for one in advise.notes({'engine': None, 'cpus': None}) if 'own work' in one]
    assert len(told) == on
    assert not [one for one in advise.notes({'engine': 'qemu', 'cpus': None}) if 'own work' in one]


def test_waits_come_from_the_monitor(monkeypatch, tmp_path):
    monitor = tmp_path / 'monitor.py'
    monkeypatch.setattr(waits, 'MONITOR', monitor)
    monitor.write_text('import sys\nassert sys.argv[1:] == ["--debugfs", "-i", "0", "--json"]\n'
                       'print(\'{"name": "wb"}\')')
    assert waits.rows() == [{'name': 'wb'}]
    monitor.write_text('print("{}")\nraise SystemExit(1)')
    assert waits.rows() == []

# SPDX-License-Identifier: GPL-2.0
"""advise.sh: pods, rounds, verdicts on made-up figures, options, what is put back, whole runs with a fake guest."""
import contextlib
import os
import random
import re
import types
from collections import Counter

import pytest

import copied
from calls import stub
from wqlab.advise import keeper, machine, measure, pods, verdict, words
from wqlab.advise import run as advise
from wqlab.bench import parse
from wqlab.measure import stats
from wqlab.paths import ROOT
from wqlab.scopes import SCOPES
from wqlab.steps import Failure

RECORDED = (ROOT / 'tests/data/bench/uml-base.log').read_text()
FIGURES = [(load, figure, f'{load} {figure.name}') for load, one in measure.LOADS.items() for figure in one.figures]


# Pods

def files_of(cores, threads=1, llcs=1, nodes=1, size='8', ours=True):
    """Return what sysfs says of so many cores in all. CPU n and n + cores are threads of a core."""
    online = f'0-{cores * threads - 1}'
    found = {pods.ONLINE: online, pods.POSSIBLE: online, pods.SHARD_SIZE: size, **({pods.OURS: '1'} if ours else {})}

    def part(first, many):
        return ','.join(f'{first + cores * thread}-{first + many - 1 + cores * thread}' for thread in range(threads))
    for cpu in range(cores * threads):
        place, core, each = f'devices/system/cpu/cpu{cpu}', cpu % cores, cores // llcs
        found |= {f'{place}/topology/thread_siblings_list': part(core, 1),
                  f'{place}/cache/index0/shared_cpu_list': part(core, 1),
                  f'{place}/cache/index3/shared_cpu_list': part(core // each * each, each)}
    each = cores // nodes
    return found | {f'devices/system/node/node{node}/cpulist': part(node * each, each) for node in range(nodes)}


def chosen(default='cache_shard', shard_sizes=(), lacks='nothing', changes=None, **shape):
    files = {path: text for path, text in files_of(**shape).items() if lacks not in path} | (changes or {})
    return pods.choose(pods.Machine(files), default, SCOPES, shard_sizes)


def test_pods_of_scopes():
    one = pods.Machine(files_of(16, threads=2, llcs=4, nodes=2))
    assert [len(one.pods(scope)) for scope in SCOPES if scope != 'cache_shard'] == [32, 16, 4, 2, 1]
    smt, cache, numa = (list(one.pods(scope)) for scope in ('smt', 'cache', 'numa'))
    assert {0, 16} in smt and {0, 1, 2, 3, 16, 17, 18, 19} in cache and {*range(8), *range(16, 24)} in numa
    assert one.pods('cache_shard') == one.pods('cache') and one.pods('cache_shard/1') == one.pods('smt')
    assert one.pods('cache_shard/2') is None


def test_settings_with_the_same_pods_are_measured_once():
    assert chosen(cores=4) == (['cpu'], {'smt': 'cpu', 'cache': 'cache_shard', 'numa': 'cache_shard',
                                         'system': 'cache_shard'})
    names, same = chosen(cores=16, threads=2, llcs=2, nodes=2, shard_sizes=[1, 2, 4, 8, 64])
    assert names == ['cpu', 'smt', 'system', 'cache_shard/2', 'cache_shard/4']
    assert same == {'cache': 'cache_shard', 'numa': 'cache_shard', 'cache_shard/1': 'smt',
                    'cache_shard/64': 'cache_shard'}
    assert chosen(cores=1) == ([], dict.fromkeys(('cpu', 'smt', 'cache', 'numa', 'system'), 'cache_shard'))


@pytest.mark.parametrize('lacks, changes', [('/topology', {}), ('/cache/', {}), ('nothing', {pods.POSSIBLE: '0-7'})])
def test_unknown_pods_are_not_taken_for_the_same(lacks, changes):
    """CPUs that may come later change the shards."""
    assert 'cache' in chosen(cores=4, lacks=lacks, changes=changes)[0]


# Rounds

def test_a_turn_is_a_round_and_its_reverse():
    assert [''.join(measure.turned(['A', 'B', 'C'], number)) for number in range(8)] == \
        ['ABC', 'CBA', 'BCA', 'ACB', 'CAB', 'BAC', 'ABC', 'CBA']


class Fake:
    """A machine whose default scope does @rate items in a second, all threads together."""
    cpus, size_file = 2, '/size'

    def __init__(self, rate=200_000, **changes):
        self.rate, self.changes, self.orders, self.seconds = rate, changes, [], 0.0

    def run(self, line):
        order = dict(word.split('=') for word in line.split())
        self.orders.append(order)
        self.seconds += 1 / 64
        items = int(order['items'])
        return {'actual': 'cache_shard', 'items': items, 'elapsed_ns': round(items * 1e9 / self.rate), 'hotplug': 0,
                'items_per_s': self.rate, 'threads': 2, 'start_p99_ns': 10, 'makespan_p50_ns': 10, **self.changes}


@pytest.mark.parametrize('load', measure.LOADS)
def test_a_slice_has_whole_rounds_and_takes_about_as_long_as_asked_for(load):
    for rate in (500, 200_000, 5_000_000):
        items = measure.calibrated(Fake(rate), load, 100)
        assert 0.05 < items / rate < 0.2 and (load == 'latency' or items % 32 == 0)
    order = measure.order(load, 'numa', 100, 64)
    assert f'mode={load} batch={256 if load == "spread" else 32} ' in order and 'items=100 ' in order
    assert 'scopes=numa ' in order and load in parse.MODES


def measuring(fake):
    record = {'parameters': {'minutes': 0.01}, 'settings': ['cpu', 'cache_shard/2', 'cache_shard/4'], 'turns': [],
              'present': {'scope': 'cache_shard', 'shard_size': 8}, 'items': {'latency': 5, 'batch': 64}}
    said = []
    return measure.Measuring(fake, record, said.append), record, said


def test_each_setting_runs_each_load_in_each_round():
    fake = Fake()
    one, record, _ = measuring(fake)
    one.turn(0)
    turn, = record['turns']
    assert [list(found) for found in turn] == [['latency', 'batch']] * 2
    assert all(set(runs) == {'default', pods.AGAIN, *record['settings']} for found in turn for runs in found.values())
    assert Counter((order['mode'], order['scopes']) for order in fake.orders) == {
        (load, scope): times for load in ('latency', 'batch')
        for scope, times in (('default', 4), ('cpu', 2), ('cache_shard', 4))}


def test_a_size_of_shards_holds_for_a_run_only():
    fake, size, used = Fake(), '8', []
    measuring(fake)[0].turn(0)
    for order in fake.orders:
        assert '/size' not in order or order['/size'] != size      # writing it has a price
        size = order.get('/size', size)
        used.append((order['scopes'], size))
    assert set(used) == {('default', '8'), ('cpu', '8'), ('cache_shard', '2'), ('cache_shard', '4')}


def test_turns_are_made_until_the_time_is_over(monkeypatch):
    """A turn of 20 runs takes 5/16 s of 0.6 s, by a clock that nothing else moves."""
    fake = Fake()
    monkeypatch.setattr(measure, 'time', types.SimpleNamespace(monotonic=lambda: fake.seconds))
    one, record, _ = measuring(fake)
    one.go()
    assert len(record['turns']) == 2


def test_turns_in_which_cpus_come_do_not_count():
    one, record, said = measuring(Fake(hotplug=1))
    one.turn(0)
    assert not record['turns'] and 'CPUs came or went' in said[0]


def test_somebody_else_changes_the_default_scope():
    with pytest.raises(Failure, match='changed from cache_shard to numa'):
        measuring(Fake(actual='numa'))[0].turn(0)


# Statistics and verdicts

@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(stats, 'RESAMPLES', 200)


def turns_of(settings, turns=24, noise=0.02, seed=3, drift=0.0, again=1.0):
    """Make up turns. settings: {name: {figure or load: gain over the default, 1 if it is not named}}."""
    chance = random.Random(seed)
    names = {'default': {}, pods.AGAIN: {key: again for _, _, key in FIGURES}, **settings}
    found = []
    for _ in range(turns):
        rounds = []
        for half in (0, 1):
            runs = {load: {name: {'threads': 2} for name in names} for load in measure.LOADS}
            state = chance.lognormvariate(0, 0.3)       # of the machine: the same for all settings of a round
            for at, (name, gains) in enumerate(names.items()):
                place = at if half == 0 else 2 * len(names) - 1 - at
                for load, figure, key in FIGURES:
                    gain = gains.get(key, gains.get(load, 1.0)) * state * chance.lognormvariate(0, noise)
                    gain *= (1 + drift) ** place
                    runs[load][name][figure.metric] = 1e5 * gain if figure.more else 1e5 / gain
            rounds.append(runs)
        found.append(rounds)
    return found


def record_of(settings, turns, **present):
    record = {'items': dict.fromkeys(measure.LOADS, 1), 'turns': turns, 'same': {}, 'lacking': [],
              'settings': list(settings), 'parameters': {'shard_sizes': []},
              'present': {'scope': 'cache_shard', 'shard_size': 8, 'can_resize': True, **present}}
    advise.conclude(record)
    return record


def advice_on(settings, **changes):
    return record_of(settings, turns_of(settings, **changes))['advice']


def changed(settings, change, **changes):
    """Return the advice after change(number of the turn, runs of a round)."""
    turns = turns_of(settings, **changes)
    for at, turn in enumerate(turns):
        for found in turn:
            change(at, found)
    return record_of(settings, turns)


def test_a_clear_winner_is_chosen():
    advice = advice_on({'cpu': {'latency': 0.8}, 'numa': {'latency': 1.4, 'spread': 1.2}, 'system': {}})
    assert advice['verdict'] == verdict.CHOOSE and advice['setting'] == 'numa'
    assert {row['key'] for row in advice['gains']} == {'latency items/s', 'latency wait p99', 'spread makespan'}
    for row in advice['gains']:
        stat = row[verdict.PROVE]
        assert stat['low'] <= (1.2 if row['load'] == 'spread' else 1.4) <= stat['high']
    text = advice['text']
    assert re.search(r'1\.[34]\d \(\d\.\d\d-\d\.\d\d\) times the items/s in latency', text)
    # 2 threads, 100,000 items/s: 20 us each, 5.7 us less
    assert re.search(r'takes 5\.\d\d us less, so a CPU that queues fewer than 1,\d{3} items/s', text)
    assert '--shard-sizes does that' in text


@pytest.mark.parametrize('setting, present, wanted, former', [
    ('numa', {}, {'default_affinity_scope': 'numa'}, ['cache_shard']),
    ('cache_shard/4', {}, {'cache_shard_size': '4'}, ['8']),
    ('cache_shard/4', {'scope': 'cache'}, {'cache_shard_size': '4', 'default_affinity_scope': 'cache_shard'},
     ['8', 'cache']),
])
def test_commands_set_it_undo_it_and_keep_it(setting, present, wanted, former):
    text = record_of([setting], turns_of({setting: {'batch': 1.5}}), **present)['advice']['text']
    place = '/sys/module/workqueue/parameters'
    for start, values in (('try', wanted.values()), ('undo', former)):
        commands = [f'echo {value} >{place}/{name}' for name, value in zip(wanted, values)]
        assert f'To {start} it: {"; ".join(commands)}. ' in text
    assert 'boot with ' + ' '.join(f'workqueue.{name}={value}' for name, value in wanted.items()) in text


def test_a_loss_elsewhere_is_a_trade():
    """Neither is hidden: what wins one load and loses another is no advice for all."""
    advice = advice_on({'cpu': {'batch': 1.5, 'spread': 0.6}, 'system': {'spread': 1.3, 'batch': 0.7}})
    assert advice['verdict'] == verdict.TRADE and 'echo' not in advice['text']
    assert re.search(r'cpu gives 1\.\d\d \(.*?\) times the items/s in batch, but costs: spread makespan 0\.[56]',
                     advice['text'])
    assert re.search(r'system gives 1\.[23]\d \(.*?\) times as fast in spread, but costs: batch items/s 0\.[67]',
                     advice['text'])


@pytest.mark.parametrize('settings, again, wanted', [
    ({'cpu': {}, 'numa': {'latency': 1.03}}, 1.0, verdict.LEAVE),       # below the threshold
    ({'numa': {'latency': 1.15}}, 1.2, verdict.LEAVE),                  # the default differs from itself by more
    ({'numa': {'latency': 1.15}}, 1.5, verdict.NOISY),
    ({}, 1.0, verdict.ALIKE)])
def test_no_gain(settings, again, wanted):
    advice = advice_on(settings, again=again, turns=24 if settings else 0)
    assert advice['verdict'] == wanted and advice['text'].startswith('Leave it at cache_shard with shards of 8')


def test_few_turns_are_no_advice():
    settings = {'numa': {'latency': 2.0}}
    advice = advice_on(settings, turns=2 * verdict.FEWEST - 1)
    assert advice['verdict'] == verdict.SHORT and '7 turns were made, and 8 are needed' in advice['text']
    assert advice_on(settings, turns=2 * verdict.FEWEST)['verdict'] == verdict.CHOOSE


def test_most_figures_must_be_quiet():
    """If four of seven figures are too noisy, no setting is chosen, since the noise may hide a loss."""
    def noisy(loads):
        def double(at, found):
            for load in loads:
                for figure in measure.LOADS[load].figures:
                    found[load][pods.AGAIN][figure.metric] *= 2
        return changed({'numa': {'latency': 1.5}}, double)
    assert noisy(['batch', 'burst', 'spread'])['advice']['verdict'] == verdict.CHOOSE
    record = noisy(['batch', 'burst', 'mixed'])
    assert record['advice']['verdict'] == verdict.NOISY
    line = next(line for line in words.lines(record) if line.startswith('numa'))
    assert line.count(' !') == 4 and line.count(' +') == 2 and line.count(' =') == 1


@pytest.mark.tier('test')
def test_much_noise_rarely_makes_a_choice():
    """Five settings like the default, with noise of 30%. Luck must not win."""
    settings = {name: {} for name in ('cpu', 'smt', 'cache', 'numa', 'system')}
    found = Counter(advice_on(settings, noise=0.3, seed=seed)['verdict'] for seed in range(12))
    assert found[verdict.CHOOSE] + found[verdict.TRADE] <= 1


def test_drift_of_the_machine_is_cancelled():
    """It slows down by 3% with each run. The reverse order of the second round makes up for that."""
    settings = {'cpu': {}, 'numa': {}}
    rows = record_of(settings, turns_of(settings, drift=-0.03, noise=0.005))['rows']
    assert all(abs(row[verdict.PROVE]['median'] - 1) < 0.01 for row in rows)


@pytest.mark.parametrize('settings, setting', [({'numa': {}}, None), ({'numa': {}, 'cpu': {'latency': 1.3}}, 'cpu')])
def test_half_of_the_turns_pick_and_the_others_prove(settings, setting):
    """What is best in one half only is not chosen, but the second best may be."""
    def lucky(at, found):
        found['batch']['numa']['items_per_s'] *= 1 if at % 2 else 2
    assert changed(settings, lucky, noise=0.01)['advice'].get('setting') == setting


def test_a_possible_loss_prevents_a_choice():
    """batch gets better, and spread perhaps much worse: its interval has 1, but its median is bad."""
    def unsure(at, found):
        found['spread']['cpu']['makespan_p50_ns'] *= 2 if at // 6 % 2 else 0.98
    assert changed({'cpu': {'batch': 1.5}}, unsure)['advice']['verdict'] == verdict.TRADE


@pytest.mark.parametrize('stat, wanted', [
    ((1.2, 1.1, 1.3), verdict.BETTER), ((0.8, 0.7, 0.9), verdict.WORSE), ((1.0, 0.97, 1.03), verdict.SAME),
    ((1.2, 0.9, 1.4), verdict.UNCLEAR), ((0.8, 0.7, 1.1), verdict.UNCLEAR), ((1.03, 1.01, 1.2), verdict.UNCLEAR),
    ((1.03, 1.01, 1.04), verdict.SAME), ((0.97, 0.96, 0.99), verdict.SAME)])
def test_classes(stat, wanted):
    assert verdict.class_of(dict(zip(('median', 'low', 'high'), stat)), 0.05) == wanted


class Known(Fake):
    """A machine of 4 CPUs in two caches, on which numa is better, by a clock that only runs move."""
    scopes, described = ['cpu', 'cache', 'cache_shard', 'numa'], pods.Machine(files_of(4, llcs=2))

    def run(self, line):
        return {**super().run(line), 'items_per_s': self.rate * (1.5 if 'scopes=numa' in line else 1)}


def test_advice_is_printed_if_it_cannot_be_recorded(tmp_path, monkeypatch, capsys):
    fake = Known()
    monkeypatch.setattr(measure, 'time', types.SimpleNamespace(monotonic=lambda: fake.seconds))
    monkeypatch.setattr(machine, 'here', lambda module, resizes: contextlib.nullcontext(fake))
    monkeypatch.setattr(advise, 'BUILD', tmp_path)
    measured = measure.Measuring.go

    def go(self):
        measured(self)
        # a slice has 150 ms in a run of 8 minutes, and is shorter in a shorter run: 1 ms, of 200 items
        assert self.record['settings'] == ['cpu', 'numa'] and self.record['items'] == {'latency': 200}
        for path in tmp_path.glob('advise/*/results.json'):     # a place that not even root can write to
            path.unlink()
            (path / 'x').mkdir(parents=True)
    monkeypatch.setattr(measure.Measuring, 'go', go)
    with pytest.raises(IsADirectoryError):
        advise.advise(advise.parse_args(['--loads', 'latency', '--minutes', '0.05']), tmp_path / 'x.ko')
    said = capsys.readouterr().out
    assert re.search('^numa +1.50', said, re.M) and re.search('^Choose numa instead', said, re.M)
    assert 'cache: the same pods as cache_shard, not measured' in said and 'smt: this kernel does not have it' in said


# Options

@pytest.mark.parametrize('argv, variables, text', [
    (['--loads', 'fast'], {}, '"fast" is not a load: choose from latency, batch'),
    (['--minutes', 'nan'], {}, 'nan is not between'),
    (['--cpus', '2'], {}, 'this machine is advised without --engine: leave --cpus out'),
    (['--variant', 'base'], {}, 'leave --variant out'),
    ([], {'LINUX': '6.12'}, 'LINUX= is for guests: add --engine'),
    (['--engine', 'uml'], {'KDIR': '/x'}, 'KDIR= is for this machine: leave --engine out'),
])
def test_wrong_options(argv, variables, text, monkeypatch, capsys):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        advise.parse_args(argv)
    assert ended.value.code == 2 and text in capsys.readouterr().err


# This machine

RESULT = [line.partition(parse.PREFIX)[2] for line in RECORDED.splitlines()
          if re.search('(result|wait) scope=cpu ', line)][:2]


class FakeHere(machine.Here):
    """The module is a file that gets a result when something is written to run."""
    lacks, error, lost = 'smt', 0, 0

    def put(self, path, value):
        path.write_text(value)
        if path.name != 'run':
            return
        scope = (path.parent / 'scopes').read_text().strip()
        lines = [line.replace('scope=cpu ', f'scope={scope} ').replace('lost=0', f'lost={self.lost}')
                 for line in RESULT]
        error = 95 if scope == self.lacks else self.error
        status = 'violated' if self.lost else 'ok'
        path.write_text('\n'.join([*lines, f'done status={status} runs=1 violations=0 error=0\n']))
        if error:
            raise OSError(error, os.strerror(error))


@pytest.fixture
def sysfs(tmp_path):
    root = tmp_path / 'sys'
    for path, text in files_of(2).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f'{text}\n')
    return root


@pytest.fixture
def here(sysfs):
    (sysfs / 'module/test_workqueue/parameters').mkdir(parents=True)
    return FakeHere(sysfs)


ORDER = measure.order('batch', 'numa', 32, 2)


def test_here(here, sysfs):
    assert here.cpus == 2 and here.described.files == files_of(2)
    assert here.scopes == [scope for scope in SCOPES if scope != 'smt']
    run = here.run(f'{here.size_file}=4 {ORDER}')
    assert run['scope'] == 'numa' and run['items_per_s'] > 0
    assert (here.parameters / 'mode').read_text() == 'batch\n' and (sysfs / pods.SHARD_SIZE).read_text() == '4\n'


@pytest.mark.parametrize('lost, error, text', [
    (3, 71, 'the kernel broke a promise in scope numa: 3 lost items'),
    (0, 12, 'refuses a run of the module .Cannot allocate memory.: see dmesg')])
def test_what_goes_wrong_is_told(here, lost, error, text):
    here.lost, here.error = lost, error
    with pytest.raises(Failure, match=text):
        here.run(ORDER)


def test_what_makes_a_machine_unfit(sysfs, tmp_path, monkeypatch):
    modules = tmp_path / 'modules'
    monkeypatch.setattr(machine, 'MODULES', modules)
    with pytest.raises(Failure, match='cannot load modules: .* --engine uml'):
        machine.check_here(sysfs)
    modules.write_text('')
    monkeypatch.setattr(os, 'geteuid', lambda: 1000)
    with pytest.raises(Failure, match='run this as root'):
        machine.check_here(sysfs)
    monkeypatch.setattr(os, 'geteuid', lambda: 0)
    machine.check_here(sysfs)
    (sysfs / 'module/test_workqueue').mkdir()
    with pytest.raises(Failure, match='loaded already'):
        machine.check_here(sysfs)


def test_a_module_that_cannot_be_loaded(sysfs, tmp_path, monkeypatch):
    said = 'insmod: ERROR: could not insert module x.ko: Key was rejected by service'
    monkeypatch.setenv('PATH', stub(tmp_path / 'bin', 'insmod', f'echo "{said}" >&2; exit 1'))
    with pytest.raises(Failure, match=f'cannot be loaded: {said}'), machine.here(tmp_path / 'x.ko', True, sysfs):
        pass


@pytest.mark.parametrize('text, options, kdir', [
    (r'/none does not exist: install the package linux-headers-9\.9', [], '/none'),
    (r'module-9\.9/test_workqueue.ko does not exist: run make module', ['--no-build'], '')])
def test_there_is_no_module(monkeypatch, text, options, kdir):
    monkeypatch.setattr(advise.platform, 'release', lambda: '9.9')
    monkeypatch.setenv('KDIR', kdir)
    with pytest.raises(Failure, match=text):
        advise.module_for_here(advise.parse_args(options))


def test_sizes_of_a_kernel_that_cannot_change_them():
    subject = types.SimpleNamespace(described=pods.Machine(files_of(2, ours=False)))
    with pytest.raises(Failure, match='only at boot'):
        advise.prepare(subject, {'parameters': {'shard_sizes': [2]}})


@pytest.mark.parametrize('text, rows, wanted', [
    ('1\n', [{'name': 'wb', 'unbound': 1, 'wait_us': {'p99': 64}}, {'name': 'quiet', 'unbound': 1},
             {'name': 'dm', 'unbound': 1, 'wait_us': {'p99': 512}}],
     'waited for less than 512 us (dm), 64 us (wb)'),
    ('1\n', [{'name': 'mm', 'unbound': 0, 'wait_us': {'p99': 9999}}], 'no item of an unbound workqueue was measured'),
    ('1\n', 'fails', ''), ('0\n', [], ''), (None, [], '')])
def test_waits_of_own_work(tmp_path, monkeypatch, text, rows, wanted):
    """They are told while the kernel measures them, and if the monitor can read them."""
    monitor, enabled = tmp_path / 'monitor.py', tmp_path / 'latency_enable'
    monkeypatch.setattr(machine, 'MONITOR', monitor)
    monitor.write_text('import json, sys\nassert sys.argv[1:] == ["--debugfs", "-i", "0", "--json"]\n'
                       f'for row in {rows}: print(json.dumps(row))')
    if text:
        enabled.write_text(text)
    said = machine.own_waits(enabled)
    assert wanted in said and bool(wanted) == bool(said)
    monkeypatch.setattr(machine, 'own_waits', lambda: said)
    assert (said in advise.notes({'engine': None, 'cpus': None})) == bool(said)
    assert said not in advise.notes({'engine': 'uml', 'cpus': 1})


# Putting things back

@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return the module and the size. The module is in use at first, as if a pass still ran."""
    script = f'[ -e {tmp_path}/twice ] || {{ touch {tmp_path}/twice; exit 1; }}; rmdir {tmp_path}/module/"$1"'
    monkeypatch.setenv('PATH', stub(tmp_path / 'bin', 'rmmod', script))
    size = tmp_path / 'cache_shard_size'
    size.write_text('8\n')
    return tmp_path / 'module/test_workqueue', size


@pytest.mark.parametrize('resizes', [True, False])
def test_all_is_put_back_at_the_end(places, resizes):
    """A size that somebody else changes meanwhile stays."""
    module, size = places
    with keeper.kept(module, size if resizes else None):
        module.mkdir(parents=True)
        size.write_text('2\n')
    assert size.read_text() == ('8\n' if resizes else '2\n') and not module.exists()


def test_what_cannot_be_put_back_is_told(places, tmp_path):
    module, size = places
    with pytest.raises(Failure, match='could not be set back: write 8 to it'), keeper.kept(module, size):
        size.unlink()
        size.symlink_to('/proc/version')
    stub(tmp_path / 'bin', 'sleep', 'exit 0')
    stub(tmp_path / 'bin', 'rmmod', 'exit 1')
    with pytest.raises(Failure, match='could not be removed: run rmmod test_workqueue'), keeper.kept(module, None):
        module.mkdir(parents=True)


# Whole runs, with a fake guest

FAKE_GUEST = '''
recorded = dict(re.findall('test_workqueue: ((?:result|wait) scope=cpu).(.*)', (here / 'recorded').read_text()))
def tell(scope, **changes):
    for kind, text in recorded.items():
        text = f'scope={scope} ' + text
        for key, value in changes.items():
            text = re.sub(f'(^| ){key}=[^ ]*', f' {key}={value}', text)
        print('test_workqueue: ' + kind.split()[0], *text.split())
def done(runs=1):
    print(f'test_workqueue: done status=ok runs={runs} violations=0 error=0', '@done', sep='\\n', flush=True)
scopes = ('cpu', 'smt', 'cache', 'cache_shard', 'numa', 'system')
print('@file devices/system/cpu/online:0-1', '@file module/workqueue/parameters/cache_shard_size:8',
      '@file module/workqueue/parameters/own_pools:1', sep='\\n')
for scope in scopes:
    tell(scope, repeat=1)
done(len(scopes))
orders = open(here / 'orders', 'w', buffering=1)
for order in sys.stdin:
    orders.write(order)
    words = dict(word.split('=') for word in order.split())
    scope, items = words['scopes'], int(words['items'])
    gain = 1.5 if scope == 'system' else 1
    time.sleep(0.001)
    tell(scope, repeat=1, mode=words['mode'], actual='cache_shard' if scope == 'default' else scope, items=items,
         items_per_s=round(1e5 * gain), elapsed_ns=items * 10000, start_p99_ns=round(5e4 / gain))
    done()
sys.exit(0)
'''
RUN = ('--engine', 'uml', '--no-build', '--minutes', '0.05', '--loads', 'latency', '--scopes', 'numa,system')


@pytest.fixture
def project(tmp_path):
    return copied.project(tmp_path, 'advise.sh', FAKE_GUEST, {}, 'build/advise', {'recorded': RECORDED})


@pytest.mark.tier('test')
def test_whole_run(project):
    done = project.run(*RUN, '--shard-sizes', '1')
    assert done.returncode == 0, done.stderr
    folder, record = project.results()
    assert record['complete'] and record['settings'] == ['numa', 'system', 'cache_shard/1']
    assert record['advice']['verdict'] in (verdict.CHOOSE, verdict.SHORT)     # short on a busy machine
    assert words.lines(record)[-1] in done.stdout
    assert f'results: build/advise/{folder.name}/results.json' in done.stdout
    orders = (project.root / 'scripts/orders').read_text().splitlines()
    size = '/sys/module/workqueue/parameters/cache_shard_size'
    assert all(f'{size}=1 ' not in order or 'scopes=cache_shard' in order for order in orders)
    assert any(f'{size}=1 ' in order for order in orders) and any(f'{size}=8 ' in order for order in orders)
    assert 'advise: note: this shows how it works' in done.stderr


def test_waits_for_another_measurement(project):
    assert project.waits(*RUN)

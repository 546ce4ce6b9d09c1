# SPDX-License-Identifier: GPL-2.0
"""The host side of the benchmark: options, parsing, statistics, records, plots."""

import contextlib
import itertools
import json
import math
import os
import random
import re
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import copied
from calls import wait_until
from wqlab import procs
from wqlab.bench import by_scope, seat
from wqlab.bench import options as bench_options
from wqlab.bench import parse as bench_parse
from wqlab.bench import plot as bench_plot
from wqlab.bench import run as bench
from wqlab.bench import summary as bench_summary
from wqlab.measure import boot as measure_boot
from wqlab.measure import options as measure_options
from wqlab.measure import record as measure_record
from wqlab.measure import stats
from wqlab.paths import ROOT
from wqlab.scopes import SCOPES as ALL
from wqlab.steps import Failure

RECORDED = (ROOT / 'tests/data/bench/uml-base.log').read_text()
SCOPES = list(ALL)


def recorded_runs():
    return bench_parse.parse_output(RECORDED)['runs']


def boot(pair, variant, factor=1.0, **changes):
    """Return a copy of the recorded boot that is `factor` times as fast."""
    runs = recorded_runs()
    for run in runs:
        run['items_per_s'] = round(run['items_per_s'] * factor)
        run.update(changes)
    return {'pair': pair, 'variant': variant, 'runs': runs,
            'seconds': 1.0, 'trouble': [], 'passed_over': [], 'status': 'ok', 'log': 'logs/x.log',
            'violations': sum(run[key] for run in runs for key in bench_parse.VIOLATIONS)}


def params(*argv):
    return bench_options.parse_args(list(argv))[0]


def record(boots, *argv):
    chosen = params(*argv)
    return {'format': measure_record.FORMAT, 'program': 'run-bench', 'complete': False, 'parameters': chosen,
            'engine': chosen['engine'], 'topology': {'cpus': chosen['cpus']}, 'kernels': {},
            'boots': boots, 'failed_boots': [], 'summary': by_scope.summarise(boots)}


# Parsing

def test_recorded_log_is_read():
    parsed = bench_parse.parse_output(RECORDED)
    assert [run['scope'] for run in parsed['runs']] == SCOPES
    assert parsed['status'] == 'ok' and parsed['violations'] == 0
    assert parsed['passed_over'] == [] and parsed['notes'] == []
    assert bench_parse.parse_output(RECORDED + RECORDED) == parsed, 'a guest prints its log at the end once more'
    for run in parsed['runs']:
        assert run['items'] == 100000
        assert abs(run['items_per_s'] - run['items'] * 1e9 / run['elapsed_ns']) <= 1
        assert run['waits'] == 2 * math.ceil(run['items'] / 2 / run['sample'])
        for figure in ('', 'start_', 'done_'):
            found = [run[figure + key] for key in bench_parse.QUANTILES]
            assert found == sorted(found) and found[0] > 0


def test_a_line_that_is_missing_or_torn_is_an_error():
    with pytest.raises(Failure, match='6 runs were made, but only 5 can be read'):
        bench_parse.parse_output(RECORDED.replace('wait scope=numa', 'gone scope=numa'))
    with pytest.raises(Failure, match='wrote a line that makes no sense'):
        bench_parse.parse_output(RECORDED.replace('result scope=numa', 'result sc[  OK  ]ope=numa'))
    with pytest.raises(Failure, match='wrote a line that makes no sense'):
        bench_parse.parse_output(RECORDED.replace('result scope=numa', 'result scope=numa scope=numa'))


@pytest.mark.parametrize('output, why', [
    ('', 'did not finish'),
    ('test_workqueue: items=0 is not between 1 and 10', 'did not finish: items=0 is not'),
    (RECORDED.replace('done status', 'gone status'), 'did not finish'),
    (RECORDED.replace('status=ok', 'status=interrupted'), 'ended as "interrupted"'),
    (RECORDED.replace('status=ok', 'status=failed'), 'ended as "failed"'),
])
def test_unfinished_passes_are_errors(output, why):
    with pytest.raises(Failure, match=re.escape(why)):
        bench_parse.parse_output(output)


def test_violations_and_lacking_scopes_are_seen():
    log = RECORDED.replace('lost=0 twice=0', 'lost=2 twice=1').replace('status=ok', 'status=violated')
    log += 'test_workqueue: this kernel has no scope cache_shard: passed over\n'
    parsed = bench_parse.parse_output(log)
    assert parsed['violations'] == 3 * len(SCOPES)
    assert parsed['passed_over'] == ['cache_shard']


@pytest.mark.parametrize('kind, parse, key', [
    *(('result', bench_parse.parse_result, key) for key in bench_parse.NUMBERS + bench_parse.WORDS),
    *(('wait', bench_parse.parse_wait, key) for key in (*bench_parse.WAIT_NUMBERS, 'scope'))])
def test_a_result_needs_every_key(kind, parse, key):
    text = next(text for text in bench_parse.tagged_lines(RECORDED) if text.startswith(f'{kind} '))
    text = text.removeprefix(f'{kind} ')
    assert parse(text)
    with pytest.raises(Failure, match=f"KeyError\\('{key}'\\)"):
        parse(re.sub(rf'(?<!\S){key}=\S+ ?', '', text))


# Statistics

def test_spread_of_known_values():
    assert stats.spread([4, 1, 3, 2, 5]) == {
        'median': 3, 'min': 1, 'max': 5, 'spread_percent': round(100 / 3, 2), 'boots': 5}
    assert stats.spread([7]) == {
        'median': 7, 'min': 7, 'max': 7, 'spread_percent': 0.0, 'boots': 1}


def test_repeats_within_a_boot_count_as_their_median():
    row, *_ = by_scope.summarise([with_rates(1, 'cmwq', [100, 300, 200]), with_rates(2, 'cmwq', [400])])
    assert row['cmwq']['items_per_s']['median'] == 300 and row['cmwq']['items_per_s']['boots'] == 2


def with_rates(pair, variant, rates):
    """Return a boot that ran the scope cpu with these rates, one in each repeat."""
    one = boot(pair, variant)
    run = next(run for run in one['runs'] if run['scope'] == 'cpu')
    one['runs'] = [{**run, 'repeat': repeat, 'items_per_s': rate} for repeat, rate in enumerate(rates, 1)]
    return one


def ratio_of(boots):
    return by_scope.summarise(boots)[0]['ratio']['items_per_s']


def test_ratio_is_taken_repeat_by_repeat():
    """The machine slows down during a pair, and differs between pairs. The ratio must not change."""
    ratio = ratio_of([with_rates(1, 'cmwq', [200, 100, 50]), with_rates(1, 'base', [100, 50, 25]),
                      with_rates(2, 'cmwq', [20, 10, 5]), with_rates(2, 'base', [10, 5, 2.5])])
    assert ratio['boots'] == 2 and {ratio[key] for key in ('median', 'min', 'max', 'low', 'high')} == {2}


def test_a_repeat_that_only_one_boot_has_does_not_count():
    assert ratio_of([with_rates(1, 'cmwq', [200, 900]), with_rates(1, 'base', [100])])['median'] == 2


@pytest.mark.tier('more')
def test_interval_is_about_as_wide_as_it_should_be():
    """Of many experiments with a known ratio, the interval contains it in about 95%. It shrinks with more repeats."""
    chance, hits, widths = random.Random(7), 0, {4: [], 64: []}
    for repeats, found in widths.items():
        for _ in range(60):
            pairs = [[1.1 * chance.lognormvariate(0, 0.05) for _ in range(repeats)] for _ in range(6)]
            low, high = stats.interval(pairs)
            hits += low <= 1.1 <= high
            found.append(high - low)
    assert 100 <= hits <= 120 and 2 * sum(widths[64]) < sum(widths[4])


def test_interval_knows_that_boots_differ():
    """Repeats agree within a boot, but boots do not agree with each other."""
    low, high = stats.interval([[value] * 50 for value in (0.9, 0.95, 1.0, 1.05, 1.1)])
    assert low <= 0.95 and high >= 1.05


@pytest.mark.parametrize('factors, passed', [((1.0, 1.01, 0.99), True), ((1.03, 1.031, 1.032), False),
                                             ((0.9, 1.0, 1.1), False)])
def test_gate(factors, passed):
    boots = [boot(pair, variant, factor if variant == 'cmwq' else 1.0)
             for pair, factor in enumerate(factors) for variant in ('cmwq', 'base')]
    text = by_scope.gate(by_scope.summarise(boots), 'items_per_s')
    assert text.startswith('gate: passed' if passed else 'gate: NOT passed') and ('cpu ' in text) != passed


def test_half_a_pair_gives_no_ratio():
    rows = by_scope.summarise([boot(1, 'cmwq'), boot(2, 'base')])
    assert rows[0]['ratio']['items_per_s'] is None
    assert ' - ' in by_scope.table(rows)[2]


def test_table_names_scopes_values_and_ratio():
    boots = [boot(pair, variant, factor) for pair in (1, 2, 3)
             for variant, factor in (('cmwq', 1.5), ('base', 1.0))]
    lines = bench_summary.lines(by_scope.summarise(boots), params())
    assert [line.split()[0] for line in lines[2:8]] == SCOPES
    assert ' 1.50 ' in lines[2] and 'ours/base' in lines[0] and '(95%)' in lines[1]
    run = recorded_runs()[0]
    rate, workers = run['items_per_s'], run['kworkers']
    assert f'{rate:,}' in lines[2] and f'{round(rate * 1.5):,}' in lines[2]
    assert all(f' {run[key]:,} / {run[key]:,} ' in lines[2] for key in ('p50_ns', 'p99_ns'))
    assert lines[2].endswith(f'{workers} / {workers}')
    assert 'ours' in lines[0] and 'base' in lines[0] and [line[:1] for line in lines].index('±') == 18


def test_instructions_instead_of_rates():
    lines = by_scope.table(by_scope.summarise([boot(1, 'base')]), 'insns')
    run = recorded_runs()[0]
    assert ' base ' in lines[0] and ' insns/item ' in lines[1] and 'ours' not in lines[0] + lines[1]
    assert f"{run['elapsed_ns'] / run['items']:,.0f}" in lines[2]


def test_second_table_shows_waits():
    boots = [boot(pair, variant, **changes) for pair in (1, 2)
             for variant, changes in (('cmwq', {'start_p50_ns': 1500}), ('base', {'start_p50_ns': 3000}))]
    lines = bench_summary.lines(by_scope.summarise(boots), params())
    at = lines.index('') + 1
    assert lines[at + 2].split()[:5] == ['cpu', '1.50', '/', '3.00', '0.50'] and max(map(len, lines)) <= 150
    lines = bench_summary.lines(by_scope.summarise(boots), params('--icount'))
    assert lines[at + 2].split()[:5] == ['cpu', '1,500', '/', '3,000', '0.50']


def in_mode(mode):
    """Return boots of both variants with what this mode measures."""
    boots = [boot(1, 'cmwq'), boot(1, 'base')]
    for factor, one in enumerate(boots, 1):
        for run in one['runs']:
            run.update({'mode': mode} | dict.fromkeys(bench_parse.MODES[mode], factor * 1_000_000))
    return boots


@pytest.mark.parametrize('mode, words', [
    ('roam', ['done p50, us', 'done p99, us']),
    ('spread', ['makespan p50, us', 'CPUs']), ('mixed', ['probe p50, us', 'probe p99, us', 'probe p99.9, us']),
])
def test_second_table_follows_the_mode(mode, words):
    rows = by_scope.summarise(in_mode(mode))
    lines = bench_summary.lines(rows, params())
    at = lines.index('') + 1
    figure = words[0].split()[0]
    assert all(word in lines[at] for word in words) and lines[-1].startswith(f'{figure}: ')
    assert figure == 'done' or '1,000 / 2,000' in lines[at + 2] and ' 0.50 ' in lines[at + 2]
    assert max(map(len, lines)) <= 150
    panels = [metric for metric, _ in bench_plot.panels({**record(in_mode(mode)), 'summary': rows})]
    assert len(panels) == 6 and panels[-1].startswith(figure)


@pytest.mark.parametrize('mode', bench_parse.MODES)
def test_a_mode_needs_its_keys(mode):
    text = next(text for text in bench_parse.tagged_lines(RECORDED) if text.startswith('wait '))
    text = text.removeprefix('wait ').replace('mode=latency', f'mode={mode}')
    whole = ' '.join([text, *(f'{key}=7' for key in bench_parse.MODES[mode])])
    assert bench_parse.parse_wait(whole)['mode'] == mode
    with pytest.raises(Failure) if bench_parse.MODES[mode] else contextlib.nullcontext():
        bench_parse.parse_wait(text)


# Options

def guest_arguments(*argv, variant='cmwq'):
    """Return {option: value} of the guest that a boot starts."""
    chosen = params(*argv)
    built = measure_boot.kernel(chosen['engine'], 'cmwq')
    boot = {'variant': variant, 'pair': 1}
    words = seat.guest_arguments(built, chosen, boot, Path('x.log'))
    return {word: value for word, value in itertools.pairwise(words) if word.startswith('--')}


def test_icount_means_qemu_with_one_cpu():
    chosen = params('--icount')
    assert (chosen['engine'], chosen['cpus']) == ('qemu', 1)
    assert '--icount' in guest_arguments('--icount') and '--icount' not in guest_arguments('--engine', 'qemu')


@pytest.mark.parametrize('mode', ['roam', 'spread'])
def test_icount_with_cpus_that_take_turns(mode):
    assert '--icount' in guest_arguments('--icount', '--mode', mode)
    chosen = params('--icount', '--mode', mode, '--topology', 'sockets=2,cores=4')
    assert (chosen['engine'], chosen['cpus'], chosen['repeats']) == ('qemu', 8, 1)
    assert params('--icount', '--mode', mode, '--sweep', '2,16')['cpus'] == 16
    assert params('--icount', '--mode', mode)['cpus'] > 1


def test_arm64_is_emulated():
    chosen = params('--icount', '--engine', 'arm64')
    assert (chosen['engine'], chosen['cpus']) == ('arm64', 1)
    words = guest_arguments('--engine', 'arm64', '--topology', 'cores=4,llcs=2')
    assert (words['--engine'], words['--cpus'], words['--topology']) == ('arm64', '4', 'cores=4,llcs=2')
    assert measure_boot.accelerator(chosen, None) == 'tcg'


def test_guest_gets_what_was_chosen():
    words = guest_arguments('--engine', 'qemu', '--topology', 'sockets=2,cores=4,threads=2', '--mem', '2G')
    assert (words['--engine'], words['--cpus'], words['--mem']) == ('qemu', '16', '2G') and '--append' not in words
    assert words['--topology'] == 'sockets=2,cores=4,threads=2'


def test_time_for_a_boot_follows_from_what_it_does():
    boot_s, rate = bench_options.SLOWEST['uml']
    given = ('--items', str(rate), '--repeats', '3', '--scopes', 'cpu', '--threads', '2')
    assert params(*given, '--variant', 'base')['boot_timeout'] == boot_s + 3 * 2
    assert params(*given)['boot_timeout'] == params(*given, '--variant', 'base', '--gate')['boot_timeout'] \
        == 2 * (boot_s + 3 * 2)
    assert params('--scopes', 'cpu')['boot_timeout'] < params()['boot_timeout']


def test_uml_has_no_more_cpus_than_its_host(monkeypatch):
    monkeypatch.setattr(os, 'sched_getaffinity', lambda pid: {3})
    assert params()['cpus'] == 1 and params('--engine', 'qemu')['cpus'] == 2


def test_module_gets_what_was_chosen():
    line = seat.order(params('--mode', 'batch', '--batch', '7', '--scopes', 'cpu,numa', '--items', '11', '--strict',
                             '--repeats', '2', '--threads', '3'), 'numa')
    assert line == 'threads=3 items=11 warmup=100 mode=batch batch=7 strict=1 scopes=numa wq=unbound burn_us=100 ' \
        'max_active=0\n'
    line = seat.order(params('--mode', 'spread', '--batch', '64', '--burn-us', '500', '--wq', 'percpu'), 'default')
    assert line == 'threads=0 items=1984 warmup=64 mode=spread batch=64 strict=0 scopes=default wq=percpu ' \
        'burn_us=500 max_active=0\n'


def test_defaults_of_modes():
    chosen = params('--mode', 'spread', '--engine', 'qemu', '--cpus', '16')
    assert (chosen['batch'], chosen['burn_us'], chosen['items']) == (64, 100, 64 * 156)
    chosen = params('--mode', 'mixed', '--burn-us', '100000')
    assert (chosen['batch'], chosen['items']) == (32, 32)
    assert params('--mode', 'mixed')['items'] == 32 * 156
    assert params('--mode', 'burst')['items'] == params()['items']
    for kind in ('percpu', 'reclaim', 'highpri', 'bh', 'ordered'):
        assert params('--wq', kind)['scopes'] == ['default']
    assert params('--wq', 'unbound_highpri')['scopes'] is None
    assert params('--mode', 'limit', '--wq', 'ordered')['max_active'] is None


def test_slow_items_get_more_time():
    given = ('--mode', 'spread', '--variant', 'base', '--repeats', '1', '--scopes', 'cpu', '--threads', '1')
    boot_s, _ = bench_options.SLOWEST['uml']
    assert params(*given, '--burn-us', '100000', '--items', '500')['boot_timeout'] == boot_s + 50


def test_parameters_of_one_variant():
    given = ('--append-cmwq', 'workqueue.own_pools=0 quiet')
    assert guest_arguments(*given)['--append'] == 'workqueue.own_pools=0 quiet'
    assert '--append' not in guest_arguments(*given, variant='base')
    assert list(bench_options.names(params('--gate', *given)).values()) == ['with', 'without']


def test_gate_means_one_variant_in_both_places():
    assert bench_options.places(params('--gate')) == {'cmwq': 'cmwq', 'base': 'cmwq'}
    assert bench_options.places(params('--gate', '--variant', 'base')) == {'cmwq': 'base', 'base': 'base'}
    assert bench_options.places(params('--variant', 'base')) == {'base': 'base'}
    assert list(bench_options.names(params('--gate')).values()) == ['ours', 'again']
    assert list(bench_options.names(params('--gate', '--variant', 'base')).values()) == ['base', 'again']


BAD_OPTIONS = [
    (['--pairs', '0'], 'not between'),
    (['--scopes', 'cachex'], '"cachex" is not an affinity scope'),
    (['--scopes', 'cpu,cpu'], 'twice'),
    (['--topology', 'cores=2'], 'needs --engine qemu'),
    (['--icount', '--engine', 'uml'], 'leave --engine out'),
    (['--icount', '--cpus', '2'], 'one CPU'),
    (['--append-cmwq', 'quiet', '--variant', 'base'], 'leave --append-cmwq out'),
    (['--mode', 'roam', '--cpus', '1'], 'more than one CPU'),
    (['--mode', 'spread', '--icount', '--sweep', '1,2'], 'more than one CPU'),
    (['--mode', 'roam', '--icount', '--cpus', '256'], 'at most 255 CPUs'),
    (['--sweep', '2,4', '--engine', 'qemu', '--cpus', '2'], 'leave --cpus out'),
    (['--sweep', '2,4', '--engine', 'qemu', '--topology', 'cores=4'], 'leave --topology out'),
    (['--sweep', '1,2', '--icount'], 'leave --icount out'),
    (['--sweep', '1,2', '--engine', 'qemu', '--mode', 'roam'], 'more than one CPU'),
    (['--sweep', '2,512'], 'UML cannot have more CPUs than this machine'),
    (['--resume', '--pairs', '3'], 'give no other options'),
    (['--mem', 'lots'], 'write it as 512M or 2G'),
]


@pytest.mark.parametrize('argv, why', BAD_OPTIONS, ids=lambda value: ' '.join(value)
                         if isinstance(value, list) else '')
def test_bad_options_are_refused(argv, why, capsys):
    with pytest.raises(SystemExit) as ended:
        bench_options.parse_args(argv)
    said = capsys.readouterr()
    assert ended.value.code == 2 and why in said.err.splitlines()[-1] and not said.out


def test_what_spoils_figures_is_said(monkeypatch):
    chosen = params('--engine', 'qemu', '--cpus', '512')
    assert any('512 guest CPUs' in line for line in measure_options.warnings(chosen))
    monkeypatch.setattr(os, 'getloadavg', lambda: (99.0, 99.0, 99.0))
    assert any('load 99' in line for line in measure_options.warnings(params()))
    assert not any('load 99' in line for line in measure_options.warnings(params('--icount')))


# Records

def test_boots_alternate():
    order = bench.boots_to_make(params('--pairs', '2'))
    assert [(one['pair'], one['variant']) for one in order] == \
        [(1, 'cmwq'), (1, 'base'), (2, 'cmwq'), (2, 'base')]


def test_boots_left_to_make(tmp_path):
    one = record([boot(1, 'cmwq'), boot(1, 'base'), boot(2, 'cmwq')], '--pairs', '3')
    measure_record.save(one, tmp_path)
    assert os.listdir(tmp_path) == ['results.json']
    found = measure_record.load(tmp_path, 'run-bench')
    assert found == json.loads(json.dumps(one))
    assert [(boot['pair'], boot['variant']) for boot in bench.boots_left(found)] == [
        (2, 'base'), (3, 'cmwq'), (3, 'base')]


@pytest.mark.parametrize('text, why', [
    (None, 'does not exist'),
    ('{"format": 1,', 'cannot be read'),
    ('[]', 'was not written by this version of run-bench.sh'),
    ('{"format": 2, "program": "run-workload"}', 'was not written by this version of run-bench.sh'),
])
def test_damaged_records_are_refused(tmp_path, text, why):
    if text is not None:
        (tmp_path / 'results.json').write_text(text)
    with pytest.raises(Failure, match=re.escape(why)):
        measure_record.load(tmp_path, 'run-bench')


def test_newest_unfinished_record_is_found(tmp_path):
    for name, complete in (('2026-01-01', False), ('2026-01-02', False), ('2026-01-03', True)):
        (tmp_path / name).mkdir()
        measure_record.save({**record([]), 'complete': complete}, tmp_path / name)
    (tmp_path / '2026-01-04').mkdir()
    (tmp_path / '2026-01-04' / 'results.json').write_text('damaged')
    assert measure_record.find_unfinished(tmp_path, 'run-bench').name == '2026-01-02'
    with pytest.raises(Failure, match='nothing to resume'):
        measure_record.find_unfinished(tmp_path / '2026-01-03', 'run-bench')


def test_folders_of_the_same_second_differ(tmp_path):
    folders = {measure_record.new_folder(tmp_path) for _ in range(3)}
    assert len(folders) == 3 and all((folder / 'logs').is_dir() for folder in folders)


# A copy of the project with a fake guest

FAKE_GUEST = '''
note(kernel)
def told_to(what):
    return marked(f'{what}-{log.stem}')
recorded = (here / 'recorded').read_text().splitlines()
def report(scopes, **changes):
    lines = [line for line in recorded if (re.search(f'scope={scopes} |done status=', line) if scopes
                                           else 'mode=floor' not in line)]
    text = re.sub('runs=6', f'runs={len(lines) // 2}', '\\n'.join(lines))
    for old, new in changes.items():
        text = text.replace(old.replace('_is_', '='), new)
    print(text, '@done', sep='\\n', flush=True)
def end(status, text=''):
    log.write_text(text)
    sys.exit(status)
if told_to('sleeps'):
    (here / 'sleeping').touch()
    while not (here / 'awake').exists():
        time.sleep(0.05)
if told_to('dies'):
    end(125, 'Kernel panic - not syncing: test\\n')
if told_to('slow'):
    end(124)
recorded = list(dict.fromkeys(line for line in recorded if re.search('(result|wait) scope=|done status=', line)))
report('')
given = argv[-1].partition("<<'ORDERS'\\n")[2].partition('ORDERS\\n')[0].splitlines(True)
for order in given or sys.stdin:
    with open(here / f'orders-{log.stem}', 'a') as orders:
        orders.write(order)
    if told_to('ends'):
        end(3)
    scope = re.search(r'scopes=(\\w+)', order)[1]
    report(scope, **({'lost_is_0': 'lost=3', 'status_is_ok': 'status=violated'} if told_to('loses') else {}))
end(0, '[ 1.0] WARNING: CPU: 0 PID: 1 at kernel/x.c:1\\n' if told_to('warns') else '')
'''


@pytest.fixture
def project(tmp_path):
    """A copy of the scripts with empty kernels. The guest prints the recorded log."""
    return copied.project(tmp_path, 'run-bench.sh', FAKE_GUEST, {}, 'build/bench', {'recorded': RECORDED})


def calls(project):
    """Return the variants in the order of booting. The guests of a pair start at the same time."""
    names = [name.split('-')[1] for name in project.calls()]
    return [name for at in range(0, len(names), 2) for name in sorted(names[at:at + 2])]


def table_of(done):
    return [line.split()[0] for line in done.stdout.splitlines()[2:8]]


def asleep(project):
    """Wait until the guest that is to sleep does."""
    wait_until((project.root / 'scripts/sleeping').exists)


def test_whole_run(project):
    done = project.run('--no-build', '--pairs', '2')
    assert done.returncode == 0, done.stderr
    assert calls(project) == ['base', 'cmwq'] * 2
    folder, result = project.results()
    assert result['complete'] and result['finished'] and result['engine'] == 'uml'
    assert result['kernels']['cmwq']['release'] == '7.3.4-cmwq'
    assert result['machine']['cores'] == os.cpu_count()
    assert [one['variant'] for one in result['boots']] == ['cmwq', 'base'] * 2
    assert all([run['scope'] for run in one['runs']] == SCOPES * 8 and
               [run['repeat'] for run in one['runs']] == [n for n in range(1, 9) for _ in SCOPES]
               for one in result['boots'])
    assert (folder / 'plot.png').read_bytes().startswith(b'\x89PNG')
    assert '</svg>' in (folder / 'plot.svg').read_text()
    assert re.search(r'^cpu .* 1.00 ', done.stdout, re.M)
    assert '[4/4] pair 2 of 2, cmwq and base: booting' in done.stderr
    assert not list(folder.glob('*.new'))


def test_guests_take_turns():
    """Of two runs of a scope in turn, each guest makes the first one as often as the other."""
    passes = []
    seats = [SimpleNamespace(scopes=['cpu', 'numa'], lost=lambda: False,
                             make_pass=lambda line, repeat, clock, name=name: passes.append((name, repeat, line)))
             for name in 'AB']
    seat.make_passes(seats, params('--repeats', '4'), None)
    order = [name for name, _, line in passes if 'scopes=cpu' in line]
    assert ''.join(order) == 'ABBAABBA'
    assert [repeat for _, repeat, _ in passes] == [repeat for repeat in (1, 2, 3, 4) for _ in 'ABAB']


def test_gate_of_one_kernel(project):
    done = project.run('--no-build', '--pairs', '2', '--gate')
    assert done.returncode == 0 and project.calls() == ['uml-cmwq-release-7.3'] * 4
    assert 'run-bench: gate: passed: ' in done.stderr and re.search('ours/again', done.stdout)


def test_kernel_warning_fails_the_run(project):
    project.mark('warns-001-cmwq')
    done = project.run('--no-build', '--pairs', '1')
    assert done.returncode == 1
    assert 'FAILED: pair 1 of 1, cmwq: the kernel reported problems (1 lines), first: [ 1.0] WARNING' in done.stderr


@pytest.mark.parametrize('end, why', [('dies', 'Kernel panic'), ('ends', 'the guest ended early (status 3: ')])
def test_a_dead_guest_is_tried_again_and_told(project, end, why):
    """It dies at boot, or ends between two passes."""
    project.mark(f'{end}-001-base')
    done = project.run('--no-build', '--pairs', '1')
    assert done.returncode == 1
    assert calls(project) == ['base', 'cmwq'] * 2
    assert why in done.stderr and 'trying once more' in done.stderr
    assert 'FAILED: pair 1 of 1, base, attempt 1' in done.stderr
    assert project.results()[1]['complete']


def test_two_dead_guests_end_the_run_which_can_be_resumed(project):
    """The table has what was measured before."""
    project.mark('dies-002-base')
    project.mark('slow-002-base-attempt2')
    done = project.run('--no-build', '--pairs', '2')
    assert done.returncode == 1 and table_of(done) == SCOPES
    assert 'took longer than' in done.stderr and not list(project.results()[0].glob('plot.*'))
    assert 'to continue: scripts/run-bench.sh --resume build/bench/' in done.stderr
    (project.root / 'scripts/dies-002-base').unlink()
    done = project.run('--resume', str(project.results()[0]))
    assert calls(project)[6:] == ['base', 'cmwq']
    assert project.results()[1]['complete']
    assert done.returncode == 1 and 'attempt 2' in done.stderr


def test_interrupted_run_is_resumed(project):
    project.mark('sleeps-002-cmwq')
    process = project.run('--no-build', '--pairs', '2', wait=False)
    asleep(project)
    process.send_signal(signal.SIGTERM)
    _, messages = process.communicate(timeout=30)
    assert process.returncode == 130 and 'interrupted' in messages
    assert len(project.results()[1]['boots']) == 2

    (project.root / 'scripts/sleeps-002-cmwq').unlink()
    done = project.run('--resume')
    assert done.returncode == 0, done.stderr
    assert [(one['pair'], one['variant']) for one in project.results()[1]['boots']] == \
        [(1, 'cmwq'), (1, 'base'), (2, 'cmwq'), (2, 'base')]
    done = project.run('--resume')
    assert done.returncode == 1 and 'nothing to resume' in done.stderr


def test_another_kernel_is_not_resumed(project):
    project.mark('dies-001-base')
    project.mark('dies-001-base-attempt2')
    project.run('--no-build', '--pairs', '1')
    copied.empty_kernel(project.root, 'uml', 'base')[0].write_text('rebuilt')
    done = project.run('--resume')
    assert done.returncode == 1 and 'start a new run' in done.stderr


def test_a_run_keeps_its_kernels_and_other_runs_away(project):
    """The second run waits until the first has ended. Nothing can be built meanwhile."""
    project.mark('sleeps-001-cmwq')
    command = [project.root / 'scripts/run-bench.sh', '--no-build', '--pairs', '1']
    with procs.kept(command, stderr=subprocess.DEVNULL) as first:
        asleep(project)
        for variant in ('cmwq', 'base'):
            lock = project.root / f'build/.lock-uml-{variant}-release-7.3'
            assert subprocess.run(['flock', '-n', lock, 'true'], check=False).returncode == 1
        (project.root / 'scripts/sleeps-001-cmwq').unlink()
        with procs.kept(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as second:
            said = second.stderr.readline()
            assert f'measurement is in use by process {first.pid} (' in said and 'waiting for its end' in said
            first.terminate()
            assert first.wait(timeout=60) == 130
            second.communicate(timeout=60)
            assert second.returncode == 0
    assert subprocess.run(['flock', '-n', lock, 'true'], check=False).returncode == 0


def test_a_broken_promise_fails_the_run_and_pictures_that_fail_cost_nothing_else(project):
    project.mark('loses-001-base')
    (project.root / 'scripts/matplotlib.py').write_text("raise MemoryError('out of memory')")
    done = project.run('--no-build', '--pairs', '1')
    assert done.returncode == 1 and table_of(done) == SCOPES
    assert len((project.root / 'scripts/orders-001-base').read_text().splitlines()) == 1, 'it went on'
    *_, broken, pictures = done.stderr.splitlines()
    assert 'FAILED: pair 1 of 1, base: the contract was broken: 3 lost' in broken
    folder, result = project.results()
    assert pictures == 'run-bench: FAILED: the plots could not be drawn (MemoryError: out of memory); to draw them ' \
        f'later: scripts/run-bench.sh --resume {folder.relative_to(project.root)}'
    assert result['complete'] and sorted(os.listdir(folder)) == ['logs', 'results.json']


def test_a_run_that_is_complete_is_reported_again(project):
    first = project.run('--no-build', '--pairs', '1', '--variant', 'base')
    folder, result = project.results()
    (folder / 'plot.svg').unlink()
    again = project.run('--resume', folder)
    assert again.returncode == 0 and again.stdout == first.stdout and len(project.calls()) == 1
    assert (folder / 'plot.svg').exists() and project.results()[1] == result


def test_missing_kernel_is_named(project):
    copied.empty_kernel(project.root, 'uml', 'base')[1].unlink()
    done = project.run('--no-build')
    assert done.returncode == 1
    assert 'test_workqueue.ko is missing: run make kernel ENGINE=uml VARIANT=base' in done.stderr


def test_missing_venv_is_made_first(project):
    venv = project.root / 'build/venv'
    venv.unlink()
    deps = project.root / 'scripts/deps.sh'
    deps.write_text('#!/bin/sh\necho "deps: no network" >&2\nexit 1\n')
    done = project.run('--no-build', '--pairs', '1', '--variant', 'base')
    assert done.returncode == 1 and done.stderr == 'deps: no network\n'
    assert project.run('--help').returncode == 0
    deps.write_text(f'#!/bin/sh\nln -s {ROOT}/build/venv {venv}\n')
    assert project.run('--no-build', '--pairs', '1', '--variant', 'base').returncode == 0
    assert project.results()[1]['complete']


# Plots

def test_picture_of_instructions(tmp_path):
    """Whole runs draw all other pictures."""
    bench_plot.write(record([boot(1, 'cmwq'), boot(1, 'base')], '--icount'), tmp_path)
    assert (tmp_path / 'plot.png').stat().st_size > 10000 and '</svg>' in (tmp_path / 'plot.svg').read_text()

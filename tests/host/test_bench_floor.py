# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --floor and --sweep: options, parsing, tables and plots."""

import re

import pytest

import copied
from test_bench import FAKE_GUEST, RECORDED, SCOPES, boot, params, record
from wqlab.bench import options as bench_options
from wqlab.bench import parse, seat, summary, sweep
from wqlab.bench import plot as bench_plot
from wqlab.bench import run as bench
from wqlab.measure import plot
from wqlab.paths import ROOT

FLOOR = (ROOT / 'tests/data/bench/uml-floor.log').read_text()
ROWS = list(parse.FLOOR)


def with_floor(pair, variant, factor=1.0, cpus=None, **changes):
    """Return a recorded boot with the recorded rows of the floor."""
    one = boot(pair, variant, factor, **changes)
    one['runs'] += [{**run, **changes} for run in parse.parse_output(FLOOR)['runs']]
    return {**one, **({'cpus': cpus} if cpus else {})}


def alone(pair, variant, trip, ground):
    """Return a boot with one thread, whose round trips took these times, with a workqueue and without."""
    one = with_floor(pair, variant, threads=1, in_flight=1, items=100)
    for run in one['runs']:
        run['elapsed_ns'] = 100 * (ground if run['scope'] == 'same' else trip)
    return one


# The floor

def test_recorded_floor_is_read():
    parsed = parse.parse_output(FLOOR)
    assert [run['scope'] for run in parsed['runs']] == ROWS and parsed['notes'] == [] and not parsed['violations']
    for run in parsed['runs']:
        assert (run['mode'], run['wq'], run['kworkers'], run['in_flight']) == ('floor', 'none', 0, 1)
        assert run['waits'] > 0 and all(run[key] > 0 for key in ('start_max_ns', 'done_max_ns', 'items_per_s'))
    assert [run['threads'] for run in parsed['runs']] == [2, 2, 1]


def test_rows_without_a_second_cpu_are_passed_over():
    log = 'test_workqueue: there is only one CPU, so no floor line: passed over\n' + FLOOR
    assert parse.parse_output(log)['passed_over'] == ['line']


def test_rows_of_the_floor():
    assert bench_options.floor_of(params()) == []
    assert bench_options.floor_of(params('--floor', '--cpus', '2')) == ROWS
    assert bench_options.floor_of(params('--floor', '--icount')) == ['same']
    assert bench_options.floor_of(params('--floor', '--cpus', '1')) == ['same']


def test_module_gets_the_row():
    chosen = params('--floor', '--mode', 'batch', '--wq', 'percpu', '--max-active', '9', '--items', '70')
    assert seat.order(chosen, 'other') == 'threads=0 items=70 warmup=100 mode=floor batch=32 strict=0 scopes=other ' \
        'wq=none burn_us=100 max_active=0\n'
    assert 'max_active=9' in seat.order(chosen, 'default')


def test_table_names_the_rows_of_the_floor():
    boots = [with_floor(pair, variant) for pair in (1, 2) for variant in ('cmwq', 'base')]
    lines = summary.lines(summary.summarise(boots), params('--floor'))
    for name in parse.FLOOR.values():
        assert sum(line.startswith(name) for line in lines) == 2      # rates, and waits
    assert any(line.startswith('floor: the same items') for line in lines)
    assert not any('above' in line for line in lines) and max(map(len, lines)) <= 150


def test_what_is_above_the_floor():
    boots = [alone(1, 'cmwq', 5000, 2000), alone(1, 'base', 7000, 2000)]
    rows = summary.summarise(boots)
    assert [row['above'] for row in rows[:6]] == [{'cmwq': 3000, 'base': 5000}] * 6
    assert all(row['above_ratio'] == {'ratio': 0.6} for row in rows[:6]) and not any('above' in row for row in rows[6:])
    lines = summary.lines(rows, params('--floor', '--icount'))
    at = next(at for at, line in enumerate(lines) if 'above, insns' in line)
    assert re.findall(r'(?:round trip|floor|above), insns', lines[at]) == \
        ['round trip, insns'] * 2 + ['floor, insns'] * 2 + ['above, insns'] * 2
    assert lines[at + 1].split() == ['cpu', '5,000', '7,000', '2,000', '2,000', '3,000', '5,000', '0.600']
    assert [line.split()[0] for line in lines[at + 1:at + 7]] == SCOPES
    assert any(line.startswith('above the floor: ') for line in lines) and max(map(len, lines)) <= 150


def test_above_the_floor_of_one_variant():
    lines = summary.lines(summary.summarise([alone(1, 'base', 7000, 2000)]), params('--floor', '--icount'))
    at = next(at for at, line in enumerate(lines) if 'above, insns' in line)
    assert lines[at + 1].split() == ['cpu', '7,000', '2,000', '5,000']


@pytest.mark.parametrize('changes', [{'threads': 2}, {'in_flight': 32}])
def test_nothing_is_above_the_floor_of_many(changes):
    """The time of a run divided by its items is not that of a round trip."""
    boots = [alone(1, 'cmwq', 5000, 2000)]
    for run in boots[0]['runs']:
        run.update(changes)
    assert not any('above' in row for row in summary.summarise(boots))


# The number of CPUs

def test_defaults_of_a_sweep():
    chosen = params('--engine', 'qemu', '--sweep', '2,4,32')
    assert (chosen['cpus'], chosen['pairs'], chosen['floor'], chosen['mem']) == (32, 2, True, '2G')
    assert chosen['scopes'] == ['cpu', 'cache_shard', 'system']
    assert not params('--engine', 'qemu', '--sweep', '2,4', '--mode', 'burst')['floor']
    assert params('--engine', 'qemu', '--sweep', '2,4', '--wq', 'percpu')['scopes'] == ['default']


def test_each_boot_of_a_sweep_has_its_own_items():
    chosen = params('--engine', 'qemu', '--sweep', '1,2,8,512')
    found = [bench_options.of_boot(chosen, {'cpus': cpus}) for cpus in chosen['sweep']]
    assert [one['items'] for one in found] == [20000, 10000, 2500, 200]
    assert [bench_options.floor_of(one) for one in found] == [['same'], ROWS, ROWS, ROWS]
    chosen = params('--engine', 'qemu', '--sweep', '2,64', '--mode', 'spread')
    assert [bench_options.of_boot(chosen, {'cpus': cpus})['batch'] for cpus in (2, 64)] == [32, 256]
    chosen = params('--engine', 'qemu', '--sweep', '2,8', '--items', '77')
    assert bench_options.of_boot(chosen, {'cpus': 8})['items'] == 77


def test_boots_of_a_sweep():
    one = record([boot(1, 'cmwq'), boot(1, 'base')], '--engine', 'qemu', '--sweep', '2,8', '--pairs', '1')
    for made in one['boots']:
        made['cpus'] = 2
    assert [(made['cpus'], made['variant']) for made in bench.boots_left(one)] == [(8, 'cmwq'), (8, 'base')]


def swept():
    boots = [with_floor(pair, variant, factor * cpus, cpus) for pair in (1, 2) for cpus in (2, 4)
             for variant, factor in (('cmwq', 1.5), ('base', 1.0))]
    return {**record(boots, '--engine', 'qemu', '--sweep', '2,4'), 'summary': summary.summarise(boots)}


def test_table_of_a_sweep():
    one = swept()
    lines = summary.lines(one['summary'], one['parameters'], bench_options.names(one['parameters']))
    assert lines[0].split()[:5] == ['CPUs', 'scope', 'ours', 'base', 'ours/base']
    assert lines[2].split()[:2] == ['2', 'cpu'] and ' 1.50 ' in lines[2]
    body = lines[2:lines.index('')]
    assert [line.split()[0] for line in body] == ['2'] * 9 + ['4'] * 9 and max(map(len, lines)) <= 170


def test_lines_of_the_picture():
    """The floor is drawn once, although each guest measured it."""
    figure = sweep.draw(swept(), plot.plotting())
    first = figure.axes[0]
    assert len(figure.legends) == 1 and not any(axes.get_legend() for axes in figure.axes)    # it would cover lines
    lines = {line.get_label(): line for line in first.get_lines()}
    for name in parse.FLOOR.values():
        assert list(lines[name].get_xdata()) == [2, 4]
    rate = next(run['items_per_s'] for run in parse.parse_output(RECORDED)['runs'] if run['scope'] == 'cpu')
    ours, = (box for box in first.containers if box.get_label() == 'ours')
    assert list(ours[0].get_ydata()) == [round(rate * 3), round(rate * 6)]
    plot.plotting().close(figure)


def test_second_panel_of_a_sweep_follows_the_mode():
    for mode, label in (('burst', 'makespan'), ('mixed', 'probe'), ('roam', 'queueing to start')):
        one = record([], '--engine', 'qemu', '--sweep', '2,4', '--mode', mode)
        assert sweep.panels(one)[1][1].startswith(label)


def test_a_sweep_with_icount_shows_instructions():
    """CPUs that take turns have no makespan."""
    one = record([], '--icount', '--sweep', '2,4', '--mode', 'spread')
    assert sweep.panels(one) == [('ns_per_item', 'instructions per item (lower is better)'),
                                 ('start_p50_ns', 'queueing to start, p50, insns')]


def test_time_is_no_number_of_instructions_if_items_sleep():
    boots = [boot(1, 'cmwq'), boot(1, 'base')]
    lines = summary.lines(summary.summarise(boots), params('--icount', '--mode', 'mixed'))
    assert ' ns/item ' in lines[1] and 'insns' not in ''.join(lines) and lines[-1].startswith('ns: of the guest')
    assert 'ns of the guest per item' in bench_plot.panels(record(boots, '--icount', '--mode', 'mixed'))[0][1]
    assert 'ns: of' not in ''.join(summary.lines(summary.summarise(boots), params('--icount')))


# A copy of the project with a fake guest

@pytest.fixture
def project(tmp_path):
    recorded = RECORDED + FLOOR.replace('done status', 'gone')
    return copied.project(tmp_path, 'run-bench.sh', FAKE_GUEST, {}, 'build/bench', {'recorded': recorded})


def test_whole_run_with_the_floor(project):
    done = project.run('--no-build', '--pairs', '1', '--repeats', '2', '--floor')
    assert done.returncode == 0, done.stderr
    _, result = project.results()
    assert all([run['scope'] for run in one['runs']] == [*SCOPES, *ROWS] * 2 for one in result['boots'])
    orders = (project.root / 'scripts/orders-001-base').read_text().splitlines()
    assert sum('mode=floor' in line and 'wq=none' in line for line in orders) == 6
    assert all(name in done.stdout for name in parse.FLOOR.values())
    assert 'two threads that spin on one word' in (project.results()[0] / 'plot.svg').read_text()


@pytest.mark.tier('test')
def test_whole_sweep_is_resumed(project):
    project.mark('dies-001-cmwq-cpus2')
    project.mark('dies-001-cmwq-cpus2-attempt2')
    argv = ('--no-build', '--pairs', '1', '--repeats', '1', '--sweep', '1,2')
    done = project.run(*argv)
    assert done.returncode == 1 and 'to continue: ' in done.stderr
    assert [(one['cpus'], one['variant']) for one in project.results()[1]['boots']] == \
        [(1, 'cmwq'), (1, 'base')]
    assert '[2/4] pair 1 of 1, cmwq, 1 CPUs and base: booting' in done.stderr
    (project.root / 'scripts/dies-001-cmwq-cpus2').unlink()
    done = project.run('--resume')
    folder, result = project.results()
    assert result['complete'] and len(result['boots']) == 4
    assert [run['scope'] for run in result['boots'][0]['runs']] == ['cpu', 'cache_shard', 'system', 'same']
    assert [run['scope'] for run in result['boots'][3]['runs']] == ['cpu', 'cache_shard', 'system', *ROWS]
    assert re.search(r'^ *2 +system ', done.stdout, re.M)
    assert all(f'>{name}' in (folder / 'plot.svg').read_text() for name in ('ours', 'base', *parse.FLOOR.values()))
    orders = (project.root / 'scripts/orders-001-base-cpus2').read_text()
    assert ' items=50000 ' in orders

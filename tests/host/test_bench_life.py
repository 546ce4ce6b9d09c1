# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --mode life: options, orders, parsing and the table."""

import re

import pytest

import copied
import test_bench
from test_bench import params, record
from wqlab.bench import life, parse, seat, summary
from wqlab.bench import options as bench_options
from wqlab.bench import plot as bench_plot
from wqlab.guest.engines.qemu import TAKING_TURNS, Qemu
from wqlab.guest.setup import Setup
from wqlab.guest.topology import Topology
from wqlab.measure import record as measure_record
from wqlab.paths import ROOT
from wqlab.scopes import FEW

RECORDED = (ROOT / 'tests/data/bench/uml-life.log').read_text()
ROWS = [*FEW, *life.KINDS]
SWEEP = ('--mode', 'life', '--icount', '--sweep', '8,72')


def recorded_runs():
    """Return the runs of the log, which has a pass for each row."""
    passes = [text for text in re.split(r'(?<=error=0\n)', RECORDED) if text]
    return [run for text in passes for run in parse.parse_output(text)['runs']]


def boot(variant, factor=1, cpus=None, us=2_000_000):
    """Return a boot whose workqueues take and keep `factor` times as much as the recorded ones."""
    runs = [{key: value * factor if key.endswith('_ns') or key == 'bytes' else value for key, value in run.items()}
            for run in recorded_runs()]
    return {'pair': 1, 'variant': variant, 'shard_size': None, 'runs': runs, 'seconds': 1.0, 'trouble': [],
            'passed_over': [], 'status': 'ok', 'log': 'logs/x.log', 'violations': 0, 'boot_us': us,
            **({'cpus': cpus} if cpus else {})}


def test_recorded_lives_are_read():
    runs = recorded_runs()
    assert [run['scope'] for run in runs] == ROWS and {run['mode'] for run in runs} == {'life'}
    for run in runs:
        assert ('change_p50_ns' in run) == (run['scope'] in FEW)
        assert run['bytes'] > 0 and run['create_p50_ns'] <= run['create_max_ns'] and run['lost'] == 0


@pytest.mark.parametrize('key', ['bytes', 'count', 'actual', 'wq', 'create_p50_ns', 'flush_mean_ns', 'change_p50_ns',
                                 'destroy_max_ns'])
def test_a_life_needs_every_key(key):
    text = next(text for text in parse.tagged_lines(RECORDED) if text.startswith('life ')).removeprefix('life ')
    assert parse.parse_life(text)['scope'] == 'cpu'
    assert parse.parse_life(re.sub(rf'(?<!\S){key}=\S+ ?', '', text)) is None
    assert key != 'change_p50_ns' or parse.parse_life(re.sub(r'change_\S+ ?', '', text).replace('=unbound', '=bh'))


def test_defaults():
    chosen = params('--mode', 'life')
    assert (chosen['engine'], chosen['pairs'], chosen['repeats'], chosen['scopes']) == ('uml', 1, 1, list(FEW))
    assert bench_options.floor_of(chosen) == list(life.KINDS)
    chosen = params(*SWEEP)
    assert (chosen['engine'], chosen['cpus'], chosen['icount'], chosen['floor']) == ('qemu', 72, True, False)
    assert params('--mode', 'life', '--icount', '--cpus', '8', '--scopes', 'numa')['cpus'] == 8


@pytest.mark.parametrize('option', [['--wq', 'percpu'], ['--batch', '4'], ['--strict'], ['--threads', '3'], ['--floor'],
                                    ['--items', '5'], ['--max-active', '4']])
def test_options_without_effect_are_refused(option, capsys):
    with pytest.raises(SystemExit):
        params('--mode', 'life', *option)
    assert f'leave {option[0]} out' in capsys.readouterr().err


def test_orders():
    chosen = params(*SWEEP)
    assert seat.order(chosen, 'cpu') == f'{life.DEFAULT_SCOPE}=cpu mode=life wq=unbound scopes=default batch=2048 ' \
        'strict=0 max_active=0\n'
    assert seat.order(chosen, 'ordered').startswith('mode=life wq=ordered scopes=default batch=8192 ')
    assert [life.count('percpu', cpus) for cpus in (1, 8, 255)] == [8192, 8192, 2048]
    assert life.count('reclaim', 8) == 512


@pytest.mark.parametrize('line, us', [('[    1.234567] Run /init as init process', 1234567),
                                      ('[   12.000089] Run', None),
                                      ('[  312.000089] Run /init as init process', 312000089)])
def test_time_of_boot(tmp_path, line, us):
    (tmp_path / 'log').write_text(f'[    0.100000] smp: x\n{line}\n[ 400.000000] x\n')
    assert life.boot_us(tmp_path / 'log') == us


def test_table():
    boots = [boot(variant, factor, cpus, us) for cpus in (8, 72) for variant, factor, us in
             (('cmwq', 1, 1_500_000), ('base', 2, 1_000_000))]
    lines = summary.lines(summary.summarise(boots), params(*SWEEP))
    assert re.findall(r'\w+, \w+', lines[0]) == [f'{step}, insns' for step in parse.LIFE] + ['memory, bytes']
    assert re.findall(r'ours / base  ours/base', lines[1]) == ['ours / base  ours/base'] * 5
    body = lines[2:lines.index('')]
    assert [line.split()[:2] for line in body] == [[cpus, row] for cpus in ('8', '72') for row in ROWS]
    run = recorded_runs()[0]
    assert f"{run['create_p25_ns']:,} / {2 * run['create_p25_ns']:,}  0.50" in body[0]
    assert [line.count(' 0.50') for line in body[:6]] == [5, 5, 5, 4, 4, 4]
    assert 'boot until the first program, 72 CPUs: ours 1,500.0 ms, base 1,000.0 ms' in lines
    assert lines[-1] == life.INSNS and max(map(len, lines)) <= 170
    assert summary.lines(summary.summarise(boots), params('--mode', 'life'))[-1] == life.TIME


@pytest.mark.parametrize('argv, cpus', [(SWEEP, (8, 72)), (('--mode', 'life'), (None,))])
def test_pictures(tmp_path, argv, cpus):
    boots = [boot(variant, 1, each) for each in cpus for variant in ('cmwq', 'base')]
    measure_record.save({**record(boots, *argv), 'summary': summary.summarise(boots)}, tmp_path)
    assert bench_plot.main([str(tmp_path)]) == 0
    assert 'bytes that a workqueue keeps' in (tmp_path / 'plot.svg').read_text()


GUEST = '''import pathlib, re, sys
here = pathlib.Path(__file__).parents[2]
log = pathlib.Path(sys.argv[sys.argv.index('--log') + 1])
log.write_text('[    1.500000] Run /init as init process\\n')
print((here / 'scopes').read_text(), '@done', sep='\\n', flush=True)
passes = (here / 'lives').read_text().split('error=0\\n')
for order in sys.stdin:
    with open(here / f'orders-{log.stem}', 'a') as orders:
        orders.write(order)
    wanted = re.findall('default_affinity_scope=([a-z_]+)', order) or re.findall('wq=([a-z]+)', order)
    found = next(text for text in passes if re.search(f'(actual|wq)={wanted[0]} ', text))
    print(found + 'error=0', '@done', sep='\\n', flush=True)
sys.exit()
'''


def test_whole_run(tmp_path):
    project = copied.project(tmp_path, 'run-bench.sh', GUEST, {}, 'build/bench',
                             {'scopes': test_bench.RECORDED, 'lives': RECORDED})
    done = project.run('--no-build', '--mode', 'life')
    assert done.returncode == 0, done.stderr
    folder, result = project.results()
    assert result['complete'] and (folder / 'plot.svg').exists()
    assert [[run['scope'] for run in one['runs']] for one in result['boots']] == [ROWS, ROWS]
    assert [one['boot_us'] for one in result['boots']] == [1500000, 1500000]
    assert 'boot until the first program, ours 1,500.0 ms, base 1,500.0 ms' in done.stdout
    assert 'create / destroy, ns: cpu ' in done.stderr and re.search('^ordered .* 1.00 ', done.stdout, re.M)
    orders = (project.root / 'scripts/orders-001-base').read_text().splitlines()
    assert len(orders) == len(ROWS) and orders[0].startswith(life.DEFAULT_SCOPE)


@pytest.mark.parametrize('icount, cpus, quick', [(True, 8, True), (True, 1, False), (False, 8, False)])
def test_cpus_that_take_turns_boot_without_long_loops(tmp_path, icount, cpus, quick):
    setup = Setup(tmp_path, tmp_path, Topology(cores=cpus), 512, 'true', icount=icount)
    assert (set(TAKING_TURNS) <= set(Qemu().parameters(setup))) == quick

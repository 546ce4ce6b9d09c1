# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --machine: options, orders, guests, tables. tests/guest/test_simulated.py boots real ones."""
from pathlib import Path

import pytest

import copied
from test_bench import FAKE_GUEST, RECORDED, SCOPES, guest_arguments, params
from wqlab.bench import machine, simulated
from wqlab.bench import options as bench_options
from wqlab.bench import plot as bench_plot
from wqlab.bench import run as bench
from wqlab.measure import options as measure_options
from wqlab.measure import record as measure_record
from wqlab.simulated import machines, stalls
from wqlab.steps import Failure


def test_defaults():
    """There are few items, since all is slow, and one boot, since the next one would say the same."""
    chosen = params('--machine', 'grace')
    assert (chosen['engine'], chosen['cpus'], chosen['pairs'], chosen['repeats']) == ('arm64', 72, 1, 1)
    assert chosen['items'] == machine.ITEMS // 72 and bench_options.warmup(chosen) == machine.WARMUP
    assert chosen['machine']['constants'] == machines.load('grace').constants()
    burning = params('--machine', 'vm8', '--mode', 'mixed', '--batch', '16')
    assert burning['items'] * burning['burn_us'] * 8 <= machine.BURN_TIME_US
    assert list(measure_options.warnings(chosen)) == [measure_options.COMPUTED]


def test_a_sweep_has_machines_of_all_sizes():
    chosen = params('--machine', 'epyc', '--sweep', '8,16,512')
    assert chosen['cpus'] == 512 and chosen['machine']['constants']['cpus'] == 512
    sizes = [bench_options.of_boot(chosen, boot) for boot in bench.boots_to_make(chosen)]
    assert [(one['cpus'], one['items']) for one in sizes] == [
        (cpus, machine.items(cpus)) for cpus in (8, 16, 512) for _ in range(2)]


@pytest.mark.parametrize('argv, why', [
    (['--machine', 'epyc', '--cpus', '24'], 'cannot have 24 CPUs'),
    (['--machine', 'grace', '--engine', 'qemu'], 'leave --engine out'),
    (['--machine', 'grace', '--topology', 'cores=2'], 'leave --topology out'),
    (['--machine', 'grace', '--icount'], 'leave --icount out')])
def test_bad_options_are_refused(argv, why, capsys):
    with pytest.raises(SystemExit) as ended:
        params(*argv)
    assert ended.value.code == 2 and why in capsys.readouterr().err


def test_guest_gets_the_machine_and_a_seed():
    assert guest_arguments('--machine', 'ryzen', '--cpus', '12')['--cpus'] == '12'
    words = machine.guest_options(params('--machine', 'ryzen'), {'pair': 3}, Path('x.log'), Path('m'))
    assert words == ['--machine', 'ryzen', '--report', 'x.stalls', '--memory', 'm', '--seed', '2']


def test_machine_of_the_user_is_found_again(tmp_path, monkeypatch):
    """A run may be resumed from another folder."""
    place = tmp_path / 'mine.toml'
    place.write_text(machines.find('vm8').read_text())
    monkeypatch.chdir(tmp_path)
    chosen = params('--machine', 'mine.toml')
    assert chosen['machine']['name'] == str(place) and chosen['machine']['about'] == machines.load('vm8').about
    measure_record.check_same_machine(chosen)
    place.write_text(place.read_text().replace('wake = 5000', 'wake = 5001'))
    with pytest.raises(Failure, match='has changed since this run began'):
        measure_record.check_same_machine(chosen)


def test_orders_come_with_the_command():
    """A guest that waited for an order would run on meanwhile, and no two runs would be the same."""
    chosen = params('--machine', 'vm8', '--scopes', 'cpu,system', '--repeats', '2', '--floor')
    assert [row for _, row in simulated.passes(chosen)] == ['cpu', 'system', 'same', 'other', 'line'] * 2
    lines = simulated.orders(chosen).splitlines()
    assert lines[0] == "<<'ORDERS'" and lines[-1] == 'ORDERS' and len(lines) == 12
    assert all('=' in line for line in lines[1:-1])


# What stands in for a guest has no memory.
STALLS = '\n'.join([*(f'{name} 8' for name in stalls.COUNTERS), 'stall ffff000000001000 20 10 3 6000000', 'end\n'])
CORE = 'def complete(copy):\n    pass\n'
OBJECTS = """
from types import SimpleNamespace
class Memory:
    def __init__(self, *_):
        pass
    def at(self, address):
        return SimpleNamespace(name='worker_pool.lock', workqueue=True)
    def function(self, address):
        return SimpleNamespace(name=f'function_{address:x}', place='')
"""


@pytest.fixture
def project(tmp_path):
    writes = f"log.with_suffix('.stalls').write_text({STALLS!r} * 100)\n"
    guest = FAKE_GUEST.replace("report('')\n", f"{writes}report('')\n", 1)
    found = copied.project(tmp_path, 'run-bench.sh', guest, {'engine': 'arm64'}, 'build/bench', {'recorded': RECORDED})
    for name, text in ('core', CORE), ('objects', OBJECTS):
        (tmp_path / f'scripts/wqlab/simulated/{name}.py').write_text(text)
    return found


def test_whole_run(project):
    done = project.run('--no-build', '--machine', 'vm8', '--repeats', '2')
    assert done.returncode == 0, done.stderr
    folder, result = project.results()
    assert result['complete'] and result['parameters']['machine']['name'] == 'vm8'
    assert [[run['scope'] for run in boot['runs']] for boot in result['boots']] == [SCOPES * 2] * 2
    heads = [line for line in done.stdout.splitlines() if line == f"simulated: {machines.load('vm8').about}"]
    assert len(heads) == 2              # above each table
    assert bench_plot.title(result).startswith(heads[0])
    assert (folder / 'plot.png').exists()


def test_passes_are_explained(project):
    """The record has it for each run, with the figures for an item. Tables and pictures stand beside it."""
    done = project.run('--no-build', '--machine', 'vm8', '--items', '70')
    folder, result = project.results()
    runs = [run for boot in result['boots'] for run in boot['runs']]
    assert {run['why']['items'] for run in runs} == {run['items'] + run['threads'] * machine.WARMUP for run in runs}
    assert all(row['field'] == 'worker_pool.lock' for run in runs for row in run['why']['rows'])
    assert done.stdout.count('what CPUs waited for') == len(SCOPES)
    assert {path.name for path in folder.glob('why*')} == {'why.txt', *(f'why-{scope}.svg' for scope in SCOPES)}
    assert 'function_20 after function_10' in (folder / 'why.txt').read_text()
    assert [path for path in (folder / 'logs').iterdir() if 'memory' in path.name] == []


def test_a_report_that_cannot_be_read_fails_the_boot(project):
    place = project.root / 'scripts/wqlab/guest/run.py'
    place.write_text(place.read_text().replace('lost 8', 'what 8'))
    done = project.run('--no-build', '--machine', 'vm8')
    assert done.returncode == 1 and 'makes no sense' in done.stderr


def test_interrupted_run_is_resumed_on_the_same_machine(project):
    project.mark('dies-002-base')
    project.mark('dies-002-base-attempt2')
    done = project.run('--no-build', '--machine', 'vm8', '--pairs', '2')
    assert done.returncode == 1
    place = project.root / 'scripts/wqlab/simulated/machines/vm8.toml'
    text = place.read_text()
    place.write_text(text.replace('wake = 5000', 'wake = 5001'))
    refused = project.run('--resume')
    assert refused.returncode == 1 and 'the machine vm8 has changed' in refused.stderr
    place.write_text(text)
    (project.root / 'scripts/dies-002-base').unlink()
    project.run('--resume')
    _, result = project.results()
    assert result['complete'] and len(result['boots']) == 4

# SPDX-License-Identifier: GPL-2.0
"""Simulated machines: their files, the arguments of the plugin, the report. tests/guest/test_simulated.py runs them."""
import contextlib
import dataclasses
import os
import subprocess

import pytest

from wqlab.guest import run as guest_run
from wqlab.guest.engines import ENGINES
from wqlab.guest.engines.arm64 import Arm64
from wqlab.guest.setup import Setup
from wqlab.simulated import machines, qemu, stalls
from wqlab.steps import Failure

MACHINE = '''
about = "two"
topology = "sockets=2,cores=4,threads=2,llcs=4"
ghz = 4
ipc = 0.5
smt = 1.5
queue = 2.5
[ns]
''' + '\n'.join(f'{name} = 1.5' for name in machines.COSTS)


def test_our_machines():
    assert len(machines.known()) >= 6
    for name in machines.known():
        machine = machines.load(name)
        assert machine.topology.cpus == machine.constants()['cpus']
        assert machine.about and all(isinstance(number, int) for number in machine.constants().values())


def test_a_machine_of_the_user(tmp_path):
    place = tmp_path / 'mine.toml'
    place.write_text(MACHINE)
    machine = machines.load(str(place))
    constants = machine.constants()
    assert machine.name == 'mine'
    assert (constants['cpus'], constants['threads'], constants['llc_cpus'], constants['socket_cpus']) == (16, 2, 4, 8)
    assert [constants[name] for name in ('insn', 'smt', 'queue', 'wake')] == [500, 250, 1500, 1500]
    text = qemu.argument(tmp_path / 'p,q.so', machine, tmp_path / 'out', 'ffff', seed=7)
    assert text.startswith(f'{tmp_path}/p,,q.so,out={tmp_path}/out,toggle=ffff,seed=7,quantum=200000,') \
        and ',cpus=16,' in text


@pytest.mark.parametrize('name, cpus, shape', [
    ('grace', 8, (1, 8, 1, 1, 1)), ('grace', 144, (1, 144, 1, 1, 1)), ('xeon', 8, (1, 4, 2, 1, 1)),
    ('epyc', 8, (1, 4, 2, 1, 1)), ('epyc', 128, (1, 64, 2, 8, 1)), ('epyc', 512, (4, 64, 2, 32, 4))])
def test_fewer_or_more_cpus(name, cpus, shape):
    """The caches and sockets keep their size, but for a machine with a single one."""
    found = machines.load(name, cpus).topology
    assert (found.sockets, found.cores, found.threads, found.llcs, found.nodes) == shape and found.cpus == cpus


@pytest.mark.parametrize('name, cpus, why', [
    ('xeon', 7, 'cannot have 7 CPUs'), ('epyc', 24, 'cannot have 24 CPUs'), ('epyc', 144, 'cannot have 144 CPUs'),
    ('grace', 513, 'at most 512')])
def test_cpus_that_do_not_fit(name, cpus, why):
    with pytest.raises(Failure, match=why):
        machines.load(name, cpus)


@pytest.mark.parametrize('old, new, why', [
    ('about', 'aboot', 'look at aboot, about'), ('wake = 1.5', 'awake = 1.5', 'look at awake, wake'),
    ('ghz = 4', 'ghz = 0', 'must be more than 0'), ('smt = 1.5', 'smt = 0.5', 'smt and queue at least 1'),
    ('wake = 1.5', 'wake = -1', 'wake must be a number'), ('wake = 1.5', 'wake = true', 'wake must be a number'),
    ('ghz = 4', 'ghz = nan', 'ghz must be a number'), ('llcs=4', 'llcs=3', 'llcs=3 must be a multiple'),
    ('[ns]', '[ns', 'cannot be read')])
def test_a_machine_that_makes_no_sense_is_refused(tmp_path, old, new, why):
    place = tmp_path / 'mine.toml'
    place.write_text(MACHINE.replace(old, new, 1))
    with pytest.raises(Failure, match=why) as refused:
        machines.load(str(place))
    assert str(place) in str(refused.value)


def test_an_unknown_machine_is_refused():
    with pytest.raises(Failure, match='choose epyc, future, grace'):
        machines.load('cray')


def test_the_plugin_compiles(tmp_path):
    built = qemu.build(tmp_path)
    assert qemu.build(tmp_path) == built and list(tmp_path.iterdir()) == [built]
    exported = subprocess.run(['nm', '-D', '--defined-only', built], capture_output=True, text=True, check=True).stdout
    assert {row.split()[2] for row in exported.splitlines()} == {
        'qemu_plugin_install', 'qemu_plugin_version', 'clock_gettime', 'ppoll', '__ppoll_chk', 'pthread_cond_wait',
        'pthread_cond_signal', 'pthread_cond_broadcast'}


# Guests

def simulation(folder):
    (folder / 'System.map').write_text('ffff800000001000 T x\nffff800000002000 t proc_do_uts_string\n'
                                       'ffff800000003000 T __lock_text_start\nffff800000004000 T __lock_text_end\n')
    return qemu.Simulation(machines.load('vm8'), folder / 'report', folder / 'System.map', 3, folder / 'memory')


def test_a_simulated_guest(tmp_path):
    simulated = simulation(tmp_path)
    setup = Setup(tmp_path, tmp_path, simulated.machine.topology, 1024, 'true', simulation=simulated)
    engine = Arm64()
    command, plugin = engine.machine(setup), qemu.build()
    assert command[command.index('-smp') + 1].startswith('8,') and set(qemu.BOARD) < set(command)
    assert 'nokaslr' in engine.parameters(setup) and engine.environment(setup) == {'LD_PRELOAD': str(plugin)}
    assert simulated.argument().startswith(f'{plugin},out={tmp_path}/report,toggle=ffff800000002000,seed=3,')
    assert simulated.argument().endswith(f',locks=ffff800000003000-ffff800000004000,memory={tmp_path}/memory')
    assert 'memory-backend-memfd,id=m0,size=1024M' in command
    plain = Setup(tmp_path, tmp_path, simulated.machine.topology, 1024, 'true')
    assert not set(qemu.BOARD) <= set(engine.machine(plain))
    assert 'nokaslr' not in engine.parameters(plain) and not engine.environment(plain)


@pytest.mark.parametrize('name', [qemu.TOGGLE, *qemu.LOCKS])
def test_a_kernel_without_a_symbol_that_is_needed(tmp_path, name):
    simulated = simulation(tmp_path)
    simulated.symbols.write_text(simulated.symbols.read_text().replace(name, 'y'))
    with pytest.raises(Failure, match=f'has no {name}: build the kernel again'):
        simulated.argument()


def test_simulations_beside_each_other_have_different_cpus_of_the_host():
    cpus = os.sched_getaffinity(0)
    with contextlib.ExitStack() as stack:
        chosen = [stack.enter_context(qemu.host_cpus()) for _ in range(len(cpus) + 1)]
    alone = [min(some) for some in chosen if some != cpus]
    assert len(set(alone)) == len(alone) and set(alone) <= cpus
    assert chosen[-1] == cpus, 'more simulations than CPUs'


def test_memory_of_several_nodes_is_in_files(tmp_path):
    machine = dataclasses.replace(machines.load('vm8'), topology=machines.load('epyc').topology)
    simulated = qemu.Simulation(machine, tmp_path, tmp_path)
    command = Arm64().machine(Setup(tmp_path, tmp_path, machine.topology, 1024, 'true', simulation=simulated))
    assert [word for word in command if word.startswith('memory-backend')] == [
        f'memory-backend-memfd,id=m{node},size=512M' for node in range(2)]


@pytest.mark.parametrize('engine, icount', [('uml', False), ('qemu', False), ('arm64', True)])
def test_other_guests_are_not_simulated(tmp_path, monkeypatch, engine, icount):
    simulation(tmp_path)
    image = tmp_path / ENGINES[engine].image
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_text('')
    monkeypatch.setattr(type(ENGINES[engine]), 'check', lambda *_: None)
    with pytest.raises(Failure, match='only arm64 guests can be simulated'):
        guest_run.run(tmp_path, 'true', engine=engine, icount=icount, machine='vm8', report=tmp_path / 'report')


@pytest.mark.parametrize('words, why', [
    (['--machine', 'vm8'], 'need each other'), (['--report', 'x'], 'need each other'),
    (['--memory', 'x'], '--memory needs --machine'),
    (['--machine', 'vm8', '--report', 'x', '--topology', 'cores=4'], 'leave --topology')])
def test_options_that_make_no_sense_are_refused(capsys, words, why):
    with pytest.raises(SystemExit):
        guest_run.main(['--kernel', 'k', *words, 'true'])
    assert why in capsys.readouterr().err


# The report

REPORT = ['cpus 2', 'idle 500000', 'time 2000000', 'instructions 70', 'wakes 3', 'ipis 2', 'untracked 0',
          'stall 1000 20 10 3 6000000', 'stall 1000 21 10 1 1000000',
          'stall 1058 30 0 5 3000000', 'lost 0', 'end']
SYMBOLS = ['0000000000000010 T writer', '0000000000000020 t waiter', '0000000000000030 T x',
           '0000000000000fff d pool', '0000000000001010 B _end', 'fffffffffffffff0 A _kernel_size']


def test_report():
    first, second = stalls.parse([*REPORT, *REPORT])
    assert first == second and first.us == 2 and first.ps == 10_000_000 and first.counters['ipis'] == 2
    assert first.by(lambda stall: stall.line) == [(0x1000, 4, 7_000_000), (0x1040, 5, 3_000_000)]
    assert list(stalls.parse([])) == []


def test_table():
    stretch, = stalls.parse(REPORT)
    assert [row.split() for row in stalls.table(stretch, stalls.Symbols(SYMBOLS))] == [
        '2.0 us simulated, 10.0 us of CPUs waiting for lines, 3 wake-ups'.split(),
        ['70.0%', '4', 'moves', '1000', 'pool'], ['70.0%', '4', 'waiter', 'after', 'writer'],
        ['30.0%', '5', 'moves', '1040'], ['30.0%', '5', 'x', 'after', '0']]


def test_a_report_is_shown(tmp_path, capsys):
    (tmp_path / 'System.map').write_text('\n'.join(SYMBOLS))
    (tmp_path / 'report').write_text('\n'.join(REPORT * 2))
    assert stalls.main(['--kernel', str(tmp_path), '--rows', '1', str(tmp_path / 'report')]) == 0
    assert capsys.readouterr().out.count('pool') == 2


@pytest.mark.parametrize('rows, why', [
    (REPORT[:-1], 'not complete'), (REPORT[1:], 'lacks counters'), (['what', 'end'], 'makes no sense'),
    (['stall 1 2 3', 'end'], 'makes no sense'), (['time x', 'end'], 'invalid literal')])
def test_a_damaged_report_is_refused(tmp_path, rows, why):
    path = tmp_path / 'report'
    path.write_text('\n'.join(rows))
    with pytest.raises(Failure, match=why):
        list(stalls.read(path))
    with pytest.raises(Failure):
        list(stalls.read(tmp_path / 'none'))

# SPDX-License-Identifier: GPL-2.0
"""Torture: the evidence of a failure, nodes without memory, the record of runs, the matrix."""
import os
import subprocess
from pathlib import Path

import pytest

import guests
from wqlab.guest import run as guest
from wqlab.guest import running
from wqlab.guest.topology import complete, parse
from wqlab.torture import matrix as torture_matrix
from wqlab.torture import run as torture

pytestmark = [guests.needs('qemu'), pytest.mark.tier('more')]
ENGINES = [pytest.param(engine, marks=guests.needs(engine)) for engine in ('uml', 'qemu')]
PYTHON = guests.ROOT / 'build/venv/bin/python3'
WQ_DUMP = guests.ROOT / 'tools/workqueue/wq_dump.py'
STATE = 'Showing busy workqueues and worker pools:'
NODES = 'for f in online has_cpu has_memory; do echo $f=$(cat /sys/devices/system/node/$f); done'


# Nodes

@pytest.mark.parametrize('topology, cpus, memory', [
    ('cores=4,nodes=2,memless=1', '0-1', '0'),
    ('cores=4,nodes=2,cpuless=1', '0-1', '0-2'),
    ('cores=4,nodes=4,memless=2,cpuless=1', '0-3', '0-1,4'),
])
def test_nodes_of_a_guest(topology, cpus, memory):
    """Linux sees the nodes that were requested."""
    result = guest.run(guests.kernel('qemu'), NODES, engine='qemu', topology=topology, mem='512M', timeout=300)
    seen = dict(line.split('=') for line in result.output.split())
    assert result.rc == 0 and (seen['has_cpu'], seen['has_memory']) == (cpus, memory)
    guests.check_log(result.kernel)


# The evidence of a failure

class Calls(list):
    """Takes the place of a post mortem, and records the calls."""

    def __call__(self, place, rc):
        self.append(rc)


# An emulated guest may take that long to boot. The other one does in a second.
ENOUGH_S = {'uml': 5, 'qemu': 15}


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('command, rc, seen', [
    ('true', 0, []),
    ('exit 5', 5, [5]),
    ('while :; do sleep 1; echo; done', guest.TIMED_OUT, [None]),
])
def test_when_a_guest_is_looked_at(engine, command, rc, seen):
    calls, limit = Calls(), ENOUGH_S[engine] if rc == guest.TIMED_OUT else 300
    result = guest.run(guests.kernel(engine), command, engine=engine, timeout=limit, post_mortem=calls,
                       qmp=running.socket_path() if engine == 'qemu' else None)
    assert (result.rc, calls) == (rc, seen)
    assert rc != guest.TIMED_OUT or result.seconds < limit + guest.LAST_WORDS_S, 'its output has no end'


@guests.needs('uml')
def test_a_command_that_ends_during_the_post_mortem_is_too_late():
    """It may end because of the post mortem, which floods /dev/kmsg. Here it ends after a while, and is heard."""
    result = guest.run(guests.kernel('uml'), 'for i in $(seq 40); do sleep 0.2; echo $i; done', engine='uml',
                       timeout=ENOUGH_S['uml'], post_mortem=lambda place, rc: True)
    assert '40' in result.output.split(), 'it did not end while it was heard'
    assert (result.rc, result.ended) == (guest.TIMED_OUT, False)


def test_a_panic_is_looked_at():
    calls = Calls()
    result = guest.run(guests.kernel('qemu'), 'echo c >/proc/sysrq-trigger; sleep 99', engine='qemu',
                       timeout=300, post_mortem=calls, qmp=running.socket_path())
    assert (result.rc, calls) == (guest.DIED, [None]) and result.seconds < 200


def fails(engine, tmp_path, **more):
    """Make a run that fails. With stall=0, everything that runs counts as stuck."""
    return torture.torture(guests.kernel(engine), engine=engine, seed=7, dump=True,
                           log=tmp_path / 'torture.log', **more)


def looked_into(core, engine='qemu'):
    """Return the output of wq_dump.py for the memory that was saved."""
    vmlinux = guests.ROOT / f'build/{engine}-{guests.VARIANT}-release-{guests.LINUX}/vmlinux'
    return subprocess.run([PYTHON, WQ_DUMP, '--core', core, '--symbols', vmlinux], capture_output=True, text=True,
                          check=True).stdout


def test_memory_of_a_failure(tmp_path):
    """The module goes on after a violation, and is not the cause of warnings."""
    outcome = fails('qemu', tmp_path, duration=5, more='stall=0')
    assert 'FAILURE' in outcome.verdict and not outcome.complaints, outcome
    assert STATE in outcome.log.read_text()
    assert outcome.core == tmp_path / 'torture.core' and 'wqt_' in looked_into(outcome.core)


@pytest.mark.tier('all')
def test_memory_of_a_hang(tmp_path):
    outcome = fails('qemu', tmp_path, duration=99, timeout=40)
    assert outcome.complaints == ['the guest did not end within 40 s'] and not outcome.verdict
    assert 'wqt_' in looked_into(outcome.core)


def test_no_memory_of_a_success(tmp_path):
    outcome = torture.torture(guests.kernel('qemu'), engine='qemu', duration=5, dump=True,
                              log=tmp_path / 'torture.log')
    assert outcome.ok and not outcome.core, outcome
    assert [path.name for path in tmp_path.iterdir()] == ['torture.log']


@guests.needs('uml')
@pytest.mark.parametrize('more, complaints', [
    ({'duration': 5, 'more': 'stall=0'}, []),
    ({'duration': 99, 'timeout': 8}, ['the guest did not end within 8 s']),
], ids=['violations', 'hang'])
def test_log_of_uml(tmp_path, more, complaints):
    """UML's memory is not saved, but the state of its workqueues is in the log."""
    outcome = fails('uml', tmp_path, **more)
    assert not outcome.ok and not outcome.core and outcome.complaints == complaints, outcome
    assert STATE in outcome.log.read_text()


@pytest.mark.parametrize('engine', ENGINES)
def test_no_guest_outlives_its_runner(engine):
    """Neither make's SIGTERM nor a closed terminal leaves a machine that uses up a CPU."""
    program = {'uml': '/linux ', 'qemu': 'qemu-system-x86_64 '}[engine]
    child = subprocess.Popen([guests.ROOT / 'scripts/lab', 'torture', '--engine', engine, '--variant', guests.VARIANT,
                              '--duration', '300'], stdout=subprocess.PIPE, text=True)
    with child:
        assert any('--- Start of test' in line for line in child.stdout), 'it does not start'
        below = [pid for pid in map(int, filter(str.isdigit, os.listdir('/proc'))) if is_below(pid, child.pid, program)]
        child.terminate()
        assert child.wait(timeout=60) == 143
    assert below and not [pid for pid in below if Path(f'/proc/{pid}').exists()]


def is_below(pid, parent, program):
    """Return True if there is a process with this name and parent."""
    try:
        words = Path(f'/proc/{pid}/cmdline').read_bytes().replace(b'\0', b' ').decode()
        status = Path(f'/proc/{pid}/status').read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return program in words and f'\nPPid:\t{parent}\n' in status


def test_matrix_has_its_kernels():
    """Each entry can be built and has a unique name."""
    assert len({entry.name for entry in torture_matrix.MATRIX}) == len(torture_matrix.MATRIX)
    for entry in torture_matrix.MATRIX:
        env = {**os.environ, 'ENGINE': entry.engine, 'CONFIG': entry.config, 'VARIANT': 'cmwq', 'LINUX': '7.3'}
        shown = subprocess.run([guests.ROOT / 'scripts/lab', 'kernel', '--print-dir'], env=env, check=True,
                               capture_output=True, text=True).stdout.strip()
        assert shown == str(torture_matrix.folder_of(entry, 'cmwq'))
        complete(parse(entry.topology), entry.cpus)

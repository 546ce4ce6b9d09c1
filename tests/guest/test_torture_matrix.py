# SPDX-License-Identifier: GPL-2.0
"""Torture: what is left of a failure, the nodes without memory, the notes of the runs, the matrix."""
import dataclasses
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import guests
from wqlab.guest import run as guest
from wqlab.guest import running
from wqlab.torture import matrix as torture_matrix
from wqlab.torture import run as torture
from wqlab.torture import runs as torture_runs

PYTHON = guests.ROOT / 'build/venv/bin/python3'
WQ_DUMP = guests.ROOT / 'tools/workqueue/wq_dump.py'
STATE = 'Showing busy workqueues and worker pools:'
PASSED = '--- End of test: SUCCESS: seed=7 operations=20 runs=10 attrs=3 masks=2 hotplug=1 violations=0'
FAILED = PASSED.replace('SUCCESS', 'FAILURE').replace('violations=0', 'violations=4')
NODES = 'for f in online has_cpu has_memory; do echo $f=$(cat /sys/devices/system/node/$f); done'


# Nodes

@pytest.mark.parametrize('topology, cpus, memory', [
    ('cores=4,nodes=2,memless=1', '0-1', '0'),
    ('cores=4,nodes=2,cpuless=1', '0-1', '0-2'),
    ('cores=4,nodes=4,memless=2,cpuless=1', '0-3', '0-1,4'),
])
def test_nodes_of_a_guest(topology, cpus, memory):
    """Linux sees the nodes as they were asked for."""
    result = guest.run(guests.kernel('qemu', 'release'), NODES, engine='qemu', topology=topology, mem='512M', timeout=300)
    seen = dict(line.split('=') for line in result.output.split())
    assert result.rc == 0 and (seen['has_cpu'], seen['has_memory']) == (cpus, memory)
    assert not guests.kernlog.problems(result.kernel)


@pytest.mark.parametrize('topology', ['cores=2,nodes=2,memless=2', 'memless=1', 'nodes=2,memless=x'])
def test_no_such_nodes(topology):
    with pytest.raises(guest.GuestError):
        guest.machine(None, guest.parse_topology(topology))


# What is left of a failure

class Calls(list):
    """Stands for a post mortem."""

    def __call__(self, place, rc):
        self.append(rc)


@pytest.mark.parametrize('engine', ['uml', 'qemu'])
@pytest.mark.parametrize('command, limit, rc, seen', [
    ('true', 300, 0, []),
    ('exit 5', 300, 5, [5]),
    ('while :; do sleep 1; done', 15, guest.TIMED_OUT, [None]),
])
def test_when_a_guest_is_looked_at(engine, command, limit, rc, seen):
    calls = Calls()
    result = guest.run(guests.kernel(engine, 'release'), command, engine=engine, timeout=limit, post_mortem=calls,
                       qmp=running.socket_path() if engine == 'qemu' else None)
    assert (result.rc, calls) == (rc, seen)


def test_a_panic_is_looked_at():
    calls = Calls()
    result = guest.run(guests.kernel('qemu', 'release'), 'echo c >/proc/sysrq-trigger; sleep 99', engine='qemu',
                       timeout=300, post_mortem=calls, qmp=running.socket_path())
    assert (result.rc, calls) == (guest.DIED, [None]) and result.seconds < 200


def fails(engine, tmp_path, **more):
    """A run that comes to a bad end: by stall=0, whoever does anything at all is stuck."""
    return torture.torture(guests.kernel(engine, 'release'), engine=engine, seed=7, dump=True,
                           log=tmp_path / 'torture.log', **more)


def looked_into(core, engine='qemu'):
    """What wq_dump.py says of the memory that was kept."""
    vmlinux = guests.ROOT / f'build/{engine}-{guests.VARIANT}-release-{guests.LINUX}/vmlinux'
    return subprocess.run([PYTHON, WQ_DUMP, '--core', core, '--symbols', vmlinux], capture_output=True, text=True,
                          check=True).stdout


def test_memory_of_a_failure(tmp_path):
    outcome = fails('qemu', tmp_path, duration=5, more='stall=0')
    assert not outcome.ok and 'FAILURE' in outcome.verdict, outcome
    assert STATE in outcome.log.read_text()
    assert outcome.core == tmp_path / 'torture.core' and 'wqt_' in looked_into(outcome.core)


def test_memory_of_a_hang(tmp_path):
    outcome = fails('qemu', tmp_path, duration=99, timeout=40)
    assert outcome.complaints == ['no end after 40 s'] and not outcome.verdict
    assert 'wqt_' in looked_into(outcome.core)


def test_no_memory_of_a_success(tmp_path):
    outcome = torture.torture(guests.kernel('qemu', 'release'), engine='qemu', duration=5, dump=True,
                              log=tmp_path / 'torture.log')
    assert outcome.ok and not outcome.core, outcome
    assert [path.name for path in tmp_path.iterdir()] == ['torture.log']


@pytest.mark.parametrize('more', [{'duration': 5, 'more': 'stall=0'}, {'duration': 99, 'timeout': 20}])
def test_log_of_uml(tmp_path, more):
    """UML's memory is not kept, but what its workqueues did is in the log."""
    outcome = fails('uml', tmp_path, **more)
    assert not outcome.ok and not outcome.core
    assert STATE in outcome.log.read_text()


@pytest.mark.parametrize('engine, program', [('uml', '/linux '), ('qemu', 'qemu-system-x86_64 ')])
def test_no_guest_outlives_its_runner(engine, program):
    """Neither make's SIGTERM nor a closed terminal leaves a machine that uses up a CPU."""
    folder = guests.kernel(engine, 'release')
    child = subprocess.Popen([guests.ROOT / 'scripts/lab', 'torture', '--kernel', folder, '--duration', '300'],
                             stdout=subprocess.PIPE, text=True)
    with child:
        assert any('--- Start of test' in line for line in child.stdout), 'it does not start'
        below = [pid for pid in map(int, filter(str.isdigit, os.listdir('/proc'))) if is_below(pid, child.pid, program)]
        child.terminate()
        assert child.wait(timeout=60) == 143
    assert below and not [pid for pid in below if Path(f'/proc/{pid}').exists()]


def is_below(pid, parent, program):
    """A process of this name and parent?"""
    try:
        words = Path(f'/proc/{pid}/cmdline').read_bytes().replace(b'\0', b' ').decode()
        status = Path(f'/proc/{pid}/status').read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return program in words and f'\nPPid:\t{parent}\n' in status


def test_a_warning_is_a_failure(monkeypatch, tmp_path):
    """The test passes and the kernel is tainted: that alone is a failure."""
    result = guest.Result(torture.TAINTED, '', '', f'wqtorture: {PASSED}\n', 1.0)
    monkeypatch.setattr(guest, 'run', lambda *args, **kwargs: result)
    monkeypatch.setattr(torture, 'KEPT', tmp_path)
    outcome = torture.torture(tmp_path, engine='uml', duration=1)
    assert not outcome.ok and outcome.complaints == ['the kernel is tainted: see the log']


def test_a_run_is_of_the_source_that_it_began_with(monkeypatch, tmp_path):
    """Whoever edits the workqueue during a run does not change what was run."""
    sources = iter(['before', 'after'])
    monkeypatch.setattr(torture_runs, 'source', lambda: next(sources))
    result = guest.Result(0, '', '', f'wqtorture: {PASSED}\n', 1.0)
    monkeypatch.setattr(guest, 'run', lambda *args, **kwargs: result)
    monkeypatch.setattr(torture, 'KEPT', tmp_path)
    torture.note(torture.torture(tmp_path, engine='uml', duration=1), tmp_path, 'uml', 1)
    assert [run.source for run in torture_runs.load(tmp_path)] == ['before']


# What a kernel's configuration means

@pytest.mark.parametrize('options, slowness, mem', [
    ('', 1, '384M'),
    ('CONFIG_PROVE_LOCKING=y\n', 2, '640M'),
    ('CONFIG_PROVE_LOCKING=y\nCONFIG_KASAN=y\n', 4, '1G'),
    ('# CONFIG_KCSAN is not set\n', 1, '384M'),
])
def test_slow_kernels(tmp_path, options, slowness, mem):
    (tmp_path / '.config').write_text(options)
    assert torture.Kernel.of(tmp_path) == torture.Kernel(slowness, mem)
    words = torture.parameters('uml', 5, 7, '', slowness).split()
    assert (f'stall={30 * slowness}' in words) is (slowness > 1)
    assert 'stall=9' in torture.parameters('uml', 5, 7, 'stall=9', slowness).split()


@pytest.mark.parametrize('engine, config, wanted', [
    ('qemu', 'preempt', ['CONFIG_PREEMPT=y', 'CONFIG_SMP=y']),
    ('qemu', 'rt', ['CONFIG_PREEMPT_RT=y', 'CONFIG_PROVE_RAW_LOCK_NESTING=y']),
    ('uml', 'up', ['# CONFIG_SMP is not set']),
])
def test_configurations(engine, config, wanted):
    env = {**os.environ, 'ENGINE': engine, 'CONFIG': config, 'VARIANT': guests.VARIANT}
    subprocess.run([guests.ROOT / 'scripts/kernel.sh', '--config-only'], env=env, check=True)
    made = (guests.ROOT / f'build/{engine}-{guests.VARIANT}-{config}-{guests.LINUX}/.config').read_text().splitlines()
    absent = [line for line in wanted if line not in made and not line.endswith('is not set')]
    assert not absent and not [line for line in wanted if line.endswith('is not set') and f'{line.split()[1]}=y' in made]


@pytest.mark.parametrize('engine, config', [('uml', 'rt'), ('uml', 'preempt'), ('qemu', 'up')])
def test_no_such_kernel(engine, config):
    env = {**os.environ, 'ENGINE': engine, 'CONFIG': config}
    done = subprocess.run([guests.ROOT / 'scripts/kernel.sh'], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f'CONFIG={config}' in done.stderr and len(done.stderr.splitlines()) == 1


# The notes

def a_run(configuration='uml-cmwq-release', verdict=PASSED, complaints=(), duration=60):
    return torture_runs.Run.made(configuration, '2026-11-21T10:00:00Z', 'uml-cmwq-release-7.3', duration, 7, verdict,
                                 complaints, torture_runs.source())


@pytest.mark.parametrize('verdict, complaints, said, seconds', [
    (PASSED, [], 'passed', 60),
    (FAILED, [], 'violations', 60),
    (PASSED, ['BUG: x'], 'BUG: x', 60),
    ('', ['no end after 9 s'], 'no end after 9 s; no verdict', 0),
])
def test_note_of_a_run(verdict, complaints, said, seconds):
    run = a_run(verdict=verdict, complaints=complaints)
    assert (run.verdict, run.seconds, run.ok) == (said, seconds, said == 'passed')
    if verdict:
        assert (run.operations, run.runs, run.attrs, run.masks, run.hotplug) == (20, 10, 3, 2, 1)


def test_notes_that_are_made_at_once(tmp_path):
    """None is lost, and what lies there is always whole."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: torture_runs.add(tmp_path, a_run(f'c{i}')), range(24)))
    assert {run.configuration for run in torture_runs.load(tmp_path)} == {f'c{i}' for i in range(24)}
    assert sorted(path.name for path in tmp_path.iterdir()) == ['.runs.lock', 'runs.json']


@pytest.mark.parametrize('text', ['', '{', '{"a": 1}', '[{"configuration": "x"}]', '[1]'])
def test_notes_that_are_not(tmp_path, text):
    """They are left alone."""
    (tmp_path / 'runs.json').write_text(text)
    with pytest.raises(torture_runs.RunsError, match='runs.json'):
        torture_runs.add(tmp_path, a_run())
    assert (tmp_path / 'runs.json').read_text() == text


def test_configuration_in_words():
    assert torture_runs.words('build/qemu-cmwq-rt-7.3', 'cores=2', '', 'stall=5') == 'qemu-cmwq-rt cores=2 stall=5'


# The matrix

def test_table():
    runs = [a_run('a'), a_run('a'), a_run('b', FAILED), dataclasses.replace(a_run('c'), source='other'),
            dataclasses.replace(a_run('a', FAILED), source='other')]
    lines = {row[0]: row for row in torture_matrix.rows(runs)}
    assert lines['a'][1:4] == ('0.03', '40', '20') and lines['a'][-1] == '2 passed'
    assert lines['b'][-2:] == ('4', '1 of 1 failed: violations')
    assert lines['c'][-1] == '1 passed (older)'


@pytest.fixture
def matrix(monkeypatch, tmp_path):
    """Runs the matrix without any kernel; gives main(), and what was tortured."""
    tortured = []

    def fake(folder, *, engine, **kwargs):
        tortured.append(folder.name)
        if 'debug' in folder.name:
            return torture.Outcome('', ['the kernel died'], 7, tmp_path / 'log', 1.0, torture_runs.source())
        return torture.Outcome(PASSED, [], 7, tmp_path / 'log', 1.0, torture_runs.source())

    def build(engine, variant, config):
        if config == 'up':
            raise guest.GuestError('the kernel does not build')
        return tmp_path / f'{engine}-{variant}-{config}-7.3'
    (tmp_path / 'log').touch()
    monkeypatch.setattr(torture, 'KEPT', tmp_path)
    monkeypatch.setattr(torture, 'build', build)
    monkeypatch.setattr(torture, 'torture', fake)
    monkeypatch.setattr(torture, 'keep_or_drop', lambda *args: None)
    return torture_matrix.main, tortured


def test_matrix_goes_on_where_it_was(matrix, tmp_path):
    main, tortured = matrix
    assert main(['--duration', '30', 'uml', 'qemu*-rt']) == 0
    assert main(['--duration', '20', 'uml', 'qemu-rt', 'qemu']) == 0
    assert tortured == ['uml-cmwq-release-7.3', 'qemu-cmwq-rt-7.3', 'qemu-cmwq-release-7.3']
    assert main(['--duration', '31', 'uml']) == 0 and main(['--duration', '9', '--again', 'uml']) == 0
    assert main(['--duration', '9', '--variant', 'base', 'uml']) == 0
    assert tortured[3:] == ['uml-cmwq-release-7.3', 'uml-cmwq-release-7.3', 'uml-base-release-7.3']
    assert '3 passed' in (tmp_path / 'runs.rst').read_text()


def test_matrix_hides_nothing(matrix, tmp_path, capsys):
    """What does not build or boot is in the table, and does not keep the rest from being run."""
    main, tortured = matrix
    assert main(['uml-up', 'uml-debug', 'qemu']) == 1
    assert tortured == ['uml-cmwq-debug-7.3', 'qemu-cmwq-release-7.3']
    text = (tmp_path / 'runs.rst').read_text()
    assert text in capsys.readouterr().out
    for line in (r'uml-cmwq-up .* 1 of 1 failed: the kernel does not build',
                 r'uml-cmwq-debug .* 1 of 1 failed: the kernel died; no verdict', r'qemu-cmwq-release .* 1 passed'):
        assert re.search(line, text), text


@pytest.mark.parametrize('args', [['xen'], ['--duration', '0'], ['--variant', 'x']])
def test_matrix_wrong_calls(args):
    done = subprocess.run([guests.ROOT / 'scripts/lab', 'matrix', *args], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and done.stderr.strip()


def test_matrix_has_its_kernels():
    """Each entry is one that can be built and has a name of its own."""
    assert len({entry.name for entry in torture_matrix.MATRIX}) == len(torture_matrix.MATRIX)
    for entry in torture_matrix.MATRIX:
        env = {**os.environ, 'ENGINE': entry.engine, 'CONFIG': entry.config, 'VARIANT': 'cmwq', 'LINUX': '7.3'}
        shown = subprocess.run([guests.ROOT / 'scripts/kernel.sh', '--print-dir'], env=env, check=True,
                               capture_output=True, text=True).stdout.strip()
        assert shown == str(torture_matrix.folder_of(entry, 'cmwq'))
        guest.machine(entry.cpus, guest.parse_topology(entry.topology))

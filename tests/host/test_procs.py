# SPDX-License-Identifier: GPL-2.0
"""Child processes end when the process that started them ends, for whatever reason."""
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import drgn_guests
from calls import HEARS_ALL, stub, wait_until
from wqlab import procs
from wqlab.paths import ROOT

# Two processes that survive the end of a terminal or a parent. The first tries to leave the group.
STUBBORN = '''trap "" HUP INT TERM
sleep 1000 & exec python3 -c "import os, time
try: os.setsid()
except OSError: pass
print(os.getpid(), flush=True); time.sleep(1000)"
'''
RUNNER = '''import sys, time
from wqlab import procs
procs.end_on_signals()
with procs.kept(['sh', '-c', sys.argv[1]]) as child:
    child.wait()
'''


def start(program, *args, **options):
    return subprocess.Popen([*HEARS_ALL, sys.executable, '-c', program, *args],
                            stdout=subprocess.PIPE, text=True, env={**os.environ, 'PYTHONPATH': str(ROOT / 'scripts')},
                            **options)


def members(group):
    """Return the processes of a group that have not ended."""
    found = []
    for place in Path('/proc').glob('[0-9]*/stat'):
        try:
            state, _, its_group = place.read_text().rpartition(') ')[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(its_group) == group and state not in 'ZX':
            found.append(int(place.parent.name))
    return found


def wait_for_the_end(group):
    wait_until(lambda: not members(group))


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_children_end_with_their_parent(number):
    runner = start(RUNNER, STUBBORN, stderr=subprocess.DEVNULL)
    group = int(runner.stdout.readline())
    try:
        assert len(members(group)) == 3      # with the keeper
        runner.send_signal(number)
        runner.wait(timeout=30)
        wait_for_the_end(group)
    finally:
        for process in members(group):
            os.kill(process, signal.SIGKILL)
        runner.kill()
        runner.communicate()
    if number in procs.ENDING_SIGNALS:
        assert runner.returncode == 128 + number


def test_output_that_does_not_end_is_not_waited_for(tmp_path, monkeypatch):
    """A process has left the group and keeps the pipe open."""
    stub(tmp_path / 'scripts', 'lab', 'setsid sh -c "echo \\$\\$; exec sleep 60" & echo is up; wait')
    monkeypatch.setattr(drgn_guests, 'ROOT', tmp_path)
    monkeypatch.setattr(drgn_guests, 'ENDING_S', 0.2)
    with drgn_guests.started('guest') as (_, output):
        output.wait('^is up', 30)
        left = int(output.wait(r'^(\d+)$', 30)[1])
        later = threading.Timer(20, os.kill, (left, signal.SIGKILL))
        later.start()
    assert later.is_alive()
    later.cancel()
    os.kill(left, signal.SIGKILL)


def test_children_end_with_the_block():
    with procs.kept(['sh', '-c', STUBBORN], stdout=subprocess.PIPE, text=True) as child:
        assert int(child.stdout.readline()) == child.pid and len(members(child.pid)) == 3
    wait_for_the_end(child.pid)
    assert child.returncode == -signal.SIGKILL
    child.stdout.close()


@pytest.mark.parametrize('new_session', [False, True])
def test_what_a_child_leaves_behind_ends(new_session):
    """The child was reaped. The number of its group is still in use, so the right group is killed."""
    with procs.kept(['sh', '-c', 'sleep 1000 & exit 3'], new_session=new_session) as child:
        assert (os.getsid(child.pid) == child.pid) == new_session
        assert child.wait(timeout=30) == 3 and len(members(child.pid)) == 2
    wait_for_the_end(child.pid)


def test_a_child_gets_its_arguments_and_descriptors():
    reading, writing = os.pipe()
    with procs.kept(['sh', '-c', f'printf "%s|" "$@" >/proc/self/fd/{writing}', 'sh', 'a b', '$x', ''],
                    pass_fds=[writing]) as child:
        child.wait(timeout=30)
    assert os.read(reading, 100) == b'a b|$x||'
    os.close(reading)
    os.close(writing)


def test_the_priority_of_a_session():
    """A kernel without autogroups, or a session that has ended, is no error."""
    own = Path('/proc/self/autogroup')
    before = own.exists() and own.read_text()
    with procs.kept(['sleep', '1000'], new_session=True) as child:
        procs.set_priority(child, 7)
        if before:
            assert Path(f'/proc/{child.pid}/autogroup').read_text().endswith(' nice 7\n')
    assert (own.exists() and own.read_text()) == before
    procs.set_priority(child, 7)


INSTALLING = '''import os, subprocess, sys, time
from wqlab import procs
def start_and_signal(*args, **options):
    child = start(*args, **options)
    time.sleep(0.5)     # it has begun
    os.kill(os.getpid(), int(sys.argv[2]))
    return child
procs.end_on_signals()
if int(sys.argv[2]): start, subprocess.Popen = subprocess.Popen, start_and_signal
procs.run([sys.argv[1]])
'''
INSTALLER = "trap 'sleep 0.5; echo ended; exit 1' TERM; echo up; while :; do sleep 0.1; done"


@pytest.mark.parametrize('at_once', [False, True])
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_installation_ends_before_its_caller(tmp_path, number, at_once):
    """It may have to complete what dpkg has begun. The signal may come before the caller knows that it has begun."""
    stub(tmp_path, 'deps.sh', INSTALLER)
    with procs.kept([*HEARS_ALL, sys.executable, '-c', INSTALLING, tmp_path / 'deps.sh', int(number) * at_once],
                    stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL,
                    env={**os.environ, 'PYTHONPATH': str(ROOT / 'scripts')}) as child:
        assert child.stdout.readline() == 'up\n'
        if not at_once:
            child.send_signal(number)
        assert child.wait(timeout=30)
        os.set_blocking(child.stdout.fileno(), False)
        assert (child.stdout.buffer.read() or b'').startswith(b'ended\n')
    child.stdout.close()


def test_a_child_that_does_not_end_is_named(capsys):
    with procs.kept(['sh', '-c', STUBBORN], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        begin = time.monotonic()
        procs.end_gently(child, 0.2)
        assert time.monotonic() - begin < 10
    child.stdout.close()
    assert f'process {child.pid} did not end within 0.2 s' in capsys.readouterr().err


SIGNALLED = '''import os, signal, sys, time
from wqlab import procs
if 'nohup' in sys.argv: signal.signal(signal.SIGHUP, signal.SIG_IGN)
procs.end_on_signals()
try:
    print('up', flush=True)
    time.sleep(float(sys.argv[1]))
finally:
    print('cleaning', flush=True)
    time.sleep(0.5)
    print('clean', flush=True)
'''


def test_a_second_signal_does_not_interrupt_the_cleaning_up():
    child = start(SIGNALLED, '100')
    with child:
        assert child.stdout.readline() == 'up\n'
        child.terminate()
        assert child.stdout.readline() == 'cleaning\n'
        child.send_signal(signal.SIGHUP)
        child.terminate()
        assert child.stdout.read() == 'clean\n' and child.wait(timeout=30) == 143


def test_nohup_is_heeded():
    child = start(SIGNALLED, '1', 'nohup')
    with child:
        assert child.stdout.readline() == 'up\n'
        child.send_signal(signal.SIGHUP)
        assert child.stdout.read() == 'cleaning\nclean\n' and child.wait(timeout=30) == 0


def test_leftovers_of_those_that_are_gone(tmp_path):
    ended = subprocess.Popen(['true'])
    ended.wait()
    for name in (f'{ended.pid}-x', f'run-{ended.pid}-36', f'{os.getpid()}-y'):
        (tmp_path / name).mkdir()
        (tmp_path / name / 'file').write_text('')
    (tmp_path / f'{ended.pid}-z').write_text('')
    (tmp_path / 'other').write_text('')
    procs.remove_leftovers(tmp_path, '*')
    assert sorted(place.name for place in tmp_path.iterdir()) == sorted([f'{os.getpid()}-y', 'other'])

# SPDX-License-Identifier: GPL-2.0
"""No guest outlives the program that runs it, however that program ends. No program waits for a guest for ever."""
import contextlib
import itertools
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest

import drgn_guests
import guests
from calls import HEARS_ALL, wait_until
from wqlab import procs, steps
from wqlab.guest import running
from wqlab.paths import BUILD, ROOT

pytestmark = [guests.needs('qemu'), pytest.mark.tier('more')]
UP = 'echo is up; sleep 1000'
# A test that starts one guest in its own process and one as a program, and then waits.
WAITING = '''
import drgn_guests, guests, os, sys, threading, time
from wqlab.paths import ROOT
MARK = 'WQLAB_MARK=' + os.environ['WQLAB_MARK']
UP = 'echo is up; sleep 1000'
UML = ROOT / f'build/uml-{guests.VARIANT}-release-{guests.LINUX}'
def test_it():
    threading.Thread(target=guests.guest.run, args=(UML, UP), daemon=True,
                     kwargs=dict(engine='uml', append=MARK, show=sys.stderr.write)).start()
    with drgn_guests.started('guest', '--kernel', UML, f'--append={MARK}', '--', UP) as (_, output):
        output.wait('^is up', 120)
        print('is up', file=sys.stderr, flush=True)
        FURTHER
'''


@pytest.fixture
def marked(monkeypatch):
    """Mark the processes that this test starts. Return a function that lists those that still exist."""
    mark = f'WQLAB_MARK={secrets.token_hex(8)}'    # in the environment, and on the command line of a guest
    monkeypatch.setenv(*mark.split('='))

    def there():
        found = []
        for place in Path('/proc').glob('[0-9]*'):
            try:
                words = (place / 'cmdline').read_bytes()
                if mark.encode() in (place / 'environ').read_bytes() + words and int(place.name) != os.getpid():
                    found.append(words.replace(b'\0', b' ')[:80])
            except OSError:
                continue
        return found
    return there


def wait_for(text, child, count=1):
    for line in child.stdout:
        count -= text in line
        if not count:
            return
    pytest.fail(f'{text!r} was not printed')


@contextlib.contextmanager
def started(*command, **more):
    """Start a process that is told to end. If it does not, the test fails, and does not wait for it any longer."""
    with subprocess.Popen([*HEARS_ALL, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          **more) as child:
        try:
            yield child
        finally:
            child.kill()


def command_of(way):
    mark = f'--append=WQLAB_MARK={os.environ["WQLAB_MARK"]}'
    if way == 'boot':
        return ['boot', '--kernel', guests.kernel('qemu'), '--mem', '1G', mark, '--command', UP]
    return ['guest', '--kernel', guests.kernel(way), mark, '--', UP]


def users_of(folder):
    with open(BUILD / f'.lock-{folder.name}') as lock:
        return steps.holders(lock)


# A guest of `make boot` needs 15 s to come up. Its runner handles these two as it does SIGTERM.
SLOW = [('boot', signal.SIGHUP), ('boot', signal.SIGINT)]


@pytest.mark.parametrize('way, number', [
    pytest.param(*one, marks=[*([pytest.mark.tier('all')] if one in SLOW else []),
                              *([guests.needs('uml')] if one[0] == 'uml' else [])]) for one in itertools.product(
        ['uml', 'qemu', 'boot'], [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])])
def test_a_guest_ends_with_its_runner(marked, way, number):
    before = set((BUILD / '.guest').glob('[0-9]*-*'))
    with started(ROOT / 'scripts/lab', *command_of(way)) as child:
        wait_for('is up', child)
        assert marked() and child.pid in users_of(guests.kernel('uml' if way == 'uml' else 'qemu'))
        child.send_signal(number)
        child.wait(timeout=60)
        wait_until(lambda: not marked())
    # A runner that was killed leaves files behind. The next runner, or the next listing of guests, removes them.
    procs.remove_leftovers(BUILD / '.guest', '[0-9]*-*')
    running.guests()
    mine = [place for place in (BUILD / '.guest').glob(f'{child.pid}-*') if place not in before]
    assert not mine and not list((BUILD / 'guests').glob(f'{child.pid}.qmp'))


@guests.needs('uml')
@pytest.mark.parametrize('further, number', [
    ('assert 0', None), ('time.sleep(1000)', signal.SIGINT), ('time.sleep(1000)', signal.SIGTERM),
    ('time.sleep(1000)', signal.SIGKILL),
])
def test_guests_end_with_pytest(marked, tmp_path, further, number):
    guests.kernel('uml')
    (tmp_path / 'test_it.py').write_text(WAITING.replace('FURTHER', further))
    pytest_of = (BUILD / 'venv/bin/pytest', '-s', '-p', 'no:cacheprovider', '-c', ROOT / 'pyproject.toml')
    with started(*pytest_of, tmp_path / 'test_it.py', cwd=ROOT, stderr=subprocess.STDOUT) as child:
        wait_for('is up', child, 2)
        if number:
            child.send_signal(number)
        child.stdout.read()
        assert child.wait(timeout=60) != 0
        wait_until(lambda: not marked())


@guests.needs('uml')
def test_a_guest_that_hears_nothing_is_not_waited_for(marked):
    with drgn_guests.started(*command_of('uml'), ending_s=1) as (child, output):
        output.wait('^is up', 120)
        child.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
    assert time.monotonic() - begin < 30
    wait_until(lambda: not marked())

# SPDX-License-Identifier: GPL-2.0
"""dump-guest.sh when no guest is running, and its list of running guests."""
import contextlib
import json
import re
import shutil
import subprocess

import pytest

from calls import call
from wqlab.guest import dump, running
from wqlab.steps import Failure


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """An empty list of running guests. Call the fixture to add a guest."""
    monkeypatch.setattr(running, 'FOLDER', tmp_path)
    (tmp_path / 'kernel').mkdir()
    stack = contextlib.ExitStack()

    def announce():
        socket = tmp_path / f'{len(list(tmp_path.iterdir()))}.qmp'
        socket.write_text('')
        stack.enter_context(running.announced(tmp_path / 'kernel', socket, 'a guest'))
        return running.guests()[-1]
    with stack:
        yield announce


def refuse(pattern, capsys, *argv):
    assert dump.main([str(word) for word in argv]) == 1
    said = capsys.readouterr()
    assert not said.out and re.search(pattern, said.err.splitlines()[0]), said.err


def test_no_guest(listed, capsys):
    refuse('no guest is running: start one with `make boot`', capsys, 'dump')
    listed()
    refuse("guest '1' is not running", capsys, '--guest', '1', 'dump')


def test_several_guests(listed, capsys):
    first, second = listed(), listed()
    assert first.name != second.name
    refuse('2 guests are running: choose one with --guest', capsys, 'dump')
    # With one chosen, the next missing thing is reported.
    refuse('there is no .*/kernel/vmlinux', capsys, '--guest', second.name, 'dump')


def test_a_killed_guest_leaves_the_list(listed, tmp_path):
    listed()
    place = next(tmp_path.glob('*.json'))
    entry = json.loads(place.read_text())
    gone = subprocess.Popen(['true'])
    gone.wait()
    place.write_text(json.dumps({**entry, 'pid': gone.pid}))
    assert not running.guests() and not list(tmp_path.glob('*.json'))


def test_no_qemu_at_the_socket(tmp_path, capsys):
    (tmp_path / 'vmlinux').write_text('')
    (tmp_path / 'x').write_text('')
    for name in ('absent', 'x'):
        refuse(rf'{name}: .*is this the QMP socket of a running QEMU', capsys, '--qmp', tmp_path / name,
               '--vmlinux', tmp_path / 'vmlinux', 'dump')


def test_no_room(tmp_path):
    usage = shutil.disk_usage(tmp_path)
    with pytest.raises(Failure, match='MB free, but the memory of the guest needs'):
        dump.check_room(tmp_path, usage.free + 1)
    dump.check_room(tmp_path, 1)


@pytest.mark.parametrize('arguments, pattern', [
    ([], 'name a tool to run: dump or monitor'), (['frobnicate'], 'invalid choice'),
    (['--qmp', 'x', 'dump'], '--qmp needs --vmlinux'),
    (['--every', '0', 'dump'], '--every: must be more than 0'), (['--times', '2', 'dump'], 'needs --every'),
    (['--keep', '/no/such/core', 'dump'], '/no/such is not a folder'),
    (['--folder', '/no/such', 'dump'], '/no/such is not a folder'),
    (['--every', '1', '--keep', 'x', 'dump'], '--keep keeps one dump'),
    (['--qmp', 'x', '--vmlinux', 'y', '--guest', '1', 'dump'], 'both name a guest'),
])
def test_wrong_call_of_dump_guest(arguments, pattern):
    done = call('scripts/dump-guest.sh', *arguments)
    assert done.returncode == 2 and re.search(pattern, done.stderr.splitlines()[-1]) and not done.stdout


def test_help_of_dump_guest():
    assert '--stalls' in call('scripts/dump-guest.sh', '--help').stdout
    assert '--section' in call('scripts/dump-guest.sh', 'dump', '--help').stdout
    assert '--interval' in call('scripts/dump-guest.sh', 'monitor', '--help').stdout

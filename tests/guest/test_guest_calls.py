# SPDX-License-Identifier: GPL-2.0
"""`scripts/lab guest`: wrong calls, and what it passes to a guest and back."""
import pytest

import guests
from calls import call, refuses

pytestmark = [guests.needs('uml'), pytest.mark.tier('quick')]
GUEST = ('scripts/lab', 'guest')


@pytest.mark.parametrize('args, pattern', [
    (['--kernel', 'build/no-such'], r'build/no-such has no .*make kernel'),
    (['--topology', 'cores=2'], r'UML has neither a topology'),
    (['--mem', 'lots'], r"memory 'lots'"),
    (['--cpus', '0'], r'--cpus: must be at least 1'),
    (['--file', 'nothing'], r'write HOST:GUEST'),
    (['--file', '/no/such:/x'], r'there is no /no/such'),
    (['--bin', 'no-such-program'], r'no-such-program is not installed'),
])
def test_wrong_call_of_guest(args, pattern):
    uml = guests.kernel('uml')
    done = refuses(pattern, *GUEST, '--kernel', uml, *args, '--', 'true', lines=30)
    assert done.returncode == 2


def run_guest(command, *args):
    return call(*GUEST, '--kernel', guests.kernel('uml'), *args, '--', command)


@pytest.mark.parametrize('status', [0, 123])
def test_guest_passes_the_status_on(status):
    done = run_guest(f'echo out; exit {status}')
    assert (done.returncode, done.stdout) == (status, 'out\n')


@pytest.mark.tier('test')
def test_guest_has_no_end():
    assert run_guest('sleep 100', '--timeout', '8').returncode == guests.guest.TIMED_OUT


def test_guest_dies():
    done = run_guest('poweroff -f; sleep 10')
    assert done.returncode == guests.guest.DIED and 'the guest died' in done.stderr


def test_guest_takes_files_along(tmp_path):
    (tmp_path / 'note').write_text('from the host\n')
    done = run_guest('cat /there/note; echo marked >/dev/kmsg', '--file', f'{tmp_path}:/there', '--log',
                     tmp_path / 'log')
    assert done.stdout == 'from the host\n'
    log = (tmp_path / 'log').read_text()
    assert 'from the host' in log and 'marked' in log and 'Linux version' in log

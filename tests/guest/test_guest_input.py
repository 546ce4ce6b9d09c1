# SPDX-License-Identifier: GPL-2.0
"""`lab guest --stdin`: the command in the guest reads the standard input of the program."""
import subprocess

import pytest

import guests
from wqlab.paths import ROOT

# Each line is answered before the next one is sent, as run-bench.sh does it.
COMMAND = 'while read -r line; do echo "got $line, ${#line} long"; done; echo end'
LONG = 'x' * 3000


def answer(child, text):
    child.stdin.write(f'{text}\n')
    child.stdin.flush()
    return child.stdout.readline()


@pytest.mark.parametrize('engine', [pytest.param('uml', marks=guests.needs('uml')),
                                    pytest.param('qemu', marks=guests.needs('qemu'))])
def test_command_reads_lines_until_the_end(engine):
    argv = [ROOT / 'scripts/lab', 'guest', '--stdin', '--kernel', guests.kernel(engine), '--timeout', '200', '--',
            COMMAND]
    with subprocess.Popen(argv, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert answer(child, 'one = two') == 'got one = two, 9 long\n'
        assert answer(child, '') == 'got , 0 long\n'
        assert answer(child, LONG) == f'got {LONG}, 3000 long\n'
        rest, _ = child.communicate(timeout=100)
    assert rest == 'end\n' and child.returncode == 0


@guests.needs('uml')
def test_without_it_there_is_no_input():
    argv = [ROOT / 'scripts/lab', 'guest', '--kernel', guests.kernel('uml'), '--', COMMAND]
    done = subprocess.run(argv, text=True, input='one\n', capture_output=True, check=False, timeout=100)
    assert (done.stdout, done.returncode) == ('end\n', 0)

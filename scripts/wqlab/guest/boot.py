# SPDX-License-Identifier: GPL-2.0
"""A shell, or one command, in a kernel of ours on this machine's own files.

Boots the kernel of a build folder under virtme-ng: the guest sees the host's
files (read-only, with scratch space over /tmp, /run, /var and the like), so fio,
cryptsetup, python3 and drgn are there, and `modprobe test_workqueue` finds the
modules. With --command that is run, its output passed on and its exit status
taken; without it there is an interactive shell (`exit` or Ctrl-D ends it).

While it runs, scripts/dump-guest.sh can look into it from outside.

exit status: the command's; 2 for a wrong call.
"""
import argparse
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from wqlab.guest import run as guest
from wqlab.guest import running
from wqlab.paths import ROOT

VENV = ROOT / 'build/venv/bin'


def check_for_virtme(folder):
    """A kernel whose configuration is not there is tried."""
    config = folder / '.config'
    if config.exists() and not re.search(r'^CONFIG_9P_FS=[ym]$', config.read_text(), re.M):
        raise guest.GuestError(f'{folder.name} has no 9p to reach the files of the host: boot it by `scripts/lab guest`')


def virtme_command(args, image, folder, qmp):
    topo = guest.machine(args.cpus, guest.parse_topology(args.topology))
    program = VENV / 'virtme-run'
    if not program.exists():
        raise guest.GuestError('virtme-ng is not in build/venv: run scripts/deps.sh first')
    if not shutil.which('qemu-system-x86_64'):
        raise guest.GuestError('qemu-system-x86_64 is not installed here: run scripts/deps.sh as root')
    accel = args.accel
    if accel == 'auto':
        accel = 'kvm' if guest.kvm_works(image) else 'tcg'

    command = [str(program), '--kdir', str(folder), '--mods', 'auto', '--pwd', '--disable-microvm',
               '--vmcoreinfo', '--force-9p', '--name', 'guest']
    if not Path('/lib/modules').exists():
        # virtme-ng mounts the modules there, and the host's files are read-only.
        command += ['--overlay-rwdir', '/usr/lib']
    if accel == 'tcg':
        command.append('--disable-kvm')
    for word in [*guest.quick_boot(accel), *shlex.split(args.append)]:
        command += ['--kopt', word]
    if args.command is not None:
        command += ['--script-sh', f'export PATH={VENV}:$PATH; {args.command}']
    command += ['--qemu-opts', '-qmp', f'unix:{qmp},server=on,wait=off'] + guest.accel_args(accel, False)
    return command + guest.qemu_topology_args(topo, guest.megabytes(args.mem))


def pass_on(source, target):
    for data in iter(lambda: source.read1(1 << 16), b''):
        target.write(data)
        target.flush()


def run_command(command):
    """QEMU wants a terminal to read from, and pipes to write to: it opens what it
    is given once more, which would cut a file short."""
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        copier = threading.Thread(target=pass_on, args=(child.stderr, sys.stderr.buffer))
        copier.start()
        pass_on(child.stdout, sys.stdout.buffer)
        copier.join()
    os.close(keyboard)
    os.close(terminal)
    return child.returncode


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kernel', required=True, help='build folder')
    parser.add_argument('--cpus', type=int, help='default: what the topology has, or 2')
    parser.add_argument('--topology', default='', metavar='KEY=N,...', help='as for `scripts/lab guest`')
    parser.add_argument('--mem', default='2G', help='default: %(default)s')
    parser.add_argument('--append', default='', metavar='ARGS', help='more kernel parameters')
    parser.add_argument('--accel', choices=('auto', 'kvm', 'tcg'), default='auto')
    parser.add_argument('--command', metavar='CMD', help='run this and leave')
    args = parser.parse_args(argv)
    try:
        _, image, folder = guest.find_kernel(args.kernel, 'qemu')
        check_for_virtme(folder)
        qmp = running.socket_path()
        command = virtme_command(args, image, folder, qmp)
    except guest.GuestError as error:
        print(f'boot: {error}', file=sys.stderr)
        return 2
    if args.command is None and not os.isatty(0):
        print("boot: standard input is not a terminal: give CMD='...' for one command", file=sys.stderr)
        return 2
    os.environ['PATH'] = f'{VENV}:/usr/sbin:/sbin:{os.environ["PATH"]}'
    words = f'make boot, {args.topology or args.cpus or 2} CPUs, {args.mem}, {args.command or "a shell"!r}'
    with running.announced(folder, qmp, words):
        if args.command is not None:
            return run_command(command)
        return subprocess.run(command, check=False).returncode

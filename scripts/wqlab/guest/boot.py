# SPDX-License-Identifier: GPL-2.0
"""Run a shell or one command in one of our kernels, with the files of this machine.

This boots a kernel under virtme-ng: that of a build folder, or one that is built first if it is
not up to date, named by VARIANT=, CONFIG= and LINUX= as for `scripts/lab kernel`. The guest sees the host's files
read-only, with scratch space over /tmp, /run, /var and the like. So python3 and drgn are
available, and `modprobe test_workqueue` finds the modules. fio, cryptsetup and ext4 need a
kernel built with CONFIG=workload.
With --command, the guest runs that command. Its output is shown, and its exit status is the
exit status of this program. Without --command you get an interactive shell; `exit` or
Ctrl-D ends it.

While the guest runs, scripts/dump-guest.sh can inspect it from outside.

exit status: that of the command; 2 if the command line is wrong or the kernel does not build.
"""
import argparse
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from wqlab import files, procs
from wqlab.guest import running
from wqlab.guest.engines import find_kernel, qemu
from wqlab.guest.run import accelerator
from wqlab.guest.topology import complete, megabytes, parse
from wqlab.kernels.build import build
from wqlab.kernels.kinds import Kind
from wqlab.paths import BUILD
from wqlab.steps import Failure, need, using

VENV = BUILD / 'venv/bin'


def check_for_virtme(folder: Path) -> None:
    """Raise Failure if the kernel cannot boot under virtme-ng. Without a .config, assume that it can."""
    config = folder / '.config'
    if config.exists() and not re.search(r'^CONFIG_9P_FS=[ym]$', files.read(config), re.M):
        raise Failure(f'{folder.name} has no 9p to use the files of the host: boot it with `scripts/lab guest`')


def checked(args: argparse.Namespace) -> list[str]:
    """
    Return QEMU's options for CPUs and memory. Raise Failure for a call that cannot work, before a kernel is built for
    minutes.
    """
    machine = qemu.topology_args(complete(parse(args.topology), args.cpus), megabytes(args.mem))
    try:
        shlex.split(args.append)
    except ValueError as error:
        raise Failure(f'parameters {args.append!r}: {error}') from error
    if not (VENV / 'virtme-run').exists():
        raise Failure('virtme-ng is not in build/venv: run scripts/deps.sh first')
    need(qemu.PROGRAM)
    if args.command is None and not os.isatty(0):
        raise Failure("standard input is not a terminal: give CMD='...' to run one command")
    return machine


def virtme_command(args: argparse.Namespace, image: Path, folder: Path, qmp: str, machine: list[str]) -> list[str]:
    accel = accelerator(image, args.accel)
    command = [str(VENV / 'virtme-run'), '--kdir', str(folder), '--mods', 'auto', '--pwd', '--disable-microvm',
               '--vmcoreinfo', '--force-9p', '--name', 'guest']
    if not Path('/lib/modules').exists():
        # virtme-ng mounts the modules there, and the host's files are read-only.
        command += ['--overlay-rwdir', '/usr/lib']
    if accel == 'tcg':
        command.append('--disable-kvm')
    if args.show_log:
        command.append('--show-boot-console')
    for word in [*qemu.quick_boot(accel), *['ignore_loglevel'] * args.show_log, *shlex.split(args.append)]:
        command += ['--kopt', word]
    if args.command is not None:
        command += ['--script-sh', f'export PATH={VENV}:$PATH; {args.command}']
    return [*command, '--qemu-opts', *qemu.monitor_args(qmp), *qemu.accel_args(accel), *machine]


def pass_on(source: IO[bytes], target: IO[bytes]) -> None:
    for data in iter(lambda: os.read(source.fileno(), 1 << 16), b''):
        target.write(data)
        target.flush()


def run_command(command: list[str]) -> int:
    """
    QEMU needs a terminal to read from. It needs pipes to write to: it opens its output a second time, and that would
    truncate a file.
    """
    keyboard, terminal = pty.openpty()
    try:
        with procs.kept(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            pairs = ((child.stdout, sys.stdout.buffer), (child.stderr, sys.stderr.buffer))
            copiers = [threading.Thread(target=pass_on, args=pair, daemon=True) for pair in pairs]
            for copier in copiers:
                copier.start()
            child.wait()
        # All processes that could keep the pipes open have been killed.
        for copier in copiers:
            copier.join(procs.ENDING_S)
        return child.returncode
    finally:
        os.close(keyboard)
        os.close(terminal)


def run_shell(command: list[str]) -> int:
    """QEMU has the terminal until it ends. Ctrl-Z must not stop it, as nothing could continue it."""
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    return subprocess.run(command, check=False).returncode


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kernel', help='build folder; default: see above')
    parser.add_argument('--cpus', type=int, help='number of CPUs; default: that of the topology, or 2')
    parser.add_argument('--topology', default='', metavar='KEY=N,...', help='as for `scripts/lab guest`')
    parser.add_argument('--mem', default='2G', help='memory of the guest; default: %(default)s')
    parser.add_argument('--append', default='', metavar='ARGS', help='more kernel parameters')
    parser.add_argument('--accel', choices=('auto', 'kvm', 'tcg'), default='auto')
    parser.add_argument('--command', metavar='CMD', help='run this command and exit')
    parser.add_argument('--show-log', action='store_true', help="print the kernel's log to standard error")
    return parser


def main(argv: list[str] | None = None) -> int:
    parser = options()
    args = parser.parse_args(argv)
    if args.cpus is not None and args.cpus < 1:
        parser.error('--cpus: must be at least 1')
    try:
        machine = checked(args)
        _, image, folder = find_kernel(args.kernel or build(Kind.asked({**os.environ, 'ENGINE': 'qemu'})), 'qemu')
        check_for_virtme(folder)
        qmp = running.socket_path()
        command = virtme_command(args, image, folder, qmp, machine)
    except Failure as error:
        print(f'boot: {error}', file=sys.stderr)
        return 2
    os.environ['PATH'] = f'{VENV}:/usr/sbin:/sbin:{os.environ["PATH"]}'
    words = f'make boot, {args.topology or args.cpus or 2} CPUs, {args.mem}, {args.command or "a shell"!r}'
    with using(folder), running.announced(folder, qmp, words):
        return run_shell(command) if args.command is None else run_command(command)

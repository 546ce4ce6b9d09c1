# SPDX-License-Identifier: GPL-2.0
"""Inspect the workqueues of a running QEMU guest from outside.

The guest is one that `make boot` or `scripts/lab guest --qmp` started. This program writes
the guest's memory to a file and runs tools/workqueue/wq_dump.py ("dump") or wq_monitor.py
("monitor") on it, with the right vmlinux and the given arguments. The guest is paused while
its memory is written. Nothing runs inside it. The file is as large as the guest's memory. It
lies under build/ and is deleted at the end.

  scripts/dump-guest.sh dump --stalls
  scripts/dump-guest.sh dump --svg guest.svg
  scripts/dump-guest.sh --guest 4711 --every 2 --times 5 monitor --sort started
  scripts/dump-guest.sh --keep guest.core dump --json
  scripts/dump-guest.sh --qmp /run/vm.qmp --vmlinux /usr/lib/debug/boot/vmlinux-6.12 dump

exit status: that of the tool; 1 if the memory could not be read; 2 if the command line is
wrong.
"""
import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from wqlab import procs
from wqlab.guest import qmp, running
from wqlab.paths import ROOT
from wqlab.steps import Failure, told

PYTHON = ROOT / 'build/venv/bin/python3'
TOOLS = {name: ROOT / f'tools/workqueue/wq_{name}.py' for name in ('dump', 'monitor')}
SPARE = 64 << 20        # for ELF headers and notes, and so that the disk does not become full
MB = 1 << 20


def say(text):
    print(f'dump-guest: {text}', file=sys.stderr, flush=True)


# Which guest

def list_of(guests):
    return '\n'.join(f'  {guest.name:>8}  {guest.what}' for guest in guests)


def choose(name):
    guests = running.guests()
    if name:
        guests = [guest for guest in guests if guest.name == name]
    if not guests:
        what = f'guest {name!r} is not running' if name else 'no guest is running'
        raise Failure(f'{what}: start one with `make boot`, or give --qmp and --vmlinux')
    if len(guests) > 1:
        raise Failure(f'{len(guests)} guests are running: choose one with --guest:\n{list_of(guests)}')
    return guests[0]


def target(args):
    """Return (socket, vmlinux) of the chosen guest."""
    if args.qmp:
        socket, vmlinux = args.qmp, args.vmlinux
    else:
        guest = choose(args.guest)
        socket, vmlinux = guest.qmp, args.vmlinux or str(Path(guest.kernel, 'vmlinux'))
    if not Path(vmlinux).is_file():
        raise Failure(f'there is no {vmlinux}: build that kernel, or give its vmlinux with --vmlinux')
    return socket, vmlinux


# Its memory

def progress(done, total):
    say(f'{done // MB} of {total // MB} MB written')


def check_room(folder, size):
    free = shutil.disk_usage(folder).free
    if free < size + SPARE:
        raise Failure(f'{folder} has {free // MB} MB free, but the memory of the guest needs '
                        f'{(size + SPARE) // MB} MB: free some space, or choose another folder with --folder')


@contextlib.contextmanager
def memory(socket, folder):
    """Yield the path of a file with the guest's memory. The file is deleted at the end."""
    procs.remove_leftovers(folder, '.guest-*.core')
    with qmp.Monitor(socket) as monitor:
        check_room(folder, monitor.memory_size())
        handle, path = tempfile.mkstemp(prefix=f'.guest-{os.getpid()}-', suffix='.core', dir=folder)
        try:
            with os.fdopen(handle, 'wb') as file:
                monitor.dump(file, progress)
            yield Path(path)
        finally:
            Path(path).unlink(missing_ok=True)


# What is done with it

def run_tool(args, core, vmlinux):
    command = [str(PYTHON), str(TOOLS[args.tool]), '--core', str(core), '--symbols', vmlinux, *args.arguments]
    return subprocess.run(command, check=False).returncode


def once(args, socket, vmlinux):
    folder = args.keep.absolute().parent if args.keep else args.folder
    with memory(socket, folder) as core:
        if args.keep:
            # Now, not after the tool has run: the contents of the core may make it fail.
            os.replace(core, args.keep)
            say(f'kept {args.keep}')
        return run_tool(args, args.keep or core, vmlinux)


def repeat(args, socket, vmlinux):
    status, left = 0, args.times
    while left != 0 and not status:
        begin = time.monotonic()
        status = once(args, socket, vmlinux)
        left -= 1
        if left and not status:
            time.sleep(max(0, begin + args.every - time.monotonic()))
    return status


def options():
    parser = argparse.ArgumentParser(prog='dump-guest.sh', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--list', action='store_true', help='list the running guests and exit')
    parser.add_argument('--guest', metavar='NAME', help='the guest to inspect, if more than one is running')
    parser.add_argument('--qmp', metavar='SOCKET', help='the QMP socket of any other QEMU; needs --vmlinux')
    parser.add_argument('--vmlinux', metavar='FILE', help="the guest's kernel with debug information; "
                        'default: the one in its build folder')
    parser.add_argument('--keep', type=Path, metavar='FILE', help='keep the memory as FILE, an ELF core')
    parser.add_argument('--folder', type=Path, metavar='DIR',
                        help='where to put the temporary file with the memory; default: build/guests')
    parser.add_argument('--every', type=float, metavar='S', help='repeat every S seconds')
    parser.add_argument('--times', type=int, metavar='N', help='with --every: stop after N times; default: at Ctrl-C')
    parser.add_argument('tool', nargs='?', choices=sorted(TOOLS), help='the tool to run')
    parser.add_argument('arguments', nargs=argparse.REMAINDER, help='arguments of the tool (dump --help lists them)')
    return parser


def parse(argv):
    parser = options()
    args = parser.parse_args(argv)
    if not (args.tool or args.list):
        parser.error('name a tool to run: dump or monitor')
    if args.qmp and not args.vmlinux:
        parser.error("--qmp needs --vmlinux, the guest's kernel with debug information")
    if args.qmp and args.guest:
        parser.error('--qmp and --guest both name a guest: give one of them')
    if args.every is not None and args.every <= 0:
        parser.error('--every: must be more than 0 seconds')
    if args.times is not None and (args.times < 1 or args.every is None):
        parser.error('--times: must be at least 1, and needs --every')
    if args.every is not None and args.keep:
        parser.error('--keep keeps one dump: give it without --every')
    args.times = args.times or (1 if args.every is None else -1)
    if args.folder is None:
        args.folder = running.FOLDER
        args.folder.mkdir(parents=True, exist_ok=True)
    for folder in (args.folder, *([args.keep.absolute().parent] if args.keep else [])):
        if not os.access(folder, os.W_OK | os.X_OK):
            parser.error(f'{folder} is not a folder that you can write to: choose another')
    return args


def asks_for_help(arguments):
    return any(word in ('-h', '--help') for word in arguments)


def main(argv=None):
    args = parse(argv)
    if args.list:
        print(list_of(running.guests()) or 'no guest is running')
        return 0
    try:
        if asks_for_help(args.arguments):
            return subprocess.run([str(PYTHON), str(TOOLS[args.tool]), *args.arguments], check=False).returncode
        return repeat(args, *target(args))
    except (Failure, OSError) as error:
        say(told(error))
    except KeyboardInterrupt:
        # Ctrl-C is the normal way to end --every without --times.
        return 0 if args.times < 0 else 130
    return 1

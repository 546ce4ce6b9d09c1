# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel, run one command in it, and exit with the command's status.

The guest runs from an initramfs with busybox, dash as its shell, and kmod. proc, sysfs,
devtmpfs, devpts, debugfs, tracefs and cgroup2 are mounted. The modules of the kernel's
build folder are under /lib/modules, so `modprobe NAME` works. An arm64 guest has busybox
only.
Kernel messages and the command's output use separate channels. The output goes to stdout
at once. --log gets both. The output `host: pause N` stops the guest for N seconds, at most 99.

exit status: that of the command; 124 if the time ran out; 125 if the guest died or did not
boot; 2 if the command line is wrong.

--topology takes a list of KEY=NUMBER:
  sockets=  sockets
  cores=    cores of each socket
  threads=  threads of each core
  llcs=     last-level caches of the whole machine, a multiple of sockets
  nodes=    NUMA nodes with CPUs; all have the same number of CPUs
  memless=  how many of these nodes have no memory; they are the last ones
  cpuless=  how many more nodes have memory but no CPUs
"""
import argparse
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from wqlab import procs
from wqlab.guest import CACHE, initramfs, kvm, running
from wqlab.guest.channels import LOG, MOST_KEPT, OUT, Feeder, Reader, Show, SocketChannel
from wqlab.guest.engines import ENGINES, find_kernel
from wqlab.guest.engines.engine import Engine
from wqlab.guest.setup import Setup
from wqlab.guest.topology import complete, megabytes, parse
from wqlab.simulated import machines
from wqlab.simulated.qemu import Simulation, host_cpus
from wqlab.steps import Failure, told, using

TIMED_OUT, DIED = 124, 125
KVM_PROBE_S = 20
POWEROFF_S = 10
LAST_WORDS_S, SILENT_S = 60, 5   # limits for reading a guest's last output before it is killed
POLL_S = 0.01
PostMortem = Callable[[str | Path | None, int | None], object]


@dataclasses.dataclass
class Result:
    rc: int
    output: str     # what the command printed
    log: str        # kernel messages and output, in the order they came
    kernel: str     # kernel messages alone
    seconds: float
    ended: bool = True      # rc is the status of the command, not TIMED_OUT or DIED
    flooded: bool = False   # it printed so much that it was killed
    unlogged: str = ''      # why the log file is not complete


def kvm_works(image: Path) -> bool:
    """Return True if this kernel boots on /dev/kvm."""
    return kvm.works(image, lambda: run(image, 'true', engine='qemu', cpus=1, accel='kvm', timeout=KVM_PROBE_S).rc == 0)


def accelerator(image: Path, accel: str = 'auto', icount: bool = False) -> str:
    """Choose the accelerator of an x86_64 guest, "kvm" or "tcg". "auto" means KVM if it works."""
    if accel != 'auto':
        return accel
    return 'kvm' if not icount and kvm_works(image) else 'tcg'


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """Yield a folder for one guest, and delete it at the end. Also delete the folders of killed processes."""
    CACHE.mkdir(parents=True, exist_ok=True)
    procs.remove_leftovers(CACHE, '[0-9]*-*')
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f'{os.getpid()}-') as folder:
        yield Path(folder)


class Guest:
    """A running guest, until its time runs out or its process ends."""

    def __init__(self, child: subprocess.Popen, reader: Reader, feeder: Feeder | None, deadline: float):
        self.child, self.reader, self.feeder, self.deadline = child, reader, feeder, deadline

    def watch(self, stays: bool) -> bool:
        """Read until the guest ends, or fails and stays for a post mortem. Return False if its time ran out."""
        while True:
            if self.reader.flooded:
                return True
            gone = self.child.poll() is not None
            idle = not self.reader.poll()
            if self.reader.pause_s:
                self.pause()
            if self.feeder and self.reader.ready:
                self.feeder.poll()
            now = time.monotonic()
            if self.reader.rc is not None:
                self.deadline = min(self.deadline, now + POWEROFF_S)
            if idle and (gone or stays and (self.reader.rc or self.reader.panicked)):
                return True
            if now > self.deadline:
                return self.reader.rc is not None
            if idle:
                time.sleep(POLL_S)

    def pause(self) -> None:
        """Stop the guest for as long as its command has asked for. That time does not count."""
        self.child.send_signal(signal.SIGSTOP)
        time.sleep(self.reader.pause_s)
        self.child.send_signal(signal.SIGCONT)
        self.deadline += self.reader.pause_s
        self.reader.pause_s = 0

    def hear_out(self) -> None:
        """Read until the guest is silent. On a slow console that may take a while."""
        end = time.monotonic() + LAST_WORDS_S
        silent_at = time.monotonic() + SILENT_S
        while time.monotonic() < min(end, silent_at):
            if self.reader.poll():
                silent_at = time.monotonic() + SILENT_S
            time.sleep(POLL_S)


def listed(setup: Setup, engine: Engine) -> contextlib.AbstractContextManager:
    """Put a guest that has a monitor on the list of running guests."""
    if not (setup.qmp and engine.has_monitor):
        return contextlib.nullcontext()
    words = f'lab guest, {setup.topology.cpus} CPUs, {setup.mem} MB, {setup.command.strip()[:40]!r}'
    return running.announced(setup.folder, setup.qmp, words)


def boot(setup: Setup, engine: Engine, reader: Reader, feeder: Feeder | None, deadline: float,
         post_mortem: PostMortem | None) -> bool:
    """Start the guest and read its output until it ends. Return False if its time ran out."""
    cpus = host_cpus() if setup.simulation else contextlib.nullcontext()
    with cpus as chosen, engine.started(setup, reader.channels) as child, listed(setup, engine):
        if chosen:
            os.sched_setaffinity(child.pid, chosen)     # before QEMU has made its threads, which inherit it
        for channel in reader.channels.values():
            channel.far.close()
        guest = Guest(child, reader, feeder, deadline)
        in_time = guest.watch(setup.stays)
        if post_mortem is not None and child.poll() is None and reader.rc != 0:
            if post_mortem(engine.witness(setup), reader.rc):
                guest.hear_out()
    return in_time


def check_simulation(setup: Setup, engine: Engine) -> None:
    if setup.simulation and (not engine.simulates or setup.icount):
        raise Failure('only arm64 guests can be simulated: choose the engine arm64, and leave --icount out')


def run(kernel: str | Path, command: str, *, engine: str | None = None, cpus: int | None = None,
        topology: str | dict[str, int] | None = None, mem: str = '1G', append: str = '', timeout: float = 300,
        files: Sequence[str] = (), bins: Sequence[str] = (), log: str | Path | None = None,
        show: Show | None = None, stdin: int | None = None, accel: str = 'auto', icount: bool = False,
        qmp: str | Path | None = None, machine: str = '', report: str | Path = '', seed: int = 0,
        memory: str | Path = '', post_mortem: PostMortem | None = None) -> Result:
    """Boot `kernel`, run `command` in it with /bin/sh, and return a Result.

    stdin is a file descriptor with the command's input; by default it has none. On a simulated machine, a write to
    /proc/sys/kernel/hostname begins the simulation, and the next one ends it, adds to the report, and copies the
    guest's memory to memory.0, memory.1, ...
    If the guest hangs or panics, or if its command fails, post_mortem(place, rc) is called
    before the guest is killed. rc is the status of the command, or None after a hang or a
    panic. The guest still runs then. place is its QMP socket, or the folder with UML's
    mconsole. If it returns True, the guest's output is read until the guest is silent.
    """
    machinery, image, folder = find_kernel(kernel, engine)
    given = parse(topology) if isinstance(topology, str) else topology or {}
    simulated = machines.load(machine, cpus) if machine else None
    shape = simulated.topology if simulated else complete(given, cpus)
    setup = Setup(image, folder, shape, megabytes(mem), command, shaped=bool(given or simulated), append=append,
                  accel=accel, icount=icount, files=files, bins=bins, qmp=str(qmp) if qmp else None,
                  stdin=stdin is not None, stays=post_mortem is not None)
    machinery.check(setup)
    if simulated:
        setup.simulation = Simulation(simulated, Path(report).absolute(), folder / 'System.map', seed,
                                      Path(memory).absolute() if memory else None)
    check_simulation(setup, machinery)
    if machinery.may_use_kvm:
        setup.accel = accelerator(image, accel, icount)
    if setup.stays:
        setup.append = f'{append} {machinery.stand_still}'.strip()
    begin = time.monotonic()
    with using(folder), own_folder() as setup.place:
        initramfs.write(setup, machinery)
        channels = machinery.channels(setup)
        reader = Reader(channels, setup.mark, show, log)
        out = channels[OUT]
        feeder = Feeder(stdin, out) if stdin is not None and isinstance(out, SocketChannel) else None
        try:
            in_time = boot(setup, machinery, reader, feeder, begin + timeout, post_mortem)
        finally:
            reader.close()
    # A command that ends during the post mortem of a timeout is too late.
    rc = TIMED_OUT if not in_time else DIED if reader.rc is None else reader.rc
    return Result(rc, ''.join(reader.kept[OUT]), ''.join(reader.all), ''.join(reader.kept[LOG]),
                  time.monotonic() - begin, in_time and reader.rc is not None, reader.flooded, reader.unlogged)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kernel', required=True, help='build folder or kernel file')
    parser.add_argument('--engine', choices=tuple(ENGINES), help='default: the engine that the kernel was built for')
    parser.add_argument('--cpus', type=int, help='number of CPUs; default: that of the topology or machine, or 2')
    parser.add_argument('--topology', metavar='KEY=N,...', help='QEMU only; see above')
    parser.add_argument('--mem', default='1G', help='memory of the guest; default: %(default)s')
    parser.add_argument('--append', default='', metavar='ARGS', help='more kernel parameters')
    parser.add_argument('--timeout', type=float, default=300, metavar='S', help='time limit; default: %(default)s')
    parser.add_argument('--file', action='append', default=[], metavar='HOST:GUEST', dest='files',
                        help='copy a file or folder into the guest')
    parser.add_argument('--bin', action='append', default=[], metavar='PROGRAM', dest='bins',
                        help='copy a program of this host and its libraries into the guest')
    parser.add_argument('--stdin', action='store_true', help='let the command read the standard input, as lines')
    parser.add_argument('--log', metavar='FILE', help='write kernel messages and output to FILE')
    parser.add_argument('--accel', choices=('auto', 'kvm', 'tcg'), default='auto')
    parser.add_argument('--icount', action='store_true',
                        help='QEMU: guest time counts instructions, of all CPUs, which take turns')
    parser.add_argument('--qmp', metavar='SOCKET', help='QEMU: path of its monitor socket; dump-guest.sh finds it')
    parser.add_argument('--machine', metavar='NAME', default='',
                        help=f'arm64: simulate the time of this machine: {", ".join(machines.known())}, or a file.toml')
    parser.add_argument('--report', metavar='FILE', default='',
                        help='where a simulated machine says who waited for which line')
    parser.add_argument('--memory', metavar='FILE', default='',
                        help='copy the memory of a simulated machine to FILE.0, FILE.1, ... after each stretch')
    parser.add_argument('--seed', type=int, default=0, help='of a simulated machine; the same one gives the same run')
    parser.add_argument('command', nargs='+', help='the shell command to run in the guest, after --')
    return parser


def main(argv: list[str] | None = None) -> int:
    parser = options()
    args = parser.parse_args(argv)
    if args.cpus is not None and args.cpus < 1:
        parser.error('--cpus: must be at least 1')
    if bool(args.machine) != bool(args.report):
        parser.error('--machine and --report need each other')
    if args.memory and not args.machine:
        parser.error('--memory needs --machine')
    if args.machine and args.topology:
        parser.error('--machine says what CPUs share: leave --topology out')
    given = {**vars(args), 'command': ' '.join(args.command), 'stdin': sys.stdin.fileno() if args.stdin else None}
    try:
        result = run(**given, show=partial(print, end='', flush=True))
    except (Failure, OSError) as error:
        print(f'guest: {told(error)}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if result.unlogged:
        print(f'guest: {args.log} is not complete: {result.unlogged}', file=sys.stderr)
    if result.flooded:
        print(f'guest: it printed more than {MOST_KEPT >> 20} MiB and was killed', file=sys.stderr)
    elif not result.ended:
        what = f'the command did not end within {args.timeout:g} s' if result.rc == TIMED_OUT else 'the guest died'
        print(f'guest: {what}; the last kernel messages:', file=sys.stderr)
        print(''.join(result.kernel.splitlines(True)[-15:]), file=sys.stderr)
    return result.rc

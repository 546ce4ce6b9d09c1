# SPDX-License-Identifier: GPL-2.0
"""The machine to advise: the one that this program runs on, or a guest.

Both take the same orders, see wqlab.bench.seat: values for the module's parameters, or for other
files. Each order makes one run, of which the result is returned.
"""
import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from wqlab import files
from wqlab.advise import pods
from wqlab.advise.keeper import kept, with_sbin
from wqlab.bench import parse, seat
from wqlab.kernels.kinds import Kind
from wqlab.paths import ROOT
from wqlab.scopes import SCOPES
from wqlab.steps import Failure, first_match

SYS, MODULES = Path('/sys'), Path('/proc/modules')
MODULE = 'test_workqueue'
FIRST = 'threads=1 items=1 warmup=0'        # a pass that takes next to no time
MARK = '@file '
READ = f'cd SYS; grep -aHs "" {" ".join(pods.FILES)} | sed "s/^/{MARK}/"'       # print what pods.Machine wants to know
LATENCY = Path('/sys/kernel/debug/workqueue/latency_enable')
MONITOR = ROOT / 'tools/workqueue/wq_monitor.py'
NAMED = 3           # workqueues
Run = dict[str, Any]


def described(lines: Iterable[str]) -> pods.Machine:
    """Return what READ has printed."""
    pairs = [line.removeprefix(MARK).split(':', 1) for line in lines if line.startswith(MARK)]
    files = {name: text.strip() for name, text in pairs}
    if pods.ONLINE not in files:
        raise Failure('sysfs does not tell what the CPUs share: mount it on /sys')
    return pods.Machine(files)


def checked(parsed: dict[str, Any]) -> Run:
    """Return the run in a report, or raise Failure if the kernel broke a promise."""
    run, = parsed['runs']
    bad = ', '.join(f'{run[key]} {key}' for key in parse.VIOLATIONS if run[key])
    if bad:
        raise Failure(f"the kernel broke a promise in scope {run['scope']}: {bad} items: see its log")
    return run


class Here:
    """This machine, with the module in it."""
    put = staticmethod(files.put)

    def __init__(self, root: Path = SYS):
        done = subprocess.run(['sh', '-c', READ.replace('SYS', str(root))], capture_output=True, text=True, check=False)
        self.described = described(done.stdout.splitlines())
        self.cpus = len(self.described.online)
        self.size_file = str(root / pods.SHARD_SIZE)
        self.parameters = root / 'module' / MODULE / 'parameters'
        self.scopes = [scope for scope in SCOPES if self.has(scope)]

    def give(self, line: str) -> str:
        for word in line.split():
            name, _, value = word.partition('=')
            self.put(self.parameters / name, f'{value}\n')     # a whole path stays what it is
        try:
            self.put(self.parameters / 'run', '1\n')
        except OSError as error:
            if error.errno != errno.EPROTO:     # EPROTO: a promise was broken, and the report says which
                raise
        text = (self.parameters / 'run').read_text()
        return ''.join(f'{parse.PREFIX}{line}\n' for line in text.splitlines())

    def run(self, line: str) -> Run:
        try:
            return checked(parse.parse_output(self.give(line)))
        except OSError as error:
            raise Failure(f'the kernel refuses a run of the module ({error.strerror}): see dmesg') from None

    def has(self, scope: str) -> bool:
        """The module refuses a run in a scope that the kernel does not have."""
        try:
            self.give(f'{FIRST} scopes={scope}')
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return False
            raise Failure(f'the module cannot try the scope {scope} ({error.strerror}): see dmesg') from None
        return True


def check_here(root: Path = SYS) -> None:
    """Raise Failure if this machine cannot be measured."""
    if not MODULES.exists():
        raise Failure('the running kernel cannot load modules: boot another one, or try it in a guest: --engine uml')
    if os.geteuid():
        raise Failure('run this as root: it loads a module; or try it in a guest: --engine uml')
    if (root / 'module' / MODULE).exists():
        raise Failure(f'{MODULE} is loaded already: is another program measuring? If not, run rmmod {MODULE}')


@contextlib.contextmanager
def here(module: Path, resizes: bool, root: Path = SYS) -> Iterator[Here]:
    """Load the module into the running kernel. Afterwards the machine is as it was before."""
    size = root / pods.SHARD_SIZE
    with kept(root / 'module' / MODULE, size if resizes and size.exists() else None):
        done = subprocess.run(['insmod', module, 'keep=1', 'quiet=1', *FIRST.split()], capture_output=True, text=True,
                              check=False, env=with_sbin())
        if done.returncode:
            raise Failure(f'the module cannot be loaded: {first_match(done.stderr, "insmod")}')
        yield Here(root)


def own_waits(enabled: Path = LATENCY) -> str:
    """Say in a line how long the items of this machine's own work wait, or nothing if the kernel does not measure it.

    A scope matters only to unbound workqueues. If their items hardly wait, no scope gains much, whatever the loads say.
    """
    try:
        if enabled.read_text().strip() != '1':
            return ''
    except OSError:
        return ''
    done = subprocess.run([sys.executable, MONITOR, '--debugfs', '-i', '0', '--json'], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        return ''
    rows = map(json.loads, done.stdout.splitlines())
    waits = sorted(((row['wait_us']['p99'], row['name']) for row in rows if row['unbound'] and 'wait_us' in row),
                   reverse=True)
    if not waits:
        return "of this machine's own work, no item of an unbound workqueue was measured: no scope matters to others"
    longest = ', '.join(f'{us} us ({name})' for us, name in waits[:NAMED])
    return f"of this machine's own work, 99 of 100 items of an unbound workqueue waited for less than {longest}"


class Guest:
    """A guest that waits for orders."""
    size_file = str(SYS / pods.SHARD_SIZE)

    def __init__(self, place: seat.Seat, tick: Callable[[float, str], None]):
        place.begin(None, seat.Clock(tick))
        self.seat, self.clock = place, seat.Clock(lambda seconds, newest: None)     # measure.py reports progress
        self.scopes = [scope for scope in place.scopes if scope in SCOPES]
        self.described = described(place.said)
        self.cpus = len(self.described.online)

    def run(self, line: str) -> Run:
        self.seat.give(line)
        return checked(self.seat.report(self.clock))


Subject = Here | Guest


@contextlib.contextmanager
def guest(kernel: Kind, params: dict[str, Any], log: Path, tick: Callable[[float, str], None]) -> Iterator[Guest]:
    boot = {'variant': kernel.variant}
    inside = seat.command(more=f'( {READ.replace("SYS", str(SYS))} )')
    with seat.taken(kernel, params, boot, log, inside=inside) as place:
        yield Guest(place, tick)
        place.leave()

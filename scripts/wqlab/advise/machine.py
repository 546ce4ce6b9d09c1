# SPDX-License-Identifier: GPL-2.0
"""The machine to advise: the one that this program runs on, or a guest.

Both take the same orders, see wqlab.bench.seat: values for the module's parameters, or for other
files. Each order makes one run, of which the result is returned.
"""
import contextlib
import errno
import glob
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from wqlab.advise import pods
from wqlab.advise.keeper import Keeper
from wqlab.bench import parse, seat
from wqlab.measure.boot import Build
from wqlab.paths import ROOT
from wqlab.scopes import SCOPES
from wqlab.steps import Failure, first_match

SYS, MODULES = Path('/sys'), Path('/proc/modules')
MODULE = 'test_workqueue'
FIRST = {'threads': '1', 'items': '1', 'warmup': '0', 'scopes': 'default'}
FILE, MODE, END = '@file ', '@mode ', '@end'
# Print what sysfs says, as pods.Machine wants it.
TELL = f'''
(cd /sys; grep -aHs "" {' '.join(pods.FILES)} | sed "s/^/{FILE}/"
stat -c "{MODE}%a" {pods.SHARD_SIZE} 2>/dev/null; echo {END})
'''
# What insmod says if something forbids to load a module.
FORBIDDEN = {'Key was rejected': 'Secure Boot wants signed modules',
             'not permitted': 'Secure Boot or a container forbids it'}
Run = dict[str, Any]


class Subject(Protocol):
    """A machine that takes orders."""
    cpus: int
    scopes: list[str]       # that its kernel has

    def describe(self) -> pods.Machine: ...
    def run(self, order: dict[str, str]) -> Run: ...
    def set_shard_size(self, size: int) -> None: ...


def checked(parsed: dict[str, Any]) -> Run:
    """Return the run in a report, or raise Failure if the kernel broke a promise."""
    run, = parsed['runs']
    bad = ', '.join(f'{run[key]} {key}' for key in parse.VIOLATIONS if run[key])
    if bad:
        raise Failure(f"the kernel broke a promise in scope {run['scope']}: {bad} items: see its log")
    return run


def read_files(root: Path) -> dict[str, str]:
    found = {}
    for pattern in pods.FILES:
        for name in glob.glob(pattern, root_dir=root):
            with contextlib.suppress(OSError):      # some can only be written
                found[name] = (root / name).read_text().strip()
    return found


class Here:
    """This machine."""

    def __init__(self, root: Path = SYS):
        self.root = root
        self.parameters = root / 'module' / MODULE / 'parameters'
        self.scopes: list[str] = []
        self.cpus = len(self.describe().usable)

    def describe(self) -> pods.Machine:
        path = self.root / pods.SHARD_SIZE
        return pods.Machine(read_files(self.root), path.stat().st_mode if path.exists() else None)

    def put(self, path: Path, value: str) -> None:
        """Write to a file of sysfs, which must exist."""
        file = os.open(path, os.O_WRONLY)
        try:
            os.write(file, f'{value}\n'.encode())
        finally:
            os.close(file)

    def give(self, order: dict[str, str]) -> str:
        for name, value in order.items():
            self.put(self.parameters / name, value)
        try:
            self.put(self.parameters / 'run', '1')
        except OSError as error:
            if error.errno != errno.EPROTO:     # EPROTO: a promise was broken, and the report says which
                raise
        text = (self.parameters / 'run').read_text()
        return ''.join(f'{parse.PREFIX}{line}\n' for line in text.splitlines())

    def run(self, order: dict[str, str]) -> Run:
        try:
            return checked(parse.parse_output(self.give(order)))
        except OSError as error:
            raise Failure(f'the module refuses a run ({error.strerror}): see dmesg') from None
        except parse.BenchOutputError as error:
            raise Failure(str(error)) from None

    def set_shard_size(self, size: int) -> None:
        try:
            self.put(self.root / pods.SHARD_SIZE, str(size))
        except OSError as error:
            raise Failure(f'the kernel refuses a cache_shard_size of {size}: {error.strerror}') from None

    def find_scopes(self) -> None:
        """Find out which scopes the kernel has: it refuses a run in any other scope with EOPNOTSUPP."""
        for scope in SCOPES:
            try:
                self.give({**FIRST, 'scopes': scope})
                self.scopes.append(scope)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise Failure(f'the module cannot try the scope {scope} ({error.strerror}): see dmesg') from None


def load(module: Path) -> None:
    """Load the module. It makes a small pass, and stays."""
    words = [f'{name}={value}' for name, value in FIRST.items()]
    done = subprocess.run(['insmod', module, 'keep=1', 'quiet=1', *words], capture_output=True, text=True, check=False,
                          env={**os.environ, 'PATH': f'{os.environ["PATH"]}:/usr/sbin:/sbin'})
    if done.returncode:
        said = first_match(done.stderr, 'insmod')
        why = next((f' ({text})' for word, text in FORBIDDEN.items() if word in said), '')
        raise Failure(f'the module cannot be loaded{why}: {said}')


def check_here(root: Path = SYS) -> None:
    """Raise Failure if this machine cannot be measured."""
    if not MODULES.exists():
        raise Failure('the running kernel cannot load modules: boot another one, or try it in a guest: --engine uml')
    if os.geteuid():
        raise Failure('run this as root: it loads a module; or try it in a guest: --engine uml')
    if (root / 'module' / MODULE).exists():
        raise Failure(f'{MODULE} is loaded already: is another program measuring? If not, run rmmod {MODULE}')
    if not (root / 'devices/virtual/workqueue').exists():
        raise Failure(f'{root}/devices/virtual/workqueue is missing: mount sysfs on /sys')


@contextlib.contextmanager
def here(module: Path, resizes: bool, root: Path = SYS) -> Iterator[Here]:
    """Load the module into the running kernel. Afterwards the machine is as it was before."""
    size = root / pods.SHARD_SIZE
    with Keeper(root / 'module' / MODULE, [size] if resizes and size.exists() else []):
        load(module)
        subject = Here(root)
        subject.find_scopes()
        yield subject


class Guest:
    """A guest that waits for orders."""

    def __init__(self, place: seat.Seat, tick: Callable[[float, str], None]):
        place.begin(None, seat.Clock(tick))
        self.seat, self.clock = place, seat.Clock(lambda seconds, newest: None)     # measure.py reports progress
        self.scopes = [scope for scope in place.scopes if scope in SCOPES]
        self.told = place.said
        self.more: dict[str, str] = {}
        self.size: int | None = None
        self.cpus = len(self.describe().usable)

    def describe(self) -> pods.Machine:
        """Return what the guest told when it began."""
        files: dict[str, str] = {}
        mode = None
        for line in self.told:
            if line.startswith(FILE):
                name, _, text = line.removeprefix(FILE).partition(':')
                files[name] = text.strip()
            elif line.startswith(MODE):
                mode = int(line.removeprefix(MODE), 8)
        if END not in self.told or pods.ONLINE not in files:
            raise Failure('the guest does not tell what its CPUs share: see its log')
        return pods.Machine(files, mode)

    def run(self, order: dict[str, str]) -> Run:
        words = {**self.more, **order}
        self.more = {}
        self.seat.give(' '.join(f'{name}={value}' for name, value in words.items()) + '\n')
        return checked(self.seat.report(self.clock))

    def set_shard_size(self, size: int) -> None:
        """Have the size written with the next order."""
        self.more[f'{SYS}/{pods.SHARD_SIZE}'] = str(size)


@contextlib.contextmanager
def guest(build: Build, params: dict[str, Any], log: Path, tick: Callable[[float, str], None]) -> Iterator[Guest]:
    boot = {'variant': build.variant, 'shard_size': None}
    with seat.taken(ROOT, build, params, boot, log, inside=seat.command(more=TELL)) as place:
        yield Guest(place, tick)
        place.leave()

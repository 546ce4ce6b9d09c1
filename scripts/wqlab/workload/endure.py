# SPDX-License-Identifier: GPL-2.0
"""ext4 on dm-crypt, while all settings of the workqueues change and CPUs come and go.

fio writes in rounds, with direct I/O, through the page cache, and with fsync() after each
block, and reads back what it has written. It reads once more before it overwrites a block in
the next round. Each round writes in another order, so that a block of an earlier round has
another number.

Meanwhile a thread picks a kind of setting, a file and a value at random, and writes the value.
The kernel has to take each. At the end, each file gets back what it contained before.
"""
import collections
import contextlib
import dataclasses
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wqlab import cpus, files
from wqlab.scopes import SCOPES, SHARD
from wqlab.steps import Failure
from wqlab.workload import cases, disks, dmcrypt, fio, lines, machine, scopes, writeback
from wqlab.workload.cases import Wrong

NAME = 'ext4-on-crypt'
EXT4 = writeback.FILE_SYSTEMS['ext4']
WRITES = {'rw': 'randwrite', 'verify': 'crc32c'}
MOST_JOBS = 64      # each needs some blocks of its own
MIB = 1 << 20
PACE_S = 0.05       # from the start of a change to the start of the next, unless the change itself takes longer
CPUS = Path('/sys/devices/system/cpu')
SHARD_SIZE = scopes.DEFAULT.with_name('cache_shard_size')


# The settings

def content(path: Path) -> str:
    """Return what has to be written to a file to give it the content that it has now."""
    requested = path.with_name('cpumask_requested')
    text = (requested if path.name == 'cpumask' and requested.exists() else path).read_text()
    return text.partition(' (')[0].strip()      # affinity_scope says "default (cache_shard)"


def writable(folder: Path, pattern: str) -> list[Path]:
    """Return the files that root may write to. A read-only max_active, for example, is that of an ordered workqueue."""
    return sorted(path for path in folder.glob(pattern) if path.stat().st_mode & 0o200)


def known_scopes() -> list[str]:
    return [scope for scope in SCOPES if scope != SHARD or SHARD_SIZE.exists()]


def mask_text(numbers: Sequence[int]) -> str:
    """Return a mask of CPUs as the kernel reads it: words of 32 bits."""
    digits = f'{sum(1 << number for number in numbers):x}'
    padded = digits.zfill(-(-len(digits) // 8) * 8)
    return ','.join(padded[place:place + 8] for place in range(0, len(padded), 8))


def some_cpus(path: Path) -> str:
    """Return a mask of at least one CPU, which may be offline."""
    present = cpus.parse((CPUS / 'present').read_text())
    return mask_text(random.sample(present, random.randint(1, len(present))))


def any_of(*values: object) -> Callable[[Path], str]:
    return lambda path: str(random.choice(values))


# name -> (the files that can be changed now, a value for one of them); no files if this kernel cannot
KINDS: dict[str, tuple[Callable[[], list[Path]], Callable[[Path], str]]] = {
    'scope': (lambda: writable(scopes.SYSFS, '*/affinity_scope'),
              lambda path: random.choice(['default', *known_scopes()])),
    'strict': (lambda: writable(scopes.SYSFS, '*/affinity_strict'), any_of(0, 1)),
    'cpumask': (lambda: writable(scopes.SYSFS, '*/cpumask'), some_cpus),
    'nice': (lambda: writable(scopes.SYSFS, '*/nice'), any_of(*range(-20, 20))),
    'max_active': (lambda: writable(scopes.SYSFS, '*/max_active'), any_of(1, 2, 5, 16, 256)),
    'all_cpumask': (lambda: writable(scopes.SYSFS, 'cpumask'), some_cpus),
    'all_scope': (lambda: writable(scopes.DEFAULT.parent, scopes.DEFAULT.name),
                  lambda path: random.choice(known_scopes())),
    'shard_size': (lambda: writable(SHARD_SIZE.parent, SHARD_SIZE.name), any_of(1, 2, 3, 4, 8)),
    'hotplug': (lambda: writable(CPUS, 'cpu[0-9]*/online'), lambda path: '0' if content(path) == '1' else '1'),
}


class Changer:
    """Makes changes until it is stopped."""

    def __init__(self) -> None:
        self.before: dict[Path, str] = {}
        self.counts = collections.Counter(dict.fromkeys(KINDS, 0))
        self.seconds: list[float] = []          # how long each change took
        self.ending = threading.Event()

    def put(self, path: Path, value: str) -> None:
        """Write to a file. Raise Failure if the kernel refuses the value."""
        try:
            self.before.setdefault(path, content(path))
            files.put(path, value)
        except OSError as error:
            if path.exists():       # else its workqueue is gone
                raise Failure(f'the kernel refuses {value!r} in {path}: {error.strerror}') from None

    def put_back(self) -> None:
        """Give all files their former content, CPUs first. Raise Failure if one has not got it."""
        for path in sorted(self.before, key=lambda path: path.name != 'online'):
            with contextlib.suppress(OSError):
                files.put(path, self.before[path])
            if path.exists() and content(path) != self.before[path]:
                raise Failure(f'{path} is {content(path)}, and not {self.before[path]} as before: write that by hand')

    def work(self) -> None:
        """Make changes. In each round, there is one of each kind, in random order."""
        possible = [kind for kind, (files, _) in KINDS.items() if files()]
        try:
            while True:
                for kind in random.sample(possible, len(possible)):
                    files, value = KINDS[kind]
                    started = time.monotonic()
                    path = random.choice(files())
                    self.put(path, value(path))
                    self.counts[kind] += 1
                    self.seconds.append(time.monotonic() - started)
                    if self.ending.wait(max(0.0, PACE_S - self.seconds[-1])):
                        return
        finally:
            self.put_back()

    @property
    def complete(self) -> bool:
        """Each kind of change was made that this kernel can make."""
        return all(self.counts[kind] for kind, (files, _) in KINDS.items() if files())

    def figures(self) -> dict[str, float]:
        """Return how many changes were made, in all and of each kind, and percentiles of their time in microseconds."""
        taken = sorted(self.seconds)
        return {'changes': self.counts.total(), **self.counts,
                **{name: 1e6 * taken[int(share * len(taken))]
                   for name, share in (('p50_us', 0.5), ('p99_us', 0.99), ('p999_us', 0.999))}}


# What is written

@dataclasses.dataclass(frozen=True)
class Piece:
    """A part of a round: what fio does, and how much it writes."""
    name: str
    options: dict[str, Any]
    block: int
    mib: int


PIECES = (Piece('direct', {'ioengine': 'libaio', 'direct': 1, 'iodepth': 16}, 16 << 10, 24),
          Piece('buffered', {'ioengine': 'io_uring', 'iodepth': 16, 'end_fsync': 1}, 64 << 10, 24),
          Piece('fsync', {'ioengine': 'psync', 'fsync': 1}, 4 << 10, 2))
ALL_MIB = sum(piece.mib for piece in PIECES)


def size_each(piece: Piece, jobs: int) -> int:
    return piece.mib * MIB // jobs // piece.block * piece.block


def check_file_system(disk: Path) -> None:
    """Raise Wrong unless the file system, which is not in use, is clean."""
    try:
        machine.run('e2fsck', '-f', '-n', disk)
    except Failure as error:
        raise Wrong(f'ext4 is damaged: {error}') from None


class Stack:
    """A file system on an encrypted disk."""

    def __init__(self, mapping: dmcrypt.Mapping, mounted: writeback.Mounted, cpus: int):
        self.mapping, self.mounted, self.jobs = mapping, mounted, min(max(2, cpus), MOST_JOBS)
        self.seeds: dict[str, int] = {}     # of what each piece has written last

    def open(self, new: bool) -> None:
        """Take it into use. If it is `new`, it has no data yet."""
        self.mapping.open()
        if new:
            self.mounted.make()
        else:
            check_file_system(self.mounted.disk)
        self.mounted.mount()

    def close(self) -> None:
        self.mounted.unmount()
        self.mapping.close()

    def digest(self) -> str:
        """Return a checksum of all that fio has written."""
        return disks.digest(sorted(self.mounted.place.glob('*.*')))

    def fio(self, piece: Piece, **more: object) -> int:
        """Let fio write a piece and verify it, or only verify it. Return how many bytes it has verified."""
        job = fio.Job({**WRITES, **piece.options, 'bs': piece.block, 'randseed': self.seeds[piece.name],
                       'directory': self.mounted.place, 'filename_format': f'{piece.name}.$jobnum',
                       'size': size_each(piece, self.jobs)}, self.jobs)
        verified, expected = fio.run(job, **more)['read']['io_bytes'], self.jobs * size_each(piece, self.jobs)
        if verified != expected:
            raise Wrong(f'{piece.name}: fio has verified {verified} bytes instead of {expected}')
        return verified

    def verify(self, piece: Piece) -> int:
        """Let fio verify what a piece has written last, if it has written anything."""
        return self.fio(piece, verify_only=1) if piece.name in self.seeds else 0

    def write(self, piece: Piece) -> int:
        verified = self.verify(piece)
        self.seeds[piece.name] = random.getrandbits(31)
        return verified + self.fio(piece)

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        """Write in rounds for this long at least, and until each kind of change was made."""
        log = machine.KernelLog()       # which would overwrite its first messages in a long run
        changer, started, verified, rounds = Changer(), time.monotonic(), 0, 0
        with ThreadPoolExecutor(1) as pool:
            changing = pool.submit(changer.work)
            try:
                while not changing.done() and (time.monotonic() - started < seconds or not changer.complete):
                    verified += sum(map(self.write, PIECES))
                    rounds += 1
                    if complaints := log.complaints():
                        lines.emit('trouble', lines=complaints)
            finally:
                changer.ending.set()
            changing.result()
        taken = time.monotonic() - started
        return 'MiB/s', {'rate': verified / MIB / taken, 'verified_mib': verified / MIB, 'rounds': rounds,
                         **changer.figures()}

    def check_again(self) -> None:
        """Compare and verify all data after the file system was unmounted, checked, and mounted again."""
        disks.check_same(self.digest, [self.close, lambda: self.open(new=False)])
        for piece in PIECES:
            self.verify(piece)


@contextlib.contextmanager
def opened(group: str, cpus: int, spoil: str | None) -> Iterator[Stack]:
    machine.need_target('crypt')
    machine.need_file_system('ext4')
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='wqlab-')))
        key = stack.enter_context(dmcrypt.key())
        disk, spoil_it = stack.enter_context(disks.spoilt(stack.enter_context(disks.ram_disk()), spoil))
        endured = Stack(dmcrypt.Mapping(disk, 'aes', 'queue', key, cpus),
                        writeback.Mounted(EXT4, dmcrypt.DEVICE, folder, cpus), cpus)
        stack.callback(endured.close)
        endured.open(new=True)
        spoil_it()
        yield endured


def notes(cpus: int) -> list[str]:
    return ['one CPU: it cannot go offline'] if cpus == 1 else []


WORKLOAD = cases.Workload(
    name='endure', what='ext4 on dm-crypt while attributes, scopes and CPUs change (only if named)',
    latency='one change', only_if_named=True,
    columns=(('verified_mib', 'verified MiB'), ('changes', 'changes'), *((name, name) for name in KINDS),
             cases.P50, cases.P99),
    names=lambda cpus: [NAME], opened=opened, notes=notes, sets={'quick': ('*',), 'default': ('*',)})

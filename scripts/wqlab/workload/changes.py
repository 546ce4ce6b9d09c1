# SPDX-License-Identifier: GPL-2.0
"""Change all that an administrator can change of workqueues while a workload runs.

A thread makes one change after the other: it picks a kind, a file and a value at random, and
writes the value. The kernel has to take each. At the end, each file gets back what it
contained before.
"""
import collections
import contextlib
import dataclasses
import errno
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from wqlab import cpus
from wqlab.scopes import SCOPES, SHARD
from wqlab.steps import Failure
from wqlab.workload import machine, scopes

PACE_S = 0.05       # from the start of a change to the start of the next, unless the change itself takes longer
CPUS = Path('/sys/devices/system/cpu')
SHARD_SIZE = scopes.DEFAULT.with_name('cache_shard_size')
DROP_CACHES = Path('/proc/sys/vm/drop_caches')
MOUNTS = Path('/proc/mounts')
SHARD_SIZES = (1, 2, 3, 4, 8)
MAX_ACTIVE = (1, 2, 5, 16, 256)
RECLAIMED, PAGES_AND_INODES = '16M', '3'


def content(path: Path) -> str:
    """Return what has to be written to a file to give it the content that it has now."""
    requested = path.with_name('cpumask_requested')
    text = (requested if path.name == 'cpumask' and requested.exists() else path).read_text()
    return text.partition(' (')[0].strip()      # affinity_scope says "default (cache_shard)"


def refusal(path: Path, value: str, error: OSError) -> Failure:
    return Failure(f'the kernel refuses {value!r} in {path}: {error.strerror}')


class Settings:
    """Writes to files, and remembers what they contained before."""

    def __init__(self) -> None:
        self.before: dict[Path, str] = {}

    def put(self, path: Path, value: str) -> bool:
        """Write to a file. Return False if its workqueue is gone. Raise Failure if the kernel refuses the value."""
        try:
            self.before.setdefault(path, content(path))
            scopes.put(path, value)
        except OSError as error:
            if not path.exists():
                return False
            raise refusal(path, value, error) from None
        return True

    def put_back(self) -> None:
        """Give all files their former content, CPUs first. Raise Failure if one has not got it."""
        wrong = []
        for path in sorted(self.before, key=lambda path: path.name != 'online'):
            with contextlib.suppress(OSError):
                scopes.put(path, self.before[path])
            if path.exists() and content(path) != self.before[path]:
                wrong.append(f'{path} is {content(path)}, and not {self.before[path]} as before')
        if wrong:
            raise Failure(f'{len(wrong)} settings could not be put back: {wrong[0]}; write the earlier values by hand')


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of change."""
    name: str
    weight: int                                     # how often it is made in a round
    files: Callable[[], Sequence[Path]]             # what can be changed now; none if this kernel cannot
    value: Callable[[Path, Random], str]


def writable(folder: Path, pattern: str) -> list[Path]:
    """Return the files that root may write to. A read-only max_active, for example, is that of an ordered workqueue."""
    return sorted(path for path in folder.glob(pattern) if path.stat().st_mode & 0o200)


def of_queues(attribute: str) -> Callable[[], list[Path]]:
    return lambda: writable(scopes.SYSFS, f'*/{attribute}')


def parameter(path: Path) -> list[Path]:
    return writable(path.parent, path.name)


def known_scopes() -> list[str]:
    return [scope for scope in SCOPES if scope != SHARD or SHARD_SIZE.exists()]


def queue_scope(path: Path, chance: Random) -> str:
    return chance.choice(['default', *known_scopes()])


def default_scope(path: Path, chance: Random) -> str:
    return chance.choice(known_scopes())


def mask_text(numbers: Sequence[int]) -> str:
    """Return a mask of CPUs as the kernel reads it: words of 32 bits."""
    digits = f'{sum(1 << number for number in numbers):x}'
    padded = digits.zfill(-(-len(digits) // 8) * 8)
    return ','.join(padded[place:place + 8] for place in range(0, len(padded), 8))


def some_cpus(path: Path, chance: Random) -> str:
    """Return a mask of at least one CPU, which may be offline."""
    present = cpus.parse((CPUS / 'present').read_text())
    return mask_text(chance.sample(present, chance.randint(1, len(present))))


def other_state(path: Path, chance: Random) -> str:
    return '0' if content(path) == '1' else '1'


SETTINGS = (
    Kind('scope', 4, of_queues('affinity_scope'), queue_scope),
    Kind('strict', 2, of_queues('affinity_strict'), lambda path, chance: str(chance.randint(0, 1))),
    Kind('cpumask', 3, of_queues('cpumask'), some_cpus),
    Kind('nice', 2, of_queues('nice'), lambda path, chance: str(chance.randint(-20, 19))),
    Kind('max_active', 3, of_queues('max_active'), lambda path, chance: str(chance.choice(MAX_ACTIVE))),
    Kind('all_cpumask', 2, lambda: writable(scopes.SYSFS, 'cpumask'), some_cpus),
    Kind('all_scope', 2, lambda: parameter(scopes.DEFAULT), default_scope),
    Kind('shard_size', 2, lambda: parameter(SHARD_SIZE), lambda path, chance: str(chance.choice(SHARD_SIZES))),
    Kind('hotplug', 4, lambda: writable(CPUS, 'cpu[0-9]*/online'), other_state),
)
MEMORY = 'memory'
NAMES = (*(kind.name for kind in SETTINGS), MEMORY)


class Memory:
    """Takes memory away: pages that are dirty have to be written, and those that are clean read again."""

    def __init__(self, reclaim: Path):
        self.reclaim = reclaim      # a file of a memory cgroup, which need not exist

    def press(self, chance: Random) -> None:
        if self.reclaim.exists() and chance.random() < 0.5:
            path, value = self.reclaim, RECLAIMED
        else:
            os.sync()
            path, value = DROP_CACHES, PAGES_AND_INODES
        try:
            scopes.put(path, value)
        except OSError as error:
            if path != self.reclaim or error.errno != errno.EAGAIN:     # there was less to reclaim
                raise refusal(path, value, error) from None


@contextlib.contextmanager
def memory_cgroup() -> Iterator[Memory]:
    """Use the cgroups that are mounted: the options of another mount would replace theirs."""
    lines = [line.split() for line in MOUNTS.read_text().splitlines()]
    if mounted := [Path(words[1]) for words in lines if words[2] == 'cgroup2']:
        yield Memory(mounted[0] / 'memory.reclaim')
        return
    with tempfile.TemporaryDirectory(prefix='wqlab-') as folder:
        try:
            machine.run('mount', '-t', 'cgroup2', 'cgroup2', folder)
        except Failure:         # the kernel has none
            yield Memory(Path(folder, 'memory.reclaim'))
            return
        try:
            yield Memory(Path(folder, 'memory.reclaim'))
        finally:
            machine.run('umount', folder)


def order(weights: Mapping[str, int], chance: Random) -> Iterator[str]:
    """Yield names without end. In each round, each comes as often as its weight, in random order."""
    while True:
        names = [name for name, weight in weights.items() for _ in range(weight)]
        chance.shuffle(names)
        yield from names


class Changer:
    """A thread that makes changes while the block runs."""

    def __init__(self, chance: Random, pace: float):
        self.chance, self.pace = chance, pace
        self.settings = Settings()
        self.kinds = {kind.name: kind for kind in SETTINGS if kind.files()}
        self.counts = collections.Counter(dict.fromkeys(NAMES, 0))
        self.seconds: list[float] = []          # how long each change took
        self.error: BaseException | None = None
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.work, name='changer', daemon=True)
        self.closing = contextlib.ExitStack()

    def __enter__(self) -> 'Changer':
        self.memory = self.closing.enter_context(memory_cgroup())
        self.closing.callback(self.settings.put_back)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.thread.join()
        self.closing.close()

    def work(self) -> None:
        weights = {**{name: kind.weight for name, kind in self.kinds.items()}, MEMORY: 2}
        wait = self.pace
        try:
            for name in order(weights, self.chance):
                if self.ending.wait(wait):
                    return
                started = time.monotonic()
                self.counts[name] += self.made(name)
                self.seconds.append(time.monotonic() - started)
                wait = max(0.0, self.pace - self.seconds[-1])
        except BaseException as error:      # for the thread that waits for this one
            self.error = error

    def made(self, name: str) -> bool:
        """Make a change. Return False if there was nothing to change."""
        if name == MEMORY:
            self.memory.press(self.chance)
            return True
        kind = self.kinds[name]
        if not (files := kind.files()):
            return False
        path = self.chance.choice(files)
        return self.settings.put(path, kind.value(path, self.chance))

    def check(self) -> None:
        """Raise what has ended the thread, if anything has."""
        if self.error:
            raise self.error

    @property
    def complete(self) -> bool:
        """Each kind of change was made."""
        return all(self.counts[name] for name in (*self.kinds, MEMORY))

    def figures(self) -> dict[str, float]:
        """Return how many changes were made, in all and of each kind, and percentiles of their time in microseconds."""
        taken = sorted(self.seconds)

        def percentile(share: float) -> float:
            return 1e6 * taken[min(len(taken) - 1, int(share * len(taken)))]
        return {'changes': self.counts.total(), **self.counts, 'p50_us': percentile(0.5),
                'p99_us': percentile(0.99), 'p999_us': percentile(0.999)}

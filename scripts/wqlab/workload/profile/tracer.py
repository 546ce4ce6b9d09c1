# SPDX-License-Identifier: GPL-2.0
"""Record the kernel's tracepoints of workqueues, in a trace buffer that nobody else uses.

Each CPU has a buffer, which keeps the first events. When it is full, the kernel drops all later
events of this CPU, and counts them. From then on, the start of an item may be recorded although
its queueing is missing. So this module leaves out the later events of all other CPUs, too: of any
time, a profile has either all events or none.
Nothing reads the buffer while a case runs, so nothing but the tracepoints themselves disturbs
it. Histograms of the kernel (hist triggers) would not need a buffer, but user-mode Linux does
not have them, and they have no percentiles.
"""
import contextlib
import dataclasses
import errno
import heapq
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from wqlab.steps import Failure
from wqlab.workload import machine
from wqlab.workload.cases import Lacking
from wqlab.workload.profile.ring import Format, Page, text_of

TRACEFS = Path('/sys/kernel/tracing')
BUFFERS_KIB = 64 << 10          # of all CPUs together, for about 500,000 items
QUEUE, ACTIVATE, START, END = 'queue', 'activate', 'start', 'end'
EVENTS = {'workqueue_queue_work': QUEUE, 'workqueue_activate_work': ACTIVATE,
          'workqueue_execute_start': START, 'workqueue_execute_end': END}
FIELDS = ['common_type', 'common_pid', 'work']
TYPE = struct.Struct('=H')
CLOCK = 'mono'                  # the same on all CPUs
READ = 1 << 20                  # more than a page: one read returns one page
Event = tuple[int, int, str, int, int, str]     # time in ns, CPU, which, PID, address of the item, workqueue


@dataclasses.dataclass
class Recorded:
    """What the kernel recorded: the pages of each CPU, how to read them, and how many events did not fit."""
    page: Page
    formats: dict[str, Format]
    pages: dict[int, list[bytes]]
    lost: dict[int, int]

    def complete_until(self) -> int | None:
        """Return the time from which on events are missing, or None if all are there."""
        ends = [self.page.time(self.pages[cpu][-1]) for cpu, lost in self.lost.items() if lost and self.pages[cpu]]
        return min(ends, default=None)

    def of_cpu(self, cpu: int) -> Iterator[Event]:
        readers = {one.number: (EVENTS[name], one.reader(FIELDS)) for name, one in self.formats.items()}
        queueing = self.formats['workqueue_queue_work'].reader([*FIELDS, 'workqueue'])
        names: dict[bytes, str] = {}
        for page in self.pages[cpu]:
            for time, at in self.page.events(page):
                which, reader = readers[TYPE.unpack_from(page, at)[0]]
                if which == QUEUE:
                    _, pid, work, place = queueing.unpack_from(page, at)
                    text = text_of(page, at, place)
                    yield time, cpu, which, pid, work, names.setdefault(text, text.decode('utf-8', 'replace'))
                else:
                    _, pid, work = reader.unpack_from(page, at)
                    yield time, cpu, which, pid, work, ''

    def events(self) -> Iterator[Event]:
        """Yield the events of all CPUs in the order of their times, as long as none is missing."""
        end = self.complete_until()
        for event in heapq.merge(*map(self.of_cpu, self.pages)):
            if end is not None and event[0] >= end:
                return
            yield event


def mounted(root: Path = TRACEFS) -> Path:
    """Return where the tracefs is, or raise Lacking if the kernel has none."""
    if not (root / 'instances').exists():
        try:
            machine.run('mount', '-t', 'tracefs', 'tracefs', root)
        except Failure as error:
            raise Lacking(f'the kernel cannot trace events: {error}') from None
    return root


class Buffer:
    """A trace buffer of its own."""

    def __init__(self, root: Path):
        self.root, self.folder = root, root / 'instances' / f'wqlab-{os.getpid()}'

    def write(self, name: str, value: object) -> None:
        try:
            (self.folder / name).write_text(f'{value}\n')
        except OSError as error:
            raise Lacking(f'the kernel refuses {value!r} in {self.folder / name}: {error.strerror}') from None

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def cpus(self) -> list[int]:
        return sorted(int(path.name.removeprefix('cpu')) for path in (self.folder / 'per_cpu').iterdir())

    def start(self) -> None:
        if '__data_loc' not in self.formats()['workqueue_queue_work'].fields['workqueue'].kind:
            raise Lacking("the kernel's events do not name the workqueue")
        self.write('tracing_on', 0)
        self.write('trace_clock', CLOCK)
        self.write('options/overwrite', 0)
        self.write('buffer_size_kb', BUFFERS_KIB // len(self.cpus()))
        for name in EVENTS:
            self.write(f'events/workqueue/{name}/enable', 1)
        self.write('tracing_on', 1)

    def pages(self, cpu: int) -> Iterator[bytes]:
        file = os.open(self.folder / f'per_cpu/cpu{cpu}/trace_pipe_raw', os.O_RDONLY | os.O_NONBLOCK)
        try:
            while page := os.read(file, READ):
                yield page
        except BlockingIOError:
            return
        finally:
            os.close(file)

    def lost(self, cpu: int) -> int:
        """Return how many events of this CPU are missing."""
        stats = dict(line.split(': ') for line in self.read(f'per_cpu/cpu{cpu}/stats').splitlines())
        return sum(int(stats[name]) for name in ('overrun', 'commit overrun', 'dropped events'))

    def formats(self) -> dict[str, Format]:
        return {name: Format(self.read(f'events/workqueue/{name}/format')) for name in EVENTS}

    def recorded(self) -> Recorded:
        self.write('tracing_on', 0)
        lost = {cpu: self.lost(cpu) for cpu in self.cpus()}
        return Recorded(Page((self.root / 'events/header_page').read_text()), self.formats(),
                        {cpu: list(self.pages(cpu)) for cpu in self.cpus()}, lost)


@contextlib.contextmanager
def tracing(root: Path = TRACEFS) -> Iterator[Buffer]:
    """Trace while the block runs."""
    buffer = Buffer(mounted(root))
    try:
        buffer.folder.mkdir()
    except OSError as error:
        raise Lacking(f'the kernel gives no trace buffer: {os.strerror(error.errno or errno.EIO)}') from None
    try:
        buffer.start()
        yield buffer
    finally:
        buffer.folder.rmdir()

# SPDX-License-Identifier: GPL-2.0
"""How long items waited and ran, by workqueue.

An item waits from its queueing to its start. It may be queued again while it runs, so a start
belongs to the last queueing of the same address before it. An end belongs to the start of the
same address in the same task: a function may free its item, and another item may begin to run
at the same address.
"""
import array
import dataclasses
import math
import re
from collections.abc import Iterable, Sequence

from wqlab.workload.profile.tracer import ACTIVATE, END, QUEUE, START, Event

TABLE_NUMBER = re.compile(r'(-\d+:\d+)-\d+$')       # dm-crypt counts the tables of a device
POINTS = {'p50': 0.5, 'p99': 0.99, 'p999': 0.999, 'max': 1.0}


def numbers() -> array.array:
    return array.array('q')


@dataclasses.dataclass
class Queue:
    """The items of one workqueue: their times in ns, and how many of them were special."""
    waits: array.array = dataclasses.field(default_factory=numbers)
    runs: array.array = dataclasses.field(default_factory=numbers)
    elsewhere: int = 0      # ran on another CPU than the one that queued them
    held: int = 0           # were held back by max_active
    unstarted: int = 0      # were taken back, or waited at the end

    def figures(self) -> dict[str, float]:
        found: dict[str, float] = {'items': len(self.waits), 'unstarted': self.unstarted}
        for name, times in (('wait', self.waits), ('run', self.runs)):
            ordered = sorted(times)
            found.update({f'{name}_{point}_us': percentile(ordered, share) / 1000
                          for point, share in POINTS.items() if ordered})
        if self.waits:
            found['elsewhere_percent'] = 100 * self.elsewhere / len(self.waits)
            found['held_percent'] = 100 * self.held / len(self.waits)
        return found


@dataclasses.dataclass
class Waiting:
    queue: Queue
    since: int
    cpu: int
    held: bool = False


def percentile(ordered: Sequence[int], share: float) -> int:
    """Return the smallest time that at least this share of the items did not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Pairing:
    """Follows each item from event to event."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.waiting: dict[int, Waiting] = {}
        self.running: dict[tuple[int, int], tuple[int, Queue | None]] = {}
        self.before: dict[int, tuple[str, int]] = {}        # CPU: its event before this one
        self.events = self.unqueued = self.first = self.last = 0

    def add(self, events: Iterable[Event]) -> 'Pairing':
        steps = {ACTIVATE: self.activated, START: self.started, END: self.ended}
        for time, cpu, which, pid, work, name in events:
            if which == QUEUE:
                self.queued(time, cpu, work, TABLE_NUMBER.sub(r'\1', name))
            else:
                steps[which](time, cpu, pid, work)
            self.before[cpu] = which, work
            self.first, self.last = self.first or time, time
            self.events += 1
        for left in self.waiting.values():
            left.queue.unstarted += 1
        return self

    def queued(self, time: int, cpu: int, work: int, name: str) -> None:
        if work in self.waiting:
            self.waiting[work].queue.unstarted += 1
        self.waiting[work] = Waiting(self.queues.setdefault(name, Queue()), time, cpu)

    def activated(self, time: int, cpu: int, pid: int, work: int) -> None:
        """Under the lock of its pool, an item becomes active right after it was queued, or else it is held back."""
        if work in self.waiting:
            self.waiting[work].held = self.before.get(cpu) != (QUEUE, work)

    def started(self, time: int, cpu: int, pid: int, work: int) -> None:
        item = self.waiting.pop(work, None)
        self.running[work, pid] = time, item.queue if item else None
        if not item:
            self.unqueued += 1
            return
        item.queue.waits.append(time - item.since)
        item.queue.elsewhere += cpu != item.cpu
        item.queue.held += item.held

    def ended(self, time: int, cpu: int, pid: int, work: int) -> None:
        begin, queue = self.running.pop((work, pid), (0, None))
        if queue:
            queue.runs.append(time - begin)

    def result(self) -> dict:
        queues = {name: {key: round(value, 3) for key, value in queue.figures().items()}
                  for name, queue in self.queues.items()}
        return {'queues': queues, 'events': self.events, 'unqueued': self.unqueued,
                'seconds': round((self.last - self.first) / 1e9, 3)}

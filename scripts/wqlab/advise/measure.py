# SPDX-License-Identifier: GPL-2.0
"""What is measured: rounds of short runs of some loads. Each load is a mode of lib/cmwq/wqbench_*.c.

Their needs are opposed: latency and batch gain from pods of few CPUs, burst and spread from pods of many CPUs.

In each round, each setting runs each load once. The settings of a load follow each other at once, so they see the
same state of the machine. Two rounds make a turn: the second has the reverse order of the first, which cancels a
drift. From turn to turn, another setting begins.
"""
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from wqlab.advise import pods
from wqlab.advise.machine import Run, Subject
from wqlab.bench import seat
from wqlab.steps import Failure

BURN_US, BATCH = 100, 32
FIRST_ITEMS, TRIES = 64, 6
MOST_ITEMS = 2_000_000      # of a thread in a run
NS = 1_000_000


class Figure(NamedTuple):
    metric: str         # a key of the module's output
    name: str           # in the table
    gain: str           # in a sentence: "... times" this
    more: bool = False  # more is better


class Load(NamedTuple):
    what: str
    figures: tuple[Figure, ...]


RATE = Figure('items_per_s', 'items/s', 'the items/s', more=True)
WAIT = Figure('start_p99_ns', 'wait p99', 'shorter waits (p99)')
MAKESPAN = Figure('makespan_p50_ns', 'makespan', 'as fast')
LOADS = {
    'latency': Load('each CPU has one short item in flight', (RATE, WAIT)),
    'batch': Load(f'each CPU has {BATCH} short items in flight', (RATE,)),
    'burst': Load(f'one CPU queues {BATCH} short items at once', (MAKESPAN,)),
    'spread': Load(f'one CPU queues items of {BURN_US} us for all CPUs', (MAKESPAN,)),
    'mixed': Load(f'each CPU queues items of {BURN_US} us, half of which sleep', (RATE, WAIT)),
}
# What the record has of a run.
KEPT = ('threads', 'items', 'elapsed_ns', *(figure.metric for figure in (RATE, WAIT, MAKESPAN)))


def batch(load: str, cpus: int) -> int:
    return max(BATCH, 4 * cpus) if load == 'spread' else BATCH


def order(load: str, scope: str, items: int, cpus: int) -> str:
    """Return the line that makes a run."""
    return seat.order({'threads': 0, 'items': items, 'mode': load, 'batch': batch(load, cpus), 'strict': False,
                       'wq': 'unbound', 'burn_us': BURN_US, 'max_active': None}, scope)


def whole_rounds(load: str, items: float, cpus: int) -> int:
    """Return a number of items that makes whole rounds: only these are timed in burst and spread."""
    size = 1 if load == 'latency' else batch(load, cpus)
    return max(1, round(items / size)) * size


def calibrated(subject: Subject, load: str, slice_ms: float) -> int:
    """Return the number of items with which a run in the default scope lasts about as long as a slice."""
    items = whole_rounds(load, FIRST_ITEMS, subject.cpus)
    for _ in range(TRIES):
        elapsed = subject.run(order(load, pods.DEFAULT, items, subject.cpus))['elapsed_ns']
        wanted = min(items * min(slice_ms * NS / max(elapsed, 1), 10), MOST_ITEMS)
        before, items = items, whole_rounds(load, wanted, subject.cpus)
        if items <= 2 * before:
            break
    return items


def turned(names: list[str], number: int) -> list[str]:
    """Return the order of the settings in a round: A B C, C B A, B C A, A C B, ..."""
    first = number // 2 % len(names)
    names = names[first:] + names[:first]
    return names[::-1] if number % 2 else names


class Measuring:
    """Makes rounds, and adds them to the record."""

    def __init__(self, subject: Subject, record: dict[str, Any], say: Callable[[str], None]):
        self.subject, self.record, self.say = subject, record, say
        self.settings = [pods.DEFAULT, pods.AGAIN, *record['settings']]
        self.budget = 60 * record['parameters']['minutes']
        self.clock = seat.Clock(lambda seconds, _: say(
            f"{len(record['turns'])} turns, {seconds:.0f} of {self.budget:.0f} s"))
        self.size = record['present']['shard_size']     # of the shards now

    def run(self, setting: str, load: str) -> Run:
        """Run a load once. A size of shards holds for this run only."""
        self.clock()
        present, (scope, size) = self.record['present'], pods.parts(setting)
        line = order(load, scope, self.record['items'][load], self.subject.cpus)
        size = size or present['shard_size']
        if size != self.size:
            self.size, line = size, f'{self.subject.size_file}={size} {line}'
        found = self.subject.run(line)
        if scope == pods.DEFAULT and found['actual'] != present['scope']:
            raise Failure(f"the default scope has changed from {present['scope']} to {found['actual']} during this "
                          'run: start a new one')
        return found

    def round(self, number: int) -> dict[str, Any] | None:
        """Make a round. Return None if CPUs came or went meanwhile."""
        found: dict[str, Any] = {}
        for load in self.record['items']:
            runs = {name: self.run(name, load) for name in turned(self.settings, number)}
            if any(run['hotplug'] for run in runs.values()):
                return None
            found[load] = {name: {key: run[key] for key in KEPT if key in run} for name, run in runs.items()}
        return found

    def turn(self, number: int) -> None:
        rounds = [self.round(2 * number), self.round(2 * number + 1)]
        if None in rounds:
            self.say('CPUs came or went: the last turn does not count')
        else:
            self.record['turns'].append(rounds)

    def go(self) -> None:
        """Make turns until the time is over."""
        end, number, longest = time.monotonic() + self.budget, 0, 0.0
        while (begun := time.monotonic()) + longest / 2 < end:
            self.turn(number)
            number += 1
            longest = max(longest, time.monotonic() - begun)

# SPDX-License-Identifier: GPL-2.0
"""Rounds of short runs: in each round, each setting runs each load once.

The settings of a load follow each other at once, so they see the same state of the machine. Two
rounds make a turn: the second has the reverse order of the first, which cancels a drift. From turn
to turn, another setting begins.
"""
import time
from collections.abc import Callable
from typing import Any

from wqlab.advise import loads, pods
from wqlab.advise.loads import LOADS
from wqlab.advise.machine import Run, Subject
from wqlab.steps import Failure

PROGRESS_S = 10
LATE, SPARE_S = 1.2, 1      # a turn is not finished if it takes this much more than the whole time
NS = 1_000_000
Say = Callable[[str], None]


def one_run(subject: Subject, setting: pods.Setting, load: str, items: int, present_size: int | None) -> Run:
    """Run a load once. A size of shards holds for this run only."""
    order = LOADS[load].order(setting.scope, items, subject.cpus)
    if setting.shard_size is None:
        return subject.run(order)
    assert present_size
    subject.set_shard_size(setting.shard_size)
    try:
        return subject.run(order)
    finally:
        subject.set_shard_size(present_size)


def calibrated(subject: Subject, load: str, slice_ms: float) -> int:
    """Return the number of items with which a run in the default scope lasts about as long as a slice."""
    one = LOADS[load]
    items = one.first_items(subject.cpus)
    for _ in range(loads.TRIES):
        elapsed = one_run(subject, pods.DEFAULT, load, items, None)['elapsed_ns']
        wanted = loads.whole_rounds(one, loads.more_items(items, elapsed, slice_ms * NS), subject.cpus)
        if wanted <= 2 * items:
            return wanted
        items = wanted
    return items


def order_of(names: list[str], number: int) -> list[str]:
    """Return the order of the settings in a round: A B C, C B A, B C A, A C B, ..."""
    first = number // 2 % len(names)
    turned = names[first:] + names[:first]
    return turned[::-1] if number % 2 else turned


def kept(run: Run) -> Run:
    return {key: run[key] for key in loads.KEPT if key in run}


class TooLate(Exception):
    """A turn takes so long that the time is over before it ends."""


class Measuring:
    """Makes rounds, and adds them to the record."""

    def __init__(self, subject: Subject, record: dict[str, Any], say: Say):
        self.subject, self.record, self.say = subject, record, say
        self.settings = {pods.DEFAULT.name: pods.DEFAULT, pods.AGAIN: pods.DEFAULT,
                         **{pods.Setting(**one).name: pods.Setting(**one) for one in record['settings']}}
        self.budget = 60 * record['parameters']['minutes']
        self.latest = LATE * self.budget + SPARE_S
        self.told = self.begun = time.monotonic()

    def run(self, name: str, load: str) -> Run:
        self.tell()
        if self.spent() > self.latest:
            raise TooLate
        setting, present = self.settings[name], self.record['present']
        found = one_run(self.subject, setting, load, self.record['items'][load], present['shard_size'])
        if setting == pods.DEFAULT and found['actual'] != present['scope']:
            raise Failure(f"the default scope has changed from {present['scope']} to {found['actual']} during this "
                          'run: start a new run')
        return found

    def round(self, number: int) -> dict[str, Any] | None:
        """Make a round. Return None if CPUs came or went meanwhile."""
        found: dict[str, Any] = {}
        for load in self.record['items']:
            runs = {name: self.run(name, load) for name in order_of(list(self.settings), number)}
            if any(run['hotplug'] for run in runs.values()):
                return None
            found[load] = {name: kept(runs[name]) for name in self.settings}
        return found

    def spent(self) -> float:
        return time.monotonic() - self.begun

    def tell(self) -> None:
        if time.monotonic() - self.told >= PROGRESS_S:
            self.told = time.monotonic()
            self.say(f"{len(self.record['turns'])} turns, {self.spent():.0f} of {self.budget:.0f} s")

    def turn(self, number: int) -> None:
        rounds = [self.round(2 * number + half) for half in (0, 1)]
        if None in rounds:
            self.say('CPUs came or went: the last turn does not count')
            return
        self.record['turns'].append({'rounds': rounds})

    def go(self) -> None:
        """Make turns until the time is over."""
        number, longest = 0, 0.0
        while (begun := self.spent()) + longest / 2 < self.budget:
            try:
                self.turn(number)
            except TooLate:
                self.say('the last turn took too long, and does not count')
                return
            number += 1
            longest = max(longest, self.spent() - begun)

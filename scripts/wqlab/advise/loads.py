# SPDX-License-Identifier: GPL-2.0
"""The loads under which settings are compared, and which figures of them count.

Each is a mode of lib/cmwq/wqbench_*.c. Their needs are opposed: latency and batch gain from pods of few
CPUs, burst and spread from pods of many CPUs.
"""
import dataclasses
from typing import Any

from wqlab.bench import seat

BURN_US = 100
BATCH = 32
SLICE_ITEMS = 64        # of a thread in the first try
MOST_ITEMS = 2_000_000  # of a thread in a run
TRIES = 6


@dataclasses.dataclass(frozen=True)
class Figure:
    metric: str         # a key of the module's output
    more: bool          # more is better
    name: str           # in tables and plots
    gain: str           # in a sentence: "... times" this


@dataclasses.dataclass(frozen=True)
class Load:
    name: str
    what: str
    figures: tuple[Figure, ...]
    burns: bool = False
    cpus: int = 1               # it needs at least so many

    @property
    def mode(self) -> str:
        return self.name

    def batch(self, cpus: int) -> int:
        return max(BATCH, 4 * cpus) if self.name == 'spread' else BATCH

    def first_items(self, cpus: int) -> int:
        return self.batch(cpus) if self.burns else SLICE_ITEMS

    def order(self, scope: str, items: int, cpus: int) -> dict[str, str]:
        """Return the module's parameters for a run."""
        params: dict[str, Any] = {'threads': 0, 'items': items, 'mode': self.mode, 'batch': self.batch(cpus),
                                  'strict': False, 'wq': 'unbound', 'burn_us': BURN_US, 'max_active': None}
        return dict(word.split('=', 1) for word in seat.order(params, scope).split())


LOADS = {load.name: load for load in (
    Load('latency', 'each CPU has one short item in flight', (
        Figure('items_per_s', True, 'items/s', 'the items/s'),
        Figure('start_p99_ns', False, 'wait p99', 'shorter waits (p99)'))),
    Load('batch', f'each CPU has {BATCH} short items in flight', (
        Figure('items_per_s', True, 'items/s', 'the items/s'),)),
    Load('burst', f'one CPU queues {BATCH} short items at once', (
        Figure('makespan_p50_ns', False, 'makespan', 'as fast'),), cpus=2),
    Load('spread', f'one CPU queues items of {BURN_US} us for all CPUs', (
        Figure('makespan_p50_ns', False, 'makespan', 'as fast'),), burns=True, cpus=2),
    Load('mixed', f'each CPU queues items of {BURN_US} us, half of which sleep', (
        Figure('items_per_s', True, 'items/s', 'the items/s'),
        Figure('start_p99_ns', False, 'wait p99', 'shorter waits (p99)')), burns=True),
)}
# What the record keeps of a run.
KEPT = ('actual', 'threads', 'items', 'elapsed_ns', 'items_per_s', 'kworkers', 'start_p50_ns', 'start_p99_ns',
        'done_p50_ns', 'makespan_p50_ns', 'cpus_mean')


def key(load: Load, figure: Figure) -> str:
    return f'{load.name} {figure.name}'


def figures_of(names: list[str]) -> list[tuple[Load, Figure]]:
    return [(LOADS[name], figure) for name in names for figure in LOADS[name].figures]


def more_items(items: int, elapsed_ns: int, slice_ns: float) -> int:
    """Return how many items make a run last one slice, if @items took @elapsed_ns. At most 10 times @items."""
    return min(max(1, round(items * min(slice_ns / max(elapsed_ns, 1), 10))), MOST_ITEMS)


def whole_rounds(load: Load, items: int, cpus: int) -> int:
    """Return a number of items that makes whole rounds: only these are timed in burst and spread."""
    batch = 1 if load.name == 'latency' else load.batch(cpus)
    return max(1, round(items / batch)) * batch

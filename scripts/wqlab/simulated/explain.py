# SPDX-License-Identifier: GPL-2.0
"""Where the time of simulated CPUs went, by struct, field and function, for each item.

explain() makes a dict of a stretch of the report and the memory that the guest had at its end. All else works on such
dicts: lines() and differences() are tables, flames.py draws a picture.
"""
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wqlab import tables
from wqlab.simulated import core
from wqlab.simulated.stalls import Stall, Stretch

if TYPE_CHECKING:
    from wqlab.simulated import objects

# Rows of a smaller share of all waiting are summed up: of fields, and of pairs of functions.
LEAST_FIELD, LEAST_PAIR = 0.0005, 0.002
OTHERS = 'other fields'
OTHER_PAIRS = 'others'
ROWS, CHANGES, PAIRS, SMALL = 12, 6, 3, 0.02        # printed; pairs of a smaller share of all waiting are not
KERNEL = 1 << 63
COUNTERS = ('wakes', 'ipis', 'instructions')
Explained = dict[str, Any]
Kernels = Sequence[tuple[str, Explained]]        # the name of each, and what explain() returned


class Memory(Protocol):
    """What objects.Memory can do, and the memory of tests."""

    def at(self, address: int) -> 'objects.Place':
        """Return what lies at an address of the kernel."""

    def function(self, address: int) -> 'objects.Function':
        """Return the function of an instruction."""


# Explain

def field_of(stall: Stall, memory: Memory) -> tuple[str, bool]:
    """Return the field that a CPU waited for, and whether it is the workqueue's."""
    if stall.address < KERNEL:          # physical
        return 'user memory', False
    place = memory.at(stall.address)
    return place.name, place.workqueue


def grouped(stalls: Iterable[Stall], key: Callable[[Stall], Any]) -> dict[Any, list[Stall]]:
    found = defaultdict(list)
    for stall in stalls:
        found[key(stall)].append(stall)
    return found


def figures(stalls: list[Stall], items: int) -> dict[str, float]:
    return {'ns': sum(stall.ps for stall in stalls) / items / 1000,
            'moves': sum(stall.moves for stall in stalls) / items}


def pair_row(stalls: list[Stall], memory: Memory, items: int) -> dict[str, Any]:
    """Return a row for two functions. Its places are those of the longest stall."""
    longest = max(stalls, key=lambda stall: stall.ps)
    waiter, writer = memory.function(longest.waiter), memory.function(longest.writer)
    return {'waiter': waiter.name, 'writer': writer.name, 'at': [waiter.place, writer.place], **figures(stalls, items)}


def field_row(field: tuple[str, bool], stalls: list[Stall], memory: Memory, items: int, least: float) -> dict[str, Any]:
    pairs = grouped(stalls, lambda stall: (memory.function(stall.waiter).name, memory.function(stall.writer).name))
    rows = [pair_row(some, memory, items) for some in pairs.values()]
    return {'field': field[0], 'workqueue': field[1], 'lines': len({stall.line for stall in stalls}),
            **figures(stalls, items),
            'pairs': shortened(rows, least, {'waiter': OTHER_PAIRS, 'writer': OTHER_PAIRS, 'at': ['', '']})}


def explain(stretch: Stretch, memory: Memory, items: int) -> Explained:
    """Return where the time went. All figures are for one of @items, which ran in the stretch. It fits into JSON."""
    fields = grouped(stretch.stalls, lambda stall: field_of(stall, memory))
    ns = stretch.ps / items / 1000
    rows = [field_row(field, stalls, memory, items, ns * LEAST_PAIR) for field, stalls in fields.items()]
    return {'items': items, 'us': stretch.us, 'cpus': stretch.counters['cpus'], **shares(stretch), 'ns': ns,
            **{key: stretch.counters[key] / items for key in COUNTERS},
            'rows': shortened(rows, ns * LEAST_FIELD, {'field': OTHERS, 'workqueue': False, 'pairs': []})}


def shortened(rows: list[dict[str, Any]], least: float, others: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with the longest waits, and a sum of the others."""
    rest = [row for row in rows if row['ns'] < least]
    kept = sorted((row for row in rows if row['ns'] >= least), key=lambda row: -row['ns'])
    if not rest:
        return kept
    sums = {key: sum(row[key] for row in rest) for key in ('ns', 'moves', 'lines') if key in rest[0]}
    return [*kept, {**others, **sums}]


def shares(stretch: Stretch) -> dict[str, float]:
    """Return which parts of the time of all CPUs were spent waiting for lines, halted, and executing instructions."""
    whole = stretch.counters['cpus'] * stretch.counters['time'] or 1
    waiting, idle = stretch.ps / whole, stretch.counters['idle'] / whole
    return {'waiting': waiting, 'idle': idle, 'executing': max(0, 1 - waiting - idle)}


def explain_copy(stretch: Stretch, copy: Path, kernel: Path, items: int) -> Explained:
    """Explain a stretch by the copy of the memory that the plugin has made. @kernel: its build folder."""
    from wqlab.simulated import objects  # imported here because it needs drgn
    core.complete(copy)
    return explain(stretch, objects.Memory(copy, kernel), items)


# Tables

def summary(kernels: Kernels) -> list[str]:
    """Return a table of what CPUs did, for one or more kernels."""
    head = ['', 'us', 'CPUs\nexecuted', '\nwaited', 'were\nhalted', 'waiting,\nns/item', 'wake-ups\nper item',
            'IPIs\nper item', 'instructions\nper item']
    body = [[name, f"{found['us']:,.0f}", *(f'{found[key]:.0%}' for key in ('executing', 'waiting', 'idle')),
             f"{found['ns']:,.0f}", f"{found['wakes']:.2f}", f"{found['ipis']:.2f}", f"{found['instructions']:,.0f}"]
            for name, found in kernels]
    return tables.lines(head, body, range(1, len(head)))


def pair_of(pair: dict[str, Any]) -> str:
    """Return who waited after whom."""
    waiter, writer = (f'{name} ({place})' if place else name for name, place in
                      zip((pair['waiter'], pair['writer']), pair['at'], strict=True))
    return f'{waiter} after {writer}'


def lines(found: Explained) -> list[str]:
    """Return a table: the fields that CPUs waited for longest, and for each who waited for whose write."""
    whole, body = found['ns'] or 1, []
    for row in [row for row in found['rows'] if row['field'] != OTHERS][:ROWS]:
        name = row['field'] if row['workqueue'] else f"({row['field']})"
        body.append([f"{row['ns'] / whole:.1%}", f"{row['ns']:,.1f}", f"{row['moves']:.2f}", f"{row['lines']}", name])
        body += [[f"{pair['ns'] / whole:.1%}", f"{pair['ns']:,.1f}", f"{pair['moves']:.2f}", '', f'  {pair_of(pair)}']
                 for pair in row['pairs'][:PAIRS] if pair['ns'] >= SMALL * whole and pair['waiter'] != OTHER_PAIRS]
    return tables.lines(['waiting', 'ns/item', 'moves/item', 'lines', 'field'], body, range(4))


LEGEND = ('(...): not an object of the workqueue; functions for locks count as their callers',
          'time is that of the whole pass, with its warm-up, and the making of its threads and workqueue')


def differences(base: Explained, ours: Explained, names: tuple[str, str] = ('base', 'ours')) -> list[str]:
    """Return a table of the fields whose waiting for each item differs most."""
    by_field = [{row['field']: row for row in found['rows']} for found in (base, ours)]
    rows = []
    for field in dict.fromkeys([*by_field[0], *by_field[1]]):
        ns, moves = ([one[field][key] if field in one else 0 for one in by_field] for key in ('ns', 'moves'))
        rows.append((ns[1] - ns[0], ns, moves, field))
    rows.sort(key=lambda row: -abs(row[0]))
    body = [[f'{change:+,.1f}', *(f'{value:,.1f}' for value in ns), *(f'{value:.2f}' for value in moves), field]
            for change, ns, moves, field in rows[:CHANGES]]
    total = [found['ns'] for found in (base, ours)]
    body.append([f'{total[1] - total[0]:+,.1f}', *(f'{value:,.1f}' for value in total), '', '', 'all'])
    return tables.lines(['change of ns/item', *names, f'moves, {names[0]}', names[1], 'field'], body, range(5))

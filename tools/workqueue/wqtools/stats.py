# SPDX-License-Identifier: GPL-2.0
"""Counters of workqueues: differences between two reads, rows and columns. Free of drgn.

The kernel counts in each pool_workqueue. When the attributes of a workqueue change, its
old pool_workqueues are freed with their counts, and new ones may use the same memory.
Totals can therefore drop. Rates are computed from the differences of each one by itself.
"""
import dataclasses
from typing import Callable, Optional

WRAP = 1 << 64
PERCENTS = (50, 99)
COUNTERS = ('started', 'completed', 'cpu_time', 'cpu_intensive', 'cm_wakeup', 'repatriated', 'mayday', 'rescued')


@dataclasses.dataclass
class Reading:
    """One workqueue at one time."""
    name: str
    address: Optional[int]      # None: not known
    type: str                   # as in model.Workqueue
    mem_reclaim: bool
    pwqs: dict                  # address -> {counter: number}, without counters that the kernel lacks
    nth: int = 0                # of those with this name, if the address is not known
    wait: Optional[dict] = None  # least us of a bucket -> items that waited so long; None: not measured

    @property
    def key(self):
        # a name may be used twice, and an address may be reused
        return self.address, self.name, self.nth

    def total(self, counter):
        """None if this kind of workqueue does not have the count."""
        if not applies(self, counter):
            return None
        found = [counts[counter] for counts in self.pwqs.values() if counter in counts]
        return sum(found) % WRAP if found else None

    def count(self, counter):
        """What the kernel counted, also where such a workqueue does not have the count."""
        return sum(counts.get(counter, 0) for counts in self.pwqs.values())

    @property
    def in_flight(self):
        """Started but not completed items. If a read comes between the two counts, the result is not below 0."""
        return sum(max(_signed(counts.get('started', 0) - counts.get('completed', 0)), 0)
                   for counts in self.pwqs.values())


def applies(reading, counter):
    if counter in ('cpu_intensive', 'cm_wakeup'):
        return reading.type == 'percpu'
    if counter == 'repatriated':
        return reading.type in ('unbound', 'ordered')
    if counter in ('mayday', 'rescued'):
        return reading.mem_reclaim
    return True


def _signed(number):
    number %= WRAP
    return number - WRAP if number >= WRAP // 2 else number


def difference(old, new):
    """How much a counter rose, across a wrap, or from 0 if it was reset."""
    if new >= old:
        return new - old
    wrapped = (new - old) % WRAP
    return wrapped if wrapped < WRAP // 2 else new


def growth(old, new, counter):
    """
    How much a workqueue's counter rose between two Readings.

    A new pwq has counted only since the older Reading.  The last counts of a pwq that is
    gone are unknown.
    """
    if new.total(counter) is None:
        return None
    return sum(difference(old.pwqs.get(pwq, {}).get(counter, 0), counts.get(counter, 0))
               for pwq, counts in new.pwqs.items())


def lost_counts(old, new):
    """Whether a pwq is gone with its counts, or a new one counts at the same place."""
    return any(pwq not in new.pwqs or any(_signed(new.pwqs[pwq].get(counter, 0) - count) < 0
                                          for counter, count in counts.items())
               for pwq, counts in old.pwqs.items())


@dataclasses.dataclass
class Row:
    """What is shown of a workqueue. Rates are None in its first sample."""
    name: str
    address: int
    type: str
    mem_reclaim: bool
    in_flight: int
    total: dict                 # counter -> number or None
    rate: Optional[dict]        # counter -> per second, or None
    reset: bool                 # some counts were lost since the last sample
    count: dict                 # counter -> number, as the kernel counted it
    wait: dict                  # percent -> us, of the items that began since the last sample; empty if none did

    @property
    def active(self):
        return bool(self.in_flight or self.rate and any(self.rate.values()))


def percentile(hist, percent):
    """The time that so many percent of the items do not exceed, in us: the end of the bucket. None without items."""
    due, so_far = sum(hist.values()) * percent / 100, 0
    for least, items in sorted(hist.items()):
        so_far += items
        if items and so_far >= due:
            return 2 * least or 1
    return None


def waited(old, new):
    """Percentiles of the waits between two Readings. After a new start of the measurement, all of the new ones."""
    before, now = (old.wait if old else None) or {}, new.wait or {}
    since = {least: items - before.get(least, 0) for least, items in now.items()}
    if any(items < 0 for items in since.values()) or before.keys() - now.keys():
        since = now
    return {percent: us for percent in PERCENTS if (us := percentile(since, percent)) is not None}


def row(old, new, seconds):
    """The Row of a Reading and of the one before it, if any."""
    rate, reset = None, False
    if old is not None and seconds > 0:
        grown = {counter: growth(old, new, counter) for counter in COUNTERS}
        rate = {counter: None if much is None else much / seconds for counter, much in grown.items()}
        reset = lost_counts(old, new)
    return Row(new.name, new.address, new.type, new.mem_reclaim, new.in_flight,
               {counter: new.total(counter) for counter in COUNTERS}, rate, reset,
               {counter: new.count(counter) for counter in COUNTERS}, waited(old, new))


def rows(old, new, seconds):
    """Rows for the Readings @new, in their order. @old has the Readings before, or is None."""
    before = {reading.key: reading for reading in old or ()}
    return [row(before.get(reading.key), reading, seconds) for reading in new]


# Columns

@dataclasses.dataclass
class Column:
    key: str                    # for --sort
    heading: str
    value: Callable             # Row -> number, or None: not for this workqueue
    show: Callable              # number -> text
    kind: str                   # "total", "rate", "wait" or "always"


def _count(number):
    """At most 7 characters."""
    if number < 1e6:
        return f'{number:.0f}'
    for unit in 'MGTPE':
        number /= 1000 if unit != 'M' else 1e6
        if number < 9999.5:
            return f'{number:.4g}{unit}'
    return 'many'


def _rate(number):
    return f'{number:.1f}' if 0 < number < 99.95 else _count(number)


def _totals(counter):
    return lambda row: row.total[counter]


def _rates(counter):
    return lambda row: row.rate and row.rate[counter]


def _waits(percent):
    return lambda row: row.wait.get(percent)


def _either(one, other):
    """Per-CPU workqueues have one count, unbound ones have the other. They share a column."""
    def value(row):
        first = one(row)
        return other(row) if first is None else first
    return value


def _scaled(value, by):
    def scaled(row):
        number = value(row)
        return None if number is None else number * by
    return scaled


def _columns():
    yield Column('in_flight', 'infl', lambda row: row.in_flight, _count, 'always')
    pairs = (
        ('started', 'start', _totals('started'), _rates('started')),
        ('completed', 'done', _totals('completed'), _rates('completed')),
        ('cpu_time', 'CPU', _scaled(_totals('cpu_time'), 1e-6), _scaled(_rates('cpu_time'), 1e-4)),
        ('cpu_intensive', 'hog', _totals('cpu_intensive'), _rates('cpu_intensive')),
        ('wakeups', 'wake', _either(_totals('cm_wakeup'), _totals('repatriated')),
         _either(_rates('cm_wakeup'), _rates('repatriated'))),
        ('maydays', 'mayd', _totals('mayday'), _rates('mayday')),
        ('rescued', 'resc', _totals('rescued'), _rates('rescued')),
    )
    for key, heading, total, rate in pairs:
        if key == 'cpu_time':
            yield Column(key, 'CPU s', total, lambda number: f'{number:.1f}', 'total')
            yield Column(f'{key}_rate', 'CPU %', rate, lambda number: f'{number:.1f}', 'rate')
            continue
        yield Column(key, heading, total, _count, 'total')
        yield Column(f'{key}_rate', f'{heading}/s', rate, _rate, 'rate')
    for percent in PERCENTS:
        yield Column(f'wait_p{percent}', f'p{percent} us', _waits(percent), _count, 'wait')


COLUMNS = tuple(_columns())
SORT_KEYS = ('name', 'type', *(column.key for column in COLUMNS))
WIDTH = 8                   # of a column, with the space before it
NAME_WIDTH = 24
TYPE_WIDTH = 8
# the order in which columns are kept if not all fit
KEEP = ('started_rate', 'in_flight', 'wait_p99', 'cpu_time_rate', 'started', 'wait_p50', 'wakeups_rate', 'completed',
        'cpu_time', 'wakeups', 'completed_rate', 'cpu_intensive', 'maydays', 'rescued', 'cpu_intensive_rate',
        'maydays_rate', 'rescued_rate')


def choose(kinds, width=None):
    """The Columns of the given kinds, as many as fit into width if that is given."""
    wanted = [column for column in COLUMNS if column.kind == 'always' or column.kind in kinds]
    if width is None:
        return wanted
    room = max((width - NAME_WIDTH - TYPE_WIDTH) // WIDTH, 1)
    kept = [key for key in KEEP if any(column.key == key for column in wanted)][:room]
    return [column for column in wanted if column.key in kept]


def sort(rows_, key, backwards=False):
    """Sorts names from A, and numbers from the largest. Rows without a number always come last."""
    if key in ('name', 'type'):
        return sorted(rows_, key=lambda row: (getattr(row, key), row.name), reverse=backwards)
    value = next(column.value for column in COLUMNS if column.key == key)
    have = [row for row in rows_ if value(row) is not None]
    return sorted(have, key=value, reverse=not backwards) + [row for row in rows_ if value(row) is None]


def header(columns):
    return f'{"workqueue":{NAME_WIDTH}}{" type":{TYPE_WIDTH}}' + ''.join(f'{one.heading:>{WIDTH}}' for one in columns)


def line(row_, columns):
    def cell(column):
        number = column.value(row_)
        return '-' if number is None else column.show(number)
    name = row_.name if len(row_.name) <= NAME_WIDTH else row_.name[:NAME_WIDTH - 1] + '~'
    mark = '*' if row_.reset else ' '
    text = f'{name:{NAME_WIDTH}}{mark}{row_.type:{TYPE_WIDTH - 1}}'
    return text + ''.join(f' {cell(column):>{WIDTH - 1}}' for column in columns)

# SPDX-License-Identifier: GPL-2.0
"""How many lines move between CPUs, from the report of plugin.c.

A line moves to a CPU that reads it after another CPU wrote it, and to a CPU that writes it after
another CPU touched it. So how often it moves depends on the order in which the CPUs come. That
order says little here: emulated CPUs take turns in slices, and longer ones on a busy host.

What does not depend on it is how often each CPU visits a line, and whether it writes. (A visit
is the time between two marks: an item is queued, the function of an item begins, the CPU switches
to another task.) So the figure is the most that any order of these visits could move. A CPU that
reads misses the line at most once for each visit, and at most once for each visit of others that
write it. A CPU that writes misses it at most once for each such visit, and at most once for each
visit of others. The sum over all CPUs is the number of moves.

- A line that only one CPU touches, or that nobody writes, counts 0.
- A lock that each item takes twice, on any CPU, counts 2, with 2 CPUs as with 64.
- A line that everybody reads and that is written once in 1000 items counts next to nothing.
"""
import dataclasses
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

WORD = 4                # bytes
LINE = 64
Visits = tuple[int, int]        # that only read, that wrote


class ReportError(Exception):
    """The plugin's report cannot be read."""


@dataclasses.dataclass
class Line:
    address: int                            # virtual
    observed: int                           # moves in the order in which the vCPUs came
    rows: list[list[str]] = dataclasses.field(default_factory=list)     # of the report, for each CPU that touched it

    @functools.cached_property
    def cpus(self) -> list[Visits]:
        return [(int(row[0]), int(row[1])) for row in self.rows]

    @functools.cached_property
    def words(self) -> list[tuple[Visits, ...]]:
        """Return the same for each word."""
        return list(zip(*(pairs([int(number) for number in row[2:]]) for row in self.rows), strict=True))

    @functools.cached_property
    def moves(self) -> int:
        return most(self.cpus)

    def moves_of_word(self, number: int) -> int:
        """Return how often the line would move if it held nothing but this word."""
        return most(self.words[number])


def most(visits: Iterable[Visits]) -> int:
    """Return how often a line moves in the worst order of these visits."""
    visits = list(visits)
    all_writes = sum(writes for _, writes in visits)
    all_visits = sum(reads + writes for reads, writes in visits)
    return sum(min(reads, all_writes - writes) + min(writes, all_visits - reads - writes) for reads, writes in visits)


def pairs(numbers: list[int]) -> list[Visits]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def parse(text: Iterable[str]) -> Iterator[Line]:
    """Yield the lines of a report. Raise ReportError if it is not complete."""
    line, ended = None, False
    for row in text:
        kind, *rest = row.split()
        if kind == 'line':
            if line:
                yield line
            line = Line(int(rest[0], 16), int(rest[1]))
        elif kind == 'cpu' and line and len(rest) == 3 + 2 * LINE // WORD:
            line.rows.append(rest[1:])
        elif kind == 'end':
            ended = True
        else:
            raise ReportError(f'the plugin wrote a line that makes no sense: {row.strip()[:80]!r}')
    if not ended:
        raise ReportError('the report of the plugin is not complete: is the disk full?')
    if line:
        yield line


def read(path: Path) -> list[Line]:
    """Return the lines that may have moved."""
    try:
        with open(path, encoding='ascii') as file:
            return [line for line in parse(file) if line.moves]
    except (OSError, ValueError) as error:
        raise ReportError(f'{path}: {error}') from None

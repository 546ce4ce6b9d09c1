# SPDX-License-Identifier: GPL-2.0
"""What a workload is, and which of its cases a run makes."""
import dataclasses
import fnmatch
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

SETS = ('quick', 'default')
# The columns after the rate. A workload leaves out those that it does not measure.
IOPS, CPU = ('iops', 'IOPS'), ('cpu_percent', 'CPU %')
P50, P99, P999 = ('p50_us', 'p50 µs'), ('p99_us', 'p99 µs'), ('p999_us', 'p99.9 µs')
MAX = ('max_us', 'max µs')


class Wrong(Exception):
    """Data was lost or changed. The text says where."""


class Lacking(Exception):
    """This kernel or this machine cannot run the case. The text says why."""


class Place(Protocol):
    """Where the cases of a group run: a disk, a file system."""

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        """Run a case for about this long and verify its data. Return the unit of the rate, and the figures."""

    def check_again(self) -> None:
        """Take the place out of use and into use again. Raise Wrong unless it has the same data as before."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """One workload. Functions that take a number get the number of CPUs."""
    name: str
    what: str
    latency: str                                # what the percentiles are of
    columns: tuple[tuple[str, str], ...]
    sets: dict[str, tuple[str, ...]]            # patterns of the names in each set; a set contains the smaller ones
    names: Callable[[int], list[str]]           # all cases
    # Make the place of a group, of this name, for so many CPUs. SPOIL makes its disk lose or change data, as a test.
    opened: Callable[[str, int, str | None], AbstractContextManager[Place]]
    parts: int = 1                              # of a case's name, which the cases of a group have in common
    notes: Callable[[int], list[str]] = lambda cpus: []         # what this many CPUs cannot show
    only_if_named: bool = False                 # a run without names leaves it out
    quantiles: str = 'p50, p99, p99.9'          # what `latency` explains


def matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def of_set(workload: Workload, names: Sequence[str], chosen: str) -> list[str]:
    smaller = SETS[:SETS.index(chosen) + 1]
    return matching(names, [pattern for one in smaller for pattern in workload.sets[one]])


def chosen_cases(workload: Workload, names: Sequence[str], chosen: str, patterns: Sequence[str]) -> list[str]:
    """Return those of the names that a run makes: those that match the patterns, or else those of the set."""
    return matching(names, patterns) if patterns else of_set(workload, names, chosen)


def by_prefix(names: Sequence[str], parts: int) -> Iterator[tuple[str, list[str]]]:
    """Yield (common first parts, names) of names such as a/b/c, in the order of their first appearance."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault('/'.join(name.split('/')[:parts]), []).append(name)
    yield from groups.items()

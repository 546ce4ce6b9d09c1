# SPDX-License-Identifier: GPL-2.0
"""
Where the time of CPUs went: who waited for which line, and whose write it was.

The plugin writes a report for each stretch of simulation: counters, then a row for each address, instruction that
waited, and instruction that had written the line before.

usage: scripts/lab stalls --kernel build/arm64-cmwq-release-7.3 REPORT
"""
import argparse
import bisect
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from wqlab import files
from wqlab.steps import Failure

LINE = 64           # bytes
COUNTERS = ('cpus', 'idle', 'time', 'instructions', 'wakes', 'ipis', 'untracked', 'lost')


@dataclasses.dataclass(frozen=True)
class Stall:
    address: int
    waiter: int         # instruction
    writer: int         # instruction; 0 if the line was only read
    moves: int          # of the line
    ps: int

    @property
    def line(self) -> int:
        return self.address & -LINE


@dataclasses.dataclass
class Stretch:
    """What happened between two calls of the function that begins and ends the simulation."""
    counters: dict[str, int] = dataclasses.field(default_factory=dict)
    stalls: list[Stall] = dataclasses.field(default_factory=list)

    @property
    def us(self) -> float:
        """Return the simulated time."""
        return self.counters['time'] / 1e6

    @property
    def ps(self) -> int:
        """Return how long CPUs waited for lines, all together."""
        return sum(stall.ps for stall in self.stalls)

    def by(self, key: Callable[[Stall], Any]) -> list[tuple[Any, int, int]]:
        """Return (key, moves, ps), the longest stalls first."""
        moves, time = Counter(), Counter()
        for stall in self.stalls:
            moves[key(stall)] += stall.moves
            time[key(stall)] += stall.ps
        return [(one, moves[one], ps) for one, ps in sorted(time.items(), key=lambda pair: (-pair[1], str(pair[0])))]


def parse(text: Iterable[str]) -> Iterator[Stretch]:
    """Yield the stretches of a report. Raise Failure if the last one is not complete."""
    stretch = None
    for row in text:
        kind, *rest = row.split()
        stretch = stretch or Stretch()
        if kind == 'end':
            if set(stretch.counters) != set(COUNTERS):
                raise Failure('a stretch of the report lacks counters')
            yield stretch
            stretch = None
        elif kind == 'stall' and len(rest) == 5:
            address, waiter, writer = (int(word, 16) for word in rest[:3])
            stretch.stalls.append(Stall(address, waiter, writer, int(rest[3]), int(rest[4])))
        elif kind in COUNTERS and len(rest) == 1:
            stretch.counters[kind] = int(rest[0])
        else:
            raise Failure(f'the plugin wrote a line that makes no sense: {row.strip()[:80]!r}')
    if stretch:
        raise Failure('the report of the plugin is not complete: is the disk full?')


def read(path: Path) -> Iterator[Stretch]:
    """Yield the stretches of a report, which may still be written."""
    try:
        with open(path, encoding='ascii') as file:
            yield from parse(file)
    except (OSError, ValueError, Failure) as error:
        raise Failure(f'{path}: {error}') from None


def read_one(path: Path, number: int) -> Stretch:
    for stretch in itertools.islice(read(path), number, None):
        return stretch
    raise Failure(f'{path}: it has no stretch {number}')


class Symbols:
    """The functions and variables of a kernel, from its System.map."""

    def __init__(self, rows: Iterable[str]):
        # Numbers (A), which are no addresses, are in System.map, too.
        found = sorted((int(words[0], 16), words[2]) for words in map(str.split, rows) if words[1] != 'A')
        self.addresses = [address for address, _ in found]
        self.names = [name for _, name in found]

    def at(self, address: int) -> str:
        """Return the symbol, or the address if it is not in the kernel's image: of a module, or memory that it got."""
        place = bisect.bisect_right(self.addresses, address) - 1
        return self.names[place] if 0 <= place < len(self.names) - 1 else f'{address:x}'


def table(stretch: Stretch, symbols: Symbols, rows: int = 12, pairs: int = 4) -> list[str]:
    """Return the lines that CPUs waited for longest, and for each who waited for whose write."""
    whole = stretch.ps or 1
    text = [f'{stretch.us:.1f} us simulated, {stretch.ps / 1e6:.1f} us of CPUs waiting for lines, '
            f'{stretch.counters["wakes"]} wake-ups']
    for line, moves, ps in stretch.by(lambda stall: stall.line)[:rows]:
        name = symbols.at(line)
        text.append(f'{ps / whole:6.1%} {moves:9,} moves  {line:x}' + (f' {name}' if name != f'{line:x}' else ''))
        own = Stretch(stretch.counters, [stall for stall in stretch.stalls if stall.line == line])
        text += [f'{part / whole:12.1%} {count:9,}  {pair}' for pair, count, part in own.by(
            lambda stall: f'{symbols.at(stall.waiter)} after {symbols.at(stall.writer)}')[:pairs]]
    return text


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kernel', required=True, type=Path, help='build folder of the kernel that ran')
    parser.add_argument('--rows', type=int, default=12, help='lines to print of each stretch; default: %(default)s')
    parser.add_argument('report', type=Path, help='what `lab guest --report` wrote')
    args = parser.parse_args(argv)
    if args.rows < 1:
        parser.error('--rows must be at least 1')
    symbols = Symbols(files.read(args.kernel / 'System.map').splitlines())
    for stretch in read(args.report):
        print('\n'.join(table(stretch, symbols, args.rows)))
    return 0

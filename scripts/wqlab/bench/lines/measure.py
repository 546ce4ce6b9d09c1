# SPDX-License-Identifier: GPL-2.0
"""Boot a guest with the plugin, run each scope, and find out whose the lines are."""
import contextlib
import dataclasses
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wqlab.bench import seat
from wqlab.bench.boot import BootError, Build
from wqlab.bench.lines import count, plugin
from wqlab.guest import dump, plugins, qmp, running
from wqlab.guest.run import own_folder
from wqlab.simulated import objects

# Items of each submitter that are not counted: while it becomes warm, and while the memory is fetched.
WARMUP, TAIL = 300, 200
POLL_S = 0.05
OTHERS_KEPT = 40        # rows of memory that is not the workqueue's
RARE = 0.001            # moves per item: such lines are counted, but their fields are not looked up
ITEM = 'bench_item_fn'
FIND_ITEM = f'grep -a " {ITEM}" /proc/kallsyms'


class Watched:
    """A guest with the plugin."""

    def __init__(self, build: Build, params: dict[str, Any], folder: Path):
        assert build.module is not None
        self.build, self.params, self.folder = build, params, folder
        self.socket = running.socket_path()
        self.report = folder / 'report'
        self.control = plugin.Control(folder / 'control')
        self.guest: seat.Seat
        self.item = 0           # the address of its function

    def options(self) -> list[str]:
        """Return the options with which the guest is booted."""
        marks = plugin.marks(self.build.folder / 'System.map')
        words = plugins.argument(plugin.build(), control=self.folder / 'control', out=self.report, **marks)
        return ['--qmp', self.socket, '--plugin', words]

    def begin(self, guest: seat.Seat, clock: seat.Clock) -> None:
        self.guest = guest
        self.guest.begin(self.params['scopes'], clock)
        found = [line.split() for line in self.guest.said if line.split()[2:3] == [ITEM]]
        if not found:
            raise self.guest.error(f'the module has no function {ITEM}')
        self.item = int(found[0][0], 16)

    def run(self, scope: str, repeat: int, clock: seat.Clock) -> None:
        """Run a scope once. Add what was counted to the results of the guest."""
        items = self.params['items']
        submitters = self.params['threads'] or self.params['cpus']
        self.control.arm(submitters, WARMUP, items, self.item)
        self.guest.give(seat.order({**self.params, 'items': WARMUP + items + TAIL}, scope))
        clock.newest = f"{self.guest.boot['variant']}, {scope}"
        self.wait(clock)
        lines = self.lines()
        with self.memory() as core:
            self.control.release()
            found = table(lines, objects.Memory(core, self.build.folder), self.control.items)
        self.guest.take(repeat, clock)
        self.guest.runs[-1]['lines'] = found

    def wait(self, clock: seat.Clock) -> None:
        """Wait until the plugin has written its report."""
        stdout = self.guest.child.stdout
        assert stdout
        while self.control.state in (plugin.ARMED, plugin.COUNTING):
            clock()
            if select.select([stdout], [], [], POLL_S)[0]:
                self.guest.report(clock)        # says why, if the guest has ended
                raise self.guest.error(f'the pass ended before each submitter had queued {WARMUP} items while the '
                                       f'others were at work: give more --items')
        if self.control.state != plugin.DONE:
            raise self.guest.error('the plugin could not write its report: is the disk full?')
        if self.control.ran < self.control.items / 2:
            raise self.guest.error(f'of {self.control.items} items only {self.control.ran} were seen to run: is there '
                                   f'more than one {ITEM}?')
        if self.control.full:
            raise self.guest.error('the plugin has no room for so many lines: use a guest with less memory or CPUs')

    def lines(self) -> list[count.Line]:
        try:
            return count.read(self.report)
        except count.ReportError as error:
            raise self.guest.error(str(error)) from None

    @contextlib.contextmanager
    def memory(self) -> Iterator[Path]:
        try:
            with dump.memory(self.socket, self.folder) as core:
                yield core
        except (dump.DumpError, qmp.QmpError, objects.ObjectsError) as error:
            raise self.guest.error(str(error)) from None


# Whose lines

def owners(line: count.Line, memory: objects.Memory) -> dict[objects.Place, int]:
    """Return the places of the words that were touched, and how often each would move alone."""
    return {memory.at(line.address + number * count.WORD): line.moves_of_word(number)
            for number, visits in enumerate(line.words) if any(map(any, visits))}


def is_of_workqueue(places: dict[objects.Place, int]) -> bool:
    """
    Return True if a word of the workqueue would move if it were alone in the line. If no word would move alone, return
    True if the line begins with a word of the workqueue.
    """
    if any(places.values()):
        return any(place.workqueue for place, moves in places.items() if moves)
    return next(iter(places)).workqueue


def name_of(line: count.Line, workqueue: bool, memory: objects.Memory) -> str:
    """
    Return the name of a line. If it is the workqueue's: its objects in the line, and for a large object the offset at
    which the line begins. If not: what the line begins with.
    """
    if not workqueue:
        return memory.at(line.address).what
    found: dict[str, str] = {}
    for number in range(count.LINE // count.WORD):
        place = memory.at(line.address + number * count.WORD)
        if place.workqueue:
            offset = f'{place.offset - number * count.WORD:+d}' if place.size > count.LINE else ''
            found.setdefault(place.what, offset)
    return ', '.join(f'{what}{offset}' for what, offset in found.items())


@dataclasses.dataclass
class Share:
    """A line, or what of it belongs to one owner."""
    what: str
    workqueue: bool
    moves: float
    fields: dict[str, int]


def shares(line: count.Line, memory: objects.Memory, rare: float) -> list[Share]:
    """Return whose a line is. Of lines that move rarely, leave the fields out.

    If a line of the workqueue also holds other memory that is touched, look at each word of the workqueue in it: how
    often would the line move if it held only this word? The largest of these numbers is the workqueue's share.
    """
    if line.moves < rare:
        own = any(memory.workqueue.at(line.address + offset) for offset in range(0, count.LINE, count.WORD))
        return [Share(name_of(line, own, memory), own, line.moves, {})]
    places = owners(line, memory)
    others = {place: moves for place, moves in places.items() if not place.workqueue}
    if not is_of_workqueue(places):
        return [Share(max(others, key=lambda place: others[place]).what, False, line.moves, fields_of(places, False))]
    name, fields = name_of(line, True, memory), fields_of(places, True)
    mine = max(moves for place, moves in places.items() if place.workqueue)
    if not others or not mine or mine == line.moves:
        return [Share(name, True, line.moves, fields)]
    return [Share(name, True, mine, fields), Share(next(iter(others)).what, False, line.moves - mine, {})]


def table(lines: list[count.Line], memory: objects.Memory, items: int) -> dict[str, Any]:
    """Return how many lines move per item: the workqueue's, all others, and whose."""
    rows: dict[tuple[str, bool], dict[str, Any]] = {}
    for line in lines:
        for share in shares(line, memory, RARE * items):
            row = rows.setdefault((share.what, share.workqueue), {
                'what': share.what, 'workqueue': share.workqueue, 'lines': 0, 'moves': 0, 'observed': 0, 'fields': {}})
            row['lines'] += 1
            row['moves'] += share.moves
            row['observed'] += line.observed * share.moves / line.moves
            for field, moves in share.fields.items():
                row['fields'][field] = row['fields'].get(field, 0) + moves
    return per_item(list(rows.values()), items)


def fields_of(places: dict[objects.Place, int], own: bool) -> dict[str, int]:
    """Return how often each field would move alone."""
    found: dict[str, int] = {}
    for place, moves in places.items():
        if place.field:
            name = place.field if place.workqueue == own else f'{place.what}.{place.field}'
            found[name] = max(found.get(name, 0), moves)
    return found


def per_item(rows: list[dict[str, Any]], items: int) -> dict[str, Any]:
    for row in rows:
        row['moves'], row['observed'] = row['moves'] / items, row['observed'] / items
        row['fields'] = {name: round(moves / items, 4) for name, moves in
                         sorted(row['fields'].items(), key=lambda pair: -pair[1])}
    rows.sort(key=lambda row: -row['moves'])
    mine, others = ([row for row in rows if row['workqueue'] == own] for own in (True, False))
    total = {f'{key}{suffix}': sum(row[key] for row in some)
             for some, suffix in ((mine, ''), (others, '_else')) for key in ('moves', 'observed')}
    return {'items': items, **total, 'rows': mine + others[:OTHERS_KEPT]}


# Boots

def boot_once(root: Path, build: Build, params: dict[str, Any], boot: dict, log: Path, clock: seat.Clock) -> dict:
    """Boot a guest and run all scopes. Return its entry for the record."""
    with own_folder() as folder:
        watched = Watched(build, params, folder)
        with seat.taken(root, build, params, boot, log, watched.options(), seat.command(more=FIND_ITEM)) as guest:
            watched.begin(guest, clock)
            for repeat in range(1, params['repeats'] + 1):
                for scope in guest.scopes:
                    watched.run(scope, repeat, clock)
            return guest.leave()


def play(root: Path, builds: dict[str, Build], params: dict[str, Any], boots: list[dict], logs: list[Path],
         tick: seat.Tick) -> list[dict]:
    """Boot one guest after the other, each with the machine for itself. Return their entries for the record."""
    clock = seat.Clock(tick)
    try:
        return [boot_once(root, builds[boot['variant']], params, boot, log, clock)
                for boot, log in zip(boots, logs, strict=True)]
    except plugins.PluginError as error:
        raise BootError(str(error)) from None

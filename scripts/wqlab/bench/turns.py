# SPDX-License-Identifier: GPL-2.0
"""A run of many boots, in which the variants take turns.

run-bench.sh and run-workload.sh share this: they make the boots that are left, save each
result, try failed boots once more, print the answer, and draw plots. Boots that are made
together form a group.
"""
import contextlib
import dataclasses
import itertools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wqlab import procs
from wqlab.bench import record as bench_record
from wqlab.bench.boot import BootError, Build
from wqlab.paths import ROOT
from wqlab.steps import told, using

# If a boot fails, it is tried again: it says nothing about speed. Each failure is reported and recorded.
ATTEMPTS = 2
Record = dict[str, Any]
Boot = dict[str, Any]
Tick = Callable[[float, str], None]         # (seconds since the boot began, what is new)
Once = Callable[[list[Boot], list[Path], Tick], list[Boot]]    # make a group of boots, with these logs; return entries


@dataclasses.dataclass(frozen=True)
class Program:
    """What differs between the scripts."""
    name: str                                   # without its suffix; messages begin with it
    redraw: str                                 # the command that draws the plots of a folder later
    describe: Callable[[Boot, Record], str]     # a boot in words; the second argument has the parameters
    group: Callable[[Boot], object]             # boots with the same value are made together
    stem: Callable[[Boot], str]                 # the name of its log, without a suffix
    outline: Callable[[Boot], str]              # the results of a boot in a few words
    summarise: Callable[[list[Boot]], list]     # the rows of the table
    draw: Callable[[Record, Path], object]      # write plot.png and plot.svg

    def say(self, text: str) -> None:
        print(f'{self.name}: {text}', file=sys.stderr, flush=True)


def shown(path):
    """Return a path relative to the repository if it lies inside, else unchanged."""
    path = Path(path).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def prepare(program: Program, builds: dict[str, Build], build: bool, held: contextlib.ExitStack) -> dict[str, Build]:
    """
    Make sure that the kernels are there. With `build`, build what is not up to date. They stay as they are until
    `held` is closed.
    """
    for one in builds.values() if build else ():
        program.say(f'building the {one.variant} kernel for {one.engine}')
        one.make(ROOT)
    for one in builds.values():
        held.enter_context(using(one.folder))
        one.check()
    return builds


class Saver:
    """Saves a record again and again. If the disk is full, the rest is still measured and reported."""

    def __init__(self, record, folder, say):
        self.record, self.folder, self.say = record, folder, say
        self.unsaved = None     # the error because of which results.json is not up to date

    def save(self):
        try:
            bench_record.save(self.record, self.folder)
        except OSError as error:
            if not self.unsaved:
                self.say(f'{shown(self.folder)}/results.json cannot be written ({told(error)}): continuing without it')
            self.unsaved = error
        else:
            self.unsaved = None


class Results(Saver):
    """The files of a run."""

    def __init__(self, program, record, folder):
        super().__init__(record, folder, program.say)
        self.program = program
        self.record.setdefault('failed_boots', [])

    def add(self, entries):
        self.record['boots'] += entries
        self.record['summary'] = self.program.summarise(self.record['boots'])
        self.save()

    def complete(self):
        self.record['complete'] = True
        self.record['finished'] = bench_record.utc_now().isoformat(timespec='seconds')
        self.save()

    def draw(self):
        """Draw the plots. Return True if that succeeded."""
        folder = shown(self.folder)
        try:
            self.program.draw(self.record, self.folder)
        except KeyboardInterrupt:
            self.program.say('interrupted: the plots were not drawn')
            return False
        except Exception as error:  # matplotlib may be missing, or raise anything
            self.program.say(f'FAILED: the plots could not be drawn ({type(error).__name__}: {error}); '
                             f'to draw them later: {self.program.redraw} {folder}')
            return False
        print(f'\nresults: {folder}/results.json, plot.png, plot.svg')
        return True


class Progress:
    """Reports which boots of how many run, their results, and how much time is left."""

    def __init__(self, program, params, total):
        self.program, self.params, self.total = program, params, total
        self.count, self.seconds, self.label = 0, 0.0, ''

    def start(self, boots):
        left = f', about {self.seconds / self.count * (self.total - self.count):.0f} s left' if self.count else ''
        self.count += len(boots)
        self.label = f'[{self.count}/{self.total}] {self.describe(boots[0])}' + \
            ''.join(f" and {boot['variant']}" for boot in boots[1:])
        self.program.say(f'{self.label}: booting{left}')

    def describe(self, boot):
        return self.program.describe(boot, self.params)

    def tick(self, seconds, newest):
        self.program.say(f"{self.label}: {seconds:.0f} s{f', {newest}' if newest else ''}")

    def done(self, entries):
        seconds = max(entry['seconds'] for entry in entries)
        self.seconds += seconds
        for entry in entries:
            self.program.say(f'{self.describe(entry)}: {seconds:.0f} s; {self.program.outline(entry)}')


def with_retry(results: Results, boots: list[Boot], once: Once, progress: Progress) -> list[Boot]:
    for attempt in range(1, ATTEMPTS + 1):
        again = '' if attempt == 1 else f'-attempt{attempt}'
        logs = [results.folder / 'logs' / f'{results.program.stem(boot)}{again}.log' for boot in boots]
        try:
            return once(boots, logs, progress.tick)
        except BootError as error:
            results.record['failed_boots'].append({**(error.boot or boots[0]), 'attempt': attempt, 'error': str(error)})
            results.save()
            if attempt == ATTEMPTS:
                raise
            results.program.say(f'{progress.label}: {error}; trying once more')
    raise AssertionError('no attempt was made')


def make(results: Results, left: list[Boot], once: Once, builds: dict[str, Build]) -> int:
    """Make the boots that are left. Return the exit status, or raise RecordError if a kernel has changed."""
    progress = Progress(results.program, results.record['parameters'], len(left))
    try:
        for _, group in itertools.groupby(left, results.program.group):
            boots = list(group)
            progress.start(boots)
            entries = with_retry(results, boots, once, progress)
            bench_record.check_same_kernels(results.record, builds)
            progress.done(entries)
            results.add(entries)
    except (BootError, OSError) as error:
        results.program.say(told(error))
        return 1
    except KeyboardInterrupt:
        results.program.say('interrupted')
        return 130
    return 0


def failures(program, record):
    """Return a line for each boot whose kernel complained, and for each attempt that failed."""
    lines = [f"{program.describe(boot, record['parameters'])}: the kernel reported problems "
             f"({len(boot['trouble'])} lines), first: {boot['trouble'][0]}"
             for boot in record['boots'] if boot['trouble']]
    return lines + [f"{program.describe(boot, record['parameters'])}, attempt {boot['attempt']}: {boot['error']}"
                    for boot in record['failed_boots']]


def finish(results: Results, status: int, good: bool) -> int:
    """Say what is missing, or else draw the plots. Return the exit status."""
    say, folder = results.program.say, shown(results.folder)
    if not good:
        status = status or 1
    if results.unsaved:
        say(f'FAILED: {folder}/results.json is not complete: {told(results.unsaved)}')
        status = status or 1
    if not results.record['complete']:
        say(f'to continue: scripts/{results.program.name}.sh --resume {folder}')
    elif not results.draw():
        status = status or 1
    return status


def on_term(signum, frame):
    """As Ctrl-C, but once: a second signal must not interrupt the cleanup."""
    for number in procs.ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt

# SPDX-License-Identifier: GPL-2.0
"""A run of many boots, in which the variants take turns.

run-bench.sh and run-workload.sh share this: they make the boots that are left, save each
result, try failed boots once more, print the answer, and draw plots. Boots that are made
together form a group.
"""
import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from wqlab.kernels import build as kernel_build
from wqlab.kernels.kinds import Kind
from wqlab.measure import boot as measure_boot
from wqlab.measure import record as measure_record
from wqlab.measure.boot import BootError
from wqlab.paths import BUILD
from wqlab.steps import Failure, locked, sayer, shown, told, using

# If a boot fails, it is tried again: it says nothing about speed. Each failure is reported and recorded.
ATTEMPTS = 2
Record = dict[str, Any]
Boot = dict[str, Any]
Tick = Callable[[float, str], None]         # (seconds since the boot began, what is new)
Once = Callable[[list[Boot], list[Path], Tick], list[Boot]]    # make a group of boots, with these logs; return entries
Kernels = dict[str, Kind]


@dataclasses.dataclass(frozen=True)
class Program:
    """What differs between the scripts."""
    name: str                                   # without its suffix; messages begin with it
    results: str                                # the folder in build/ that has a folder for each run
    kernels: Callable[[Record, bool], Kernels]   # of a run with these parameters; install what it needs, if asked to
    left: Callable[[Record], list[Boot]]        # the boots that have not been made
    possible: Callable[[Record], list[Boot]]    # those of them that can be made now
    once: Callable[[Record, Kernels], Once]      # the function that makes the boots of a group
    describe: Callable[[Boot, Record], str]     # a boot in words; the second argument has the parameters
    group: Callable[[Boot], object]             # boots with the same value are made together
    stem: Callable[[Boot], str]                 # the name of its log, without a suffix
    outline: Callable[[Boot], str]              # the results of a boot in a few words
    notes: Callable[[Record], Iterable[str]]    # what runs with these parameters cannot show
    summarise: Callable[[list[Boot]], list]     # the rows of the table
    report: Callable[[Record], None]            # print the answer
    wrong: Callable[[Record], list[str]]        # a line for each promise that was broken
    draw: Callable[[Record, Path], object]      # write plot.png and plot.svg
    admit: Callable[[Record], None] = lambda record: None       # raise Failure if it cannot be measured now

    @property
    def folder(self) -> Path:
        return BUILD / self.results

    def again(self, folder: Path) -> str:
        """Return the command that continues a run, or reports it again."""
        return f'scripts/{self.name}.sh --resume {shown(folder)}'

    def say(self, text: str) -> None:
        sayer(self.name)(text)

    def prepare(self, params: Record, build: bool, held: contextlib.ExitStack) -> Kernels:
        """
        Make sure that the kernels are there. With `build`, build what is not up to date. They stay as they are until
        `held` is closed.
        """
        kernels = self.kernels(params, build)
        for one in kernels.values() if build else ():
            self.say(f'building the {one.variant} kernel for {one.engine.name}')
            kernel_build.build(one)
        for one in kernels.values():
            held.enter_context(using(one.folder))
            measure_boot.check(one)
        return kernels

    def begin(self, params: Record, build: bool, held: contextlib.ExitStack) -> tuple['Results', Kernels]:
        kernels = self.prepare(params, build, held)
        if kernels:
            params['accel'] = measure_boot.accelerator(params, next(iter(kernels.values())))
        record = measure_record.new_record(self.name, params, kernels)
        self.admit(record)
        folder = measure_record.new_folder(self.folder)
        measure_record.save(record, folder)
        return Results(self, record, folder), kernels

    def resume(self, where: str, held: contextlib.ExitStack) -> tuple['Results', Kernels]:
        """Continue the run in a folder, or the latest one. One that is complete is only reported again."""
        folder = Path(where) if where else measure_record.find_unfinished(self.folder, self.name)
        record = measure_record.load(folder, self.name)
        if record['complete']:
            return Results(self, record, folder), {}
        measure_record.check_same_machine(record['parameters'])
        kernels = self.prepare(record['parameters'], False, held)
        measure_record.check_same_kernels(record, kernels)
        self.admit(record)
        return Results(self, record, folder), kernels


class Results:
    """The files of a run."""

    def __init__(self, program, record, folder):
        self.program, self.record, self.folder = program, record, folder

    def save(self):
        measure_record.save(self.record, self.folder)

    def draw(self):
        """Draw the plots. Return True if that succeeded."""
        folder = shown(self.folder)
        try:
            self.program.draw(self.record, self.folder)
        except (KeyboardInterrupt, SystemExit):     # Ctrl-C, or a signal: see procs.end_on_signals()
            self.program.say('interrupted: the plots were not drawn')
            return False
        except Exception as error:  # matplotlib may be missing, or raise anything
            self.program.say(f'FAILED: the plots could not be drawn ({type(error).__name__}: {error}); '
                             f'to draw them later: {self.program.again(self.folder)}')
            return False
        print(f'\nresults: {folder}/results.json, plot.png, plot.svg')
        return True


def with_retry(results: Results, boots: list[Boot], once: Once, label: str) -> list[Boot]:
    def tick(seconds: float, newest: str) -> None:
        results.program.say(f"{label}: {seconds:.0f} s{f', {newest}' if newest else ''}")

    for attempt in range(1, ATTEMPTS + 1):
        again = '' if attempt == 1 else f'-attempt{attempt}'
        logs = [results.folder / 'logs' / f'{results.program.stem(boot)}{again}.log' for boot in boots]
        try:
            return once(boots, logs, tick)
        except BootError as error:
            results.record['failed_boots'].append({**(error.boot or boots[0]), 'attempt': attempt, 'error': str(error)})
            results.save()
            if attempt == ATTEMPTS:
                raise
            results.program.say(f'{label}: {error}; trying once more')
    raise AssertionError('no attempt was made')


def make(results: Results, left: list[Boot], once: Once) -> int:
    """Make the boots that are left. Report their results, and how much time is left. Return the exit status."""
    program, params, count, took = results.program, results.record['parameters'], 0, 0.0
    try:
        for _, group in itertools.groupby(left, program.group):
            boots = list(group)
            rest = f', about {took / count * (len(left) - count):.0f} s left' if count else ''
            count += len(boots)
            label = f'[{count}/{len(left)}] {program.describe(boots[0], params)}' + \
                ''.join(f" and {boot['variant']}" for boot in boots[1:])
            program.say(f'{label}: booting{rest}')
            entries = with_retry(results, boots, once, label)
            took += max(entry['seconds'] for entry in entries)
            for entry in entries:
                program.say(f"{program.describe(entry, params)}: {entry['seconds']:.0f} s; {program.outline(entry)}")
            results.record['boots'] += entries
            results.record['summary'] = program.summarise(results.record['boots'])
            results.save()
        if not program.left(results.record):
            results.record.update(complete=True, finished=measure_record.now())
            results.save()
    except (BootError, OSError) as error:
        program.say(told(error))
        return 1
    except (KeyboardInterrupt, SystemExit):
        program.say('interrupted')
        return 130
    return 0


def complaints(program: Program, record: Record) -> list[str]:
    """Return a line for each promise that was broken, each boot whose kernel complained, each attempt that failed."""
    lines = program.wrong(record)
    lines += [f"{program.describe(boot, record['parameters'])}: the kernel reported problems "
             f"({len(boot['trouble'])} lines), first: {boot['trouble'][0]}"
             for boot in record['boots'] if boot['trouble']]
    return lines + [f"{program.describe(boot, record['parameters'])}, attempt {boot['attempt']}: {boot['error']}"
                    for boot in record['failed_boots']]


def measure(results: Results, kernels: Kernels) -> int:
    """Make the boots that are left. Return the exit status."""
    program, record = results.program, results.record
    for line in program.notes(record['parameters']):
        program.say(f'note: {line}')
    program.say(f'results go to {shown(results.folder)}/')
    return make(results, program.possible(record), program.once(record['parameters'], kernels))


def report(program: Program, record: Record) -> bool:
    """Print the answer and what went wrong. Return True if nothing did."""
    program.report(record)
    bad = complaints(program, record)
    for line in bad:
        program.say(f'FAILED: {line}')
    return not bad


def finish(results: Results, status: int) -> int:
    """Report, say what is missing, or else draw the plots. Return the exit status."""
    program, record = results.program, results.record
    good = report(program, record) if record['boots'] else True
    again, left = program.again(results.folder), program.left(record)
    if left and not program.possible(record):
        program.say(f"to compare it with the {left[0]['variant']} kernel, boot that and run: {again}")
        good &= results.draw()
    elif record['complete']:
        good &= results.draw()
    else:
        program.say(f'to continue: {again}')
    return status or (0 if good else 1)


def run(program: Program, params: Record, where: str | None, build: bool) -> int:
    """Begin a run, or continue that in the folder `where`, or the latest one if it is ''. Return the exit status."""
    try:
        # computed figures do not depend on what else runs
        with locked('measurement', shared=bool(params.get('machine'))), contextlib.ExitStack() as held:
            results, kernels = program.begin(params, build, held) if where is None else program.resume(where, held)
            status = 0 if results.record['complete'] else measure(results, kernels)
    except Failure as error:
        program.say(str(error))
        return 1
    except (KeyboardInterrupt, SystemExit):
        program.say('interrupted')
        return 130
    return finish(results, status)

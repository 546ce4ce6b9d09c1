# SPDX-License-Identifier: GPL-2.0
"""Put together what scripts/advise.sh does: see its --help."""
import contextlib
import os
import platform
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wqlab.advise import machine, measure, options, plot, pods, verdict, waits, words
from wqlab.advise import record as advise_record
from wqlab.advise.loads import LOADS
from wqlab.advise.machine import Subject
from wqlab.kernels import module as kernel_module
from wqlab.measure import boot as measure_boot
from wqlab.measure import record as measure_record
from wqlab.measure import turns
from wqlab.measure.boot import BootError, Build
from wqlab.measure.record import RecordError
from wqlab.paths import BUILD, ROOT
from wqlab.scopes import SCOPES
from wqlab.steps import Failure, locked, sayer, shown, told, using

say = sayer('advise')
Record = dict[str, Any]
BUSY = 0.5      # load for each CPU


# What is measured: the module for this machine, or a kernel for a guest

def module_for_here(params: dict[str, Any], build: bool) -> Path:
    """Return the module, built for the running kernel if it has to be."""
    release = platform.release()
    if params['module']:
        path = Path(params['module'])
    elif not build:
        path = BUILD / f'module-{release}' / 'test_workqueue.ko'
    else:
        given = os.environ.get('KDIR') or f'/lib/modules/{release}/build'
        if not Path(given).is_dir():
            raise Failure(f'{given} does not exist: install the package linux-headers-{release}, or name the build '
                          'folder of the running kernel by KDIR=')
        folder = kernel_module.kernel_folder(given)
        if kernel_module.release_of(folder) != release:
            raise Failure(f'{given} is for Linux {kernel_module.release_of(folder)}, but {release} is running: '
                          f'install the package linux-headers-{release}, or name its build folder by KDIR=')
        path = kernel_module.build(folder)[0]
    if not path.is_file():
        raise Failure(f'{path} does not exist: run make module')
    return path


def kernel_for_guest(params: dict[str, Any], build: bool, held: contextlib.ExitStack) -> Build:
    kernel = Build(ROOT, params['engine'], params['variant'])
    if build:
        measure_boot.install('a guest')
        say(f'building the {kernel.variant} kernel for {kernel.engine}')
        kernel.make(ROOT)
    held.enter_context(using(kernel.folder))
    kernel.check()
    params['accel'] = measure_boot.accelerator(params, kernel)
    return kernel


@contextlib.contextmanager
def opened(params: dict[str, Any], target: Path | Build, folder: Path) -> Iterator[Subject]:
    """Yield the machine, ready for orders."""
    if isinstance(target, Build):
        log = folder / 'logs' / f"{measure_record.utc_now().strftime('%H-%M-%S')}.log"
        with machine.guest(target, params, log, lambda seconds, _: say(f'the guest boots: {seconds:.0f} s')) as guest:
            yield guest
    else:
        with machine.here(target, resizes=bool(params['shard_sizes'])) as here:
            yield here


# What can be chosen there

def present_of(subject: Subject) -> dict[str, Any]:
    """Return the present default, and what else the comparison depends on."""
    found = subject.describe()
    actual = subject.run(LOADS['latency'].order(pods.DEFAULT.scope, 1, subject.cpus))['actual']
    if actual not in SCOPES:
        raise Failure('this kernel has no affinity scopes: there is nothing to choose')
    return {'scope': actual, 'shard_size': found.shard_size, 'can_resize': found.can_resize,
            'usable_cpus': sorted(found.usable), 'parameters': found.parameters()}


def settings_of(subject: Subject, params: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of the record that say what is compared."""
    wanted, found = params['scopes'] or list(SCOPES), subject.describe()
    if params['shard_sizes'] and not present['can_resize']:
        raise Failure('--shard-sizes: this kernel can change the size of shards only at boot: leave the option out')
    has = [scope for scope in wanted if scope in subject.scopes]
    settings, same = pods.choose(found, present['scope'], has, params['shard_sizes'] or [])
    return {'settings': [{'scope': one.scope, 'shard_size': one.shard_size} for one in settings], 'same': same,
            'lacking': [scope for scope in wanted if scope not in subject.scopes], 'cpus': subject.cpus}


def loads_of(params: dict[str, Any], cpus: int) -> list[str]:
    names = [name for name in params['loads'] or LOADS if LOADS[name].cpus <= cpus]
    if not names:
        raise Failure(f"--loads {','.join(params['loads'])}: needs more CPUs than {cpus}")
    return names


def prepare(subject: Subject, record: Record) -> None:
    """Find out what to compare, and how many items a slice has. On resuming, check that nothing has changed."""
    params, present = record['parameters'], present_of(subject)
    found = {'present': present, **settings_of(subject, params, present)}
    if record['items']:
        advise_record.check_same(record, found)
        return
    record.update(found)
    if not record['settings']:
        return
    for load in loads_of(params, subject.cpus):
        say(f'finding out how many items of the load {load} a slice of {params["slice_ms"]} ms has')
        record['items'][load] = measure.calibrated(subject, load, params['slice_ms'])


# The report

def conclude(record: Record) -> None:
    record['rows'] = verdict.rows_of(record) if record['turns'] else []
    record['advice'] = verdict.decide(record, record['rows'])
    record['advice']['text'] = words.paragraph(record)


def report(record: Record, folder: Path, unsaved: OSError | None = None) -> int:
    """Print the advice and draw the plots. Return the exit status."""
    print('\n'.join(words.lines(record)), flush=True)
    if unsaved:
        say(f'FAILED: {shown(folder)}/results.json is not complete: {told(unsaved)}')
        return 1
    files = 'results.json'
    if plot.has_plot(record):
        try:
            plot.write(record, folder)
        except Exception as error:  # matplotlib may be missing, or raise anything
            say(f'FAILED: the plots could not be drawn ({type(error).__name__}: {error}); '
                f'to draw them later: scripts/advise.sh --report {shown(folder)}')
            return 1
        files += ', plot.png, plot.svg'
    print(f'\nresults: {shown(folder)}/{files}')
    return 0


def notes(params: dict[str, Any]) -> list[str]:
    found, load, cores = [], os.getloadavg()[0], os.cpu_count() or 1
    if load > BUSY * cores:
        found.append(f'this machine is busy (load {load:.1f}, {cores} CPUs): the intervals will be wide')
    if (params['cpus'] or 0) > cores:
        found.append(f"{params['cpus']} CPUs of a guest on {cores} of this machine: this is no advice for a machine")
    if params['engine'] == 'uml':
        found.append('UML has no caches: cpu, smt, cache and cache_shard have the same pods there')
    if params.get('accel') == 'tcg':
        found.append('QEMU emulates the CPUs: this shows how it works, and is no advice for a machine')
    if not params['engine'] and waits.measured():
        found.append(waits.note(waits.rows()))
    return found


# The program

def start(where: str | None, params: dict[str, Any], build: bool,
          held: contextlib.ExitStack) -> tuple[Record, Path, Path | Build]:
    """Return the record, its folder, and what to measure."""
    if where is not None:
        folder = Path(where).resolve() if where else advise_record.find_unfinished()
        record = advise_record.load(folder)
        if record['complete']:
            raise RecordError(f'{shown(folder)} is complete: there is nothing to resume')
        params, build = record['parameters'], False
    if where is not None and not params['engine']:
        machine.check_here()
    target = kernel_for_guest(params, build, held) if params['engine'] else module_for_here(params, build)
    kernel = advise_record.kernel_of(target)
    if where is not None:
        advise_record.check_same(record, {'kernel': kernel})
        return record, folder, target
    record = advise_record.new(params, kernel)
    record['base'] = target.base() if isinstance(target, Build) else None
    folder = measure_record.new_folder(advise_record.RESULTS)
    advise_record.save(record, folder)
    return record, folder, target


def advise(record: Record, folder: Path, target: Path | Build) -> int:
    """Measure, and report. Return the exit status."""
    for note in notes(record['parameters']):
        say(f'note: {note}')
    say(f'results go to {shown(folder)}/')
    saver = turns.Saver(record, folder, say)
    with opened(record['parameters'], target, folder) as subject:
        prepare(subject, record)
        if record['settings']:
            measure.Measuring(subject, record, saver.save, say).go()
    advise_record.check_same(record, {'kernel': advise_record.kernel_of(target)})
    conclude(record)
    record.update(complete=True, finished=measure_record.now())
    saver.save()
    return report(record, folder, saver.unsaved)


def again(where: str) -> int:
    """Report on an earlier run."""
    folder = Path(where).resolve()
    record = advise_record.load(folder)
    if record['present'] is None:
        raise RecordError(f'{shown(folder)} has not measured anything yet: scripts/advise.sh --resume {shown(folder)}')
    conclude(record)
    return report(record, folder)


def offer(record: Record, folder: Path) -> None:
    """Say how to continue. If nothing was measured, there is nothing to keep but the log of a guest."""
    if record['turns']:
        say(f'to continue: scripts/advise.sh --resume {shown(folder)}')
    elif not any((folder / 'logs').iterdir()):
        shutil.rmtree(folder, ignore_errors=True)


def main(argv: list[str]) -> int:
    params, where, old, build = options.parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, turns.on_term)
    folder = None
    try:
        if old is not None:
            return again(old)
        if where is None and not params['engine']:
            machine.check_here()        # before the wait for another run
        with locked('measurement'), contextlib.ExitStack() as held:
            record, folder, target = start(where, params, build, held)
            return advise(record, folder, target)
    except (BootError, RecordError, Failure, OSError) as error:
        say(told(error))
        status = 1
    except KeyboardInterrupt:
        say('interrupted')
        status = 130
    if folder:
        offer(record, folder)
    return status

# SPDX-License-Identifier: GPL-2.0
"""Put together what scripts/advise.sh does: see its --help."""
import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wqlab.advise import machine, measure, options, pods, verdict, waits, words
from wqlab.advise.loads import LOADS
from wqlab.advise.machine import Subject
from wqlab.kernels import module as kernel_module
from wqlab.measure import boot as measure_boot
from wqlab.measure import record as measure_record
from wqlab.measure.boot import BootError, Build
from wqlab.measure.record import RecordError
from wqlab.paths import BUILD, ROOT
from wqlab.scopes import SCOPES
from wqlab.steps import Failure, locked, sayer, shown, using

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
    """Find out what to compare, and how many items a slice has."""
    params, present = record['parameters'], present_of(subject)
    record.update({'present': present, 'items': {}, **settings_of(subject, params, present)})
    for load in loads_of(params, subject.cpus) if record['settings'] else ():
        say(f'finding out how many items of the load {load} a slice of {params["slice_ms"]} ms has')
        record['items'][load] = measure.calibrated(subject, load, params['slice_ms'])


# The report

def conclude(record: Record) -> None:
    record['rows'] = verdict.rows_of(record) if record['turns'] else []
    record['advice'] = verdict.decide(record, record['rows'])
    record['advice']['text'] = words.paragraph(record)


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

def kernel_of(target: Path | Build) -> dict[str, str]:
    """Describe the kernel of a guest, or the running one with the module that is loaded into it."""
    if isinstance(target, Build):
        return measure_record.describe_kernel(target)
    return {'release': platform.release(), 'version': platform.version(),
            'module_sha256': measure_record.file_digest(target)}


def advise(params: dict[str, Any], target: Path | Build) -> None:
    """Measure, and report. A full disk shows at the beginning, and does not cost the advice at the end."""
    record = {**measure_record.begun(ROOT), 'kernel': kernel_of(target), 'parameters': params, 'turns': []}
    folder = measure_record.new_folder(BUILD / 'advise')
    measure_record.save(record, folder)
    for note in notes(params):
        say(f'note: {note}')
    say(f'results go to {shown(folder)}/')
    with opened(params, target, folder) as subject:
        prepare(subject, record)
        if record['settings']:
            measure.Measuring(subject, record, say).go()
    conclude(record)
    print('\n'.join(words.lines(record)), flush=True)
    record.update(complete=True, finished=measure_record.now())
    measure_record.save(record, folder)
    print(f'\nresults: {shown(folder)}/results.json')


def main(argv: list[str]) -> int:
    params, build = options.parse_args(argv)
    try:
        if not params['engine']:
            machine.check_here()        # before the wait for another run
        with locked('measurement'), contextlib.ExitStack() as held:
            target = kernel_for_guest(params, build, held) if params['engine'] else module_for_here(params, build)
            advise(params, target)
    except (BootError, RecordError) as error:
        raise Failure(str(error)) from None
    return 0

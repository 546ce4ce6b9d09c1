# SPDX-License-Identifier: GPL-2.0
"""The command line of scripts/advise.sh, and what it does: see its --help."""
import argparse
import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wqlab.advise import machine, measure, pods, verdict, words
from wqlab.advise.machine import Subject
from wqlab.advise.measure import LOADS
from wqlab.bench.options import memory_for
from wqlab.kernels import build as kernel_build
from wqlab.kernels import module as kernel_module
from wqlab.kernels.kinds import TREE, VARIANTS, Kind
from wqlab.measure import boot as measure_boot
from wqlab.measure import options
from wqlab.measure import record as measure_record
from wqlab.paths import BUILD
from wqlab.scopes import SCOPES
from wqlab.steps import Failure, locked, sayer, shown, using

MINUTES, MOST_MINUTES = 8, 120
SLICE_MS = 150, 1       # in a run of so many minutes or more, and in the shortest
SIZES = (2, 4, 8, 16, 32)
SPARE_S = 900           # for a guest to boot, and for the first runs

EPILOG = f"""\
examples:
  scripts/advise.sh                                  advise for this machine (root; loads a module)
  scripts/advise.sh --loads batch,spread             only what you care for
  scripts/advise.sh --shard-sizes 2,4,16             try sizes of shards, too: see below
  scripts/advise.sh --engine uml                     try it in a guest
  scripts/advise.sh --engine qemu --topology sockets=2,cores=4,nodes=2

loads:
{chr(10).join(f'  {name:9}{load.what}' for name, load in LOADS.items())}

It builds test_workqueue.ko for the running kernel (6.5 or later, headers installed; KDIR= names
another place), loads it, and lets a workqueue of its own run each load in each scope, again and
again, in short slices. This uses all CPUs. No setting of the system changes, except that with
--shard-sizes all workqueues that use shards have others for a slice at a time. However this program
ends, even if it is killed, the size is set back and the module is removed.

Results: build/advise/<UTC time>/results.json.
Exit status: 0 there is advice, which may be to leave everything as it is; 1 something failed; 2 wrong options;
130 Ctrl-C.
"""

say = sayer('advise')
Record = dict[str, Any]


# The command line

def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='advise.sh', formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
        description='Measure, within ten minutes, which affinity scope this machine wants, what it gains over the '
                    'present default, and whether that matters.')
    what = parser.add_argument_group('what')
    what.add_argument('--loads', type=options.names_of(tuple(LOADS), 'a load'), metavar='A,B,...', default=list(LOADS),
                      help='see below (default: all)')
    what.add_argument('--scopes', type=options.names_of(SCOPES, 'an affinity scope'), metavar='A,B,...',
                      default=list(SCOPES), help='to compare with the default (default: all that the kernel has)')
    what.add_argument('--shard-sizes', type=options.number_list(1, 65536), nargs='?', const=list(SIZES), default=[],
                      metavar='N,...', help='also try these sizes of shards (without a list: '
                      f'{",".join(map(str, SIZES))}), if the kernel can change them while it runs')
    what.add_argument('--minutes', type=options.number(0.01, MOST_MINUTES, float), default=MINUTES, metavar='N',
                      help=f'how long to measure (default {MINUTES}; a shorter run has shorter slices)')
    where = parser.add_argument_group('where')
    where.add_argument('--engine', choices=('uml', 'qemu'), help='advise for a guest, not for this machine')
    options.add_guest(where, '2', '512M')
    where.add_argument('--variant', choices=VARIANTS,
                       help="of the guest's kernel: cmwq is ours (the default), base is the base kernel's")
    where.add_argument('--no-build', action='store_true', help='use what is built, do not build')
    return parser


def parse_args(argv: list[str]) -> dict[str, Any]:
    parser = build_parser()
    args = parser.parse_args(argv)
    options.refuse(parser, args, [(not args.engine, ('cpus', 'topology', 'mem', 'variant'),
                                   'this machine is advised without --engine')])
    for name in ('KDIR',) if args.engine else TREE:
        if os.environ.get(name):
            parser.error(f'{name}= is for ' + ('this machine: leave --engine out' if args.engine else
                                               'guests: add --engine'))
    if args.engine:     # what wqlab.bench.seat wants to know of a guest
        options.resolve_cpus(parser, args)
        args.mem = args.mem or memory_for(args.cpus)
        args.variant = args.variant or VARIANTS[0]
        args.icount, args.accel = False, None       # the accelerator is determined after the kernel is built
        args.boot_timeout = round(60 * args.minutes) + SPARE_S
    return vars(args)


# What is measured: the module for this machine, or a kernel for a guest

def module_for_here(params: dict[str, Any]) -> Path:
    """Return the module, built for the running kernel if it has to be."""
    release = platform.release()
    path = BUILD / f'module-{release}' / 'test_workqueue.ko'
    if not params['no_build']:
        given = os.environ.get('KDIR') or f'/lib/modules/{release}/build'
        if not Path(given).is_dir():
            raise Failure(f'{given} does not exist: install the package linux-headers-{release}, or name the build '
                          'folder of the running kernel by KDIR=')
        kernel_module.build(kernel_module.kernel_folder(given))
    if not path.is_file():
        raise Failure(f'{shown(path)} does not exist: run make module for Linux {release}')
    return path


def kernel_for_guest(params: dict[str, Any], held: contextlib.ExitStack) -> Kind:
    kernel = measure_boot.kernel(params['engine'], params['variant'])
    if not params['no_build']:
        measure_boot.install('a guest')
        say(f'building the {kernel.variant} kernel for {kernel.engine.name}')
        kernel_build.build(kernel)
    held.enter_context(using(kernel.folder))
    measure_boot.check(kernel)
    params['accel'] = measure_boot.accelerator(params, kernel)
    return kernel


# What it does

def notes(params: dict[str, Any]) -> Iterator[str]:
    """Yield what else to know of the figures."""
    yield from options.warnings({**params, 'cpus': params['cpus'] or 0})
    if params['engine'] == 'uml' or params.get('accel') == 'tcg':
        yield 'this shows how it works, and is no advice for a machine'
    if not params['engine'] and (waits := machine.own_waits()):
        yield waits


def prepare(subject: Subject, record: Record) -> None:
    """Find out the present default, what to compare with it, and how many items a slice has."""
    params, found = record['parameters'], subject.described
    if params['shard_sizes'] and not found.can_resize:
        raise Failure('--shard-sizes: this kernel can change the size of shards only at boot: leave the option out')
    default = subject.run(measure.order('latency', pods.DEFAULT, 1, subject.cpus))['actual']
    has = [scope for scope in params['scopes'] if scope in subject.scopes]
    settings, same = pods.choose(found, default, has, params['shard_sizes'])
    record.update({
        'present': {'scope': default, 'shard_size': found.shard_size, 'can_resize': found.can_resize},
        'settings': settings, 'same': same,
        'lacking': [scope for scope in params['scopes'] if scope not in subject.scopes], 'cpus': subject.cpus})
    usual, least = SLICE_MS
    slice_ms = max(least, usual * min(params['minutes'] / MINUTES, 1))
    for load in params['loads'] if settings else ():
        say(f'finding out how many items of the load {load} a slice of {slice_ms:.0f} ms has')
        record['items'][load] = measure.calibrated(subject, load, slice_ms)


def conclude(record: Record) -> None:
    record['rows'] = verdict.rows_of(record)
    record['advice'] = verdict.decide(record)
    record['advice']['text'] = words.paragraph(record)


def advise(params: dict[str, Any], target: Path | Kind) -> None:
    """Measure, and report. A full disk shows at the beginning, and does not cost the advice at the end."""
    kernel = measure_record.describe_kernel(target) if params['engine'] else {'release': platform.release()}
    record = {**measure_record.begun(), 'kernel': kernel, 'parameters': params, 'items': {}, 'turns': []}
    folder = measure_record.new_folder(BUILD / 'advise')
    measure_record.save(record, folder)
    for note in notes(params):
        say(f'note: {note}')
    say(f'results go to {shown(folder)}/')
    log = folder / 'logs/guest.log'
    with machine.guest(target, params, log, lambda seconds, _: say(f'the guest boots: {seconds:.0f} s')) \
            if isinstance(target, Kind) else machine.here(target, bool(params['shard_sizes'])) as subject:
        prepare(subject, record)
        if record['settings']:
            measure.Measuring(subject, record, say).go()
    conclude(record)
    print('\n'.join(words.lines(record)), flush=True)
    record.update(complete=True, finished=measure_record.now())
    measure_record.save(record, folder)
    print(f'\nresults: {shown(folder)}/results.json')


def main(argv: list[str]) -> int:
    params = parse_args(argv)
    if not params['engine']:
        machine.check_here()        # before the wait for another run
    with locked('measurement'), contextlib.ExitStack() as held:
        advise(params, kernel_for_guest(params, held) if params['engine'] else module_for_here(params))
    return 0

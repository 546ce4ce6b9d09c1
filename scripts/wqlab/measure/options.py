# SPDX-License-Identifier: GPL-2.0
"""Parts of a command line: types of values, where to run, and options that have no effect beside others."""
import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from wqlab.guest import topology
from wqlab.kernels.kinds import VARIANTS
from wqlab.steps import Failure

COMPUTED = 'nothing here was measured: the time of the guest is computed, see workqueue-simulated.rst'
# (whether it applies, options, why they have no effect then)
Useless = tuple[object, Iterable[str], str]


def number(low: float, high: float, kind: type = int) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f'"{text}" is not a number') from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f'{text} is not between {low} and {high}')
        return value
    return parse


def listed(parse_one: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        values = [parse_one(part) for part in text.split(',')]
        if len(set(values)) != len(values):
            raise argparse.ArgumentTypeError(f'"{text}" contains a value twice')
        return values
    return parse


def number_list(low: int, high: int) -> Callable[[str], list[int]]:
    return listed(number(low, high))


def names_of(known: Sequence[str], what: str) -> Callable[[str], list[str]]:
    def parse_one(name: str) -> str:
        if name not in known:
            raise argparse.ArgumentTypeError(f'"{name}" is not {what}: choose from {", ".join(known)}')
        return name
    return listed(parse_one)


def understood_by(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make an option type of a function that parses an option of guests."""
    def checked(text: str) -> Any:
        try:
            return parse(text)
        except Failure as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return checked


def memory(text: str) -> str:
    topology.megabytes(text)
    return text


def add_guest(group: argparse._ArgumentGroup, cpus: str, mem: str) -> None:
    """Add the options of a guest. The arguments are what the help says of defaults."""
    group.add_argument('--cpus', type=number(1, 512), metavar='N', help=f'CPUs of the guest (default {cpus})')
    group.add_argument('--topology', type=understood_by(topology.parse), metavar='KEY=N,...',
                       help='not for uml; `scripts/lab guest --help` explains it')
    group.add_argument('--mem', type=understood_by(memory), metavar='SIZE', help=f'memory of the guest (default {mem})')


def add_variant(group: argparse._ArgumentGroup) -> None:
    group.add_argument('--variant', choices=VARIANTS,
                       help="measure only one: cmwq is ours, base is the base kernel's (default both)")


def add_rest(group: argparse._ArgumentGroup) -> None:
    group.add_argument('--no-build', action='store_true', help='use what is built, do not build')
    group.add_argument('--resume', nargs='?', const='', metavar='DIR',
                       help='continue an interrupted run with its options (default: the latest), or report and draw a '
                            'complete one again')


def refuse(parser: argparse.ArgumentParser, args: argparse.Namespace, rules: Iterable[Useless]) -> None:
    """Refuse options that would have no effect, or that the record would describe wrongly."""
    for applies, names, why in rules:
        for name in names if applies else ():
            if getattr(args, name) != parser.get_default(name):
                parser.error(f'{why}: leave --{name.replace("_", "-")} out')


def refuse_more(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse options beside --resume, which takes those of an earlier run."""
    if args != argparse.Namespace(**{**vars(parser.parse_args([])), 'resume': args.resume}):
        parser.error('--resume uses the options of that run: give no other options')


def resolve_cpus(parser: argparse.ArgumentParser, args: argparse.Namespace, option: str = 'cpus') -> None:
    """Fill in the number of CPUs of a guest, and refuse what it cannot have. `option` is the one that asks for CPUs."""
    host = len(os.sched_getaffinity(0))
    if args.engine == 'uml':
        if args.topology:
            parser.error('--topology needs --engine qemu: UML has no topology')
        if args.cpus and args.cpus > host:
            parser.error(f'--{option} {args.cpus}: UML cannot have more CPUs than this machine ({host}): '
                         'use --engine qemu')
        args.cpus = args.cpus or min(2, host)
    try:
        args.cpus = topology.complete(args.topology or {}, args.cpus).cpus
    except Failure as error:
        parser.error(str(error))


def warnings(params: dict[str, Any]) -> Iterator[str]:
    """Yield what may spoil the figures of a run with these parameters."""
    cores = os.cpu_count() or 1
    if params.get('machine'):
        yield COMPUTED
        return
    if params.get('icount'):
        return
    if params['cpus'] > cores:
        yield (f"{params['cpus']} guest CPUs on {cores} cores: the figures depend more on the "
               f"host's scheduler than on the workqueue")
    load = os.getloadavg()[0]
    if load > 2 * cores:
        yield f'this machine is busy (load {load:.0f}, {cores} cores): the figures will vary'

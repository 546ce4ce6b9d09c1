# SPDX-License-Identifier: GPL-2.0
"""
What a simulated machine is: CPUs, what they share, and what costs how much.

A machine is a file. Ours are in machines/, and users write their own. machines/grace.toml explains each constant.
"""
import dataclasses
import tomllib
from pathlib import Path
from typing import Any

from wqlab.guest import topology
from wqlab.steps import Failure

FOLDER = Path(__file__).parent / 'machines'
MOST_CPUS = 512         # that the plugin has room for
COSTS = ('atomic', 'core_line', 'llc_line', 'socket_line', 'far_line', 'first', 'hold', 'buffer', 'wake', 'ipi', 'irq',
         'relax')


@dataclasses.dataclass(frozen=True)
class Machine:
    name: str
    about: str
    topology: topology.Topology
    ghz: float
    ipc: float                  # instructions per cycle
    smt: float                  # how many times longer an instruction takes while the sibling runs
    queue: float                # how many times longer a line takes that others wait for
    ns: dict[str, float]        # COSTS

    def constants(self) -> dict[str, int]:
        """Return the arguments of the plugin: numbers of CPUs, and picoseconds."""
        shape, insn = self.topology, 1000 / self.ghz / self.ipc
        return {'cpus': shape.cpus, 'threads': shape.threads, 'llc_cpus': shape.cpus // shape.llcs,
                'socket_cpus': shape.cpus // shape.sockets, 'insn': round(insn), 'smt': round(insn * (self.smt - 1)),
                'queue': round(1000 * (self.queue - 1)), **{name: round(1000 * cost) for name, cost in self.ns.items()}}

    def resized(self, cpus: int) -> 'Machine':
        """Return a machine of the same kind with this many CPUs: as many caches and sockets as these need."""
        old = self.topology
        cache, socket = cpus if old.llcs == 1 else old.cpus // old.llcs, old.cpus // old.sockets
        sockets = 1 if old.sockets == 1 else -(-cpus // socket)
        llcs = -(-cpus // cache)
        if cpus % old.threads or (llcs > 1 and cpus % cache) or cpus % sockets or llcs % sockets:
            raise Failure(f'{self.name} cannot have {cpus} CPUs: give whole cores, and whole caches or sockets if it '
                          'has several')
        if cpus > MOST_CPUS:
            raise Failure(f'{cpus} CPUs cannot be simulated: at most {MOST_CPUS}')
        shape = dataclasses.replace(old, cores=cpus // old.threads // sockets, sockets=sockets, llcs=llcs,
                                    nodes=max(1, old.nodes * sockets // old.sockets))
        return dataclasses.replace(self, topology=shape)


def known() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob('*.toml'))


def find(name: str) -> Path:
    """Return the file of a machine of ours, or of the user."""
    path = Path(name) if name.endswith('.toml') else FOLDER / f'{name}.toml'
    if not path.is_file():
        raise Failure(f'there is no machine {name!r}: choose {", ".join(known())}, or name a file.toml')
    return path


def load(name: str, cpus: int | None = None) -> Machine:
    """Return a machine, by its name or file, with another number of CPUs if that is given."""
    path = find(name)
    try:
        machine = checked(path.stem, tomllib.loads(path.read_text(encoding='utf-8')))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise Failure(f'{path} cannot be read: {error}') from None
    except (ValueError, Failure) as error:
        raise Failure(f'{path}: {error}') from None
    return machine.resized(cpus) if cpus else machine


def checked(name: str, text: dict[str, Any]) -> Machine:
    """Return the machine. Raise ValueError or Failure if something is missing or cannot be."""
    wanted = {'about', 'topology', 'ghz', 'ipc', 'smt', 'queue', 'ns'}
    costs = text.get('ns', {})
    for what, found, names in ('it', text, wanted), ('[ns]', costs, set(COSTS)):
        if set(found) != names:
            raise ValueError(f'{what} must have {", ".join(sorted(names))}, and nothing else: '
                             f'look at {", ".join(sorted(set(found) ^ names))}')
    numbers = {**costs, **{key: text[key] for key in ('ghz', 'ipc', 'smt', 'queue')}}
    for key, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < 1e6:
            raise ValueError(f'{key} must be a number from 0 to 1e6')
    if not text['ghz'] or not text['ipc'] or min(text['smt'], text['queue']) < 1:
        raise ValueError('ghz and ipc must be more than 0, smt and queue at least 1')
    shape = topology.complete(topology.parse(text['topology']))
    return Machine(name, text['about'], shape, text['ghz'], text['ipc'], text['smt'], text['queue'], costs)


def described(name: str, cpus: int | None = None) -> dict[str, Any]:
    """Return what a record keeps of a machine: a name that means it in any folder, and its constants."""
    machine = load(name, cpus)
    place = str(Path(name).absolute()) if name.endswith('.toml') else name
    return {'name': place, 'about': machine.about, 'constants': machine.constants()}

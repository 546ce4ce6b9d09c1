# SPDX-License-Identifier: GPL-2.0
"""Read the memory of a guest: which object and which field lies at an address, and which function?

The objects of the workqueue are found by way of its own lists. All else is called by the
name of the variable, of the slab cache, or of the task whose stack it is.
"""
import bisect
import contextlib
import dataclasses
import logging
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from drgn import FaultError, MissingDebugInfoError, Object, Program, Symbol, SymbolKind, Type, TypeKind, sizeof
from drgn.helpers.linux.cpumask import for_each_possible_cpu
from drgn.helpers.linux.idr import idr_for_each_entry
from drgn.helpers.linux.list import list_for_each_entry
from drgn.helpers.linux.mm import compound_head, page_to_virt, virt_to_page
from drgn.helpers.linux.percpu import per_cpu_ptr
from drgn.helpers.linux.pid import for_each_task
from drgn.helpers.linux.slab import find_containing_slab_cache

from wqlab.steps import Failure

LEFT = 'bench_left'             # what passes of the benchmark have left in memory
STACK_BYTES = 16384
WORD = 4                        # bytes
LINE = 64
MODULE = 'lib/cmwq/test_workqueue.ko'
MOST_NAMES = 3
NOBODY = 'nobody'               # wrote the line before
# Types of objects that a slab cache of another name, or of a general one, contains.
SLABS = {'task_struct': 'struct task_struct'}


@dataclasses.dataclass(frozen=True)
class Place:
    """What lies at an address."""
    name: str           # OBJECT.FIELD, or a struct, a variable, a slab cache
    workqueue: bool     # an object of the workqueue


@dataclasses.dataclass(frozen=True, order=True)
class Range:
    begin: int
    end: int
    what: str = dataclasses.field(compare=False)
    type: Type | None = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    place: str          # FILE:LINE, '' if unknown


class Ranges:
    """Objects that do not overlap."""

    def __init__(self, found: Iterable[Range]):
        self.all = sorted(set(found))
        self.begins = [one.begin for one in self.all]

    def at(self, address: int) -> Range | None:
        number = bisect.bisect_right(self.begins, address) - 1
        return self.all[number] if number >= 0 and address < self.all[number].end else None


# Types

def plain(type_: Type) -> Type:
    while type_.kind == TypeKind.TYPEDEF:
        type_ = type_.type
    return type_


def size_of(type_: Type) -> int:
    try:
        return sizeof(type_)
    except TypeError:       # a flexible array takes the rest
        return 1 << 32


def fields(type_: Type, begin: int, end: int) -> Iterator[str]:
    """Yield the names of the members that lie in these bytes of a struct.

    Of an array, look into its elements. Of a member that is larger than a line, name its members, too.
    """
    type_ = plain(type_)
    if type_.kind == TypeKind.ARRAY:
        size = size_of(type_.type)
        yield from fields(type_.type, begin % size, begin % size + end - begin)
        return
    if type_.kind not in (TypeKind.STRUCT, TypeKind.UNION) or type_.members is None:
        return
    for member in type_.members:
        first = member.bit_offset // 8
        bits = member.bit_field_size
        size = (member.bit_offset % 8 + bits + 7) // 8 if bits else size_of(member.type)
        if first >= end or begin >= first + size:
            continue
        inner = [] if member.name and size <= LINE else list(fields(member.type, max(begin - first, 0), end - first))
        if member.name:
            yield from (f'{member.name}.{name}' for name in inner) if inner else [member.name]
        else:
            yield from inner


def field_at(type_: Type | None, offset: int) -> str:
    """Return the fields that share a word: mostly one. Bits may be many."""
    names = list(dict.fromkeys(fields(type_, offset, offset + WORD))) if type_ else []
    return '/'.join(names[:MOST_NAMES]) + '/...' * (len(names) > MOST_NAMES)


# Objects of the workqueue, and of the benchmark

def whole(pointer: Object, what: str = '') -> Iterator[Range]:
    """Yield the range of the object that a pointer points to, if any."""
    if pointer:
        type_ = pointer.type_.type
        begin = pointer.value_()
        yield Range(begin, begin + sizeof(type_), what or plain(type_).tag or str(type_), type_)


def of_pool(pool: Object) -> Iterator[Range]:
    yield from whole(pool)
    yield from whole(pool.attrs)
    for worker in list_for_each_entry('struct worker', pool.workers.address_of_(), 'node'):
        yield from whole(worker)


def of_workqueue(prog: Program, wq: Object, cpus: list[int]) -> Iterator[Range]:
    yield from whole(wq)
    yield from whole(wq.attrs if hasattr(wq, 'attrs') else wq.unbound_attrs)    # the first in the base kernel
    yield from whole(wq.rescuer)
    yield from whole(wq.dfl_pwq)
    for pwq in list_for_each_entry('struct pool_workqueue', wq.pwqs.address_of_(), 'pwqs_node'):
        yield from whole(pwq)
    for cpu in cpus:
        entry = per_cpu_ptr(wq.cpu_pwq, cpu).value_()
        yield Range(entry, entry + 8, 'workqueue_struct.cpu_pwq[]', None)
    if wq.flags.value_() & prog.constant('WQ_UNBOUND').value_():
        for node in range(prog['nr_node_ids'].value_() + 1):
            yield from whole(wq.node_nr_active[node])


def of_the_workqueue(prog: Program) -> Iterator[Range]:
    cpus = list(for_each_possible_cpu(prog))
    for _, entry in idr_for_each_entry(prog['worker_pool_idr'].address_of_(), 'struct worker_pool'):
        yield from of_pool(entry)
    for wq in list_for_each_entry('struct workqueue_struct', prog['workqueues'].address_of_(), 'list'):
        yield from of_workqueue(prog, wq, cpus)


def submitters(prog: Program) -> Iterator[Object]:
    """Yield the threads of a pass that has ended."""
    left = prog[LEFT] if LEFT in prog else Object(prog, 'void *', 0)
    if left and left.threads:
        yield from filter(None, (left.threads[number] for number in range(left.max_threads.value_())))


def items_of(thread: Object) -> Iterator[Range]:
    for number in range(thread.nr_items.value_()):
        yield from whole(thread.items[number].work.address_of_())


# All else

def symbols_of(folder: Path) -> set[str]:
    """Return the names of the workqueue's own variables."""
    objects = [*folder.glob('kernel/workqueue.o'), *folder.glob('kernel/workqueue/*.o')]
    done = subprocess.run(['nm', '--defined-only', '--format=posix', *objects], capture_output=True, text=True,
                          check=False)
    if not objects or done.returncode:
        raise Failure(f'the symbols of {folder}/kernel/workqueue cannot be read: build the kernel again')
    words = [line.split() for line in done.stdout.splitlines()]
    return {row[0] for row in words if len(row) > 2 and row[1] in 'bBdDrRV'}


class Memory:
    """The memory of a guest."""

    def __init__(self, core: Path, folder: Path):
        self.prog = opened(core, [folder / 'vmlinux', *folder.glob(MODULE)])
        try:
            self.workqueue = Ranges([*of_the_workqueue(self.prog),
                                     *(item for thread in submitters(self.prog) for item in items_of(thread))])
            self.benchmark = Ranges(one for thread in submitters(self.prog) for one in self.thread(thread))
            self.stacks = Ranges(self.stacks_of_tasks())
            self.offsets = self.per_cpu_areas()
            self.symbols = self.symbols_of_variables()
            self.names = Counter(symbol.name for symbol in self.symbols)
        except (LookupError, FaultError, ValueError) as error:
            raise Failure(f'the memory of the guest makes no sense: {error}') from None
        self.own_symbols = symbols_of(folder)
        self.places: dict[int, Place] = {}
        self.functions: dict[int, Function] = {}
        self.last = Range(0, 0, '', None), False

    @staticmethod
    def thread(thread: Object) -> Iterator[Range]:
        for one in whole(thread):
            yield dataclasses.replace(one, end=one.end + sizeof(thread.items[0]) * thread.nr_items.value_())

    def stacks_of_tasks(self) -> Iterator[Range]:
        for task in for_each_task(self.prog):
            begin = task.stack.value_()
            comm = task.comm.string_().decode(errors='replace')
            owner = 'a kworker' if comm.startswith('kworker') else 'another task'
            yield Range(begin, begin + STACK_BYTES, f'stack of {owner}', None)

    def symbols_of_variables(self) -> list[Symbol]:
        """Return the symbols in order, the longest of an address last.

        Program.symbol() may also return a symbol of the assembler, and not the same one each time.
        """
        return sorted((symbol for symbol in self.prog.symbols() if symbol.kind == SymbolKind.OBJECT),
                      key=lambda symbol: (symbol.address, symbol.size, symbol.name))

    def symbol_at(self, address: int) -> Symbol | None:
        place = bisect.bisect_right(self.symbols, address, key=lambda symbol: symbol.address)
        found = self.symbols[place - 1] if place else None
        return found if found and address < found.address + found.size else None

    def per_cpu_areas(self) -> list[tuple[int, int, int]]:
        """Return (first address, address after the last, what to subtract) for the per-CPU variables of each CPU."""
        first, last = (self.prog.symbol(name).address for name in ('__per_cpu_start', '__per_cpu_end'))
        begins = ((first + self.prog['__per_cpu_offset'][cpu].value_()) % (1 << 64)
                  for cpu in for_each_possible_cpu(self.prog))
        return [(begin, begin + last - first, begin - first) for begin in begins]

    def at(self, address: int) -> Place:
        if address not in self.places:
            self.places[address] = self.find_place(address)
        return self.places[address]

    def find_place(self, address: int) -> Place:
        one, own = self.object_at(address)
        field = field_at(one.type, address - one.begin)
        return Place(f'{one.what}.{field}' if field else one.what, own)

    def object_at(self, address: int) -> tuple[Range, bool]:
        """Return an object, and whether it is the workqueue's. Words of a line are asked for one after the other."""
        for ranges, own in ((self.workqueue, True), (self.benchmark, False), (self.stacks, False)):
            found = ranges.at(address)
            if found:
                return found, own
        if not self.last[0].begin <= address < self.last[0].end:
            other = self.variable(address) or self.slab(address) or Range(address, address + WORD, 'other memory', None)
            self.last = other, other.what in self.own_symbols
        return self.last

    def variable(self, address: int) -> Range | None:
        """Return the range of a variable of the kernel or of a module."""
        less = next((offset for first, last, offset in self.offsets if first <= address < last), 0)
        symbol = self.symbol_at(address - less)
        if not symbol:
            return None
        type_ = None
        if self.names[symbol.name] == 1:        # of two files' variables, drgn finds either
            with contextlib.suppress(LookupError):
                type_ = self.prog[symbol.name].type_
        begin = symbol.address + less
        return Range(begin, begin + symbol.size, symbol.name, type_)

    def slab(self, address: int) -> Range | None:
        """Return the range of a slab's object. slab_object_info() also looks for it among the free ones: too slow."""
        try:
            cache = find_containing_slab_cache(self.prog, address)
            if not cache:
                return None
            first = page_to_virt(compound_head(virt_to_page(self.prog, address))).value_()
        except (FaultError, LookupError, ValueError):
            return None
        name = cache.name.string_().decode(errors='replace')
        type_ = self.prog.type(SLABS[name]) if name in SLABS else None
        begin = address - (address - first) % cache.size.value_()
        return Range(begin, begin + cache.object_size.value_(), name, type_)

    def function(self, address: int) -> Function:
        """Return the function of an instruction. What it took from a header counts as its own."""
        if address not in self.functions:
            self.functions[address] = self.find_function(address)
        return self.functions[address]

    def find_function(self, address: int) -> Function:
        try:
            frames = self.prog.source_location(address)
        except LookupError:
            names = sorted(symbol.name for symbol in self.prog.symbols(address) if not symbol.name.startswith('$'))
            return Function(names[0] if names else f'{address:x}' if address else NOBODY, '')
        frame = next((frame for frame in frames if frame.filename.endswith('.c')), frames[-1])
        return Function(frame.name(), f'{Path(frame.filename).name}:{frame.line}')


def opened(core: Path, symbols: list[Path]) -> Program:
    prog = Program()
    logger = logging.getLogger('drgn')
    logger.setLevel(logging.CRITICAL)       # what matters comes as an exception
    try:
        prog.set_core_dump(core)
        prog.load_debug_info([str(path) for path in symbols])
    except MissingDebugInfoError as error:
        raise Failure(f'{symbols[0]} has no debug information: {str(error).splitlines()[0]}') from None
    except (OSError, ValueError) as error:
        raise Failure(f'the memory of the guest cannot be read: {error}') from None
    return prog

# SPDX-License-Identifier: GPL-2.0
"""Reads the counters of all workqueues, fast enough for a machine with hundreds of CPUs.

A workqueue has a pwq for each pod, or each CPU. One piece of memory is read for each pwq.
It contains the link and the counters.
"""
import struct as bytes_of

from drgn import FaultError

from . import stats, structs

TRIES = 3               # how often to read a list that changes meanwhile
LIMIT = 1 << 20


class Layout:
    """Offsets of the link and the counters in a struct pool_workqueue."""

    def __init__(self, prog):
        pwq = prog.type('struct pool_workqueue')
        members = {member.name: member for member in pwq.members}
        self.node = members['pwqs_node'].bit_offset // 8
        self.stats = members['stats'].bit_offset // 8
        self.names = {name: index for name, index in structs.stat_names(prog).items() if name in stats.COUNTERS}
        self.length = members['stats'].type.length
        self.start = min(self.node, self.stats)
        self.size = max(self.node + 16, self.stats + 8 * self.length) - self.start


def read(prog, wanted=lambda name: True):
    """Return a stats.Reading for each wanted workqueue. Leave out those that are destroyed meanwhile."""
    layout = prog.cache.get('wqtools.layout') or prog.cache.setdefault('wqtools.layout', Layout(prog))
    for left in reversed(range(TRIES)):
        try:
            return [reading for wq in list(structs.workqueues(prog)) if (reading := _reading(layout, wq, wanted))]
        except (FaultError, structs.Broken):
            if not left:
                raise


def _reading(layout, wq, wanted):
    for _ in range(TRIES):
        try:
            name = structs.wq_name(wq)
            if not wanted(name):
                return None
            reclaim = bool(wq.flags.value_() & structs.constant(wq.prog_, 'WQ_MEM_RECLAIM'))
            return stats.Reading(name, wq.value_(), structs.wq_type(wq), reclaim, _pwqs(layout, wq))
        except (FaultError, structs.Broken):
            pass
    return None


def _pwqs(layout, wq):
    prog, head = wq.prog_, wq.pwqs.address_of_().value_()
    found, before, node = {}, head, prog.read_word(head)
    while node != head:
        if not node or len(found) > LIMIT:
            raise structs.Broken(f'the pwqs of the workqueue at {wq.value_():#x} do not end')
        pwq = node - layout.node
        piece = prog.read(pwq + layout.start, layout.size)
        following, previous = bytes_of.unpack_from('=QQ', piece, layout.node - layout.start)
        if previous != before or pwq in found:
            raise structs.Broken(f'the pwqs of the workqueue at {wq.value_():#x} change')
        numbers = bytes_of.unpack_from(f'={layout.length}Q', piece, layout.stats - layout.start)
        found[pwq] = {name: numbers[index] for name, index in layout.names.items()}
        before, node = node, following
    return found

# SPDX-License-Identifier: GPL-2.0
"""The PPTT that describes the caches of an arm64 guest, decoded as the ACPI specification says."""
import struct

import pytest

from wqlab.guest import pptt, topology
from wqlab.guest.engines import ENGINES

HEAD = 36
DATA, INSTRUCTION, UNIFIED = 'data', 'instruction', 'unified'
MACHINES = [(1, 1, 1, 1), (1, 4, 1, 2), (2, 2, 1, 2), (2, 4, 2, 4), (1, 72, 1, 1), (2, 36, 2, 6)]


def made(sockets, cores, threads, llcs):
    """Return the table of a machine. @cores counts those of each socket, @llcs the caches of all sockets."""
    return pptt.pptt(topology.Topology(cores, sockets, threads, llcs))


def structures(table):
    """Return {offset: (type, fields)}. The fields are the bytes after the type, the length and 2 reserved bytes."""
    found, offset = {}, HEAD
    while offset < len(table):
        kind, length = table[offset], table[offset + 1]
        assert length >= 20 and offset + length <= len(table)
        found[offset] = (kind, table[offset + 4:offset + length])
        offset += length
    return found


class Processor:
    def __init__(self, data):
        self.flags, self.parent, self.uid, count = struct.unpack_from('<4I', data)
        assert len(data) == 16 + 4 * count
        self.caches = struct.unpack_from(f'<{count}I', data, 16)


def cache_kind(data):
    flags, below, size, sets, ways, attributes, line = struct.unpack('<4IBBH', data)
    assert flags & 0x7f == 0x7f and size == sets * ways * line
    return {0: DATA, 1: INSTRUCTION}.get(attributes >> 2 & 3, UNIFIED), below


def caches_of(table):
    """Return {uid: {(level, kind): offset of the cache}}. CPUs with the same offset share that cache."""
    every = structures(table)
    nodes = {offset: Processor(data) for offset, (kind, data) in every.items() if kind == 0}
    found = {}
    for leaf in (node for node in nodes.values() if node.flags & pptt.LEAF):
        assert leaf.flags & pptt.UID_VALID and leaf.uid not in found
        mine, level = {}, 0
        node: Processor | None = leaf
        while node:
            deepest = level
            for start in node.caches:
                offset, depth = start, level
                while offset:
                    kind, below = cache_kind(every[offset][1])
                    depth += 1
                    assert mine.setdefault((depth, kind), offset) == offset
                    offset = below
                deepest = max(deepest, depth)
            level, node = deepest, nodes.get(node.parent)
        found[leaf.uid] = mine
    return found


def sharers(table, level, kind):
    """Return the groups of UIDs that share such a cache, as sorted lists."""
    groups = {}
    for uid, mine in caches_of(table).items():
        groups.setdefault(mine[level, kind], []).append(uid)
    return sorted(sorted(group) for group in groups.values())


def in_groups(count, size):
    return [list(range(first, first + size)) for first in range(0, count, size)]


@pytest.mark.parametrize('machine', MACHINES)
def test_header(machine):
    table = made(*machine)
    assert table[:4] == b'PPTT' and struct.unpack_from('<I', table, 4)[0] == len(table)
    assert sum(table) % 256 == 0
    # Linux replaces QEMU's table only if the names are the same and the revision is higher
    assert table[10:24] == b'BOCHS BXPC    ' and struct.unpack_from('<I', table, 24)[0] > 1


@pytest.mark.parametrize('machine', MACHINES)
def test_who_shares_what(machine):
    sockets, cores, threads, llcs = machine
    cpus = sockets * cores * threads
    table = made(*machine)
    for level, kind in ((1, DATA), (1, INSTRUCTION), (2, UNIFIED)):
        assert sharers(table, level, kind) == in_groups(cpus, threads)
    assert sharers(table, 3, UNIFIED) == in_groups(cpus, cpus // llcs)
    assert all(len(mine) == 4 for mine in caches_of(table).values())


def test_comes_first_in_the_initrd():
    """Linux looks for it in the first archive, which must not be compressed."""
    archive = ENGINES['arm64'].early_archive(topology.complete({'llcs': 2}, 4))
    assert archive.startswith(b'070701') and len(archive) % 4 == 0
    assert b'kernel/firmware/acpi/pptt.aml\0' in archive and made(1, 4, 1, 2) in archive

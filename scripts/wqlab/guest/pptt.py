# SPDX-License-Identifier: GPL-2.0
"""Write the PPTT (ACPI 6.3, 5.2.29) of a machine: sockets, caches, cores, threads.

QEMU's own table lists the processors but no caches, so Linux does not see a shared
last-level cache. This table has an L3 for each group of cores, and an L1 and an L2 for
each core. It has the names of QEMU's table and a higher revision, so Linux uses it
instead if it is in the initrd (CONFIG_ACPI_TABLE_UPGRADE). The processors have the same
UIDs as in QEMU's table, from 0 up.
"""
import struct

QEMU_OEM, QEMU_TABLE, CREATOR = b'BOCHS ', b'BXPC    ', b'CMWQ'
HEADER = struct.Struct('<4sIBB6s8sI4sI')
NODE = struct.Struct('<BBHIIII')
CACHE = struct.Struct('<BBHIIIIBBH')
REVISION = 2            # the first revision that marks leaves and threads
OEM_REVISION = 2        # QEMU's is 1

PACKAGE, UID_VALID, THREAD, LEAF, IDENTICAL = 1, 2, 4, 8, 16
ALL_VALID = 0x7f        # size, sets, ways, allocation, type, write policy, line size
DATA, INSTRUCTION, UNIFIED = 0 << 2, 1 << 2, 2 << 2
ALLOCATE_READ, ALLOCATE_BOTH = 0, 2
LINE = 64
KIB = 1024


class Table:
    """A sequence of structures. Each is identified by its offset in the table."""

    def __init__(self):
        self.body = b''

    def _put(self, data):
        offset = HEADER.size + len(self.body)
        self.body += data
        return offset

    def cache(self, kind, size, ways, below=0):
        """Add a cache. `below` is the next level of the same core, or 0 if the next level is shared."""
        allocate = ALLOCATE_READ if kind == INSTRUCTION else ALLOCATE_BOTH
        return self._put(CACHE.pack(1, CACHE.size, 0, ALL_VALID, below, size, size // (ways * LINE), ways,
                                    kind | allocate, LINE))

    def node(self, flags, parent, uid, *resources):
        size = NODE.size + 4 * len(resources)
        return self._put(NODE.pack(0, size, 0, flags, parent, uid, len(resources)) +
                         struct.pack(f'<{len(resources)}I', *resources))

    def bytes(self):
        """Return the table with its checksum. The sum of all bytes is 0."""
        length = HEADER.size + len(self.body)
        head = [b'PPTT', length, REVISION, 0, QEMU_OEM, QEMU_TABLE, OEM_REVISION, CREATOR, 1]
        head[3] = -sum(HEADER.pack(*head) + self.body) % 256
        return HEADER.pack(*head) + self.body


def core(table, parent, uid, threads):
    """Add a core with its own caches, similar to those of NVIDIA's Grace."""
    l2 = table.cache(UNIFIED, 1024 * KIB, 8)
    own = (table.cache(DATA, 64 * KIB, 4, l2), table.cache(INSTRUCTION, 64 * KIB, 4, l2))
    if threads == 1:
        table.node(UID_VALID | LEAF | IDENTICAL, parent, uid, *own)
        return
    place = table.node(IDENTICAL, parent, 0, *own)
    for thread in range(threads):
        table.node(UID_VALID | THREAD | LEAF | IDENTICAL, place, uid + thread)


def pptt(machine):
    """Return the table of a Topology."""
    table, uid = Table(), 0
    cores = machine.sockets * machine.cores // machine.llcs
    for number in range(machine.llcs):
        if number % (machine.llcs // machine.sockets) == 0:
            package = table.node(PACKAGE | IDENTICAL, 0, 0)
        group = table.node(IDENTICAL, package, 0, table.cache(UNIFIED, 32 * 1024 * KIB, 16))
        for _ in range(cores):
            core(table, group, uid, machine.threads)
            uid += machine.threads
    return table.bytes()

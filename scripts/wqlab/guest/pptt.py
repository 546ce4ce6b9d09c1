# SPDX-License-Identifier: GPL-2.0
"""Write the PPTT (ACPI 6.3, 5.2.29) of a machine: sockets, caches, cores, threads.

QEMU's own table has the processors but no caches, so a Linux on it knows of no
shared last-level cache. This one has an L3 for each group of cores, and an L1 and
an L2 of its own for each core. It bears the names of QEMU's table with a higher
revision, which makes Linux take it instead when it comes in the initrd
(CONFIG_ACPI_TABLE_UPGRADE). The processors' UIDs are QEMU's, 0 and up.
"""
import argparse
import struct

QEMU_OEM, QEMU_TABLE, CREATOR = b'BOCHS ', b'BXPC    ', b'CMWQ'
HEADER = struct.Struct('<4sIBB6s8sI4sI')
NODE = struct.Struct('<BBHIIII')
CACHE = struct.Struct('<BBHIIIIBBH')
REVISION = 2            # the first one whose leaves and threads are marked
OEM_REVISION = 2        # QEMU's is 1

PACKAGE, UID_VALID, THREAD, LEAF, IDENTICAL = 1, 2, 4, 8, 16
ALL_VALID = 0x7f        # size, sets, ways, allocation, type, write policy, line size
DATA, INSTRUCTION, UNIFIED = 0 << 2, 1 << 2, 2 << 2
ALLOCATE_READ, ALLOCATE_BOTH = 0, 2
LINE = 64
KIB = 1024


class TopologyError(Exception):
    """There is no such machine."""


class Table:
    """Structures one behind the other; each is named by its offset in the table."""

    def __init__(self):
        self.body = b''

    def _put(self, data):
        offset = HEADER.size + len(self.body)
        self.body += data
        return offset

    def cache(self, kind, size, ways, below=0):
        """A cache; `below` is the next level of the same core, 0 if it is not the core's own."""
        allocate = ALLOCATE_READ if kind == INSTRUCTION else ALLOCATE_BOTH
        return self._put(CACHE.pack(1, CACHE.size, 0, ALL_VALID, below, size, size // (ways * LINE), ways,
                                    kind | allocate, LINE))

    def node(self, flags, parent, uid, *resources):
        size = NODE.size + 4 * len(resources)
        return self._put(NODE.pack(0, size, 0, flags, parent, uid, len(resources)) +
                         struct.pack(f'<{len(resources)}I', *resources))

    def bytes(self):
        """The table with its checksum: all its bytes add up to 0."""
        length = HEADER.size + len(self.body)
        head = [b'PPTT', length, REVISION, 0, QEMU_OEM, QEMU_TABLE, OEM_REVISION, CREATOR, 1]
        head[3] = -sum(HEADER.pack(*head) + self.body) % 256
        return HEADER.pack(*head) + self.body


def core(table, parent, uid, threads):
    """A core with its own caches, as neighbours of the Grace's cores have them."""
    l2 = table.cache(UNIFIED, 1024 * KIB, 8)
    own = (table.cache(DATA, 64 * KIB, 4, l2), table.cache(INSTRUCTION, 64 * KIB, 4, l2))
    if threads == 1:
        table.node(UID_VALID | LEAF | IDENTICAL, parent, uid, *own)
        return
    place = table.node(IDENTICAL, parent, 0, *own)
    for thread in range(threads):
        table.node(UID_VALID | THREAD | LEAF | IDENTICAL, place, uid + thread)


def pptt(sockets, cores, threads=1, llcs=None):
    """The table for `cores` in each socket; `llcs` are counted over all sockets."""
    llcs = llcs or sockets
    if min(sockets, cores, threads, llcs) < 1 or llcs % sockets or sockets * cores % llcs:
        raise TopologyError(f'{llcs} last-level caches do not fit {sockets} sockets of {cores} cores')
    table, uid = Table(), 0
    for number in range(llcs):
        if number % (llcs // sockets) == 0:
            package = table.node(PACKAGE | IDENTICAL, 0, 0)
        group = table.node(IDENTICAL, package, 0, table.cache(UNIFIED, 32 * 1024 * KIB, 16))
        for _ in range(sockets * cores // llcs):
            core(table, group, uid, threads)
            uid += threads
    return table.bytes()


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (('sockets', 1), ('cores', 2), ('threads', 1), ('llcs', None)):
        parser.add_argument(f'--{name}', type=int, default=default, metavar='N',
                            help=f'default: {default or "one for each socket"}')
    parser.add_argument('output', help='a file; iasl -d reads it')
    args = parser.parse_args(argv)
    try:
        data = pptt(args.sockets, args.cores, args.threads, args.llcs)
    except TopologyError as error:
        parser.error(str(error))
    with open(args.output, 'wb') as out:
        out.write(data)

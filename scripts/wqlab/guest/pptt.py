# SPDX-License-Identifier: GPL-2.0
"""Write the PPTT (ACPI 6.3, 5.2.29) of a machine: sockets, caches, cores, threads.

QEMU's own table lists the processors but no caches, so Linux does not see a shared
last-level cache. This table has an L3 for each group of cores, and an L1 and an L2 for
each core. It has the names of QEMU's table and a higher revision, so Linux uses it
instead if it is in the initrd (CONFIG_ACPI_TABLE_UPGRADE). The processors have the same
UIDs as in QEMU's table, from 0 up.
"""
import argparse
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
MOST = 1024


class TopologyError(Exception):
    """Such a machine cannot exist."""


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


def pptt(sockets, cores, threads=1, llcs=None):
    """Return the table. `cores` counts the cores of each socket, `llcs` the caches of all sockets."""
    llcs = llcs or sockets
    if max(sockets, cores, threads) > MOST:
        raise TopologyError(f'there are at most {MOST} sockets, cores of each and threads of each')
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
    parser.add_argument('output', help='the file to write; `iasl -d` decodes it')
    args = parser.parse_args(argv)
    try:
        data = pptt(args.sockets, args.cores, args.threads, args.llcs)
    except TopologyError as error:
        parser.error(str(error))
    with open(args.output, 'wb') as out:
        out.write(data)

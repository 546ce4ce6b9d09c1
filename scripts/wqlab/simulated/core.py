# SPDX-License-Identifier: GPL-2.0
"""Make a core of the copy of a guest's memory: plugin/memory.c leaves room for the header.

drgn wants the kernel's own description of itself (VMCOREINFO), which lies somewhere in this memory.
"""
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from wqlab.steps import Failure

HEAD = 1 << 20                  # as in plugin/memory.c
RAM = 0x40000000                # where the memory of the board begins
FIRST, LAST = b'OSRELEASE=', b'NUMBER(kimage_voffset)='
ET_CORE, EM_AARCH64, PT_LOAD, PT_NOTE = 4, 183, 1, 4
IDENT = b'\x7fELF\x02\x01\x01'  # 64 bits, little endian
EHDR, PHDR = '<16sHHIQQQIHHHHHH', '<IIQQQQQQ'
NOTE = b'VMCOREINFO\0\0'


def pieces(file: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of what is not a hole."""
    end, size = HEAD, os.fstat(file).st_size
    while end < size:
        try:
            begin = os.lseek(file, end, os.SEEK_DATA)
        except OSError:         # there is a hole up to the end
            return
        end = os.lseek(file, begin, os.SEEK_HOLE)
        yield begin, end


def description(file: int) -> bytes:
    """Return VMCOREINFO. The text with which it begins is in the kernel's code, too."""
    with mmap.mmap(file, 0, prot=mmap.PROT_READ) as memory:
        for begin, end in pieces(file):
            place = memory.find(FIRST, begin, end)
            while place >= 0:
                found = memory[place:memory.find(b'\0', place)]
                if LAST in found:
                    return found
                place = memory.find(FIRST, place + 1, end)
    raise Failure('the copy of the memory holds no kernel')


def header(size: int, info: bytes) -> bytes:
    """Return what stands before the memory."""
    note = struct.pack('<III', len(NOTE) - 1, len(info), 0) + NOTE + info + b'\0' * (-len(info) % 4)
    begin, each = struct.calcsize(EHDR), struct.calcsize(PHDR)
    notes = begin + 2 * each
    return struct.pack(EHDR, IDENT, ET_CORE, EM_AARCH64, 1, 0, begin, 0, 0, begin, each, 2, 0, 0, 0) + \
        struct.pack(PHDR, PT_NOTE, 0, notes, 0, 0, len(note), len(note), 4) + \
        struct.pack(PHDR, PT_LOAD, 7, HEAD, RAM, RAM, size, size, 0) + note


def complete(copy: Path) -> None:
    """Write the header of a copy."""
    try:
        with open(copy, 'r+b') as file:
            head = header(os.fstat(file.fileno()).st_size - HEAD, description(file.fileno()))
            file.seek(0)
            file.write(head)
    except (OSError, ValueError) as error:
        raise Failure(f'{copy}: the copy of the memory cannot be used: {error}') from None

# SPDX-License-Identifier: GPL-2.0
"""Read the pages of the kernel's trace buffer, as trace_pipe_raw returns them.

The kernel describes the pages in events/header_page, and each event in its own file `format`.
Only the headers between events are not described there. Their meaning is that of
include/linux/ring_buffer.h in the kernel's source: libtraceevent relies on it, too.
"""
import dataclasses
import re
import struct
from collections.abc import Iterator, Sequence

FIELD = re.compile(r'^\s*field:(.*?)(\w+)(?:\[\d*\])?;\s*offset:(\d+);\s*size:(\d+);', re.M)
# A header is a word: 5 bits of kind or length, 27 bits of time since the event before.
KIND_BITS, TIME_BITS = 5, 27
LONG, LAST_SHORT, PADDING, MORE_TIME, WHOLE_TIME = 0, 28, 29, 30, 31
SIZE_MASK = (1 << 30) - 1       # the bits above say that events were lost before this page
ABSOLUTE_BITS = 59              # of a time in the buffer; the upper ones are those of the time before
WORD = struct.Struct('=I')
PAIR = struct.Struct('=II')
CODES = {1: 'b', 2: 'h', 4: 'i', 8: 'q'}


@dataclasses.dataclass(frozen=True)
class Field:
    kind: str
    offset: int
    size: int


class Format:
    """The fields of an event, from its file `format`."""

    def __init__(self, text: str):
        number = re.search(r'^ID: (\d+)$', text, re.M)
        self.number = int(number[1]) if number else 0
        self.fields = {name: Field(kind.strip(), int(offset), int(size))
                       for kind, name, offset, size in FIELD.findall(text)}

    def reader(self, names: Sequence[str]) -> struct.Struct:
        """Return what unpacks these fields, which have to be in the order of their offsets."""
        words, at = ['='], 0
        for name in names:
            field = self.fields[name]
            words.append(f'{field.offset - at}x{CODES[field.size]}')
            at = field.offset + field.size
        return struct.Struct(''.join(words))


class Page:
    """Where in a page its time, its length and its events are, from events/header_page."""

    def __init__(self, text: str):
        fields = Format(text).fields
        self.data = fields['data'].offset
        self.header = Format(text).reader(['timestamp', 'commit'])

    def time(self, page: bytes) -> int:
        """Return the time at which the page begins."""
        return self.header.unpack_from(page)[0]

    def events(self, page: bytes) -> Iterator[tuple[int, int]]:
        """Yield the time and the offset of each event."""
        time, committed = self.header.unpack_from(page)
        at, end = self.data, self.data + (committed & SIZE_MASK)
        while at < end:
            word, = WORD.unpack_from(page, at)
            kind, delta = word & ((1 << KIND_BITS) - 1), word >> KIND_BITS
            if LONG < kind <= LAST_SHORT:
                time += delta
                yield time, at + 4
                at += 4 + 4 * kind
                continue
            if kind == PADDING and not delta:       # up to the end of the page
                return
            more, = WORD.unpack_from(page, at + 4)
            if kind == MORE_TIME:
                time += delta + (more << TIME_BITS)
                at += 8
            elif kind == WHOLE_TIME:
                time = time >> ABSOLUTE_BITS << ABSOLUTE_BITS | delta + (more << TIME_BITS)
                at += 8
            else:
                time += delta
                if kind == LONG:
                    yield time, at + 8
                at += 4 + more


def text_of(page: bytes, start: int, place: int) -> bytes:
    """Return a string of an event that begins at `start`. `place` is its __data_loc field: offset and length."""
    begin = start + (place & 0xffff)
    return page[begin:begin + (place >> 16 & 0xffff) - 1]


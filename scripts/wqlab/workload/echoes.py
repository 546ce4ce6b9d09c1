# SPDX-License-Identifier: GPL-2.0
"""Echo requests (ICMP), and how long each takes until this program has the reply.

The kernel at the other end replies, so only this program has to be woken. `ping` cannot do
this: between requests that are less than 10 ms apart it does not sleep but polls, and would
take a CPU from what is measured.
"""
import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from wqlab.workload.cases import Wrong
from wqlab.workload.namespaces import Namespace
from wqlab.workload.streams import changed

# Root may have sockets for echo requests. The file is that of the namespace of the reader.
GROUPS = Path('/proc/sys/net/ipv4/ping_group_range')
REQUEST = bytes([8, 0, 0, 0, 0, 0, 0, 0])       # the kernel fills in checksum and identifier
NUMBER = struct.Struct('!Q')
CONTENT = 48
SHARES = {'p50_us': 500, 'p99_us': 990, 'p999_us': 999}


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """Return percentiles of times in seconds, in microseconds. Each is a time that was measured."""
    ordered = sorted(times)
    return {name: 1e6 * ordered[-(-share * len(ordered) // 1000) - 1] for name, share in SHARES.items() if ordered}


@contextlib.contextmanager
def endpoint(place: Namespace) -> Iterator[socket.socket]:
    """Yield a socket for echo requests in a namespace."""
    with place.entered():
        GROUPS.write_text('0 0')
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    with found:
        found.setblocking(False)
        yield found


class Echoes:
    """The requests of one measurement."""

    def __init__(self, source: socket.socket, spoil: str | None):
        self.source, self.spoil = source, spoil
        self.sent, self.content = 0, b''
        self.waiting: dict[int, tuple[float, bytes]] = {}
        self.times: list[float] = []

    def send(self, target: tuple[str, int]) -> None:
        number, before, self.content = self.sent, self.content, os.urandom(CONTENT)
        packet = REQUEST + NUMBER.pack(number) + changed(self.content, before, number, self.spoil)
        self.sent += 1
        self.waiting[number] = time.perf_counter(), self.content
        with contextlib.suppress(BlockingIOError):      # too many are under way: this one is lost
            self.source.sendto(packet, target)

    def take(self) -> None:
        """Take a reply. Raise Wrong unless it has the data of a request that had none."""
        reply, now = self.source.recv(2048)[len(REQUEST):], time.perf_counter()
        number, = NUMBER.unpack_from(reply)
        if number not in self.waiting:
            raise Wrong(f'the reply to echo request {number} arrived twice')
        begun, content = self.waiting.pop(number)
        if reply[NUMBER.size:] != content:
            raise Wrong(f'the reply to echo request {number} has other data')
        self.times.append(now - begun)

    def ready(self, until: float) -> bool:
        """Wait for a reply."""
        return bool(select.select([self.source], [], [], max(0.0, until - time.perf_counter()))[0])

    def finish(self, seconds: float) -> None:
        """Wait for the replies that are missing."""
        until = time.perf_counter() + seconds
        while self.waiting and self.ready(until):
            self.take()

    def at_intervals(self, target: tuple[str, int], interval: float, done: Callable[[], bool]) -> None:
        """Send requests until done() says that it is enough, whether or not replies come."""
        due = time.perf_counter()
        while not done():
            self.send(target)
            due = max(due + interval, time.perf_counter())
            while self.ready(due):
                self.take()

    def at_once(self, targets: Sequence[tuple[str, int]], seconds: float) -> float:
        """Send a request to each, and wait for all replies. Return how long that took."""
        begun = time.perf_counter()
        for target in targets:
            self.send(target)
        self.finish(seconds)
        if self.waiting:
            raise Wrong(f'{len(self.waiting)} of {len(targets)} peers did not reply within {seconds:g} s')
        return time.perf_counter() - begun

    def figures(self) -> dict[str, float]:
        return {'lost_percent': 100 * len(self.waiting) / self.sent if self.sent else 0.0,
                **percentiles(self.times), 'ios': len(self.times)}

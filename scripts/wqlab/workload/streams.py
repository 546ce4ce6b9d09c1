# SPDX-License-Identifier: GPL-2.0
"""Send random data through a network, both ways at once, and compare it with what arrives.

Each flow is a TCP connection. The SHA-512 of what was sent and of what arrived are compared
here, so nothing about them goes through the network. No data is sent twice.
"""
import contextlib
import hashlib
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from wqlab.workload.cases import Wrong
from wqlab.workload.namespaces import Namespace

PIECE = 64 << 10
STALL_S = 30.0          # a flow that rests for so long has lost something
SPOIL_EVERY = 50


class Stream(NamedTuple):
    bytes: int
    digest: str


def changed(piece: bytes, before: bytes, number: int, spoil: str | None) -> bytes:
    """Return what is sent in place of a piece: as a test, one of 50 is wrong, the second one first."""
    if spoil is None or number % SPOIL_EVERY != 1:
        return piece
    return before if spoil == 'stale' else bytes([piece[0] ^ 1]) + piece[1:]


def send(connection: socket.socket, seconds: float, spoil: str | None) -> Stream:
    """Send at least two pieces, and more for as long as wanted. Return what should arrive."""
    found, number, piece = hashlib.sha512(), 0, b''
    end = time.monotonic() + seconds
    while number < 2 or time.monotonic() < end:
        before, piece = piece, os.urandom(PIECE)
        found.update(piece)
        connection.sendall(changed(piece, before, number, spoil))
        number += 1
    connection.shutdown(socket.SHUT_WR)
    return Stream(number * PIECE, found.hexdigest())


def receive(connection: socket.socket) -> Stream:
    found, count = hashlib.sha512(), 0
    while piece := connection.recv(PIECE):
        found.update(piece)
        count += len(piece)
    return Stream(count, found.hexdigest())


@contextlib.contextmanager
def connections(server: Namespace, client: Namespace, address: str,
                flows: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Yield both ends of each connection."""
    with contextlib.ExitStack() as stack:
        with server.entered():
            listener = stack.enter_context(socket.create_server((address, 0), backlog=flows))
        listener.settimeout(STALL_S)
        found = []
        for _ in range(flows):
            with client.entered():
                there = stack.enter_context(socket.create_connection(listener.getsockname(), timeout=STALL_S))
            here = stack.enter_context(listener.accept()[0])
            here.settimeout(STALL_S)
            found.append((here, there))
        yield found


def transfer(ends: list[tuple[socket.socket, socket.socket]], seconds: float,
             spoil: str | None) -> list[tuple[Stream, Stream]]:
    """Return what was sent and what arrived, for both directions of each connection."""
    ways = [way for here, there in ends for way in ((here, there), (there, here))]
    with ThreadPoolExecutor(2 * len(ways)) as threads:
        running = [(threads.submit(send, source, seconds, spoil), threads.submit(receive, target))
                   for source, target in ways]
        try:
            return [(sent.result(), arrived.result()) for sent, arrived in running]
        except BaseException:
            for source, _ in ways:      # do not wait for the other flows
                with contextlib.suppress(OSError):
                    source.shutdown(socket.SHUT_RDWR)
            raise


def verify(server: Namespace, client: Namespace, address: str, flows: int, seconds: float, spoil: str | None) -> int:
    """Send data for about this long. Return how many bytes arrived. Raise Wrong unless they are those that were sent.

    address: of the server; spoil: send other data than what is compared, as a test
    """
    try:
        with connections(server, client, address, flows) as ends:
            found = transfer(ends, seconds, spoil)
    except OSError as error:
        raise Wrong(f'a flow of data broke off: {error}') from None
    for sent, arrived in found:
        if sent != arrived:
            raise Wrong(f'{sent.bytes} bytes were sent, and {arrived.bytes} bytes of other data arrived')
    return sum(arrived.bytes for _, arrived in found)

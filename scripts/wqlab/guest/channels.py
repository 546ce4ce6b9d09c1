# SPDX-License-Identifier: GPL-2.0
"""Channels carry the output and the input of a guest. A reader splits the output into lines."""
import contextlib
import os
import re
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import IO

SO_SNDBUFFORCE = 32     # include/uapi/asm-generic/socket.h
SOCKET_BYTES = 16 << 20
PIECE_BYTES = 1 << 16
PANICKED = '---[ end Kernel panic'
MOST_KEPT = 64 << 20     # characters; a guest that prints more is killed
LOG, OUT = 'log', 'out'     # the channels of the kernel's log and of the command's output
READY = 'ready'
PAUSE = re.compile(r'(?:# )?host: pause (\d\d?)$')     # the command asks to be stopped for so many seconds
END_OF_INPUT = b'\x04'       # for a terminal
Show = Callable[[str], object]         # gets the command's output, line by line


class FileChannel:
    """A file that grows. A socket does not serve for QEMU: its serial ports drop output when a socket is full."""

    def __init__(self, path: Path):
        self.source = open(path, 'w+b', buffering=0)
        self.far = open(path, 'ab')

    def read(self) -> bytes:
        return self.source.read(PIECE_BYTES) or b''

    def close(self) -> None:
        self.source.close()
        self.far.close()


class SocketChannel:
    """
    A socket. UML's consoles need something that they can poll. They drop output when it is full. So, as root, we make
    its buffer large enough for the state of all tasks.
    """

    def __init__(self) -> None:
        self.source, self.far = socket.socketpair()
        self.source.setblocking(False)
        with contextlib.suppress(PermissionError):
            self.far.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BYTES)

    def read(self) -> bytes:
        try:
            return self.source.recv(PIECE_BYTES)
        except (BlockingIOError, ConnectionResetError):
            return b''

    def send(self, data: bytes) -> int:
        """Write to the guest. Return how many bytes it took."""
        try:
            return self.source.send(data)
        except (BlockingIOError, BrokenPipeError):
            return 0

    def close(self) -> None:
        self.source.close()
        self.far.close()


Channels = dict[str, FileChannel | SocketChannel]


class Feeder:
    """Passes what can be read from a file to the command. At the end of the file, the command sees the end, too."""

    def __init__(self, source: int, channel: SocketChannel):
        self.source, self.channel = source, channel
        self.rest = b''
        self.ended = False

    def poll(self) -> None:
        if not self.rest and not self.ended and select.select([self.source], [], [], 0)[0]:
            self.rest = os.read(self.source, PIECE_BYTES)
            self.ended = not self.rest
            self.rest = self.rest or END_OF_INPUT
        if self.rest:
            self.rest = self.rest[self.channel.send(self.rest):]


class Reader:
    """
    Splits the output of the channels into lines, keeps them, and passes them on. Everything but the command's output
    counts as kernel log. The line that contains the mark ends with the command's exit status, or with READY as soon as
    the command gets input.
    """

    def __init__(self, channels: Channels, mark: str, show: Show | None = None, log: str | Path | None = None):
        self.channels, self.mark, self.show = channels, mark, show
        self.rc: int | None = None
        self.ready = self.panicked = False
        self.pause_s = 0
        self.all: list[str] = []
        self.kept: dict[str, list[str]] = {LOG: [], OUT: []}
        self.rest = dict.fromkeys(channels, '')
        self.size = 0
        self.file: IO[str] | None = open(log, 'w', encoding='utf-8') if log else None
        self.unlogged = ''      # why the log file is not complete

    @property
    def flooded(self) -> bool:
        return self.size > MOST_KEPT

    def poll(self) -> bool:
        """Read what is available. Return False if there was nothing."""
        got = False
        for name, channel in self.channels.items():
            data = channel.read()
            if data:
                got = True
                self._feed(name, data)
        return got

    def _feed(self, name: str, data: bytes) -> None:
        lines = (self.rest[name] + data.decode('utf-8', 'replace').replace('\r', '')).split('\n')
        self.rest[name] = lines.pop()
        for line in lines:
            self._line(name, line + '\n')

    def _line(self, name: str, text: str) -> None:
        if name == OUT and self.mark in text:
            text, _, rc = text.partition(self.mark)
            if rc.strip() == READY:
                self.ready = True
            else:       # the line is incomplete if the guest was killed
                self.rc = int(rc) if rc.strip().isdigit() else None
            if not text:
                return
        pause = PAUSE.match(text) if name == OUT else None
        if pause:
            self.pause_s = int(pause[1])
        self.panicked = self.panicked or name == LOG and PANICKED in text
        self.size += len(text)
        if self.size > 2 * MOST_KEPT:   # the guest is being killed and still prints
            return
        self.kept[OUT if name == OUT else LOG].append(text)
        self.all.append(text)
        self._log(text)
        if name == OUT and self.show:
            self.show(text)

    def _log(self, text: str) -> None:
        """Write to the log file. If the disk is full, the rest of the log is lost, but the guest goes on."""
        if not self.file:
            return
        try:
            self.file.write(text)
            self.file.flush()
        except OSError as error:
            self.unlogged = str(error)
            with contextlib.suppress(OSError):
                self.file.close()
            self.file = None

    def close(self) -> None:
        """Read the rest, including incomplete lines, and close everything."""
        while self.poll():
            pass
        for name, text in self.rest.items():
            if text:
                self._line(name, text)
        for channel in self.channels.values():
            channel.close()
        if self.file:
            self.file.close()

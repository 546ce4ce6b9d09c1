# SPDX-License-Identifier: GPL-2.0
"""The guests that run now, each with its monitor socket: what dump-guest.sh chooses from.

Each is a file build/guests/NAME.json; its name is the number of the process that
started it, with another number for the second of a process and so on.
"""
import contextlib
import dataclasses
import itertools
import json
import os
import time
from pathlib import Path

from wqlab import files
from wqlab.paths import BUILD

FOLDER = BUILD / 'guests'
NUMBERS = itertools.count(1)


@dataclasses.dataclass
class Guest:
    name: str
    pid: int            # of who started it
    qmp: str            # path of the socket
    kernel: str         # build folder
    vmlinux_time: int   # of the vmlinux that it was booted with, ns; 0: there was none
    what: str           # in words
    since: float

    @property
    def place(self):
        return FOLDER / f'{self.name}.json'

    def alive(self):
        return Path(f'/proc/{self.pid}').exists() and Path(self.qmp).exists()


def vmlinux_time(folder):
    """Tells a kernel from one that was built in its place later."""
    try:
        return (Path(folder) / 'vmlinux').stat().st_mtime_ns
    except OSError:
        return 0


def socket_path():
    """Where this process' guest is to have its monitor, relative if that is shorter (107 bytes are the limit)."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = str(FOLDER / f'{os.getpid()}.qmp')
    return min(path, os.path.relpath(path), key=len)


@contextlib.contextmanager
def announced(kernel, qmp, what):
    """While this holds, the guest of this process is on the list."""
    number, pid = next(NUMBERS), os.getpid()
    name = f'{pid}-{number}' if number > 1 else str(pid)
    guest = Guest(name, pid, os.path.abspath(qmp), str(kernel), vmlinux_time(kernel), ' '.join(what.split()),
                  time.time())
    files.write(guest.place, json.dumps(dataclasses.asdict(guest)))
    try:
        yield
    finally:
        guest.place.unlink(missing_ok=True)
        Path(guest.qmp).unlink(missing_ok=True)


def guests():
    """Those that run, oldest first; what a killed process left on the list is taken off."""
    found = []
    for place in FOLDER.glob('*.json'):
        try:
            guest = Guest(**json.loads(place.read_text()))
        except (OSError, ValueError, TypeError):
            continue
        if guest.alive():
            found.append(guest)
        elif not Path(f'/proc/{guest.pid}').exists():
            place.unlink(missing_ok=True)
            Path(guest.qmp).unlink(missing_ok=True)
    return sorted(found, key=lambda guest: guest.since)

# SPDX-License-Identifier: GPL-2.0
"""The list of running guests with their monitor sockets. dump-guest.sh reads it.

Each guest has a file build/guests/NAME.json. NAME is the ID of the process that started the
guest, followed by -2, -3 and so on if the process starts more than one.
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
    pid: int            # of the process that started it
    qmp: str            # path of the socket
    kernel: str         # build folder
    what: str           # a description for the user
    since: float

    @property
    def place(self):
        return FOLDER / f'{self.name}.json'

    def alive(self):
        return Path(f'/proc/{self.pid}').exists() and Path(self.qmp).exists()


def socket_path():
    """Return the path of the monitor socket for this process. It is relative if that is shorter (limit: 107 bytes)."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = str(FOLDER / f'{os.getpid()}.qmp')
    return min(path, os.path.relpath(path), key=len)


@contextlib.contextmanager
def announced(kernel, qmp, what):
    """Keep the guest of this process on the list while the block runs."""
    number, pid = next(NUMBERS), os.getpid()
    name = f'{pid}-{number}' if number > 1 else str(pid)
    guest = Guest(name, pid, os.path.abspath(qmp), str(kernel), ' '.join(what.split()), time.time())
    files.write(guest.place, json.dumps(dataclasses.asdict(guest)))
    try:
        yield
    finally:
        guest.place.unlink(missing_ok=True)
        Path(guest.qmp).unlink(missing_ok=True)


def guests():
    """Return the running guests, oldest first. Remove the entries of killed processes."""
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

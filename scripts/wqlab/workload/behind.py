# SPDX-License-Identifier: GPL-2.0
"""Make the files of a server wrong behind the back of its clients, to test that this is noticed."""
import contextlib
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

from wqlab.workload import machine
from wqlab.workload.disks import files

EVERY_S = 0.02


def corrupt(folder: Path, stop: threading.Event) -> None:
    """Change a random byte of each file, again and again."""
    while not stop.wait(EVERY_S):
        for path in files(folder):
            file = os.open(path, os.O_RDWR)
            place = random.randrange(os.fstat(file).st_size or 1)
            os.pwrite(file, bytes(byte ^ 0xff for byte in os.pread(file, 1, place)), place)
            os.close(file)


def make_stale(folder: Path, stop: threading.Event) -> None:
    """Undo what was written to each file meanwhile, again and again."""
    while not stop.is_set():
        before = {path: path.read_bytes() for path in files(folder)}
        stop.wait(EVERY_S)
        for path, data in before.items():
            with open(path, 'r+b') as file:
                file.write(data)


SPOIL = {'corrupt': corrupt, 'stale': make_stale}


@contextlib.contextmanager
def spoilt(folder: Path, how: str | None) -> Iterator[None]:
    """Meanwhile, change the files of a folder. Without `how`, leave them alone."""
    if not how:
        yield
        return
    with machine.meanwhile(SPOIL[how], folder):
        yield

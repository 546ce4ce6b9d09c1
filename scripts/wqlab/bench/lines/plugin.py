# SPDX-License-Identifier: GPL-2.0
"""Compile the plugin, and give it orders through a file that both map."""
import ctypes
import hashlib
import mmap
import subprocess
from pathlib import Path

from wqlab import files
from wqlab.paths import BUILD

HERE = Path(__file__).parent
SOURCES = (HERE / 'plugin.c', HERE / 'qemu_plugin.h')
CC = ('gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', '-fvisibility=hidden')
MAX_CPUS = 64
IDLE, ARMED, COUNTING, DONE, FAILED = range(5)
MARKS = {'queue': 'queue_work_on', 'switch': '__switch_to'}


class PluginError(Exception):
    """The plugin cannot be compiled or used."""


def build(folder: Path = BUILD / 'lines') -> Path:
    """Return the compiled plugin. Its name depends on its source, so an old one is never used."""
    digest = hashlib.sha256(b''.join(path.read_bytes() for path in SOURCES)).hexdigest()[:12]
    target = folder / f'plugin-{digest}.so'
    if target.exists():
        return target
    with files.replacing(target, 0o755) as temp:
        try:
            done = subprocess.run([*CC, '-o', temp, SOURCES[0]], capture_output=True, text=True, check=False)
        except OSError as error:
            raise PluginError(f'the plugin of --lines cannot be compiled: {CC[0]}: {error.strerror}') from None
        if done.returncode:
            said = done.stderr.splitlines() or ['no message']
            raise PluginError(f'the plugin of --lines cannot be compiled: {said[0]}')
    return target


def marks(system_map: Path) -> dict[str, str]:
    """Return the addresses where visits begin, as arguments of the plugin."""
    found = {}
    try:
        with open(system_map, encoding='ascii') as file:
            for line in file:
                address, _, symbol = line.split()
                found[symbol] = address
        return {argument: found[symbol] for argument, symbol in MARKS.items()}
    except (OSError, ValueError) as error:
        raise PluginError(f'{system_map} cannot be read: {error}') from None
    except KeyError as error:
        raise PluginError(f'{system_map} has no {error.args[0]}: build the kernel again') from None


def argument(path: Path, **values: object) -> str:
    """Return the argument of QEMU's option -plugin, in which a comma is doubled."""
    words = [str(path), *(f'{key}={value}' for key, value in values.items())]
    return ','.join(word.replace(',', ',,') for word in words)


class Layout(ctypes.Structure):
    """struct control of plugin.c"""
    _fields_ = (('state', ctypes.c_uint32), ('submitters', ctypes.c_uint32), ('warmup', ctypes.c_uint64),
                ('count', ctypes.c_uint64), ('item', ctypes.c_uint64), ('items', ctypes.c_uint64),
                ('ran', ctypes.c_uint64), ('full', ctypes.c_uint64), ('queued', ctypes.c_uint64 * MAX_CPUS))


class Control:
    """What this program and the plugin tell each other."""

    def __init__(self, path: Path):
        path.write_bytes(bytes(ctypes.sizeof(Layout)))
        with open(path, 'r+b') as file:
            self.shared = Layout.from_buffer(mmap.mmap(file.fileno(), 0))

    def arm(self, submitters: int, warmup: int, count: int, item: int) -> None:
        """Count from when each submitter has queued `warmup` items until one has queued `count` more."""
        self.shared.state = IDLE
        self.shared.queued[:] = [0] * MAX_CPUS
        self.shared.submitters, self.shared.warmup, self.shared.count = submitters, warmup, count
        self.shared.item = item
        self.shared.state = ARMED

    def release(self) -> None:
        """The result was fetched, so the guest may go on at its own pace."""
        self.shared.state = IDLE

    @property
    def state(self) -> int:
        return self.shared.state

    @property
    def items(self) -> int:
        """Items that were queued while it counted."""
        return self.shared.items

    @property
    def ran(self) -> int:
        """Items that began to run meanwhile."""
        return self.shared.ran

    @property
    def full(self) -> int:
        """Accesses that could not be counted."""
        return self.shared.full

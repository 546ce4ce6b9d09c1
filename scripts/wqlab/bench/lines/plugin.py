# SPDX-License-Identifier: GPL-2.0
"""Compile the plugin, and give it orders through a file that both map."""
import ctypes
import mmap
from pathlib import Path

from wqlab.guest import plugins
from wqlab.guest.plugins import PluginError
from wqlab.paths import BUILD

SOURCE = Path(__file__).parent / 'plugin.c'
MAX_CPUS = 64
IDLE, ARMED, COUNTING, DONE, FAILED = range(5)
MARKS = {'queue': 'queue_work_on', 'switch': '__switch_to'}


def build(folder: Path = BUILD / 'lines') -> Path:
    """Return the compiled plugin."""
    return plugins.build([SOURCE], folder / 'plugin')


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

# SPDX-License-Identifier: GPL-2.0
"""Save evidence from a guest that failed, before the guest is killed.

QEMU writes the guest's memory to a file. UML cannot do that. Instead, it is asked to print
all tasks and workqueues to its log.
"""
import socket
import struct
from pathlib import Path

from wqlab import files
from wqlab.guest import dump as dump_guest
from wqlab.guest import qmp
from wqlab.steps import Failure

# arch/um/drivers/mconsole.h: magic, version, length, text
MCONSOLE = struct.Struct('=III512s')
MCONSOLE_MAGIC, MCONSOLE_VERSION = 0xcafebabe, 2


class PostMortem:
    """Passed to guest.run(): saves the memory of a QEMU guest as `core`."""

    def __init__(self, engine, core):
        self.engine, self.path = engine, Path(core)
        self.core = None        # the path, once it is written
        self.trouble = ''       # why it is not

    def __call__(self, place, rc):
        """Return True if the guest may still print something that belongs to the failure."""
        asked = False
        try:
            if self.engine != 'uml':
                write_core(place, self.path)
                self.core = self.path
            elif rc is None:
                ask_uml(place, 'sysrq t')
                asked = True
        except (Failure, OSError) as error:
            self.trouble = str(error)
        # A guest that hangs may go on printing for ever.
        return asked or rc is not None


def write_core(qmp_socket, path):
    """Write the guest's memory as an ELF core, atomically."""
    with qmp.Monitor(qmp_socket) as monitor:
        dump_guest.check_room(path.parent, monitor.memory_size())
        with files.replacing(path) as temp, open(temp, 'wb') as file:
            monitor.dump(file)


def ask_uml(folder, text):
    """Send a command to the mconsole of the UML whose files are in `folder`."""
    found = sorted(Path(folder).glob('*/mconsole'))
    if not found:
        raise OSError('UML has no mconsole: its state cannot be printed')
    request = MCONSOLE.pack(MCONSOLE_MAGIC, MCONSOLE_VERSION, len(text), text.encode())
    # Do not wait for the answer: UML sends it only after its console has been read. The
    # same text goes to the console.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(request, str(found[0]))

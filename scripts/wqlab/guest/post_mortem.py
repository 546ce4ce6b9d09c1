# SPDX-License-Identifier: GPL-2.0
"""What is kept of a guest that failed, taken before it is killed.

QEMU writes the guest's memory. UML has its log alone, so that it is asked to put all
tasks and workqueues there.
"""
import socket
import struct
from pathlib import Path

from wqlab import files
from wqlab.guest import dump as dump_guest
from wqlab.guest import qmp

# arch/um/drivers/mconsole.h: magic, version, length, text
MCONSOLE = struct.Struct('=III512s')
MCONSOLE_MAGIC, MCONSOLE_VERSION = 0xcafebabe, 2


class PostMortem:
    """For guest.run(): keeps the memory of a QEMU guest as `core`."""

    def __init__(self, engine, core):
        self.engine, self.path = engine, Path(core)
        self.core = None        # the path, once it is written
        self.trouble = ''       # why it is not

    def __call__(self, place, rc):
        try:
            if self.engine != 'uml':
                write_core(place, self.path)
                self.core = self.path
            elif rc is None:
                ask_uml(place, 'sysrq t')
        except (qmp.QmpError, dump_guest.DumpError, OSError) as error:
            self.trouble = str(error)


def write_core(qmp_socket, path):
    """The guest's memory as an ELF core, whole or not at all."""
    with qmp.Monitor(qmp_socket) as monitor:
        dump_guest.check_room(path.parent, monitor.memory_size())
        with files.replacing(path) as temp, open(temp, 'wb') as file:
            monitor.dump(file)


def ask_uml(folder, text):
    """Send a command to the mconsole of the one UML that has it below `folder`."""
    found = sorted(Path(folder).glob('*/mconsole'))
    if not found:
        raise OSError('UML had no mconsole')
    request = MCONSOLE.pack(MCONSOLE_MAGIC, MCONSOLE_VERSION, len(text), text.encode())
    # What it says goes to its console, too: nobody waits for the answer, as UML waits
    # for the console to be read meanwhile.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(request, str(found[0]))

# SPDX-License-Identifier: GPL-2.0
"""A guest as it is asked for, for those that make its initrd and start it."""
import dataclasses
import secrets
from collections.abc import Sequence
from pathlib import Path

from wqlab.guest.topology import Topology


@dataclasses.dataclass
class Setup:
    image: Path
    folder: Path                # where the kernel was built, with its modules
    topology: Topology
    mem: int                    # in MB
    command: str
    shaped: bool = False        # a topology was asked for, not just a number of CPUs
    append: str = ''            # parameters of the kernel
    accel: str = 'auto'
    icount: bool = False        # time is counted in instructions
    files: Sequence[str] = ()   # HOST:GUEST
    bins: Sequence[str] = ()    # programs of the host
    qmp: str | None = None      # where to put the monitor's socket
    stays: bool = False         # a guest that failed stands still, for a post mortem
    place: Path = Path()        # a folder of this guest's own, for its initrd and channels
    # Printed before the command's exit status, to tell that line from the command's output.
    mark: str = dataclasses.field(default_factory=lambda: f'guest-exit-{secrets.token_hex(8)}=')

# SPDX-License-Identifier: GPL-2.0
"""The description of a guest to boot."""
import dataclasses
import secrets
from collections.abc import Sequence
from pathlib import Path

from wqlab.guest.topology import Topology
from wqlab.simulated.qemu import Simulation


@dataclasses.dataclass
class Setup:
    image: Path
    folder: Path                # the kernel's build folder, with its modules
    topology: Topology
    mem: int                    # in MB
    command: str
    shaped: bool = False        # a topology was requested, not just a number of CPUs
    append: str = ''            # parameters of the kernel
    accel: str = 'auto'
    icount: bool = False        # time is counted in instructions
    files: Sequence[str] = ()   # HOST:GUEST
    bins: Sequence[str] = ()    # programs of the host
    qmp: str | None = None      # where to put the monitor's socket
    simulation: Simulation | None = None        # what computes the guest's time
    stdin: bool = False         # the command gets input through the channel of its output
    stays: bool = False         # if the guest fails, it keeps running for a post mortem
    place: Path = Path()        # a folder for this guest only, with its initrd and channels
    # Printed before the command's exit status. It distinguishes that line from the command's output.
    mark: str = dataclasses.field(default_factory=lambda: f'guest-exit-{secrets.token_hex(8)}=')

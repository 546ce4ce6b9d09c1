# SPDX-License-Identifier: GPL-2.0
"""What each engine that boots a kernel has to say about itself."""
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wqlab import procs
from wqlab.guest import GuestError
from wqlab.guest.channels import Channels
from wqlab.guest.initramfs import Archive
from wqlab.guest.setup import Setup
from wqlab.guest.topology import Topology


class Engine:
    """The interface; what is the same for all engines, or for most of them, is done here."""
    name = ''
    image = ''                  # where a build folder has the kernel
    out_device = ''             # where the guest writes the command's output to
    own_output = ''             # the channel that takes what the engine itself says
    strip = 'strip'
    has_monitor = True          # a QMP socket
    stand_still = ''            # the parameter that keeps a kernel that panicked from rebooting
    may_use_kvm = False

    def check(self, setup: Setup) -> None:
        """Refuse what this engine or this machine cannot do."""

    def channels(self, place: Path) -> Channels:
        raise NotImplementedError

    def command(self, setup: Setup, channels: Channels) -> list[str]:
        raise NotImplementedError

    def early_archive(self, topology: Topology) -> bytes:
        """What the kernel must find before all else in the initrd."""
        return b''

    def userland(self) -> list[Path]:
        """The files of the host that add_userland() takes, by which a copy of them is known."""
        return [Path(found).resolve() for found in map(shutil.which, ('busybox', 'dash', 'kmod')) if found]

    def add_userland(self, archive: Archive, module_tools: Sequence[str]) -> None:
        archive.binary('busybox', 'bin/busybox')
        archive.binary('dash', 'bin/sh')
        archive.binary('kmod', 'bin/kmod')
        for tool in module_tools:
            archive.link(f'sbin/{tool}', '../bin/kmod')

    def started(self, setup: Setup, channels: Channels) -> contextlib.AbstractContextManager[subprocess.Popen]:
        output = channels[self.own_output].far
        return procs.kept(self.command(setup, channels), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                          pass_fds=[channel.far.fileno() for channel in channels.values()],
                          env={**os.environ, 'TMPDIR': folder_for_memory()})

    def witness(self, setup: Setup) -> str | Path | None:
        """Where a post mortem asks a guest that still runs: its monitor."""
        return setup.qmp


def folder_for_memory() -> str:
    """UML keeps the guest's memory in a file, which belongs into RAM where there is such a place."""
    return '/dev/shm' if os.access('/dev/shm', os.W_OK) else tempfile.gettempdir()


def need(program: str, how: str = 'run scripts/deps.sh as root') -> None:
    if not shutil.which(program):
        raise GuestError(f'{program} is not installed here: {how}')

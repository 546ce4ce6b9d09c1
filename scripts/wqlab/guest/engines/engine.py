# SPDX-License-Identifier: GPL-2.0
"""The interface of the engines that boot a kernel."""
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wqlab import procs
from wqlab.guest.channels import Channels
from wqlab.guest.initramfs import Archive
from wqlab.guest.setup import Setup
from wqlab.guest.topology import Topology
from wqlab.kernels import kinds


class Engine:
    """The interface, with the code that all or most engines share."""
    name = ''                   # as in wqlab.kernels.kinds
    out_device = ''             # the guest's device for the command's output
    own_output = ''             # the channel for messages of the engine itself
    strip = 'strip'
    has_monitor = True          # a QMP socket
    stand_still = ''            # the kernel parameter that prevents a reboot after a panic
    may_use_kvm = False
    simulates = False           # machines of wqlab.simulated

    @property
    def image(self) -> str:
        """Return the path of the kernel in its build folder."""
        return kinds.ENGINES[self.name].image

    def check(self, setup: Setup) -> None:
        """Raise Failure if this engine or this machine cannot run the guest."""

    def channels(self, setup: Setup) -> Channels:
        raise NotImplementedError

    def command(self, setup: Setup, channels: Channels) -> list[str]:
        raise NotImplementedError

    def early_archive(self, topology: Topology) -> bytes:
        """Return the archive that must come first in the initrd."""
        return b''

    def userland(self) -> list[Path]:
        """Return the host's files that add_userland() copies. They are part of the key of the cached archive."""
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
                          env={**os.environ, 'TMPDIR': folder_for_memory(), **self.environment(setup)})

    def environment(self, setup: Setup) -> dict[str, str]:
        """Return what the engine needs in its environment."""
        return {}

    def witness(self, setup: Setup) -> str | Path | None:
        """Return the place where a post mortem can query the running guest: its monitor."""
        return setup.qmp


def folder_for_memory() -> str:
    """Return a folder for the file in which UML keeps the guest's memory. It is in RAM if possible."""
    return '/dev/shm' if os.access('/dev/shm', os.W_OK) else tempfile.gettempdir()

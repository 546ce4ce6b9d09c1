# SPDX-License-Identifier: GPL-2.0
"""
QEMU's arm64 machine "virt", always emulated.

It boots with UEFI and ACPI, as NVIDIA's Grace does. On such machines Linux reads the caches from the PPTT.
QEMU's own PPTT has no caches. The one that pptt.py puts into the initrd replaces it.
"""
from collections.abc import Sequence
from pathlib import Path

from wqlab.guest import pptt
from wqlab.guest.engines.qemu import ICOUNT, RAM, Qemu, topology_args
from wqlab.guest.initramfs import Archive
from wqlab.guest.setup import Setup
from wqlab.guest.topology import Topology
from wqlab.kernels import debian
from wqlab.simulated import qemu as simulated
from wqlab.steps import Failure, need

PROGRAM = 'qemu-system-aarch64'
FIRMWARE = Path('/usr/share/qemu-efi-aarch64/QEMU_EFI.fd')
CPU = simulated.CPU
TABLE = 'kernel/firmware/acpi/pptt.aml'


class Arm64(Qemu):
    name = 'arm64'
    out_device = '/dev/ttyS0'
    strip = 'aarch64-linux-gnu-strip'
    may_use_kvm = False
    simulates = True

    def check(self, setup: Setup) -> None:
        need(PROGRAM, self.strip, str(FIRMWARE), engine=self.name)
        if setup.bins or setup.accel == 'kvm':
            raise Failure('arm64 is emulated: leave --accel kvm and --bin out')

    def machine(self, setup: Setup) -> list[str]:
        # With icount, CPUs take turns, and time is the number of instructions that they ran. So a guest with many
        # CPUs does not look stuck on a host with few. dies=1: the PPTT describes the caches, not QEMU.
        board = simulated.BOARD if setup.simulation else [
            '-M', 'virt,gic-version=3', '-accel', *(ICOUNT if setup.icount else ['tcg,thread=multi']), '-cpu', CPU]
        backend = simulated.MEMORY if setup.simulation else RAM
        return [PROGRAM, *board, '-bios', str(FIRMWARE), *topology_args(setup.topology, setup.mem, 1, backend)]

    def environment(self, setup: Setup) -> dict[str, str]:
        return setup.simulation.environment() if setup.simulation else {}

    def serial_ports(self) -> list[str]:
        return ['-serial', 'chardev:log', '-device', 'pci-serial,chardev=out']

    def parameters(self, setup: Setup) -> list[str]:
        return ['console=ttyAMA0', 'acpi=force', 'panic=-1', *([simulated.PARAMETER] if setup.simulation else [])]

    def early_archive(self, topology: Topology) -> bytes:
        """Return an archive with the PPTT. Linux looks for it in the first archive, which must not be compressed."""
        archive = Archive()
        archive.file(TABLE, pptt.pptt(topology))
        return archive.content()

    def userland(self) -> list[Path]:
        """Return the only program of the guest. It is downloaded once."""
        return [debian.busybox()]

    def add_userland(self, archive: Archive, module_tools: Sequence[str]) -> None:
        archive.file('bin/busybox', debian.BUSYBOX.read_bytes(), 0o755)
        archive.link('bin/sh', 'busybox')
        for tool in module_tools:
            archive.link(f'sbin/{tool}', '../bin/busybox')

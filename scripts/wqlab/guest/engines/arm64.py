# SPDX-License-Identifier: GPL-2.0
"""
QEMU's arm64 machine "virt", always emulated.

It boots by UEFI and ACPI, since Linux learns the caches of such machines (NVIDIA's Grace, for one) from
the PPTT. QEMU's own table has none; that of pptt.py takes its place out of the initrd.
"""
from collections.abc import Sequence
from pathlib import Path

from wqlab.guest import GuestError, pptt
from wqlab.guest.engines.engine import need
from wqlab.guest.engines.qemu import ICOUNT, Qemu, topology_args
from wqlab.guest.initramfs import Archive
from wqlab.guest.setup import Setup
from wqlab.guest.topology import Topology
from wqlab.kernels import debian
from wqlab.steps import Failure

PROGRAM = 'qemu-system-aarch64'
FIRMWARE = Path('/usr/share/qemu-efi-aarch64/QEMU_EFI.fd')
# Atomic instructions as newer cores have them, but no pointer authentication, which TCG is slow at.
CPU = 'neoverse-n1'
TABLE = 'kernel/firmware/acpi/pptt.aml'
INSTALL = 'run ENGINE=arm64 scripts/deps.sh as root'


class Arm64(Qemu):
    name = 'arm64'
    image = 'arch/arm64/boot/Image'
    out_device = '/dev/ttyS0'
    strip = 'aarch64-linux-gnu-strip'
    may_use_kvm = False

    def check(self, setup: Setup) -> None:
        for program in (PROGRAM, self.strip):
            need(program, INSTALL)
        if not FIRMWARE.exists():
            raise GuestError(f'{FIRMWARE} is not installed here: {INSTALL}')
        if setup.bins or setup.accel == 'kvm':
            raise GuestError('arm64 is emulated: no --accel kvm, no --bin')

    def machine(self, setup: Setup) -> list[str]:
        # With icount, CPUs take turns and time is what they executed, so that a host with few cores cannot make a
        # guest with many look stuck. The caches are in the PPTT: QEMU's own idea of them goes nowhere.
        return [PROGRAM, '-M', 'virt,gic-version=3', '-accel', *(ICOUNT if setup.icount else ['tcg,thread=multi']),
                '-cpu', CPU, '-bios', str(FIRMWARE), *topology_args(setup.topology, setup.mem, dies=1)]

    def serial_ports(self) -> list[str]:
        return ['-serial', 'chardev:log', '-device', 'pci-serial,chardev=out']

    def parameters(self, setup: Setup) -> list[str]:
        return ['console=ttyAMA0', 'acpi=force', 'panic=-1']

    def early_archive(self, topology: Topology) -> bytes:
        """The table. Linux looks for it in the first archive, which must not be compressed."""
        archive = Archive()
        archive.file(TABLE, pptt.pptt(topology.sockets, topology.cores, topology.threads, topology.llcs))
        return archive.content()

    def userland(self) -> list[Path]:
        """The one program of the guest, which is fetched the first time."""
        try:
            return [debian.busybox()]
        except Failure as error:
            raise GuestError(str(error)) from error

    def add_userland(self, archive: Archive, module_tools: Sequence[str]) -> None:
        archive.file('bin/busybox', debian.BUSYBOX.read_bytes(), 0o755)
        archive.link('bin/sh', 'busybox')
        for tool in module_tools:
            archive.link(f'sbin/{tool}', '../bin/busybox')

# SPDX-License-Identifier: GPL-2.0
"""What is particular to an arm64 guest: run.py boots it.

The machine is QEMU's "virt" with UEFI and ACPI, since Linux learns the caches of
such machines (NVIDIA's Grace, for one) from the PPTT. QEMU's has none; pptt.py's
takes its place out of the initrd.
"""
import shutil
import subprocess
from pathlib import Path

from wqlab.guest import pptt
from wqlab.paths import ROOT

IMAGE = 'arch/arm64/boot/Image'
QEMU = 'qemu-system-aarch64'
STRIP = 'aarch64-linux-gnu-strip'
FIRMWARE = Path('/usr/share/qemu-efi-aarch64/QEMU_EFI.fd')
BUSYBOX = ROOT / 'build/apt/busybox-arm64'
OUT_DEVICE = '/dev/ttyS0'
# Atomic instructions as newer cores have them, but no pointer authentication, which TCG is slow at.
CPU = 'neoverse-n1'
OVERRIDE = 'kernel/firmware/acpi/pptt.aml'


def missing():
    """What a boot needs and this machine lacks, '' if it is all there."""
    for program in (QEMU, STRIP):
        if not shutil.which(program):
            return program
    return '' if FIRMWARE.exists() else str(FIRMWARE)


def busybox():
    """The guest's one program, fetched the first time. None if it cannot be had."""
    if not BUSYBOX.exists():
        subprocess.run([ROOT / 'scripts/userland.sh'], check=False)
    return BUSYBOX if BUSYBOX.exists() else None


def add_programs(archive, applets):
    archive.file('bin/busybox', BUSYBOX.read_bytes(), 0o755)
    archive.link('bin/sh', 'busybox')
    for applet in applets:
        archive.link(f'sbin/{applet}', '../bin/busybox')


def table(topo):
    """The PPTT of the machine that guest.machine() describes."""
    return pptt.pptt(topo['sockets'], topo['cores'], topo['threads'], topo['llcs'])


def command(image, initrd, append, icount, temp):
    """QEMU's arguments, but for CPUs, memory and monitor.

    With icount the CPUs take turns and time is what they executed, so that a host
    with few cores cannot make a guest with many look stuck.
    """
    threads = ['tcg,thread=single', '-icount', 'shift=0,sleep=off'] if icount else ['tcg,thread=multi']
    return [QEMU, '-M', 'virt,gic-version=3', '-accel', *threads, '-cpu', CPU,
            '-bios', str(FIRMWARE), '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot',
            '-device', 'vmcoreinfo',
            '-chardev', f'file,id=log,path={temp}/log', '-serial', 'chardev:log',
            '-chardev', f'file,id=out,path={temp}/out', '-device', 'pci-serial,chardev=out',
            '-kernel', str(image), '-initrd', str(initrd),
            '-append', f'console=ttyAMA0 acpi=force panic=-1 {append}']

# SPDX-License-Identifier: GPL-2.0
"""Find out whether /dev/kvm can run a kernel. On some machines it opens, but guests hang."""
import fcntl
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from wqlab import files
from wqlab.guest import CACHE

BOOT_ID = Path('/proc/sys/kernel/random/boot_id')
DEVICE = Path('/dev/kvm')


def works(image: Path, boots: Callable[[], bool]) -> bool:
    """
    Return True if /dev/kvm runs this kernel. boots() tries it, once for each kernel after each boot of the host. If
    one kernel does not boot, another one still may.
    """
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return False
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / 'kvm.lock', 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = CACHE / f'kvm-{hashlib.sha256(BOOT_ID.read_bytes() + image.read_bytes()).hexdigest()[:16]}'
        if not known.exists():
            print(f'guest: testing whether {image} boots on /dev/kvm', file=sys.stderr)
            files.write(known, 'KVM' if boots() else 'TCG')
            print(f'guest: using {known.read_text()}', file=sys.stderr)
        return known.read_text() == 'KVM'

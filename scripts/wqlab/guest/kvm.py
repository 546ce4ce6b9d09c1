# SPDX-License-Identifier: GPL-2.0
"""Whether /dev/kvm runs a kernel: there are machines where it opens, and the guest hangs."""
import fcntl
import hashlib
import json
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
    Whether /dev/kvm runs this kernel. boots() tries it, once for each kernel and each boot of the host: one
    kernel that does not come up says nothing about the next one.
    """
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return False
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / 'kvm.lock', 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kernel = hashlib.sha256(image.read_bytes()).hexdigest()
        known = remembered()
        if kernel not in known:
            print(f'guest: trying whether /dev/kvm runs {image}', file=sys.stderr)
            known[kernel] = boots()
            print(f'guest: {"using KVM" if known[kernel] else "it does not: using TCG"}', file=sys.stderr)
            remember(known)
        return known[kernel]


def remembered() -> dict[str, bool]:
    """The kernels that were tried since the host booted."""
    try:
        memory = json.loads((CACHE / 'kvm.json').read_text())
        return dict(memory['kernels']) if memory['boot'] == BOOT_ID.read_text() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def remember(known: dict[str, bool]) -> None:
    files.write(CACHE / 'kvm.json', json.dumps({'boot': BOOT_ID.read_text(), 'kernels': known}))

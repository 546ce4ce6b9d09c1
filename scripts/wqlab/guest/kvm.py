# SPDX-License-Identifier: GPL-2.0
"""Find out whether /dev/kvm can run a kernel. On some machines it opens, but guests hang."""
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
    Return True if /dev/kvm runs this kernel. boots() tries it, once for each kernel after each boot of the host. If
    one kernel does not boot, another one still may.
    """
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return False
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / 'kvm.lock', 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kernel = hashlib.sha256(image.read_bytes()).hexdigest()
        known = remembered()
        if kernel not in known:
            print(f'guest: testing whether {image} boots on /dev/kvm', file=sys.stderr)
            known[kernel] = boots()
            print(f'guest: {"using KVM" if known[kernel] else "it does not boot: using TCG"}', file=sys.stderr)
            remember(known)
        return known[kernel]


def remembered() -> dict[str, bool]:
    """Return the kernels that were tried since the host booted, with the results."""
    try:
        memory = json.loads((CACHE / 'kvm.json').read_text())
        return dict(memory['kernels']) if memory['boot'] == BOOT_ID.read_text() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def remember(known: dict[str, bool]) -> None:
    files.write(CACHE / 'kvm.json', json.dumps({'boot': BOOT_ID.read_text(), 'kernels': known}))

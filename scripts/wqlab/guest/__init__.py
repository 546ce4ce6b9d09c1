# SPDX-License-Identifier: GPL-2.0
"""Guests: kernels that UML or QEMU boots to run a command in them.

topology.py describes the guest's machine. engines/ starts it. initramfs.py makes its files.
channels.py reads its output. run.py uses all of these. boot.py boots a guest in another way, with
virtme-ng. running.py keeps a list of running guests, which dump.py reads.
"""

from wqlab.paths import BUILD

CACHE = BUILD / '.guest'

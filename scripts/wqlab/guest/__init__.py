# SPDX-License-Identifier: GPL-2.0
"""Guests: kernels that are booted, by UML or QEMU, to run something in them.

A guest's way: topology.py says what machine it is, engines/ how that is started, initramfs.py what
is in it, channels.py what comes out of it, and run.py does it. boot.py is the other way in, by
virtme-ng. running.py lists the guests that run, for dump.py.
"""

from wqlab.paths import BUILD

CACHE = BUILD / '.guest'


class GuestError(Exception):
    """The guest cannot be started as asked. The text is one line for the user."""

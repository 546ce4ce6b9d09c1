# SPDX-License-Identifier: GPL-2.0
"""What wq_dump.py and wq_monitor.py share. Needs Python 3.9 and drgn."""

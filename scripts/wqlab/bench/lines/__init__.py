# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --lines: how many cache lines move between CPUs for each item, and whose they are.

plugin.c    inside QEMU: which vCPU visits which line
plugin.py   compiles it and gives it orders
count.py    makes figures of its report: what is counted, and why
measure.py  boots, runs the scopes, puts it all together
report.py   the tables
"""

# SPDX-License-Identifier: GPL-2.0
"""Where the time of a case goes: what run-workload.sh --profile records.

There are two kinds of profile. They disturb each other, so a boot records one of them:
waits   how long items waited and ran, by workqueue: waits.py, from the kernel's tracepoints,
        which tracer.py turns on and ring.py reads
cycles  the share of the pool's lock, of waking and of the items: cycles.py, from perf's samples

recorded.py records a case, on the machine that runs it. User-mode Linux has no perf, so
outside.py takes its samples from outside. tables.py shows the results.
"""
WAITS, CYCLES = 'waits', 'cycles'
TIMES = 'times'         # only when the case began and ended, for outside.py
KINDS = (WAITS, CYCLES)

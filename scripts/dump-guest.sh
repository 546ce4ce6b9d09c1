#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Look at the workqueues of a running QEMU guest from outside: take its memory,
# and run tools/workqueue/wq_dump.py or wq_monitor.py on that.
#
# usage: scripts/dump-guest.sh [OPTIONS] dump|monitor [ARGUMENT...]	(--help lists them)
exec "$(dirname "$0")/lab" dump "$@"

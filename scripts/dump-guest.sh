#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Inspect the workqueues of a running QEMU guest from outside: write its memory to a file
# and run tools/workqueue/wq_dump.py or wq_monitor.py on it.
#
# usage: scripts/dump-guest.sh [OPTIONS] dump|monitor [ARGUMENT...]	(--help lists the options)
exec "$(dirname "$0")/lab" dump "$@"

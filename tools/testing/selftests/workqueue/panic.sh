#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# With workqueue.panic_on_stall=1 or panic_on_stall_time=N on the kernel's command
# line, a stuck item panics the kernel. There is no TAP: the host reads the console,
# and this script must not reach its end.

. "$(dirname "$0")/lib.sh"

mount_all
load_helper
create wqt_stuck percpu
echo 0 >$PARAMS/cpu_intensive_thresh_us
echo 2 >$PARAMS/watchdog_thresh
log_expect "BUG: workqueue lockup|Kernel panic - not syncing: workqueue: "
tell wqt_stuck queue "hog cpu=0 ms=60000"
tell wqt_stuck queue "nop cpu=0"
# Do not sleep: the watchdog's timer might be late.
within 200 false
bail "the kernel did not panic"

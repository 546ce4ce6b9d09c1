#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The machine does not run for a while, as when a hypervisor pauses it. That is no stall. The
# host reads the output and pauses the guest where that asks for it.

. "$(dirname "$0")/lib.sh"

CPU=$(online_cpus | tail -n 1)
PAUSE=12

uptime_s()
{
	sed 's/\..*//' /proc/uptime
}

# Asks the host for a pause. Polls, so that no CPU with the watchdog's timer sleeps afterwards.
get_paused()
{
	local before now polls=100

	now=$(uptime_s)
	diag "host: pause $PAUSE"
	while [ $polls -gt 0 ]; do
		before=$now
		sleep 0.1
		now=$(uptime_s)
		[ $((now - before)) -lt $((PAUSE - 2)) ] || return 0
		polls=$((polls - 1))
	done
	diag "the host has not paused this machine"
	return 1
}

reports()
{
	new_log | grep -c 'workqueue lockup.* stuck for '
}

reported()
{
	[ "$(reports)" -gt 0 ]
}

# An item keeps its CPU, and another one waits, until the command ends.
get_stuck()	# COMMAND...
{
	local ok=0

	tell wqt_stuck queue "hog cpu=$CPU ms=60000" && within 50 held_is wqt_stuck 1 &&
		tell wqt_stuck queue "nop cpu=$CPU" || return 1
	"$@" || ok=1
	tell wqt_stuck release 1 && tell wqt_stuck flush 1 && return $ok
}

paused_for_a_moment()
{
	get_paused && sleep 1
}

test_pause_is_no_stall()
{
	mark_log "pause"
	set_to $PARAMS/watchdog_thresh 5 && get_stuck paused_for_a_moment &&
		is_equal "number of reports" "$(reports)" 0
}

# The guest would be gone.
test_pause_is_no_reason_to_panic()
{
	set_to $PARAMS/panic_on_stall_time 8 || return 1
	test_pause_is_no_stall || return 1
	set_to $PARAMS/panic_on_stall_time 0
}

paused_and_stuck()
{
	get_paused && within 100 reported
}

test_stall_after_a_pause_is_reported()
{
	mark_log "stall"
	log_expect "BUG: workqueue lockup - pool cpus=$CPU "
	set_to $PARAMS/watchdog_thresh 2 && get_stuck paused_and_stuck || return 1
	log_expect_end
}

mount_all
load_helper
create wqt_stuck percpu
echo 0 >$PARAMS/cpu_intensive_thresh_us || bail "cpu_intensive_thresh_us is not writable"

set -- pause_is_no_stall pause_is_no_reason_to_panic stall_after_a_pause_is_reported
[ "$VARIANT" != base ] || skip "the base kernel takes a pause for a stall" \
	pause_is_no_stall pause_is_no_reason_to_panic
run_tests "$@"

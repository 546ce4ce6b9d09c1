#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Freezable workqueues under the test levels of suspend-to-idle.

. "$(dirname "$0")/lib.sh"

SECONDS_FROZEN=3

# Suspends down to this test level, and resumes after SECONDS.
suspend()	# LEVEL SECONDS
{
	set_to /sys/power/pm_test "$1" && set_to "$DELAY" "$2" &&
		set_to /sys/power/state freeze
}

# The milliseconds for which the last suspend waited at its test level, all tasks frozen. In a
# busy loop that is not always what was asked for.
waited_ms()
{
	dmesg | awk -F '[][]' '/suspend debug: Waiting/ { begin = $2 }
		/Restarting tasks/ { end = $2 } END { print int((end - begin) * 1000) }'
}

# No item of a freezable workqueue starts while it is frozen. Queued items run afterwards.
test_frozen_under_load()	# LEVEL
{
	local wq gap frozen ok=0

	start "threads=2 depth=16 sleep_us=100" $FREEZABLE wqt_n wqt_m &&
		progresses $FREEZABLE wqt_n wqt_m || return 1
	suspend "$1" $SECONDS_FROZEN || ok=1
	frozen=$(waited_ms)
	[ "$frozen" -ge $((SECONDS_FROZEN * LEAST_OF_A_SECOND)) ] ||
		{ diag "frozen for $frozen ms"; ok=1; }
	for wq in $FREEZABLE wqt_n wqt_m; do
		progresses $wq || ok=1
		account_is_right $wq || ok=1
		gap=$(stat_of $wq gap_ms)
		case " $FREEZABLE " in
		*" $wq "*)
			[ "$gap" -ge $((frozen * 9 / 10)) ] ||
				{ diag "$wq paused for $gap of $frozen ms"; ok=1; } ;;
		*)
			[ "$gap" -lt $((frozen * 9 / 10)) ] ||
				{ diag "$wq is not freezable: $gap of $frozen ms"; ok=1; } ;;
		esac
	done
	return $ok
}

test_limit_after_the_thaw()
{
	create wqt_l unbound freezable max_active=2
	suspend freezer 1 && reads "$(dev wqt_l max_active)" 2 &&
		tell wqt_l queue "block n=6" && within 50 held_is wqt_l 2 && sleep 0.2 &&
		is_equal "items that run" "$(held wqt_l)" 2 &&
		tell wqt_l release 1 && tell wqt_l wait "6 5000" && destroy wqt_l
}

# An item that does not end prevents the suspend, and the log names it.
test_busy_one_is_named()
{
	local ok=0 timeout
	timeout=$(cat /sys/power/pm_freeze_timeout)

	create wqt_busy percpu freezable
	tell wqt_busy queue block && within 50 held_is wqt_busy 1 &&
		set_to /sys/power/pm_freeze_timeout 1000 || return 1
	if suspend freezer 1 >/dev/null; then
		diag "the system was frozen with an item running"
		ok=1
	fi
	set_to /sys/power/pm_freeze_timeout "$timeout"
	dmesg | tail -n 40 | grep -q "wqt_busy" || { diag "wqt_busy is not named"; ok=1; }
	tell wqt_busy release 1 && tell wqt_busy flush 1 &&
		tell wqt_busy queue nop && tell wqt_busy wait "2 5000" &&
		suspend freezer 1 && destroy wqt_busy && return $ok
}

# While an item may not start, the watchdog must not miss it. The other load keeps its timer going.
test_frozen_items_are_not_reported()
{
	start "threads=2 depth=16 sleep_us=100" wqt_fu wqt_n && progresses wqt_fu wqt_n || return 1
	mark_log frozen
	set_to $PARAMS/watchdog_thresh 2 && suspend freezer $((SECONDS_FROZEN + 1)) &&
		set_to $PARAMS/watchdog_thresh 30 && progresses wqt_fu || return 1
	account_is_right wqt_fu && account_is_right wqt_n &&
		is_equal "reports" "$(new_log | grep -c 'max_active holds items back')" 0
}

mount_all
load_helper
DELAY=/sys/module/suspend/parameters/pm_test_delay
[ -f /sys/power/pm_test ] && [ -f $DELAY ] ||
	bail "no test levels of suspend: is CONFIG_PM_DEBUG set?"
FREEZABLE="wqt_fp wqt_fu wqt_fo"
LEAST_OF_A_SECOND=900	# ms that a suspend must wait for each second that it is asked for
# At a test level, Linux 6.12 waits in a busy loop. Nothing else runs on that CPU unless
# the loop can be preempted.
PREEMPT=/sys/kernel/debug/sched/preempt
model=$(sed -n 's/.*(\(.*\)).*/\1/p' $PREEMPT 2>/dev/null)
case $model in
none | voluntary)
	trap 'echo $model >$PREEMPT' EXIT
	set_to $PREEMPT full
	LEAST_OF_A_SECOND=300 ;;	# the loop may be that far off
esac
create wqt_fp percpu freezable
create wqt_fu unbound freezable
create wqt_fo ordered freezable
create wqt_n percpu
create wqt_m unbound

run_tests frozen_under_load:freezer frozen_under_load:devices \
	limit_after_the_thaw busy_one_is_named frozen_items_are_not_reported

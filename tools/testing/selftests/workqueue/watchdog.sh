#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The report about a pool that makes no progress. An item that keeps its CPU delays
# the next one, unless it is detected as CPU intensive.

. "$(dirname "$0")/lib.sh"

CPU=$(online_cpus | tail -n 1)

# The worker's trace comes last.
reported()
{
	new_log | sed -n '/Showing backtraces of/,$p' | grep -q wqh_hog
}

# Until the command ends, one item runs, one waits in the pool, and two are held back by
# max_active. The watchdog's timer may be late on a CPU that sleeps. Polling keeps this one
# awake.
get_stuck()	# COMMAND...
{
	tell wqt_stuck queue "hog cpu=$CPU ms=60000" && within 50 held_is wqt_stuck 1 &&
		tell wqt_stuck queue "nop cpu=$CPU n=3" || return 1
	"$@" || diag "'$*' failed"
	tell wqt_stuck release 1 && tell wqt_stuck flush 1
}

test_report()
{
	mark_log report
	log_expect "BUG: workqueue lockup - pool cpus=$CPU "
	set_to $PARAMS/watchdog_thresh 2 && get_stuck within 70 reported
	set_to $PARAMS/watchdog_thresh 30
	log_expect_end
	LOG=$(new_log)
	log_has "BUG: workqueue lockup - pool cpus=$CPU .*stuck for [0-9]+s"
}

test_report_names_the_workqueue()
{
	log_has "workqueue wqt_stuck: flags=0x"
}

test_report_lists_what_is_in_flight()
{
	log_has "in-flight: [0-9]+:wqh_hog_fn"
}

test_report_lists_what_is_queued()
{
	log_has "pending: .*wqh_nop_fn"
}

test_report_lists_what_is_held_back()
{
	log_has "inactive: .*wqh_nop_fn"
}

test_report_shows_the_worker()
{
	log_has "task:kworker/$CPU:" && log_has "wqh_hog"
}

test_work_goes_on_afterwards()
{
	is_equal "items that ran" "$(stat_of wqt_stuck ran)" 4
}

# On the last CPU an item is stuck. The others sleep, and with them the watchdog's timer, but not
# after a look that finds what waits. Only that look may be late. Reports come about a second apart.
test_reports_in_time_while_cpus_sleep()
{
	local all ok=0 reports

	all=$(taskset -p $$ | sed 's/.* //')
	mark_log asleep
	log_expect "BUG: workqueue lockup - pool cpus=$CPU "
	taskset -p "$(cpu_mask "$(online_cpus | head -n 1)")" $$ >/dev/null &&
		set_to $PARAMS/watchdog_thresh 1 && get_stuck sleep 9 || ok=1
	taskset -p "$all" $$ >/dev/null && set_to $PARAMS/watchdog_thresh 30 || ok=1
	log_expect_end
	reports=$(new_log | grep -c "BUG: workqueue lockup - pool cpus=$CPU .* stuck for ")
	[ "$reports" -ge 3 ] && return $ok
	diag "$reports reports in 9 s"
	return 1
}

# A FIFO thread takes the CPU from the item, which stays ready to run.
robbed()
{
	echo "cpu=$CPU ms=5000" >$HELPER/occupy && within 45 thief_is_named
	echo leave >$HELPER/occupy
}

thief_is_named()
{
	new_log | grep -qE "cpu=$CPU runs wqt/$CPU\[[0-9]+\], policy=SCHED_FIFO rt_priority=[1-9]"
}

test_report_names_the_thief()
{
	mark_log thief
	log_expect "BUG: workqueue lockup - pool cpus=$CPU "
	set_to $PARAMS/watchdog_thresh 1 && get_stuck robbed
	set_to $PARAMS/watchdog_thresh 30
	log_expect_end
	thief_is_named || { diag "the log does not name wqt/$CPU"; return 1; }
	new_log | sed -n "/runs wqt/,\$p" |
		grep -q "task:wqt/$CPU \|CPU: $CPU .*Comm: wqt/$CPU " && return
	diag "the log has no backtrace of wqt/$CPU"
	return 1
}

test_no_report_when_off()
{
	mark_log off
	set_to $PARAMS/watchdog_thresh 0 && get_stuck sleep 4 &&
		set_to $PARAMS/watchdog_thresh 30 || return 1
	is_equal "number of reports" "$(new_log | grep -c 'workqueue lockup')" 0
}

test_no_report_without_cause()
{
	mark_log idle
	set_to $PARAMS/watchdog_thresh 1 || return 1
	tell wqt_fine load "threads=2 depth=4 spin_us=50"
	sleep 4
	account_is_right wqt_fine && set_to $PARAMS/watchdog_thresh 30 &&
		is_equal "number of reports" "$(new_log | grep -c 'workqueue lockup')" 0
}

HELD="max_active holds items back, and none has "

reports_of_held()	# QUEUE
{
	new_log | grep -v wq_selftest: | grep -c "workqueue $1: $HELD"
}

nr_held_reports_is()	# QUEUE NUMBER
{
	[ "$(reports_of_held "$1")" = "$2" ]
}

# Two items run, and a third one is held back. The watchdog says so each time, but only once.
# Polling keeps its timer going.
test_held_back_for_ever()	# QUEUE
{
	local round ok=0

	mark_log "held"
	log_expect "workqueue $1: $HELD"
	set_to $PARAMS/watchdog_thresh 1 || return 1
	for round in 1 2; do
		tell "$1" queue "block cpu=$CPU n=3" || return 1
		within 50 nr_held_reports_is "$1" $round && within 30 false
		nr_held_reports_is "$1" $round ||
			{ diag "$(reports_of_held "$1") reports after $round times"; ok=1; }
		tell "$1" release 1 && tell "$1" flush 1 || return 1
	done
	set_to $PARAMS/watchdog_thresh 30 || return 1
	log_expect_end
	LOG=$(new_log)
	log_has "in-flight: [0-9]+:wqh_block_fn .* for [0-9]+s ,[0-9]+:wqh_block_fn" &&
		log_has "inactive: wqh_block_fn" && log_has "wqh_block_fn\+0x" && return $ok
	return 1
}

# Each item takes less than the threshold, and others are always held back.
test_no_report_while_items_finish()
{
	mark_log full
	set_to $PARAMS/watchdog_thresh 1 || return 1
	tell wqt_heldu load "threads=1 depth=8 sleep_us=300000"
	within 50 false
	account_is_right wqt_heldu && set_to $PARAMS/watchdog_thresh 30 &&
		is_equal "number of reports" "$(reports_of_held wqt_heldu)" 0
}

# Two items compute for longer than the threshold, and a third one is held back.
test_no_report_while_items_compute()
{
	mark_log compute
	set_to $PARAMS/watchdog_thresh 1 || return 1
	tell wqt_heldu queue "hog ms=4000 n=2" && tell wqt_heldu queue "nop" || return 1
	within 30 false
	tell wqt_heldu flush 1 && set_to $PARAMS/watchdog_thresh 30 &&
		is_equal "number of reports" "$(reports_of_held wqt_heldu)" 0
}

mount_all
load_helper
create wqt_stuck percpu max_active=2
create wqt_fine percpu
create wqt_heldp percpu max_active=2
create wqt_heldu unbound max_active=2
# A hog that does not count would not delay its pool. Other scripts rely on the detection.
thresh=$(cat $PARAMS/cpu_intensive_thresh_us)
trap 'echo "$thresh" >$PARAMS/cpu_intensive_thresh_us' EXIT
echo 0 >$PARAMS/cpu_intensive_thresh_us || bail "cpu_intensive_thresh_us is not writable"

[ "$VARIANT" != base ] || {
	skip "the base kernel does not say it" report_names_the_thief \
		held_back_for_ever:wqt_heldp held_back_for_ever:wqt_heldu
	skip "the base kernel's watchdog sleeps with its CPU" reports_in_time_while_cpus_sleep
}
run_tests report report_names_the_workqueue report_lists_what_is_in_flight \
	report_lists_what_is_queued report_lists_what_is_held_back \
	report_shows_the_worker work_goes_on_afterwards reports_in_time_while_cpus_sleep \
	report_names_the_thief \
	held_back_for_ever:wqt_heldp held_back_for_ever:wqt_heldu no_report_while_items_finish \
	no_report_while_items_compute no_report_when_off no_report_without_cause

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# What users look at: tracepoints, names of kworkers, reports about hogs.

. "$(dirname "$0")/lib.sh"

TRACING=/sys/kernel/tracing
LAST=$(online_cpus | tail -n 1)

trace_on()
{
	echo 0 >$TRACING/tracing_on
	# One sequence over all CPUs, even if the clock is coarse.
	echo counter >$TRACING/trace_clock
	echo >$TRACING/trace
	echo 1 >$TRACING/events/workqueue/enable &&
		echo 1 >$TRACING/tracing_on
}

# Lines "queue|activate|start|end WORK", in the order of time.
trace_off()
{
	echo 0 >$TRACING/tracing_on
	echo 0 >$TRACING/events/workqueue/enable
	sed -n -e '/wqh_nop_fn/!d' \
		-e 's/.*workqueue_queue_work: work struct=\([^ ]*\) .*/queue \1/p' \
		-e 's/.*workqueue_activate_work: work struct \([^ ]*\) .*/activate \1/p' \
		-e 's/.*workqueue_execute_start: work struct \([^:]*\):.*/start \1/p' \
		-e 's/.*workqueue_execute_end: work struct \([^:]*\):.*/end \1/p' \
		$TRACING/trace
}

# Each item goes through all four events in order. At most LIMIT items are active.
check_trace()	# ITEMS LIMIT
{
	awk -v items="$1" -v limit="$2" '
		BEGIN {
			next_of["queue"] = "activate"
			next_of["activate"] = "start"
			next_of["start"] = "end"
			next_of["end"] = "queue"
		}
		{
			if (($2 in due ? due[$2] : "queue") != $1) {
				print "# item " $2 ": " $1 ", not " due[$2]
				bad = 1
			}
			due[$2] = next_of[$1]
			n[$1]++
			active += ($1 == "activate") - ($1 == "end")
			if (active > most)
				most = active
		}
		END {
			for (e in next_of)
				if (n[e] != items) {
					print "# " e ": " n[e] + 0 " times, not " items
					bad = 1
				}
			if (most > limit) {
				print "# " most " active at once, not " limit
				bad = 1
			}
			exit bad
		}'
}

test_tracepoints()	# KIND
{
	create wqt_t $1
	trace_on || return 1
	tell wqt_t queue "nop cpu=$LAST n=50" && tell wqt_t flush 1
	trace_off | check_trace 50 50 && destroy wqt_t
}

# An item over the limit is activated when another item has ended.
test_tracepoints_at_the_limit()
{
	create wqt_t unbound max_active=1
	trace_on || return 1
	tell wqt_t queue "nop n=50" && tell wqt_t flush 1
	trace_off | check_trace 50 1 && destroy wqt_t
}

test_queue_event_fields()
{
	create wqt_t percpu
	trace_on || return 1
	tell wqt_t queue "nop cpu=$LAST" && tell wqt_t flush 1
	trace_off >/dev/null
	grep -q "function=wqh_nop_fn.* workqueue=wqt_t req_cpu=$LAST cpu=$LAST" \
		$TRACING/trace && destroy wqt_t && return
	diag "$(grep wqh_nop_fn $TRACING/trace | head -n 1)"
	return 1
}

# What people probe, and look for in backtraces. These functions must not be inlined.
test_names_of_functions()
{
	local name ok=0

	for name in __queue_work process_one_work worker_thread rescuer_thread create_worker \
		    delayed_work_timer_fn idle_worker_timeout pool_mayday_timeout \
		    wq_barrier_func; do
		grep -q " [tT] $name\$" /proc/kallsyms || { diag "no function $name"; ok=1; }
	done
	return $ok
}

# The name of a kworker contains the workqueue: after a + while an item runs, after a - later.
test_kworker_name()	# FLAGS=PATTERN
{
	local flags=${1%=*} pattern=${1#*=} pid name ok=0

	create wqt_name $flags
	tell wqt_name queue "block cpu=$LAST" && within 50 held_is wqt_name 1 || return 1
	pid=$(sed 's/.*pid=\([0-9]*\) .*/\1/' $HELPER/wqt_name/held)
	name=$(cat /proc/"$pid"/comm)
	echo "$name" | grep -qE "^kworker/$pattern\+wqt_name\$" ||
		{ diag "name while busy: $name"; ok=1; }
	tell wqt_name release 1 && tell wqt_name flush 1
	# It may run another item by now, but not this one.
	name=$(cat /proc/"$pid"/comm)
	echo "$name" | grep -q "+wqt_name" && { diag "name when idle: $name"; ok=1; }
	destroy wqt_name
	return $ok
}

rescuers()
{
	cat /proc/[0-9]*/comm 2>/dev/null | grep -cx "kworker/R-$1"
}

test_rescuer_name()
{
	create wqt_resc percpu mem_reclaim
	is_equal "rescuers of a mem_reclaim one" "$(rescuers wqt_resc)" 1 &&
		destroy wqt_resc && is_equal "rescuers later" "$(rescuers wqt_resc)" 0 || return 1
	create wqt_resc percpu
	is_equal "rescuers of another one" "$(rescuers wqt_resc)" 0 && destroy wqt_resc
}

# From cpu_intensive_warning_thresh on, and then less and less often.
test_hog_report()
{
	local i thresh reports expected="4 8 16"
	[ "$VARIANT" != base ] || expected="4 5 7 11"
	thresh=$(cat $PARAMS/cpu_intensive_thresh_us)

	create wqt_hogs percpu
	set_to $PARAMS/cpu_intensive_thresh_us 10000 &&
		set_to $PARAMS/cpu_intensive_warning_thresh 4 || return 1
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
		tell wqt_hogs queue "hog cpu=$LAST ms=100" && tell wqt_hogs flush 1 || return 1
	done
	set_to $PARAMS/cpu_intensive_thresh_us "$thresh"
	reports=$(dmesg | sed -n 's/.*wqh_hog_fn.* hogged CPU for .* \([0-9]*\) times.*/\1/p')
	is_equal "occasions of a report" "$(echo $reports)" "$expected" && destroy wqt_hogs
}

# Once a hog is detected it no longer counts, and the next item can start.
test_hog_is_found_out()
{
	local thresh
	thresh=$(cat $PARAMS/cpu_intensive_thresh_us)

	create wqt_hogs percpu
	set_to $PARAMS/cpu_intensive_thresh_us 50000 || return 1
	tell wqt_hogs queue "hog cpu=$LAST ms=10000" && within 50 held_is wqt_hogs 1 &&
		tell wqt_hogs queue "nop cpu=$LAST" && tell wqt_hogs wait "2 5000" &&
		held_is wqt_hogs 1 || { diag "the next item waits"; return 1; }
	tell wqt_hogs release 1 && tell wqt_hogs flush 1 &&
		set_to $PARAMS/cpu_intensive_thresh_us "$thresh" && destroy wqt_hogs
}

# Without detection a hog counts, and the next item has to wait for it.
test_hog_counts()
{
	local thresh
	thresh=$(cat $PARAMS/cpu_intensive_thresh_us)

	create wqt_hogs percpu
	set_to $PARAMS/cpu_intensive_thresh_us 0 || return 1
	tell wqt_hogs queue "hog cpu=$LAST ms=10000" && within 50 held_is wqt_hogs 1 &&
		tell wqt_hogs queue "nop cpu=$LAST" && sleep 1 &&
		is_equal "items that began" "$(stat_of wqt_hogs ran)" 1 || return 1
	tell wqt_hogs release 1 && tell wqt_hogs wait "2 5000" &&
		set_to $PARAMS/cpu_intensive_thresh_us "$thresh" && destroy wqt_hogs
}

test_declared_hog_does_not_count()
{
	local thresh
	thresh=$(cat $PARAMS/cpu_intensive_thresh_us)

	create wqt_hogs percpu cpu_intensive
	create wqt_calm percpu
	set_to $PARAMS/cpu_intensive_thresh_us 0 || return 1
	tell wqt_hogs queue "hog cpu=$LAST ms=10000" && within 50 held_is wqt_hogs 1 &&
		tell wqt_calm queue "nop cpu=$LAST" && tell wqt_calm wait "1 5000" &&
		held_is wqt_hogs 1 || { diag "the next item waits"; return 1; }
	tell wqt_hogs release 1 && tell wqt_hogs flush 1 &&
		set_to $PARAMS/cpu_intensive_thresh_us "$thresh" &&
		destroy wqt_hogs && destroy wqt_calm
}

# When an item sleeps, the next one starts at once.
test_sleeper_makes_room()
{
	create wqt_sleep percpu
	tell wqt_sleep queue "block cpu=$LAST n=10" && within 50 held_is wqt_sleep 10 &&
		tell wqt_sleep queue "nop cpu=$LAST" && tell wqt_sleep wait "11 1000" &&
		tell wqt_sleep release 1 && tell wqt_sleep flush 1 && destroy wqt_sleep
}

mount_all
load_helper

run_tests tracepoints:percpu tracepoints:unbound tracepoints:bh tracepoints:ordered \
	tracepoints_at_the_limit queue_event_fields names_of_functions \
	"kworker_name:percpu=$LAST:[0-9]+" "kworker_name:percpu highpri=$LAST:[0-9]+H" \
	"kworker_name:unbound=u[0-9]+:[0-9]+" "kworker_name:unbound highpri=u[0-9]+:[0-9]+" \
	"kworker_name:ordered=u[0-9]+:[0-9]+" rescuer_name \
	sleeper_makes_room hog_counts hog_is_found_out declared_hog_does_not_count hog_report

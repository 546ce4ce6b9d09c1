#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Console drivers may queue work, and the workqueue prints. If it called a console while
# it held the lock of a pool, and the console queued there, the CPU would spin for ever.
# The CPU would also spin if the workqueue called the console while it queues the console's
# own item.
# Each test makes the workqueue print something about the pool on which the helper's
# console queues, or about its item. If a test fails, the guest hangs.

. "$(dirname "$0")/lib.sh"

CPU=$(online_cpus | tail -n 1)

# Prints the log since the mark, or all of it if sysrq-t has pushed the mark out.
new_log()
{
	dmesg | awk -v mark="$MARK" '{ line[NR] = $0 } index($0, mark) { at = NR }
		END { while (at < NR) print line[++at] }'
}

new_log_has()	# PATTERN
{
	new_log | grep -qE "$1"
}

more_lines_than()	# N
{
	[ "$(cat $HELPER/console_lines)" -gt "$1" ]
}

# The command makes the kernel print PATTERN, to the log and to the console. Afterwards the
# pool still works.
prints()	# PATTERN COMMAND...
{
	local pattern=$1 before ok=0
	shift

	MARK="wq_selftest: mark $*"
	echo "$MARK" >/dev/kmsg
	set_to $HELPER/console "cpu=$CPU" || return 1
	before=$(cat $HELPER/console_lines)
	"$@" || { diag "'$*' failed"; ok=1; }
	within 100 new_log_has "$pattern" || { diag "no line like: $pattern"; ok=1; }
	within 100 more_lines_than "$before" || { diag "no line for the console"; ok=1; }
	tell wqt_con release 1 && tell wqt_con flush 1 && tell wqt_con stats 0 &&
		tell wqt_con queue "nop cpu=$CPU" && tell wqt_con wait "1 5000" &&
		set_to $HELPER/console off && return $ok
}

# Like prints(), but the log has to contain a warning.
warns()	# PATTERN COMMAND...
{
	local ret

	log_expect "cut here|WARNING: "
	prints "$@"
	ret=$?
	log_expect_end
	return $ret
}

test_queueing_what_is_on_a_list()
{
	warns "WARNING: .*queue" tell wqt_con misuse "listed cpu=$CPU"
}

test_flush_by_memory_reclaim()
{
	warns "is flushing !WQ_MEM_RECLAIM wqt_con:" tell wqt_con misuse "reclaim cpu=$CPU"
}

test_destruction_in_use()
{
	create wqt_busy percpu
	tell wqt_busy misuse "busy cpu=$CPU" &&
		warns "wqt_busy has the following busy pwq" destroy wqt_busy
}

# The warning comes once. An item of somebody else may have had it since the write.
force_round_robin()
{
	set_to $PARAMS/debug_force_rr_cpu 1 &&
		echo 1 >/sys/kernel/debug/clear_warn_once && tell wqt_rr misuse console
}

# Queueing holds no lock when it prints this. But it owns the item, and the console would
# wait until the item is queued.
test_round_robin()
{
	local ret

	create wqt_rr unbound
	prints "round-robin CPU selection forced" force_round_robin
	ret=$?
	set_to $PARAMS/debug_force_rr_cpu 0 && destroy wqt_rr && return $ret
}

show_all()
{
	tell wqt_con queue "block cpu=$CPU" && within 50 held_is wqt_con 1 &&
		echo t >/proc/sysrq-trigger
}

test_sysrq()
{
	prints "in-flight: .*wqh_block_fn" show_all
}

# A hog is reported at first and then each time the count has doubled.
hog_until_reported()
{
	local i=0

	while ! new_log_has "wqh_hog_fn.* hogged CPU" && [ $i -lt 128 ]; do
		tell wqt_con queue "hog cpu=$CPU ms=50" && tell wqt_con flush 1 || return 1
		i=$((i + 1))
	done
}

test_hog_report()
{
	set_to $PARAMS/cpu_intensive_thresh_us 10000 &&
		set_to $PARAMS/cpu_intensive_warning_thresh 1 &&
		prints "wqh_hog_fn.* hogged CPU" hog_until_reported
}

stall()
{
	tell wqt_con queue "hog cpu=$CPU ms=60000" && within 50 held_is wqt_con 1 &&
		tell wqt_con queue "nop cpu=$CPU" && within 100 new_log_has "Showing backtraces of"
}

test_watchdog()
{
	local ret

	log_expect "BUG: workqueue lockup - pool cpus=$CPU "
	set_to $PARAMS/cpu_intensive_thresh_us 0 && set_to $PARAMS/watchdog_thresh 2 &&
		prints "wqh_hog_fn" stall
	ret=$?
	set_to $PARAMS/watchdog_thresh 30
	log_expect_end
	return $ret
}

mount_all
load_helper
echo 1 >/sys/kernel/debug/clear_warn_once ||
	bail "clear_warn_once cannot be written, so earlier warnings cannot appear again"
create wqt_con percpu
# Consoles print lines of all levels. What the tests change is restored.
levels=$(cat /proc/sys/kernel/printk)
thresh=$(cat $PARAMS/cpu_intensive_thresh_us)
warning_thresh=$(cat $PARAMS/cpu_intensive_warning_thresh)
trap 'echo "$levels" >/proc/sys/kernel/printk
	echo "$thresh" >$PARAMS/cpu_intensive_thresh_us
	echo "$warning_thresh" >$PARAMS/cpu_intensive_warning_thresh' EXIT
echo 8 >/proc/sys/kernel/printk

run_tests queueing_what_is_on_a_list flush_by_memory_reclaim destruction_in_use \
	round_robin sysrq hog_report watchdog

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A write is repeated. Each time the next allocation fails, until none does. A write that
# fails must not have changed anything, and leaves nothing behind. The same holds if the writer
# is killed while a workqueue is made. Nothing leaks. Needs a kernel with CONFIG_FAILSLAB.

. "$(dirname "$0")/lib.sh"

NTH=/proc/self/fail-nth
SLAB=/sys/kernel/debug/failslab
LEAKS=/sys/kernel/debug/kmemleak
FEWEST=5	# allocations that a write makes at least, including those of opening the file

# Sets STATUS to the result of the write. Sets LEFT to how many more allocations would have
# made it fail. Does not fork, since the fork would fail instead.
write_short_of_memory()	# FILE TEXT N
{
	LEFT=
	{
		echo "$3" >$NTH
		echo "$2" >"$1"
		STATUS=$?
		read -r LEFT <$NTH
		echo 0 >$NTH
	} 2>/dev/null
}

# Forks are slow where this runs: what is done for each failure does not fork.

pods()	# NAME: sets PODS to its pods, by CPU
{
	local cpu allowed _

	PODS=
	while read -r cpu _ _ allowed _; do
		PODS="$PODS $cpu:$allowed"
	done <"$HELPER/$1/map"
}

value()	# FILE: sets VALUE, without the part in brackets
{
	read -r VALUE _ <"$1"
}

# Does FILE say OLD, and are the pods of wqt_f as they were?
is_unchanged()	# FILE OLD PODS
{
	value "$1"
	pods wqt_f
	is_equal "$1" "$VALUE" "$2" && is_equal "pods of wqt_f" "$PODS" "$3"
}

test_write()	# FILE=TEXT
{
	local file=${1%=*} new=${1##*=} nth=0 failed=0 old before

	value "$file"
	old=$VALUE
	pods wqt_f
	before=$PODS
	while [ $nth -lt 1000 ]; do
		nth=$((nth + 1))
		write_short_of_memory "$file" "$new" $nth
		if [ "$STATUS" -ne 0 ]; then
			failed=$((failed + 1))
			is_unchanged "$file" "$old" "$before" && continue
			diag "allocation $nth of the write to $file had failed"
			return 1
		fi
		value "$file"
		[ "$VALUE" != "$old" ] || { diag "$file is still '$old'"; return 1; }
		[ "${LEFT:-0}" -eq 0 ] || break
		# It succeeded without that memory.
		set_to "$file" "$old" || return 1
	done
	set_to "$file" "$old" && is_unchanged "$file" "$old" "$before" || return 1
	diag "$file: $failed of $((nth - 1)) failures made the write fail"
	[ $failed -ge $FEWEST ] && progresses wqt_l
}

# Queues on each CPU, if wqt_n has its files: debugfs does not report a lack of memory.
is_served()
{
	[ -e "$HELPER/wqt_n/map" ] || return 0
	pods wqt_n
	set -- $PODS
	is_equal "CPUs that wqt_n served" $# "$NR_ONLINE"
}

# How many workqueues there are. Only our kernel tells.
workqueues()
{
	[ "$VARIANT" = base ] || cat "$HELPER/wqt_f/workqueues"
}

has_no_rescuer()	# NAME, at most 5 characters, as the name of a thread is cut
{
	! cat /proc/[0-9]*/comm 2>/dev/null | grep -qx "kworker/R-$1"
}

# Is the workqueue gone, with its rescuer, its devices and its place in the list?
is_gone()	# NAME NR-OF-OTHERS
{
	[ ! -e "$HELPER/$1" ] && [ ! -e "$DEVICES/$1" ] && [ ! -e "/sys/devices/$1" ] ||
		{ diag "files of $1 are left"; return 1; }
	within 50 has_no_rescuer "$1" || { diag "the rescuer of $1 is left"; return 1; }
	is_equal "number of workqueues" "$(workqueues)" "$2"
}

test_create()	# FLAGS
{
	local nth=0 failed=0 others

	others=$(workqueues)
	while [ $nth -lt 1000 ]; do
		nth=$((nth + 1))
		write_short_of_memory "$HELPER/create" "wqt_n $1" $nth
		if [ "$STATUS" -ne 0 ]; then
			failed=$((failed + 1))
			[ ! -e "$HELPER/wqt_n" ] && [ ! -e $DEVICES/wqt_n ] && continue
			diag "allocation $nth had failed, but wqt_n is there"
			return 1
		fi
		is_served && destroy wqt_n || return 1
		[ "${LEFT:-0}" -eq 0 ] || break
	done
	diag "$failed of $((nth - 1)) failures made creation fail"
	[ $failed -ge $FEWEST ] && is_gone wqt_n "$others"
}

# The helper sends the signal. If the thread is there at once, nobody has to wait for it, and the
# signal has no effect on the workqueue.
test_killed()	# FLAGS
{
	local i failed=0 others

	others=$(workqueues)
	for i in 1 2 3 4 5; do
		(echo "wqt_k $1 killed" >"$HELPER/create") 2>/dev/null
		if [ -e "$HELPER/wqt_k" ]; then
			destroy wqt_k
		else
			failed=$((failed + 1))
		fi
		is_gone wqt_k "$others" || return 1
	done
	diag "$failed of 5 writers were killed in time"
	[ $failed -ge 1 ] || return 1
	# shellcheck disable=SC2086 # words
	create wqt_k $1
	destroy wqt_k && is_gone wqt_k "$others"
}

# A scan reports what an earlier one has seen, too, and what is 5 seconds old.
test_leaks()
{
	local found

	echo scan >$LEAKS && sleep 6 && echo scan >$LEAKS || return 1
	found=$(cat $LEAKS)
	[ -z "$found" ] || { diag "$found"; return 1; }
}

mount_all
load_helper
[ -e $NTH ] && [ -d $SLAB ] || bail "no $SLAB: is CONFIG_FAILSLAB set?"
echo N >$SLAB/ignore-gfp-wait
echo 0 >$SLAB/verbose
NR_ONLINE=$(nr_online)
create wqt_f unbound
create wqt_l unbound
tell wqt_l load "threads=1 depth=4 spin_us=10"
echo 1 >"$(dev wqt_f affinity_strict)" || bail "no strict workqueue"

set -- write:"$(dev wqt_f affinity_scope)=cpu" write:"$(dev wqt_f nice)=-5" \
	write:"$(dev wqt_f cpumask)=1" write:"$(dev wqt_f affinity_strict)=0" \
	write:"$GLOBAL/cpumask=1" write:"$PARAMS/default_affinity_scope=cpu" \
	write:"$PARAMS/cache_shard_size=1"
[ "$VARIANT" != base ] ||
	skip "the base kernel cannot change cache_shard_size" write:"$PARAMS/cache_shard_size=1"
for flags in bh percpu unbound ordered "percpu mem_reclaim" "unbound mem_reclaim" \
	"ordered mem_reclaim" "percpu nosysfs" "unbound highpri nosysfs" "percpu devm" \
	"unbound devm" "ordered mem_reclaim devm"; do
	set -- "$@" create:"$flags"
done
for flags in "percpu mem_reclaim" "unbound mem_reclaim nosysfs" "ordered mem_reclaim devm"; do
	set -- "$@" killed:"$flags"
done
set -- "$@" leaks
# What leaked before is not ours.
{ echo scan >$LEAKS && echo clear >$LEAKS; } 2>/dev/null ||
	skip "the kernel was not booted with kmemleak=on" leaks
run_tests "$@"

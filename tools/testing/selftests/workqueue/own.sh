#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Own pools: a CPU that has to share the pool of its pod gets one of its own for a while. With
# workqueue.own_pools=2 it need not cost anything to share. The base kernel has no own pools.

. "$(dirname "$0")/lib.sh"

OWN=$PARAMS/own_pools
CPU=/sys/devices/system/cpu

# Makes a workqueue with one pool for all CPUs, which no other workqueue has.
create_shared()	# NAME [FLAG...]
{
	create "$@" && set_to "$(dev "$1" affinity_scope)" system &&
		set_to "$(dev "$1" nice)" "$NICE"
}

# The pools in which the CPUs queue, a line for each. Each look queues from each CPU.
pools()	# NAME
{
	sed -n 's,^cpu=.*comm=kworker/u\([0-9]*\):.*,\1,p' "$HELPER/$1/map" | sort -u
}

nr_pools_is()	# NAME NUMBER
{
	[ "$(pools "$1" | wc -l)" -eq "$2" ]
}

# Does each CPU queue in a pool that no other one uses? These looks make the CPUs share. The last
# one may stay in the pool of the pod, where it is alone.
get_own_pools()	# NAME
{
	within 50 nr_pools_is "$1" "$(nr_online)" && return
	diag "the CPUs queue in the pools $(pools "$1" | tr '\n' ' ')"
	return 1
}

# For two workqueues with the same pools: each CPU queues on one of them, so all share.
load_both()	# LOAD
{
	tell wqt_u load "$1 from=$FIRST" && tell wqt_v load "$1 from=$LAST"
}

kept_its_order()	# NAME
{
	tell "$1" load stop &&
		is_equal "$1: misordered" "$(stat_of "$1" misordered)" 0 &&
		is_equal "$1: lost" "$(stat_of "$1" lost)" 0 &&
		is_equal "$1: ran" "$(stat_of "$1" ran)" "$(stat_of "$1" queued)"
}

test_each_CPU_gets_its_own()	# SCOPE
{
	local cpu ok=0

	create_shared wqt_u unbound && set_to "$(dev wqt_u affinity_scope)" "$1" || return 1
	set_to $OWN 2 && get_own_pools wqt_u || ok=1
	for cpu in $(online_cpus); do
		tell wqt_u queue "block cpu=$cpu"
	done
	within 50 held_is wqt_u "$(nr_online)" || ok=1
	echo t >/proc/sysrq-trigger
	dmesg | sed -n 's,.*pool .* own=\([0-9]*\) .*,\1,p' | sort -u >/tmp/owners
	[ "$(wc -l </tmp/owners)" -ge $(($(nr_online) - 1)) ] ||
		{ diag "the dump has only own pools of CPUs $(tr '\n' ' ' </tmp/owners)"; ok=1; }
	destroy wqt_u && return $ok
}

# Do both use the same own pools, of all CPUs but at most one?
use_the_same()	# POOL_OF_THE_POD
{
	{ pools wqt_u; pools wqt_v; } | sort | uniq -d | grep -vx "$1" >/tmp/both
	[ "$(wc -l </tmp/both)" -ge $(($(nr_online) - 1)) ]
}

test_equal_attributes_share_own_pools()
{
	local pod ok=0

	set_to $OWN 0 && create_shared wqt_u unbound && create_shared wqt_v unbound || return 1
	pod=$(pools wqt_u)
	set_to $OWN 2 && within 50 use_the_same "$pod" ||
		{ diag "they use" "$(pools wqt_u)" and "$(pools wqt_v)"; ok=1; }
	destroy wqt_u && destroy wqt_v && return $ok
}

use_what_wqt_u_had()
{
	[ "$(pools wqt_v | grep -cxf /tmp/own)" -eq "$(wc -l </tmp/own)" ]
}

# Two of the three workers of each own pool wait. Another workqueue gets it all the same: one more
# worker is made.
test_a_busy_own_pool_is_shared()
{
	local cpu pod ok=0

	set_to $OWN 0 && create_shared wqt_u unbound && create_shared wqt_v unbound || return 1
	pod=$(pools wqt_u)
	set_to $OWN 2 && get_own_pools wqt_u || ok=1
	pools wqt_u | grep -vx "$pod" >/tmp/own
	for cpu in $(online_cpus); do
		tell wqt_u queue "block cpu=$cpu n=2"
	done
	within 50 held_is wqt_u $((2 * $(nr_online))) || ok=1
	within 50 use_what_wqt_u_had || { diag "wqt_v uses" "$(pools wqt_v)"; ok=1; }
	destroy wqt_u && destroy wqt_v && return $ok
}

# What these workqueues queue is never held back, and stays in their pool.
test_none_for()	# FLAG
{
	local i ok=0

	create wqt_n "$1" && set_to $OWN 2 || return 1
	pools wqt_n >/tmp/pools
	for i in 1 2 3 4 5 6; do
		pools wqt_n
	done | sort -u | cmp -s - /tmp/pools || { diag "it uses other pools"; ok=1; }
	destroy wqt_n && return $ok
}

test_none_if_off()
{
	local ok=0

	create_shared wqt_u unbound && create_shared wqt_v unbound && set_to $OWN 0 || return 1
	load_both "threads=1 depth=16" && sleep 1 || ok=1
	tell wqt_u load stop && tell wqt_v load stop || ok=1
	nr_pools_is wqt_u 1 || { diag "a CPU has an own pool"; ok=1; }
	destroy wqt_u && destroy wqt_v && return $ok
}

test_none_for_a_CPU_that_queues_alone()
{
	local ok=0

	create_shared wqt_u unbound && set_to $OWN 1 || return 1
	tell wqt_u load "threads=1 depth=16 from=$FIRST" && sleep 1 && tell wqt_u load stop || ok=1
	nr_pools_is wqt_u 1 || { diag "the CPU has an own pool"; ok=1; }
	destroy wqt_u && return $ok
}

# The items of a CPU start in their order before, during and after the move. As only one may run
# at a time, the helper sees which one started first. All that are queued take longer than a turn.
test_order()
{
	local round ok=0

	for round in 1 2 3 4 5 6 7 8; do
		set_to $OWN 0 && create_shared wqt_u unbound max_active=1 &&
			create_shared wqt_v unbound max_active=1 || return 1
		load_both "threads=1 depth=64 spin_us=20" && sleep 0.1 || ok=1
		set_to $OWN 2 && sleep 0.2 || ok=1
		kept_its_order wqt_u && kept_its_order wqt_v || ok=1
		get_own_pools wqt_u || ok=1
		destroy wqt_u && destroy wqt_v || return 1
		[ $ok -eq 0 ] || break
	done
	return $ok
}

nr_of_last()
{
	awk -v cpu="$LAST" '$1 == cpu { n += $2 } END { print n + 0 }' "$HELPER/wqt_u/order"
}

nr_of_last_is()	# NUMBER
{
	[ "$(nr_of_last)" -eq "$1" ]
}

# How many items of a load run until one that another CPU queues has its turn?
nr_before()
{
	local before n

	n=$(nr_of_last)
	before=$(stat_of wqt_u ran)
	tell wqt_u queue "nop cpu=$LAST" && within 50 nr_of_last_is $((n + 1)) || return
	echo $(($(stat_of wqt_u ran) - before))
}

few_before()	# NUMBER
{
	[ "$(nr_before)" -lt "$1" ]
}

# A CPU queues far more than may be active. Those that share its pool do not wait for all of that.
test_flood()
{
	local ok=0

	create_shared wqt_u unbound max_active=2 && set_to $OWN 1 || return 1
	tell wqt_u load "threads=1 depth=1024 spin_us=1000 from=$FIRST" || ok=1
	within 20 few_before 512 || { diag "an item waits for $(nr_before) others"; ok=1; }
	nr_pools_is wqt_u 1 || { diag "a CPU has an own pool"; ok=1; }
	tell wqt_u load stop && is_equal "lost" "$(stat_of wqt_u lost)" 0 || ok=1
	destroy wqt_u && return $ok
}

# All slots are taken, so no item starts. The marker behind items that were cancelled does: if it
# needed a slot, flushing a frozen workqueue without items would wait for it.
test_marker_needs_no_slot()
{
	local tracing=/sys/kernel/tracing ok=0
	local event="$tracing/events/workqueue/workqueue_execute_start/enable"

	set_to $OWN 0 && create_shared wqt_u unbound max_active=2 || return 1
	tell wqt_u queue "block cpu=$FIRST n=2" && within 50 held_is wqt_u 2 || ok=1
	echo >$tracing/trace
	set_to $tracing/tracing_on 1 || ok=1
	set_to $event 1 && set_to $OWN 2 || ok=1
	tell wqt_u cancel 20000 || ok=1
	within 20 grep -q own_marker_fn $tracing/trace ||
		{ diag "no marker has started"; ok=1; }
	set_to $event 0 && destroy wqt_u && return $ok
}

others_have_own_pools()
{
	[ "$(pools wqt_u | wc -l)" -ge $(($(nr_online) - 1)) ]
}

# A CPU that may do no unbound work uses the pwqs of those that may, in turn. It must not use their
# own ones: its items are in order as long as all go to the pwq of one pod.
test_order_without_unbound_work()
{
	local all cpu others=0 ok=0

	all=$(cat $GLOBAL/cpumask)
	for cpu in $(online_cpus | tail -n +2); do
		others=$((others | 1 << cpu))
	done
	create_shared wqt_u unbound max_active=1 && set_to $OWN 2 &&
		set_to $GLOBAL/cpumask "$(printf '%x' $others)" || return 1
	within 50 others_have_own_pools || { diag "they use the pools" "$(pools wqt_u)"; ok=1; }
	tell wqt_u load "threads=1 depth=64 spin_us=20 from=$FIRST" && sleep 0.3 || ok=1
	others_have_own_pools || ok=1
	kept_its_order wqt_u || ok=1
	set_to $GLOBAL/cpumask "$all" && destroy wqt_u && return $ok
}

# The pool in which a CPU queues. Each look queues from each CPU.
pool_of()	# NAME CPU
{
	map_field "$1" map comm "$2" | sed 's,^kworker/u\([0-9]*\):.*,\1,'
}

# One of the last two CPUs gets an own pool: that CPU is MINE, the other one is OTHER.
one_has_own_pool()	# POOL_OF_THE_POD
{
	local cpu

	for cpu in $(online_cpus | tail -n 2); do
		if [ "$(pool_of wqt_u "$cpu")" != "$1" ]; then
			MINE=$cpu
			OTHER=$(online_cpus | tail -n 2 | grep -vx "$cpu")
			return
		fi
	done
	return 1
}

# The workqueue may not use the last two CPUs. If they are a pod, the default pool serves that.
# It still does when one of them leaves or comes back, and the other one keeps its own pool.
test_kept_when_a_neighbour_leaves()
{
	local pod own ok=0

	set_to $OWN 0 && create wqt_u unbound && set_to "$(dev wqt_u affinity_scope)" cache &&
		set_to "$(dev wqt_u nice)" "$NICE" &&
		set_to "$(dev wqt_u cpumask)" "$(printf '%x' $(((1 << (LAST - 1)) - 1)))" ||
		return 1
	pod=$(pool_of wqt_u "$LAST")
	set_to $OWN 2 && within 50 one_has_own_pool "$pod" ||
		{ diag "they use" "$(pools wqt_u)"; destroy wqt_u; return 1; }
	own=$(pool_of wqt_u "$MINE")
	set_to "$CPU/cpu$OTHER/online" 0 || ok=1
	is_equal "the pool after CPU $OTHER has left" "$(pool_of wqt_u "$MINE")" "$own" || ok=1
	set_to "$CPU/cpu$OTHER/online" 1 || ok=1
	is_equal "the pool after it is back" "$(pool_of wqt_u "$MINE")" "$own" || ok=1
	destroy wqt_u && return $ok
}

package_of()	# CPU
{
	cat "$CPU/cpu$1/topology/physical_package_id"
}

# Do the workers run in the packages of their CPUs?  This look makes them wake up elsewhere. One CPU
# may be alone in the pool of the pod, whose workers stay where they are.
run_near()
{
	local line cpu ran far=0

	while read -r line; do
		cpu=${line#cpu=}
		ran=${line#* ran=}
		[ "$(package_of "${cpu%% *}")" = "$(package_of "${ran%% *}")" ] || far=$((far + 1))
	done <"$HELPER/wqt_u/map_far"
	[ $far -le 1 ]
}

# Each worker seems to have slept in another package. A CPU that has nothing else to do fetches it.
test_a_stray_worker_comes_back()	# NICE
{
	local i near=0 ok=0

	create_shared wqt_u unbound && set_to "$(dev wqt_u nice)" "$1" && set_to $OWN 2 &&
		get_own_pools wqt_u || return 1
	run_near
	for i in 1 2 3 4 5; do
		! run_near || near=$((near + 1))
	done
	[ $near -ge 3 ] || { diag "they ran near in $near of 5 rounds"; ok=1; }
	destroy wqt_u && return $ok
}

# How many of these pools have workers?
nr_left()	# POOL...
{
	local pool

	for pool; do
		! grep -q "^kworker/u$pool:" /proc/[0-9]*/comm 2>/dev/null || echo "$pool"
	done | wc -l
}

nr_left_is()	# NUMBER POOL...
{
	local n=$1
	shift

	[ "$(nr_left "$@")" -eq "$n" ]
}

# A CPU that has not used its own pool for 5 to 10 s shares again, and the pool ends.
test_shares_again()
{
	local pod own ok=0

	set_to $OWN 0 && create_shared wqt_u unbound || return 1
	pod=$(pools wqt_u)
	set_to $OWN 2 && get_own_pools wqt_u || ok=1
	# one CPU may be alone in the pool of the pod
	own=$(pools wqt_u | grep -vx "$pod")
	# shellcheck disable=SC2086 # lines of words
	within 300 nr_left_is 0 $own || { diag "own pools are left:" $own; ok=1; }
	set_to $OWN 0 && nr_pools_is wqt_u 1 || { diag "the CPUs do not share again"; ok=1; }
	destroy wqt_u && return $ok
}

# Its attributes change.
test_under_load()	# nice|affinity_scope|max_active
{
	local i ok=0

	create_shared wqt_u unbound && set_to $OWN 2 || return 1
	tell wqt_u load "threads=2 depth=16 spin_us=10" || ok=1
	for i in 1 2 3; do
		case $1 in
		nice) set -- "$1" "$((i % 2))" "$NICE" ;;
		affinity_scope) set -- "$1" cpu system ;;
		max_active) set -- "$1" 1 256 ;;
		esac
		set_to "$(dev wqt_u "$1")" "$2" && sleep 0.1 &&
			set_to "$(dev wqt_u "$1")" "$3" && sleep 0.1 && progresses wqt_u || ok=1
	done
	account_is_right wqt_u || ok=1
	destroy wqt_u && return $ok
}

# It is destroyed just when its CPUs get their pools.
test_gone_in_between()
{
	local i

	for i in 1 2 3 4 5; do
		set_to $OWN 0 && create_shared wqt_u unbound || return 1
		tell wqt_u load "threads=2 depth=16" && sleep 0.1 && set_to $OWN 2 || return 1
		account_is_right wqt_u && destroy wqt_u || return 1
	done
}

FIRST=$(online_cpus | head -n 1)
LAST=$(online_cpus | tail -n 1)
NICE=3
set -- each_CPU_gets_its_own:system equal_attributes_share_own_pools \
	a_busy_own_pool_is_shared none_for:percpu none_for:ordered none_for:bh none_if_off \
	none_for_a_CPU_that_queues_alone order flood marker_needs_no_slot \
	order_without_unbound_work kept_when_a_neighbour_leaves \
	a_stray_worker_comes_back:$NICE a_stray_worker_comes_back:-20 shares_again \
	under_load:nice under_load:affinity_scope under_load:max_active gone_in_between
[ "$VARIANT" != base ] || skip "the base kernel has no own pools" "$@"
[ "$(nr_online)" -gt 1 ] || skip "one CPU shares with no other" "$@"
[ "$(nr_online)" -gt 2 ] || skip "the CPUs are fewer than three" order_without_unbound_work \
	kept_when_a_neighbour_leaves
[ "$(package_of "$FIRST")" != "$(package_of "$LAST")" ] ||
	skip "the CPUs are in one package" a_stray_worker_comes_back:$NICE \
		a_stray_worker_comes_back:-20
[ -e "$CPU/cpu$LAST/online" ] ||
	skip "the CPUs cannot go offline" kept_when_a_neighbour_leaves
run_tests "$@"

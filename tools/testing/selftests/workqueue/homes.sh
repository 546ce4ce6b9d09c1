#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# workqueue.pool_per_cpu=1: each CPU of a pod has a pool of its own.  Without the
# parameter the CPUs of a pod share one.  The base kernel does not know it.

. "$(dirname "$0")/lib.sh"

CPU=/sys/devices/system/cpu

# One line for each online CPU: itself and the pool of the worker that served it.
pools()	# NAME [map|map_on]
{
	sed -n 's,^cpu=\([0-9]*\) .*comm=kworker/u\([0-9]*\):.*,\1 \2,p' "$HELPER/$1/${2:-map_on}"
}

nr_pools()	# NAME
{
	pools "$1" | awk '{ print $2 }' | sort -u | wc -l
}

nr_pods()	# the workers of wqt_s are strict
{
	map_field wqt_s map_on allowed | sort -u | wc -l
}

set_scope()	# SCOPE
{
	set_to "$(dev wqt_u affinity_scope)" "$1" && set_to "$(dev wqt_s affinity_scope)" "$1"
}

# With the parameter as many pools as CPUs, else as many as pods.
own_pools()
{
	local wq want ok=0
	want=$(nr_pods)

	! per_cpu_pools || want=$(nr_online)
	for wq in wqt_u wqt_s; do
		is_equal "number of $wq's pools" "$(nr_pools $wq)" "$want" || ok=1
	done
	return $ok
}

test_own_pools()	# SCOPE
{
	set_scope "$1" && own_pools
}

# Who queues makes no difference.
test_queueing_CPU_decides()
{
	set_scope system &&
		is_equal "pools of queue_work()" "$(pools wqt_u map)" "$(pools wqt_u map_on)"
}

test_equal_attributes_share_pools()
{
	set_scope system && create wqt_v unbound &&
		set_to "$(dev wqt_v affinity_scope)" system &&
		is_equal "pools of equal workqueues" "$(pools wqt_v)" "$(pools wqt_u)" &&
		set_to "$(dev wqt_v nice)" 3 &&
		is_equal "pools in common" "$({ pools wqt_v; pools wqt_u; } | awk '{ print $2 }' |
			sort -u | wc -l)" $(($(nr_pools wqt_u) * 2)) &&
		destroy wqt_v
}

test_ordered_has_one_pool()
{
	is_equal "number of pools" "$(nr_pools wqt_o)" 1
}

# An item that is queued on one CPU while it runs for another does not run twice.
test_items_that_move()	# SCOPE
{
	set_scope "$1" || return 1
	tell wqt_u pods "" && tell wqt_u stats 0
	tell wqt_u load "threads=4 depth=4 spin_us=50" && sleep 1
	account_is_right wqt_u
}

# The CPUs of the workers that run items which compute.
busy_cpus()	# NAME
{
	sed -n 's/^hog pid=\([0-9]*\) .*/\1/p' "$HELPER/$1/held" | while read -r pid; do
		sed 's/.*) //' "/proc/$pid/stat"
	done | awk '{ print $37 }' | sort -u
}

keeps_all_busy()	# NAME
{
	[ "$(busy_cpus "$1" | wc -l)" -eq "$(nr_online)" ]
}

# The pool is one CPU's, the workers are not.
test_burst_uses_all_CPUs()
{
	local ok=0

	set_scope system || return 1
	tell wqt_u stats 0
	tell wqt_u queue "hog cpu=0 n=$(nr_online) ms=60000"
	within 300 keeps_all_busy wqt_u ||
		{ diag "CPUs in use: $(busy_cpus wqt_u | tr '\n' ' ')"; ok=1; }
	tell wqt_u release 1
	within 50 held_is wqt_u 0 && return $ok
}

# A CPU outside the global mask does not take turns: its items stay in order.
test_outside_the_mask()	# SCOPE
{
	local all cpu mask=0 i ok=0
	all=$(cat "$GLOBAL/cpumask")
	cpu=$(online_cpus | tail -n 1)

	for i in $(online_cpus); do
		[ "$i" -eq "$cpu" ] || mask=$((mask | 1 << i))
	done
	set_scope "$1" && set_to "$GLOBAL/cpumask" "$(printf %x $mask)" || return 1
	for i in 1 2 3 4 5 6; do
		pools wqt_u map
	done >/tmp/outside
	is_equal "pools of CPU $cpu" \
		"$(sed -n "s/^$cpu //p" /tmp/outside | sort -u | wc -l)" 1 || ok=1
	set_to "$GLOBAL/cpumask" "$all" && own_pools && return $ok
}

# Its pool belongs to a CPU of the mask in the same pod.
test_lodger()
{
	local all cpu ok=0
	all=$(cat "$GLOBAL/cpumask")
	cpu=$(online_cpus | tail -n 1)

	set_scope system && set_to "$GLOBAL/cpumask" "$(cpu_mask 0)" || return 1
	is_equal "pool of CPU $cpu" "$(pools wqt_u | sed -n "s/^$cpu //p")" \
		"$(pools wqt_u | sed -n "s/^0 //p")" || ok=1
	set_to "$GLOBAL/cpumask" "$all" && return $ok
}

# Threads of unbound pools.
nr_unbound_workers()
{
	cat /proc/[0-9]*/comm 2>/dev/null | grep -c "^kworker/u"
}

is_back_to()	# NUMBER
{
	[ "$(nr_unbound_workers)" -le "$1" ]
}

test_pools_vanish()
{
	local before i
	before=$(nr_unbound_workers)

	create wqt_v unbound
	for i in 7 8 9; do
		set_to "$(dev wqt_v nice)" $i || return 1
	done
	[ "$(nr_unbound_workers)" -ge $((before + $(nr_pools wqt_v))) ] ||
		{ diag "the pools have no workers"; return 1; }
	destroy wqt_v
	within 100 is_back_to "$before" ||
		{ diag "$(nr_unbound_workers) workers, not $before"; return 1; }
}

# CPUs that leave and come back

removable_cpu()
{
	local cpu

	for cpu in $(online_cpus); do
		[ ! -f $CPU/cpu"$cpu"/online ] || echo "$cpu"
	done | tail -n 1
}

# The items that name it run, and it finds its pool again.
test_CPU_that_leaves()	# SCOPE
{
	local ok=0

	set_scope "$1" && set_to "$CPU/cpu$LAST/online" 0 || return 1
	tell wqt_u stats 0
	tell wqt_u queue "nop cpu=$LAST n=10" && tell wqt_u wait "10 5000" || ok=1
	own_pools || ok=1
	set_to "$CPU/cpu$LAST/online" 1 && own_pools && return $ok
}

# It was a lodger when the attributes changed, and gets a pool when it comes back.
test_attributes_while_a_CPU_is_away()	# SCOPE
{
	local ok=0

	set_scope cpu && set_to "$CPU/cpu$LAST/online" 0 && set_scope "$1" || return 1
	tell wqt_u stats 0
	tell wqt_u queue "nop cpu=$LAST n=10" && tell wqt_u wait "10 5000" || ok=1
	set_to "$CPU/cpu$LAST/online" 1 && own_pools && return $ok
}

mount_all
load_helper
create wqt_u unbound
create wqt_s unbound
create wqt_o ordered
echo 1 >"$(dev wqt_s affinity_strict)" || bail "no strict workqueue"
LAST=$(removable_cpu)

set --
for scope in $SCOPES; do
	set -- "$@" own_pools:"$scope"
done
set -- "$@" queueing_CPU_decides equal_attributes_share_pools ordered_has_one_pool \
	items_that_move:system items_that_move:cpu burst_uses_all_CPUs pools_vanish
if per_cpu_pools; then
	set -- "$@" outside_the_mask:system outside_the_mask:cpu lodger
	[ "$(nr_online)" -gt 1 ] ||
		skip "one CPU is in every mask" outside_the_mask:system outside_the_mask:cpu lodger
fi
if [ -n "$LAST" ]; then
	for scope in cpu cache_shard system; do
		set -- "$@" CPU_that_leaves:"$scope" attributes_while_a_CPU_is_away:"$scope"
	done
fi
run_tests "$@"

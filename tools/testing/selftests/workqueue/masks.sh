#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Attributes and CPU masks that change while work is queued and running.

. "$(dirname "$0")/lib.sh"

start_anywhere()	# NAME...
{
	local wq

	for wq; do
		tell "$wq" pods ""
	done
	start "threads=2 depth=16 spin_us=10" "$@"
}

test_scopes_under_load()
{
	local i scope ok=0

	start_anywhere wqt_u wqt_m || return 1
	for i in $ROUNDS; do
		for scope in $SCOPES default; do
			set_to "$(dev wqt_u affinity_scope)" "$scope" &&
				set_to "$(dev wqt_m affinity_scope)" "$scope" &&
				progresses wqt_u wqt_m || ok=1
		done
	done
	accounts_are_right wqt_u wqt_m && return $ok
}

test_default_scope_under_load()
{
	local i scope ok=0

	start_anywhere wqt_u wqt_m || return 1
	for i in $ROUNDS; do
		for scope in $SCOPES; do
			set_to $PARAMS/default_affinity_scope "$scope" &&
				progresses wqt_u wqt_m || ok=1
		done
	done
	set_to $PARAMS/default_affinity_scope cache_shard || ok=1
	accounts_are_right wqt_u wqt_m && return $ok
}

test_strictness_under_load()
{
	local i ok=0

	start_anywhere wqt_u || return 1
	for i in 1 0 1 0 1 0 1 0; do
		set_to "$(dev wqt_u affinity_strict)" $i && progresses wqt_u || ok=1
	done
	accounts_are_right wqt_u && return $ok
}

test_nice_under_load()
{
	local i ok=0

	start_anywhere wqt_u wqt_o || return 1
	for i in 5 -20 19 0 -10 0; do
		set_to "$(dev wqt_u nice)" $i && set_to "$(dev wqt_o nice)" $i &&
			progresses wqt_u wqt_o || ok=1
	done
	accounts_are_right wqt_u wqt_o && return $ok
}

test_own_mask_under_load()
{
	local cpu all ok=0
	all=$(cat "$(dev wqt_u cpumask)")

	start_anywhere wqt_u wqt_m || return 1
	for cpu in $(in_rounds "$(online_cpus)"); do
		set_to "$(dev wqt_u cpumask)" "$(cpu_mask "$cpu")" &&
			set_to "$(dev wqt_m cpumask)" "$(cpu_mask "$cpu")" &&
			progresses wqt_u wqt_m || ok=1
	done
	set_to "$(dev wqt_u cpumask)" "$all" && set_to "$(dev wqt_m cpumask)" "$all" || ok=1
	accounts_are_right wqt_u wqt_m && return $ok
}

# Strict to one CPU: all work has to run there.
test_strict_to_one_cpu()
{
	local cpu all other ok=0
	all=$(cat "$(dev wqt_u cpumask)")

	set_to "$(dev wqt_u affinity_strict)" 1 || return 1
	for cpu in $(online_cpus); do
		# an isolated CPU runs no unbound work
		expand_mask "$(cat $GLOBAL/cpumask)" | grep -qx "$cpu" || continue
		set_to "$(dev wqt_u cpumask)" "$(cpu_mask "$cpu")" || ok=1
		is_equal "CPUs that ran it" "$(map_field wqt_u map ran | sort -u)" "$cpu" || ok=1
	done
	set_to "$(dev wqt_u cpumask)" "$all" && set_to "$(dev wqt_u affinity_strict)" 0 || ok=1
	return $ok
}

test_global_mask()
{
	local cpu all ok=0
	all=$(cat "$GLOBAL/cpumask")

	for cpu in $(online_cpus); do
		set_to "$GLOBAL/cpumask" "$(cpu_mask "$cpu")" || ok=1
		same_mask "$(cat "$GLOBAL/cpumask")" "$(cpu_mask "$cpu")" || ok=1
		reads "$GLOBAL/cpumask_requested" "$(cat "$GLOBAL/cpumask")" || ok=1
		is_equal "the workers' CPUs" "$(map_field wqt_u map allowed | sort -u)" "$cpu" ||
			ok=1
		# Per-CPU workqueues ignore the mask for unbound work.
		is_equal "per-CPU items elsewhere" "$(awk '{
			sub("cpu=", "", $1); sub("ran=", "", $2); n += $1 != $2
		} END { print n + 0 }' "$HELPER/wqt_p/map")" 0 || ok=1
	done
	set_to "$GLOBAL/cpumask" "$all" && reads "$GLOBAL/cpumask" "$all" &&
		is_equal "the workers' CPUs" "$(map_field wqt_u map allowed | sort -u)" \
			"$ALLOWED" && return $ok
}

test_global_mask_under_load()
{
	local cpu all ok=0
	all=$(cat "$GLOBAL/cpumask")

	start_anywhere wqt_u wqt_m wqt_o wqt_p || return 1
	for cpu in $(in_rounds "$(online_cpus)"); do
		set_to "$GLOBAL/cpumask" "$(cpu_mask "$cpu")" &&
			progresses wqt_u wqt_m wqt_o wqt_p || ok=1
	done
	set_to "$GLOBAL/cpumask" "$all" || ok=1
	accounts_are_right wqt_u wqt_m wqt_o wqt_p && return $ok
}

# The workqueue's mask and the global mask have no CPU in common.
test_disjoint_masks()
{
	local all own

	[ "$(nr_online)" -gt 1 ] || { diag "needs 2 CPUs"; return 1; }
	all=$(cat "$GLOBAL/cpumask")
	own=$(cat "$(dev wqt_u cpumask)")
	set_to "$(dev wqt_u cpumask)" "$(cpu_mask 0)" &&
		set_to "$GLOBAL/cpumask" "$(cpu_mask 1)" &&
		is_equal "the workers' CPUs" "$(map_field wqt_u map allowed | sort -u)" 1 &&
		set_to "$GLOBAL/cpumask" "$all" &&
		is_equal "the workers' CPUs" "$(map_field wqt_u map allowed | sort -u)" 0 &&
		set_to "$(dev wqt_u cpumask)" "$own"
}

# One item at a time and in order, whatever changes.
test_order_while_everything_moves()
{
	local i cpu all ok=0
	all=$(cat "$GLOBAL/cpumask")

	tell wqt_o stats 0
	tell wqt_o load "threads=2 depth=32" || return 1
	for i in 1 2 3; do
		for cpu in $(online_cpus); do
			set_to "$GLOBAL/cpumask" "$(cpu_mask "$cpu")" &&
				set_to "$(dev wqt_o nice)" $((i - 2)) &&
				set_to "$(dev wqt_o affinity_scope)" numa &&
				set_to "$(dev wqt_o affinity_scope)" cpu &&
				progresses wqt_o || ok=1
		done
	done
	set_to "$GLOBAL/cpumask" "$all" || ok=1
	is_equal "most at once" "$(stat_of wqt_o peak)" 1 || ok=1
	account_is_right wqt_o && return $ok
}

# The share of LIMIT for each node with online CPUs, CPU 0's node first: in proportion to its
# CPUs, but at least MIN.
node_limits()	# LIMIT MIN
{
	local node nr total
	total=$(nr_online)

	[ -d /sys/devices/system/node ] || { echo "$1"; return; }
	for node in /sys/devices/system/node/node*; do
		nr=$(expand_list "$(cat "$node/cpulist")" | wc -l)
		[ "$nr" -eq 0 ] || echo "$1 $2 $nr $total"
	done | awk '{ n = int(($1 * $3 + $4 - 1) / $4); print n < $2 ? $2 : n }'
}

test_max_active_holds()	# "KIND LIMIT"
{
	local flags=${1% *} limit=${1##* } most
	most=$limit

	# while LIMIT is small, each node has at least LIMIT
	[ "$flags" != unbound ] ||
		most=$(node_limits "$limit" "$limit" | awk '{ n += $1 } END { print n }')
	create wqt_a "$flags" max_active="$limit"
	tell wqt_a load "threads=$((2 * $(nr_online))) depth=16 sleep_us=200" || return 1
	sleep 1
	account_is_right wqt_a && is_equal "most at once" "$(stat_of wqt_a peak)" "$most" &&
		destroy wqt_a
}

# Items that were held back start when the limit rises, and not before.
test_max_active_rises()	# unbound or percpu
{
	local limit least=2 most

	create wqt_a "$1" max_active=$least
	tell wqt_a queue "block cpu=0 n=8" || return 1
	for limit in 2 5 16; do
		most=$limit
		[ "$1" != unbound ] || most=$(node_limits $limit $least | head -n 1)
		[ "$most" -le 8 ] || most=8
		set_to "$(dev wqt_a max_active)" $limit && within 50 held_is wqt_a "$most" &&
			sleep 0.2 && is_equal "items that run" "$(held wqt_a)" "$most" || return 1
	done
	tell wqt_a release 1 && tell wqt_a wait "8 5000" && destroy wqt_a
}

# Creates wqt_a with 8 slots for each CPU. Each CPU keeps half of them.
with_spare_slots()
{
	create wqt_a unbound max_active=$((8 * $(nr_online)))
	set_to "$(dev wqt_a affinity_scope)" cpu && leave_spare_slots
}

leave_spare_slots()
{
	local cpu

	for cpu in $(online_cpus); do
		tell wqt_a queue "block cpu=$cpu n=4"
	done
	within 50 held_is wqt_a $((4 * $(nr_online))) || return 1
	tell wqt_a release && tell wqt_a wait "$(stat_of wqt_a queued) 5000"
}

# Blocks all slots from CPU 0, and two items more, then lets them go.
all_slots_are_there()	# SLOTS
{
	tell wqt_a queue "block cpu=0 n=$(($1 + 2))"
	within 50 held_is wqt_a "$1" && sleep 0.1 &&
		is_equal "items that run" "$(held wqt_a)" "$1" || return 1
	tell wqt_a release && tell wqt_a wait "$(stat_of wqt_a queued) 5000"
}

# A pwq may keep spare slots of the limit. The items of all other pwqs can get them, even after
# the pwq that kept them is gone.
test_spare_slots()
{
	local ok=0 most scope

	with_spare_slots || ok=1
	most=$(node_limits $((8 * $(nr_online))) 8 | head -n 1)
	all_slots_are_there "$most" || ok=1
	for scope in smt cpu cache cpu; do
		leave_spare_slots && set_to "$(dev wqt_a affinity_scope)" $scope &&
			leave_spare_slots && all_slots_are_there "$most" || ok=1
	done
	destroy wqt_a && return $ok
}

blocked_are()	# NAME NUMBER
{
	[ "$(grep -c ^block "$HELPER/$1/held")" -eq "$2" ]
}

# Two items on different CPUs end at the same tick. Both slots go to items that wait on one CPU.
test_both_slots_for_a_waiter()
{
	local round ok=0

	create wqt_a unbound max_active=2
	set_to "$(dev wqt_a affinity_scope)" cpu || return 1
	for round in 1 2 3 4 5 6 7 8; do
		tell wqt_a queue "hog cpu=0 ms=40" && tell wqt_a queue "hog cpu=1 ms=40" &&
			tell wqt_a queue "block cpu=1 n=2" && within 50 blocked_are wqt_a 2 ||
			{ diag "round $round: $(held wqt_a) of 2 run"; ok=1; }
		tell wqt_a release && tell wqt_a wait "$(stat_of wqt_a queued) 5000" || ok=1
		[ $ok -eq 0 ] || break
	done
	destroy wqt_a && return $ok
}

# A slot that is free goes to an item that waits, rather than to the CPU that used it before.
test_spare_slot_for_a_waiter()
{
	local ok=0 most

	with_spare_slots || ok=1
	most=$(node_limits $((8 * $(nr_online))) 8 | head -n 1)
	tell wqt_a queue "hog cpu=0 ms=2000"
	tell wqt_a queue "block cpu=0 n=$((most - 1))"
	within 15 held_is wqt_a "$most" || ok=1
	tell wqt_a queue "block cpu=1"
	within 50 blocked_are wqt_a "$most" || ok=1
	tell wqt_a release && tell wqt_a wait "$(stat_of wqt_a queued) 5000" || ok=1
	destroy wqt_a && return $ok
}

# After the limit is lowered, a slot that a pwq has kept does not let an item start.
test_spare_slots_over_the_limit()
{
	local ok=0 most

	with_spare_slots || ok=1
	most=$(node_limits 1 1 | head -n 1)
	set_to "$(dev wqt_a max_active)" 1 && all_slots_are_there "$most" || ok=1
	destroy wqt_a && return $ok
}

# A slot goes to the item that waits for it in another pool, even if others are queued at
# the moment when the slot becomes free. CPUs 0 and 1 are on one node.
test_nobody_overtakes()
{
	local ok=0

	create wqt_a unbound max_active=1
	set_to "$(dev wqt_a affinity_scope)" cpu && set_to "$(dev wqt_a affinity_strict)" 1 || ok=1
	set_to "$HELPER/wqt_a/relay" "rounds=500 from=1 to=0" || ok=1
	is_equal "items out of order" "$(stat_of wqt_a misordered)" 0 || ok=1
	is_equal "items that ran" "$(stat_of wqt_a ran)" "$(stat_of wqt_a queued)" || ok=1
	destroy wqt_a && return $ok
}

test_max_active_under_load()
{
	local n ok=0

	start_anywhere wqt_u wqt_p || return 1
	for n in 1 2 3 64 1 512 2 1; do
		set_to "$(dev wqt_u max_active)" $n && set_to "$(dev wqt_p max_active)" $n &&
			progresses wqt_u wqt_p || ok=1
	done
	accounts_are_right wqt_u wqt_p && return $ok
}

# Workqueues are created, used and destroyed while the attributes of all others change.
test_come_and_go_under_load()
{
	local i kind ok=0

	start_anywhere wqt_u || return 1
	for i in $ROUNDS; do
		for kind in percpu unbound ordered "unbound highpri" "percpu mem_reclaim" bh; do
			create wqt_y $kind
			tell wqt_y load "threads=2 depth=8" && progresses wqt_y || ok=1
			set_to "$(dev wqt_u affinity_scope)" numa || ok=1
			account_is_right wqt_y || ok=1
			destroy wqt_y && set_to "$(dev wqt_u affinity_scope)" default || ok=1
		done
	done
	accounts_are_right wqt_u && return $ok
}

mount_all
load_helper
create wqt_u unbound
create wqt_m unbound mem_reclaim
create wqt_o ordered
create wqt_p percpu
ALLOWED=$(map_field wqt_u map allowed | sort -u)

set -- scopes_under_load default_scope_under_load strictness_under_load nice_under_load \
	own_mask_under_load strict_to_one_cpu global_mask global_mask_under_load \
	order_while_everything_moves \
	"max_active_holds:unbound 3" "max_active_holds:percpu 2" "max_active_holds:unbound 1" \
	max_active_rises:unbound max_active_rises:percpu max_active_under_load \
	both_slots_for_a_waiter \
	spare_slots spare_slot_for_a_waiter spare_slots_over_the_limit \
	come_and_go_under_load disjoint_masks nobody_overtakes
[ "$(nr_online)" -gt 1 ] || skip "one CPU has no disjoint masks" disjoint_masks nobody_overtakes \
	both_slots_for_a_waiter spare_slot_for_a_waiter
run_tests "$@"

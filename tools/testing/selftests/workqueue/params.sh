#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The parameters under /sys/module/workqueue/parameters, at their defaults, and turns at max_active.

. "$(dirname "$0")/lib.sh"

# One file: its mode and its default.
test_parameter()	# NAME=MODE=VALUE
{
	local name=${1%%=*} mode value
	mode=${1#*=}
	value=${mode#*=}
	mode=${mode%%=*}

	is_equal mode "$(stat -c %a "$PARAMS/$name")" "$mode" &&
		reads "$PARAMS/$name" "$value"
}

# Slow machines get a longer threshold, up to a second.
test_cpu_intensive_thresh_us()
{
	local us
	us=$(cat $PARAMS/cpu_intensive_thresh_us) || return 1

	is_equal mode "$(stat -c %a $PARAMS/cpu_intensive_thresh_us)" 644 || return 1
	[ "$us" -ge 10000 ] && [ "$us" -le 1000000 ] || { diag "$us us"; return 1; }
	set_to $PARAMS/cpu_intensive_thresh_us 20000 &&
		reads $PARAMS/cpu_intensive_thresh_us 20000 &&
		refuses $PARAMS/cpu_intensive_thresh_us x &&
		set_to $PARAMS/cpu_intensive_thresh_us "$us"
}

test_no_other_files()
{
	local own='' off=''
	if [ "$VARIANT" != base ]; then
		own=" own_pools"
		off=" offload_isolated"
	fi

	# shellcheck disable=SC2046	# all of them in one line
	is_equal "the list of parameters" "$(echo $(ls $PARAMS | sort))" \
		"cache_shard_size cpu_intensive_thresh_us cpu_intensive_warning_thresh\
 debug_force_rr_cpu default_affinity_scope$off$own panic_on_stall panic_on_stall_time\
 power_efficient watchdog_thresh"
}

test_default_scope()	# SCOPE
{
	local f=$PARAMS/default_affinity_scope ok=0

	create wqt_d unbound
	set_to $f "$1" && reads $f "$1" &&
		reads "$(dev wqt_d affinity_scope)" "default ($1)" || ok=1
	is_equal "CPUs that were served" "$(map_field wqt_d map ran | wc -l)" \
		"$(nr_online)" || ok=1
	set_to $f cache_shard &&
		reads "$(dev wqt_d affinity_scope)" "default (cache_shard)" || ok=1
	destroy wqt_d
	return $ok
}

test_bad_default_scope()
{
	local f=$PARAMS/default_affinity_scope

	refuses $f default && refuses $f cachex && refuses $f CACHE &&
		refuses $f "" && refuses $f "cache " && refuses $f 2
}

test_bad_numbers()
{
	local name

	for name in cpu_intensive_warning_thresh watchdog_thresh panic_on_stall \
			panic_on_stall_time debug_force_rr_cpu; do
		refuses $PARAMS/$name x && refuses $PARAMS/$name "" || return 1
	done
}

test_bad_offload_isolated()
{
	refuses $PARAMS/offload_isolated x && refuses $PARAMS/offload_isolated 2
}

test_huge_watchdog_thresh()
{
	local before
	before=$(cat $PARAMS/watchdog_thresh)

	if echo 18446744073709551615 2>/dev/null >$PARAMS/watchdog_thresh; then
		diag "watchdog_thresh takes a value that is too large"
		return 1
	fi
	reads $PARAMS/watchdog_thresh "$before" &&
		set_to $PARAMS/watchdog_thresh 0 && reads $PARAMS/watchdog_thresh 0 &&
		set_to $PARAMS/watchdog_thresh "$before"
}

test_forced_round_robin()
{
	local i moved=0 strayed

	[ "$(nr_online)" -gt 1 ] || { diag "needs 2 CPUs"; return 1; }
	create wqt_r unbound
	create wqt_b percpu
	set_to "$(dev wqt_r affinity_scope)" cpu &&
		set_to "$(dev wqt_r affinity_strict)" 1 &&
		set_to $PARAMS/debug_force_rr_cpu Y || return 1
	for i in 1 2 3 4; do
		moved=$((moved + $(moved_items wqt_r)))
	done
	strayed=$(moved_items wqt_b)
	set_to $PARAMS/debug_force_rr_cpu N
	[ $moved -gt 0 ] || diag "every item stayed where it was queued"
	[ $moved -gt 0 ] && is_equal "per-CPU items elsewhere" "$strayed" 0 &&
		is_equal "items elsewhere after all" "$(moved_items wqt_r)" 0 &&
		destroy wqt_r && destroy wqt_b
}

moved_items()	# NAME: how many items of a map did not run where they were queued
{
	awk '{ sub("cpu=", "", $1); sub("ran=", "", $2); n += $1 != $2 } END { print n + 0 }' \
		"$HELPER/$1/map"
}

# Two CPUs want the only slot. Each keeps it for some items in a row, but not for all of them.
test_slot_turn()
{
	local rc=0 rows longest n=4000

	create wqt_t unbound max_active=1
	set_to "$(dev wqt_t affinity_scope)" cpu || return 1
	tell wqt_t queue "block cpu=0" && within 50 held_is wqt_t 1 || rc=1
	tell wqt_t queue "nop cpu=0 n=$n"
	tell wqt_t queue "nop cpu=1 n=$n"
	tell wqt_t release
	tell wqt_t wait "$((2 * n + 1)) 20000" || rc=1
	rows=$(rows_of_both wqt_t)
	longest=$(echo "$rows" | sort -n | tail -1)
	[ "$(echo "$rows" | wc -l)" -ge 6 ] ||
		{ diag "the CPUs took too few turns:" $rows; rc=1; }
	[ "$longest" -ge 2 ] || { diag "no CPU kept the slot"; rc=1; }
	destroy wqt_t
	return $rc
}

# An item that takes longer than a turn ends the turn of its CPU.
test_slot_turn_of_long_items()
{
	local rc=0 rows

	create wqt_t unbound max_active=1
	set_to "$(dev wqt_t affinity_scope)" cpu || return 1
	# long enough to queue the others meanwhile, on a slow machine, too
	tell wqt_t queue "hog cpu=0 ms=3000" && within 50 held_is wqt_t 1 || rc=1
	tell wqt_t queue "hog cpu=1 n=5 ms=30"
	tell wqt_t queue "hog cpu=0 n=5 ms=30"
	tell wqt_t wait "11 20000" || rc=1
	rows=$(rows_of_both wqt_t | sort -nu)
	is_equal "items in a row" "$rows" 1 || rc=1
	destroy wqt_t
	return $rc
}

rows_of_both()	# NAME: how many items ran in a row, for as long as both CPUs have some left
{
	awk '{ cpu[NR] = $1; n[NR] = $2; left[$1] += $2 }
	     END { for (i = 1; i <= NR && left[0] && left[1]; i++) {
			print n[i]; left[cpu[i]] -= n[i] } }' "$HELPER/$1/order"
}

case $VARIANT in
cmwq) SHARD_SIZE_MODE=644 ;;
*) SHARD_SIZE_MODE=444 ;;
esac

set -- no_other_files \
	parameter:cache_shard_size=$SHARD_SIZE_MODE=8 \
	parameter:cpu_intensive_warning_thresh=644=4 \
	parameter:debug_force_rr_cpu=644=N \
	parameter:default_affinity_scope=644=cache_shard \
	parameter:panic_on_stall=644=0 \
	parameter:panic_on_stall_time=644=0 \
	parameter:power_efficient=444=N \
	parameter:watchdog_thresh=644=30 \
	cpu_intensive_thresh_us
for scope in $SCOPES; do
	set -- "$@" default_scope:"$scope"
done
set -- "$@" bad_default_scope bad_numbers huge_watchdog_thresh forced_round_robin \
	parameter:own_pools=644=1 parameter:offload_isolated=644=N bad_offload_isolated \
	slot_turn slot_turn_of_long_items
[ "$VARIANT" != base ] || skip "the base kernel does not have this parameter" \
	parameter:own_pools=644=1 parameter:offload_isolated=644=N bad_offload_isolated \
	slot_turn slot_turn_of_long_items
[ "$(nr_online)" -gt 1 ] || skip "one CPU leaves no other to move to" forced_round_robin
[ "$(nr_online)" -gt 1 ] || skip "one CPU is one pool" slot_turn slot_turn_of_long_items
run_tests "$@"

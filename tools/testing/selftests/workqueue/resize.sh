#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# workqueue.cache_shard_size changes while work is running. The base kernel cannot do that.

. "$(dirname "$0")/lib.sh"

SIZE=$PARAMS/cache_shard_size
SIZES="1 2 4 8 16 32 4096"

nr_pods()
{
	map_field wqt_z map allowed | sort -u | wc -l
}

# Larger shards do not make more pods, and every CPU is served.
test_size()	# SIZE
{
	local pods

	set_to $SIZE "$1" && reads $SIZE "$1" || return 1
	pods=$(nr_pods)
	[ "$pods" -le "$LAST_PODS" ] ||
		{ diag "$pods pods, after $LAST_PODS of smaller shards"; return 1; }
	LAST_PODS=$pods
	is_equal "CPUs that were served" "$(map_field wqt_z map ran | wc -l)" "$(nr_online)"
}

shards_are_as_many_as_pods()	# SCOPE
{
	local pods

	set_to "$(dev wqt_z affinity_scope)" "$1" || return 1
	pods=$(nr_pods)
	set_to "$(dev wqt_z affinity_scope)" cache_shard &&
		is_equal "number of pods" "$(nr_pods)" "$pods"
}

test_one_core_a_shard()
{
	set_to $SIZE 1 && shards_are_as_many_as_pods smt
}

test_one_shard_an_LLC()
{
	set_to $SIZE 4096 && shards_are_as_many_as_pods cache
}

test_size_0_means_1()
{
	local pods

	set_to $SIZE 1 || return 1
	pods=$(nr_pods)
	set_to $SIZE 8 && set_to $SIZE 0 || return 1
	is_equal "number of pods" "$(nr_pods)" "$pods" &&
		reads $SIZE 1 && dmesg | tail -n 20 | grep -q "cache_shard_size"
}

test_bad_size()
{
	set_to $SIZE 8 && refuses $SIZE x && refuses $SIZE "" && refuses $SIZE "8 8" || return 1
	if echo -1 2>/dev/null >$SIZE; then
		diag "-1 is taken"
		return 1
	fi
	reads $SIZE 8
}

# Strict, non-strict, ordered and WQ_MEM_RECLAIM workqueues all move while they work.
test_under_load()
{
	local round size ok=0

	create wqt_r unbound mem_reclaim
	create wqt_o ordered
	start "threads=2 depth=16 spin_us=10" wqt_z wqt_l wqt_r wqt_o || return 1
	for round in $ROUNDS; do
		for size in $SIZES 3 5 7; do
			set_to $SIZE "$size" && progresses wqt_z wqt_l wqt_r wqt_o || ok=1
		done
	done
	accounts_are_right wqt_z wqt_l wqt_r wqt_o || ok=1
	destroy wqt_r
	destroy wqt_o
	return $ok
}

# Two writers, as fast as possible.
test_storm()
{
	local i other ok=0

	tell wqt_z stats 0
	tell wqt_z load "threads=4 depth=64" || return 1
	(for i in 1 2 3 4 5 6 7 8 9 10; do
		echo 1 >$SIZE
		echo 4 >$SIZE
	done) &
	other=$!
	for i in 1 2 3 4 5 6 7 8 9 10; do
		echo 2 >$SIZE && echo 32 >$SIZE || ok=1
	done
	wait $other || ok=1
	account_is_right wqt_z || ok=1
	set_to $SIZE 8 || ok=1
	return $ok
}

# Workqueues of another scope do not change.
test_other_scopes_stay()
{
	local before

	create wqt_n unbound
	set_to "$(dev wqt_n affinity_scope)" numa && set_to "$(dev wqt_n affinity_strict)" 1 &&
		set_to $SIZE 8 || return 1
	before=$(map_field wqt_n map allowed)
	set_to $SIZE 1 && is_equal "the pods of numa" "$(map_field wqt_n map allowed)" "$before" &&
		set_to $SIZE 8 && destroy wqt_n
}

mount_all
load_helper
create wqt_z unbound
create wqt_l unbound
echo 1 >"$(dev wqt_z affinity_strict)" || bail "no strict workqueue"
echo cache_shard >"$(dev wqt_z affinity_scope)" || bail "no scope cache_shard"
LAST_PODS=$(nr_online)

set --
for size in $SIZES; do
	set -- "$@" size:"$size"
done
run_tests "$@" one_core_a_shard one_shard_an_LLC size_0_means_1 bad_size \
	under_load storm other_scopes_stay

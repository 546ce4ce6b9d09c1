#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Boot parameters with invalid values, which the kernel has to ignore. The command line:
#   workqueue.default_affinity_scope=cachex workqueue.cache_shard_size=0
#   workqueue.unbound_cpus=nonsense workqueue.watchdog_thresh=x isolcpus=domain,1

. "$(dirname "$0")/lib.sh"

test_bad_scope_is_ignored()
{
	reads $PARAMS/default_affinity_scope cache_shard
}

test_bad_mask_is_ignored()
{
	is_equal "the unbound mask" "$(cat $GLOBAL/cpumask)" "$(cat $GLOBAL/cpumask_requested)" &&
		! same_mask "$(cat $GLOBAL/cpumask)" 0
}

test_bad_threshold_is_ignored()
{
	reads $PARAMS/watchdog_thresh 30
}

test_size_0_warns()
{
	dmesg | grep -q "cache_shard_size" && reads $PARAMS/cache_shard_size 1
}

test_isolated_cpus()
{
	local cpu
	cpu=$(given isolcpus)
	cpu=${cpu#domain,}

	create wqt_d unbound
	same_mask "$(cat $GLOBAL/cpumask_isolated)" "$(cpu_mask "$cpu")" ||
		{ diag "isolated: $(cat $GLOBAL/cpumask_isolated)"; return 1; }
	is_equal "the isolated CPU among the workers'" \
		"$(expand_list "$(map_field wqt_d map allowed 0)" | grep -cx "$cpu")" 0 &&
		destroy wqt_d
}

test_power_efficient_is_off()
{
	create wqt_e power_efficient
	reads "$(dev wqt_e per_cpu)" 1 && [ ! -e "$(dev wqt_e affinity_scope)" ] && destroy wqt_e
}

test_shards_of_one_core()
{
	shards_are_cores
}

mount_all
load_helper

run_tests bad_scope_is_ignored bad_mask_is_ignored bad_threshold_is_ignored \
	size_0_warns shards_of_one_core isolated_cpus power_efficient_is_off

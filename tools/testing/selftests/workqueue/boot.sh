#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Boot parameters. The script reads the values from the kernel's command line and
# checks their effect. rejected.sh is for values that are invalid.

. "$(dirname "$0")/lib.sh"

test_value()	# PARAMETER
{
	local want
	want=$(given "workqueue.$1")

	[ -n "$want" ] || { diag "workqueue.$1 is not on the command line"; return 1; }
	case $want in
	1) [ "$(cat "$PARAMS/$1")" = Y ] || reads "$PARAMS/$1" 1 ;;
	*) reads "$PARAMS/$1" "$want" ;;
	esac
}

test_default_scope_is_in_force()
{
	create wqt_d unbound
	reads "$(dev wqt_d affinity_scope)" \
		"default ($(given workqueue.default_affinity_scope))" && destroy wqt_d
}

test_unbound_cpus()
{
	local want
	want=$(given workqueue.unbound_cpus)

	create wqt_d unbound
	same_mask "$(cat $GLOBAL/cpumask)" "$(cpu_mask "$want")" &&
		same_mask "$(cat $GLOBAL/cpumask_requested)" "$(cpu_mask "$want")" &&
		is_equal "the workers' CPUs" "$(map_field wqt_d map allowed | sort -u)" "$want" &&
		destroy wqt_d
}

test_power_efficient()
{
	create wqt_e power_efficient
	reads "$(dev wqt_e per_cpu)" 0 && [ -f "$(dev wqt_e affinity_scope)" ] && destroy wqt_e
}

test_shards_of_one_core()
{
	shards_are_cores
}

mount_all
load_helper

[ "$VARIANT" != base ] || skip "the base kernel does not have this parameter" \
	value:own_pools value:offload_isolated
run_tests value:default_affinity_scope value:cache_shard_size \
	value:cpu_intensive_thresh_us value:cpu_intensive_warning_thresh \
	value:power_efficient value:debug_force_rr_cpu value:watchdog_thresh \
	value:panic_on_stall value:panic_on_stall_time value:own_pools value:offload_isolated \
	default_scope_is_in_force unbound_cpus power_efficient shards_of_one_core

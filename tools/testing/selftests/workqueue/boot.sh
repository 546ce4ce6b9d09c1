#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Boot parameters. The script reads the values from the kernel's command line and
# checks their effect. WQT_REJECTED=1 means that the values are invalid and the
# defaults have to stay.

. "$(dirname "$0")/lib.sh"

given()	# PARAMETER: its value on the command line
{
	tr ' ' '\n' </proc/cmdline | sed -n "s/^$1=//p" | tail -n 1
}

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

test_power_efficient_is_off()
{
	create wqt_e power_efficient
	reads "$(dev wqt_e per_cpu)" 1 && [ ! -e "$(dev wqt_e affinity_scope)" ] && destroy wqt_e
}

test_shards_of_one_core()
{
	local cores

	create wqt_s unbound
	set_to "$(dev wqt_s affinity_strict)" 1 &&
		set_to "$(dev wqt_s affinity_scope)" smt || return 1
	cores=$(map_field wqt_s map allowed)
	set_to "$(dev wqt_s affinity_scope)" cache_shard &&
		is_equal "the pods" "$(map_field wqt_s map allowed)" "$cores" && destroy wqt_s
}

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

mount_all
load_helper

if [ "${WQT_REJECTED:-0}" = 1 ]; then
	run_tests bad_scope_is_ignored bad_mask_is_ignored bad_threshold_is_ignored \
		size_0_warns shards_of_one_core isolated_cpus power_efficient_is_off
else
	[ "$VARIANT" != base ] || skip "the base kernel does not have this parameter" \
		value:pool_per_cpu value:slot_turn value:spare_slots value:long_run_us
	run_tests value:default_affinity_scope value:cache_shard_size \
		value:cpu_intensive_thresh_us value:cpu_intensive_warning_thresh \
		value:power_efficient value:debug_force_rr_cpu value:watchdog_thresh \
		value:panic_on_stall value:panic_on_stall_time value:pool_per_cpu value:slot_turn \
		value:spare_slots value:long_run_us \
		default_scope_is_in_force unbound_cpus power_efficient shards_of_one_core
fi

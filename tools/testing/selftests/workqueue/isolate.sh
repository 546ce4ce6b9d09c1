#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Unbound work avoids CPUs that a cpuset isolates at run time.

. "$(dirname "$0")/lib.sh"

CGROUP=/sys/fs/cgroup
CPU=$(online_cpus | tail -n 1)

# Makes the last CPU an isolated partition.
isolate()
{
	mkdir "$CGROUP/wqt" && set_to "$CGROUP/wqt/cpuset.cpus" "$CPU" &&
		set_to "$CGROUP/wqt/cpuset.cpus.exclusive" "$CPU" &&
		set_to "$CGROUP/wqt/cpuset.cpus.partition" isolated &&
		reads "$CGROUP/wqt/cpuset.cpus.partition" isolated
}

give_back()
{
	set_to "$CGROUP/wqt/cpuset.cpus.partition" member && rmdir "$CGROUP/wqt"
}

isolated_among_workers()	# prints how many of the pools may use the CPU
{
	map_field wqt_u map allowed | sort -u | while read -r list; do
		expand_list "$list"
	done | grep -cx "$CPU"
}

test_masks()
{
	local requested ok=0
	requested=$(cat $GLOBAL/cpumask_requested)

	isolate || return 1
	same_mask "$(cat $GLOBAL/cpumask_isolated)" "$(cpu_mask "$CPU")" ||
		{ diag "isolated: $(cat $GLOBAL/cpumask_isolated)"; ok=1; }
	reads $GLOBAL/cpumask_requested "$requested" || ok=1
	is_equal "pools that use the isolated CPU" "$(isolated_among_workers)" 0 || ok=1
	# Work that names the CPU still runs there.
	is_equal "where the per-CPU item ran" "$(map_field wqt_p map_on ran "$CPU")" "$CPU" || ok=1
	give_back || ok=1
	same_mask "$(cat $GLOBAL/cpumask_isolated)" 0 ||
		{ diag "isolated afterwards: $(cat $GLOBAL/cpumask_isolated)"; ok=1; }
	reads $GLOBAL/cpumask "$requested" || ok=1
	return $ok
}

test_under_load()
{
	local i wq ok=0

	for wq in wqt_u wqt_p wqt_o; do
		tell $wq load "threads=2 depth=16 spin_us=10" || return 1
	done
	for i in 1 2 3; do
		isolate || ok=1
		for wq in wqt_u wqt_p wqt_o; do
			progresses $wq || ok=1
		done
		give_back || ok=1
		for wq in wqt_u wqt_p wqt_o; do
			progresses $wq || ok=1
		done
	done
	for wq in wqt_u wqt_p wqt_o; do
		account_is_right $wq || ok=1
	done
	return $ok
}

# Afterwards the mask that was requested through sysfs is in force again.
test_requested_mask_returns()
{
	local all ok=0
	all=$(cat $GLOBAL/cpumask)

	set_to $GLOBAL/cpumask "$(cpu_mask 0)" && isolate || return 1
	same_mask "$(cat $GLOBAL/cpumask)" "$(cpu_mask 0)" ||
		{ diag "mask: $(cat $GLOBAL/cpumask)"; ok=1; }
	give_back && same_mask "$(cat $GLOBAL/cpumask)" "$(cpu_mask 0)" || ok=1
	set_to $GLOBAL/cpumask "$all" && return $ok
}

mount_all
load_helper
mounted $CGROUP || mount -t cgroup2 cgroup2 $CGROUP || bail "no cgroup2"
echo +cpuset >$CGROUP/cgroup.subtree_control || bail "no cpusets: is CONFIG_CPUSETS set?"
create wqt_u unbound
create wqt_p percpu
create wqt_o ordered

run_tests masks under_load requested_mask_returns

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Isolated CPUs.  A CPU is isolated at run time by a cpuset, or from boot on by isolcpus= or
# nohz_full=.

. "$(dirname "$0")/lib.sh"

CGROUP=/sys/fs/cgroup
CPUS=/sys/devices/system/cpu
TRACING=/sys/kernel/tracing
# The CPU that boots keeps its tick, even if nohz_full= names it: that file leaves it out.
NOHZ_FULL=$(sed -n 's/.*nohz_full=\([0-9,-]*\).*/\1/p' /proc/cmdline)
TICKLESS=$(expand_list "${NOHZ_FULL:-$(cat $CPUS/nohz_full 2>/dev/null | tr -dc 0-9,-)}")
ISOLATED=$(expand_list "$(cat $CPUS/isolated)")
LATE=$(expand_list "$(cat $CPUS/offline)")
# the CPU for the cpuset: one that is isolated already if there is any, so that others are left
CPU=$(printf '%s\n' $ISOLATED $TICKLESS | grep . | tail -n 1)
CPU=${CPU:-$(online_cpus | tail -n 1)}

# Makes this CPU an isolated partition.
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

workers_on()	# CPU: prints how many pools of wqt_u may use it
{
	map_field wqt_u map allowed | sort -u | while read -r list; do
		expand_list "$list"
	done | grep -cx "$1"
}

# CPUs that the boot left offline come up while work is queued.
test_late_cpus()
{
	local cpu wq ok=0

	for wq in wqt_u wqt_p; do
		tell $wq load "threads=2 depth=8 spin_us=10" || return 1
	done
	for cpu in $LATE; do
		set_to "$CPUS/cpu$cpu/online" 1 && progresses wqt_u && progresses wqt_p || ok=1
	done
	account_is_right wqt_u && account_is_right wqt_p || ok=1
	for cpu in $LATE; do
		is_equal "where the item of CPU $cpu ran" "$(map_field wqt_p map_on ran "$cpu")" \
			"$cpu" || ok=1
	done
	return $ok
}

test_boot_isolation()
{
	local cpu ok=0

	for cpu in $ISOLATED; do
		is_equal "pools that use CPU $cpu" "$(workers_on "$cpu")" 0 || ok=1
	done
	return $ok
}

test_masks()
{
	local requested before ok=0
	requested=$(cat $GLOBAL/cpumask_requested)
	before=$(cat $GLOBAL/cpumask_isolated)

	isolate || return 1
	[ -n "$ISOLATED" ] || same_mask "$(cat $GLOBAL/cpumask_isolated)" "$(cpu_mask "$CPU")" ||
		{ diag "isolated: $(cat $GLOBAL/cpumask_isolated)"; ok=1; }
	reads $GLOBAL/cpumask_requested "$requested" || ok=1
	is_equal "pools that use the isolated CPU" "$(workers_on "$CPU")" 0 || ok=1
	# Work that names the CPU still runs there.
	is_equal "where the per-CPU item ran" "$(map_field wqt_p map_on ran "$CPU")" "$CPU" || ok=1
	give_back || ok=1
	reads $GLOBAL/cpumask_isolated "$before" || ok=1
	reads $GLOBAL/cpumask "$requested" || ok=1
	return $ok
}

test_under_load()
{
	local i ok=0

	start "threads=2 depth=16 spin_us=10" wqt_u wqt_p wqt_o || return 1
	for i in 1 2 3; do
		isolate && progresses wqt_u wqt_p wqt_o || ok=1
		give_back && progresses wqt_u wqt_p wqt_o || ok=1
	done
	accounts_are_right wqt_u wqt_p wqt_o && return $ok
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

# The file of a workqueue says where its workers may run.
test_effective_mask()
{
	local f before ok=0
	f=$(dev wqt_u cpumask_effective)
	before=$(cat "$f")

	isolate || return 1
	is_equal "effective CPUs" "$(expand_mask "$(cat "$f")")" "$(allowed_online wqt_u)" || ok=1
	! expand_mask "$(cat "$f")" | grep -qx "$CPU" || { diag "$CPU is in $(cat "$f")"; ok=1; }
	give_back && reads "$f" "$before" && return $ok
}

timers_of_items()	# CPU: prints how many timers of delayed items expired there
{
	grep -c 'function=delayed_work_timer_fn' "$TRACING/per_cpu/cpu$1/trace"
}

# The timer of a delayed item leaves a CPU without tick alone, even if the caller is on that CPU
# or names it. The item itself runs where it should.
test_timers_of_delayed_items()
{
	local i cpu elsewhere=0 ok=0

	echo >$TRACING/trace
	set_to $TRACING/events/timer/timer_expire_entry/enable 1 || return 1
	for i in 1 2 3; do
		map_field wqt_p map_delayed cpu >/dev/null
		is_equal "items of CPUs that ran elsewhere" "$(elsewhere map_delayed_on)" 0 || ok=1
	done
	set_to $TRACING/events/timer/timer_expire_entry/enable 0
	for cpu in $TICKLESS; do
		is_equal "timers of items on CPU $cpu" "$(timers_of_items "$cpu")" 0 || ok=1
	done
	for cpu in $(online_cpus); do
		elsewhere=$((elsewhere + $(timers_of_items "$cpu")))
	done
	[ $elsewhere -ge $((6 * $(nr_online))) ] || { diag "only $elsewhere timers seen"; ok=1; }
	echo >$TRACING/trace
	return $ok
}

# CPUs without tick make power-efficient workqueues unbound.
test_power_efficient()
{
	local ok=0

	create wqt_e power_efficient
	reads $PARAMS/power_efficient Y && reads "$(dev wqt_e per_cpu)" 0 || ok=1
	destroy wqt_e && return $ok
}

# workqueue.offload_isolated

offload()	# 1 or 0
{
	set_to $PARAMS/offload_isolated "$1"
}

isolated_now()	# the CPUs that are isolated in any way
{
	printf '%s\n' $ISOLATED $TICKLESS "$CPU" | sort -nu
}

is_isolated()	# CPU
{
	isolated_now | grep -qx "$1"
}

elsewhere()	# FILE [NAME]: prints how many items ran on another CPU than their submitter
{
	awk '{ sub("cpu=", "", $1); sub("ran=", "", $2); n += $1 != $2 } END { print n + 0 }' \
		"$HELPER/${2:-wqt_p}/$1"
}

# Items of isolated CPUs, and only these, run on a CPU that is not isolated.
all_offloaded()	# FILE NAME
{
	local line cpu ran

	sed 's/cpu=\([0-9]*\) ran=\([0-9]*\) .*/\1 \2/' "$HELPER/$2/$1" >/tmp/wqt_map
	while read -r cpu ran; do
		if is_isolated "$cpu"; then
			! is_isolated "$ran" && continue
		elif [ "$1" = map_delayed ] || [ "$1" = map_rcu ]; then
			# the timer or the callback may be on any CPU
			! is_isolated "$ran" && continue
		else
			[ "$cpu" -eq "$ran" ] && continue
		fi
		diag "$2: what CPU $cpu queued by $1 ran on CPU $ran"
		return 1
	done </tmp/wqt_map
}

test_offload()	# NAME
{
	local file ok=0

	offload 0 && isolate || return 1
	is_equal "items elsewhere, off" "$(elsewhere map "$1")" 0 || ok=1
	offload 1 || return 1
	for file in map map_delayed map_rcu; do
		all_offloaded $file "$1" || ok=1
	done
	# Work that names the CPU still runs there.
	is_equal "items that name a CPU" "$(elsewhere map_on "$1")" 0 || ok=1
	is_equal "delayed items that name a CPU" "$(elsewhere map_delayed_on "$1")" 0 || ok=1
	offload 0 && is_equal "items elsewhere, off again" "$(elsewhere map "$1")" 0 || ok=1
	give_back && return $ok
}

# A CPU that is no longer isolated keeps its items.
test_offload_follows_the_cpuset()
{
	local ok=0

	offload 1 && isolate && all_offloaded map wqt_p || ok=1
	give_back && is_equal "items elsewhere" "$(elsewhere map)" 0 || ok=1
	offload 0 && return $ok
}

# Items of one CPU start in their order. Not if one runs so long that others may pass it, so let
# no item count as long.
test_offload_keeps_the_order()
{
	local i us ok=0
	us=$(cat $PARAMS/cpu_intensive_thresh_us)

	set_to $PARAMS/cpu_intensive_thresh_us 0 && isolate && offload 1 || return 1
	for i in wqt_p wqt_b; do
		tell $i stats 0 && tell $i load "threads=1 depth=64 spin_us=5 from=$CPU" || ok=1
		progresses $i && sleep 0.5 && progresses $i || ok=1
		tell $i load stop || ok=1
		is_equal "$i: items out of order" "$(stat_of $i misordered)" 0 || ok=1
		is_equal "$i: items lost" "$(stat_of $i lost)" 0 || ok=1
		is_equal "$i: items that ran twice at once" "$(stat_of $i reentered)" 0 || ok=1
		tell $i stats 0
	done
	set_to $PARAMS/cpu_intensive_thresh_us "$us" && offload 0 && give_back && return $ok
}

# The switch is thrown, and the cpuset comes and goes, while work is queued.
test_offload_under_load()
{
	local i ok=0

	start "threads=2 depth=16 spin_us=10" wqt_u wqt_p wqt_b &&
		start "threads=2 depth=16 local=1" wqt_l || return 1
	for i in 1 2 3; do
		offload 1 && isolate && progresses wqt_u wqt_p wqt_b wqt_l || ok=1
		offload 0 && give_back && progresses wqt_u wqt_p wqt_b wqt_l || ok=1
	done
	accounts_are_right wqt_u wqt_p wqt_b || ok=1
	tell wqt_l load stop || ok=1
	is_equal "items that ran" "$(stat_of wqt_l ran)" "$(stat_of wqt_l queued)" || ok=1
	return $ok
}

other_cpus()	# the online CPUs that are not isolated, but for the first one
{
	for cpu in $(online_cpus); do
		is_isolated "$cpu" || echo "$cpu"
	done | tail -n +2
}

# Where the items went goes offline. They go elsewhere, even to the isolated CPU if there is none.
test_offload_when_cpus_leave()
{
	local cpu wq left ok=0
	left=$(other_cpus)

	isolate && offload 1 && tell wqt_b load "threads=2 depth=8 from=$CPU" &&
		tell wqt_p load "threads=2 depth=8 from=$CPU" || return 1
	for cpu in $left; do
		set_to "$CPUS/cpu$cpu/online" 0 && progresses wqt_b && progresses wqt_p &&
			all_offloaded map wqt_p || ok=1
	done
	for cpu in $left; do
		set_to "$CPUS/cpu$cpu/online" 1 && progresses wqt_b && progresses wqt_p || ok=1
	done
	for wq in wqt_b wqt_p; do
		tell $wq load stop || ok=1
		is_equal "$wq: items that ran" "$(stat_of $wq ran)" "$(stat_of $wq queued)" || ok=1
	done
	offload 0 && give_back && return $ok
}

mount_all
load_helper
mounted $CGROUP || mount -t cgroup2 cgroup2 $CGROUP || bail "no cgroup2"
echo +cpuset >$CGROUP/cgroup.subtree_control || bail "no cpusets: is CONFIG_CPUSETS set?"
create wqt_u unbound
create wqt_p percpu
create wqt_o ordered
create wqt_b bh
create wqt_l percpu

set -- late_cpus boot_isolation masks under_load requested_mask_returns effective_mask \
	timers_of_delayed_items power_efficient offload:wqt_p offload:wqt_b \
	offload_follows_the_cpuset offload_keeps_the_order offload_under_load \
	offload_when_cpus_leave
[ -n "$LATE" ] || skip "the CPUs are all online" late_cpus
[ -n "$ISOLATED" ] || skip "the CPUs are not isolated at boot" boot_isolation
[ -n "$TICKLESS" ] || skip "the CPUs all have a tick" timers_of_delayed_items power_efficient
[ "$VARIANT" != base ] || skip "the base kernel has no such file" effective_mask \
	offload:wqt_p offload:wqt_b offload_follows_the_cpuset offload_keeps_the_order \
	offload_under_load offload_when_cpus_leave
[ -n "$TICKLESS$ISOLATED" ] && skip "the CPUs that stay are too few" offload_follows_the_cpuset \
	offload_when_cpus_leave
[ -e "$CPUS/cpu$(online_cpus | tail -n 1)/online" ] ||
	skip "the CPUs cannot go offline" offload_when_cpus_leave
run_tests "$@"

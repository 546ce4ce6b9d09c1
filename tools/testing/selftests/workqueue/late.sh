#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# CPUs that were not brought up at boot (maxcpus=) come up now for the first time.
# Leaves all CPUs online.

. "$(dirname "$0")/lib.sh"

CPU=/sys/devices/system/cpu
TRACING=/sys/kernel/tracing
LATE=$(expand_list "$(cat $CPU/offline)")
BURST=$(echo "$LATE" | tail -n +4)	# the first three come one by one

all_served()	# QUEUE
{
	is_equal "CPUs that were served" "$(map_field "$1" map ran | wc -l)" "$(nr_online)"
}

test_unbound_one_before()
{
	local scope

	for scope in $SCOPES; do
		set_to "$(dev wqt_s affinity_scope)" "$scope" && all_served wqt_s || return 1
	done
}

pod_has()	# CPU OTHER
{
	expand_list "$(map_field wqt_s map allowed "$1")" | grep -qx "$2"
}

# The lowest CPUs of a cache come up last, while another CPU of that cache, which was up
# before, is offline. That CPU must still count as sharing the cache. So the last CPU of the
# boot goes offline first.
test_learned_while_one_is_away()
{
	local known low away high
	known=$(online_cpus | tail -n 1)
	low=$(echo "$LATE" | sed -n 1p)
	away=$(echo "$LATE" | sed -n 2p)
	high=$(echo "$LATE" | sed -n 3p)

	set_to "$(dev wqt_s affinity_scope)" cache && set_to "$CPU/cpu$known/online" 0 &&
		set_to "$CPU/cpu$away/online" 1 && set_to "$CPU/cpu$high/online" 1 || return 1
	within 50 pod_has "$high" "$away" ||
		{ diag "CPUs $away and $high share no cache"; return 1; }
	set_to "$CPU/cpu$away/online" 0 && set_to "$CPU/cpu$low/online" 1 &&
		set_to "$CPU/cpu$known/online" 1 && within 50 pod_has "$high" "$low" || return 1
	pod_has "$high" "$away" && return
	diag "CPU $away, offline, is not in the pod $(map_field wqt_s map allowed "$high")"
	return 1
}

# Counts the rebuilds of all unbound workqueues from here on.
rebuilds_on()
{
	echo wqs_reapply_attrs >$TRACING/set_ftrace_filter &&
		echo function >$TRACING/current_tracer && echo 1 >$TRACING/tracing_on
}

# Prints how many there were.
rebuilds_off()
{
	sleep 2.5	# longer than a CPU waits for others to come up
	grep -c 'wqs_reapply_attrs <-' $TRACING/trace
	echo nop >$TRACING/current_tracer
	echo >$TRACING/set_ftrace_filter
}

uptime_cs()
{
	sed 's/ .*//; s/\.//' /proc/uptime
}

# There is at most one rebuild a second, however many CPUs come up in it.
test_burst_rebuilds_once()
{
	local cpu first last begin seconds rebuilds
	first=$(echo "$BURST" | head -n 1)
	last=$(echo "$BURST" | tail -n 1)

	set_to "$(dev wqt_s affinity_scope)" cache && rebuilds_on || return 1
	begin=$(uptime_cs)
	for cpu in $BURST; do
		set_to "$CPU/cpu$cpu/online" 1 || return 1
	done
	seconds=$((($(uptime_cs) - begin) / 100))
	within 100 pod_has "$first" "$last" ||
		{ diag "CPUs $first and $last share no cache"; return 1; }
	rebuilds=$(rebuilds_off)
	diag "$(echo "$BURST" | wc -l) CPUs in $seconds s, $rebuilds rebuilds"
	[ "$rebuilds" -ge 1 ] && [ "$rebuilds" -le $((seconds + 1)) ]
}

# A CPU that comes back to its old place must not cause a rebuild.
test_known_cpu_rebuilds_nothing()
{
	local cpu
	cpu=$(echo "$BURST" | head -n 1)

	rebuilds_on && set_to "$CPU/cpu$cpu/online" 0 && set_to "$CPU/cpu$cpu/online" 1 || return 1
	is_equal "rebuilds" "$(rebuilds_off)" 0
}

test_coming_up_under_load()
{
	local cpu ok=0

	start "threads=2 depth=8 spin_us=10" wqt_p wqt_u wqt_s || return 1
	for cpu in $LATE; do
		set_to "$CPU/cpu$cpu/online" 1 && progresses wqt_p wqt_u wqt_s || ok=1
	done
	accounts_are_right wqt_p wqt_u wqt_s && return $ok
}

test_per_cpu_one_is_at_home()
{
	local cpu

	for cpu in $(online_cpus); do
		is_equal "where the item of CPU $cpu ran" "$(map_field wqt_p map_on ran "$cpu")" \
			"$cpu" || return 1
	done
}

# Each CPU is in its own pod. Two pods are equal or have no CPU in common.
test_pods_divide_the_CPUs()	# SCOPE
{
	set_to "$(dev wqt_s affinity_scope)" "$1" && all_served wqt_s || return 1
	awk '
		{
			sub("cpu=", "", $1); sub("allowed=", "", $4)
			pod[$1] = $4
			n = split($4, part, ",")
			for (i = 1; i <= n; i++) {
				if (split(part[i], end, "-") == 1)
					end[2] = end[1]
				for (c = end[1] + 0; c <= end[2] + 0; c++) {
					if (c in of && of[c] != $4) {
						print "# CPU " c " is in " of[c] " and in " $4
						bad = 1
					}
					of[c] = $4
				}
			}
		}
		END {
			for (c in pod)
				if (of[c] != pod[c]) {
					print "# CPU " c " is served by " pod[c] ", not its own"
					bad = 1
				}
			exit bad
		}' $HELPER/wqt_s/map
}

mount_all
load_helper
[ -n "$BURST" ] || bail "fewer than 4 CPUs are offline: boot with maxcpus="
create wqt_p percpu
create wqt_u unbound
create wqt_s unbound
echo 1 >"$(dev wqt_s affinity_strict)" || bail "no strict workqueue"

set -- unbound_one_before learned_while_one_is_away \
	burst_rebuilds_once known_cpu_rebuilds_nothing \
	coming_up_under_load per_cpu_one_is_at_home
[ "$VARIANT" != base ] || skip "the base kernel learns nothing after the boot" \
	burst_rebuilds_once known_cpu_rebuilds_nothing
for scope in $SCOPES; do
	set -- "$@" pods_divide_the_CPUs:"$scope"
done
run_tests "$@"

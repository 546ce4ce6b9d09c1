#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# CPUs that leave and come back while work is queued and running.

. "$(dirname "$0")/lib.sh"

CPU=/sys/devices/system/cpu
LOADED="wqt_p wqt_h wqt_u wqt_s wqt_o wqt_b"

offline()
{
	set_to $CPU/cpu"$1"/online 0
}

online()
{
	set_to $CPU/cpu"$1"/online 1
}

removable_cpus()
{
	local cpu

	for cpu in $(online_cpus); do
		[ ! -f "$CPU/cpu$cpu/online" ] || echo "$cpu"
	done
}

# Every CPU runs what is queued on it, in a worker that is bound to it.
at_home()
{
	local wq ok=0

	for wq in wqt_p wqt_h; do
		awk '
			{
				sub("cpu=", "", $1); sub("ran=", "", $2); sub("allowed=", "", $4)
				if ($1 != $2 || $1 != $4) {
					print "# CPU " $1 ": ran on " $2 ", allowed " $4
					bad = 1
				}
			}
			END { exit bad }' "$HELPER/$wq/map_on" || ok=1
	done
	return $ok
}

test_one_by_one_under_load()
{
	local cpu ok=0

	start "threads=2 depth=8 spin_us=10" $LOADED || return 1
	for cpu in $CPUS; do
		offline "$cpu" && progresses $LOADED && online "$cpu" && progresses $LOADED || ok=1
	done
	accounts_are_right $LOADED && at_home && return $ok
}

test_all_but_one_under_load()
{
	local cpu ok=0

	start "threads=2 depth=8 spin_us=10" $LOADED || return 1
	for cpu in $CPUS; do
		# on some machines CPU 0 can go offline, too
		[ "$(nr_online)" -gt 1 ] || break
		offline "$cpu" && progresses $LOADED || ok=1
	done
	is_equal "CPUs online" "$(nr_online)" 1 || ok=1
	for cpu in $CPUS; do
		online "$cpu" && progresses $LOADED || ok=1
	done
	accounts_are_right $LOADED && at_home && return $ok
}

test_storm()
{
	local i cpu ok=0

	start "threads=2 depth=8 spin_us=10" $LOADED || return 1
	for i in 1 2 3; do
		for cpu in $CPUS; do
			offline "$cpu" && online "$cpu" || ok=1
		done
	done
	progresses $LOADED || ok=1
	accounts_are_right $LOADED && at_home && return $ok
}

# An item that runs when its CPU goes offline finishes elsewhere.
test_running_items_are_finished()
{
	tell wqt_p stats 0
	tell wqt_p queue "block cpu=$FIRST n=3" && within 50 held_is wqt_p 3 &&
		offline "$FIRST" && sleep 0.3 && held_is wqt_p 3 &&
		tell wqt_p release 1 && within 50 held_is wqt_p 0 &&
		online "$FIRST" && at_home
}

# An item that sleeps while its CPU goes offline and comes back.
test_items_outlast_their_CPU()
{
	tell wqt_p stats 0
	tell wqt_p queue "block cpu=$FIRST n=3" && within 50 held_is wqt_p 3 &&
		offline "$FIRST" && online "$FIRST" && held_is wqt_p 3 && at_home &&
		tell wqt_p release 1 && within 50 held_is wqt_p 0 && at_home
}

test_queueing_on_a_CPU_that_is_gone()	# WORKQUEUES
{
	local wq ok=0

	offline "$FIRST" || return 1
	for wq in $1; do
		tell $wq stats 0
		tell $wq queue "nop cpu=$FIRST n=10" && tell $wq wait "10 5000" || ok=1
	done
	online "$FIRST" && at_home && return $ok
}

# Each item ran as often as it should, but for the runs that were cancelled.
delayed_are_right()	# NAME
{
	local ok=0

	is_equal "$1: delayed items that did not run" "$(stat_of "$1" lost)" 0 || ok=1
	is_equal "$1: runs too many" "$(stat_of "$1" twice)" 0 || ok=1
	[ "$(stat_of "$1" ran)" -gt 0 ] || { diag "$1: nothing ran"; ok=1; }
	return $ok
}

# In the base kernel the timer of such an item waits until the CPU is back.
test_delayed_items_for_a_CPU_that_is_gone()	# WORKQUEUES
{
	local wq ok=0

	offline "$FIRST" || return 1
	for wq in $1; do
		tell $wq stats 0
		tell $wq delay "calls=200 ms=10 cpu=$FIRST" && delayed_are_right $wq || ok=1
	done
	online "$FIRST" && return $ok
}

# The CPU goes and comes while delayed items that name it are queued, moved and cancelled.
test_delayed_items_while_their_CPU_goes_and_comes()	# WORKQUEUES
{
	local wq rounds=0 ok=0

	for wq in $1; do
		rm -f "/tmp/delayed.$wq"
		tell $wq stats 0
		{ tell $wq delay "calls=10000 ms=10 cpu=$FIRST"; echo ended >"/tmp/delayed.$wq"; } &
	done
	for wq in $1; do
		while [ ! -s "/tmp/delayed.$wq" ] && [ $rounds -lt 300 ]; do
			offline "$FIRST" && online "$FIRST" || ok=1
			rounds=$((rounds + 1))
		done
		[ -s "/tmp/delayed.$wq" ] || { diag "$wq: a call does not return"; return 1; }
		delayed_are_right $wq || ok=1
	done
	[ $rounds -gt 2 ] || { diag "the CPU was away only $rounds times"; ok=1; }
	return $ok
}

# The items of a strict pod run even if all its CPUs are offline.
test_empty_pods()
{
	local scope before ok=0

	for scope in cpu smt cache_shard; do
		set_to "$(dev wqt_s affinity_scope)" $scope || return 1
		before=$(map_field wqt_s map allowed)
		offline "$FIRST" || return 1
		tell wqt_s stats 0
		tell wqt_s queue "nop cpu=$FIRST n=10" && tell wqt_s wait "10 5000" || ok=1
		is_equal "CPUs that were served" "$(map_field wqt_s map ran | wc -l)" \
			"$(nr_online)" || ok=1
		online "$FIRST" || return 1
		# In the base kernel, workers of strict pools may leave their pods here.
		[ "$VARIANT" = base ] ||
			is_equal "the pods of $scope after the return" \
				"$(map_field wqt_s map allowed | tr '\n' ' ')" \
				"$(echo "$before" | tr '\n' ' ')" || ok=1
	done
	return $ok
}

# The reverse: attributes change while CPUs are offline.
test_attributes_while_a_CPU_is_away()
{
	local scope pods ok=0
	# none if the CPU is isolated
	pods=$(expand_mask "$(cat $GLOBAL/cpumask)" | grep -cx "$FIRST")

	for scope in $SCOPES; do
		offline "$FIRST" && set_to "$(dev wqt_s affinity_scope)" "$scope" || ok=1
		is_equal "CPUs that were served" "$(map_field wqt_s map ran | wc -l)" \
			"$(nr_online)" || ok=1
		online "$FIRST" || return 1
		is_equal "CPU of the pod's worker" \
			"$(expand_list "$(map_field wqt_s map_on allowed "$FIRST")" |
				grep -cx "$FIRST")" "$pods" || ok=1
	done
	set_to "$(dev wqt_s affinity_scope)" cache_shard && return $ok
}

test_made_while_a_CPU_is_away()
{
	offline "$FIRST" && create wqt_n percpu && create wqt_v unbound &&
		online "$FIRST" &&
		is_equal "where it ran" "$(map_field wqt_n map_on ran "$FIRST")" "$FIRST" &&
		is_equal "CPUs that were served" "$(map_field wqt_v map ran | wc -l)" \
			"$(nr_online)" &&
		destroy wqt_n && destroy wqt_v
}

# A CPU goes offline while an item keeps it busy. That item must not count as running there
# when the CPU is back.
test_CPU_that_was_busy_serves_again()
{
	local ok=0 thresh
	thresh=$(cat $PARAMS/cpu_intensive_thresh_us)

	# otherwise the item would not count at all
	set_to $PARAMS/cpu_intensive_thresh_us 1000000 || return 1
	tell wqt_p stats 0
	tell wqt_p queue "hog cpu=$FIRST ms=60000"
	within 50 held_is wqt_p 1 && offline "$FIRST" || ok=1
	tell wqt_p release 1
	within 50 held_is wqt_p 0 && online "$FIRST" || ok=1
	tell wqt_p queue "nop cpu=$FIRST n=4"
	tell wqt_p wait "5 5000" || { diag "$(stat_of wqt_p ran) of 5 items ran"; ok=1; }
	set_to $PARAMS/cpu_intensive_thresh_us "$thresh" && return $ok
}

nr_warnings()
{
	dmesg | grep -c "WARNING: "
}

# A CPU goes offline with BH items in its pool, and one of them is cancelled before the pool
# is cleared. The dead CPU must not be asked to run the other one: the kernel warns about
# that, once in each boot.
test_BH_item_cancelled_on_a_dead_CPU()
{
	local warnings ok=0
	warnings=$(nr_warnings)

	tell wqt_b stats 0
	tell wqt_b queue "ride cpu=$FIRST n=2" && offline "$FIRST" &&
		tell wqt_b wait "1 5000" || ok=1
	tell wqt_b release 1 && tell wqt_b flush 1
	is_equal "items that ran, of two" "$(stat_of wqt_b ran)" 1 || ok=1
	online "$FIRST" && is_equal "warnings" "$(nr_warnings)" "$warnings" && return $ok
}

# The files that say whether a CPU is online cannot be read while one is taken down.
offline_in_background()	# CPU
{
	rm -f /tmp/offline
	{ offline "$1" && echo gone >/tmp/offline; } &
}

# A BH item queues itself until it is released. In the base kernel, its CPU cannot be taken
# down until then.
test_BH_item_that_does_not_end()
{
	local ok=0

	tell wqt_b stats 0
	tell wqt_b queue "roam cpu=$FIRST" || return 1
	offline_in_background "$FIRST"
	within 50 test -s /tmp/offline || { diag "CPU $FIRST cannot be taken down"; ok=1; }
	is_equal "items that ended too early" "$(stat_of wqt_b ran)" 0 || ok=1
	tell wqt_b release 1
	wait $!
	tell wqt_b wait "1 5000" || ok=1
	online "$FIRST" && return $ok
}

# Another CPU runs the items of the dead one. One of them queues itself and is cancelled while it
# runs. The task that cancels it has to wait for the run. On a slow machine, this task may come
# too late.
test_BH_item_cancelled_in_its_last_run()
{
	local try

	for try in 1 2 3 4 5; do
		cancelled_in_its_last_run || return 1
		[ "$(stat_of wqt_b caught)" -eq 0 ] || return 0
	done
	diag "in $try tries the item had run before it was cancelled"
	return 1
}

cancelled_in_its_last_run()
{
	local ok=0

	tell wqt_b stats 0
	tell wqt_b queue "linger cpu=$FIRST" && offline "$FIRST" && tell wqt_b wait "1 5000" || ok=1
	tell wqt_b flush 1 && sleep 0.5
	is_equal "cancellations that did not wait for the run" "$(stat_of wqt_b early)" 0 || ok=1
	online "$FIRST" && return $ok
}

# In the base kernel, strict workers may then run on every CPU, even on those that their
# workqueue may not use.
test_strict_workers_stay_in_their_pods()
{
	local pods

	set_to "$(dev wqt_s affinity_scope)" cpu || return 1
	pods=$(map_field wqt_s map allowed)
	offline "$FIRST" && online "$FIRST" &&
		is_equal "pods after CPU $FIRST was away" "$(map_field wqt_s map allowed)" \
			"$pods" &&
		set_to "$(dev wqt_s affinity_scope)" default
}

# max_active is raised while the workqueue has no CPU. In the base kernel, the items that
# the new limit allows wait until another item ends.
test_limit_raised_while_its_CPU_is_away()
{
	local ok=0

	create wqt_l unbound max_active=4
	set_to "$(dev wqt_l cpumask)" "$(cpu_mask "$FIRST")" && offline "$FIRST" || return 1
	tell wqt_l queue "block n=8"
	within 50 held_is wqt_l 4 || { diag "$(held wqt_l) items run, not 4"; ok=1; }
	set_to "$(dev wqt_l max_active)" 8 || ok=1
	online "$FIRST" || return 1
	within 50 held_is wqt_l 8 || { diag "$(held wqt_l) of 8 items run"; ok=1; }
	tell wqt_l release 1 && destroy wqt_l || ok=1
	return $ok
}

# The global mask contains only a CPU that is offline.
test_mask_of_a_CPU_that_is_gone()
{
	local all ok=0
	all=$(cat $GLOBAL/cpumask)

	offline "$FIRST" || return 1
	if set_to $GLOBAL/cpumask "$(cpu_mask "$FIRST")"; then
		is_equal "CPUs that were served" "$(map_field wqt_u map ran | wc -l)" \
			"$(nr_online)" || ok=1
	else
		ok=1
	fi
	online "$FIRST" || return 1
	is_equal "the workers' CPUs" "$(map_field wqt_u map allowed | sort -u)" "$FIRST" || ok=1
	set_to $GLOBAL/cpumask "$all" && return $ok
}

# Takes a CPU down until its pools have been left. It stays online. Only threads that are bound to
# it can get there.
halfway_down()	# CPU
{
	set_to "$CPU/cpu$1/hotplug/target" "$(awk -F : '
		/ workqueue:online$/ { print below }
		{ below = $1 + 0 }' "$CPU/hotplug/states")" && return
	diag "is CONFIG_CPU_HOTPLUG_STATE_CONTROL set?"
	return 1
}

up_again()	# CPU
{
	set_to "$CPU/cpu$1/hotplug/target" \
		"$(awk -F : '{ last = $1 + 0 } END { print last }' "$CPU/hotplug/states")"
}

# Of rows of a map, prints those of workers that run outside the CPUs that they are allowed.
strays()
{
	local cpu ran allowed rest

	while read -r cpu ran rest; do
		allowed=${rest#*allowed=}
		expand_list "${allowed%% *}" | grep -qx "${ran#ran=}" || echo "$cpu $ran $rest"
	done
}

# Of rows of a map, prints the CPUs that the workers are allowed.
allowed_in()
{
	sed 's/.* allowed=\([^ ]*\) .*/\1/'
}

# No worker can be made, and the rescuer goes from the pool of one CPU to that of the next, in
# rounds. One CPU is halfway down, the first one of its pod. If the scheduler sends the rescuer
# there, it stays where it was. Then it has to be sent to another CPU of the pod. If there is none,
# it has to be allowed to run where it is. In the base kernel it runs where it may not.
test_rescuer_meets_a_CPU_halfway_down()	# percpu|unbound
{
	local ok=0 wq cpu row before gone rows=''

	# a CPU that gets an own pool just now brings workers along
	[ ! -f $PARAMS/own_pools ] || set_to $PARAMS/own_pools 0
	create wqt_k "$1" max_active=2048
	create wqt_r "$1" mem_reclaim
	for wq in wqt_k wqt_r; do
		[ "$1" = percpu ] || { set_to "$(dev $wq affinity_strict)" 1 &&
			set_to "$(dev $wq affinity_scope)" numa; } || return 1
	done
	before=$(cat "$HELPER/wqt_r/map_on")
	gone=$(echo "$before" | allowed_in | sed -n '$s/[-,].*//; $p')
	[ -f "$CPU/cpu$gone/online" ] || gone=$FIRST
	halfway_down "$gone" || return 1
	shortage || { up_again "$gone"; return 1; }
	for cpu in $ALL; do
		tell wqt_k queue "block cpu=$cpu n=$CROWD"
	done
	for _ in 1 2 3 4; do
		while read -r row; do
			rows="$rows${rows:+
}$row"
		done <"$HELPER/wqt_r/map_on"
	done
	plenty
	tell wqt_k release 1
	up_again "$gone" && destroy wqt_k && destroy wqt_r || ok=1

	row=$(echo "$rows" | grep -v " comm=kworker/R-wqt_r$")
	[ -z "$row" ] || { diag "run by others:" $row; ok=1; }
	row=$(echo "$rows" | strays)
	[ -z "$row" ] || { diag "runs where it may not:" $row; ok=1; }
	# nothing is left of a pod of one CPU
	if echo "$before" | grep -q "^cpu=$gone .* allowed=$gone "; then
		before=$(echo "$before" | grep -v "^cpu=$gone ")
		rows=$(echo "$rows" | grep -v "^cpu=$gone ")
	fi
	is_equal "allowed" "$(echo "$rows" | allowed_in | sort -u)" \
		"$(echo "$before" | allowed_in | sort -u)" && return $ok
}

# The CPU waits until the item ends. Meanwhile nobody else waits: workers are made on another CPU.
test_CPU_waits_for_an_item_with_migration_disabled()
{
	local ok=0 other
	other=$(echo "$ALL" | grep -vx "$FIRST" | head -n 1)

	tell wqt_p stats 0
	tell wqt_p queue "pin cpu=$FIRST" && within 50 held_is wqt_p 1 || return 1
	offline_in_background "$FIRST"
	sleep 1
	[ ! -s /tmp/offline ] || { diag "the CPU did not wait"; ok=1; }
	tell wqt_p queue "block cpu=$other n=100" && within 50 held_is wqt_p 101 ||
		{ diag "$(held wqt_p) of 101 items began"; ok=1; }
	tell wqt_p release 1
	wait $!
	within 50 held_is wqt_p 0 && online "$FIRST" && at_home && return $ok
}

mount_all
load_helper
ALL=$(online_cpus)
CPUS=$(removable_cpus)
FIRST=$(echo "$CPUS" | head -n 1)
[ -n "$FIRST" ] || bail "no CPU can be taken offline"
create wqt_p percpu
create wqt_h percpu highpri
create wqt_u unbound
create wqt_s unbound
create wqt_o ordered
create wqt_b bh
echo 1 >"$(dev wqt_s affinity_strict)" || bail "no strict workqueue"

set -- running_items_are_finished items_outlast_their_CPU \
	queueing_on_a_CPU_that_is_gone:"wqt_p wqt_u wqt_s" \
	queueing_on_a_CPU_that_is_gone:wqt_b \
	delayed_items_for_a_CPU_that_is_gone:wqt_u \
	delayed_items_for_a_CPU_that_is_gone:"wqt_p wqt_o wqt_b" \
	delayed_items_while_their_CPU_goes_and_comes:"wqt_p wqt_u wqt_b" \
	empty_pods attributes_while_a_CPU_is_away \
	made_while_a_CPU_is_away mask_of_a_CPU_that_is_gone \
	CPU_that_was_busy_serves_again CPU_waits_for_an_item_with_migration_disabled \
	BH_item_cancelled_on_a_dead_CPU \
	BH_item_that_does_not_end BH_item_cancelled_in_its_last_run \
	one_by_one_under_load all_but_one_under_load storm \
	limit_raised_while_its_CPU_is_away strict_workers_stay_in_their_pods \
	rescuer_meets_a_CPU_halfway_down:percpu rescuer_meets_a_CPU_halfway_down:unbound
[ "$VARIANT" != base ] ||
	skip "the base kernel fails it, as \`make basebugs\` shows" \
		limit_raised_while_its_CPU_is_away strict_workers_stay_in_their_pods \
		queueing_on_a_CPU_that_is_gone:wqt_b BH_item_that_does_not_end \
		delayed_items_for_a_CPU_that_is_gone:wqt_u \
		delayed_items_for_a_CPU_that_is_gone:"wqt_p wqt_o wqt_b" \
		delayed_items_while_their_CPU_goes_and_comes:"wqt_p wqt_u wqt_b" \
		rescuer_meets_a_CPU_halfway_down:percpu rescuer_meets_a_CPU_halfway_down:unbound
[ "$(node_sizes | wc -l)" -eq 2 ] ||
	skip "the CPUs are not on two nodes" rescuer_meets_a_CPU_halfway_down:unbound
[ -z "$(node_sizes | grep -x 1)" ] ||
	skip "the CPUs of a node are too few" rescuer_meets_a_CPU_halfway_down:unbound
[ "$(nr_online)" -ge 3 ] ||
	skip "the CPUs are fewer than three" BH_item_cancelled_in_its_last_run
run_tests "$@"

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# No worker can be created: kernel.threads-max is below the number of threads, and
# sleeping items occupy every worker of the pool. Only the rescuer of a WQ_MEM_RECLAIM
# workqueue is left. Meanwhile the shell cannot fork either.

. "$(dirname "$0")/lib.sh"

SYSRQ=/proc/sysrq-trigger

# A fork has to fail, otherwise there is no shortage.
test_shortage_is_real()
{
	local out

	BEFORE=$(cat $THREADS_MAX)
	# A shell that cannot fork exits.
	out=$(sh -c "echo 20 >$THREADS_MAX; echo short; (:); echo forked" 2>/dev/null)
	plenty
	is_equal "what the shell said" "$out" short
}

nice_of()	# THREAD
{
	awk -v name="($1)" '$2 == name { print $19 }' /proc/[0-9]*/stat 2>/dev/null
}

clear_up()
{
	local wq

	for wq; do
		tell $wq release 1
		tell $wq flush 1
	done
}

# Items on a pool whose workers are all occupied.
test_rescue()	# percpu or unbound
{
	local rc=0 ran=0

	create wqt_k "$1" max_active=2048
	create wqt_r "$1" mem_reclaim
	shortage || return 1
	tell wqt_k queue "block cpu=0 n=$CROWD"
	tell wqt_r queue "nop cpu=0 n=50"
	tell wqt_r wait "50 20000" || rc=1
	plenty
	ran=$(stat_of wqt_r ran)
	[ $rc -eq 0 ] || diag "only $ran of 50 items ran"
	[ "$(stat_of wqt_r rescued)" -gt 0 ] || { diag "the rescuer ran none"; rc=1; }
	clear_up wqt_k wqt_r
	is_equal "items that ran after all" "$(stat_of wqt_k ran)" "$CROWD" || rc=1
	destroy wqt_k
	destroy wqt_r
	return $rc
}

# There is a shortage even if an earlier test left hundreds of idle workers.
test_rescue_after_a_crowd()
{
	create wqt_k percpu max_active=512
	tell wqt_k queue "block cpu=0 n=450"
	within 100 held_is wqt_k 450 || return 1
	clear_up wqt_k
	destroy wqt_k
	test_rescue percpu
}

# Both workqueues wait in the pools of two CPUs. Each gets its turn in each pool.
test_turns()
{
	local rc=0 wq cpu

	[ "$(nr_online)" -gt 1 ] || { diag "needs 2 CPUs"; return 1; }
	create wqt_k percpu max_active=2048
	create wqt_r percpu mem_reclaim
	create wqt_q percpu mem_reclaim
	shortage || return 1
	for cpu in 0 1; do
		tell wqt_k queue "block cpu=$cpu n=$CROWD"
		tell wqt_r queue "nop cpu=$cpu n=100"
		tell wqt_q queue "nop cpu=$cpu n=100"
	done
	for wq in wqt_r wqt_q; do
		tell $wq wait "200 20000" || rc=1
	done
	plenty
	for wq in wqt_r wqt_q; do
		is_equal "$wq: items that ran" "$(stat_of $wq ran)" 200 || rc=1
		[ "$(stat_of $wq rescued)" -gt 0 ] || { diag "$wq: the rescuer ran none"; rc=1; }
	done
	clear_up wqt_k wqt_r wqt_q
	destroy wqt_k
	destroy wqt_r
	destroy wqt_q
	return $rc
}

# A load continues during the shortage. Afterwards no item is lost.
test_load()	# percpu or unbound
{
	local rc=0 before

	create wqt_k "$1" max_active=2048
	create wqt_r "$1" mem_reclaim
	tell wqt_r load "threads=2 depth=8 sleep_us=50"
	progresses wqt_r || rc=1
	before=$(stat_of wqt_r ran)
	shortage || return 1
	for cpu in $CPUS; do
		tell wqt_k queue "block cpu=$cpu n=$CROWD"
	done
	tell wqt_r wait "$((before + 400)) 30000" || rc=1
	plenty
	[ $rc -eq 0 ] || diag "stood still at $(stat_of wqt_r ran), from $before"
	clear_up wqt_k
	account_is_right wqt_r || rc=1
	destroy wqt_k
	destroy wqt_r
	return $rc
}

# Two pwqs of a workqueue take turns at its one slot. The rescuer goes from one to the other.
# Otherwise it would be called again for each turn, ten times a second. The pwqs are either
# in one pool, one from before and one from after a change of attributes. Or they are in the
# pools of two CPUs, and one or both of these lack workers. An item takes longer than a turn, so
# each is a turn.
test_turns_at_the_slot()	# pool, pools or pools-one-short
{
	local rc=0 other=0 scope
	scope=$(dev wqt_r affinity_scope)

	create wqt_k unbound max_active=2048
	create wqt_r unbound mem_reclaim max_active=1
	if [ "$1" != pool ]; then
		other=1
		set_to "$scope" cpu && set_to "$(dev wqt_k affinity_scope)" cpu || return 1
	fi
	if [ "$1" = pools-one-short ]; then
		# the other one has enough workers
		tell wqt_k queue "block cpu=1 n=4" && within 50 held_is wqt_k 4 || return 1
		clear_up wqt_k
	fi
	shortage || return 1
	tell wqt_k queue "block cpu=0 n=$CROWD"
	[ "$1" != pools ] || tell wqt_k queue "block cpu=1 n=$CROWD"
	tell wqt_r queue "hog cpu=0 n=100 ms=1"
	[ $other -ne 0 ] || echo cache >"$scope" || rc=1
	tell wqt_r queue "hog cpu=$other n=100 ms=1"
	tell wqt_r wait "200 8000" || rc=1
	plenty
	[ $rc -eq 0 ] || diag "only $(stat_of wqt_r ran) of 200 items ran in 8 s"
	clear_up wqt_k wqt_r
	destroy wqt_k
	destroy wqt_r
	return $rc
}

# Waits until the blocking items occupy all workers: unbound ones are not all on the worklist at
# once. The shell cannot fork now.
crowd_settles()
{
	local before='' now=0 name value

	while [ "$now" != "$before" ]; do
		before=$now
		tell wqt_k wait "$CROWD 300" 2>/dev/null
		while read -r name value; do
			[ "$name" != ran ] || now=$value
		done <"$HELPER/wqt_k/stats"
	done
}

# A rescuer finds its own items behind thousands of items of others. First all of them are
# queued at once. Then each one is activated when the last has run.
test_long_worklist()	# percpu or unbound
{
	local rc=0 wq

	create wqt_k "$1" max_active=2048
	create wqt_f "$1" max_active=2048
	create wqt_g "$1" max_active=2048
	create wqt_r "$1" mem_reclaim max_active=2048
	create wqt_q "$1" mem_reclaim max_active=1
	shortage || return 1
	tell wqt_k queue "block cpu=0 n=$CROWD"
	crowd_settles
	for wq in wqt_f wqt_r wqt_q wqt_g; do
		tell $wq queue "nop cpu=0 n=2000"
	done
	for wq in wqt_r wqt_q; do
		tell $wq wait "2000 30000" || rc=1
	done
	for wq in wqt_f wqt_g; do
		tell $wq wait "1 1" 2>/dev/null && { diag "$wq had a worker"; rc=1; }
	done
	plenty
	for wq in wqt_r wqt_q; do
		is_equal "$wq: items that the rescuer ran" "$(stat_of $wq rescued)" 2000 || rc=1
	done
	clear_up wqt_k wqt_f wqt_g wqt_r wqt_q
	for wq in wqt_f wqt_r wqt_q wqt_g; do
		is_equal "$wq: items that ran" "$(stat_of $wq ran)" 2000 || rc=1
		destroy $wq
	done
	destroy wqt_k
	return $rc
}

# Ordered work keeps its order, whether workers or the rescuer run it.
test_order()
{
	local rc=0

	create wqt_k unbound max_active=2048
	create wqt_r ordered mem_reclaim
	tell wqt_r load "threads=1 depth=16"
	shortage || return 1
	for cpu in $CPUS; do
		tell wqt_k queue "block cpu=$cpu n=$CROWD"
	done
	tell wqt_r wait "2000 30000" || rc=1
	plenty
	clear_up wqt_k
	account_is_right wqt_r || rc=1
	is_equal "most at once" "$(stat_of wqt_r peak)" 1 || rc=1
	destroy wqt_k
	destroy wqt_r
	return $rc
}

# The CPU was free again too early: this try says nothing about the rescuer.
TOO_LATE=2

# The rescuer is called before it has run for the first time, since its CPU is busy. It turns
# out not to be needed and is stopped. So it never runs, and somebody else has to drop the
# references that the call holds.
test_gone_before_it_ran()
{
	local rc i all
	all=$(cat "$GLOBAL/cpumask")

	create wqt_k percpu max_active=2048
	# first let unused pools go, with their workers
	set_to "$GLOBAL/cpumask" "$(cpu_mask 1)" && sleep 1 || return 1
	for i in 1 2 3 4; do
		set_to "$HELPER/occupy" "cpu=1 ms=4000" && never_runs
		rc=$?
		within 100 nobody_occupies || rc=1
		[ $rc -eq $TOO_LATE ] || break
	done
	[ $rc -ne $TOO_LATE ] || diag "the rescuer ran each time"
	destroy wqt_k
	set_to "$GLOBAL/cpumask" "$all" || rc=1
	return $rc
}

# The module must not be removed while a thread spins in it.
nobody_occupies()
{
	! cat /proc/[0-9]*/comm 2>/dev/null | grep -q "^wqt/"
}

never_runs()
{
	local rc=0

	create wqt_r percpu mem_reclaim
	shortage || return 1
	tell wqt_k queue "block cpu=0 n=$CROWD"
	tell wqt_r queue "nop cpu=0"
	tell wqt_r wait "1 100" 2>/dev/null && rc=1
	plenty
	[ $rc -eq 0 ] || diag "there was a worker"
	tell wqt_k release 1
	tell wqt_r wait "1 10000" || rc=1
	# the first thing it does is to raise its priority
	[ "$(nice_of kworker/R-wqt_r)" = 0 ] || [ $rc -ne 0 ] || rc=$TOO_LATE
	destroy wqt_r
	if dmesg | grep -q "wqt_r has the following busy pwq"; then
		diag "the workqueue is not freed"
		rc=1
	fi
	return $rc
}

# Succeeds if it sleeps for longer than a moment.
is_stuck()	# PID
{
	local i state

	for i in 1 2 3; do
		read -r _ _ state _ <"/proc/$1/stat"
		[ "$state" = D ] || return 1
		sleep 0.1
	done
}

# Runs the command, which occupies CPU 1, up to four times: on a slow machine one try may come
# too late.
in_time()	# COMMAND
{
	local rc i

	for i in 1 2 3 4; do
		"$1"
		rc=$?
		[ $rc -eq $TOO_LATE ] || return $rc
	done
	diag "the lock was free only when the CPU was free by itself"
	return $rc
}

# Rescuers may run on CPU 1 only.
with_time_to_spare()	# COMMAND
{
	local rc all
	all=$(cat "$GLOBAL/cpumask")

	set_to "$GLOBAL/cpumask" "$(cpu_mask 1)" || return 1
	in_time "$1"
	rc=$?
	set_to "$GLOBAL/cpumask" "$all" || rc=1
	return $rc
}

# A write to the global cpumask takes the lock that hotplug and the creation of workqueues
# need, too. It succeeds while the process waits for a thread that cannot run on CPU 1.
lock_is_free_while()	# PID
{
	local rc=0

	within 30 is_stuck "$1" || { diag "nobody waits for the thread"; rc=1; }
	set_to "$GLOBAL/cpumask" "$(cpu_mask 1)" || rc=1
	write_to "$HELPER/occupy" leave >/dev/null || [ $rc -ne 0 ] || rc=$TOO_LATE
	wait "$1" || rc=1
	within 100 nobody_occupies || rc=1
	return $rc
}

# A rescuer has to end but cannot, since its CPU is busy. Only the task that destroys its
# workqueue waits for that.
test_slow_to_end()
{
	with_time_to_spare ends_slowly
}

ends_slowly()
{
	create wqt_r percpu mem_reclaim
	set_to "$HELPER/occupy" "cpu=1 ms=5000" || return 1
	destroy wqt_r &
	lock_is_free_while $!
}

# The thread of a new rescuer cannot be made, since kthreadd's CPU is busy. Only the task that
# makes the workqueue waits for that.
test_slow_to_begin()
{
	and_move_kthreadd_back with_time_to_spare begins_slowly
}

# Runs the command, which binds kthreadd to a CPU.
and_move_kthreadd_back()	# COMMAND...
{
	local rc kthreadd
	kthreadd=$(taskset -p 2 | sed 's/.* //')

	"$@"
	rc=$?
	taskset -p "$kthreadd" 2 >/dev/null && return $rc
}

begins_slowly()
{
	local rc

	set_to "$HELPER/occupy" "cpu=1 ms=5000" || return 1
	taskset -p "$(cpu_mask 1)" 2 >/dev/null || return 1
	create wqt_r percpu mem_reclaim &
	lock_is_free_while $!
	rc=$?
	destroy wqt_r
	return $rc
}

mount_all
load_helper
CPUS=$(online_cpus)

[ "$(nr_online)" -gt 1 ] ||
	skip "one CPU is one pool" turns slow_to_end slow_to_begin turns_at_the_slot:pools \
		turns_at_the_slot:pools-one-short gone_before_it_ran
[ "$VARIANT" != base ] ||
	skip "the base kernel fails it, as \`make basebugs\` shows" turns_at_the_slot:pool \
		slow_to_begin turns_at_the_slot:pools turns_at_the_slot:pools-one-short \
		gone_before_it_ran
run_tests shortage_is_real rescue:percpu rescue:unbound rescue_after_a_crowd \
	load:percpu load:unbound order long_worklist:percpu long_worklist:unbound \
	turns slow_to_end slow_to_begin turns_at_the_slot:pool turns_at_the_slot:pools \
	turns_at_the_slot:pools-one-short gone_before_it_ran

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# workqueue.pool_per_cpu=1: each CPU of a pod has a pool of its own.  Without the
# parameter the CPUs of a pod share one.  The base kernel does not know it.

. "$(dirname "$0")/lib.sh"

CPU=/sys/devices/system/cpu
TRACING=/sys/kernel/tracing
WAKEUP=$TRACING/events/sched/sched_wakeup

# One line for each online CPU: itself and the pool of the worker that served it.
pools()	# NAME [map|map_on]
{
	sed -n 's,^cpu=\([0-9]*\) .*comm=kworker/u\([0-9]*\):.*,\1 \2,p' "$HELPER/$1/${2:-map_on}"
}

nr_pools()	# NAME
{
	pools "$1" | awk '{ print $2 }' | sort -u | wc -l
}

nr_pods()	# the workers of wqt_s are strict
{
	map_field wqt_s map_on allowed | sort -u | wc -l
}

set_scope()	# SCOPE
{
	set_to "$(dev wqt_u affinity_scope)" "$1" && set_to "$(dev wqt_s affinity_scope)" "$1"
}

# With the parameter as many pools as CPUs, else as many as pods.
own_pools()
{
	local wq want ok=0
	want=$(nr_pods)

	! per_cpu_pools || want=$(nr_online)
	for wq in wqt_u wqt_s; do
		is_equal "number of $wq's pools" "$(nr_pools $wq)" "$want" || ok=1
	done
	return $ok
}

test_own_pools()	# SCOPE
{
	set_scope "$1" && own_pools
}

# A CPU's items go to the same pool, whether this CPU queues them or another CPU names it.
test_queueing_CPU_decides()
{
	set_scope system &&
		is_equal "pools of queue_work()" "$(pools wqt_u map)" "$(pools wqt_u map_on)"
}

test_equal_attributes_share_pools()
{
	set_scope system && create wqt_v unbound &&
		set_to "$(dev wqt_v affinity_scope)" system &&
		is_equal "pools of equal workqueues" "$(pools wqt_v)" "$(pools wqt_u)" &&
		set_to "$(dev wqt_v nice)" 3 &&
		is_equal "pools in common" "$({ pools wqt_v; pools wqt_u; } | awk '{ print $2 }' |
			sort -u | wc -l)" $(($(nr_pools wqt_u) * 2)) &&
		destroy wqt_v
}

test_ordered_has_one_pool()
{
	is_equal "number of pools" "$(nr_pools wqt_o)" 1
}

# An item that is queued on one CPU while it runs for another does not run twice.
test_items_that_move()	# SCOPE
{
	set_scope "$1" || return 1
	tell wqt_u pods "" && tell wqt_u stats 0
	tell wqt_u load "threads=4 depth=4 spin_us=50" && sleep 1
	account_is_right wqt_u
}

# The CPUs of the workers that run items which compute.
busy_cpus()	# NAME
{
	sed -n 's/^hog pid=\([0-9]*\) .*/\1/p' "$HELPER/$1/held" | while read -r pid; do
		sed 's/.*) //' "/proc/$pid/stat"
	done | awk '{ print $37 }' | sort -u
}

keeps_all_busy()	# NAME
{
	[ "$(busy_cpus "$1" | wc -l)" -eq "$(nr_online)" ]
}

# The pool is one CPU's, the workers are not.
test_burst_uses_all_CPUs()
{
	local ok=0

	set_scope system || return 1
	tell wqt_u stats 0
	tell wqt_u queue "hog cpu=0 n=$(nr_online) ms=60000"
	within 300 keeps_all_busy wqt_u ||
		{ diag "CPUs in use: $(busy_cpus wqt_u | tr '\n' ' ')"; ok=1; }
	tell wqt_u release 1
	within 50 held_is wqt_u 0 && return $ok
}

# Where items run that are queued on a CPU behind a busy cache

# The CPUs behind the cache of the first one, if there are others.
near_home()
{
	local list

	for list in "$CPU/cpu$FIRST"/cache/index*/shared_cpu_list; do :; done
	[ ! -f "$list" ] || [ "$(expand_list "$(cat "$list")" | wc -l)" -eq "$(nr_online)" ] ||
		expand_list "$(cat "$list")"
}

far_from_home()
{
	online_cpus | grep -vxF "$(near_home)"
}

# Busy loops, one on each CPU. They are this shell's jobs.
keep_busy()	# CPU...
{
	local cpu

	for cpu; do
		sh -c 'while :; do :; done' &
		SPINNERS="$SPINNERS $cpu:$!"
		taskset -p "$(cpu_mask "$cpu")" $! >/dev/null && renice 0 -p $! >/dev/null ||
			{ diag "no busy loop on CPU $cpu"; let_idle "$@"; return 1; }
	done
}

# Ends the busy loops on these CPUs.
let_idle()	# CPU...
{
	local spinner left='' cpus=" $* "

	for spinner in $SPINNERS; do
		case $cpus in
		*" ${spinner%:*} "*)
			kill "${spinner#*:}"
			wait "${spinner#*:}" 2>/dev/null ;;
		*)
			left="$left $spinner" ;;
		esac
	done
	SPINNERS=$left
}

watch_wakeups()	# POOL
{
	echo "comm ~ \"kworker/u$1:*\"" >$WAKEUP/filter && echo >$TRACING/trace &&
		echo 1 >$WAKEUP/enable
}

# Sets TARGETS to the CPUs on which the pool's workers woke up, or those with these PIDs.
end_watch()	# [PID...]
{
	local pids='[0-9]*'

	echo 0 >$WAKEUP/enable
	echo 0 >$WAKEUP/filter
	[ $# -eq 0 ] || pids=$(echo "$*" | tr ' ' '|')
	TARGETS=$(grep -E " sched_wakeup: .* pid=($pids) " $TRACING/trace |
		sed 's/.*target_cpu=0*\([0-9]\)/\1/')
}

# Blocks all workers of the first CPU's pool but one, one after the other. Sets TARGETS to the
# CPUs on which they woke up.
wake_all_from_home()
{
	local pool i n
	pool=$(pool_of "$FIRST")
	n=$(($(cat /proc/[0-9]*/comm 2>/dev/null | grep -c "^kworker/u$pool:") - 1))

	watch_wakeups "$pool" || return 1
	for i in $(seq $n); do
		tell wqt_u queue "block cpu=$FIRST" && within 50 held_is wqt_u "$i" || break
	done
	end_watch
	tell wqt_u release 1
	within 50 held_is wqt_u 0 && is_equal "number of wake-ups" "$(echo "$TARGETS" | wc -l)" "$n"
}

targets_are_near()
{
	wake_all_from_home || return 1
	# shellcheck disable=SC2086 # words
	! printf '%s\n' $TARGETS | grep -qvxF "$(near_home)"
}

some_target_is_far()
{
	! targets_are_near && [ -n "$TARGETS" ]
}

# The pool's workers have slept behind both caches. While the CPUs near home are busy, those
# that slept on the others wake up there. While a CPU near home is idle, all wake up near home.
# Another task may get in between, so each is tried up to three times.
test_full_cache()
{
	local ok=0 all near

	all=$(taskset -p $$ | sed 's/.* //')
	near=$(near_home)
	set_scope system || return 1
	tell wqt_u queue "hog cpu=$FIRST n=$(nr_online) ms=60000"
	within 300 keeps_all_busy wqt_u || ok=1
	tell wqt_u release 1
	within 50 held_is wqt_u 0 || return 1
	# shellcheck disable=SC2086 # lines of words
	taskset -p "$(cpu_mask "$FIRST")" $$ >/dev/null && keep_busy $near || return 1
	within 2 some_target_is_far || { diag "full: woken on CPUs" $TARGETS; ok=1; }
	# shellcheck disable=SC2086 # lines of words
	let_idle $near
	within 2 targets_are_near || { diag "not full: woken on CPUs" $TARGETS; ok=1; }
	taskset -p "$all" $$ >/dev/null && return $ok
}

# On which CPU a worker wakes up that slept at home, on HOME_CPU

# Queues an item and waits until its worker sleeps again.
one_item()	# KIND [MORE]
{
	tell wqt_u queue "$1 cpu=$HOME_CPU $2" && tell wqt_u flush 1 && sleep 0.1
}

# The idle workers of the pool that ran on this CPU last.
at_home()	# POOL
{
	local pid

	grep -l "^kworker/u$1:" /proc/[0-9]*/comm 2>/dev/null | cut -d / -f 3 |
	while read -r pid; do
		sed "s/.*) /$pid /" "/proc/$pid/stat"
	done | awk -v cpu="$HOME_CPU" '$2 == "I" && $38 == cpu { print $1 }'
}

# No CPU is idle, so the worker stays at home in this function, unless the scheduler moves it. Then
# some become idle. Sets TARGETS to the CPUs on which workers that slept at home wake up for the
# next item. There are none if the worker was moved.
wake_after()	# POOL "CPU..." FUNCTION [ARGUMENT...]
{
	local ok=0 pool=$1 cpus=$2 pids
	shift 2

	# shellcheck disable=SC2046 # lines of words
	keep_busy $(online_cpus) && "$@" || ok=1
	# shellcheck disable=SC2086 # words
	let_idle $cpus
	pids=$(at_home "$pool")
	watch_wakeups "$pool" && one_item nop || ok=1
	# shellcheck disable=SC2086 # lines of words
	end_watch ${pids:-none}
	# shellcheck disable=SC2046 # lines of words
	let_idle $(online_cpus)
	return $ok
}

goes_far_after()	# POOL "CPU..." FUNCTION [ARGUMENT...]
{
	# shellcheck disable=SC2086 # lines of words
	wake_after "$@" && printf '%s\n' $TARGETS | grep -qxF "$(far_from_home)"
}

# Of seven workers that slept at home, four or more wake up on these CPUs only. A few may do so
# elsewhere: a pause of the host counts as the worker's CPU time, and tasks come and go on any CPU.
mostly_wakes_on()	# "CPU<newline>..." POOL "CPU..." FUNCTION [ARGUMENT...]
{
	local try want=$1 hits=0 misses=0
	shift

	for try in $(seq 20); do
		wake_after "$@" || return 1
		[ -n "$TARGETS" ] || continue
		# shellcheck disable=SC2086 # lines of words
		if printf '%s\n' $TARGETS | grep -qvxF "$want"; then
			misses=$((misses + 1))
		else
			hits=$((hits + 1))
		fi
		[ $hits -lt 4 ] || return 0
		[ $misses -lt 4 ] || break
	done
	diag "$hits times there in $try tries, $misses times elsewhere"
	return 1
}

stays_near_after()	# POOL "CPU..." FUNCTION [ARGUMENT...]
{
	mostly_wakes_on "$(near_home)" "$@"
}

# Calls the function with home's pool and the arguments.
on_home_cpu()	# FUNCTION [ARGUMENT...]
{
	local all ok=0 function=$1
	shift

	all=$(taskset -p $$ | sed 's/.* //')
	set_scope system && taskset -p "$(cpu_mask "$HOME_CPU")" $$ >/dev/null || return 1
	"$function" "$(pool_of "$HOME_CPU")" "$@" || { diag "woken on CPUs" $TARGETS; ok=1; }
	taskset -p "$all" $$ >/dev/null && return $ok
}

far_after_a_long_run()	# POOL
{
	within 9 goes_far_after "$1" "$(far_from_home | tr '\n' ' ')" one_item hog ms=50
}

near_after_a_short_run()	# POOL
{
	stays_near_after "$1" "$(far_from_home | tr '\n' ' ')" one_item hog ms=1
}

near_after_any_run()	# POOL
{
	stays_near_after "$1" "$(far_from_home | tr '\n' ' ')" one_item hog ms=50
}

with_long_run_us()	# MICROSECONDS FUNCTION
{
	local ok=0 us
	us=$(cat $PARAMS/long_run_us)

	set_to $PARAMS/long_run_us "$1" && on_home_cpu "$2" || ok=1
	set_to $PARAMS/long_run_us "$us" && return $ok
}

# An idle CPU behind the other cache gets the worker after a long run, and only then. As a pause of
# the host counts as CPU time, a run that is to be short is much shorter than the parameter. It is
# longer than the default, so the parameter decides. 0: no run is long.
test_after_a_run()	# long|short|never
{
	HOME_CPU=$FIRST
	case $1 in
	long)	on_home_cpu far_after_a_long_run ;;
	short)	with_long_run_us 20000 near_after_a_short_run ;;
	never)	with_long_run_us 0 near_after_any_run ;;
	esac
}

# The first and the last home behind the first cache, each with the CPU behind another cache at
# which it begins, if that is not isolated.
begins_far_away()
{
	local cpu far rank=0

	for cpu in $(near_home); do
		rank=$((rank + 1))
		far=$(far_from_home | sed -n "${rank}p")
		[ -z "$far" ] || expand_list "$(cat $CPU/isolated)" | grep -qx "$far" ||
			echo "$cpu $far"
	done | sed -n '1p; $p' | uniq
}

on_its_own_far_cpu_after_a_long_run()	# POOL CPU
{
	mostly_wakes_on "$2" "$1" "$(far_from_home | tr '\n' ' ')" one_item hog ms=50
}

# The CPUs behind the other cache are idle. Homes that share a cache begin at different ones.
test_far_CPUs_are_divided()
{
	local far ok=0

	begins_far_away >/tmp/begins
	while read -r HOME_CPU far; do
		on_home_cpu on_its_own_far_cpu_after_a_long_run "$far" || ok=1
	done </tmp/begins
	return $ok
}

near_after_a_long_run()	# POOL
{
	stays_near_after "$1" "$(far_from_home | tr '\n' ' ') $(near_home | sed '1,2d; $d' |
		tr '\n' ' ')" one_item hog ms=50
}

# The idle CPUs near home come last, counted from home on: those behind the other cache come first,
# and then two that are busy.
test_end_of_a_cache()
{
	HOME_CPU=$(near_home | tail -n 1)
	on_home_cpu near_after_a_long_run
}

# All CPUs are busy but this one.
on_the_idle_CPU_after_a_long_run()	# POOL CPU
{
	mostly_wakes_on "$2" "$1" "$2" one_item hog ms=50
}

# Of 5 CPUs behind a cache of which 4 are busy, the scheduler would look at none.
test_last_idle_CPU_of_a_cache()
{
	HOME_CPU=$FIRST
	on_home_cpu on_the_idle_CPU_after_a_long_run "$(near_home | tail -n 1)"
}

nr_cores()
{
	cat "$CPU"/cpu[0-9]*/topology/thread_siblings_list 2>/dev/null | sort -u | wc -l
}

# The threads of the core of the first CPU.
home_core()
{
	expand_list "$(cat "$CPU/cpu$FIRST/topology/thread_siblings_list")"
}

whole_core_after_a_long_run()	# POOL
{
	mostly_wakes_on "$(online_cpus | grep -vxF "$(home_core)")" "$1" \
		"$(online_cpus | sed 1d | tr '\n' ' ')" one_item hog ms=50
}

# All CPUs but home are idle. The one that comes next is a thread of the core of home.
test_whole_core_first()
{
	HOME_CPU=$FIRST
	on_home_cpu whole_core_after_a_long_run
}

# The pod is the first and the last CPU of a cache. Between them are as many as a worker looks at.
# The last one is outside the domains of the scheduler, which therefore does not find it.
test_rest_of_the_cache_is_outside()
{
	local all inside last ok=0
	inside=$(cat "$GLOBAL/cpumask")
	last=$(online_cpus | tail -n 1)

	HOME_CPU=$FIRST
	set_global "$(online_cpus)" || return 1
	all=$(cat "$(dev wqt_u cpumask)")
	set_to "$(dev wqt_u cpumask)" "$(mask_of "$FIRST" "$last")" || return 1
	on_home_cpu on_the_idle_CPU_after_a_long_run "$last" || ok=1
	set_to "$(dev wqt_u cpumask)" "$all" && set_to "$GLOBAL/cpumask" "$inside" && return $ok
}

# A mask as the kernel parses it: words of 32 bits, the highest first.
mask_of()	# CPU...
{
	local cpu bits word=0 last=0 mask=

	for cpu; do
		[ $((cpu / 32)) -le $last ] || last=$((cpu / 32))
	done
	while [ $word -le $last ]; do
		bits=0
		for cpu; do
			[ $((cpu / 32)) -ne $word ] || bits=$((bits | 1 << cpu % 32))
		done
		mask=$(printf %08x $bits)${mask:+,$mask}
		word=$((word + 1))
	done
	echo "$mask"
}

set_global()	# CPU...
{
	# shellcheck disable=SC2068 # lines of words
	set_to "$GLOBAL/cpumask" "$(mask_of $@)"
}

pool_of()	# CPU [map|map_on]
{
	pools wqt_u "${2:-map_on}" | sed -n "s/^$1 //p"
}

# A CPU outside the global mask does not take turns: its items stay in order.
test_outside_the_mask()	# SCOPE
{
	local all cpu i ok=0
	all=$(cat "$GLOBAL/cpumask")
	cpu=$(online_cpus | tail -n 1)

	set_scope "$1" && set_global "$(online_cpus | sed '$d')" || return 1
	for i in 1 2 3 4 5 6; do
		pool_of "$cpu" map
	done >/tmp/outside
	is_equal "number of pools of CPU $cpu" "$(sort -u /tmp/outside | wc -l)" 1 || ok=1
	set_to "$GLOBAL/cpumask" "$all" && own_pools && return $ok
}

# A CPU outside the mask queues on a pool that has no worker yet. If it takes long to make one, a
# timer calls the rescuers. That timer must be on another CPU.
test_no_timer_outside_the_mask()
{
	local all cpu ok=0 timer=$TRACING/events/timer/timer_start
	all=$(cat "$GLOBAL/cpumask")
	cpu=$(online_cpus | tail -n 1)

	set_scope system && set_global "$(online_cpus | sed '$d')" &&
		set_to "$(dev wqt_u nice)" 7 || return 1
	tell wqt_u stats 0
	echo >$TRACING/trace && echo 1 >$timer/enable || ok=1
	# shellcheck disable=SC2016 # of the other shell
	taskset "$(cpu_mask "$cpu")" sh -c 'echo $$ >/tmp/queuer; echo "nop n=1" >$0' \
		"$HELPER/wqt_u/queue" && tell wqt_u wait "1 5000" || ok=1
	echo 0 >$timer/enable
	# workers of other pools arm theirs, too; the trace does not always know names
	grep -F "=pool_mayday_timeout" $TRACING/trace | grep -e "-$(cat /tmp/queuer) " >/tmp/armed
	[ -s /tmp/armed ] || { diag "no timer was armed"; ok=1; }
	! grep -q "cpu=$cpu idx" /tmp/armed || { diag "$(cat /tmp/armed)"; ok=1; }
	set_to "$(dev wqt_u nice)" 0 && set_to "$GLOBAL/cpumask" "$all" && own_pools && return $ok
}

# A lodger is a CPU that is offline or that the workqueue may not use, in a pod with online CPUs
# that it may use. It queues on the pool of one of these.
test_lodger()
{
	local all cpu ok=0
	all=$(cat "$(dev wqt_u cpumask)")
	cpu=$(online_cpus | tail -n 1)

	set_scope system && set_to "$(dev wqt_u cpumask)" "$(cpu_mask "$FIRST")" || return 1
	is_equal "pool of CPU $cpu" "$(pool_of "$cpu")" "$(pool_of "$FIRST")" || ok=1
	set_to "$(dev wqt_u cpumask)" "$all" && return $ok
}

# The upper half of the CPUs is outside the global mask. What these CPUs queue goes to the pools
# of those inside, whatever the scope, and they do not all choose the same one.
test_stand_ins()	# SCOPE
{
	local all half inside outside ok=0
	all=$(cat "$GLOBAL/cpumask")
	half=$(($(nr_online) / 2))

	set_scope "$1" && set_global "$(online_cpus | head -n $half)" || return 1
	inside=$(pools wqt_u map | head -n $half | awk '{ print $2 }' | sort -u)
	outside=$(pools wqt_u map | tail -n $half | awk '{ print $2 }' | sort -u)
	is_equal "number of pools" "$(echo "$inside" | wc -l)" $half || ok=1
	is_equal "pools that no CPU inside has" \
		"$(echo "$outside" | grep -vxF "$inside" | tr '\n' ' ')" "" || ok=1
	is_equal "pools of queue_work_on()" "$(pools wqt_u)" "$(pools wqt_u map)" || ok=1
	[ $half -eq 1 ] || [ "$(echo "$outside" | wc -l)" -gt 1 ] ||
		{ diag "all CPUs outside queue in pool $outside"; ok=1; }
	set_to "$GLOBAL/cpumask" "$all" && own_pools && return $ok
}

# For each online CPU: itself, and the CPUs that its worker may use.
allowed()	# NAME
{
	sed -n 's/^cpu=\([0-9]*\) .* allowed=\([^ ]*\) .*/\1 \2/p' "$HELPER/$1/map_on"
}

# Of a list, the CPUs that are in a list of lines, too.
both()	# LIST LINES
{
	expand_list "$1" | grep -xF "$2" | tr '\n' ' '
}

# One CPU of a strict pod is outside the global mask.  Items that name this CPU run in its pod as
# long as the pod has a CPU inside, even if the nearest CPU of the mask is in another pod.
test_named_CPU_keeps_its_pod()	# SCOPE
{
	local all inside pods cpu now want ok=0
	all=$(cat "$GLOBAL/cpumask")
	inside=$(online_cpus | sed '$d')

	set_scope "$1" || return 1
	pods=$(allowed wqt_s)
	set_global "$inside" || return 1
	allowed wqt_s >/tmp/allowed
	while read -r cpu now; do
		want=$(both "$(echo "$pods" | sed -n "s/^$cpu //p")" "$inside")
		[ -z "$want" ] || is_equal "CPUs for what names CPU $cpu" \
			"$(expand_list "$now" | tr '\n' ' ')" "$want" || ok=1
	done </tmp/allowed
	is_equal "number of CPUs" "$(wc -l </tmp/allowed)" "$(nr_online)" || ok=1
	set_to "$GLOBAL/cpumask" "$all" && own_pools && return $ok
}

# If there are two nodes, all CPUs of each name the other one.
nr_named()
{
	node_sizes | sort -n | sed -n '1p' | awk '{ print 2 * $1 }'
}

# CPUs that name another node do not all name the same CPU there.
test_named_nodes()
{
	set_scope system &&
		is_equal "number of pools" "$(pools wqt_u map_node | awk '{ print $2 }' | sort -u |
			wc -l)" "$(nr_named)"
}

# The other online CPUs of a CPU's node.
node_mates()	# CPU
{
	local list cpus

	for list in /sys/devices/system/node/node[0-9]*/cpulist; do
		[ -f "$list" ] || continue
		cpus=$(expand_list "$(cat "$list")")
		! echo "$cpus" | grep -qx "$1" || echo "$cpus" | grep -vx "$1"
	done
}

# Only the last CPU is outside, and the first CPU inside is on another node.
test_stand_in_is_near()
{
	local all inside cpu by ok=0
	all=$(cat "$GLOBAL/cpumask")
	inside=$(online_cpus | sed '$d')
	cpu=$(online_cpus | tail -n 1)

	set_scope cpu && set_global "$inside" || return 1
	# shellcheck disable=SC2086 # lines of words
	by=$(served_by $inside | sed -n "s/^$cpu //p")
	node_mates "$cpu" | grep -qxF "$by" ||
		{ diag "CPU '$by' stands in for CPU $cpu of another node"; ok=1; }
	set_to "$GLOBAL/cpumask" "$all" && own_pools && return $ok
}

# The first online CPU of each node that has any.
node_heads()
{
	local list

	for list in /sys/devices/system/node/node[0-9]*/cpulist; do
		[ ! -f "$list" ] || expand_list "$(cat "$list")" | head -n 1
	done
}

# One CPU of each of two nodes is inside, so each node has half of the slots.  The items of a CPU
# outside take slots of the node of its stand-in, not the slots for pools that span nodes.
test_limit_outside_the_mask()
{
	local all cpu ok=0
	all=$(cat "$GLOBAL/cpumask")
	cpu=$(online_cpus | tail -n 1)

	create wqt_l unbound max_active=32
	set_to "$(dev wqt_l affinity_scope)" cpu && set_global "$(node_heads)" || return 1
	tell wqt_l queue "block cpu=$cpu n=40" && within 100 held_is wqt_l 16 && sleep 0.5 &&
		is_equal "items of CPU $cpu that run" "$(held wqt_l)" 16 || ok=1
	tell wqt_l release 1 && tell wqt_l wait "40 5000" || ok=1
	set_to "$GLOBAL/cpumask" "$all" && destroy wqt_l && own_pools && return $ok
}

# Threads of unbound pools.
nr_unbound_workers()
{
	cat /proc/[0-9]*/comm 2>/dev/null | grep -c "^kworker/u"
}

is_back_to()	# NUMBER
{
	[ "$(nr_unbound_workers)" -le "$1" ]
}

# The threads of the pools with this nice level.
nr_workers_of()	# NICE
{
	awk -v nice="$1" '
		/\(kworker\/u/ { sub(/.*\) /, ""); n += $17 == nice }
		END { print n + 0 }' /proc/[0-9]*/stat 2>/dev/null
}

has_workers()	# NICE MIN MAX
{
	local n
	n=$(nr_workers_of "$1")

	[ "$n" -ge "$2" ] && [ "$n" -le "$3" ]
}

# A pool gets its first worker when it is used. This worker makes a second one, unless it has run
# its item before the thread that made it is done. The default pool, which has no home, has a
# worker from the start.
test_cold_until_used()
{
	local cpu used=0 ok=0

	set_to "$(dev wqt_u nice)" 7 || return 1
	within 50 has_workers 7 1 1 ||
		{ diag "$(nr_workers_of 7) workers, but nobody queued"; ok=1; }
	for cpu in $(online_cpus); do
		tell wqt_u stats 0
		tell wqt_u queue "nop cpu=$cpu n=1" && tell wqt_u wait "1 5000" || ok=1
		used=$((used + 1))
		within 50 has_workers 7 $((1 + used)) $((1 + 2 * used)) ||
			{ diag "$(nr_workers_of 7) workers for $used used pools"; ok=1; }
	done
	set_to "$(dev wqt_u nice)" 0 && own_pools && return $ok
}

# The first item of a pool sleeps, and the next one runs: there is a worker in reserve.
test_reserve_of_a_cold_pool()
{
	local round ok=0

	for round in 1 2 3 4 5 6 7 8 9 10; do
		set_to "$(dev wqt_u nice)" $((7 + round % 2)) || return 1
		tell wqt_u stats 0
		tell wqt_u queue "block cpu=$FIRST n=1"
		within 50 held_is wqt_u 1 || ok=1
		tell wqt_u queue "nop cpu=$FIRST n=1" && tell wqt_u wait "1 5000" ||
			{ diag "round $round: nobody runs the second item"; ok=1; }
		tell wqt_u release 1 && tell wqt_u flush 1
		[ $ok -eq 0 ] || break
	done
	set_to "$(dev wqt_u nice)" 0 && own_pools && return $ok
}

test_pools_vanish()
{
	local before pools i
	before=$(nr_unbound_workers)

	create wqt_v unbound
	for i in 7 8 9; do
		set_to "$(dev wqt_v nice)" $i || return 1
	done
	# to count the pools is to use them
	pools=$(nr_pools wqt_v)
	[ "$(nr_unbound_workers)" -ge $((before + pools)) ] ||
		{ diag "the pools have no workers"; return 1; }
	destroy wqt_v
	within 100 is_back_to "$before" ||
		{ diag "$(nr_unbound_workers) workers, not $before"; return 1; }
}

# CPUs that leave and come back

removable_cpu()
{
	local cpu

	for cpu in $(online_cpus); do
		[ ! -f $CPU/cpu"$cpu"/online ] || echo "$cpu"
	done | tail -n 1
}

# While a CPU is offline, items that name it run. When it comes back, it has its pool again.
test_CPU_that_leaves()	# SCOPE
{
	local ok=0

	set_scope "$1" && set_to "$CPU/cpu$LAST/online" 0 || return 1
	tell wqt_u stats 0
	tell wqt_u queue "nop cpu=$LAST n=10" && tell wqt_u wait "10 5000" || ok=1
	own_pools || ok=1
	set_to "$CPU/cpu$LAST/online" 1 && own_pools && return $ok
}

# The attributes change while a CPU is offline. When it comes back, it gets a pool of its own.
test_attributes_while_a_CPU_is_away()	# SCOPE
{
	local ok=0

	set_scope cpu && set_to "$CPU/cpu$LAST/online" 0 && set_scope "$1" || return 1
	tell wqt_u stats 0
	tell wqt_u queue "nop cpu=$LAST n=10" && tell wqt_u wait "10 5000" || ok=1
	set_to "$CPU/cpu$LAST/online" 1 && own_pools && return $ok
}

# If it is the only CPU of the workqueue, the default pool serves all until it returns.
test_only_CPU_is_away()
{
	local all ok=0
	all=$(cat "$(dev wqt_u cpumask)")

	set_scope system && set_to "$(dev wqt_u cpumask)" "$(cpu_mask "$LAST")" || return 1
	set_to "$CPU/cpu$LAST/online" 0 && set_to "$CPU/cpu$LAST/online" 1 || return 1
	is_equal "pool of CPU $FIRST" "$(pool_of "$FIRST")" "$(pool_of "$LAST")" || ok=1
	set_to "$(dev wqt_u cpumask)" "$all" && own_pools && return $ok
}

# For each other CPU: itself, and which of these CPUs has the pool in which it queues.
served_by()	# CPU...
{
	pools wqt_u map | awk -v inside=" $* " '
		{ pool[$1] = $2 }
		index(inside, " " $1 " ") { owner[$2] = $1 }
		END {
			for (cpu in pool)
				if (!index(inside, " " cpu " "))
					print cpu, owner[pool[cpu]]
		}
	' | sort
}

# While a stand-in is offline, another CPU of the mask stands in.
test_stand_in_leaves()
{
	local all before ok=0
	all=$(cat "$GLOBAL/cpumask")

	set_scope cpu && set_global "$FIRST" "$LAST" || return 1
	before=$(served_by "$FIRST" "$LAST")
	set_to "$CPU/cpu$LAST/online" 0 || return 1
	is_equal "stand-ins while CPU $LAST is away" \
		"$(served_by "$FIRST" | awk '{ print $2 }' | sort -u)" "$FIRST" || ok=1
	set_to "$CPU/cpu$LAST/online" 1 || return 1
	is_equal "stand-ins afterwards" "$(served_by "$FIRST" "$LAST")" "$before" || ok=1
	set_to "$GLOBAL/cpumask" "$all" && own_pools && return $ok
}

mount_all
load_helper
create wqt_u unbound
create wqt_s unbound
create wqt_o ordered
echo 1 >"$(dev wqt_s affinity_strict)" || bail "no strict workqueue"
SPINNERS=
FIRST=$(online_cpus | head -n 1)
LAST=$(removable_cpu)
[ "$LAST" != "$FIRST" ] || LAST=

# These need a pool for each CPU, and most of them certain CPUs, too.
set -- cold_until_used reserve_of_a_cold_pool \
	outside_the_mask:system outside_the_mask:cpu stand_ins:system stand_ins:cpu \
	lodger no_timer_outside_the_mask named_CPU_keeps_its_pod:smt \
	named_CPU_keeps_its_pod:cache_shard named_CPU_keeps_its_pod:numa \
	named_nodes stand_in_is_near limit_outside_the_mask full_cache after_a_run:long \
	after_a_run:never whole_core_first rest_of_the_cache_is_outside after_a_run:short \
	end_of_a_cache last_idle_CPU_of_a_cache far_CPUs_are_divided
per_cpu_pools || skip "pool_per_cpu is off" "$@" stand_in_leaves
[ "$(nr_online)" -gt 1 ] ||
	skip "one CPU is in every mask" outside_the_mask:system outside_the_mask:cpu \
		stand_ins:system stand_ins:cpu lodger no_timer_outside_the_mask \
		named_CPU_keeps_its_pod:smt named_CPU_keeps_its_pod:cache_shard \
		named_CPU_keeps_its_pod:numa
[ "$(node_sizes | wc -l)" -eq 2 ] ||
	skip "the CPUs are not on two nodes" named_nodes stand_in_is_near limit_outside_the_mask
[ -n "$(node_mates "$(online_cpus | tail -n 1)")" ] ||
	skip "the CPUs of a node are too few" stand_in_is_near limit_outside_the_mask
case $(near_home | wc -l) in
0)
	skip "the CPUs are not behind several caches" full_cache after_a_run:long \
		after_a_run:short after_a_run:never end_of_a_cache last_idle_CPU_of_a_cache \
		far_CPUs_are_divided ;;
[1-4])
	skip "the CPUs of a cache are too few" end_of_a_cache last_idle_CPU_of_a_cache ;;
*)
	# emulated CPUs of large caches wait for the host, which counts as a long run
	skip "the CPUs of a cache are too many" after_a_run:short far_CPUs_are_divided ;;
esac
[ "$(begins_far_away | wc -l)" -eq 2 ] ||
	skip "the CPUs of a cache are too few" far_CPUs_are_divided
[ -z "$(near_home)" ] ||
	skip "the CPUs are not behind one cache" whole_core_first rest_of_the_cache_is_outside
case $(home_core | wc -l) in
0 | 1 | "$(nr_online)")
	skip "the CPUs are not threads of several cores" whole_core_first ;;
esac
[ -f "$CPU/cpu$FIRST/cache/index0/shared_cpu_list" ] && [ "$(nr_cores)" -ge 10 ] &&
	[ "$(cat $CPU/isolated)" = "$(online_cpus | tail -n 1)" ] ||
	skip "the CPUs are not ten cores of a cache, the last one isolated" \
		rest_of_the_cache_is_outside

set -- "$@" CPU_that_leaves:cpu attributes_while_a_CPU_is_away:cpu \
	CPU_that_leaves:cache_shard attributes_while_a_CPU_is_away:cache_shard \
	CPU_that_leaves:system attributes_while_a_CPU_is_away:system \
	only_CPU_is_away stand_in_leaves
[ -n "$LAST" ] ||
	skip "the CPUs cannot go offline" CPU_that_leaves:cpu attributes_while_a_CPU_is_away:cpu \
		CPU_that_leaves:cache_shard attributes_while_a_CPU_is_away:cache_shard \
		CPU_that_leaves:system attributes_while_a_CPU_is_away:system \
		only_CPU_is_away stand_in_leaves
[ "$(nr_online)" -ge 3 ] || skip "the CPUs are fewer than three" stand_in_leaves
run_tests own_pools:cpu own_pools:smt own_pools:cache own_pools:cache_shard own_pools:numa \
	own_pools:system queueing_CPU_decides equal_attributes_share_pools ordered_has_one_pool \
	items_that_move:system items_that_move:cpu burst_uses_all_CPUs pools_vanish "$@"

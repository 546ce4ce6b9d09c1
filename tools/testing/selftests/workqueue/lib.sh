# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# What the workqueue selftests share. A script defines functions test_NAME and
# ends with `run_tests NAME... NAME:ARGUMENT...`, which prints one test point for
# each. The list names every test of the script; `skip` says which cannot run here.
# A test returns 0 if it passes. If not, it calls `diag` to say what is wrong.
#
# The scripts read four variables from the environment. VARIANT names the running
# workqueue: cmwq, or base, which lacks some features. KTAP_HELPERS is the path of
# the kselftest helpers if they are not in their place in the kernel tree. WQT_ONLY
# lists tests to run instead of the script's own list. None of them is skipped. WQT_ROUNDS
# is how often tests under load make each change; 2 by default, 1 saves time on a slow kernel.

WQT_DIR=$(cd "$(dirname "$0")" && pwd)
VARIANT=${VARIANT:-cmwq}
KTAP_HELPERS=${KTAP_HELPERS:-$WQT_DIR/../kselftest/ktap_helpers.sh}
. "$KTAP_HELPERS" || exit 1
SKIPPED=
# Run with a higher priority than the load that the script makes.
renice -n -20 -p $$ >/dev/null

HELPER=/sys/kernel/debug/wq_test
PARAMS=/sys/module/workqueue/parameters
DEVICES=/sys/bus/workqueue/devices
GLOBAL=/sys/devices/virtual/workqueue
SCOPES="cpu smt cache cache_shard numa system"
ROUNDS=$(seq "${WQT_ROUNDS:-2}")

diag()
{
	ktap_print_msg "$@"
}

bail()
{
	ktap_exit_fail_msg "$@"
}

log_expect()	# PATTERN: from here on the kernel log is allowed to contain it, and has to
{
	echo "wq_selftest: expect: $1" >/dev/kmsg
}

log_expect_end()
{
	echo "wq_selftest: expect end" >/dev/kmsg
}

# The log since the mark.
new_log()
{
	dmesg | awk -v mark="$MARK" 'seen { print } index($0, mark) { seen = 1 }'
}

mark_log()
{
	MARK="wq_selftest: mark $1"
	echo "$MARK" >/dev/kmsg
}

mounted()	# FOLDER
{
	grep -q " $1 " /proc/mounts
}

mount_all()
{
	mounted /sys/kernel/debug ||
		mount -t debugfs none /sys/kernel/debug || bail "no debugfs"
	mounted /sys/kernel/tracing ||
		mount -t tracefs none /sys/kernel/tracing || bail "no tracefs"
}

load_helper()
{
	[ -d "$HELPER" ] && return
	modprobe wq_test_helper 2>/dev/null ||
		insmod "$WQT_DIR/wq_test_helper.ko" ||
		bail "wq_test_helper does not load: is CONFIG_WQ_TEST_HELPER set?"
}

# A test that cannot run here is reported as skipped, with the reason. Reasons begin like those
# in skip_reason(). The host accepts no others, and each of them only where it may be true.
skip()	# REASON TEST...
{
	local reason=$1 t
	shift

	for t; do
		SKIPPED="$SKIPPED$t:$reason
"
	done
}

skip_reason()	# TEST
{
	local line

	echo "$SKIPPED" | while read -r line; do
		case $line in
		"$1:one CPU"* | "$1:the base kernel"* | "$1:the CPUs "* | "$1:no sizes "* | \
		"$1:the kernel was not booted with "*) echo "${line#"$1:"}"; break ;;
		esac
	done
}

# Nobody would miss a test that is in no list, or the first of two tests with the same name.
# So each name must be listed, and must be there once.
check_list()	# NAME[:ARGUMENT]...
{
	local listed names name last=

	listed=" $(printf '%s\n' "$@" | sed 's/:.*//' | tr '\n' ' ')"
	names=$(sed -n 's/^test_\([0-9A-Za-z_]*\)().*/\1/p' "$WQT_DIR/${0##*/}" | sort)
	[ -n "$names" ] || bail "the tests in $0 cannot be read"
	for name in $names; do
		[ "$name" != "$last" ] || bail "$0 has two tests test_$name"
		case $listed in
		*" $name "*) ;;
		*) bail "$0 does not list test_$name" ;;
		esac
		last=$name
	done
}

run_tests()
{
	local t name arg kept reason own

	check_list "$@"
	# shellcheck disable=SC2086 # words
	[ -z "${WQT_ONLY:-}" ] || set -- $WQT_ONLY
	ktap_print_header
	mount_all
	load_helper
	kept=" $(queues | tr '\n' ' ')"
	own=$(cat $PARAMS/own_pools 2>/dev/null)
	ktap_set_plan $#
	for t; do
		name=${t%%:*}
		arg=
		[ "$name" = "$t" ] || arg=${t#*:}
		reason=
		[ -n "${WQT_ONLY:-}" ] || reason=$(skip_reason "$t")
		if [ -n "$reason" ]; then
			__ktap_test ok "$(echo "$name" | tr _ ' ')${arg:+: $arg}" "SKIP $reason"
			KTAP_CNT_SKIP=$((KTAP_CNT_SKIP + 1))
		elif "test_$name" "$arg"; then
			ktap_test_pass "$(echo "$name" | tr _ ' ')${arg:+: $arg}"
		else
			ktap_test_fail "$(echo "$name" | tr _ ' ')${arg:+: $arg}"
			clean_up_after_failure "$kept"
		fi
		[ -z "$own" ] || set_to $PARAMS/own_pools "$own"
	done
	rmmod wq_test_helper || bail "wq_test_helper cannot be removed"
	ktap_finished
}

# Workqueues and their work

create()	# NAME FLAG...
{
	echo "$@" >"$HELPER/create" || bail "workqueue '$*' cannot be created"
}

destroy()
{
	echo "$1" >"$HELPER/destroy"
}

queues()
{
	find "$HELPER" -mindepth 1 -maxdepth 1 -type d | sed 's,.*/,,'
}

# The next test finds the script's own workqueues idle, and no others.
clean_up_after_failure()	# QUEUES-TO-KEEP
{
	local wq

	for wq in $(queues); do
		tell "$wq" release 1
		tell "$wq" load stop
		case $1 in
		*" $wq "*) ;;
		*) destroy "$wq" ;;
		esac
	done
}

tell()	# NAME FILE TEXT
{
	echo "$3" >"$HELPER/$1/$2"
}

stat_of()	# NAME COUNTER
{
	awk -v key="$2" '$1 == key { print $2 }' "$HELPER/$1/stats"
}

held()
{
	wc -l <"$HELPER/$1/held"
}

# Repeats the command until it succeeds. Fails after TENTHS tenths of a second.
within()	# TENTHS COMMAND...
{
	local tenths=$1
	shift

	while ! "$@"; do
		[ "$tenths" -gt 0 ] || return 1
		tenths=$((tenths - 1))
		sleep 0.1
	done
}

held_is()
{
	[ "$(held "$1")" -eq "$2" ]
}

log_has()	# PATTERN: in the part of the log that the caller has put into LOG
{
	echo "$LOG" | grep -qE "$1" && return
	diag "the log has no line like: $1"
	return 1
}

is_equal()	# WHAT GOT WANTED
{
	[ "$2" = "$3" ] && return
	diag "$1 is '$2', not '$3'"
	return 1
}

start()	# LOAD NAME...
{
	local wq load=$1
	shift

	for wq; do
		tell "$wq" stats 0
		tell "$wq" load "$load" || return 1
	done
}

# Succeeds if each load makes progress: some items ran since the call.
progresses()	# NAME...
{
	local wq before

	for wq; do
		before=$(stat_of "$wq" ran)
		tell "$wq" wait "$((before + 20)) 20000" 2>/dev/null && continue
		diag "$wq stands still at $before items"
		return 1
	done
}

# Ends the loads and checks the counters: no item was lost, ran twice or ran in a wrong place.
accounts_are_right()	# NAME...
{
	local wq ok=0

	for wq; do
		account_is_right "$wq" || ok=1
	done
	return $ok
}

account_is_right()	# NAME
{
	local bad

	tell "$1" load stop || return 1
	bad=$(awk '
		$1 == "queued" { queued = $2 }
		$1 == "ran" { ran = $2 }
		$1 == "placed" { placed = $2 }
		/^(lost|twice|reentered|refused|outside|wrong_cpu|misordered) / &&
			$2 != 0 { print $1 "=" $2 }
		END {
			if (queued != ran)
				print "queued=" queued " ran=" ran
			if (!ran)
				print "nothing ran"
			if (!placed)
				print "the place of none was checked"
		}' "$HELPER/$1/stats")
	[ -z "$bad" ] && return
	diag "$1: $(echo $bad)"
	return 1
}

in_rounds()	# WORD...: the words, once for each round
{
	local i

	for i in $ROUNDS; do
		echo "$@"
	done
}

# Shortage: no worker can be created. Meanwhile the shell cannot fork either.

THREADS_MAX=/proc/sys/kernel/threads-max

# Sets CROWD to a number of sleeping items that occupies every worker of a pool. The pool may
# have hundreds of idle ones: a test before made them, if a manager tried again just when the
# shortage was over. So count all processes, without a fork: a caller may be short of time.
shortage()
{
	set -- /proc/[0-9]*
	CROWD=$(($# + 50))
	BEFORE=$(cat $THREADS_MAX) && echo 20 >$THREADS_MAX
}

plenty()
{
	echo "$BEFORE" >$THREADS_MAX
}

# Attributes

# One write. The error goes to stdout. Some shells do not print the errno, but dd does.
write_to()	# FILE TEXT
{
	local err

	err=$(echo "$2" | dd of="$1" bs=4096 2>&1) && return
	echo "$err" | grep -v -e records -e copied
	return 1
}

# Writes a value that the file has to accept.
set_to()	# FILE TEXT
{
	local err
	err=$(write_to "$1" "$2") && return
	diag "$1 does not take '$2': $err"
	return 1
}

# Writes a value that the file has to refuse with EINVAL. The file must not change.
refuses()	# FILE TEXT
{
	local before err
	before=$(cat "$1") || return 1

	if err=$(write_to "$1" "$2"); then
		diag "$1 takes '$2'"
		return 1
	fi
	case $err in
	*"Invalid argument"*) ;;
	*) diag "$1 refuses '$2' with: $err"; return 1 ;;
	esac
	is_equal "$1 after '$2'" "$(cat "$1")" "$before"
}

reads()	# FILE TEXT
{
	is_equal "$1" "$(cat "$1")" "$2"
}

dev()	# NAME ATTRIBUTE
{
	echo "$DEVICES/$1/$2"
}

# CPUs

online_cpus()
{
	expand_list "$(cat /sys/devices/system/cpu/online)"
}

nr_online()
{
	online_cpus | wc -l
}

# The number of online CPUs of each node that has any.
node_sizes()
{
	local list

	for list in /sys/devices/system/node/node[0-9]*/cpulist; do
		[ ! -f "$list" ] || expand_list "$(cat "$list")" | grep -c .
	done | grep -v '^0$'
}

expand_list()	# LIST: prints a line for each CPU
{
	echo "$1" | tr , '\n' | awk -F- '
		NF == 1 && $1 != "" { print $1 }
		NF == 2 { for (i = $1; i <= $2; i++) print i }'
}

# The mask of one CPU, as the kernel prints it: words of 32 bits.
cpu_mask()	# CPU
{
	local word=$(($1 / 32))

	printf '%x' $((1 << ($1 % 32)))
	while [ $word -gt 0 ]; do
		printf ',00000000'
		word=$((word - 1))
	done
}

given()	# PARAMETER: its value on the command line
{
	tr ' ' '\n' </proc/cmdline | sed -n "s/^$1=//p" | tail -n 1
}

expand_mask()	# MASK: prints a line for each CPU
{
	local bit word first
	# shellcheck disable=SC2046	# words of 32 bits, the highest first
	set -- $(echo "$1" | tr , ' ')

	for word; do
		shift
		first=$((32 * $#))
		for bit in $(seq 0 31); do
			[ $((0x$word >> bit & 1)) -eq 0 ] || echo $((first + bit))
		done
	done | sort -n
}

# The online CPUs that workers of an unbound workqueue may use.
allowed_online()	# NAME
{
	local cpu lists
	lists=$(map_field "$1" map allowed | sort -u)

	for cpu in $(online_cpus); do
		! for list in $lists; do expand_list "$list"; done | grep -qx "$cpu" || echo "$cpu"
	done
}

# Compares masks without leading zeroes.
same_mask()	# MASK MASK
{
	[ "$(echo "$1" | sed 's/^[0,]*//')" = "$(echo "$2" | sed 's/^[0,]*//')" ]
}

# A field of the lines that map and map_on print: ran, pid, allowed, comm.
map_field()	# NAME map|map_on FIELD [CPU]
{
	awk -v field="$3" -v cpu="${4:-}" '
		cpu == "" || $1 == "cpu=" cpu {
			for (i = 2; i <= NF; i++)
				if (index($i, field "=") == 1)
					print substr($i, length(field) + 2)
		}' "$HELPER/$1/$2"
}

shards_are_cores()	# each shard of an LLC is one core
{
	local cores

	create wqt_s unbound
	set_to "$(dev wqt_s affinity_strict)" 1 &&
		set_to "$(dev wqt_s affinity_scope)" smt || return 1
	cores=$(map_field wqt_s map allowed)
	set_to "$(dev wqt_s affinity_scope)" cache_shard &&
		is_equal "the pods" "$(map_field wqt_s map allowed)" "$cores" && destroy wqt_s
}

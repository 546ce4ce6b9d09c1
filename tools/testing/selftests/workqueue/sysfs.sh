#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The sysfs files of a workqueue: what they show, accept and refuse.

. "$(dirname "$0")/lib.sh"

NL='
'
OURS=
[ "$VARIANT" = base ] || OURS=cpumask_effective

test_kinds()
{
	reads "$(dev wqt_u per_cpu)" 0 && reads "$(dev wqt_p per_cpu)" 1
}

test_files_of_an_unbound_one()
{
	local f

	for f in per_cpu max_active nice cpumask affinity_scope affinity_strict $OURS; do
		[ -f "$(dev wqt_u $f)" ] || { diag "$f is missing"; return 1; }
	done
}

test_files_of_a_per_cpu_one()
{
	local f

	for f in nice cpumask affinity_scope affinity_strict cpumask_effective; do
		[ ! -e "$(dev wqt_p $f)" ] || { diag "$f is there"; return 1; }
	done
	[ -f "$(dev wqt_p max_active)" ]
}

test_per_cpu_is_read_only()
{
	is_equal mode "$(stat -c %a "$(dev wqt_u per_cpu)")" 444
}

test_defaults()
{
	reads "$(dev wqt_u affinity_scope)" "default (cache_shard)" &&
		reads "$(dev wqt_u affinity_strict)" 0 &&
		reads "$(dev wqt_u nice)" 0 &&
		reads "$(dev wqt_u max_active)" 1024 &&
		reads "$(dev wqt_p max_active)" 1024
}

test_highpri_is_nice_20()
{
	local pid

	create wqt_h unbound highpri
	reads "$(dev wqt_h nice)" -20 || return 1
	pid=$(map_field wqt_h map pid | head -n 1)
	# comm has no spaces, so the nice value is the 19th field.
	is_equal "the worker's nice value" "$(awk '{ print $19 }' "/proc/$pid/stat")" -20 &&
		destroy wqt_h
}

test_scope()	# SCOPE
{
	set_to "$(dev wqt_u affinity_scope)" "$1" || return 1
	case $1 in
	default) reads "$(dev wqt_u affinity_scope)" "default (cache_shard)" ;;
	*) reads "$(dev wqt_u affinity_scope)" "$1" ;;
	esac && map_field wqt_u map ran >/dev/null
}

test_scope_without_newline()
{
	printf numa >"$(dev wqt_u affinity_scope)" &&
		reads "$(dev wqt_u affinity_scope)" numa
}

test_bad_scope()	# SCOPE
{
	set_to "$(dev wqt_u affinity_scope)" smt &&
		refuses "$(dev wqt_u affinity_scope)" "$1"
}

# Values that cannot be part of a test point's name.
test_odd_scopes()
{
	local f
	f=$(dev wqt_u affinity_scope)

	set_to "$f" cache &&
		refuses "$f" "" &&
		refuses "$f" "cache " &&
		refuses "$f" " cache" &&
		refuses "$f" "cache${NL}" &&
		refuses "$f" "cache${NL}smt" &&
		refuses "$f" "default (cache_shard)" &&
		reads "$f" cache
}

test_strict()
{
	local f
	f=$(dev wqt_u affinity_strict)

	set_to "$f" 1 && reads "$f" 1 && set_to "$f" 0 && reads "$f" 0
}

test_bad_strict()
{
	local f
	f=$(dev wqt_u affinity_strict)

	refuses "$f" x && refuses "$f" "" && refuses "$f" yes || return 1
	# The base kernel accepts any number, and text after it.
	[ "$VARIANT" = base ] ||
		{ refuses "$f" 2 && refuses "$f" -1 && refuses "$f" "1 x"; }
}

test_nice()	# VALUE
{
	local pid

	set_to "$(dev wqt_u nice)" "$1" && reads "$(dev wqt_u nice)" "$1" || return 1
	pid=$(map_field wqt_u map pid | head -n 1)
	is_equal "the worker's nice value" "$(awk '{ print $19 }' "/proc/$pid/stat")" "$1"
}

test_bad_nice()
{
	local f
	f=$(dev wqt_u nice)

	set_to "$f" 5 && refuses "$f" -21 && refuses "$f" 20 && refuses "$f" x &&
		refuses "$f" "" && refuses "$f" 1000000 || return 1
	# The base kernel ignores the text.
	[ "$VARIANT" = base ] || refuses "$f" "7 x"
}

test_cpumask()
{
	local f all cpu ok=0
	f=$(dev wqt_u cpumask)
	all=$(cat "$f")

	set_to "$(dev wqt_u affinity_strict)" 0 || return 1
	for cpu in $(online_cpus); do
		set_to "$f" "$(cpu_mask "$cpu")" || ok=1
		same_mask "$(cat "$f")" "$(cpu_mask "$cpu")" ||
			{ diag "mask of CPU $cpu reads $(cat "$f")"; ok=1; }
		is_equal "the workers' CPUs" "$(map_field wqt_u map allowed | sort -u)" "$cpu" ||
			ok=1
	done
	set_to "$f" "$all" && reads "$f" "$all" || ok=1
	return $ok
}

test_bad_cpumask()
{
	local f
	f=$(dev wqt_u cpumask)

	refuses "$f" xyz && refuses "$f" 0x1 && refuses "$f" 1- && refuses "$f" - &&
		refuses "$f" 1-0 && refuses "$f" 0-x && refuses "$f" 0-0,x &&
		refuses "$f" 0-1000000
}

# What has a hyphen is a list, all else is a mask, as in the base kernel.
test_cpu_list()	# wqt_u or global
{
	local f=$GLOBAL/cpumask all last ok=0
	[ "$1" = global ] || f=$(dev "$1" cpumask)
	all=$(cat "$f")
	last=$(online_cpus | tail -n 1)

	set_to "$f" "$last-$last" && same_mask "$(cat "$f")" "$(cpu_mask "$last")" || ok=1
	set_to "$f" "0-0" && same_mask "$(cat "$f")" 1 || ok=1
	set_to "$f" "0-$last" &&
		is_equal "CPUs" "$(expand_mask "$(cat "$f")")" "$(seq 0 "$last")" || ok=1
	set_to "$f" "0-0,$last" && is_equal "CPUs" "$(expand_mask "$(cat "$f")")" \
		"$(printf '%s\n' 0 "$last" | sort -nu)" || ok=1
	set_to "$f" "1" && same_mask "$(cat "$f")" 1 || ok=1
	# This is a mask of more than 32 CPUs.
	[ "$last" -ge 32 ] || refuses "$f" "0,1" || ok=1
	set_to "$f" "0-$last$NL" && refuses "$f" "1000-2000" && set_to "$f" "$all" &&
		reads "$f" "$all" && return $ok
}

effective_is()	# CPUS: one in each line
{
	is_equal "effective CPUs" "$(expand_mask "$(cat "$(dev wqt_u cpumask_effective)")")" "$1" &&
		is_equal "where workers may run" "$(allowed_online wqt_u)" "$1"
}

# The CPUs of both masks that are online; those of the global mask if the two have none in common.
test_effective_mask()
{
	local own all last ok=0
	own=$(cat "$(dev wqt_u cpumask)")
	all=$(cat "$GLOBAL/cpumask")
	last=$(online_cpus | tail -n 1)

	is_equal mode "$(stat -c %a "$(dev wqt_u cpumask_effective)")" 444 || return 1
	effective_is "$(online_cpus)" || ok=1
	set_to "$(dev wqt_u cpumask)" "$(cpu_mask "$last")" && effective_is "$last" || ok=1
	# no CPU in common, unless there is only one
	set_to "$GLOBAL/cpumask" "$(cpu_mask 0)" && effective_is 0 || ok=1
	set_to "$(dev wqt_u cpumask)" "$own" && effective_is 0 || ok=1
	set_to "$(dev wqt_u affinity_strict)" 1 && effective_is 0 || ok=1
	set_to "$GLOBAL/cpumask" "$all" && effective_is "$(online_cpus)" || ok=1
	set_to "$(dev wqt_u affinity_strict)" 0 && return $ok
}

# The base kernel accepts a mask without a CPU. In both cases work continues.
test_empty_cpumask()
{
	local f all
	f=$(dev wqt_u cpumask)
	all=$(cat "$f")

	if [ "$VARIANT" = base ]; then
		echo 0 >"$f" 2>/dev/null
	else
		refuses "$f" 0 || return 1
	fi
	is_equal "CPUs that were served" "$(map_field wqt_u map ran | wc -l)" "$(nr_online)" &&
		set_to "$f" "$all"
}

test_max_active()
{
	local wq

	for wq in wqt_u wqt_p; do
		set_to "$(dev $wq max_active)" 1 && reads "$(dev $wq max_active)" 1 &&
			set_to "$(dev $wq max_active)" 512 &&
			reads "$(dev $wq max_active)" 512 || return 1
	done
}

test_bad_max_active()
{
	local wq

	for wq in wqt_u wqt_p; do
		refuses "$(dev $wq max_active)" 0 && refuses "$(dev $wq max_active)" -1 &&
			refuses "$(dev $wq max_active)" x &&
			refuses "$(dev $wq max_active)" "" || return 1
		# The base kernel ignores the text.
		[ "$VARIANT" = base ] || refuses "$(dev $wq max_active)" "7 x" || return 1
	done
}

test_huge_max_active_is_clamped()
{
	set_to "$(dev wqt_u max_active)" 1000000 && reads "$(dev wqt_u max_active)" 2048
}

test_ordered_one()
{
	local f

	create wqt_o ordered
	f=$(dev wqt_o max_active)
	reads "$f" 1 && reads "$(dev wqt_o per_cpu)" 0 &&
		is_equal "mode of max_active" "$(stat -c %a "$f")" 444 &&
		{ ! echo 2 2>/dev/null >"$f"; } && reads "$f" 1 && destroy wqt_o
}

test_gone_after_destroy()
{
	create wqt_x unbound
	[ -d "$DEVICES/wqt_x" ] && destroy wqt_x && [ ! -e "$DEVICES/wqt_x" ]
}

test_global_masks()
{
	local f

	for f in cpumask cpumask_requested cpumask_isolated; do
		[ -r "$GLOBAL/$f" ] || { diag "$f is missing"; return 1; }
	done
	reads "$GLOBAL/cpumask_requested" "$(cat "$GLOBAL/cpumask")" &&
		is_equal "mode of cpumask" "$(stat -c %a "$GLOBAL/cpumask")" 644 &&
		is_equal "mode of cpumask_requested" \
			"$(stat -c %a "$GLOBAL/cpumask_requested")" 444 &&
		is_equal "mode of cpumask_isolated" \
			"$(stat -c %a "$GLOBAL/cpumask_isolated")" 444 &&
		same_mask "$(cat "$GLOBAL/cpumask_isolated")" 0
}

test_bad_global_mask()
{
	refuses "$GLOBAL/cpumask" xyz && refuses "$GLOBAL/cpumask" 0 &&
		refuses "$GLOBAL/cpumask" 1-0 && refuses "$GLOBAL/cpumask" 0-x &&
		reads "$GLOBAL/cpumask_requested" "$(cat "$GLOBAL/cpumask")"
}

mount_all
load_helper
create wqt_u unbound
create wqt_p percpu

set -- kinds files_of_an_unbound_one files_of_a_per_cpu_one \
	per_cpu_is_read_only defaults highpri_is_nice_20 \
	scope:cpu scope:smt scope:cache scope:cache_shard scope:numa scope:system \
	scope:default scope_without_newline \
	bad_scope:cachex bad_scope:CACHE bad_scope:Cache bad_scope:cache_ \
	bad_scope:cach bad_scope:cache_shards bad_scope:cache-shard \
	bad_scope:node bad_scope:1 bad_scope:-1 odd_scopes \
	strict bad_strict nice:-20 nice:-1 nice:0 nice:19 bad_nice \
	cpumask bad_cpumask empty_cpumask \
	max_active bad_max_active huge_max_active_is_clamped \
	ordered_one gone_after_destroy global_masks bad_global_mask \
	cpu_list:wqt_u cpu_list:global effective_mask
[ "$VARIANT" != base ] || skip "the base kernel has neither lists nor this file" \
	cpu_list:wqt_u cpu_list:global effective_mask
run_tests "$@"

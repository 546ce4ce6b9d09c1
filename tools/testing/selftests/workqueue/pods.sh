#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The CPUs in the pods of each scope. The topology comes from sysfs. The pods are the
# CPUs on which the workers of a strict workqueue may run.
#
# WQT_SHARDS in the environment lists the expected number of cores in each shard, from
# large to small, as in "8 7 7 7 7".

. "$(dirname "$0")/lib.sh"

CPU=/sys/devices/system/cpu

first_of()	# FILE...: prints the first file that exists
{
	local f

	for f; do
		[ ! -f "$f" ] || { cat "$f"; return; }
	done
	return 1
}

llc_of()	# CPU: prints the CPUs that share its last-level cache
{
	local index best=0 level cpus=

	for index in $CPU/cpu"$1"/cache/index*/; do
		[ -d "$index" ] || continue
		level=$(cat "$index/level")
		[ "$level" -gt $best ] || continue
		best=$level
		cpus=$(cat "$index/shared_cpu_list")
	done
	# If no cache is known, siblings share one.
	echo "${cpus:-$(first_of $CPU/cpu"$1"/topology/thread_siblings_list || echo "$1")}"
}

node_of()
{
	local node

	for node in /sys/devices/system/node/node*/; do
		[ ! -e "$node/cpu$1" ] || { cat "$node/cpulist"; return; }
	done
	cat $CPU/online
}

# One line for each online CPU: itself, its siblings, its LLC, its node.
topology()
{
	local cpu

	for cpu in $(online_cpus); do
		echo "topo $cpu" \
			"$(first_of $CPU/cpu"$cpu"/topology/thread_siblings_list || echo "$cpu")" \
			"$(llc_of "$cpu")" "$(node_of "$cpu")"
	done
}

# One line for each online CPU: itself, the CPUs of its pod.
layout()
{
	sed 's/cpu=\([0-9]*\) .*allowed=\([0-9,-]*\) .*/pod \1 \2/' "$HELPER/wqt_s/map"
}

AWK_LISTS='
function expand(list, set,	n, i, parts, ends, c) {
	split("", set)
	n = split(list, parts, ",")
	for (i = 1; i <= n; i++) {
		if (split(parts[i], ends, "-") == 1)
			ends[2] = ends[1]
		for (c = ends[1] + 0; c <= ends[2] + 0; c++)
			set[c] = 1
	}
}
# The online CPUs of a list, each after a space.
function online(list,	set, c, text) {
	expand(list, set)
	for (c = 0; c <= max; c++)
		if ((c in set) && (c in up))
			text = text " " c
	return text
}
$1 == "topo" {
	cpu = $2 + 0
	up[cpu] = 1
	if (cpu > max)
		max = cpu
	smt[cpu] = $3
	llc[cpu] = $4
	node[cpu] = $5
}
$1 == "pod" { pod[$2 + 0] = $3 }
function complain(text) {
	print "# " text
	bad = 1
}'

# The scopes that depend only on the topology.
test_layout()	# SCOPE
{
	set_to "$(dev wqt_s affinity_scope)" "$1" || return 1
	{ echo "$TOPOLOGY"; layout; } | awk -v scope="$1" "$AWK_LISTS"'
		END {
			for (c in up) {
				want = c
				if (scope == "smt")
					want = smt[c]
				else if (scope == "cache")
					want = llc[c]
				else if (scope == "numa")
					want = node[c]
				else if (scope == "system")
					want = "0-" max
				if (!(c in pod))
					complain("CPU " c " was not served")
				else if (online(pod[c]) != online(want))
					complain("CPU " c ": pod " pod[c] ", not " want)
			}
			exit bad
		}'
}

# Isolated CPUs have pods, too, even after they were offline. They get work when it is
# queued on them by name.
include_isolated()
{
	local cpu

	set_to $GLOBAL/cpumask "$(printf '%x' $(((1 << $(nr_online)) - 1)))" ||
		bail "no work on all CPUs"
	for cpu in $(expand_list "$(cat $CPU/isolated)"); do
		set_to "$CPU/cpu$cpu/online" 0 && set_to "$CPU/cpu$cpu/online" 1 ||
			bail "CPU $cpu does not go and come back"
	done
}

# A shard has whole cores of one LLC. There are as few shards as the size allows, and their
# sizes differ by one at most. In the base kernel the size is a mean, and shards may exceed it.
check_shards()	# SIZE
{
	{ echo "$TOPOLOGY"; layout; } | awk -v size="$1" -v variant="$VARIANT" "$AWK_LISTS"'
		# Cores are named after their first CPU.
		function cores(set,	c, n, first, seen) {
			split("", seen)
			for (c in set) {
				split(online(smt[c]), first, " ")
				if (!(first[1] in seen)) {
					seen[first[1]] = 1
					n++
				}
			}
			return n
		}
		function check_pod(c,	mine, other) {
			split("", mine)
			n = split(online(pod[c]), list, " ")
			for (i = 1; i <= n; i++)
				mine[list[i]] = 1
			if (!(c in mine))
				complain("CPU " c " is not in its pod " pod[c])
			for (other in mine) {
				if (online(pod[other]) != online(pod[c]))
					complain("CPUs " c " and " other " differ about their pod")
				if (online(llc[other]) != online(llc[c]))
					complain("pod " pod[c] " crosses an LLC")
				m = split(online(smt[other]), sib, " ")
				for (i = 1; i <= m; i++)
					if (!(sib[i] in mine))
						complain("siblings " smt[other] " are parted")
			}
			return cores(mine)
		}
		END {
			for (c in up) {
				key = online(llc[c]) ":" online(pod[c])
				if (key in size_of)
					continue
				size_of[key] = check_pod(c)
				l = online(llc[c])
				shards[l]++
				if (size_of[key] > size && variant != "base")
					complain("pod " pod[c] " has " size_of[key] " cores")
				if (!(l in least) || size_of[key] < least[l])
					least[l] = size_of[key]
				if (size_of[key] > most[l])
					most[l] = size_of[key]
				total[l] += size_of[key]
			}
			for (l in shards) {
				want = int((total[l] + size - 1) / size)
				if (variant == "base")
					want = int((2 * total[l] + size) / (2 * size))
				if (!want)
					want = 1
				if (shards[l] != want)
					complain(shards[l] " shards, not " want ", for" l)
				if (most[l] - least[l] > 1)
					complain("shards of " least[l] " to " most[l] " cores")
			}
			exit bad
		}'
}

# The shards of the machine by size, "8 7 7 7 7".
shard_sizes()
{
	{ echo "$TOPOLOGY"; layout; } | awk "$AWK_LISTS"'
		END {
			for (c in up) {
				split(online(smt[c]), sib, " ")
				if (sib[1] == c)
					n[online(pod[c])]++
			}
			for (p in n)
				print n[p]
		}' | sort -rn | tr '\n' ' ' | sed 's/ $//'
}

test_shards()
{
	local size
	size=$(cat $PARAMS/cache_shard_size)

	set_to "$(dev wqt_s affinity_scope)" cache_shard || return 1
	[ "$size" -gt 0 ] || size=1
	check_shards "$size"
}

test_shards_are()	# SIZES
{
	set_to "$(dev wqt_s affinity_scope)" cache_shard || return 1
	is_equal "list of shards" "$(shard_sizes)" "$1"
}

# The named CPU selects the pod, even if another CPU queues the item.
test_queue_on()	# SCOPE
{
	set_to "$(dev wqt_s affinity_scope)" "$1" || return 1
	is_equal "what queue_work_on finds" \
		"$(sed 's/cpu=\([0-9]*\) .*allowed=\([0-9,-]*\) .*/pod \1 \2/' \
			"$HELPER/wqt_s/map_on")" "$(layout)"
}

test_loose()	# SCOPE: workers of a non-strict workqueue are not bound to a pod
{
	set_to "$(dev wqt_l affinity_scope)" "$1" || return 1
	is_equal "the workers' CPUs" "$(map_field wqt_l map allowed | sort -u)" \
		"$(map_field wqt_l map allowed 0)"
}

# The load queues from every CPU for all pods. None of its items may run outside its pod.
test_strict_load()	# SCOPE
{
	set_to "$(dev wqt_s affinity_scope)" "$1" || return 1
	tell wqt_s pods "$(layout | awk '{ print $3 }' | sort -u | tr '\n' ' ')" || return 1
	tell wqt_s stats 0
	tell wqt_s load "threads=4 depth=16 spin_us=20" && sleep 1
	account_is_right wqt_s
}

mount_all
load_helper
create wqt_s unbound
create wqt_l unbound
echo 1 >"$(dev wqt_s affinity_strict)" || bail "no strict workqueue"
TOPOLOGY=$(topology)
same_mask "$(cat $GLOBAL/cpumask_isolated)" 0 || include_isolated

set -- layout:cpu layout:smt layout:cache layout:numa layout:system shards \
	queue_on:cpu queue_on:cache_shard queue_on:numa loose:cache_shard loose:cpu \
	shards_are:"${WQT_SHARDS:-}"
[ -n "${WQT_SHARDS:-}" ] || skip "no sizes are given in WQT_SHARDS" shards_are:
[ "$VARIANT" != base ] ||
	skip "the base kernel takes the size of a shard as a mean" shards_are:"${WQT_SHARDS:-}"
for scope in $SCOPES; do
	set -- "$@" strict_load:"$scope"
done
run_tests "$@"

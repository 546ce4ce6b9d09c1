#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The counts, functions and histograms in /sys/kernel/debug/workqueue.

. "$(dirname "$0")/lib.sh"

STATS=/sys/kernel/debug/workqueue
LAST=$(online_cpus | tail -n 1)

# A column of a workqueue's line
count_of()	# NAME COLUMN
{
	awk -v name="$1" -v column="$2" '
		NR == 1 { for (i = 1; i <= NF; i++) place[$i] = i }
		$1 == name { print $place[column] }' $STATS/workqueues
}

counts_are()	# NAME COLUMN=NUMBER...
{
	local name=$1 one ok=0
	shift

	for one; do
		is_equal "$name: ${one%=*}" "$(count_of "$name" "${one%=*}")" "${one#*=}" || ok=1
	done
	return $ok
}

at_least()	# WHAT GOT LEAST
{
	[ "${2:-0}" -ge "$3" ] && return
	diag "$1 is '$2', less than $3"
	return 1
}

# A field of a histogram: items, missed, longest, or the sum of the buckets; 0 if it has no line
hist_of()	# NAME wait|run FIELD
{
	awk -v name="$1" -v kind="$2" -v field="$3" '
		$1 == name && $2 == kind {
			value["items"] = $3
			value["missed"] = $4
			value["longest"] = $5
			for (i = 6; i <= NF; i++) {
				split($i, pair, ":")
				value["sum"] += pair[2]
			}
		}
		END { print value[field] + 0 }' $STATS/latency
}

hist_is()	# NAME wait|run FIELD=NUMBER...
{
	local name=$1 kind=$2 one ok=0
	shift 2

	for one; do
		is_equal "$name: ${one%=*} of $kind" "$(hist_of "$name" "$kind" "${one%=*}")" \
			"${one#*=}" || ok=1
	done
	return $ok
}

measure()	# 0|1
{
	set_to $STATS/latency_enable "$1"
}

test_files()
{
	local file ok=0

	for file in workqueues:400 functions:400 latency:400 latency_enable:600; do
		is_equal "the mode of ${file%:*}" "$(stat -c %a $STATS/"${file%:*}")" \
			"${file#*:}" || ok=1
	done
	awk '
		NR == 1 { words = NF }
		NF != words { print "# " $0; bad = 1 }
		END { exit bad || NR < 10 }' $STATS/workqueues || ok=1
	refuses $STATS/latency_enable 2 || ok=1
	return $ok
}

# The name cannot be mistaken for several columns, and is ASCII: this one has a separator of
# columns that only some programs know, and a byte that is in no UTF-8 text.
test_strange_name()
{
	local name

	name=$(printf 'wqt\034\377\\n')
	printf '%s percpu\n' "$name" >"$HELPER/create" || return 1
	is_equal "its type" "$(awk '$1 == "wqt\\034\\377\\134n" { print $2 }' $STATS/workqueues)" \
		percpu && printf '%s\n' "$name" >"$HELPER/destroy"
}

test_counts()	# KIND
{
	create wqt_c $1
	is_equal "the type" "$(count_of wqt_c type)" "${1%% *}" &&
		counts_are wqt_c queued=0 started=0 completed=0 &&
		tell wqt_c queue "nop n=50" && tell wqt_c flush 1 &&
		counts_are wqt_c queued=50 started=50 completed=50 cancelled=0 in_flight=0 \
			held_back=0 && destroy wqt_c
}

# flush_work() queues an item of its own for each item here.
test_barriers_are_no_items()	# KIND
{
	local cpus

	create wqt_c $1
	cpus=$(map_field wqt_c map ran | wc -l)
	counts_are wqt_c queued="$cpus" started="$cpus" completed="$cpus" in_flight=0 &&
		destroy wqt_c
}

# An ordered workqueue runs one item at a time.
test_held_back_and_cancelled()
{
	create wqt_c ordered
	tell wqt_c queue block && within 50 held_is wqt_c 1 && tell wqt_c queue "nop n=5" &&
		tell wqt_c cancel 3 &&
		counts_are wqt_c queued=9 started=1 completed=0 cancelled=3 in_flight=6 \
			held_back=5 || return 1
	tell wqt_c release 1 && tell wqt_c flush 1 &&
		counts_are wqt_c queued=9 started=6 completed=6 cancelled=3 in_flight=0 \
			held_back=0 && destroy wqt_c
}

# The old pwqs are gone, with a running item or without, but not their counts.
test_counts_survive_attributes()	# KIND
{
	local nice n=0

	create wqt_c $1
	for nice in -5 3 0; do
		tell wqt_c queue "nop n=20" && tell wqt_c queue block &&
			within 50 held_is wqt_c 1 && set_to "$(dev wqt_c nice)" $nice || return 1
		n=$((n + 21))
		counts_are wqt_c queued=$n started=$n completed=$((n - 1)) in_flight=1 &&
			tell wqt_c release 1 && tell wqt_c flush 1 || return 1
	done
	# the last old pwq is unlinked by a thread
	sleep 1
	counts_are wqt_c queued=63 started=63 completed=63 in_flight=0 && destroy wqt_c
}

# An item that sleeps is seen by whoever reads the file, one that computes by the tick.
test_longest_run()
{
	create wqt_c unbound
	tell wqt_c queue block && sleep 1 &&
		at_least "the sleeping item" "$(count_of wqt_c longest_ms)" 500 &&
		tell wqt_c release 1 && tell wqt_c flush 1 &&
		at_least "the same later" "$(count_of wqt_c longest_ms)" 500 &&
		destroy wqt_c || return 1
	create wqt_c percpu
	tell wqt_c queue "hog cpu=$LAST ms=300" && tell wqt_c flush 1 &&
		at_least "the item that computes" "$(count_of wqt_c longest_ms)" 100 &&
		at_least "its CPU time" "$(count_of wqt_c cpu_time_us)" 100000 &&
		destroy wqt_c
}

test_long_function()
{
	local thresh i
	thresh=$(cat $PARAMS/cpu_intensive_thresh_us)

	create wqt_long percpu
	set_to $PARAMS/cpu_intensive_thresh_us 20000 || return 1
	for i in 1 2; do
		tell wqt_long queue "hog cpu=$LAST ms=300" && tell wqt_long flush 1 || return 1
	done
	set_to $PARAMS/cpu_intensive_thresh_us "$thresh"
	# shellcheck disable=SC2046 # words
	set -- $(awk '$1 == "wqt_long" && $5 == "wqh_hog_fn"' $STATS/functions)
	at_least "how often it ran for long" "${2:-}" 2 &&
		at_least "its CPU time" "${3:-}" 200000 &&
		at_least "the longest run" "${4:-}" 100000 || return 1
	at_least "what its workqueue counts" "$(count_of wqt_long cpu_intensive)" 2 &&
		destroy wqt_long
}

test_latency()	# KIND
{
	create wqt_l $1
	tell wqt_l queue "nop n=10" && tell wqt_l flush 1 && measure 1 &&
		tell wqt_l queue "nop n=50" && tell wqt_l flush 1 &&
		hist_is wqt_l wait items=50 sum=50 missed=0 &&
		hist_is wqt_l run items=50 sum=50 || return 1
	# on again is not anew, off and on is
	measure 1 && hist_is wqt_l wait items=50 && measure 0 &&
		is_equal "lines when off" "$(wc -l <$STATS/latency)" 1 &&
		measure 1 && hist_is wqt_l wait items=0 && measure 0 && destroy wqt_l
}

test_latency_of_a_new_workqueue()
{
	measure 1 || return 1
	create wqt_l percpu
	tell wqt_l queue "nop n=50" && tell wqt_l flush 1 &&
		hist_is wqt_l wait items=50 sum=50 missed=0 && destroy wqt_l && measure 0
}

# No barrier is measured: see test_barriers_are_no_items.
test_latency_without_barriers()	# KIND
{
	local cpus

	create wqt_l $1
	measure 1 || return 1
	cpus=$(map_field wqt_l map ran | wc -l)
	hist_is wqt_l wait items="$cpus" missed=0 && hist_is wqt_l run items="$cpus" &&
		measure 0 && destroy wqt_l
}

test_held_back_items_wait()
{
	create wqt_l ordered
	measure 1 && tell wqt_l queue block && within 50 held_is wqt_l 1 &&
		tell wqt_l queue nop && sleep 1 && tell wqt_l release 1 && tell wqt_l flush 1 &&
		hist_is wqt_l wait items=2 && hist_is wqt_l run items=2 &&
		at_least "the longest wait" "$(hist_of wqt_l wait longest)" 900000 &&
		at_least "the longest run" "$(hist_of wqt_l run longest)" 900000 &&
		measure 0 && destroy wqt_l
}

# What nobody can know is not guessed.
test_queued_before()
{
	create wqt_l ordered
	tell wqt_l queue block && within 50 held_is wqt_l 1 && tell wqt_l queue "nop n=3" &&
		measure 1 && tell wqt_l release 1 && tell wqt_l flush 1 &&
		hist_is wqt_l wait items=0 missed=3 && hist_is wqt_l run items=3 &&
		measure 0 && destroy wqt_l
}

# More items than there are time stamps, all cancelled: they leave none behind.
test_cancelled_items_leave_no_stamps()
{
	create wqt_l ordered
	measure 1 && tell wqt_l queue block && within 50 held_is wqt_l 1 &&
		tell wqt_l cancel 100000 && tell wqt_l queue "nop n=200" &&
		tell wqt_l release 1 && tell wqt_l flush 1 &&
		hist_is wqt_l wait items=201 missed=0 && measure 0 && destroy wqt_l
}

# Items, switch, attributes and CPUs change all at once; then each item is in one bucket.
test_latency_under_load()
{
	local wq round file loaded="wqt_p wqt_u wqt_b" ran

	create wqt_p percpu
	create wqt_u unbound
	create wqt_b bh percpu
	start "threads=2 depth=8 spin_us=10" $loaded || return 1
	for round in $ROUNDS; do
		measure 1 && set_to "$(dev wqt_u affinity_scope)" cpu || return 1
		for file in /sys/devices/system/cpu/cpu[1-9]/online; do
			[ ! -f "$file" ] || { set_to "$file" 0 && progresses wqt_u &&
				cat $STATS/latency $STATS/workqueues >/dev/null &&
				set_to "$file" 1; } || return 1
		done
		progresses wqt_p && measure 0 && set_to "$(dev wqt_u affinity_scope)" system &&
			progresses wqt_b || return 1
	done
	accounts_are_right $loaded && measure 1 &&
		start "threads=2 depth=8 spin_us=10" $loaded && progresses $loaded || return 1
	set_to "$(dev wqt_u affinity_scope)" cache || return 1
	for wq in $loaded; do
		account_is_right $wq && tell $wq flush 1 || return 1
		ran=$(stat_of $wq ran)
		is_equal "$wq: waits" "$(($(hist_of $wq wait sum) + $(hist_of $wq wait missed)))" \
			"$ran" && hist_is $wq run items="$ran" sum="$ran" && destroy $wq || return 1
	done
	measure 0
}

run_tests files strange_name \
	counts:percpu counts:unbound counts:ordered counts:"bh percpu" \
	counts:"percpu ordered_flag" \
	barriers_are_no_items:percpu barriers_are_no_items:unbound \
	barriers_are_no_items:"bh percpu" \
	held_back_and_cancelled \
	counts_survive_attributes:unbound counts_survive_attributes:ordered \
	longest_run long_function \
	latency:percpu latency:unbound latency:ordered latency:"bh percpu" \
	latency:"percpu mem_reclaim" latency_of_a_new_workqueue \
	latency_without_barriers:percpu latency_without_barriers:"bh percpu" \
	held_back_items_wait queued_before cancelled_items_leave_no_stamps latency_under_load

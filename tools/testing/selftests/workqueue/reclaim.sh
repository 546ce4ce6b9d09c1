#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A file system on a loop device, with more dirty data than fits into memory, while no thread can
# be made. To get free memory, the kernel has to write data back: through the workqueue of the
# loop device, which has no rescuer, so the pool must have kept workers. This needs a machine with
# little memory, CONFIG_BLK_DEV_LOOP, CONFIG_EXT4_FS and mkfs.ext4. WQT_SHORTAGE_S is how long the
# shortage lasts, 60 s by default. The shell cannot fork meanwhile. So what it needs then is
# forked before, and waits until it is told to go on.

. "$(dirname "$0")/lib.sh"

PERIODS=6
PERIOD_MS=$((${WQT_SHORTAGE_S:-60} * 1000 / PERIODS))
PLACE=/tmp/wqt_reclaim
IMAGE=$PLACE/image/image	# in a tmpfs of its own
MNT=$PLACE/mnt
LOOP=/dev/loop0
OWN=$PARAMS/own_pools
SCOPE=$PARAMS/default_affinity_scope
WRITERS="1 2"
EXTENDED=nodiscard,lazy_itable_init=0,lazy_journal_init=0	# write all of it now
FILES="1 2 3 4 5 6 7 8"		# of each writer

free_kib()
{
	awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo
}

# The file system takes 5/8 of the free memory, and the writers' files 4/8. So 3/8 are left for
# 4/8 of dirty data.
make_file_system()
{
	local free kib
	free=$(free_kib)
	kib=$((free * 5 / 8))

	[ "$free" -lt 500000 ] || bail "this machine has too much memory"
	KIB=$((free / 2 / $(echo $WRITERS | wc -w) / $(echo $FILES | wc -w)))
	mkdir -p $PLACE/image $MNT && mount -t tmpfs -o size=90% none $PLACE/image &&
		dd if=/dev/zero of=$IMAGE bs=1024 count=$kib 2>/dev/null &&
		mkfs.ext4 -q -F -m 0 -N 64 -E $EXTENDED $IMAGE &&
		losetup $LOOP $IMAGE && mount -t ext4 $LOOP $MNT || bail "no ext4 on a loop device"
	diag "memory: $free KiB free; file system: $kib KiB; each file: $KIB KiB"
}

# What a writer writes to each of its files in a round. Each KiB differs from all others.
content()	# WRITER ROUND FILE
{
	local i=0

	while [ $i -lt "$KIB" ]; do
		printf '%-1023s\n' "$1 $2 $3 $i" || return 1
		i=$((i + 1))
	done
}

# Does not fork. Overwrites its files until it is told to stop, and notes which round was last.
writer()	# WRITER
{
	local round=0 file

	while [ ! -e $PLACE/stop ]; do
		round=$((round + 1))
		for file in $FILES; do
			content "$1" $round "$file" 1<>"$MNT/$1.$file" || return 1
		done
	done
	echo $round >"$PLACE/last.$1"
}

is_written()	# WRITER
{
	local file

	for file in $FILES; do
		content "$1" "$(cat "$PLACE/last.$1")" "$file" | cmp -s - "$MNT/$1.$file" ||
			{ diag "file $1.$file has wrong data"; return 1; }
	done
}

# Those from here to period() do not fork either.

now()	# sets NOW to the time since boot in ms
{
	local s

	read -r s _ </proc/uptime
	NOW=${s%.*}${s#*.}0
}

counters()	# sets WRITES, KIB_WRITTEN, SCANNED and FORKS
{
	local key value sectors

	read -r _ _ _ _ WRITES _ sectors _ </sys/block/${LOOP#/dev/}/stat
	KIB_WRITTEN=$((sectors / 2))
	SCANNED=0
	while read -r key value; do
		case $key in
		pgscan_kswapd|pgscan_direct) SCANNED=$((SCANNED + value)) ;;
		esac
	done </proc/vmstat
	while read -r key value _; do
		[ "$key" != processes ] || FORKS=$value
	done </proc/stat
}

is_alive()	# PID: it has not ended
{
	local state=Z

	read -r _ _ state _ <"/proc/$1/stat"
	[ "$state" != Z ]
}

# Tells a process to sync, lets time pass, and adds a line to REPORT.
period()	# FIFO PID
{
	local begin writes=$WRITES written=$KIB_WRITTEN scanned=$SCANNED ok=0 what=

	now
	begin=$NOW
	is_alive "$2" || ok=1
	echo >"$1"
	echo "1 $PERIOD_MS" >"$HELPER/wqt_t/wait"	# for an item that nobody queues
	now
	counters
	[ "$WRITES" -gt "$writes" ] && [ "$SCANNED" -gt "$scanned" ] || ok=1
	! is_alive "$2" || { what=", sync has not ended"; ok=1; }
	REPORT="$REPORT$((NOW - begin)) ms: $((WRITES - writes)) writes, \
$((KIB_WRITTEN - written)) KiB, $((SCANNED - scanned)) pages scanned$what
"
	return $ok
}

# As booted; or all CPUs share a pool, and ask for pools of their own when the shortage begins. In
# the base kernel they go on to share it.
test_writeback()	# as_booted or shared
{
	local i scope forks ok=0 syncs=
	scope=$(cat $SCOPE)

	[ "$1" = as_booted ] || set_to $SCOPE system || return 1
	create wqt_t unbound
	make_file_system
	for i in $(seq $PERIODS); do
		mkfifo "$PLACE/sync.$i"
		{ read -r _ <"$PLACE/sync.$i" && exec sync; } &
		syncs="$syncs $PLACE/sync.$i:$!"
	done
	for i in $WRITERS; do
		writer "$i" &
	done
	sleep 3
	REPORT=
	shortage || return 1
	[ "$1" = as_booted ] || [ ! -e $OWN ] || echo 2 >$OWN
	counters
	forks=$FORKS
	for i in $syncs; do
		period "${i%:*}" "${i#*:}" 2>/dev/null || ok=1
	done
	plenty
	printf %s "$REPORT" | while read -r i; do diag "$i"; done
	is_equal "the number of forks after the shortage" "$FORKS" "$forks" || ok=1
	touch $PLACE/stop
	for i in $WRITERS; do
		within 300 [ -f "$PLACE/last.$i" ] ||
			{ diag "writer $i has not ended"; return 1; }
	done
	umount $MNT && mount -t ext4 $LOOP $MNT || ok=1		# read it from the disk
	for i in $WRITERS; do
		is_written "$i" || ok=1
	done
	umount $MNT && losetup -d $LOOP && umount $PLACE/image && rm -r $PLACE || ok=1
	set_to $SCOPE "$scope" || ok=1
	destroy wqt_t
	return $ok
}

run_tests writeback:as_booted writeback:shared

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Run cases of workloads in a simulated guest, which has busybox and few other programs.
#
# The host writes the script that uses these functions: see simulated.py. Of each case, only a stretch is simulated:
# after all jobs have begun, and until they are ended. What is measured comes after a first part of this stretch,
# in which the CPUs come to the same time, and requests that were queued before are done.

PLACE=${PLACE:-/tmp}
TOGGLE=/proc/sys/kernel/hostname	# a write to it begins and ends the simulation
QUEUES=/sys/devices/virtual/workqueue
DEFAULT=/sys/module/workqueue/parameters/default_affinity_scope
CLD=/pipes/nfsd/cld
BYPASS=/sys/module/nfs/parameters/localio_enabled	# of the network, by a client on the server's machine
NAME=wqlab-crypt
DISK=/dev/ram0
export DM_DISABLE_UDEV=1

# Report to the host: see lines.py.
emit() # KIND FIELDS
{
	printf '@workload {"kind": "%s", %s}\n' "$1" "$2"
}

begin() # CPUS CASES
{
	mkdir -p /mnt /srv /pipes
	read -r default_scope <$DEFAULT
	done=0
	emit begin "\"release\": \"$(uname -r)\", \"cpus\": $1, \"cases\": $2"
}

finish()
{
	emit end "\"cases\": $done"
}

die()
{
	echo "workload-inside: $*"
	exit 1
}

# Tell the kernel something.
tell() # FILE TEXT
{
	printf '%s\n' "$2" >"$1" || die "the kernel refuses '$2' in $1"
}

# Run a program, and show what it says only if it fails.
quiet() # COMMAND...
{
	"$@" >"$PLACE/said" 2>&1 || { cat "$PLACE/said"; die "$1 failed"; }
}

# Read back what was written. Wrong data is reported, anything else ends the run.
verify() # GROUP OPTIONS OF FIO...
{
	group=$1
	shift
	fio "$@" >"$PLACE/said" 2>&1 && return
	grep -m 1 -e verify -e 'Input/output error' "$PLACE/said" >"$PLACE/why" || { cat "$PLACE/said"; die "fio failed"; }
	why=$(tr -d '"\\' <"$PLACE/why")
	emit wrong "\"name\": \"$group\", \"why\": \"$why\""
}

# How much was done since boot. What counts differs: requests of dm-crypt, KiB written to disks, procedure calls.
crypt_requests()
{
	read -r reads _ _ _ writes _ </sys/block/dm-0/stat && count=$((reads + writes))
}

kib_written()
{
	while read -r key count && [ "$key" != pgpgout ]; do :; done </proc/vmstat
}

calls()
{
	while read -r key count _ && [ "$key" != rpc ]; do :; done </proc/net/rpc/nfs
}

# Set the scope of workqueues, or the default one if sysfs does not show them.
scope() # SCOPE STRICT PATTERN
{
	value=$1 strict=$2
	# shellcheck disable=SC2086	# a pattern
	set -- "$QUEUES"/$3
	if [ -e "$1/affinity_scope" ]; then
		for queue; do
			tell "$queue/affinity_scope" "$value"
			tell "$queue/affinity_strict" "$strict"
		done
	else
		[ "$value" != default ] || value=$default_scope
		tell $DEFAULT "$value"
	fi
}

open_crypt() # CIPHER KEY OPTIONS
{
	quiet dmsetup create "$NAME" --table "0 $(blockdev --getsz $DISK) crypt $1 $2 0 $DISK 0 $3"
}

close_crypt()
{
	quiet dmsetup remove --retry "$NAME"
}

# Make this machine a client and a server, which knows all clients of earlier servers: there are none.
prepare_nfs()
{
	quiet ifconfig lo 127.0.0.1 up
	quiet mount -t tmpfs tmpfs /srv
	quiet mount -t rpc_pipefs rpc_pipefs /pipes
	quiet mount -t nfsd nfsd /proc/fs/nfsd
	[ ! -e $BYPASS ] || tell $BYPASS N
	(
		until [ -e $CLD ]; do sleep 0.01; done
		exec cat <>$CLD >&0
	) &
}

snapshot()
{
	/sbin/date +%s%N && read -r line </proc/stat && echo "$line"
}

# Simulate a while. Before and after what counts, note the time and what the CPUs did.
simulate() # SECONDS TO SETTLE, SECONDS THAT COUNT
{
	echo begin >$TOGGLE
	sleep "$1"
	snapshot >first
	sleep "$2"
	snapshot >last
	echo end >$TOGGLE
}

# Print the latencies in ns of fio's log, and over how many ms. A line of the log has the ms, which begin up to one later
# than those of the clock. That begins at 0 s with the guest, so in its first second, the time has zeros in front, and
# would be octal.
figures()
{
	{ read -r from; read -r before; } <first
	{ read -r to; read -r after; } <last
	from=${from#"${from%%[!0]*}"} to=${to#"${to%%[!0]*}"}
	printf '"elapsed_ns": %d, "cpu": ["%s", "%s"], ' $((to - from)) "$before" "$after"
	from=$((from / 1000000 + 1)) to=$((to / 1000000 - 1))
	printf '"ms": %d, "ns": [' $((to - from))
	awk -F ', ' -v from=$from -v to=$to '$1 >= from && $1 < to { printf "%s%d", n++ ? ", " : "", $2 }' log_clat.log
	printf ']'
}

# Start fio, simulate a while after it has done some work, and end it.
steady() # NAME COUNTER AMOUNT SECONDS TO SETTLE, SECONDS THAT COUNT, OPTIONS OF FIO...
{
	name=$1 counter=$2 amount=$3 settle=$4 seconds=$5
	shift 5
	rm -rf "$PLACE/run" && mkdir "$PLACE/run" && cd "$PLACE/run" || exit
	$counter
	amount=$((count + amount))
	chrt --other 0 fio --output=report "$@" >said 2>&1 &
	while $counter && [ "$count" -lt $amount ]; do
		sleep 0.002
		kill -0 $! 2>/dev/null || { cat said report; die "fio failed"; }
	done
	simulate "$settle" "$seconds"
	kill -INT $!
	wait $!
	[ -s log_clat.log ] || { cat said report; die "fio wrote no log"; }
	emit stretch "\"name\": \"$name\", $(figures)"
	done=$((done + 1))
	cd /
}

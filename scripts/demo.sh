#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Record a terminal: a guest boots, its shards are resized under load, and an item that keeps
# a CPU is found.
#
# usage: scripts/demo.sh [KERNEL]	a build folder for QEMU; the default is built first
#
# build/demo/demo.cast is an asciicast v2, which `asciinema play` plays, and demo.svg draws it.
# Pauses longer than four seconds are cut.
set -eu

PLACE=build/demo
PARAMS=/sys/module/workqueue/parameters

say() { printf '\n\033[33m# %s\033[0m\n' "$*"; sleep 2; }
show() { printf '\033[1m%s\033[0m\n' "$PROMPT $*"; sleep 1; eval "$*"; sleep 3; }

# In the guest
inside()
{
	PROMPT='guest#'
	dmesg -n 1
	modprobe wq_test_helper
	cd /sys/kernel/debug/wq_test
	echo 5 >$PARAMS/watchdog_thresh
	echo 0 >$PARAMS/cpu_intensive_thresh_us		# else others run beside the item
	echo wqt_load unbound >create
	echo wqt_stuck percpu >create

	show 'uname -sr; nproc'
	say 'Four threads queue items. Meanwhile, resize the shards:'
	show 'echo threads=4 depth=16 spin_us=10 >wqt_load/load'
	show "for N in 1 2 4 2; do echo \$N >\$PARAMS/cache_shard_size; done"
	show 'echo stop >wqt_load/load'
	show "grep -E '^(queued|ran|lost|twice)' wqt_load/stats"
	say 'An item keeps CPU 3, and two others wait behind it:'
	show 'echo hog cpu=3 ms=600000 >wqt_stuck/queue'
	show 'echo nop cpu=3 n=2 >wqt_stuck/queue'
	until dmesg | grep -q 'BUG: workqueue'; do sleep 1; done
	show "dmesg | grep -oE '(BUG: workq|in-flight|pending).*'"
	echo ...
	sleep 1000
}

# On the host, in the recorded terminal
outside()	# KERNEL
{
	PROMPT='$'
	: >$PLACE/guest.log
	printf '\033[1m$ %s\033[0m\n' 'scripts/lab guest --topology sockets=1,cores=4 ...'
	scripts/lab guest --kernel "$1" --topology sockets=1,cores=4 --mem 256M --timeout 1000 --qmp $PLACE/qmp \
		--log $PLACE/kernel.log --file scripts/demo.sh:/demo.sh -- sh /demo.sh inside \
		>$PLACE/guest.log 2>$PLACE/errors.log &
	guest=$!
	trap 'kill $guest 2>/dev/null; wait' EXIT
	tail -f --pid=$guest $PLACE/guest.log &
	until grep -q '^\.\.\.' $PLACE/guest.log; do
		kill -0 $guest
		sleep 1
	done
	say 'From outside, with the memory of that guest:'
	show scripts/dump-guest.sh dump --picture --width 66 2>>$PLACE/errors.log
	show scripts/dump-guest.sh dump --stalls 5 2>>$PLACE/errors.log
}

case ${1:-} in
--help) sed -n '3,9s/^# \{0,1\}//p' "$0"; exit ;;
inside) inside; exit ;;
esac
cd "$(dirname "$0")/.."
if [ "${1:-}" = outside ]; then
	outside "$2"
	exit
fi
[ $# -gt 0 ] || scripts/lab kernel
mkdir -p $PLACE
rm -f $PLACE/demo.*
asciinema rec --quiet --idle-time-limit 4 --cols 68 --rows 28 --env TERM \
	--command "scripts/demo.sh outside '${1:-$(scripts/lab kernel --print-dir)}'" $PLACE/demo.cast
termtosvg render $PLACE/demo.cast $PLACE/demo.svg --min-frame-duration 100 --loop-delay 6000

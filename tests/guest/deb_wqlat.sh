#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Count items of writeback, and of the probe if the kernel has it, by bcc's wqlat. Print what that and
# the probe have found.
set -eu

run=/sys/module/wq_probe/parameters/run
probe=
if modinfo wq_probe >/dev/null 2>&1; then
	probe=y
	modprobe wq_probe period_us=10000
fi
PYTHONUNBUFFERED=1 wqlat-bpfcc -W 60 1 >/tmp/wqlat 2>&1 &
until grep -q Tracing /tmp/wqlat; do
	kill -0 $! || { cat /tmp/wqlat; exit 1; }
	sleep 1
done
[ ! "$probe" ] || echo unbound >$run
dd if=/dev/zero of=/var/tmp/zeros bs=1M count=16 conv=fsync
sync
sleep 10
[ ! "$probe" ] || echo stop >$run
wait $!
cat /tmp/wqlat
if [ "$probe" ]; then
	cat $run
	rmmod wq_probe
fi

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Read a disc in a drive that cdemu emulates. Its SCSI host is vhba, a module of Debian, which adds
# and removes drives in an item.
set -eu

cd "$(mktemp -d)"
lsmod | grep '^vhba '		# systemd has loaded it
head -c 32M /dev/urandom >data
genisoimage -quiet -o disc.iso data
size=$(stat -c %s disc.iso)
export size
dbus-run-session -- sh -eu <<'END'
# Without a session of systemd, D-Bus cannot start it.
cdemu-daemon --num-devices 1 --audio-driver null --logfile log &
waited=0
until [ -b /dev/sr0 ] && cdemu load 0 disc.iso; do
	sleep 1
	[ "$((waited += 1))" -lt 60 ] || { ls /dev/vhba_ctl; cat log; exit 1; }
done
cdemu status
udevadm settle
cmp -n "$size" disc.iso /dev/sr0
END
# The daemon ends with its bus, and the drive goes.
while [ -e /dev/sr0 ]; do sleep 1; done
rmmod vhba

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Count the items of the module wqcancel with wqlat.py of bcc. Fail if some of those that ran are missing.
# Run this as root in a guest.
#
# usage: [PYTHON=python3] reproduce.sh WQLAT.py wqcancel.ko
#
# To build the module: make -C /lib/modules/$(uname -r)/build M=$PWD modules
set -u
ran=1001		# with the first item, which holds the others back
out=$(mktemp)
PYTHONUNBUFFERED=1 ${PYTHON:-python3} "$1" -W -w wqcancel 20 1 >"$out" 2>&1 &
until grep -q '^Tracing' "$out"; do
	kill -0 $! 2>/dev/null || { cat "$out"; exit 2; }
	sleep 1
done
insmod "$2" || exit 2
rmmod wqcancel
wait $!
counted=$(awk '$2 == "->" { sum += $5 } END { print sum + 0 }' "$out")
rm "$out"
echo "$counted of $ran items counted"
[ "$counted" -eq $ran ]

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# sysrq-t ends with the state of every busy workqueue.

. "$(dirname "$0")/lib.sh"

test_header()
{
	log_has "Showing busy workqueues and worker pools"
}

test_per_cpu_one()
{
	log_has "workqueue wqt_q: flags=0x" &&
		log_has "in-flight: [0-9]+:wqh_block_fn.* for [0-9]+s" &&
		log_has "inactive: .*3\*wqh_nop_fn"
}

test_unbound_one()
{
	log_has "workqueue wqt_v: flags=0x"
}

test_pools()
{
	log_has "pool [0-9]+: cpus=0 .*flags=0x.* nice=0 hung=[0-9]+s workers=[0-9]+"
}

test_idle_ones_are_left_out()
{
	echo "$LOG" | grep -q "workqueue wqt_idle" || return 0
	diag "wqt_idle is printed"
	return 1
}

mount_all
load_helper
[ -w /proc/sysrq-trigger ] || bail "no sysrq: is CONFIG_MAGIC_SYSRQ set?"
create wqt_q percpu max_active=1
create wqt_v unbound
create wqt_idle unbound
tell wqt_q queue "block cpu=0"
tell wqt_q queue "nop cpu=0 n=3"
tell wqt_v queue "block cpu=0 n=2"
within 50 held_is wqt_q 1 && within 50 held_is wqt_v 2 || bail "no item runs"
echo t >/proc/sysrq-trigger
LOG=$(dmesg | awk '
	/Showing busy workqueues/ { text = "" }
	{ text = text "\n" $0 }
	END { print text }')

run_tests header per_cpu_one unbound_one pools idle_ones_are_left_out

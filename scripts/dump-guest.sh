#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Look at the workqueues of a running QEMU guest from outside: take its memory,
# and run tools/workqueue/wq_dump.py or wq_monitor.py on that.
#
# usage: scripts/dump-guest.sh [OPTIONS] dump|monitor [ARGUMENT...]	(--help lists them)
#
# Everything is in scripts/dump_guest.py; this only sees to it that drgn is there.
. "$(dirname "$0")/lib.sh"

case " $* " in
*" --help "* | *" -h "* | *" --list "*) ;;
*) [ -x "$BUILD/venv/bin/drgn" ] || "$ROOT/scripts/deps.sh" ;;
esac
need python3
exec python3 "$ROOT/scripts/dump_guest.py" "$@"

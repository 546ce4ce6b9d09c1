#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Compare our workqueue with the base kernel's: build, boot in turn, print, plot.
#
# usage: scripts/run-bench.sh [OPTIONS]		(--help lists them)
#
# Everything is in scripts/bench.py; this only sees to it that Python is there.
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || "$ROOT/scripts/deps.sh"
exec python3 "$ROOT/scripts/bench.py" "$@"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Compare our workqueue with the base kernel's: build, boot in turn, print, plot.
#
# usage: scripts/run-bench.sh [OPTIONS]		(--help lists them)
exec "$(dirname "$0")/lab" bench "$@"

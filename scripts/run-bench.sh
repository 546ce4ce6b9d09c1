#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Compare the speed of our workqueue and the base kernel's: build both, boot them in turn,
# print a table and draw plots.
#
# usage: scripts/run-bench.sh [OPTIONS]		(--help lists the options)
exec "$(dirname "$0")/lab" bench "$@"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Advise which affinity scope and which size of shards this machine wants: load the benchmark
# module, measure for some minutes, and say what to choose and what it gains.
#
# usage: scripts/advise.sh [OPTIONS]		(--help lists the options)
exec "$(dirname "$0")/lab" advise "$@"

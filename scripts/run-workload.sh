#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Run real programs (dm-crypt, file systems, NFS) on our workqueue and the base kernel's in turn,
# verify their data, print tables and draw plots.
#
# usage: scripts/run-workload.sh [OPTIONS] [NAME...]	(--help lists options and workloads)
exec "$(dirname "$0")/lab" workload "$@"

# SPDX-License-Identifier: GPL-2.0
"""All workloads, by name."""
from wqlab.workload import dmcrypt, endure, latency, nfs, wireguard, writeback
from wqlab.workload.cases import Workload

MODULES = (dmcrypt, writeback, wireguard, latency, nfs, endure)
ALL: dict[str, Workload] = {one.WORKLOAD.name: one.WORKLOAD for one in MODULES}
UNNAMED = [name for name, one in ALL.items() if not one.only_if_named]

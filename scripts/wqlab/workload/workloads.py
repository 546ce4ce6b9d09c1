# SPDX-License-Identifier: GPL-2.0
"""All workloads, by name."""
from wqlab.workload import dmcrypt, endure, latency, wireguard, writeback
from wqlab.workload.cases import Workload

ALL: dict[str, Workload] = {one.name: one for one in (
    dmcrypt.WORKLOAD, writeback.WORKLOAD, wireguard.WORKLOAD, latency.WORKLOAD, endure.WORKLOAD)}
UNNAMED = [name for name, one in ALL.items() if not one.only_if_named]

# SPDX-License-Identifier: GPL-2.0
"""All workloads, by name."""
from typing import Any

from wqlab.workload import dmcrypt, endure, latency, nfs, simulated, writeback
from wqlab.workload.cases import Workload

MODULES = (dmcrypt, writeback, latency, nfs, endure)
ALL: dict[str, Workload] = {one.WORKLOAD.name: one.WORKLOAD for one in MODULES}
UNNAMED = [name for name, one in ALL.items() if not one.only_if_named]


def known(params: dict[str, Any]) -> dict[str, Workload]:
    """Return the workloads that can be run where these parameters say."""
    return simulated.WORKLOADS if params.get('machine') else ALL


def described(params: dict[str, Any]) -> dict[str, Workload]:
    """Return all workloads, as a table of results describes them."""
    return {**ALL, **known(params)}

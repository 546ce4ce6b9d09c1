# SPDX-License-Identifier: GPL-2.0
"""The facts about a kernel's workqueues, free of drgn.

read.py fills these in. text.py, picture.py and --json show them. A field that this
kernel does not have is None. CPU sets are lists of numbers here, and strings as in
sysfs ("0-3,8") in JSON. Times are seconds. Addresses are numbers here, and strings
("0xffff...") in JSON.
"""
import dataclasses
from typing import Optional

FORMAT = 2      # raised when a field of the JSON changes its meaning or is removed


@dataclasses.dataclass
class Kernel:
    release: str                    # as uname -r
    source: str                     # "live" or "core"
    arch: str
    uptime: float                   # jiffies since boot, in seconds
    possible_cpus: list
    online_cpus: list
    unbound_cpus: list              # wq_unbound_cpumask
    nodes: list                     # numbers of the online NUMA nodes
    cache_shard_size: Optional[int]
    possible_nodes: list = dataclasses.field(default_factory=list)
    node_cpus: Optional[dict] = None    # possible node -> its CPUs; None: no CONFIG_NUMA


@dataclasses.dataclass
class Cpu:
    """The place of one possible CPU. The numbers of LLC, core and shard are those of pods."""
    cpu: int
    online: bool
    socket: Optional[int]           # None: the CPU was never up, or unknown here
    node: Optional[int]
    llc: Optional[int]
    shard: Optional[int]
    core: Optional[int]


@dataclasses.dataclass
class Pod:
    id: int
    cpus: list
    node: int                       # -1: none


@dataclasses.dataclass
class Scope:
    name: str                       # "cpu", "smt", "cache", "cache_shard", "numa", "system"
    default: bool
    pods: list                      # of Pod
    cpu_pod: dict                   # CPU -> pod


@dataclasses.dataclass
class Item:
    """A work item that is queued: on a pool's list, a worker's list or held back."""
    address: int
    function: str                   # by symbol, else the address
    workqueue: Optional[str]        # None: not readable
    pool: Optional[int]
    worker: Optional[int] = None    # pid of the only worker that may run it
    barrier: bool = False           # what a flush_work() waits for
    linked: bool = False            # the next item of the list runs right after it


@dataclasses.dataclass
class Worker:
    pid: Optional[int]              # None: the softirq of a BH pool
    comm: str
    id: Optional[int]
    cpu: Optional[int]              # where the task runs or ran last
    state: str                      # letter as in ps
    flags: list                     # "IDLE", "CPU_INTENSIVE", ...
    desc: str
    rescuer: Optional[str]          # the workqueue that it rescues
    idle_for: Optional[float]       # since it went idle
    # while it runs an item:
    item: Optional[int] = None      # address
    function: Optional[str] = None
    workqueue: Optional[str] = None
    running_for: Optional[float] = None
    scheduled: list = dataclasses.field(default_factory=list)   # of Item


@dataclasses.dataclass
class Pool:
    id: int
    address: int
    kind: str                       # "percpu", "unbound" or "bh"
    cpu: Optional[int]              # None: unbound
    node: int                       # -1: none
    flags: int
    flag_names: list                # "BH", "MANAGER_ACTIVE", "DISASSOCIATED", ...
    refcnt: int
    nice: int
    cpus: list                      # attrs->cpumask; [cpu] of a per-CPU pool
    pod_cpus: Optional[list]        # attrs->__pod_cpumask, unbound pools only
    strict: bool
    nr_running: int                 # managed workers; 0 in unbound pools
    nr_idle: int
    nr_workers: int
    manager: Optional[int]          # pid of the worker that is creating workers
    no_progress_for: Optional[float]    # since an item started or the list was empty; None: nothing waits
    workers: list                   # of Worker, including active rescuers
    waiting: list                   # of Item, in order
    mayday: list                    # names of the workqueues whose rescuers were called for it
    own_cpu: Optional[int] = None   # the only CPU that queues on it; None: all of its pod may

    @property
    def busy(self):
        return [worker for worker in self.workers if worker.item is not None]


@dataclasses.dataclass
class Pwq:
    """One workqueue's share of one pool."""
    address: int
    pool: int
    refcnt: int
    nr_active: int
    nr_in_flight: int               # all unfinished items, including those held back
    inactive: list                  # of Item: held back, in order
    plugged: bool                   # waits for older items in another pwq
    mayday: bool                    # waits for the rescuer
    stats: dict                     # "started", "completed", ... -> number


@dataclasses.dataclass
class NodeActive:
    node: int                       # -1: pods that span nodes
    nr: int
    max: int


@dataclasses.dataclass
class Workqueue:
    name: str
    address: int
    type: str                       # "percpu", "unbound", "ordered" or "bh"
    flags: int
    flag_names: list                # "MEM_RECLAIM", "HIGHPRI", "FREEZABLE", ...
    max_active: int
    min_active: Optional[int]
    # unbound and ordered ones only:
    scope: Optional[str]            # as requested, may be "default"
    strict: bool
    nice: Optional[int]
    cpus: Optional[list]            # as requested
    cpu_pool: dict                  # possible CPU -> pool id
    dfl_pool: Optional[int]
    node_active: list               # of NodeActive, one for each possible node and one for -1
    pwqs: list                      # of Pwq
    rescuer: Optional[Worker]       # WQ_MEM_RECLAIM only
    rescuer_cpus: Optional[list]


@dataclasses.dataclass
class Snapshot:
    kernel: Kernel
    cpus: list                      # of Cpu
    scopes: list                    # of Scope
    pools: list                     # of Pool, by id
    workqueues: list                # of Workqueue, in the kernel's order
    warnings: list                  # what could not be read, a line each


def cpulist(cpus):
    """[0, 1, 2, 5] as "0-2,5"."""
    parts, cpus = [], sorted(cpus)
    while cpus:
        end = 0
        while end + 1 < len(cpus) and cpus[end + 1] == cpus[end] + 1:
            end += 1
        parts.append(str(cpus[0]) if not end else f'{cpus[0]}-{cpus[end]}')
        cpus = cpus[end + 1:]
    return ','.join(parts)

# SPDX-License-Identifier: GPL-2.0
"""The machine of a guest: its CPUs, what they share, and its memory."""
import dataclasses
import re

from wqlab.steps import Failure

KEYS = ('sockets', 'cores', 'threads', 'llcs', 'nodes', 'memless', 'cpuless')
MOST = 1024     # of any of these
DEFAULT_CPUS = 2


@dataclasses.dataclass(frozen=True)
class Topology:
    cores: int = 1      # in each socket
    sockets: int = 1
    threads: int = 1    # of each core
    llcs: int = 1       # last-level caches in all
    nodes: int = 1      # NUMA nodes that have CPUs
    memless: int = 0    # how many of these have no memory; they are the last ones
    cpuless: int = 0    # how many more nodes have memory but no CPUs

    @property
    def cpus(self) -> int:
        return self.sockets * self.cores * self.threads


def parse(text: str | None) -> dict[str, int]:
    """Parse a list such as "cores=4,nodes=2"."""
    given: dict[str, int] = {}
    for word in filter(None, (text or '').split(',')):
        key, _, value = word.partition('=')
        if key not in KEYS or not re.fullmatch('[0-9]+', value) or not 1 <= int(value) <= MOST:
            raise Failure(f'topology {word!r}: give KEY=NUMBER with KEY one of {", ".join(KEYS)} '
                             f'and NUMBER from 1 to {MOST}')
        if key in given:
            raise Failure(f'topology {text!r} gives {key} twice')
        given[key] = int(value)
    return given


def complete(given: dict[str, int], cpus: int | None = None) -> Topology:
    """Return the machine that is described by the result of parse(), by a number of CPUs, or by both."""
    sockets, threads = given.get('sockets', 1), given.get('threads', 1)
    cores = given.get('cores') or max(1, (cpus or DEFAULT_CPUS * sockets * threads) // (sockets * threads))
    topology = Topology(**{'llcs': sockets, **given, 'cores': cores})
    if cpus and cpus != topology.cpus:
        raise Failure(f'{cpus} CPUs do not fit the topology, which has {topology.cpus}: leave one of them out')
    check(topology)
    return topology


def check(topology: Topology) -> None:
    cores = topology.sockets * topology.cores
    if topology.llcs % topology.sockets or cores % topology.llcs:
        raise Failure(f'llcs={topology.llcs} must be a multiple of sockets={topology.sockets} '
                         f'that divides the {cores} cores')
    if topology.cpus % topology.nodes:
        raise Failure(f'nodes={topology.nodes} does not divide {topology.cpus} CPUs: give a divisor')
    if topology.memless >= topology.nodes:
        raise Failure(f'memless={topology.memless}: at least one of {topology.nodes} nodes must have memory')


def megabytes(text: str) -> int:
    found = re.fullmatch(r'([0-9]{1,7})([MG])', text)
    if not found or not int(found[1]):
        raise Failure(f'memory {text!r}: write it as 512M or 2G')
    return int(found[1]) * (1024 if found[2] == 'G' else 1)

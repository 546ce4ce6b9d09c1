# SPDX-License-Identifier: GPL-2.0
"""WireGuard between two network namespaces.

A case is FLOWS/KIND or handshakes/SCOPE. The flows are those of iperf3, and their data is
encrypted and decrypted by items of the per-CPU workqueue wg-crypt. A handshake starts with
an item of the unbound workqueue wg-kex, the only one whose scope can be chosen.
"""
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from wqlab.workload import cases, echoes, iperf, machine, namespaces, streams
from wqlab.workload.cases import Wrong
from wqlab.workload.scopes import of_workqueue
from wqlab.workload.tunnel import HUB, MOST_FLOWS, Tunnel, peer_address

FLOWS = {'flows-1': 1, 'flows-8': MOST_FLOWS}
SCOPES = ('default', 'system', 'cache', 'cache_shard', 'cpu')
ECHO_EVERY_S, LATE_S = 0.002, 1.0
# Longer than the 20 ms in which WireGuard refuses another handshake with the same peer.
HANDSHAKE_EVERY_S = 0.05
LEAST_PEERS, MOST_PEERS = 8, 250


def names(cpus: int) -> list[str]:
    return [f'{flows}/{kind}' for flows in FLOWS for kind in iperf.KINDS] + [f'handshakes/{scope}' for scope in SCOPES]


def peers(cpus: int) -> int:
    """Return with how many peers there are handshakes at once."""
    return min(max(LEAST_PEERS, cpus), MOST_PEERS)


def notes(cpus: int) -> list[str]:
    return ['both ends of the tunnel, iperf3 and the echo requests share these CPUs: a rate is that of all of them']


class Flows(Tunnel):
    """The tunnel while iperf3 sends through it."""

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        """Verify data first, which warms up."""
        flows, kind = case.split('/')
        self.seconds = seconds
        verified = self.verify(FLOWS[flows], seconds)
        with echoes.endpoint(self.left) as source:
            found = echoes.Echoes(source, self.spoil)
            rates = self.flow(kind, FLOWS[flows], seconds, found)
        return 'MiB/s', {**rates, **found.figures(), 'verified_mib': verified / iperf.MIB}

    def flow(self, kind: str, flows: int, seconds: float, found: echoes.Echoes) -> dict[str, float]:
        """Run iperf3, and send echo requests meanwhile."""
        end = time.monotonic() + seconds + streams.STALL_S
        with iperf.serving(self.right), machine.CpuUse() as use, \
                iperf.sending(self.left, peer_address(0), kind, flows, seconds) as (client, report):
            found.at_intervals((peer_address(0), 0), ECHO_EVERY_S,
                               lambda: client.poll() is not None or time.monotonic() > end)
            if client.returncode is None:
                raise Wrong(f'iperf3 did not end within {streams.STALL_S:g} s: its flows stand still')
            report.seek(0)
            summary = iperf.result(report.read(), client.returncode)
        found.finish(LATE_S)
        return {**iperf.figures(summary), 'cpu_percent': use.percent}


class Handshakes(Tunnel):
    """A device that makes a handshake with each of its peers, at once."""

    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        self.seconds = seconds
        with of_workqueue('wg-kex-*', case.split('/')[1]), echoes.endpoint(self.left) as source:
            self.storms(echoes.Echoes(source, self.spoil), 0)       # warms up
            found = echoes.Echoes(source, self.spoil)
            rate = self.storms(found, seconds)
        return 'handshakes/s', {'rate': rate, **found.figures()}

    def targets(self) -> list[tuple[str, int]]:
        return [(peer_address(peer), 0) for peer in range(self.peers)]

    def storms(self, found: echoes.Echoes, seconds: float) -> float:
        """Forget all sessions, send a packet to each peer, and again. Return the handshakes in a second of waiting."""
        end, waited, count = time.monotonic() + seconds, 0.0, 0
        while not count or time.monotonic() < end:
            self.set_up(self.left, HUB)
            time.sleep(HANDSHAKE_EVERY_S)
            waited += found.at_once(self.targets(), streams.STALL_S)
            count += self.peers
        return count / waited

    def check_again(self) -> None:
        """Reach all peers, too."""
        super().check_again()
        with echoes.endpoint(self.left) as source:
            echoes.Echoes(source, self.spoil).at_once(self.targets(), streams.STALL_S)


class Group(cases.Members):
    @contextlib.contextmanager
    def opened(self, spoil: str | None) -> Iterator[Flows | Handshakes]:
        for program in ('wg', 'iperf3'):
            machine.run(program, '--version')       # or it says that the program is not installed
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='wqlab-')))
            left, right = stack.enter_context(namespaces.joined())
            namespaces.need_device(left, 'wireguard')
            tunnel = Flows(left, right, folder, 1, spoil) if self.name == 'flows' else \
                Handshakes(left, right, folder, peers(self.cpus), spoil)
            tunnel.configure()
            stack.callback(tunnel.down)
            tunnel.up()
            yield tunnel


def groups(members: Sequence[str], cpus: int) -> list[Group]:
    """Return two groups: the flows, however many, go through the same tunnel."""
    flows = [name for name in members if name.startswith('flows-')]
    others = [name for name in members if name not in flows]
    return [Group(name, found, cpus) for name, found in (('flows', flows), ('handshakes', others)) if found]


WORKLOAD = cases.Workload(
    name='wireguard', what='WireGuard between two network namespaces: flows of iperf3, and many handshakes at once',
    latency='one echo request and its reply, through the tunnel: beside the flows, or with a handshake before it',
    columns=(cases.CPU, ('lost_percent', 'lost %'), cases.P50, cases.P99, cases.P999),
    names=names, groups=groups, notes=notes,
    sets={'quick': ('flows-8/tcp',),
          'default': ('flows-*/tcp', 'flows-8/udp', 'handshakes/system', 'handshakes/cache_shard')})

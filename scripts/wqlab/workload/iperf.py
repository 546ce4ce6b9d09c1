# SPDX-License-Identifier: GPL-2.0
"""Run iperf3 between two namespaces, and read its report. It does not look at the data that it sends."""
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO

from wqlab import procs
from wqlab.steps import Failure, first_match, plain_environment
from wqlab.workload import machine
from wqlab.workload.namespaces import Namespace

KINDS = {'tcp': (), 'tcp-both': ('--bidir',), 'udp': ('--udp', '--bandwidth', '0')}
MIB = 1 << 20


def environment() -> dict[str, str]:
    # Its buffers are mapped files. In a guest, /tmp cannot be written to.
    return plain_environment(**machine.environment(), TMPDIR=tempfile.gettempdir())


@contextlib.contextmanager
def serving(place: Namespace) -> Iterator[None]:
    """Let a server listen in the namespace."""
    command = place.command('iperf3', '--server', '--forceflush', '--interval', 0)
    with procs.kept(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                    env=environment()) as server:
        assert server.stdout
        said = ''
        while 'listening' not in said:
            line = server.stdout.readline()
            if not line:
                raise Failure(f'iperf3 cannot listen: {first_match(said, "error")}')
            said += line
        yield


@contextlib.contextmanager
def sending(place: Namespace, address: str, kind: str, flows: int,
            seconds: float) -> Iterator[tuple[subprocess.Popen, IO[str]]]:
    """Start a client in the namespace. Yield its process and the file that will have its report."""
    # It takes no fractions of a second, and a time of 0 has no end.
    command = place.command('iperf3', '--client', address, '--json', '--interval', 0, '--parallel', flows,
                            '--time', max(1, round(seconds)), *KINDS[kind])
    with tempfile.TemporaryFile('w+') as report, \
            procs.kept(command, stdin=subprocess.DEVNULL, stdout=report, stderr=report, env=environment()) as client:
        yield client, report


def result(text: str, status: int) -> dict:
    """Return the part of a report that sums up, or raise Failure with what iperf3 says."""
    try:
        report, _ = json.JSONDecoder().raw_decode(text, text.index('{'))     # there may be warnings around it
    except ValueError:
        raise Failure(f'iperf3 failed with status {status}: {first_match(text, "error")}') from None
    if status or 'error' in report:
        raise Failure(f'iperf3 failed with status {status}: {report.get("error", "no message")}')
    return report['end']


def figures(end: dict) -> dict[str, float]:
    """Return how much arrived, in both directions together, in MiB/s, and what was lost on the way."""
    arrived = [end[name] for name in ('sum_received', 'sum_received_bidir_reverse') if name in end]
    found = {'rate': sum(one['bits_per_second'] for one in arrived) / 8 / MIB}
    if 'lost_packets' in arrived[0]:
        return {**found, 'lost_datagrams_percent': arrived[0]['lost_percent']}
    sent = [end[name] for name in ('sum_sent', 'sum_sent_bidir_reverse') if name in end]
    return {**found, 'retransmits': sum(one['retransmits'] for one in sent)}

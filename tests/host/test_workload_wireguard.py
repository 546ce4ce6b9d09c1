# SPDX-License-Identifier: GPL-2.0
"""The workload wireguard on the host: reports of iperf3, streams, echo requests, namespaces, the tunnel's files."""
import base64
import contextlib
import hashlib
import os
import re
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from wqlab.paths import ROOT
from wqlab.steps import Failure
from wqlab.workload import cases, echoes, iperf, machine, namespaces, streams, tunnel, wireguard

DATA = ROOT / 'tests/data/workload'
HERE = SimpleNamespace(name='here', entered=contextlib.nullcontext)


def report(kind):
    """A report of iperf3, as recorded between two namespaces of a guest."""
    return (DATA / f'iperf3-{kind}.json').read_text()


# iperf3

def test_flow_of_a_recorded_report():
    found = iperf.result(report('tcp'), 0)
    arrived = found['sum_received']
    figures = iperf.figures(found)
    assert figures['rate'] == pytest.approx(arrived['bytes'] / arrived['seconds'] / 2**20, rel=0.01)
    assert figures['retransmits'] == found['sum_sent']['retransmits']


def test_both_directions_are_added():
    found = iperf.result(report('tcp-both'), 0)
    one, other = found['sum_received'], found['sum_received_bidir_reverse']
    assert one['bits_per_second'] > 0 and other['bits_per_second'] > 0
    assert iperf.figures(found)['rate'] == pytest.approx((one['bits_per_second'] + other['bits_per_second']) / 2**23)


def test_rate_of_datagrams_is_what_arrived():
    found = iperf.result(report('udp'), 0)
    figures = iperf.figures(found)
    assert 0 < figures['rate'] < found['sum_sent']['bits_per_second'] / 2**23
    assert 0 < figures['lost_datagrams_percent'] < 100 and 'retransmits' not in figures


@pytest.mark.parametrize('text, status, why', [
    (report('refused'), 0, 'iperf3 failed with status 0: unable to connect to server'),
    ('exec of "iperf3" failed: No such file or directory\n', 255, 'failed with status 255: exec of "iperf3" failed'),
    ('', 137, 'iperf3 failed with status 137: no message'),
    ('{"start": {', 0, 'iperf3 failed with status 0'),
])
def test_failures_of_iperf3(text, status, why):
    with pytest.raises(Failure, match=why):
        iperf.result(text, status)


def test_warnings_around_a_report():
    assert iperf.result(f'warning: x\n{report("tcp")}\nwarning: y\n', 0) == iperf.result(report('tcp'), 0)


def test_client_without_a_fraction_of_a_second(monkeypatch):
    """A time of 0 would have no end."""
    monkeypatch.setattr(namespaces.Namespace, 'command', lambda self, *words: ['echo', *map(str, words)])
    for seconds, whole in ((0.1, 1), (2.4, 2)):
        with iperf.sending(namespaces.Namespace('x'), '127.0.0.1', 'tcp-both', 8, seconds) as (client, text):
            assert client.wait() == 0
            text.seek(0)
            assert re.search(rf'--parallel 8 --time {whole} --bidir$', text.read().strip())


def test_server_that_cannot_listen(monkeypatch):
    said = 'iperf3: error - unable to start listener: Address already in use'
    monkeypatch.setattr(namespaces.Namespace, 'command', lambda self, *words: ['echo', said])
    with pytest.raises(Failure, match=f'iperf3 cannot listen: {said}'), iperf.serving(namespaces.Namespace('x')):
        pass


# Streams

def test_data_that_arrives_is_right():
    assert streams.verify(HERE, HERE, '127.0.0.1', 3, 0, None) == 3 * 2 * 2 * streams.PIECE


@pytest.mark.parametrize('how', ['corrupt', 'stale'])
def test_other_data_is_noticed(how):
    with pytest.raises(cases.Wrong, match=r'(\d+) bytes were sent, and \1 bytes of other data arrived'):
        streams.verify(HERE, HERE, '127.0.0.1', 2, 0, how)


def test_missing_and_additional_data_is_noticed(monkeypatch):
    for other in (lambda piece, *_: piece[:-1], lambda piece, *_: piece + b'x'):
        monkeypatch.setattr(streams, 'changed', other)
        with pytest.raises(cases.Wrong, match='bytes of other data arrived'):
            streams.verify(HERE, HERE, '127.0.0.1', 1, 0, None)


def test_flow_that_stands_still(monkeypatch):
    monkeypatch.setattr(streams, 'STALL_S', 0.1)
    wait = threading.Event()
    monkeypatch.setattr(streams, 'send', lambda *_: wait.wait(1))
    with pytest.raises(cases.Wrong, match='a flow of data broke off: timed out'):
        streams.verify(HERE, HERE, '127.0.0.1', 1, 0, None)


def test_broken_flow_ends_the_others(monkeypatch):
    """They would else run for an hour."""
    first = threading.Lock()
    whole = streams.send

    def send(connection, seconds, spoil):
        if first.acquire(blocking=False):
            raise ConnectionResetError('reset')
        return whole(connection, 3600, spoil)
    monkeypatch.setattr(streams, 'send', send)
    with pytest.raises(cases.Wrong, match='a flow of data broke off'):
        streams.verify(HERE, HERE, '127.0.0.1', 3, 0, None)


def test_digest_is_of_what_should_arrive():
    here, there = socket.socketpair()
    with here, there:
        receiver = threading.Thread(target=lambda: received.append(streams.receive(there)))
        received = []
        receiver.start()
        sent = streams.send(here, 0, None)
        receiver.join()
    assert received == [sent] and sent.bytes == 2 * streams.PIECE
    assert sent.digest != hashlib.sha512(bytes(sent.bytes)).hexdigest()


# Echo requests

def test_percentiles_are_times_that_were_measured():
    times = [number / 1e6 for number in range(1000, 0, -1)]
    assert echoes.percentiles(times) == pytest.approx({'p50_us': 500, 'p99_us': 990, 'p999_us': 999})
    assert echoes.percentiles([3e-6]) == pytest.approx({'p50_us': 3, 'p99_us': 3, 'p999_us': 3})
    assert echoes.percentiles([]) == {}


@contextlib.contextmanager
def replying(*answers):
    """Yield a socket, and the address of a server that sends as many replies to each request as the numbers say."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
        server.bind(('127.0.0.1', 0))
        source.setblocking(False)

        def serve():
            for answer in answers:
                request, address = server.recvfrom(2048)
                for _ in range(answer):
                    server.sendto(request, address)
        thread = threading.Thread(target=serve)
        thread.start()
        yield source, server.getsockname()
        thread.join()


def test_replies_are_timed():
    with replying(1, 1, 1) as (source, target):
        found = echoes.Echoes(source, None)
        left = iter((False, False, False, True))
        found.at_intervals(target, 0.01, lambda: next(left))
        found.finish(10)
    figures = found.figures()
    assert figures['ios'] == 3 and figures['lost_percent'] == 0
    assert 0 < figures['p50_us'] <= figures['p99_us'] == figures['p999_us']


def test_requests_without_a_reply_are_lost():
    with replying(1, 0, 0, 1) as (source, target):
        found = echoes.Echoes(source, None)
        for _ in range(4):
            found.send(target)
        found.finish(0.2)
    assert found.figures()['lost_percent'] == 50 and found.figures()['ios'] == 2


def test_peer_that_does_not_reply():
    with replying(1, 0) as (source, target), pytest.raises(cases.Wrong, match='1 of 2 peers did not reply within 0.2'):
        echoes.Echoes(source, None).at_once([target, target], 0.2)


def test_reply_that_arrives_twice():
    with replying(2) as (source, target):
        found = echoes.Echoes(source, None)
        found.at_once([target], 10)
        assert found.ready(time.perf_counter() + 10)
        with pytest.raises(cases.Wrong, match='request 0 arrived twice'):
            found.take()


@pytest.mark.parametrize('how', ['corrupt', 'stale'])
def test_reply_with_other_data(how):
    with replying(1, 1) as (source, target):
        found = echoes.Echoes(source, how)
        with pytest.raises(cases.Wrong, match='request 1 has other data'):
            found.at_once([target, target], 10)


# Namespaces

@pytest.fixture
def commands(monkeypatch, tmp_path):
    """The commands that would be run, and a folder for the namespaces that they would make."""
    called = []

    def run(*words):
        called.append(' '.join(map(str, words)))
        if words[:3] == ('ip', 'netns', 'add'):
            (tmp_path / words[3]).touch()
        if words[:3] == ('ip', 'netns', 'del'):
            (tmp_path / words[3]).unlink()
        return ''
    monkeypatch.setattr(machine, 'run', run)
    monkeypatch.setattr(machine, 'load', lambda module: False)
    monkeypatch.setattr(namespaces, 'FOLDER', tmp_path)
    return called


def test_namespaces_are_removed_after_an_error(commands, tmp_path):
    with pytest.raises(KeyError), namespaces.joined() as (left, right):
        assert sorted(os.listdir(tmp_path)) == [left.name, right.name]
        assert left.name == f'wqlab-{os.getpid()}-left'
        raise KeyError
    assert not os.listdir(tmp_path)
    assert [line for line in commands if 'veth peer' in line] == [
        f'ip -n {left.name} link add wqlab-veth type veth peer name wqlab-veth netns {right.name}']


def test_namespaces_are_removed_if_they_cannot_be_joined(commands, tmp_path, monkeypatch):
    run = machine.run

    def fail(*words):
        if 'veth' in words:
            raise Failure('ip failed: Error: Unknown device type.')
        return run(*words)
    monkeypatch.setattr(machine, 'run', fail)
    with pytest.raises(cases.Lacking, match='the kernel has no veth device: .*Unknown'), namespaces.joined():
        pass
    assert not os.listdir(tmp_path) and commands


def test_leftovers_of_dead_processes_are_removed(commands, tmp_path):
    for name in ('wqlab-4194305-left', f'wqlab-{os.getpid()}-left', 'wqlab-mine', 'other'):     # above the highest pid
        (tmp_path / name).touch()
    namespaces.remove_leftovers()
    assert sorted(os.listdir(tmp_path)) == ['other', f'wqlab-{os.getpid()}-left', 'wqlab-mine']


def test_kernel_without_namespaces(monkeypatch, tmp_path):
    monkeypatch.setattr(namespaces, 'OURS', tmp_path / 'net')
    with pytest.raises(cases.Lacking, match='no network namespaces'), namespaces.joined():
        pass


def test_namespace_that_cannot_be_entered(tmp_path, monkeypatch):
    (tmp_path / 'x').touch()
    monkeypatch.setattr(namespaces, 'FOLDER', tmp_path)
    with pytest.raises(Failure, match='cannot enter a network namespace: '), namespaces.Namespace('x').entered():
        pass


# The tunnel

@pytest.fixture
def made(monkeypatch, tmp_path):
    """A tunnel with three peers. Its public keys are those of the files."""
    monkeypatch.setattr(machine, 'run', lambda *words: f'public-{words[-1].name}\n')
    one = tunnel.Tunnel(namespaces.Namespace('left'), namespaces.Namespace('right'), tmp_path, 3, None)
    one.configure()
    return one


def values(path, name):
    return re.findall(rf'^{name} = (.*)$', path.read_text(), re.M)


def test_peers_know_each_other(made):
    hub = made.file(tunnel.HUB)
    peers = [made.file(device) for device in made.devices[made.right]]
    assert values(hub, 'PublicKey') == [f'public-wqlab-peer{number}.key' for number in range(3)]
    assert values(hub, 'AllowedIPs') == [f'10.66.{number}.2/32' for number in range(3)]
    assert values(hub, 'Endpoint') == [f'198.51.100.2:{values(peer, "ListenPort")[0]}' for peer in peers]
    for number, peer in enumerate(peers):
        assert values(peer, 'PublicKey') == ['public-wqlab-hub.key']
        assert values(peer, 'AllowedIPs') == [f'10.66.{number}.1/32']
        assert values(peer, 'Endpoint') == [f'198.51.100.1:{values(hub, "ListenPort")[0]}']


def test_each_device_has_a_key(made):
    keys = {values(path, 'PrivateKey')[0] for path in made.folder.glob('*.conf')}
    assert len(keys) == 4 and all(len(base64.b64decode(key)) == 32 for key in keys)


@pytest.mark.parametrize('cpus', [1, 2, 24, 512])
def test_names_of_devices_are_short_enough(cpus):
    """15 characters; and the addresses of the peers exist."""
    peers = wireguard.peers(cpus)
    assert 8 <= peers <= 250
    one = tunnel.Tunnel(namespaces.Namespace('left'), namespaces.Namespace('right'), None, peers, None)
    assert max(len(device) for devices in one.devices.values() for device in devices) <= 15


def test_flows_share_a_tunnel():
    names = wireguard.names(2)
    assert [group.name for group in wireguard.groups(names, 2)] == ['flows', 'handshakes']
    assert [group.name for group in wireguard.groups(names[-1:], 2)] == ['handshakes']

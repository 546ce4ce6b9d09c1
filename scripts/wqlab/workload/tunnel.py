# SPDX-License-Identifier: GPL-2.0
"""A WireGuard device with one or more peers. The peers are devices in the other namespace, one each."""
import base64
import os
from collections.abc import Sequence
from pathlib import Path

from wqlab.workload import machine, namespaces, streams
from wqlab.workload.namespaces import Namespace

HUB = 'wqlab-hub'
FIRST_PORT = 51820
GROUP = 7        # of devices, in namespaces that have no others in it
MOST_FLOWS = 8
# A name in a configuration file, and its values. A section may appear more than once.
Section = tuple[str, dict[str, object]]


def hub_address(peer: int) -> str:
    """Return the address that the hub has for a peer: each is in a network of its own, so each has a route."""
    return f'10.66.{peer}.1'


def peer_address(peer: int) -> str:
    return f'10.66.{peer}.2'


def configuration(sections: Sequence[Section]) -> str:
    return ''.join(f'[{title}]\n' + ''.join(f'{name} = {value}\n' for name, value in values.items())
                   for title, values in sections)


class Key:
    def __init__(self, folder: Path, name: str):
        path = folder / name
        self.private = base64.b64encode(os.urandom(32)).decode()
        path.write_text(self.private)
        self.public = machine.run('sh', '-c', 'exec wg pubkey <"$0"', path).strip()


class Tunnel:
    """The devices in both namespaces. Their keys and addresses stay when they are made again."""

    def __init__(self, left: Namespace, right: Namespace, folder: Path, peers: int, spoil: str | None):
        self.left, self.right, self.folder, self.peers, self.spoil = left, right, folder, peers, spoil
        self.seconds = 0.0      # of the last case
        self.devices = {left: [HUB], right: [f'wqlab-peer{peer}' for peer in range(peers)]}

    def configure(self) -> None:
        """Make keys, and write a file for each device."""
        hub, *others = [Key(self.folder, f'{device}.key') for devices in self.devices.values() for device in devices]
        outer_left, outer_right = namespaces.ADDRESSES
        sections: list[Section] = [('Interface', {'PrivateKey': hub.private, 'ListenPort': FIRST_PORT})]
        for peer, key in enumerate(others):
            port = FIRST_PORT + 1 + peer
            sections.append(('Peer', {'PublicKey': key.public, 'Endpoint': f'{outer_right}:{port}',
                                      'AllowedIPs': f'{peer_address(peer)}/32'}))
            self.file(f'wqlab-peer{peer}').write_text(configuration([
                ('Interface', {'PrivateKey': key.private, 'ListenPort': port}),
                ('Peer', {'PublicKey': hub.public, 'Endpoint': f'{outer_left}:{FIRST_PORT}',
                          'AllowedIPs': f'{hub_address(peer)}/32'})]))
        self.file(HUB).write_text(configuration(sections))

    def file(self, device: str) -> Path:
        return self.folder / f'{device}.conf'

    def set_up(self, place: Namespace, device: str) -> None:
        """Give a device its key and its peers. Peers that it had are removed, with their sessions."""
        machine.run(*place.command('wg', 'setconf', device, self.file(device)))

    def up(self) -> None:
        for place, devices in self.devices.items():
            place.batch(f'link add {device} group {GROUP} type wireguard' for device in devices)
            for device in devices:
                self.set_up(place, device)
        self.left.batch(f'address add {hub_address(peer)}/24 dev {HUB}' for peer in range(self.peers))
        self.right.batch(f'address add {peer_address(peer)}/24 dev wqlab-peer{peer}' for peer in range(self.peers))
        for place, devices in self.devices.items():
            place.batch(f'link set {device} up' for device in devices)

    def down(self) -> None:
        """Remove the devices that there are, all at once: one after the other, each waits for RCU."""
        for place in self.devices:
            if place.ip('link', 'show', 'group', GROUP):
                place.ip('link', 'del', 'group', GROUP)

    def check_again(self) -> None:
        """Send data through the tunnel after it was removed and made again. Raise Wrong if other data arrives."""
        self.down()
        self.up()
        self.verify(MOST_FLOWS, self.seconds)

    def verify(self, flows: int, seconds: float) -> int:
        """Send random data through the tunnel. Return how many bytes arrived, or raise Wrong if others did."""
        return streams.verify(self.right, self.left, peer_address(0), flows, seconds, self.spoil)

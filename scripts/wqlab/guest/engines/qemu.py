# SPDX-License-Identifier: GPL-2.0
"""QEMU's x86_64 machine, with any topology, under KVM or emulated."""

from wqlab.guest import tsc
from wqlab.guest.channels import LOG, OUT, Channels, FileChannel, SocketChannel
from wqlab.guest.engines.engine import Engine
from wqlab.guest.setup import Setup
from wqlab.guest.topology import Topology
from wqlab.steps import need

PROGRAM = 'qemu-system-x86_64'
RAM = 'memory-backend-ram'
ICOUNT = ('tcg,thread=single', '-icount', 'shift=0,sleep=off')
# With icount, CPUs take turns, and an instruction "pause" ends a turn. So long loops of it take minutes: to calibrate
# the APIC's timer, and a delay for each CPU that is started.
TAKING_TURNS = ['nolapic_timer', 'cpu_init_udelay=0']
EMULATED_CPU = 'max,l3-cache=on,vendor=GenuineIntel'


class Qemu(Engine):
    name = 'qemu'
    out_device = '/dev/ttyS1'
    own_output = 'qemu'
    stand_still = 'panic=0'
    may_use_kvm = True

    def check(self, setup: Setup) -> None:
        need(PROGRAM)

    def channels(self, setup: Setup) -> Channels:
        files = {name: FileChannel(setup.place / name) for name in (LOG, self.own_output)}
        # QEMU's files have no input.
        return {**files, OUT: SocketChannel() if setup.stdin else FileChannel(setup.place / OUT)}

    def machine(self, setup: Setup) -> list[str]:
        return [PROGRAM, '-M', 'q35', *accel_args(setup.accel, setup.icount), *topology_args(setup.topology, setup.mem)]

    def serial_ports(self) -> list[str]:
        return ['-serial', 'chardev:log', '-serial', 'chardev:out']

    def parameters(self, setup: Setup) -> list[str]:
        turns = TAKING_TURNS if setup.icount and setup.topology.cpus > 1 else []
        return ['console=ttyS0', 'panic=-1', *quick_boot(setup.accel, setup.icount), *turns]

    def command(self, setup: Setup, channels: Channels) -> list[str]:
        out = f'socket,fd={channels[OUT].far.fileno()}' if setup.stdin else f'file,path={setup.place / OUT}'
        args = [*self.machine(setup), '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot',
                '-device', 'vmcoreinfo', '-chardev', f'file,id=log,path={setup.place / LOG}',
                '-chardev', f'{out},id=out', *self.serial_ports(),
                '-kernel', str(setup.image), '-initrd', f'{setup.place}/initrd',
                '-append', ' '.join([*self.parameters(setup), setup.append])]
        args += ['-plugin', setup.simulation.argument()] if setup.simulation else []
        return args + (monitor_args(setup.qmp) if setup.qmp else [])


def monitor_args(socket: str) -> list[str]:
    return ['-qmp', f'unix:{socket},server=on,wait=off']


def accel_args(accel: str, icount: bool = False) -> list[str]:
    if icount:
        return ['-accel', *ICOUNT, '-cpu', EMULATED_CPU]
    if accel == 'kvm':
        return ['-accel', 'kvm', '-cpu', 'host,l3-cache=on,host-cache-info=off']
    return ['-accel', 'tcg,thread=multi', '-cpu', EMULATED_CPU]


def quick_boot(accel: str, icount: bool = False) -> list[str]:
    """
    Return parameters that make an emulated guest skip two timing loops on each CPU, and tell it the rate of its TSC.
    The loops may never end if a few host cores emulate many CPUs. They are not needed: emulated CPUs read the host's
    TSC. A guest that measures it may be interrupted by the host. The clock of one ran 15 times too fast, so items
    seemed to be lost and threads to hang. We have the time to measure it well. With icount the TSC counts virtual
    time, and measuring never fails.
    """
    if accel == 'kvm':
        return []
    rate = None if icount else tsc.rate_khz()
    return ['lpj=4000000', 'tsc=reliable', 'no_timer_check', *([f'tsc_early_khz={rate}'] if rate else [])]


def topology_args(topology: Topology, mem: int, dies: int | None = None, backend: str = RAM) -> list[str]:
    """Return options for CPUs and memory. Each die of a socket has one last-level cache."""
    dies = dies or topology.llcs // topology.sockets
    args = ['-smp', f'{topology.cpus},sockets={topology.sockets},dies={dies},'
                    f'cores={topology.cores // dies},threads={topology.threads}']
    if topology.nodes + topology.cpuless > 1:
        nodes, mem = node_args(topology, mem, backend)
        args += nodes
    elif backend != RAM:
        args += ['-object', f'{backend},id=m0,size={mem}M', '-machine', 'memory-backend=m0']
    return args + ['-m', f'{mem}M']


def node_args(topology: Topology, mem: int, backend: str) -> tuple[list[str], int]:
    """Return options for the nodes, and the memory rounded down to equal shares of the nodes that have memory."""
    args: list[str] = []
    each = topology.cpus // topology.nodes
    nodes = range(topology.nodes + topology.cpuless)
    with_memory = [node for node in nodes if not topology.nodes - topology.memless <= node < topology.nodes]
    share = mem // len(with_memory)
    for node in nodes:
        words = [f'node,nodeid={node}']
        if node < topology.nodes:
            words.append(f'cpus={node * each}-{node * each + each - 1}')
        if node in with_memory:
            args += ['-object', f'{backend},id=m{node},size={share}M']
            words.append(f'memdev=m{node}')
        args += ['-numa', ','.join(words)]
    return args, share * len(with_memory)

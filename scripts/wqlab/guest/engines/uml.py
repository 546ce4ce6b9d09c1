# SPDX-License-Identifier: GPL-2.0
"""User Mode Linux: a kernel that is a program of the host."""
import os
import sys
from pathlib import Path

from wqlab.guest.channels import LOG, OUT, Channels, SocketChannel
from wqlab.guest.engines.engine import Engine
from wqlab.guest.setup import Setup
from wqlab.guest.topology import Topology
from wqlab.steps import Failure


class Uml(Engine):
    name = 'uml'
    out_device = '/dev/tty1'
    own_output = LOG
    has_monitor = False

    def check(self, setup: Setup) -> None:
        if setup.icount or setup.shaped:
            raise Failure('UML has neither a topology nor icount: use --engine qemu')
        host = len(os.sched_getaffinity(0))
        if setup.topology.cpus > host:
            print(f'guest: UML crawls if it has more CPUs than the host: it gets {host}, not {setup.topology.cpus}',
                  file=sys.stderr)
            setup.topology = Topology(cores=host)

    def channels(self, setup: Setup) -> Channels:
        return {LOG: SocketChannel(), OUT: SocketChannel()}

    def command(self, setup: Setup, channels: Channels) -> list[str]:
        log, out = (channels[name].far.fileno() for name in (LOG, OUT))
        args = [str(setup.image), f'mem={setup.mem}M', f'initrd={setup.place}/initrd', 'con=null', f'con0=fd:{log}',
                f'con1=fd:{out}', f'uml_dir={setup.place}/', 'console=tty0', 'panic=-1']
        # A kernel without SMP knows neither parameter.
        if setup.topology.cpus > 1 or b'ncpus=' in setup.image.read_bytes():
            args += ['seccomp=on', f'ncpus={setup.topology.cpus}']
        return args + setup.append.split()

    def witness(self, setup: Setup) -> Path:
        """Return the folder of its mconsole."""
        return setup.place

# SPDX-License-Identifier: GPL-2.0
"""Export a folder by the kernel's own NFS server, in a network namespace of its own.

nfsd has its threads, versions and exports once for each network namespace. So nothing of a
server's setup outlives the namespace, and no other machine can reach it: the namespace has a
loopback device, and nothing else.

The programs of nfs-utils answer the questions that nfsd asks when it needs to know a client
or an export. Here there are one client and one export, so the answers are written in advance,
as the base kernel's Documentation/filesystems/nfs/rpc-cache.rst describes them.
"""
import contextlib
import os
import select
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from wqlab.steps import plain_environment
from wqlab.workload import machine
from wqlab.workload.cases import Lacking
from wqlab.workload.scopes import write

ADDRESS, PORT, THREADS = '127.0.0.1', 2049, 16
FILE_SYSTEMS = ('nfs', 'nfs4', 'nfsd', 'rpc_pipefs')
OTHERS = ('nfsd', 'ganesha.nfsd')
VERSIONS = '-2 -3 +4 +4.1 +4.2\n'       # version 3 would need rpcbind
HOLDER = 'ip link set lo up && echo up && exec cat'
DOMAIN, NEVER = 'wqlab', 0x7fffffff     # a name for the client; when an answer expires
# NFSEXP_FSID, NFSEXP_NOSUBTREECHECK and NFSEXP_INSECURE_PORT of linux/nfsd/export.h. FSID_NUM is not in a header.
FLAGS, FSID_NUM = 0x2000 | 0x400 | 0x2, 1
NOBODY = 65534
LONGEST = 4096                          # of nfsd's messages to nfsdcld
STEP_S = 0.01


def check_kernel() -> None:
    for name in FILE_SYSTEMS:
        machine.need_file_system(name)
    if not Path('/proc/self/ns/net').exists():
        raise Lacking('the kernel has no network namespaces')


def check_no_other(proc: Path = Path('/proc')) -> None:
    """Raise Lacking if an NFS server runs: nfsd would delete its registration at rpcbind, and share its CPUs."""
    for path in proc.glob('[0-9]*/comm'):
        with contextlib.suppress(OSError):      # the process has ended meanwhile
            if path.read_text().strip() in OTHERS:
                raise Lacking('this machine runs an NFS server: stop it first')


def answers(export: Path) -> dict[str, str]:
    """Return what nfsd would ask: who this client is, what it may use, and which folder number 0 is, the root."""
    return {'auth.unix.ip': f'nfsd {ADDRESS} {NEVER} {DOMAIN}\n',
            'nfsd.export': f'{DOMAIN} {export} {NEVER} {FLAGS} {NOBODY} {NOBODY} 0\n',
            'nfsd.fh': f'{DOMAIN} {FSID_NUM} \\x00000000 {NEVER} {export}\n'}


@contextlib.contextmanager
def namespace() -> Iterator[int]:
    """Yield the number of a process in a network namespace of its own."""
    with subprocess.Popen(['unshare', '--net', 'sh', '-c', HOLDER], text=True, process_group=0, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=plain_environment(**machine.environment())) as holder:
        assert holder.stdout and holder.stderr
        if not holder.stdout.readline():
            raise Lacking(f'no network namespace can be made: {holder.stderr.read().strip()}')
        yield holder.pid
        # Popen closes the standard input of cat, which ends it.


@contextlib.contextmanager
def mounted(place: Path, *command: object) -> Iterator[Path]:
    place.mkdir()
    machine.run(*command, place)
    try:
        yield place
    finally:
        machine.run('umount', '-i', place)


def answer(pipe: Path, stop: threading.Event) -> None:
    """Send each message of nfsd to nfsdcld back: its status is 0, which means that all is well."""
    while not pipe.exists():
        if stop.wait(STEP_S):
            return
    file = os.open(pipe, os.O_RDWR)
    try:
        while not stop.is_set():
            if select.select([file], [], [], STEP_S)[0]:
                os.write(file, os.read(file, LONGEST))
    except BrokenPipeError:     # nfsd has removed it
        pass
    finally:
        os.close(file)


@contextlib.contextmanager
def without_grace(pipes: Path) -> Iterator[None]:
    """Be nfsdcld, which knows all clients of earlier servers. There are none, so nfsd need not wait for any."""
    stop = threading.Event()
    thread = threading.Thread(target=answer, args=(pipes / 'nfsd/cld', stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def serving(folder: Path, export: Path) -> Iterator[tuple[str, ...]]:
    """Export a folder as the root of a server. Yield the words that run a command in the server's namespace."""
    check_kernel()
    check_no_other()
    with contextlib.ExitStack() as stack:
        holder = stack.enter_context(namespace())
        there = ('nsenter', f'--net=/proc/{holder}/ns/net')
        pipes = stack.enter_context(mounted(folder / 'pipes', *there, 'mount', '-t', 'rpc_pipefs', 'rpc_pipefs'))
        stack.enter_context(without_grace(pipes))
        nfsd = stack.enter_context(mounted(folder / 'nfsd', *there, 'mount', '-t', 'nfsd', 'nfsd'))
        for name, line in answers(export).items():
            write(Path(f'/proc/{holder}/net/rpc', name, 'channel'), line)
        for name, line in (('versions', VERSIONS), ('portlist', f'tcp {PORT}\n'), ('threads', f'{THREADS}\n')):
            write(nfsd / name, line)
        yield there
        # Its threads end when the last nfsd file system of the namespace is unmounted.

# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel, run one command in it, and exit with the command's status.

The guest is busybox, a real shell and real kmod in an initramfs, with proc,
sysfs, devtmpfs, devpts, debugfs, tracefs and cgroup2 mounted, and the modules
of the kernel's build folder under /lib/modules, so that `modprobe NAME` works. On
arm64, busybox is all there is; see arm64.py.
Kernel messages and the command's output come over channels of their own: the
output is passed on to stdout as it comes, --log gets both.

exit status: the command's; 124 when the time was over; 125 when the guest died
or never came up; 2 for a wrong call.

--topology takes a list of: sockets=, cores= (in each socket), threads= (of each
core), llcs= (last-level caches in all, a multiple of sockets), nodes= (NUMA, each
with as many CPUs), memless= (so many of the nodes, the last ones, have no memory),
cpuless= (so many more nodes have memory and no CPUs).
"""
import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from wqlab.guest import arm64 as guest_arm64
from wqlab.guest import running
from wqlab.paths import BUILD

CACHE = BUILD / '.guest'
TIMED_OUT, DIED = 124, 125
KVM_PROBE_S = 20
POWEROFF_S = 10
LAST_WORDS_S, SILENT_S = 60, 5   # for what a guest still has to say before it is killed
CACHE_S = 24 * 3600
IMAGES = {'uml': 'linux', 'qemu': 'arch/x86/boot/bzImage', 'arm64': guest_arm64.IMAGE}
OUT_DEVICES = {'uml': '/dev/tty1', 'qemu': '/dev/ttyS1', 'arm64': guest_arm64.OUT_DEVICE}
SO_SNDBUFFORCE = 32     # include/uapi/asm-generic/socket.h
CHANNEL_BYTES = 16 << 20
MODULE_TOOLS = ('insmod', 'rmmod', 'modprobe', 'lsmod', 'depmod', 'modinfo')
TOPOLOGY_KEYS = ('sockets', 'cores', 'threads', 'llcs', 'nodes', 'memless', 'cpuless')

INIT = r'''#!/bin/sh
export PATH=/sbin:/usr/sbin:/usr/bin:/bin HOME=/root TERM=dumb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
/bin/busybox --install -s /usr/bin
for tool in insmod rmmod modprobe lsmod depmod modinfo; do rm -f /usr/bin/$tool; done
. /guest/settings
stty -F $GUEST_OUT raw -echo 2>/dev/null
hostname guest
cd /root
exec </dev/null >$GUEST_OUT 2>&1
/bin/sh /guest/command
rc=$?
printf '%s%d\n' "$GUEST_MARK" $rc
while [ $rc -ne 0 ] && [ "$GUEST_STAYS" ]; do sleep 60; done
sync
sleep 0.1
poweroff -f
'''


class GuestError(Exception):
    """The guest cannot be started as asked."""


@dataclasses.dataclass
class Result:
    rc: int
    output: str     # what the command printed
    log: str        # kernel messages and output, in the order they came
    kernel: str     # kernel messages alone
    seconds: float


# The initramfs

class Cpio:
    """A cpio archive in the kernel's own "newc" format."""

    def __init__(self):
        self.parts, self.ino, self.dirs = [], 0, set()

    def _entry(self, name, mode, data=b'', rdev=(0, 0)):
        self.ino += 1
        name = name.encode()
        head = '070701' + ''.join('%08X' % v for v in (
            self.ino, mode, 0, 0, 1, 0, len(data), 0, 0, *rdev, len(name) + 1, 0))
        for part in (head.encode() + name + b'\0', data):
            self.parts.append(part + b'\0' * (-len(part) % 4))

    def dir(self, path):
        path = path.strip('/')
        if path and path not in self.dirs:
            self.dir(os.path.dirname(path))
            self.dirs.add(path)
            self._entry(path, stat.S_IFDIR | 0o755)

    def file(self, path, data, mode=0o644):
        self.dir(os.path.dirname(path))
        self._entry(path.strip('/'), stat.S_IFREG | mode, data)

    def link(self, path, target):
        self.dir(os.path.dirname(path))
        self._entry(path.strip('/'), stat.S_IFLNK | 0o777, target.encode())

    def node(self, path, major, minor):
        self.dir(os.path.dirname(path))
        self._entry(path.strip('/'), stat.S_IFCHR | 0o600, b'', (major, minor))

    def host(self, source, path):
        """A file of the host, or a folder with all that is in it."""
        source = Path(source)
        if source.is_dir():
            self.dir(path)
            for item in sorted(source.iterdir()):
                self.host(item, f'{path}/{item.name}')
        else:
            self.file(path, source.read_bytes(), source.stat().st_mode & 0o777)

    def binary(self, program, path):
        """A program of the host with the libraries it is linked with."""
        found = shutil.which(program, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
        if not found:
            raise GuestError(f'{program} is not installed here: run scripts/deps.sh as root')
        real = Path(found).resolve()
        self.file(path, real.read_bytes(), 0o755)
        listed = subprocess.run(['ldd', real], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r'(/\S+\.so\S*) \(0x', listed):
            if library not in self.dirs:
                self.file(library, Path(library).read_bytes(), 0o755)
                self.dirs.add(library)

    def bytes(self):
        self._entry('TRAILER!!!', 0)
        data = b''.join(self.parts)
        return data + b'\0' * (-len(data) % 512)


def cached(name, key, make):
    """The path of a file under build/.guest, made only when its key is new."""
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f'{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.cpio'
    if not path.exists():
        handle, temp = tempfile.mkstemp(dir=CACHE)
        with os.fdopen(handle, 'wb') as out:
            out.write(make())
        os.replace(temp, path)
        for old in CACHE.glob(f'{name}-*.cpio'):
            if old.stat().st_mtime < time.time() - CACHE_S:
                old.unlink(missing_ok=True)
    os.utime(path)
    return path


def base_archive(engine):
    def make():
        archive = Cpio()
        for folder in ('dev', 'proc', 'sys', 'tmp', 'run', 'root', 'usr/bin', 'usr/sbin', 'etc', 'guest'):
            archive.dir(folder)
        archive.node('dev/console', 5, 1)
        archive.node('dev/null', 1, 3)
        archive.file('init', INIT.encode(), 0o755)
        archive.file('etc/passwd', b'root:x:0:0:root:/root:/bin/sh\n')
        archive.file('etc/group', b'root:x:0:\n')
        if engine == 'arm64':
            guest_arm64.add_programs(archive, MODULE_TOOLS)
        else:
            archive.binary('busybox', 'bin/busybox')
            archive.binary('dash', 'bin/sh')
            archive.binary('kmod', 'bin/kmod')
            for tool in MODULE_TOOLS:
                archive.link(f'sbin/{tool}', '../bin/kmod')
        for tool in ('mount', 'mkdir', 'rm', 'stty', 'hostname', 'sync', 'sleep', 'poweroff'):
            archive.link(f'bin/{tool}', 'busybox')
        return archive.bytes()
    if engine == 'arm64':
        if not guest_arm64.busybox():
            raise GuestError('there is no busybox for arm64: see scripts/userland.sh')
        tools = [guest_arm64.BUSYBOX]
    else:
        tools = [Path(p).resolve() for p in map(shutil.which, ('busybox', 'dash', 'kmod')) if p]
    return cached('base', [INIT] + [(str(p), p.stat().st_mtime) for p in tools], make)


def modules_archive(folder, strip):
    """The modules that were built with the kernel, without debug sections."""
    order = folder / 'modules.order'
    release = folder / 'include/config/kernel.release'
    if not (order.exists() and release.exists()):
        return None
    names = [re.sub(r'\.o$', '.ko', line) for line in order.read_text().split()]
    modules = [folder / name for name in names if (folder / name).exists()]
    release = release.read_text().strip()

    def make():
        with tempfile.TemporaryDirectory(dir=CACHE) as temp:
            place = Path(temp, 'lib/modules', release)
            place.mkdir(parents=True)
            for module in modules:
                subprocess.run([strip, '-g', '-o', place / module.name, module], check=True)
            (place / 'modules.order').write_text(''.join(f'{m.name}\n' for m in modules))
            for name in ('modules.builtin', 'modules.builtin.modinfo'):
                if (folder / name).exists():
                    shutil.copy(folder / name, place)
            depmod = shutil.which('depmod', path='/usr/sbin:/sbin:/usr/bin:/bin')
            if not depmod:
                raise GuestError('depmod is not installed here: run scripts/deps.sh as root')
            subprocess.run([depmod, '-b', temp, release], check=True, capture_output=True)
            archive = Cpio()
            archive.host(Path(temp, 'lib'), 'lib')
            return archive.bytes()
    return cached('modules', [release] + [(str(m), m.stat().st_mtime_ns) for m in modules], make)


def acpi_archive(topo):
    """The table that Linux takes in place of QEMU's: it must come first, uncompressed."""
    archive = Cpio()
    archive.file(guest_arm64.OVERRIDE, guest_arm64.table(topo))
    return archive.bytes()


def build_initrd(path, folder, command, mark, engine, topo, files, bins, stays):
    archive = Cpio()
    archive.file('guest/settings', f'GUEST_MARK={mark}\nGUEST_OUT={OUT_DEVICES[engine]}\n'
                                   f'GUEST_STAYS={"1" if stays else ""}\n'.encode())
    archive.file('guest/command', command.encode() + b'\n')
    for program in bins:
        archive.binary(program, f'usr/bin/{Path(program).name}')
    for pair in files:
        source, _, place = pair.partition(':')
        if not place:
            raise GuestError(f'--file {pair}: write HOST:GUEST')
        if not Path(source).exists():
            raise GuestError(f'--file {pair}: there is no {source}')
        archive.host(source, place)
    strip = guest_arm64.STRIP if engine == 'arm64' else 'strip'
    with open(path, 'wb') as out:
        if engine == 'arm64':
            out.write(acpi_archive(topo))
        for part in (base_archive(engine), modules_archive(folder, strip)):
            if part:
                out.write(part.read_bytes())
        out.write(archive.bytes())


# The machine

def parse_topology(text):
    topology = {}
    for word in filter(None, (text or '').split(',')):
        key, _, value = word.partition('=')
        if key not in TOPOLOGY_KEYS or not value.isdigit() or not int(value):
            raise GuestError(f'topology {word!r}: give KEY=NUMBER with KEY one of {", ".join(TOPOLOGY_KEYS)}')
        topology[key] = int(value)
    return topology


def machine(cpus, topology):
    """All keys of the topology filled in, and checked against each other."""
    topo = {'sockets': 1, 'threads': 1, 'nodes': 1, 'memless': 0, 'cpuless': 0, **topology}
    if 'cores' not in topo:
        per_core = topo['sockets'] * topo['threads']
        topo['cores'] = max(1, (cpus or 2 * per_core) // per_core)
    topo['cpus'] = topo['sockets'] * topo['cores'] * topo['threads']
    topo.setdefault('llcs', topo['sockets'])
    if cpus and cpus != topo['cpus']:
        raise GuestError(f'{cpus} CPUs do not fit the topology, which has {topo["cpus"]}')
    if topo['llcs'] % topo['sockets'] or (topo['sockets'] * topo['cores']) % topo['llcs']:
        raise GuestError(f'llcs={topo["llcs"]} must be a multiple of sockets={topo["sockets"]} '
                         f'that divides the {topo["sockets"] * topo["cores"]} cores')
    if topo['cpus'] % topo['nodes']:
        raise GuestError(f'nodes={topo["nodes"]} does not divide {topo["cpus"]} CPUs')
    if topo['memless'] >= topo['nodes']:
        raise GuestError(f'memless={topo["memless"]}: one of {topo["nodes"]} nodes at least must have memory')
    return topo


def megabytes(text):
    found = re.fullmatch(r'(\d+)([MG])', text)
    if not found or not int(found[1]):
        raise GuestError(f'memory {text!r}: write it as 512M or 2G')
    return int(found[1]) * (1024 if found[2] == 'G' else 1)


def find_kernel(kernel, engine):
    """(engine, kernel file, build folder) of a build folder or a kernel file."""
    kernel = Path(kernel).absolute()
    if engine and engine not in IMAGES:
        raise GuestError(f'engine {engine!r}: must be one of {", ".join(IMAGES)}')
    if kernel.is_file():
        engine = engine or next((name for name, place in IMAGES.items() if Path(place).name == kernel.name), 'qemu')
        depth = len(Path(IMAGES[engine]).parts)
        return engine, kernel, kernel.parents[depth - 1]
    for name, place in IMAGES.items():
        if engine in (None, name) and (kernel / place).is_file():
            return name, kernel / place, kernel
    wanted = IMAGES[engine] if engine else ' or '.join(IMAGES.values())
    raise GuestError(f'{kernel} has no {wanted}: build it with `make kernel` first')


def qemu_topology_args(topo, mem, dies=None):
    dies = dies or topo['llcs'] // topo['sockets']
    args = ['-smp', f'{topo["cpus"]},sockets={topo["sockets"]},dies={dies},'
                    f'cores={topo["cores"] // dies},threads={topo["threads"]}']
    if topo['nodes'] + topo['cpuless'] > 1:
        more, mem = numa_args(topo, mem)
        args += more
    return args + ['-m', f'{mem}M']


def numa_args(topo, mem):
    """The nodes, and what of the memory can be divided among those that have any."""
    args, each = [], topo['cpus'] // topo['nodes']
    with_memory = [node for node in range(topo['nodes'] + topo['cpuless'])
                   if not topo['nodes'] - topo['memless'] <= node < topo['nodes']]
    share = mem // len(with_memory)
    for node in range(topo['nodes'] + topo['cpuless']):
        words = [f'node,nodeid={node}']
        if node < topo['nodes']:
            words.append(f'cpus={node * each}-{node * each + each - 1}')
        if node in with_memory:
            args += ['-object', f'memory-backend-ram,id=m{node},size={share}M']
            words.append(f'memdev=m{node}')
        args += ['-numa', ','.join(words)]
    return args, share * len(with_memory)


def accel_args(accel, icount):
    if icount:
        return ['-accel', 'tcg,thread=single', '-icount', 'shift=0,sleep=off', '-cpu', 'max,l3-cache=on,vendor=GenuineIntel']
    if accel == 'kvm':
        return ['-accel', 'kvm', '-cpu', 'host,l3-cache=on,host-cache-info=off']
    return ['-accel', 'tcg,thread=multi', '-cpu', 'max,l3-cache=on,vendor=GenuineIntel']


def quick_boot(accel):
    """Emulated CPUs read the host's TSC, so there is nothing to calibrate or to compare.

    Both are loops against time on each CPU, for ever where a few host cores emulate many.
    """
    return [] if accel == 'kvm' else ['lpj=4000000', 'tsc=reliable', 'no_timer_check']


def qemu_command(image, initrd, topo, mem, append, accel, icount, temp, qmp):
    if not shutil.which('qemu-system-x86_64'):
        raise GuestError('qemu-system-x86_64 is not installed here: run scripts/deps.sh as root')
    args = ['qemu-system-x86_64', '-M', 'q35', '-nodefaults', '-no-user-config', '-display', 'none',
            '-no-reboot', '-device', 'vmcoreinfo',
            '-chardev', f'file,id=log,path={temp}/log', '-serial', 'chardev:log',
            '-chardev', f'file,id=out,path={temp}/out', '-serial', 'chardev:out',
            '-kernel', str(image), '-initrd', str(initrd),
            '-append', ' '.join(['console=ttyS0 panic=-1', *quick_boot(accel), append])]
    if qmp:
        args += ['-qmp', f'unix:{qmp},server=on,wait=off']
    return args + accel_args(accel, icount) + qemu_topology_args(topo, mem)


def arm64_command(image, initrd, topo, mem, append, icount, temp, qmp):
    args = guest_arm64.command(image, initrd, append, icount, temp)
    if qmp:
        args += ['-qmp', f'unix:{qmp},server=on,wait=off']
    # the caches are in the PPTT: QEMU's own idea of them goes nowhere
    return args + qemu_topology_args(topo, mem, 1)


def uml_command(image, initrd, cpus, mem, append, log_fd, out_fd, temp):
    args = [str(image), f'mem={mem}M', f'initrd={initrd}', 'con=null', f'con0=fd:{log_fd}',
            f'con1=fd:{out_fd}', f'uml_dir={temp}/', 'console=tty0', 'panic=-1']
    if cpus > 1 or b'ncpus=' in Path(image).read_bytes():
        args += ['seccomp=on', f'ncpus={cpus}']
    return args + append.split()


def kvm_works(image):
    """Whether this very kernel boots on /dev/kvm; asked once per host boot."""
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        return False
    boot = Path('/proc/sys/kernel/random/boot_id').read_text().strip()
    memo = CACHE / 'kvm.json'
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / 'kvm.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            known = json.loads(memo.read_text())
            if known['boot'] == boot:
                return known['works']
        except (OSError, ValueError, KeyError):
            pass
        print(f'guest: trying whether /dev/kvm runs a kernel (up to {KVM_PROBE_S} s, once)', file=sys.stderr)
        works = run(image, 'true', engine='qemu', cpus=1, accel='kvm', timeout=KVM_PROBE_S).rc == 0
        temp = memo.with_suffix('.tmp')
        temp.write_text(json.dumps({'boot': boot, 'works': works}))
        os.replace(temp, memo)
        print(f'guest: {"using KVM" if works else "it does not: using TCG"}', file=sys.stderr)
        return works


# The run

PANICKED = '---[ end Kernel panic'


class Reader:
    """Takes what comes over the two channels apart into lines."""

    def __init__(self, mark, stream, log_path):
        self.mark, self.stream = mark, stream
        self.rc = None
        self.panicked = False
        self.kept = {'log': [], 'out': []}
        self.all = []
        self.rest = {'log': '', 'out': ''}
        self.file = open(log_path, 'w', encoding='utf-8') if log_path else None

    def feed(self, channel, data):
        lines = (self.rest[channel] + data.decode('utf-8', 'replace').replace('\r', '')).split('\n')
        self.rest[channel] = lines.pop()
        for line in lines:
            self.line(channel, line + '\n')

    def line(self, channel, text):
        if channel == 'out' and self.mark in text:
            text, _, rc = text.partition(self.mark)
            self.rc = int(rc)
            if not text:
                return
        self.panicked = self.panicked or channel == 'log' and PANICKED in text
        self.kept[channel].append(text)
        self.all.append(text)
        if self.file:
            self.file.write(text)
            self.file.flush()
        if channel == 'out' and self.stream:
            self.stream.write(text)
            self.stream.flush()

    def close(self):
        for channel, text in self.rest.items():
            if text:
                self.line(channel, text)
        if self.file:
            self.file.close()


def kill_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


class Channel:
    """Bytes from the guest as they come: over a socket, or in a file that grows.

    QEMU gets files: its serial port drops what a full socket does not take. UML
    gets sockets: its consoles want something that they can poll. They, too, drop what
    does not fit, so that root gets room for the state of all tasks at once.
    """

    def __init__(self, path=None):
        self.path = path
        if path:
            self.source, self.far = open(path, 'w+b', buffering=0), None
        else:
            self.source, self.far = socket.socketpair()
            self.source.setblocking(False)
            with contextlib.suppress(PermissionError):
                self.far.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, CHANNEL_BYTES)

    def read(self):
        if self.path:
            return self.source.read(1 << 16)
        try:
            return self.source.recv(1 << 16)
        except (BlockingIOError, ConnectionResetError):
            return b''

    def close_far(self):
        if self.far:
            self.far.close()

    def close(self):
        self.source.close()
        self.close_far()


def pump(child, channels, reader, deadline, stays):
    """Read until the guest is gone, or stays for somebody to look at; False when its time was over."""
    while True:
        gone = child.poll() is not None
        idle = True
        for name, channel in channels.items():
            data = channel.read()
            if data:
                idle = False
                reader.feed(name, data)
        now = time.monotonic()
        if reader.rc is not None:
            deadline = min(deadline, now + POWEROFF_S)
        if idle and (gone or stays and (reader.rc or reader.panicked)):
            return True
        if now > deadline:
            return reader.rc is not None
        if idle:
            time.sleep(0.01)


def hear_out(channels, reader):
    """Read until the guest is silent, which may take a while on a console."""
    end = time.monotonic() + LAST_WORDS_S
    silent_at = time.monotonic() + SILENT_S
    while time.monotonic() < min(end, silent_at):
        for name, channel in channels.items():
            data = channel.read()
            if data:
                reader.feed(name, data)
                silent_at = time.monotonic() + SILENT_S
        time.sleep(0.01)


def run(kernel, command, *, engine=None, cpus=None, topology=None, mem='1G', append='',
        timeout=300, files=(), bins=(), log=None, stream=None, accel='auto', icount=False, qmp=None,
        post_mortem=None):
    """Boot `kernel`, run `command` in it by /bin/sh, return a Result.

    post_mortem(place, rc) is called before a guest is killed that hangs or panicked (rc is
    None then), or whose command failed with rc. The guest still runs: place is the QMP
    socket, or the folder in which UML has its mconsole.
    """
    engine, image, folder = find_kernel(kernel, engine)
    topo = machine(cpus, parse_topology(topology) if isinstance(topology, str) else topology or {})
    mem = megabytes(mem)
    if engine == 'uml':
        if icount or topology:
            raise GuestError('UML has neither a topology nor icount: use --engine qemu')
        host = len(os.sched_getaffinity(0))
        if topo['cpus'] > host:
            print(f'guest: UML crawls with more CPUs than the host has: {topo["cpus"]} asked for, '
                  f'{host} taken', file=sys.stderr)
            topo['cpus'] = host
    elif engine == 'arm64':
        if guest_arm64.missing():
            raise GuestError(f'{guest_arm64.missing()} is not installed here: run ENGINE=arm64 scripts/deps.sh as root')
        if bins or accel == 'kvm':
            raise GuestError('arm64 is emulated: no --accel kvm, no --bin')
    elif icount and topo['cpus'] != 1:
        raise GuestError('icount counts one CPU: add --cpus 1')
    elif accel == 'auto':
        accel = 'kvm' if not icount and kvm_works(image) else 'tcg'

    mark = f'guest-exit-{secrets.token_hex(8)}='
    begin = time.monotonic()
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix='run-') as temp:
        initrd = Path(temp, 'initrd')
        stays = post_mortem is not None
        build_initrd(initrd, folder, command, mark, engine, topo, files, bins, stays)
        if stays and engine != 'uml':
            append = f'{append} panic=0'    # the last word: stand still, do not reboot
        channels = {name: Channel(None if engine == 'uml' else Path(temp, name)) for name in ('log', 'out')}
        if engine == 'uml':
            fds = [channel.far.fileno() for channel in channels.values()]
            args = uml_command(image, initrd, topo['cpus'], mem, append, *fds, temp)
            own_output = channels['log'].far
        else:
            fds = []
            if engine == 'arm64':
                args = arm64_command(image, initrd, topo, mem, append, icount, temp, qmp)
            else:
                args = qemu_command(image, initrd, topo, mem, append, accel, icount, temp, qmp)
            own_output = open(Path(temp, 'qemu'), 'w+')
        reader = Reader(mark, stream, log)
        child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=own_output, stderr=own_output,
                                 pass_fds=fds, start_new_session=True,
                                 env={**os.environ, 'TMPDIR': temp_for_memory()})
        for channel in channels.values():
            channel.close_far()
        words = f'lab guest, {topo["cpus"]} CPUs, {mem} MB, {command.strip()[:40]!r}'
        listed = running.announced(folder, qmp, words) if qmp and engine != 'uml' else contextlib.nullcontext()
        try:
            with listed:
                in_time = pump(child, channels, reader, begin + timeout, stays)
                rc = reader.rc
                if stays and child.poll() is None and rc != 0:
                    post_mortem(temp if engine == 'uml' else qmp, rc)
                    hear_out(channels, reader)
        finally:
            kill_group(child)
            if engine != 'uml':
                own_output.seek(0)
                reader.feed('log', own_output.read().encode())
                own_output.close()
            reader.close()
            for channel in channels.values():
                channel.close()
    if rc is None:
        rc = DIED if in_time else TIMED_OUT
    return Result(rc, ''.join(reader.kept['out']), ''.join(reader.all), ''.join(reader.kept['log']),
                  time.monotonic() - begin)


def temp_for_memory():
    """UML keeps the guest's memory in a file; one in RAM where there is one."""
    return '/dev/shm' if os.access('/dev/shm', os.W_OK) else tempfile.gettempdir()


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kernel', required=True, help='build folder, or a kernel file')
    parser.add_argument('--engine', choices=tuple(IMAGES), help='default: what the folder holds')
    parser.add_argument('--cpus', type=int, help='default: what the topology has, or 2')
    parser.add_argument('--topology', metavar='KEY=N,...', help='QEMU only')
    parser.add_argument('--mem', default='1G', help='default: %(default)s')
    parser.add_argument('--append', default='', metavar='ARGS', help='more kernel parameters')
    parser.add_argument('--timeout', type=float, default=300, metavar='S', help='default: %(default)s')
    parser.add_argument('--file', action='append', default=[], metavar='HOST:GUEST', help='a file or folder to take along')
    parser.add_argument('--bin', action='append', default=[], metavar='PROGRAM', help='a program of this host, with its libraries')
    parser.add_argument('--log', metavar='FILE', help='console log: kernel messages and output')
    parser.add_argument('--accel', choices=('auto', 'kvm', 'tcg'), default='auto')
    parser.add_argument('--icount', action='store_true',
                        help='QEMU: guest time = guest instructions; one CPU, but on arm64')
    parser.add_argument('--qmp', metavar='SOCKET', help='QEMU: a socket for its monitor, which dump-guest.sh finds')
    parser.add_argument('command', nargs='+', help='after --: the shell command to run in the guest')
    args = parser.parse_args(argv)
    if args.cpus is not None and args.cpus < 1:
        parser.error('--cpus: must be at least 1')
    try:
        result = run(args.kernel, ' '.join(args.command), engine=args.engine, cpus=args.cpus,
                     topology=args.topology, mem=args.mem, append=args.append, timeout=args.timeout,
                     files=args.file, bins=args.bin, log=args.log, stream=sys.stdout,
                     accel=args.accel, icount=args.icount, qmp=args.qmp)
    except (GuestError, OSError) as error:
        print(f'guest: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if result.rc in (TIMED_OUT, DIED) and not result.output.endswith('\0'):
        what = f'no end after {args.timeout:g} s' if result.rc == TIMED_OUT else 'the guest died'
        print(f'guest: {what}; the last kernel messages:', file=sys.stderr)
        print(''.join(result.kernel.splitlines(True)[-15:]), file=sys.stderr)
    return result.rc

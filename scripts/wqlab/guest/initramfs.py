# SPDX-License-Identifier: GPL-2.0
"""The files of a guest. Its initrd is a sequence of cpio archives.

The archives of programs and modules are the same for many guests. They are kept under build/.guest for a day.
"""
import hashlib
import io
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wqlab import files
from wqlab.guest import CACHE
from wqlab.guest.setup import Setup
from wqlab.steps import Failure, first_match

if TYPE_CHECKING:
    from wqlab.guest.engines.engine import Engine

CACHE_S = 24 * 3600
MODULE_TOOLS = ('insmod', 'rmmod', 'modprobe', 'lsmod', 'depmod', 'modinfo')
EARLY_TOOLS = ('mount', 'mkdir', 'rm', 'stty', 'hostname', 'sync', 'sleep', 'poweroff')
FOLDERS = ('dev', 'proc', 'sys', 'tmp', 'run', 'root', 'usr/bin', 'usr/sbin', 'etc', 'guest')

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
stty -F $GUEST_OUT raw -echo ${GUEST_STDIN:+icanon} 2>/dev/null
hostname guest
cd /root
exec </dev/null >$GUEST_OUT 2>&1
if [ "$GUEST_STDIN" ]; then
	exec <$GUEST_OUT
	echo "${GUEST_MARK}ready"
fi
/bin/sh /guest/command
rc=$?
printf '%s%d\n' "$GUEST_MARK" $rc
while [ $rc -ne 0 ] && [ "$GUEST_STAYS" ]; do sleep 60; done
sync
sleep 0.1
poweroff -f
'''


class Archive:
    """A cpio archive. The parent folders of a file are added with it."""

    def __init__(self) -> None:
        # Imported here so that --help works without build/venv.
        from virtme.cpiowriter import CpioWriter
        self.data = io.BytesIO()
        self.cpio = CpioWriter(self.data)
        self.known: set[str] = set()

    def _place(self, path: str) -> bytes:
        path = path.strip('/')
        self.folder(os.path.dirname(path))
        return path.encode()

    def folder(self, path: str) -> None:
        path = path.strip('/')
        if path and path not in self.known:
            self.known.add(path)
            self.cpio.mkdir(self._place(path), 0o755)

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self.cpio.write_file(self._place(path), data, mode)

    def link(self, path: str, target: str) -> None:
        self.cpio.symlink(target.encode(), self._place(path))

    def device(self, path: str, major: int, minor: int) -> None:
        self.cpio.mkchardev(self._place(path), (major, minor), 0o600)

    def host(self, source: Path, path: str) -> None:
        """Add a file of the host, or a folder with everything in it."""
        if source.is_dir():
            self.folder(path)
            for item in sorted(source.iterdir()):
                self.host(item, f'{path}/{item.name}')
        else:
            self.file(path, source.read_bytes(), source.stat().st_mode & 0o777)

    def binary(self, program: str, path: str) -> None:
        """Add a program of the host and the shared libraries that it uses."""
        found = tool_of_the_host(program)
        self.host(found.resolve(), path)
        listed = subprocess.run(['ldd', found], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r'(/\S+\.so\S*) \(0x', listed):
            if library not in self.known:
                self.known.add(library)
                self.host(Path(library), library)

    def content(self) -> bytes:
        self.cpio.write_trailer()
        return self.data.getvalue()


def tool_of_the_host(program: str) -> Path:
    found = shutil.which(program, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if not found:
        raise Failure(f'{program} is not installed here: run scripts/deps.sh as root')
    return Path(found)


def called(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f'{Path(command[0]).name} failed: {first_match(done.stderr, "error")}')


def cached(name: str, key: object, make: Callable[[], bytes]) -> Path:
    """Return a file under build/.guest. Make it if there is none for this key yet."""
    path = CACHE / f'{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.cpio'
    if not path.exists():
        files.write(path, make())
        for old in CACHE.glob(f'{name}-*'):
            if old.stat().st_mtime < time.time() - CACHE_S:
                old.unlink(missing_ok=True)
    os.utime(path)
    return path


def programs(engine: "Engine") -> Path:
    """Return the archive with the shell, its tools, and the init script."""
    def make() -> bytes:
        archive = Archive()
        for folder in FOLDERS:
            archive.folder(folder)
        archive.device('dev/console', 5, 1)
        archive.device('dev/null', 1, 3)
        archive.file('init', INIT.encode(), 0o755)
        archive.file('etc/passwd', b'root:x:0:0:root:/root:/bin/sh\n')
        archive.file('etc/group', b'root:x:0:\n')
        engine.add_userland(archive, MODULE_TOOLS)
        for tool in EARLY_TOOLS:
            archive.link(f'bin/{tool}', 'busybox')
        return archive.content()
    return cached('base', [INIT] + [(str(path), path.stat().st_mtime) for path in engine.userland()], make)


def modules(folder: Path, strip: str) -> Path | None:
    """Return the archive of the kernel's modules, without debug sections, or None if there are no modules."""
    order, release = folder / 'modules.order', folder / 'include/config/kernel.release'
    if not (order.exists() and release.exists()):
        return None
    names = [re.sub(r'\.o$', '.ko', line) for line in files.read(order).split()]
    built = [folder / name for name in names if (folder / name).exists()]
    version = files.read(release).strip()

    def make() -> bytes:
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=f'{os.getpid()}-') as temp:
            install_modules(folder, built, version, strip, Path(temp))
            archive = Archive()
            archive.host(Path(temp, 'lib'), 'lib')
            return archive.content()
    return cached('modules', [version] + [(str(path), path.stat().st_mtime_ns) for path in built], make)


def install_modules(folder: Path, built: Sequence[Path], version: str, strip: str, root: Path) -> None:
    place = root / 'lib/modules' / version
    place.mkdir(parents=True)
    for module in built:
        called(strip, '-g', '-o', place / module.name, module)
    (place / 'modules.order').write_text(''.join(f'{module.name}\n' for module in built))
    for name in ('modules.builtin', 'modules.builtin.modinfo'):
        if (folder / name).exists():
            shutil.copy(folder / name, place)
    called(tool_of_the_host('depmod'), '-b', root, version)


def files_of(pairs: Sequence[str]) -> list[tuple[Path, str]]:
    """Split and check each HOST:GUEST pair."""
    found = []
    for pair in pairs:
        source, _, place = pair.partition(':')
        if not place:
            raise Failure(f'--file {pair}: write HOST:GUEST')
        if not Path(source).exists():
            raise Failure(f'--file {pair}: there is no {source}')
        found.append((Path(source), place))
    return found


def write(setup: Setup, engine: "Engine") -> None:
    """Write the initrd of one guest."""
    own = Archive()
    settings = {'MARK': setup.mark, 'OUT': engine.out_device, 'STAYS': '1' if setup.stays else '',
                'STDIN': '1' if setup.stdin else ''}
    own.file('guest/settings', ''.join(f'GUEST_{name}={value}\n' for name, value in settings.items()).encode())
    own.file('guest/command', setup.command.encode() + b'\n')
    for program in setup.bins:
        own.binary(program, f'usr/bin/{Path(program).name}')
    for source, place in files_of(setup.files):
        own.host(source, place)
    with open(setup.place / 'initrd', 'wb') as out:
        out.write(engine.early_archive(setup.topology))
        for part in (programs(engine), modules(setup.folder, engine.strip)):
            if part:
                out.write(part.read_bytes())
        out.write(own.content())

# SPDX-License-Identifier: GPL-2.0
"""
What a simulated guest has beside busybox, to run workloads: Debian's own arm64 programs.

Of the packages, only these programs and the libraries that they need are kept, under build/apt/roots.
"""
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from wqlab.kernels import debian
from wqlab.steps import Failure, locked, need, shown

SUITE, ARCH = 'bookworm', 'arm64'
PROGRAMS = {    # and their packages
    'usr/bin/fio': 'fio', 'sbin/dmsetup': 'dmsetup', 'sbin/mkfs.ext4': 'e2fsprogs', 'sbin/mkfs.xfs': 'xfsprogs',
    'sbin/mkfs.btrfs': 'btrfs-progs',
    'usr/bin/chrt': 'util-linux', 'bin/date': 'coreutils'}      # busybox's date knows no nanoseconds
LOADER = 'ld-linux-aarch64.so.1'
FOLDERS = [f'{usr}lib/aarch64-linux-gnu{ceph}' for usr in ('', 'usr/') for ceph in ('', '/ceph')]


def needed(file: Path) -> list[str]:
    """Return the names of the libraries that a program or a library names itself."""
    done = subprocess.run(['readelf', '--dynamic', file], capture_output=True, text=True, check=True)
    return re.findall(r'\(NEEDED\).*\[(.+)\]', done.stdout)


def find(root: Path, library: str) -> Path:
    for folder in FOLDERS:
        if (root / folder / library).exists():
            return root / folder / library
    raise Failure(f"Debian's packages have no {library}: choose others in {shown(__file__)}")


def closure(root: Path, program: Path) -> Iterator[Path]:
    """Yield the libraries that a program needs, and those that these need."""
    left, known = needed(program), {LOADER}
    yield find(root, LOADER)
    while left:
        name = left.pop()
        if name not in known:
            known.add(name)
            library = find(root, name)
            yield library
            left += needed(library)


def copy(root: Path, target: Path) -> None:
    """Copy the programs and their libraries to where a guest looks for them first."""
    for folder in ('sbin', 'lib'):
        (target / folder).mkdir(parents=True)
    for path in PROGRAMS:
        program = root / path
        shutil.copy(program, target / 'sbin')
        for library in closure(root, program):
            shutil.copy(library, target / 'lib' / library.name)


def place() -> Path:
    key = hashlib.sha256(repr((SUITE, PROGRAMS)).encode()).hexdigest()[:8]
    return debian.APT / f'roots/workload-{ARCH}-{key}'


def programs() -> Path:
    """Return a folder with what a guest needs at its root. The first time, this downloads 60 MB."""
    need('readelf')
    with locked('workload-root'):
        if not place().exists():
            temp = debian.APT / 'roots/.workload.tmp'
            shutil.rmtree(temp, ignore_errors=True)
            archive = debian.Archive('fio', (SUITE,), arch=ARCH)
            archive.update(SUITE)
            debian.unpack_all(archive, SUITE, temp, *sorted(set(PROGRAMS.values())))
            copy(temp / 'root', temp / 'copied')
            (temp / 'copied').rename(place())
            shutil.rmtree(temp)
    return place()

# SPDX-License-Identifier: GPL-2.0
"""Get the base kernel tree to build/linux-$LINUX.

usage: [LINUX=RELEASE] [KERNEL_SRC=DIR | LINUX_TARBALL=FILE|URL [LINUX_TARBALL_SHA256=SUM]] scripts/lab base

By default this downloads Debian's package linux-source-$LINUX, in the version that patches/$LINUX.toml
names and the project was tested with, from the mirror or from the archive of all that Debian ever had.
Only if both fail, it takes the newest version of the same release, and says so. It needs no root and
changes nothing outside build/.
KERNEL_SRC=DIR names a clean tree to copy. LINUX_TARBALL= names a release tarball from
kernel.org. LINUX_TARBALL_SHA256= is its checksum from sha256sums.asc on kernel.org. A URL
needs the checksum; for a file it is optional.
"""
import argparse
import datetime
import hashlib
import os
import re
import shlex
import shutil
import sys
import urllib.parse
import urllib.request
from pathlib import Path

from wqlab import files
from wqlab.kernels import debian
from wqlab.kernels.kinds import LINUX, asked_linux, release, tested
from wqlab.paths import BUILD
from wqlab.steps import Failure, locked, logged, need, sayer, shown

say = sayer('base')
POOL = 'pool/main/l/linux'
# Debian's archive as it was when the packages of patches/*.toml were new
SNAPSHOT = 'https://snapshot.debian.org/archive/debian/20261125T000000Z/'
PARTS = ('kernel/workqueue.c', 'include/linux/workqueue.h', 'lib/Kconfig.debug', 'scripts/kconfig/merge_config.sh')
BUILT = ('.config', 'include/config', 'arch/x86/include/generated')
PACKERS = {'.xz': 'xz', '.gz': 'gzip', '.bz2': 'bzip2', '.zst': 'zstd'}
CHUNK = 1 << 20


def version_of(folder: Path) -> str:
    """The version of a kernel tree from its Makefile, such as "7.3.4", or "" if this is no kernel tree."""
    try:
        text = (folder / 'Makefile').read_text(errors='replace')
    except OSError:
        return ''
    found = dict(re.findall(r'^(VERSION|PATCHLEVEL|SUBLEVEL) *= *(\d+)', text, re.M))
    return '.'.join(found.values()) if len(found) == 3 else ''


class Base:
    """The tree of one release and where it came from."""

    def __init__(self, linux: str) -> None:
        self.linux = release(linux)
        self.tree = BUILD / f'linux-{linux}'
        self.origin = BUILD / f'.linux-{linux}.origin'
        self.temp = BUILD / f'linux-{linux}.tmp'

    def fits(self, folder: Path) -> bool:
        """Return True if this is a source tree of the release."""
        return version_of(folder).startswith(f'{self.linux}.') and all((folder / part).is_file() for part in PARTS)

    def came_from(self, words: str) -> bool:
        """Return True if the tree exists and was made from the source that @words names."""
        return self.fits(self.tree) and self.origin.exists() and self.origin.read_text().startswith(f'{words}, ')

    def note(self, words: str) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime('%FT%TZ')
        files.write(self.origin, f'{words}, {version_of(self.tree)}, {now}\n')

    def fill(self, what: str, command: str, words: str, wrong: str) -> None:
        """Fill the tree by a shell command that runs in it. On failure, raise Failure and keep the old tree."""
        shutil.rmtree(self.temp, ignore_errors=True)
        self.temp.mkdir(parents=True)
        try:
            if logged(BUILD / 'log/base.log', what, ['bash', '-c', f'set -o pipefail; {command}'], say=say,
                      cwd=self.temp):
                raise Failure(f'{wrong} (see build/log/base.log)')
            if not self.fits(self.temp):
                raise Failure(f'{words} is not a Linux {self.linux} tree: '
                              f'it is {version_of(self.temp) or "no kernel tree"}')
            old = BUILD / f'linux-{self.linux}.old'
            shutil.rmtree(old, ignore_errors=True)
            if self.tree.exists():
                self.tree.rename(old)
            self.temp.rename(self.tree)
            self.note(words)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(self.temp, ignore_errors=True)
        say(f'base tree: {self.origin.read_text().strip()}')

    def from_folder(self, given: str) -> None:
        source = Path(given).resolve()
        if not source.is_dir():
            raise Failure(f'KERNEL_SRC={given} is not a directory: name a Linux {self.linux} tree')
        if source in (self.tree, BUILD / f'tree-{self.linux}'):
            raise Failure(f'KERNEL_SRC={given} is where this script puts the tree: name another directory')
        if self.came_from(f'directory {source}'):
            return
        if not self.fits(source):
            raise Failure(f'KERNEL_SRC={given} is not a Linux {self.linux} tree: name one')
        if any((source / part).exists() for part in BUILT):
            raise Failure(f"KERNEL_SRC={given} contains build output: run 'make mrproper' there or name a clean tree")
        self.fill(f'copying {source}', f'tar -C {shlex.quote(str(source))} --exclude=./.git -cf - . | tar -xf -',
                  f'directory {source}', f'could not copy {source}')

    def from_tarball(self, given: str, checksum: str) -> None:
        remote = re.match(r'\w+://', given)
        if remote and not checksum:
            raise Failure('LINUX_TARBALL_SHA256= is missing: give the checksum of the tarball, '
                          'from sha256sums.asc in the same directory on kernel.org')
        if checksum and not re.fullmatch('[0-9a-f]{64}', checksum):
            raise Failure(f'LINUX_TARBALL_SHA256={checksum} is not a SHA-256 checksum: give 64 hexadecimal digits')
        if checksum and self.came_from(f'tarball sha256:{checksum}'):
            return
        path = Path(given).resolve() if not remote else download(
            given, checksum, BUILD / 'dl' / f'{checksum[:12]}-{given.rsplit("/", 1)[-1]}')
        if not path.is_file():
            raise Failure(f'LINUX_TARBALL={given} is not a file: name a release tarball')
        found = digest(path)
        if checksum and found != checksum:
            raise Failure(f'LINUX_TARBALL={given} has the checksum {found}, not {checksum}: download it again')
        words = f'tarball sha256:{found}'
        if not self.came_from(words):
            need('tar', *(tool for suffix, tool in PACKERS.items() if path.name.endswith(suffix)))
            self.fill(f'unpacking {path.name}', f'tar -xf {shlex.quote(str(path))} --strip-components=1', words,
                      f'{path.name} could not be unpacked')

    def from_package(self) -> None:
        need('dpkg-deb', 'tar', 'xz')
        package, wanted = f'linux-source-{self.linux}', tested(self.linux)
        deb = debian.APT / f'dl/{package}_{wanted["version"]}_all.deb'
        if not (deb.exists() and digest(deb) == wanted['sha256']) and not from_archive(deb, wanted['sha256']):
            say(f'{deb.name}, with which the project was tested, cannot be had: taking another version')
            deb = debian.Archive(package, wanted['suites']).download()
        self.fill(f'unpacking {deb.name}', f'dpkg-deb --fsys-tarfile {shlex.quote(str(deb))} | '
                  f'tar -xO ./usr/src/{package}.tar.xz | xz -dc -T0 | tar -x --strip-components=1',
                  f'package {deb.name}', f'{deb.name} could not be unpacked')


def from_archive(deb: Path, checksum: str) -> bool:
    """Download a package from the first place that has it. Return False if none has."""
    for place in (debian.mirror, lambda: SNAPSHOT):
        try:
            download(f'{place()}{POOL}/{urllib.parse.quote(deb.name)}', checksum, deb)
            return True
        except Failure as error:
            say(str(error))
    return False


def digest(path: Path) -> str:
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def download(url: str, checksum: str, path: Path) -> Path:
    """Download @url to @path, and check its checksum. Return the path."""
    if path.exists() and digest(path) == checksum:
        return path
    say(f'downloading {url}')
    try:
        with files.replacing(path) as temp, open(temp, 'wb') as out, \
                urllib.request.urlopen(url, timeout=30) as answer:
            total, done = int(answer.headers.get('Content-Length') or 0), 0
            while chunk := answer.read(CHUNK):
                out.write(chunk)
                done += len(chunk)
                if done % (32 * CHUNK) < len(chunk):
                    say(f'downloading: {done // 10**6} of {total // 10**6 or "?"} MB')
            if total and done != total:
                raise Failure(f'{url} ended after {done} of {total} bytes: run this again')
    except (OSError, ValueError) as error:
        raise Failure(f'could not download {url}: {error}') from error
    if digest(path) != checksum:
        found = digest(path)
        path.unlink()
        raise Failure(f'{url} has the checksum {found}, not {checksum}: the file was deleted; check both values')
    return path


def fetch(linux: str = LINUX) -> Base:
    """Make sure that the base tree exists. The environment says where it comes from."""
    base = Base(linux)
    source, tarball = os.environ.get('KERNEL_SRC', ''), os.environ.get('LINUX_TARBALL', '')
    if source and tarball:
        raise Failure('KERNEL_SRC= and LINUX_TARBALL= both name a base tree: give one of them')
    with locked('base'):
        if source:
            base.from_folder(source)
        elif tarball:
            base.from_tarball(tarball, os.environ.get('LINUX_TARBALL_SHA256', ''))
        elif not base.fits(base.tree):
            base.from_package()
        elif not base.origin.exists():
            base.note('found in place')
    return base


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    base = fetch(asked_linux())
    print(f'{shown(base.tree)}: {base.origin.read_text().strip()}', file=sys.stderr)
    return 0

# SPDX-License-Identifier: GPL-2.0
"""Download Debian packages without installing them.

apt uses its own lists, cache and sources under build/apt. This needs no root and changes
nothing outside build/. The mirror is the one that this machine's apt uses. Packages stay
in build/apt/dl.

usage: scripts/lab busybox

This program downloads build/apt/busybox-arm64, the only program in an arm64 guest.
"""
import argparse
import getpass
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cmp_to_key
from pathlib import Path

from wqlab import files
from wqlab.paths import BUILD
from wqlab.steps import Failure, blame_disk, first_match, locked, logged, need, plain_environment, sayer, shown

APT = BUILD / 'apt'
KEYRING = Path('/usr/share/keyrings/debian-archive-keyring.gpg')
BUSYBOX = APT / 'busybox-arm64'


def output(command: Sequence) -> str:
    """Return what a command prints, or nothing if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          env=plain_environment())
    return '' if done.returncode else done.stdout


def mirror(instead: str) -> str:
    """Return the URI of the Debian archive that this machine's apt uses."""
    listed = output(['apt-get', 'indextargets', '--no-release-info', '--format', '$(REPO_URI) $(COMPONENT)',
                     'Created-By: Packages'])
    for line in listed.splitlines():
        uri, component = line.split()
        if component == 'main' and 'debian' in uri and 'security' not in uri:
            return uri
    raise Failure(f"no Debian mirror in this machine's apt sources: add one, {instead}")


def own_apt(suite: str, arch: str) -> list[str]:
    """Return options that make apt use files under build/apt."""
    options = {
        'Dir::Etc::sourcelist': APT / f'{suite}.list', 'Dir::Etc::sourceparts': APT / 'parts',
        'Dir::Etc::preferences': '/dev/null', 'Dir::Etc::preferencesparts': APT / 'parts',
        'Dir::State::lists': APT / f'lists/{suite}{arch}', 'Dir::Cache': APT / 'cache',
        'APT::Update::Error-Mode': 'any', 'Acquire::Languages': 'none',
        'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled': 'false',
        # A mirror may be weeks behind, which is good enough for a test.
        'Acquire::Check-Valid-Until': 'false',
        'Acquire::Retries': 2, 'Acquire::http::Timeout': 30, 'APT::Sandbox::User': getpass.getuser()}
    if arch:
        options |= {'APT::Architecture': arch, 'APT::Architectures': arch}
    return [word for name, value in options.items() for word in ('-o', f'{name}={value}')]


class Archive:
    """The suites of the Debian archive that may have one package."""

    def __init__(self, package: str, suites: Sequence[str], *, arch: str = '', say=None, instead: str) -> None:
        for tool in ('apt-get', 'apt-cache', 'dpkg-deb'):
            if not shutil.which(tool):
                raise Failure(f'{tool} is missing: run scripts/deps.sh (as root) first, {instead}')
        self.package, self.arch, self.instead = package, arch, instead
        self.say = say or sayer('debian')
        self.mirror = mirror(instead)
        self.suites = suites
        self.listed: dict[str, list[str] | None] = {}
        self.failed = False     # to download what a suite has

    def update(self, suite: str) -> bool:
        for folder in (APT / 'parts', APT / 'cache/archives/partial', APT / f'lists/{suite}{self.arch}/partial'):
            folder.mkdir(parents=True, exist_ok=True)
        files.write(APT / f'{suite}.list', f'deb [signed-by={KEYRING}] {self.mirror} {suite} main\n')
        log = APT / f'{suite}-update.log'
        if logged(log, f'reading the package list of {suite}',
                  ['apt-get', *own_apt(suite, self.arch), '-q', 'update'], say=self.say):
            self.say(f'could not read {suite} from {self.mirror} (see {shown(log)})')
            return False
        return True

    def versions(self, suite: str) -> list[str]:
        """Return the versions that the suite has, newest first."""
        listed = output(['apt-cache', *own_apt(suite, self.arch), 'madison', self.package])
        return [line.split('|')[1].strip() for line in listed.splitlines() if line.count('|') == 2]

    def fetch(self, suite: str, version: str) -> Path | None:
        place = APT / 'dl.tmp'
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shown_size = re.search(r'^Size: (\d+)', output(['apt-cache', *own_apt(suite, self.arch), 'show',
                                                         f'{self.package}={version}']), re.M)
        size = f' ({int(shown_size[1]) // 10**6} MB)' if shown_size else ''
        if logged(APT / f'{suite}-download.log', f'downloading {self.package} {version}{size}',
                  ['apt-get', *own_apt(suite, self.arch), '-q', 'download', f'{self.package}={version}'],
                  say=self.say, cwd=place):
            self.failed = True
            return None
        (APT / 'dl').mkdir(exist_ok=True)
        deb, = place.iterdir()
        return deb.rename(APT / 'dl' / deb.name)

    def has(self, suite: str) -> list[str] | None:
        """Return the versions that a suite has, newest first, or None if it cannot be read."""
        if suite not in self.listed:
            self.listed[suite] = self.versions(suite) if self.update(suite) else None
            if self.listed[suite] == []:
                self.say(f'{suite} has no {self.package}')
        return self.listed[suite]

    def exactly(self, version: str) -> Path | None:
        """Download this version from the first suite that has it."""
        return next(filter(None, (self.fetch(suite, version) for suite in self.suites
                                  if version in (self.has(suite) or []))), None)

    def newest(self, but: str = '') -> Path:
        """Download the newest version of the first suite that has any but @but."""
        for suite in self.suites:
            others = [version for version in self.has(suite) or [] if version != but]
            if others:
                self.say(f'taking {self.package} {others[0]} of {suite}')
                deb = self.fetch(suite, others[0])
                if deb:
                    return deb
        if not self.failed and all(versions in ([], [but]) for versions in self.listed.values()):
            raise Failure(f'{" and ".join(self.suites)} have no {"other " if but else ""}{self.package}: '
                          f'choose another release, {self.instead}')
        raise Failure(f'could not download {self.package} from {self.mirror}: check the network, {self.instead}')

    def download(self, pinned: str = '') -> Path:
        """Download the pinned version if any suite has it, or else the newest one of the first suite that has any."""
        deb = self.exactly(pinned) if pinned else None
        if pinned and not deb:
            self.say(f'{self.package} {pinned} is no longer in {" or ".join(self.suites)}')
        return deb or self.newest()


def matching(suite: str, pattern: str, *, instead: str) -> list[Path]:
    """Download all packages of a suite whose names match a regular expression. Return their paths."""
    archive = Archive(pattern, (suite,), instead=instead)
    if not archive.update(suite):
        raise Failure(f'could not read {suite} from {archive.mirror}: check the network, {instead}')
    options = own_apt(suite, '')
    listed = output(['apt-cache', *options, 'search', '--names-only', pattern])
    names = [line.split()[0] for line in listed.splitlines()]
    # A line for each: 'URI' FILE SIZE CHECKSUM
    wanted = re.findall(r"^'\S+' ((\S+?)_\S+) \d+ ", output(['apt-get', *options, 'download', '--print-uris', *names]),
                        re.M)
    missing = [name for file, name in wanted if not (APT / 'dl' / file).exists()]
    (APT / 'dl').mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix='dl-', dir=APT) as place:
        if missing and logged(APT / f'{suite}-download.log', f'downloading {len(missing)} packages of {suite}',
                              ['apt-get', *options, '-q', 'download', *missing], say=archive.say, cwd=place):
            raise Failure(f'could not download {" ".join(missing)} from {archive.mirror}: check the network, {instead}')
        for deb in Path(place).iterdir():
            deb.rename(APT / 'dl' / deb.name)
    return [APT / 'dl' / file for file, _ in wanted]


def newest_deb(package: str, arch: str = '') -> Path | None:
    """Return the newest downloaded version of a package, or None."""
    def order(one: Path, two: Path) -> int:
        older = ['dpkg', '--compare-versions', one.name.split('_')[1], 'lt', two.name.split('_')[1]]
        return -1 if subprocess.run(older, check=False).returncode == 0 else 1
    debs = list((APT / 'dl').glob(f'{package}_*{f"_{arch}" if arch else ""}.deb'))
    return max(debs, key=cmp_to_key(order), default=None)


def unpack(deb: Path, member: str) -> bytes:
    """Extract one file of a package. Delete the package if it is damaged."""
    need('dpkg-deb', 'tar')
    with subprocess.Popen(['dpkg-deb', '--fsys-tarfile', deb], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as source:
        done = subprocess.run(['tar', '-xO', '--wildcards', member], stdin=source.stdout, capture_output=True,
                              check=False)
    if done.returncode or source.returncode or not done.stdout:
        delete_if_damaged(deb)
        raise Failure(f'{deb.name} has no {member}: {first_match(done.stderr.decode(), "error")}')
    return done.stdout


def unpacked(package: str, suites: Sequence[str]) -> Path:
    """Unpack a package, with all that it needs to run, under build/apt/roots. Nothing is installed.

    This gets programs of newer releases than this machine has. See in_root() for how to run them.
    """
    say = sayer('debian')
    with locked(f'unpacked-{package}'):
        have = sorted((APT / 'roots').glob(f'{package}_*'))
        if have:
            return have[-1]
        archive = Archive(package, suites, say=say, instead='or try it later')
        for suite in suites:
            versions = archive.versions(suite) if archive.update(suite) else []
            if versions:
                return unpacked_version(archive, suite, versions[0])
        raise Failure(f'could not find {package} in {" or ".join(suites)} of {archive.mirror}: check the network')


def unpacked_version(archive: Archive, suite: str, version: str) -> Path:
    temp, final = (APT / f'roots/{name}' for name in (f'.{archive.package}.tmp', f'{archive.package}_{version}'))
    shutil.rmtree(temp, ignore_errors=True)
    unpack_all(archive, suite, temp, f'{archive.package}={version}')
    (temp / 'root').rename(final)
    shutil.rmtree(temp)
    return final


def unpack_all(archive: Archive, suite: str, place: Path, *packages: str) -> None:
    """Unpack packages, with all that they need to run, to @place/root. Each one may have =VERSION at its end."""
    (place / 'cache/archives/partial').mkdir(parents=True)
    (place / 'root').mkdir()
    (place / 'status').touch()      # nothing is installed there, so apt gets all that is needed
    if logged(APT / f'{archive.package}-download.log', f'downloading {" ".join(packages)} and what is needed',
              ['apt-get', *own_apt(suite, archive.arch), '-o', f'Dir::State::status={place}/status',
               '-o', f'Dir::Cache={place}/cache', '-o', 'Debug::NoLocking=1', '-q', '-y', '--no-install-recommends',
               '--download-only', 'install', *packages], say=archive.say):
        raise Failure(f'could not download {archive.package} from {archive.mirror}: check the network')
    for deb in sorted((place / 'cache/archives').glob('*.deb')):
        done = subprocess.run(['dpkg-deb', '-x', deb, place / 'root'], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            blame_disk(done.stderr, place)
            delete_if_damaged(deb)
            raise Failure(f'{deb.name} could not be unpacked: {first_match(done.stderr, "error")}')


def in_root(root: Path, program: str) -> list[str]:
    """Return how to run a program of unpacked(): with the loader and the libraries beside it."""
    libraries = [folder for folder in (root / 'usr/lib/x86_64-linux-gnu', root / 'lib/x86_64-linux-gnu')
                 if folder.is_dir()]
    loader = next(path for folder in libraries if (path := folder / 'ld-linux-x86-64.so.2').exists())
    return [str(loader), '--library-path', ':'.join(map(str, libraries)), str(root / program)]


def delete_if_damaged(deb: Path) -> None:
    """After something failed with a package: if its content cannot be read, delete it and raise Failure."""
    with open(deb, 'rb'):
        pass    # what only lacks a permission is not damaged
    if subprocess.run(['dpkg-deb', '--fsys-tarfile', deb], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                      check=False).returncode > 0:
        deb.unlink()
        raise Failure(f'{deb.name} was damaged and has been deleted: run this again')


def busybox() -> Path:
    """Make sure that the only program of an arm64 guest exists. It is shell, tools and modprobe in one."""
    say = sayer('busybox')
    with locked('busybox'):
        if not BUSYBOX.exists():
            deb = newest_deb('busybox-static', 'arm64') or Archive(
                'busybox-static', ('trixie', 'bookworm'), arch='arm64', say=say,
                instead='or use ENGINE=qemu').download()
            # The program moved from /bin to /usr/bin between releases.
            files.write(BUSYBOX, unpack(deb, '*/bin/busybox'), 0o755)
            say(f'{shown(BUSYBOX)} is from {deb.name}')
    return BUSYBOX


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    busybox()
    return 0

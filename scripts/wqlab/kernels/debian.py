# SPDX-License-Identifier: GPL-2.0
"""Download Debian packages without installing them.

apt uses its own lists, cache and sources under build/apt. This needs no root and changes
nothing outside build/. The mirror is the one that this machine's apt uses. Packages stay
in build/apt/dl.
"""
import getpass
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wqlab import files
from wqlab.paths import BUILD
from wqlab.steps import Failure, first_match, locked, logged, need, plain_environment, sayer, shown

say = sayer('debian')
APT = BUILD / 'apt'
KEYRING = Path('/usr/share/keyrings/debian-archive-keyring.gpg')
BUSYBOX = APT / 'busybox-arm64'


def output(command: Sequence) -> str:
    """Return what a command prints, or nothing if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          env=plain_environment())
    return '' if done.returncode else done.stdout


def mirror() -> str:
    """Return the URI of the Debian archive that this machine's apt uses."""
    listed = output(['apt-get', 'indextargets', '--no-release-info', '--format', '$(REPO_URI) $(COMPONENT)',
                     'Created-By: Packages'])
    for line in listed.splitlines():
        uri, component = line.split()
        if component == 'main' and 'debian' in uri and 'security' not in uri:
            return uri
    raise Failure("no Debian mirror in this machine's apt sources: add one")


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

    def __init__(self, package: str, suites: Sequence[str], *, arch: str = '') -> None:
        need('apt-get', 'apt-cache', 'dpkg-deb')
        self.package, self.suites, self.arch, self.mirror = package, suites, arch, mirror()

    def update(self, suite: str) -> list[str]:
        """Read the list of a suite. Return apt's options to use it."""
        for folder in (APT / 'parts', APT / 'cache/archives/partial', APT / f'lists/{suite}{self.arch}/partial'):
            folder.mkdir(parents=True, exist_ok=True)
        files.write(APT / f'{suite}.list', f'deb [signed-by={KEYRING}] {self.mirror} {suite} main\n')
        log, options = APT / f'{suite}-update.log', own_apt(suite, self.arch)
        if logged(log, f'reading the package list of {suite}', ['apt-get', *options, '-q', 'update'], say=say):
            raise Failure(f'could not read {suite} from {self.mirror}: check the network (see {shown(log)})')
        return options

    def newest(self) -> tuple[str, str]:
        """Return the first suite that has the package, and its version there."""
        for suite in self.suites:
            listed = output(['apt-cache', *self.update(suite), 'madison', self.package])
            for line in listed.splitlines():
                return suite, line.split('|')[1].strip()
        raise Failure(f'{" and ".join(self.suites)} of {self.mirror} have no {self.package}')

    def download(self) -> Path:
        suite, version = self.newest()
        return downloaded(suite, own_apt(suite, self.arch), [f'{self.package}={version}'])[0]


def downloaded(suite: str, options: list[str], packages: Sequence[str]) -> list[Path]:
    """Download packages to build/apt/dl. Return their paths."""
    (APT / 'dl').mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix='dl-', dir=APT) as place:
        if logged(APT / f'{suite}-download.log', f'downloading {" ".join(packages[:3])} of {suite}',
                  ['apt-get', *options, '-q', 'download', *packages], say=say, cwd=place):
            raise Failure(f'could not download {packages[0]} of {suite}: check the network')
        return [deb.rename(APT / 'dl' / deb.name) for deb in sorted(Path(place).iterdir())]


def fetched(package: str, suites: Sequence[str], arch: str = '') -> Path:
    """Return the version of a package that was downloaded last. If there is none, download it."""
    have = (APT / 'dl').glob(f'{package}_*{f"_{arch}" if arch else ""}.deb')
    found = max(have, key=lambda deb: deb.stat().st_mtime, default=None)
    return found or Archive(package, suites, arch=arch).download()


def unpack(deb: Path, member: str) -> bytes:
    """Extract one file of a package."""
    need('dpkg-deb', 'tar')
    with subprocess.Popen(['dpkg-deb', '--fsys-tarfile', deb], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as source:
        done = subprocess.run(['tar', '-xO', '--wildcards', member], stdin=source.stdout, capture_output=True,
                              check=False)
    if done.returncode or source.returncode or not done.stdout:
        raise Failure(f'{deb} has no {member}, or is damaged: delete it, and run this again')
    return done.stdout


def unpack_all(archive: Archive, suite: str, place: Path, *packages: str) -> None:
    """Unpack packages, with all that they need to run, to @place/root. Each one may have =VERSION at its end."""
    (place / 'cache/archives/partial').mkdir(parents=True)
    (place / 'root').mkdir()
    (place / 'status').touch()      # nothing is installed there, so apt gets all that is needed
    if logged(APT / f'{archive.package}-download.log', f'downloading {" ".join(packages)} and what is needed',
              ['apt-get', *own_apt(suite, archive.arch), '-o', f'Dir::State::status={place}/status',
               '-o', f'Dir::Cache={place}/cache', '-o', 'Debug::NoLocking=1', '-q', '-y', '--no-install-recommends',
               '--download-only', 'install', *packages], say=say):
        raise Failure(f'could not download {archive.package} from {archive.mirror}: check the network')
    for deb in sorted((place / 'cache/archives').glob('*.deb')):
        done = subprocess.run(['dpkg-deb', '-x', deb, place / 'root'], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Failure(f'{deb.name} could not be unpacked: {first_match(done.stderr, "error")}')


def busybox() -> Path:
    """Make sure that the only program of an arm64 guest exists. It is shell, tools and modprobe in one."""
    with locked('busybox'):
        if not BUSYBOX.exists():
            deb = fetched('busybox-static', ('trixie', 'bookworm'), 'arm64')
            # The program moved from /bin to /usr/bin between releases.
            files.write(BUSYBOX, unpack(deb, '*/bin/busybox'), 0o755)
            say(f'{shown(BUSYBOX)} is from {deb.name}')
    return BUSYBOX

# SPDX-License-Identifier: GPL-2.0
"""Make a Debian package of the benchmark and torture modules. DKMS builds them for each kernel from 6.5 on.

usage: [SOURCE_DATE_EPOCH=SECONDS] scripts/lab dkms

The result is build/dkms/workqueue-test-dkms_VERSION_all.deb. It replaces older ones there.
`apt install ./build/dkms/*.deb` installs it and builds the modules for the kernels whose
headers are installed.

VERSION is the release, and the time and the hash of the last commit, then ".changed" if files of the package
differ from it. The files in the package have the time SOURCE_DATE_EPOCH, or that of the
commit. So the same commit always gives the same bytes.
"""
import argparse
import dataclasses
import datetime
import email.utils
import gzip
import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

from wqlab import files, release
from wqlab.kernels import module
from wqlab.paths import BUILD, ROOT
from wqlab.series.write import git_output
from wqlab.steps import Failure, first_match, locked, need, plain_environment, sayer, shown

say = sayer('dkms')
NAME = 'workqueue-test'
PACKAGE = f'{NAME}-dkms'
PLACE = BUILD / 'dkms'
HERE = Path(__file__).resolve().parent
DOCUMENTS = [ROOT / f'Documentation/core-api/workqueue-{name}.rst' for name in ('benchmark', 'torture')]
CHANGES = '''{PACKAGE} ({VERSION}) unstable; urgency=medium

  * Made from commit {COMMIT}.

 -- {MAINTAINER}  {DATE}
'''
Contents = dict[str, tuple[bytes, int]]     # place in the package -> content, mode


@dataclasses.dataclass(frozen=True)
class Origin:
    """The commit that the package is made from."""
    commit: str
    seconds: int
    maintainer: str
    changed: bool
    release: str

    @property
    def version(self) -> str:
        time = datetime.datetime.fromtimestamp(self.seconds, datetime.UTC)
        return f'{self.release}.{time:%Y%m%d.%H%M%S}.g{self.commit[:12]}' + ('.changed' if self.changed else '')


def origin() -> Origin:
    said = git_output(ROOT, 'log', '-1', '--format=%H%n%ct%n%an <%ae>').splitlines() if (ROOT / '.git').exists() else []
    if len(said) != 3:
        raise Failure('this is no git repository, so there is no commit from which the package gets its version: '
                      'make it in a clone')
    given = [*module.SOURCES, *(str(path.relative_to(ROOT)) for path in (HERE, *DOCUMENTS)), release.NAME]
    changes = git_output(ROOT, 'status', '--porcelain', '--', *given)
    return Origin(said[0], int(said[1]), said[2], bool(changes), release.release())


def epoch(source: Origin) -> int:
    """The time that all files of the package have."""
    given = os.environ.get('SOURCE_DATE_EPOCH', '')
    if given and not re.fullmatch(r'[0-9]{1,11}', given):
        raise Failure(f'SOURCE_DATE_EPOCH={given} is not a number of seconds since 1970')
    return int(given or source.seconds)


def filled(text: str, values: dict[str, str]) -> bytes:
    return re.sub(r'@([A-Z]+)@', lambda match: values[match[1]], text).encode()


def payload(values: dict[str, str]) -> Contents:
    """Return the files that the package installs."""
    source, documents = f'usr/src/{NAME}-{values["VERSION"]}', f'usr/share/doc/{PACKAGE}'
    contents = {f'{source}/{path.name}': (path.read_bytes(), 0o644) for path in module.sources()}
    contents |= {f'{documents}/{path.name}': (path.read_bytes(), 0o644) for path in DOCUMENTS}
    for place, name in ((source, 'dkms.conf'), (documents, 'copyright')):
        contents[f'{place}/{name}'] = filled((HERE / name).read_text(), values), 0o644
    changes = gzip.compress(CHANGES.format(**values).encode(), 9, mtime=0)
    return {**contents, f'{documents}/changelog.gz': (changes, 0o644)}


def control(contents: Contents, values: dict[str, str]) -> Contents:
    """Return the files that tell dpkg about the others."""
    sums = ''.join(f'{hashlib.md5(content).hexdigest()}  {place}\n' for place, (content, _) in sorted(contents.items()))
    size = sum(-(-len(content) // 1024) for content, _ in contents.values())
    values = {**values, 'SIZE': str(size)}
    scripts = {f'DEBIAN/{name}': (filled((HERE / name).read_text(), values), mode)
               for name, mode in (('control', 0o644), ('postinst', 0o755), ('prerm', 0o755))}
    return {**scripts, 'DEBIAN/md5sums': (sums.encode(), 0o644)}


def lay(root: Path, contents: Contents, seconds: int) -> None:
    """Write the files. Neither umask nor clock has an effect on them."""
    for place, (content, mode) in contents.items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    for path in [root, *root.rglob('*')]:
        if path.is_dir():
            path.chmod(0o755)
    for path in sorted([root, *root.rglob('*')], reverse=True):
        os.utime(path, (seconds, seconds))


def pack(root: Path, path: Path, seconds: int) -> None:
    # Two threads compress a large file otherwise than one does.
    done = subprocess.run(['dpkg-deb', '--root-owner-group', '-Zxz', '--build', root, path], capture_output=True,
                          text=True, check=False,
                          env=plain_environment(SOURCE_DATE_EPOCH=str(seconds), DPKG_DEB_THREADS_MAX='1'))
    if done.returncode:
        raise Failure(f'dpkg-deb failed: {first_match(done.stderr, "error")}')


def write() -> Path:
    """Make the package. Return its path."""
    need('dpkg-deb', 'git')
    source = origin()
    seconds = epoch(source)
    values = {'NAME': NAME, 'PACKAGE': PACKAGE, 'VERSION': source.version, 'MAINTAINER': source.maintainer,
              'COMMIT': source.commit, 'DATE': email.utils.formatdate(seconds)}
    contents = payload(values)
    path = PLACE / f'{PACKAGE}_{source.version}_all.deb'
    with locked('dkms'), tempfile.TemporaryDirectory(prefix='.dkms-', dir=BUILD) as temp:
        lay(Path(temp) / 'root', {**contents, **control(contents, values)}, seconds)
        with files.replacing(path) as new:
            pack(Path(temp) / 'root', new, seconds)
        for old in PLACE.glob(f'{PACKAGE}_*.deb'):
            if old != path:
                old.unlink()
    return path


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    say(f'{shown(write())}: install it by apt')
    return 0

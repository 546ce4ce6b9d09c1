# SPDX-License-Identifier: GPL-2.0
"""Make a Debian package of the benchmark and torture modules. DKMS builds them for each kernel from 6.5 on.

usage: scripts/lab dkms

The result is build/dkms/workqueue-test-dkms_VERSION_all.deb. It replaces older ones there.
`apt install ./build/dkms/*.deb` installs it and builds the modules for the kernels whose
headers are installed.

VERSION is the release, and the time and the hash of the last commit, then ".changed" if files of the package
differ from it. The same commit always gives the same bytes.
"""
import argparse
import datetime
import email.utils
import re
import shutil
import tempfile
from pathlib import Path

from wqlab import files, release
from wqlab.kernels import module
from wqlab.paths import BUILD, ROOT
from wqlab.series.write import git_output
from wqlab.steps import Failure, locked, logged, need, plain_environment, sayer, shown

say = sayer('dkms')
NAME = 'workqueue-test'
PLACE = BUILD / 'dkms'
HERE = 'scripts/wqlab/dkms'
DOCUMENTS = [f'Documentation/core-api/workqueue-{name}.rst' for name in ('benchmark', 'torture')]


def origin() -> dict[str, str]:
    """Return what the package says of the commit that it is made from."""
    said = git_output(ROOT, 'log', '-1', '--format=%H%n%ct%n%an <%ae>').splitlines() if (ROOT / '.git').exists() else []
    if len(said) != 3:
        raise Failure('this is no git repository, so there is no commit from which the package gets its version: '
                      'make it in a clone')
    commit, seconds, maintainer = said
    given = [*module.SOURCES, HERE, *DOCUMENTS, release.NAME]
    changed = '.changed' if git_output(ROOT, 'status', '--porcelain', '--', *given) else ''
    time = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
    return {'COMMIT': commit, 'MAINTAINER': maintainer, 'SECONDS': seconds,
            'DATE': email.utils.formatdate(int(seconds)),
            'VERSION': f'{release.release()}.{time:%Y%m%d.%H%M%S}.g{commit[:12]}{changed}'}


def lay(folder: Path, values: dict[str, str]) -> None:
    """Write the source package."""
    for name, paths in (('src', module.sources()), ('doc', DOCUMENTS), ('debian', (ROOT / HERE / 'debian').iterdir())):
        (folder / name).mkdir(parents=True)
        for path in paths:
            shutil.copy(ROOT / path, folder / name)
    for path in (folder / 'debian').iterdir():
        path.write_text(re.sub(r'@([A-Z]+)@', lambda match: values[match[1]], path.read_text()))


def write() -> Path:
    """Make the package. Return its path."""
    need('git', 'dpkg-buildpackage', 'dh', 'dh_dkms')
    source = origin()
    with locked('dkms'), tempfile.TemporaryDirectory(prefix='.dkms-', dir=BUILD) as temp:
        lay(Path(temp) / 'source', source)
        # The umask reaches modes in the package, and two threads compress otherwise than one does.
        if logged(BUILD / 'log/dkms.log', f'packing {NAME} {source["VERSION"]}',
                  ['sh', '-c', 'umask 022; exec dpkg-buildpackage -b -us -uc'], say=say, cwd=Path(temp) / 'source',
                  env=plain_environment(SOURCE_DATE_EPOCH=source['SECONDS'], DPKG_DEB_THREADS_MAX='1')):
            raise Failure('dpkg-buildpackage failed: see build/log/dkms.log')
        deb, = Path(temp).glob('*.deb')
        shutil.rmtree(PLACE, ignore_errors=True)
        files.write(PLACE / deb.name, deb.read_bytes())
    return PLACE / deb.name


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    say(f'{shown(write())}: install it by apt')
    return 0

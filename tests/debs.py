# SPDX-License-Identifier: GPL-2.0
"""Packages of Debian that only tests use. None is installed."""
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from wqlab.kernels import debian
from wqlab.steps import locked


def matching(suite: str, pattern: str) -> list[Path]:
    """Download all packages of a suite whose names match a regular expression. Return their paths."""
    options = debian.Archive(pattern, (suite,)).update(suite)
    listed = debian.output(['apt-cache', *options, 'search', '--names-only', pattern])
    names = [line.split()[0] for line in listed.splitlines()]
    # A line for each: 'URI' FILE SIZE CHECKSUM
    listed = debian.output(['apt-get', *options, 'download', '--print-uris', *names])
    wanted = re.findall(r"^'\S+' ((\S+?)_\S+) \d+ ", listed, re.M)
    missing = [name for file, name in wanted if not (debian.APT / 'dl' / file).exists()]
    if missing:
        debian.downloaded(suite, options, missing)
    return [debian.APT / 'dl' / file for file, _ in wanted]


def unpacked(package: str, suites: Sequence[str]) -> Path:
    """Unpack a package, with all that it needs to run, under build/apt/roots. Nothing is installed.

    This gets programs of newer releases than this machine has. See in_root() for how to run them.
    """
    with locked(f'unpacked-{package}'):
        have = sorted((debian.APT / 'roots').glob(f'{package}_*'))
        if have:
            return have[-1]
        archive = debian.Archive(package, suites)
        suite, version = archive.newest()
        temp, final = (debian.APT / f'roots/{name}' for name in (f'.{package}.tmp', f'{package}_{version}'))
        shutil.rmtree(temp, ignore_errors=True)
        debian.unpack_all(archive, suite, temp, f'{package}={version}')
        (temp / 'root').rename(final)
        shutil.rmtree(temp)
        return final


def in_root(root: Path, program: str) -> list[str]:
    """Return how to run a program of unpacked(): with the loader and the libraries beside it."""
    libraries = [folder for folder in (root / 'usr/lib/x86_64-linux-gnu', root / 'lib/x86_64-linux-gnu')
                 if folder.is_dir()]
    loader = next(path for folder in libraries if (path := folder / 'ld-linux-x86-64.so.2').exists())
    return [str(loader), '--library-path', ':'.join(map(str, libraries)), str(root / program)]

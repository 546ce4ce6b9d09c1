# SPDX-License-Identifier: GPL-2.0
"""Build the benchmark modules for a kernel 6.5 or later, and the torture test for 6.12 or later.

usage: KDIR=DIR scripts/lab module

KDIR is a kernel's build folder; the default is that of the running kernel. The results are
test_workqueue.ko, wq_probe.ko and wqtorture.ko in build/module-<kernel release>/.
"""
import argparse
import os
import platform
import re
import sys
from pathlib import Path

from wqlab import files
from wqlab.kernels.build import ERRORS, options, release_of
from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure, locked, logged, need, sayer, shown, using

say = sayer('module')
OLDEST, OLDEST_TORTURE = (6, 5), (6, 12)
SOURCES = ('lib/test_workqueue.c', *(f'lib/cmwq/{name}' for name in (
    'Kbuild', 'wqbench*.[ch]', 'wq_probe.c', 'wqtorture*.[ch]', 'wq_hist.h', 'wq_compat.h', 'wq_tally.h',
    'wq_ticker.h')))


def sources() -> list[Path]:
    """The files that the modules are built from, without the kernel's own tree."""
    return sorted(path for pattern in SOURCES for path in ROOT.glob(pattern))


def modules_for(version: tuple[int, int]) -> list[str]:
    """The modules that lib/cmwq/Kbuild builds for a kernel of this version."""
    return ['test_workqueue', 'wq_probe', *(['wqtorture'] if version >= OLDEST_TORTURE else [])]


def kernel_folder(given: str) -> Path:
    """Return the build folder if modules can be built against it. Raise Failure if not."""
    folder = Path(given).resolve()
    if not folder.is_dir():
        raise Failure(f"KDIR={given} is not a directory: name a kernel's build folder")
    if not (folder / 'include/config/kernel.release').is_file() or not (folder / '.config').is_file():
        raise Failure(f"KDIR={given} is not configured and built: run 'make' or at least 'make modules_prepare' there")
    if not (folder / 'Module.symvers').is_file():
        raise Failure(f'KDIR={given} has no Module.symvers: build that kernel first')
    if version_of(folder) < OLDEST:
        raise Failure(f'KDIR={given} is Linux {release_of(folder)}: affinity scopes need 6.5 or later')
    if options(folder / '.config').get('CONFIG_MODULES') != 'y':
        raise Failure(f'KDIR={given} was configured without CONFIG_MODULES: enable it and build that kernel')
    return folder


def version_of(folder: Path) -> tuple[int, int]:
    match = re.match(r'(\d+)\.(\d+)', release_of(folder))
    if not match:
        raise Failure(f'{folder}/include/config/kernel.release does not contain a release: {release_of(folder)!r}')
    return int(match[1]), int(match[2])


def copy_sources(place: Path) -> None:
    """Copy what differs. Delete what is no longer there, since lib/cmwq/Kbuild builds each file that it finds."""
    given = {path.name: path.read_bytes() for path in sources()}
    for old in [*place.glob('wq*.c'), *place.glob('wq*.h')]:
        if old.name not in given and not old.name.endswith('.mod.c'):
            old.unlink()
    for name, content in given.items():
        copy = place / name
        if not copy.exists() or copy.read_bytes() != content:
            files.write(copy, content)


def build(folder: Path) -> list[Path]:
    release = release_of(folder)
    place, log = BUILD / f'module-{release}', BUILD / f'log/module-{release}.log'
    modules = modules_for(version_of(folder))
    need('make', 'gcc')
    with locked(place.name), using(folder):
        place.mkdir(parents=True, exist_ok=True)
        copy_sources(place)
        # A kernel finds out its own architecture, but for UML.
        arch = ['ARCH=um'] if options(folder / '.config').get('CONFIG_UML') == 'y' else []
        if logged(log, f'building {" ".join(modules)} for {release}',
                  ['make', '-C', folder, f'M={place}', *arch, 'modules'], say=say):
            lines = log.read_text(errors='replace').splitlines()
            print('\n'.join([line for line in lines if ERRORS.search(line)][:10]), file=sys.stderr)
            raise Failure(f'the modules do not build against {release}: see {shown(log)}')
    return [place / f'{module}.ko' for module in modules]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    given = os.environ.get('KDIR') or f'/lib/modules/{platform.release()}/build'
    for path in build(kernel_folder(given)):
        say(shown(path))
    return 0

# SPDX-License-Identifier: GPL-2.0
"""Find the places where our patches do not fit a kernel tree: the first look at a new base.

usage: [LINUX=RELEASE] scripts/lab hooks [TREE]

TREE is a pristine kernel tree of any release, LINUX= the base whose patches are tried on it.
Without TREE it is build/linux-$LINUX. Nothing is changed. There is one line for each hunk of
patches/$LINUX/ that does not apply. The exit status is 0 if there is none, and 1 otherwise.
"""
import argparse
import re
import subprocess
from pathlib import Path

from wqlab.kernels import base, tree
from wqlab.kernels.kinds import asked_linux
from wqlab.paths import BUILD
from wqlab.steps import Failure, need, plain_environment, sayer, shown

say = sayer('hooks')
# With fuzz, the context has changed, and the hunk may land in the wrong place.
UNFIT = re.compile(r'Hunk #\d+ (FAILED|.* with fuzz)')
GONE = re.compile(r'\|\+\+\+ b/(\S+)')


def tried(patch: Path, where: Path) -> list[str]:
    """Return what patch says of each hunk that does not apply, or applies only with fuzz."""
    done = subprocess.run(['patch', '--dry-run', '-p1', '-f', '-d', where, '-r', '-', '-i', patch], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=plain_environment())
    found, file = [], ''
    for line in done.stdout.splitlines():
        file = line.removeprefix('checking file ') if line.startswith('checking file ') else file
        if UNFIT.match(line):
            found.append(f'{shown(patch)}: {file}: {line}')
        elif gone := GONE.match(line):
            found.append(f'{shown(patch)}: {gone[1]} does not exist')
    return found


def pristine(given: str, linux: str) -> Path:
    folder = Path(given).resolve() if given else BUILD / f'linux-{linux}'
    if not base.version_of(folder) or not (folder / 'include/linux/workqueue.h').is_file():
        raise Failure(f'{given or shown(folder)} is not a kernel tree: name one, or run LINUX={linux} scripts/lab base')
    if (folder / '.cmwq-overlay').exists() or (folder / 'kernel/workqueue').exists():
        raise Failure(f'{shown(folder)} has our files in it: name a pristine tree')
    return folder


def check(linux: str, given: str = '') -> list[str]:
    """Return a line for each thing that does not fit."""
    need('patch')
    where = pristine(given, linux)
    return [line for patch in tree.patches(linux) for line in tried(patch, where)]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tree', nargs='?', default='', metavar='TREE', help='a pristine kernel tree')
    given, linux = parser.parse_args(argv).tree, asked_linux()
    found = check(linux, given)
    print(''.join(f'{line}\n' for line in found), end='')
    where = pristine(given, linux)
    say(f'{shown(where)} is Linux {base.version_of(where)}: patches/{linux} '
        + (f'need work in {len(found)} places' if found else 'fit'))
    return 1 if found else 0

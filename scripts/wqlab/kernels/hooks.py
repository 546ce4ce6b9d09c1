# SPDX-License-Identifier: GPL-2.0
"""Find the places where our patches do not fit a kernel tree: the first look at a new base.

usage: [LINUX=RELEASE] scripts/lab hooks [TREE]

TREE is a pristine kernel tree of any release, LINUX= the base whose patches are tried on it.
Without TREE it is build/linux-$LINUX. Nothing is changed. There is one line for each part of
patches/$LINUX/ that does not apply. The exit status is 0 if there is none, and 1 otherwise.
"""
import argparse
import dataclasses
import re
import subprocess
from pathlib import Path

from wqlab.kernels import base, tree
from wqlab.kernels.kinds import asked_linux
from wqlab.paths import BUILD
from wqlab.steps import Failure, need, plain_environment, sayer, shown

say = sayer('hooks')
PUBLIC = 'include/linux/workqueue.h'


def read(path: Path) -> str:
    return path.read_text(errors='replace')


@dataclasses.dataclass(frozen=True)
class Part:
    """What a patch does to one file."""
    patch: Path
    file: str
    text: str


def parts(patch: Path) -> list[Part]:
    body = re.split(r'^---$', read(patch), maxsplit=1, flags=re.M)[-1]
    found = re.split(r'^(?=--- )', body, flags=re.M)[1:]
    return [Part(patch, re.findall(r'^\+\+\+ b/(\S+)', text, re.M)[0], text) for text in found]


def hunk_at(part: Part, number: int) -> str:
    """Return what a hunk changes: the first line that it removes, or else the one before what it adds."""
    lines = re.split(r'^@@ .*\n', part.text, flags=re.M)[number].splitlines()
    first = next(index for index, line in enumerate(lines) if line[:1] in '+-')
    at = next((line for line in lines if line.startswith('-')), lines[max(first - 1, 0)])
    return at[1:].strip()


def tried(part: Part, where: Path) -> list[str]:
    """Return a line for each hunk that does not apply, or applies only with fuzz: then its context has changed."""
    if not (where / part.file).is_file():
        return [f'{part.file} does not exist']
    done = subprocess.run(['patch', '--dry-run', '-p1', '-f', '-d', where, '-r', '-'], input=part.text,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env=plain_environment())
    said = done.stdout
    found = [(number, line, 'does not fit') for number, line in re.findall(r'^Hunk #(\d+) FAILED at (\d+)', said, re.M)]
    found += [(number, line, 'may land in the wrong place') for number, line in
              re.findall(r'^Hunk #(\d+) succeeded at (\d+) with fuzz', said, re.M)]
    if done.returncode and not found:
        return [f'{part.file}: {(said.splitlines() or ["patch failed"])[-1]}']
    return [f'{part.file}:{line}: hunk {number} {how}, at "{hunk_at(part, int(number))}"'
            for number, line, how in found]


def pristine(given: str, linux: str) -> Path:
    folder = Path(given).resolve() if given else BUILD / f'linux-{linux}'
    if not base.version_of(folder) or not (folder / PUBLIC).is_file():
        raise Failure(f'{given or shown(folder)} is not a kernel tree: name one, or run LINUX={linux} scripts/lab base')
    if (folder / '.cmwq-overlay').exists() or (folder / 'kernel/workqueue').exists():
        raise Failure(f'{shown(folder)} has our files in it: name a pristine tree')
    return folder


def check(linux: str, given: str = '') -> list[str]:
    """Return a line for each thing that does not fit."""
    need('patch')
    where = pristine(given, linux)
    return [f'{shown(part.patch)}: {wrong}' for patch in tree.patches(linux) for part in parts(patch)
            for wrong in tried(part, where)]


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

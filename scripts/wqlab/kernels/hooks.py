# SPDX-License-Identifier: GPL-2.0
"""Find the places where a kernel tree does not fit our hooks: the first look at a new base.

usage: [LINUX=7.3] scripts/lab hooks [TREE]

TREE is a pristine kernel tree of any release, LINUX= the base whose patches are tried on it.
Without TREE it is build/linux-$LINUX. Nothing is changed. For each place that needs work there
is one line:
  - parts of patches/$LINUX/ that do not apply
  - names of our sources that the headers of TREE lack, in comparison with Linux 7.3
  - names of TREE's <linux/workqueue.h> that are not in ours, with their number of users
  - functions that our headers declare for the rest of the kernel, but that nothing in TREE calls
The exit status is 0 if there is none, and 1 otherwise.
"""
import argparse
import dataclasses
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from wqlab.kernels import base, tree
from wqlab.kernels.kinds import LINUX, asked_linux
from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure, need, plain_environment, sayer, shown

say = sayer('hooks')
PUBLIC = 'include/linux/workqueue.h'
OLD_CALLERS = 'kernel/workqueue/old_callers.c'
WORD = r'[A-Za-z_]\w{2,}'
REST = re.compile(r'The rest of the kernel =')       # from here on, our header declares what only the kernel calls
CODE = ('include', 'kernel', 'lib', 'mm', 'fs', 'block', 'drivers', 'net', 'sound', 'arch', 'crypto', 'security',
        'init', 'io_uring', 'virt', 'rust')


def bare(text: str) -> str:
    """C code without comments and strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', ' ', text, flags=re.S)


def read(path: Path) -> str:
    return path.read_text(errors='replace')


def grep(words: Iterable[str], where: Path, places: Iterable[str], *options: str) -> list[str]:
    """Return what grep prints for these words in the files below @places that exist."""
    there = [place for place in places if (where / place).exists()]
    done = subprocess.run(['grep', '-rwF', '--include=*.[ch]', '--include=*.rs', *options, '-f', '-', *there],
                          input='\n'.join(words), cwd=where, capture_output=True, text=True, check=False,
                          env=plain_environment())
    return done.stdout.splitlines()


# Patches

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


def check_patches(linux: str, where: Path) -> list[str]:
    return [f'{shown(part.patch)}: {wrong}' for patch in tree.patches(linux) for part in parts(patch)
            for wrong in tried(part, where)]


# Names

def our_sources() -> list[Path]:
    """Our files that are built in the kernel's tree."""
    return [ROOT / name for name, _ in tree.our_files() if name.endswith(('.c', '.h'))]


def used_names(text: str) -> set[str]:
    """Return the names that are called like functions, except those that are defined here or that an #ifdef tests."""
    called = set(re.findall(rf'\b({WORD})\s*\(', text))
    made = set(re.findall(rf'^#\s*define\s+({WORD})', text, re.M))
    made |= set(re.findall(rf'^[A-Za-z_][\w \t*]*?\b({WORD})\s*\(', text, re.M))
    asked = set(re.findall(rf'defined\s*\(?\s*({WORD})|^#\s*ifn?def\s+({WORD})', text, re.M))
    return called - made - {name for pair in asked for name in pair}


def headers(where: Path) -> list[str]:
    return ['include', *sorted(f'arch/{arch}/include' for arch in ('x86', 'um', 'arm64')
                               if (where / f'arch/{arch}/include').is_dir())]


def known(names: Iterable[str], where: Path) -> set[str]:
    """Return those of the names that the headers of a tree contain."""
    return set(grep(names, where, headers(where), '-oh'))


def check_names(where: Path, model: Path) -> list[str]:
    """Compare with a tree that has all names. Those that a header of ours defines are not missing."""
    texts = {path: bare(read(path)) for path in our_sources()}
    names = used_names('\n'.join(texts.values()))
    missing = known(names, model) - known(names, where)

    def users(name: str) -> str:
        has = re.compile(rf'\b{name}\b')
        return ', '.join(sorted(shown(path) for path, text in texts.items() if has.search(text)))
    return [f'{users(name)}: the headers lack {name}' for name in sorted(missing)]


def declared(text: str) -> set[str]:
    """Return the functions, variables and macros of a header that its users may name."""
    text = bare(text)
    found = set(re.findall(rf'^#\s*define\s+({WORD})', text, re.M))
    found |= set(re.findall(rf'^(?=\w)(?:[\w \t*]|__printf\([^)]*\))*?\b({WORD})\s*\([^;{{]*[;{{]', text, re.M))
    found |= set(re.findall(rf'^extern\s[^;(]*?\b({WORD});', text, re.M))
    found |= set(re.findall(r'^\t(_*WQ_\w+)\s*=', text, re.M))
    return {name for name in found if not name.startswith(('_LINUX', '__printf'))}


def check_callers(where: Path, linux: str) -> list[str]:
    """Names of the tree's header that neither our header nor the patches of the base have."""
    ours = read(ROOT / PUBLIC) + ''.join(map(read, tree.patches(linux)))
    missing = sorted(name for name in declared(read(where / PUBLIC)) if not re.search(rf'\b{name}\b', ours))
    if not missing:
        return []
    uses = Counter(line.rpartition(':')[2] for line in grep(missing, where, CODE, '-o')
                   if not line.startswith((PUBLIC, 'kernel/workqueue.c')))
    return [f'{PUBLIC}: ours lacks {name}, which the tree uses in {uses[name]} places' for name in missing]


def check_calls(where: Path, linux: str) -> list[str]:
    """Functions for the rest of the kernel that nobody calls. If the patches build compat.c, it counts."""
    header = read(ROOT / PUBLIC)
    ours = declared(header[REST.search(header).start():]) | set(  # type: ignore[union-attr]
        re.findall(r'\b(wq_worker_\w+)\(', bare(read(ROOT / 'kernel/workqueue_internal.h'))))
    lines = grep(ours, where, ('include', 'init', 'kernel', 'fs', 'arch', 'drivers'), '-o')
    called = {line.rpartition(':')[2] for line in lines
              if not line.startswith((PUBLIC, 'kernel/workqueue.c', 'kernel/workqueue_internal.h'))}
    if any('WORKQUEUE_OLD_CALLERS' in read(patch) for patch in tree.patches(linux)):
        called |= set(re.findall(WORD, bare(read(ROOT / OLD_CALLERS))))
    return [f'nobody calls {name}()' for name in sorted(ours - called)]


def pristine(given: str, linux: str) -> Path:
    folder = Path(given).resolve() if given else BUILD / f'linux-{linux}'
    if not base.version_of(folder) or not (folder / PUBLIC).is_file():
        raise Failure(f'{given or shown(folder)} is not a kernel tree: name one, or run LINUX={linux} scripts/lab base')
    if (folder / '.cmwq-overlay').exists() or (folder / 'kernel/workqueue').exists():
        raise Failure(f'{shown(folder)} has our files in it: name a pristine tree')
    return folder


def check(linux: str, given: str = '') -> list[str]:
    """Return a line for each thing that does not fit."""
    need('patch', 'grep')
    where, model = pristine(given, linux), BUILD / f'linux-{LINUX}'
    found = check_patches(linux, where)
    if where != model:
        if not base.version_of(model):
            raise Failure(f'there is no {shown(model)} to compare with: run scripts/lab base first')
        found += check_names(where, model)
    return found + check_callers(where, linux) + check_calls(where, linux)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tree', nargs='?', default='', metavar='TREE', help='a pristine kernel tree')
    given, linux = parser.parse_args(argv).tree, asked_linux()
    found = check(linux, given)
    print(''.join(f'{line}\n' for line in found), end='')
    where = pristine(given, linux)
    say(f'{shown(where)} is Linux {base.version_of(where)}: patches/{linux} and our sources '
        + (f'need work in {len(found)} places' if found else 'fit'))
    return 1 if found else 0

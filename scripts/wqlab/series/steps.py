# SPDX-License-Identifier: GPL-2.0
"""The steps of the series, in their order: which files each one adds, and why.

Each file in steps/ is a step. It begins with these lines, of which it has at least one:

    files: PATTERN...       our files that it adds, by their places in the tree
    patches: PATTERN        files of patches/<base>/ that it applies; * is each one that no
                            other step names
    maintainers:            it adds the entry to MAINTAINERS

After an empty line follows the message of the commit. A step with patches has none: each patch
has its own message, and is a commit of its own. The first one also adds the files. A step of
which no file and no patch exists is left out.
"""
import dataclasses
import re
from fnmatch import fnmatchcase
from pathlib import Path

from wqlab.steps import Failure, shown

FOLDER = Path(__file__).parent / 'steps'
HEAD = re.compile(r'(files|patches|maintainers):(.*)')


@dataclasses.dataclass
class Step:
    path: Path
    files: list[str]
    patches: list[str]
    maintainers: bool
    message: str

    @property
    def name(self) -> str:
        return shown(self.path)


def read(path: Path) -> Step:
    head, _, message = path.read_text().partition('\n\n')
    found: dict[str, list[str]] = {}
    for line in head.splitlines():
        match = HEAD.fullmatch(line)
        if not match:
            raise Failure(f'{shown(path)}: this line should begin with files:, patches: or maintainers:: {line}')
        found[match[1]] = match[2].split()
    step = Step(path, found.get('files', []), found.get('patches', []), 'maintainers' in found, message)
    if bool(step.patches) == bool(message.strip()):
        raise Failure(f'{step.name}: give either patches: or a message')
    return step


def all_steps(folder: Path = FOLDER) -> list[Step]:
    return [read(path) for path in sorted(folder.glob('*.txt'))]


def is_pattern(word: str) -> bool:
    return any(letter in word for letter in '*?[')


def files_of(steps: list[Step], places: list[str]) -> list[list[str]]:
    """Return for each step those of @places that it adds. Each place must be in exactly one step."""
    taken: dict[str, Step] = {}
    added: list[list[str]] = []
    for step in steps:
        mine: list[str] = []
        for pattern in step.files:
            match = [place for place in places if fnmatchcase(place, pattern)]
            if not match and not is_pattern(pattern):
                raise Failure(f'{step.name} names {pattern}, which does not exist')
            mine += [place for place in match if place not in mine]
        for place in mine:
            if place in taken:
                raise Failure(f'{place} is in two patches of the series: {taken[place].name} and {step.name}')
            taken[place] = step
        added.append(sorted(mine))
    for place in places:
        if place not in taken:
            raise Failure(f'{place} is in no patch of the series: name it in a file of {shown(steps[0].path.parent)}')
    return added


def patches_of(steps: list[Step], patches: list[Path]) -> list[list[Path]]:
    """Return for each step those of @patches that it applies. Each patch must be in exactly one step."""
    named: dict[Path, Step] = {}
    for step in steps:
        for patch in patches:
            if any(pattern != '*' and fnmatchcase(patch.name, pattern) for pattern in step.patches):
                if patch in named:
                    raise Failure(f'{shown(patch)} is in two steps: {named[patch].name} and {step.name}')
                named[patch] = step
    return [[patch for patch in patches if named.get(patch) is step or ('*' in step.patches and patch not in named)]
            for step in steps]

# SPDX-License-Identifier: GPL-2.0
"""Compose build/tree-$LINUX: a copy of the base tree with the files and patches of this project.

usage: [LINUX=RELEASE] [KERNEL_SRC=DIR] scripts/lab tree

Most files are hard links to the base tree. Files that patches/$LINUX/ change are real
files. Our files are symbolic links into the repository, so that the next build sees an
edit; but headers are copies, since a package of them takes links as they are. A second
run changes only what differs.
"""
import argparse
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from wqlab import files
from wqlab.kernels import base
from wqlab.kernels.kinds import LINUX, asked_linux, one_of, tested
from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure, locked, need, sayer, shown

say = sayer('tree')
MANIFEST = '.cmwq-overlay'     # lists the files that are not those of the base tree
FILES = ('kernel/workqueue_internal.h', 'kernel/workqueue/*', 'include/linux/*.h', 'Kconfig.debug', 'lib/*.c',
         'lib/cmwq/*.c', 'lib/cmwq/*.h', 'lib/cmwq/Makefile', 'tools/workqueue/**/*.py', 'tools/workqueue/**/*.rst',
         'Documentation/core-api/*')
# A file lies in the tree where it lies here, unless the base has the name: how ours begins there.
TAKEN = {'Kconfig.debug': 'lib/cmwq/Kconfig.debug',
         r'Documentation/core-api/workqueue(?=\S*\.rst)': 'Documentation/core-api/workqueue-cmwq',
         'include/linux/': 'include/linux/cmwq/',
         'kernel/workqueue_': 'kernel/workqueue/workqueue_',
         'lib/test_': 'lib/cmwq/test_',
         'tools/workqueue/': 'tools/workqueue/cmwq/'}


def our_files() -> list[tuple[str, str]]:
    """Return pairs (file in the repository, its place in the tree) for our files."""
    return [(name, place_of(name)) for name in found(*FILES) if (ROOT / name).is_file()]


def place_of(name: str) -> str:
    """Return where our file lies in the tree, by the rule of TAKEN."""
    for begin, instead in TAKEN.items():
        if re.match(begin, name):
            return re.sub(begin, instead, name, count=1)
    return name


def found(*patterns: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))


def patches(linux: str) -> list[Path]:
    tested(linux)
    return sorted((ROOT / 'patches' / linux).glob('*.patch'))


def fixes(linux: str) -> list[Path]:
    """
    Return the patches for the bugs of the base's own workqueue, in their order: NUMBER-BUG.patch. A release whose lines
    differ has patches of its own, in a folder with its name.
    """
    folder = ROOT / 'patches/base-fixes'
    return [folder / linux / path.name if (folder / linux / path.name).is_file() else path
            for path in sorted(folder.glob('*.patch'))]


def fixes_asked(linux: str) -> list[Path]:
    """Return these patches if FIXED=1 asks for them: they then go into the tree, too."""
    return fixes(linux) if one_of('FIXED', os.environ.get('FIXED', ''), ('', '1')) else []


def touched_by(paths: list[Path], side: str = r'\+\+\+ b') -> list[str]:
    """Return the files that patches change. With side='--- a': only those that exist in the base."""
    return sorted({match for path in paths for match in re.findall(rf'^{side}/(\S+)', path.read_text(), re.M)})


def apply(patch: Path, folder: Path) -> str:
    """Apply a patch. Return the first line of the error, or ''."""
    with open(patch, 'rb') as text:
        done = subprocess.run(['patch', '-d', folder, '-p1', '-s', '-f', '--no-backup-if-mismatch'], stdin=text,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return (done.stdout.splitlines() or ['patch failed'])[0] if done.returncode else ''


class Composer:
    """Puts files into the tree, each atomically, and only if it differs."""

    def __init__(self, source: base.Base) -> None:
        self.source = source
        self.tree = BUILD / f'tree-{source.linux}'
        self.manifest = self.tree / MANIFEST
        self.changed = 0

    def start(self) -> None:
        """Make the whole tree again if the base tree has changed."""
        mark, origin = self.tree / '.cmwq-origin', self.source.origin.read_text()
        if mark.exists() and mark.read_text() == origin:
            return
        say(f'composing {shown(self.tree)} from {origin.strip()}')
        temp = self.tree.with_name(f'{self.tree.name}.tmp')
        for path in (temp, self.tree):
            shutil.rmtree(path, ignore_errors=True)
        if subprocess.run(['cp', '-al', f'{self.source.tree}/.', temp], check=False).returncode:
            raise Failure(f'could not link {shown(self.source.tree)} to {shown(temp)}: see the line above')
        (temp / mark.name).write_text(origin)
        temp.rename(self.tree)

    def put(self, place: str, make: Callable[[Path], object]) -> None:
        """Replace the file @place. Never write into the old file: it is a hard link to the base tree."""
        path = self.tree / place
        path.parent.mkdir(parents=True, exist_ok=True)
        temp = path.with_name(f'{path.name}.cmwq-tmp')
        temp.unlink(missing_ok=True)
        make(temp)
        temp.replace(path)
        self.changed += 1

    def patched(self, paths: list[Path]) -> list[str]:
        """Apply the patches in a temporary folder and put the results into the tree. Return their names."""
        names = touched_by(paths)
        with tempfile.TemporaryDirectory(prefix='.stage-', dir=BUILD) as stage_name:
            stage = Path(stage_name)
            for name in names:
                (stage / name).parent.mkdir(parents=True, exist_ok=True)
                if (self.source.tree / name).is_file():
                    shutil.copy2(self.source.tree / name, stage / name)
            for path in paths:
                wrong = apply(path, stage)
                if wrong:
                    raise Failure(f'{shown(path)} does not apply to {base.version_of(self.source.tree)}: {wrong}')
            for name in names:
                if not same(stage / name, self.tree / name):
                    self.put(name, partial(shutil.copyfile, stage / name))
        return names

    def ours(self) -> list[str]:
        for name, place in our_files():
            path = self.tree / place
            target = os.path.relpath(ROOT / name, path.parent)
            if place.startswith('include/'):
                # with the time of the original, as through a link: a kernel need not be built again
                if path.is_symlink() or not same(ROOT / name, path):
                    self.put(place, partial(shutil.copy2, ROOT / name))
            elif not path.is_symlink() or os.readlink(path) != target:
                self.put(place, partial(os.symlink, target))
        return [place for _, place in our_files()]

    def take_away(self, names: list[str]) -> None:
        """Undo what the last run put into the tree and this run did not."""
        before = self.manifest.read_text().split() if self.manifest.exists() else []
        for name in set(before) - set(names):
            if (self.source.tree / name).is_file():
                # with a new time, or make would keep the object of what was there
                self.put(name, partial(shutil.copyfile, self.source.tree / name))
            else:
                (self.tree / name).unlink(missing_ok=True)
                self.changed += 1


def same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def compose(linux: str = LINUX) -> Path:
    """Make sure that the composed tree exists and is up to date. Return its path."""
    paths = patches(linux) + fixes_asked(linux)
    need('patch', 'cp')
    source = base.fetch(linux)
    with locked('tree'):
        composer = Composer(source)
        composer.start()
        names = composer.patched(paths) + composer.ours()
        composer.take_away(names)
        files.write(composer.manifest, ''.join(f'{name}\n' for name in names))
    say(f'{shown(composer.tree)} is {base.version_of(composer.tree)} with {len(names)} files of ours or patched, '
        f'{composer.changed} changed now')
    return composer.tree


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    compose(asked_linux())
    return 0

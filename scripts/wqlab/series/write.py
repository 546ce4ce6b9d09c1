# SPDX-License-Identifier: GPL-2.0
"""Write the project as patches for the base tree: build/series-$LINUX/*.patch.

usage: [LINUX=RELEASE] scripts/lab series [--for base|tests] [-v N] [--changes FILE]

To apply them, run `git am --empty=drop build/series-7.3/*.patch` in a git tree of Linux 7.3.
0000-cover-letter.patch says what they change, with figures; git skips it. The tree builds after
each patch. Before the patches are put in place, this program applies them to the files of the
base tree and compares the result with the composed tree.

With --for base, this writes build/series-base-7.3/*.patch instead: patches/base-fixes/, which repair
kernel/workqueue.c itself and need nothing of this project. With --for tests, it writes
build/series-tests-7.3/*.patch: our tests for a tree that has only kernel/workqueue.c.

If KERNEL_SRC= is a git tree, the letter ends with its commit (base-commit). Otherwise it says
what the base is, and lists the blobs of the files that the series changes.
"""
import argparse
import email
import email.policy
import filecmp
import getpass
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path

from wqlab import figures
from wqlab.kernels import base, tree
from wqlab.kernels.kinds import asked_linux
from wqlab.paths import BUILD, ROOT
from wqlab.release import release
from wqlab.series import maintainers, steps, stock
from wqlab.steps import Failure, first_match, locked, need, plain_environment, sayer, shown, told

say = sayer('series')
SELFTESTS = 'tools/testing/selftests/workqueue'
MAINTAINERS = 'MAINTAINERS'
LETTERS = {whom: Path(__file__).with_name(name)
           for whom, name in (('cmwq', 'cover.txt'), ('base', 'cover-base.txt'), ('tests', 'cover-tests.txt'))}
WIDTH = 72              # of its lines
# the first file of a patch, and what the letter calls such patches
GROUPS = (('MAINTAINERS', 'the entry in MAINTAINERS'), ('include/linux/', 'the headers'),
          ('init/', 'the choice in Kconfig'), ('kernel/workqueue/', 'the implementation'),
          ('lib/', 'benchmark, KUnit suites and torture test'), ('tools/testing/', 'selftests'), ('tools/', 'tools'),
          ('Documentation/', 'documents'), ('', 'hooks in the base tree'))


def git_output(folder: Path, *words: str) -> str:
    return subprocess.run(['git', '-C', folder, *words], capture_output=True, text=True, check=False).stdout.strip()


def git_environment() -> dict[str, str]:
    """Return an environment for git. It names the user as the author and ignores all other settings of git."""
    name = git_output(ROOT, 'config', 'user.name') or git_output(ROOT, 'log', '-1', '--format=%an') \
        or getpass.getuser()
    email = git_output(ROOT, 'config', 'user.email') or git_output(ROOT, 'log', '-1', '--format=%ae') \
        or f'{getpass.getuser()}@localhost'
    env = plain_environment(GIT_CONFIG_GLOBAL='/dev/null', GIT_CONFIG_NOSYSTEM='1',
                            **{f'GIT_{who}_{what}': value for who in ('AUTHOR', 'COMMITTER')
                               for what, value in (('NAME', name), ('EMAIL', email))})
    return {name: value for name, value in env.items() if name not in ('GIT_DIR', 'GIT_WORK_TREE', 'GIT_INDEX_FILE')}


def blobs(folder: Path, names: list[str], *words: str) -> dict[str, str]:
    """Return the blobs of files in a commit of a git tree, by name; {} if it is no such tree."""
    lines = git_output(folder, 'ls-tree', *words, '--', *names).splitlines()
    return {line.split('\t', 1)[1]: line.split()[2] for line in lines}


class Repository:
    """A repository with the files of the base tree that the series changes."""

    def __init__(self, folder: Path, source: base.Base, env: dict[str, str], changed: list[str]) -> None:
        self.folder, self.env = folder, env
        folder.mkdir()
        self.git('init', '-q', '-b', 'series')
        self.base_files = changed
        for name in self.base_files:
            self.add(source.tree / name, name)
        self.commit(f'Linux {base.version_of(source.tree)}', '--no-signoff')
        self.git('tag', 'base')

    def git(self, *words, text: str | None = None) -> str:
        done = subprocess.run(['git', '-C', str(self.folder), *map(str, words)], input=text, capture_output=True,
                              text=True, env=self.env, check=False)
        if done.returncode:
            said = first_match(done.stderr or done.stdout, 'error', 'fatal')
            raise Failure(f'git {words[0]} failed on the series: {said}')
        return done.stdout

    def add(self, source: Path, place: str) -> None:
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
        path.chmod(0o755 if os.access(source, os.X_OK) else 0o644)

    def commit(self, message: str, *words: str) -> None:
        self.git('add', '-A')
        self.git('commit', '-q', *(words or ['-s']), '-F', '-', text=message)

    def order(self) -> str:
        """Say which patches do what, for somebody who has to find his way."""
        groups: list[tuple[str, int, int]] = []
        for number, commit in enumerate(self.git('rev-list', '--reverse', 'base..').split(), 1):
            first = self.git('diff-tree', '-r', '--no-commit-id', '--name-only', commit).split()[0]
            what = next(words for start, words in GROUPS if first.startswith(start))
            if groups and groups[-1][0] == what:
                groups[-1] = (what, groups[-1][1], number)
            else:
                groups.append((what, number, number))
        return '\n'.join(f'  {f"{first}-{last}" if first < last else str(first):8}{what}'
                         for what, first, last in groups)


def message_of(patch: Path) -> str:
    """Return the subject and description: what is above the `---` line, in a mail of git format-patch or without."""
    text = patch.read_bytes()
    if not text.startswith(b'From '):
        return re.split(r'^---$', text.decode(), maxsplit=1, flags=re.M)[0]
    parsed = email.message_from_bytes(text, policy=email.policy.default)
    body = re.split(r'^---$', parsed.get_content(), maxsplit=1, flags=re.M)[0]
    return f'{parsed["Subject"].removeprefix("[PATCH] ")}\n\n{body}'


def laid() -> dict[str, Path]:
    """Return our files that the series adds, by their places in the tree."""
    selftests = [(name, name) for name in tree.found(f'{SELFTESTS}/**/*') if (ROOT / name).is_file()]
    return {place: ROOT / name for name, place in [*tree.our_files(), *selftests]}


def check_new(places: Iterable[str], folder: Path) -> None:
    """git am does not overwrite files. @folder is the base tree; our repositories have a few files of it only."""
    for place in places:
        if (folder / place).exists():
            raise Failure(f'the base tree has a file {place}, too: the series needs another place for ours')


def fill(repository: Repository, sources: dict[str, Path], plan: list[steps.Step], hooks: list[Path],
         entry: str) -> None:
    """Make the commits, step by step. @hooks are the patches for files of the base tree."""
    places, patches = steps.files_of(plan, list(sources)), steps.patches_of(plan, hooks)
    for step, mine, applied in zip(plan, places, patches):
        for place in mine:
            repository.add(sources[place], place)
        for patch in applied:
            wrong = tree.apply(patch, repository.folder)
            if wrong:
                raise Failure(f'{shown(patch)} does not apply: {wrong}')
            repository.commit(message_of(patch))
        if step.maintainers:
            path = repository.folder / MAINTAINERS
            path.write_text(maintainers.with_entry(path.read_text(), entry))
        if mine and step.patches and not applied:
            raise Failure(f'no patch of the base tree is named {step.patches[0]}, which {step.name} needs')
        if step.message and (mine or step.maintainers):
            repository.commit(step.message)


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob('*')
            if path.is_file() and '.git' not in path.relative_to(folder).parts}


def compare(made: Path, applied: Path, composed: Path | None) -> None:
    names = contents(made)
    for name in sorted(names ^ contents(applied)) + filecmp.cmpfiles(made, applied, names, shallow=False)[1]:
        raise Failure(f'git am does not reproduce the files that the series was made from: {name} differs')
    for name in (composed / '.cmwq-overlay').read_text().split() if composed else []:
        if composed and (composed / name).is_file() and not tree.same(composed / name, applied / name):
            raise Failure(f'the series and {shown(composed)} differ in {name}')


def commit_of(source: base.Base, names: list[str]) -> str:
    """Return the commit of the git tree that the base was copied from, if these files are as there; or ''."""
    given = re.match('directory (.+?), ', source.origin.read_text())
    if not given or git_output(Path(given[1]), 'rev-parse', '--show-toplevel') != given[1]:
        return ''
    there = blobs(Path(given[1]), names, 'HEAD')
    here = dict(zip(names, git_output(source.tree, 'hash-object', '--', *names).split()))
    if there != here:
        say(f'note: HEAD of {given[1]} is not what was copied: the letter names no base-commit')
        return ''
    return git_output(Path(given[1]), 'rev-parse', 'HEAD')


def base_text(source: base.Base, repository: Repository, commit: str) -> str:
    """Say what the series applies to, and how to see whether one's own tree is like that."""
    origin = source.origin.read_text().strip().rsplit(', ', 2)[0]
    version = f'Linux {base.version_of(source.tree)}'
    text = (f'Commit {commit[:12]}, which is {version}: see base-commit at the end.' if commit else
            f'{version}, from the {origin}. That is no commit of a git tree, so this letter has no base-commit.')
    table = '\n'.join(f'  {blob[:12]}  {name}' for name, blob in
                      sorted(blobs(repository.folder, repository.base_files, 'base').items()))
    others = ', and adds all others' if MAINTAINERS in repository.base_files else ''
    text += (f' The series changes these files of it{others}. In a tree that fits, "git ls-tree HEAD -- FILE" '
             'shows the same blob for each. If one differs, "git am -3" may still merge it:')
    return f'{textwrap.fill(text, WIDTH, break_on_hyphens=False)}\n\n{table}'


def project_text() -> str:
    """Name the release and commit of this repository, and where it is if others can reach it."""
    url = git_output(ROOT, 'remote', 'get-url', 'origin')
    commit = git_output(ROOT, 'describe', '--always', '--dirty', '--abbrev=12', '--exclude=*')
    return ', '.join([f'cmwq {release()}', f'commit {commit}' if commit else 'a copy without git',
                      *[url] * bool(re.match(r'https?://|git://|git@', url))])


def describe(repository: Repository, source: base.Base, commit: str, changes: str, letter: str) -> None:
    """Give the branch the cover letter as its description. git makes a mail of it, with all subjects and a diffstat."""
    for name, value in (('base', base_text(source, repository, commit)), ('order', repository.order()),
                        ('linux', base.version_of(source.tree)), ('project', project_text()),
                        ('figures', figures.letter())):
        letter = letter.replace(f'@{name}@', value)
    subject, _, text = letter.partition('\n\n')
    if changes:
        text = f'{changes.strip()}\n\n{text}'
    repository.git('config', 'branch.series.description', f'{subject}\n\n{text}')


def mail(repository: Repository, folder: Path, version: int, commit: str) -> list[Path]:
    """Make the mails. git would name the commit of @repository as their base, which nobody else has."""
    repository.git('format-patch', '-q', '-o', folder, '--cover-letter', '--cover-from-description=subject',
                   '--abbrev=12', '--base=base', *[f'--reroll-count={version}'] * (version > 1), 'base')
    new = sorted(folder.iterdir())
    trailer = f'base-commit: {repository.git("rev-parse", "base").strip()}\n'
    text = new[0].read_text()
    if trailer not in text:
        raise Failure(f'git wrote no base-commit into {new[0].name}')
    new[0].write_text(text.replace(trailer, f'base-commit: {commit}\n' if commit else ''))
    return new


def write(linux: str, version: int = 1, changes: str = '', whom: str = 'cmwq') -> list[Path]:
    """Write the series for one of LETTERS. Return the mails, the first of which is the cover letter."""
    need('git', 'patch')
    hooks = {'cmwq': tree.patches, 'base': tree.fixes, 'tests': stock.patches}[whom](linux)
    composed = tree.compose(linux) if whom == 'cmwq' else None
    source, env = base.Base(linux) if composed else base.fetch(linux), git_environment()
    place = BUILD / f'series-{"" if composed else f"{whom}-"}{linux}'
    changed = sorted({*[MAINTAINERS] * (whom != 'base'), *tree.touched_by(hooks, '--- a')})
    with locked(place.name), tempfile.TemporaryDirectory(prefix='.series-', dir=BUILD) as work_name:
        work = Path(work_name)
        made = Repository(work / 'make', source, env, changed)
        sources, plan, entry = laid(), steps.all_steps(), maintainers.OWN.read_text()
        if whom == 'base':      # only its patches, as they are
            sources, plan = {}, [steps.Step(hooks[0].parent, [], ['*'], False, '')]
        elif whom == 'tests':
            sources, plan, entry = stock.laid(sources, work / 'tests'), steps.all_steps(stock.STEPS), stock.entry()
        check_new(sources, source.tree)
        fill(made, sources, plan, hooks, entry)
        commit = commit_of(source, made.base_files)
        describe(made, source, commit, changes, LETTERS[whom].read_text())
        new = mail(made, work / 'patches', version, commit)
        applied = Repository(work / 'am', source, env, changed)
        applied.git('am', '-q', '--empty=drop', *new)
        compare(made.folder, applied.folder, composed)
        if place.exists():
            place.rename(work / 'old')
        (work / 'patches').rename(place)
    say(f'{shown(place)}: {len(new) - 1} patches and a cover letter, tested with git am on Linux '
        f'{base.version_of(source.tree)}')
    return sorted(place.iterdir())


def number_of(text: str) -> int:
    if not re.fullmatch('[1-9][0-9]?', text):
        raise argparse.ArgumentTypeError(f'{text!r} is no version of a series: give a number from 1 to 99')
    return int(text)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('-v', '--reroll-count', metavar='N', type=number_of, default=1,
                        help='this is version N: subjects begin with [PATCH vN]')
    parser.add_argument('--changes', metavar='FILE', type=Path, help='begin the letter with this text: what has '
                        'changed since the last version')
    parser.add_argument('--for', dest='whom', choices=LETTERS, default='cmwq',
                        help='base: only the repairs of kernel/workqueue.c; tests: only tests and tools, for that file')
    args = parser.parse_args(argv)
    try:
        changes = args.changes.read_text() if args.changes else ''
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f'--changes {args.changes} cannot be read: {told(error)}') from error
    if args.reroll_count > 1 and not changes:
        say('note: reviewers want to know what has changed since the last version: give --changes FILE')
    write(asked_linux(), args.reroll_count, changes, args.whom)
    return 0

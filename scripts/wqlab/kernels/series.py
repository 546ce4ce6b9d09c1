# SPDX-License-Identifier: GPL-2.0
"""Write the project as patches for the base tree: build/series-$LINUX/*.patch.

usage: [LINUX=7.3] scripts/lab series

To apply them, run `git am build/series-7.3/*.patch` in a git tree of Linux 7.3. The tree
builds after each patch. Before the patches are put in place, this program applies them to
the files of the base tree and compares the result with the composed tree.
"""
import argparse
import filecmp
import getpass
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from wqlab.kernels import base, tree
from wqlab.kernels.build import need
from wqlab.kernels.kinds import LINUX
from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure, first_match, locked, plain_environment, sayer, shown

say = sayer('series')
SELFTESTS = 'tools/testing/selftests/workqueue'
IMPLEMENTATION = '''workqueue: add an implementation with one concept to a file

kernel/workqueue/ is a second implementation of the workqueue, with one
concept to a file. It does what kernel/workqueue.c does and has the same
interface. Unlike that file, it wakes workers after it has dropped the
pool's lock, and the size of cache shards can be changed at run time. The
documentation that this series adds lists all differences in behaviour.

Nothing builds these files yet.
'''
REST = {
    'tools/workqueue/': '''tools/workqueue: show pods, pools and workqueues, live or from a dump

Add two drgn scripts. wq_dump.py prints how a machine is divided into
pods, what each pool runs, and which items wait there. It can show the
state of one item, say what stalls and why, and draw the machine.
wq_monitor.py shows totals and rates of each workqueue. Both scripts work
with either workqueue of this tree, and with Linux 6.12. Without options
they print what the scripts of the same names in tools/workqueue/ print.
''',
    'tools/testing/': '''selftests/workqueue: test a running kernel from user space

Add shell scripts with TAP output. They test affinity scopes and masks
through sysfs, changes of the shard size, CPU hotplug and freezing under
load, forward progress through a rescuer, and the stall report.
''',
    'Documentation/': '''Documentation: core-api: describe the workqueue in kernel/workqueue/

Say what callers may rely on, how a CPU is chosen for work, what can be
tuned, how to debug stalls, and how kernel/workqueue/ differs from
kernel/workqueue.c.
'''}


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


class Repository:
    """A repository with the files of the base tree that the series changes."""

    def __init__(self, folder: Path, source: base.Base, env: dict[str, str]) -> None:
        self.folder, self.env = folder, env
        folder.mkdir()
        self.git('init', '-q', '-b', 'series')
        for name in tree.touched_by(tree.patches(source.linux), '--- a'):
            self.add(source.tree / name, name)
        self.commit(f'Linux {base.version_of(source.tree)}', '--no-signoff')
        self.git('tag', 'base')

    def git(self, *words, text: str | None = None) -> None:
        done = subprocess.run(['git', '-C', str(self.folder), *map(str, words)], input=text, capture_output=True,
                              text=True, env=self.env, check=False)
        if done.returncode:
            said = first_match(done.stderr or done.stdout, 'error', 'fatal')
            raise Failure(f'git {words[0]} failed on the series: {said}')

    def add(self, source: Path, place: str) -> None:
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
        path.chmod(0o755 if os.access(source, os.X_OK) else 0o644)

    def lay(self, *places: str) -> None:
        """Add our files that belong under these places of the tree."""
        selftests = [(name, name) for name in tree.found(f'{SELFTESTS}/**/*') if (ROOT / name).is_file()]
        for name, place in [*tree.our_files(), *selftests]:
            if place.startswith(places):
                self.add(ROOT / name, place)

    def commit(self, message: str, *words: str) -> None:
        self.git('add', '-A')
        self.git('commit', '-q', *(words or ['-s']), '-F', '-', text=message)


def message_of(patch: Path) -> str:
    """Return the subject and description: the text above the `---` line."""
    return re.split(r'^---$', patch.read_text(), maxsplit=1, flags=re.M)[0]


def fill(repository: Repository, linux: str) -> None:
    repository.lay('kernel/workqueue/', 'include/linux/cmwq/')
    repository.commit(IMPLEMENTATION)
    for patch in tree.patches(linux):
        if patch.name.endswith('-tests.patch'):
            repository.lay('lib/cmwq/')
        wrong = tree.apply(patch, repository.folder)
        if wrong:
            raise Failure(f'{shown(patch)} does not apply: {wrong}')
        repository.commit(message_of(patch))
    for place, message in REST.items():
        repository.lay(place)
        repository.commit(message)


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob('*')
            if path.is_file() and '.git' not in path.relative_to(folder).parts}


def compare(made: Path, applied: Path, composed: Path) -> None:
    names = contents(made)
    for name in sorted(names ^ contents(applied)) + filecmp.cmpfiles(made, applied, names, shallow=False)[1]:
        raise Failure(f'git am does not reproduce the files that the series was made from: {name} differs')
    for name in (composed / '.cmwq-overlay').read_text().split():
        if (composed / name).is_file() and not tree.same(composed / name, applied / name):
            raise Failure(f'the series and {shown(composed)} differ in {name}')


def write(linux: str) -> list[Path]:
    """Write the series. Return the patches."""
    need('git')
    composed = tree.compose(linux)
    source, place, env = base.Base(linux), BUILD / f'series-{linux}', git_environment()
    with locked(place.name), tempfile.TemporaryDirectory(prefix='.series-', dir=BUILD) as work_name:
        work = Path(work_name)
        made = Repository(work / 'make', source, env)
        fill(made, linux)
        made.git('format-patch', '-q', '-o', work / 'patches', 'base')
        new = sorted((work / 'patches').iterdir())
        applied = Repository(work / 'am', source, env)
        applied.git('am', '-q', *new)
        compare(made.folder, applied.folder, composed)
        if place.exists():
            place.rename(work / 'old')
        (work / 'patches').rename(place)
    say(f'{shown(place)}: {len(new)} patches, tested with git am on Linux {base.version_of(source.tree)}')
    return sorted(place.iterdir())


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    write(os.environ.get('LINUX') or LINUX)
    return 0

# SPDX-License-Identifier: GPL-2.0
"""Configure and build one kernel with its modules.

usage: [ENGINE=qemu|uml|arm64] [VARIANT=cmwq|base]
       [CONFIG=release|debug|kcsan|preempt|rt|up|workload] [LINUX=RELEASE] [KERNEL_SRC=DIR] scripts/lab kernel

Output: build/<engine>-<variant>-<config>-<linux>/, with arch/x86/boot/bzImage,
arch/arm64/boot/Image or the UML binary `linux`. The configuration is
`allnoconfig` plus the fragments in configs/ that kinds.py names. It is an error if
an option of a fragment does not reach the final configuration.
"""
import argparse
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

from wqlab import files
from wqlab.kernels import base, tree
from wqlab.kernels.kinds import LINUX, Kind
from wqlab.paths import BUILD
from wqlab.steps import (
    Failure,
    first_match,
    is_in_use,
    locked,
    logged,
    need,
    plain_environment,
    sayer,
    shown,
)

say = sayer('kernel')
OPTION = re.compile(r'(?:(CONFIG_\w+)=(.*)|# (CONFIG_\w+) is not set)$')
CHOICE = re.compile(r'CONFIG_WORKQUEUE_(CMWQ|BASE)$')
ERRORS = re.compile(r'error:|\*\*\*|undefined (reference|!)|No rule to make')
OURS = re.compile(r'[^ ]*(kernel/workqueue/|lib/cmwq/|linux/cmwq/)[^ ]*: warning:')


def options_in(text: str) -> dict[str, str]:
    """Read a configuration: option -> value. The value is 'n' for "is not set"."""
    found = filter(None, map(OPTION.match, text.splitlines()))
    return {match[1] or match[3]: match[2] or 'n' for match in found}


def options(path: Path) -> dict[str, str]:
    return options_in(files.read(path))


def not_taken(wanted: dict[str, str], got: dict[str, str]) -> list[str]:
    return [f'{name}={value}' for name, value in wanted.items() if got.get(name, 'n') != value]


def known(names: set[str], source: Path) -> set[str]:
    """Return those of the options that exist in this release."""
    text = subprocess.run(['grep', '-rhoE', '--include=Kconfig*', r'^[[:space:]]*(menu)?config \w+$', source],
                          capture_output=True, text=True, check=False).stdout
    return names & {f'CONFIG_{line.split()[1]}' for line in text.splitlines()}


def configure(kind: Kind, log: Path) -> None:
    merge, new = kind.folder / '.merge', kind.folder / '.config.new'
    merge.mkdir(parents=True, exist_ok=True)
    with open(log, 'wb') as out:
        def step(command: list, **more) -> int:
            return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False, **more).returncode
        if step(['sh', kind.tree / 'scripts/kconfig/merge_config.sh', '-m', '-Q', '-O', '.', '/dev/null',
                 *kind.fragments], cwd=merge, env=plain_environment()):
            raise Failure(f'merging the fragments failed: see {shown(log)}')
        local = kind.folder / 'localversion-variant'
        if not local.exists() or local.read_text() != f'-{kind.variant}\n':
            files.write(local, f'-{kind.variant}\n')
        if step(kind.make('-s', f'KCONFIG_CONFIG={new}', f'KCONFIG_ALLCONFIG={merge}/.config', 'allnoconfig'),
                env=kind.environment()):
            raise Failure(f'allnoconfig failed: {first_match(log.read_text(), "error", ": ")}')
    missing = not_taken(options(merge / '.config'), options(new))
    if missing and kind.linux != LINUX:
        have = known({option.split('=')[0] for option in missing}, kind.tree)
        missing = [option for option in missing if option.split('=')[0] in have]
    if missing:
        raise Failure(f'{kind.name}: these options were lost (check their dependencies): {" ".join(missing)}')
    old = kind.folder / '.config'
    if not old.exists() or old.read_bytes() != new.read_bytes():
        files.write(old, new.read_bytes())
    for path in (new, new.with_name('.config.new.old')):
        path.unlink(missing_ok=True)


def note_other_variant(kind: Kind) -> None:
    """Warn if the two variants differ in more than the choice of the workqueue, since they are compared."""
    other = Kind(kind.engine, 'base' if kind.variant == 'cmwq' else 'cmwq', kind.config, kind.linux).folder
    if not (other / '.config').exists():
        return
    mine, theirs = options(kind.folder / '.config'), options(other / '.config')
    differ = sorted(name for name in mine.keys() | theirs.keys()
                    if mine.get(name, 'n') != theirs.get(name, 'n') and not CHOICE.match(name))
    if differ:
        say(f'note: {other.name} has another configuration; build it again before you compare: {" ".join(differ[:3])}')


def release_of(folder: Path) -> str:
    return files.read(folder / 'include/config/kernel.release').strip()


def run_make(kind: Kind, log: Path, *words: str) -> list[str]:
    """Run a long make. Return the lines that it printed. If it fails, print those with errors, and raise Failure."""
    status = logged(log, f'building {kind.name}', kind.make(f'-j{len(os.sched_getaffinity(0))}', *words), say=say,
                    env=kind.environment())
    lines = log.read_text(errors='replace').splitlines()
    if status:
        errors = [line for line in lines if ERRORS.search(line)]
        print('\n'.join(errors[:20] or lines[-20:]), file=sys.stderr, flush=True)
        raise Failure(f'building {kind.name} failed: see {shown(log)}')
    return lines


def compile_all(kind: Kind, log: Path) -> None:
    lines = run_make(kind, log, 'all')
    ours = [line for line in lines if OURS.match(line)]
    if ours:
        print('\n'.join(ours), file=sys.stderr, flush=True)
        say("the compiler warned about the project's own files: see above")
    if not kind.image.exists() or not kind.image.stat().st_size:
        raise Failure(f'the build did not create {kind.engine.image}: see {shown(log)}')
    say(f'{shown(kind.image)} is Linux {release_of(kind.folder)}')


def mark_of(kind: Kind) -> Path:
    """Return the file that says what the kernel was built from. It is missing during a build and after a failed one."""
    return kind.folder / '.built-from'


def sources_of(kind: Kind) -> str:
    """Return a hash of the commands and sources. Of the base tree, it contains only where that came from."""
    listed = kind.tree / tree.MANIFEST
    names = listed.read_text().split() if listed.exists() else []
    paths = [base.Base(kind.linux).origin, *kind.fragments, *(kind.tree / name for name in names)]
    words = '\0'.join(kind.make()).encode()
    return hashlib.sha256(b''.join([words, *(path.read_bytes() for path in paths if path.is_file())])).hexdigest()


def is_current(kind: Kind) -> bool:
    mark = mark_of(kind)
    return mark.exists() and mark.read_text() == sources_of(kind)


def build(kind: Kind, config_only: bool = False) -> Path:
    """Build what is not up to date. Return the kernel's folder."""
    need('make', 'gcc', 'flex', 'bison', 'bc')
    need(f'{kind.engine.cross}gcc', engine=kind.engine.name if kind.engine.cross else '')
    if os.environ.get('WQLAB_NO_BUILDS'):       # tests/conftest.py sets it
        raise Failure(f'{kind.name} is not built: WQLAB_NO_BUILDS is set')
    tree.compose(kind.linux)
    log = BUILD / f'log/{kind.name}.log'
    log.parent.mkdir(parents=True, exist_ok=True)
    if is_current(kind) and is_in_use(kind.name):
        say(f'{shown(kind.folder)} is in use, and its sources have not changed')
        return kind.folder
    with locked(kind.name):
        mark_of(kind).unlink(missing_ok=True)
        configure(kind, log)
        note_other_variant(kind)
        if config_only:
            say(f'configured {shown(kind.folder)}')
        else:
            sources = sources_of(kind)
            compile_all(kind, log)
            files.write(mark_of(kind), sources)
    return kind.folder


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--config-only', action='store_true', help='only configure the kernel')
    parser.add_argument('--print-dir', action='store_true', help='only print the build folder')
    args = parser.parse_args(argv)
    kind = Kind.asked()
    if args.print_dir:
        print(kind.folder)
    else:
        build(kind, args.config_only)
    return 0

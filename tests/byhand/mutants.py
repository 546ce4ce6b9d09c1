# SPDX-License-Identifier: GPL-2.0
"""Put known bugs into the workqueue, one at a time, and show which test catches each.

Each of tests/mutations/*.patch is one small bug. It is applied to a scratch copy of the
composed tree, which is built for UML, or for QEMU if the patch says "Engine: qemu". The
patch names the test that must fail, as "Test: torture", "Test: KUnit" or "Test: " and the
name of a script in tools/testing/selftests/workqueue, with one test in it if the others do
not fit, and what the test needs: the kernel parameters, as "Append: ...", and the CPUs, as
"Topology: ...". The same tests first run without a bug. A table of bug, test and time is
printed at the end and kept in build/mutants/table.rst.

A bug that was caught is skipped as long as its patch and the workqueue do not change. So an
interrupted run can be continued.

exit status: 0 if all are caught, 1 if one is not, 2 if the command line is wrong.
"""
import argparse
import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import guests
import kernlog
from wqlab import files, procs, tables, tap
from wqlab.guest import run as guest
from wqlab.kernels import tree
from wqlab.kernels.kinds import Kind
from wqlab.logs.check import without_stamp
from wqlab.paths import ROOT
from wqlab.steps import Failure, logged
from wqlab.torture import run as torture

PATCHES = ROOT / 'tests/mutations'
PLACE = ROOT / 'build/mutants'
# The scratch tree and the kernels have the names of those in build/, so that ccache knows their files.
SCRATCH = ROOT / 'build/mutant-7.3'
TREE = SCRATCH / 'tree-7.3'
OURS = 'kernel/workqueue'
TOPOLOGY = {'uml': '', 'qemu': 'sockets=2,cores=2,nodes=2'}
STEP_S = {'uml': 240, 'qemu': 420}
TORTURE_S = 20


@dataclasses.dataclass(frozen=True)
class Mutant(Kind):
    """A kernel that is built of the scratch tree."""

    @property
    def folder(self):
        return SCRATCH / self.name

    @property
    def tree(self):
        return TREE


@dataclasses.dataclass
class Bug:
    name: str
    what: str
    engine: str
    test: str           # must fail: 'torture', 'KUnit' or the name of a script
    path: Path
    append: str = ''    # kernel parameters without which it does not show
    topology: str = ''  # CPUs without which it does not show

    @property
    def group(self):
        """Return what bugs have in common that the same control covers."""
        return self.engine, self.topology or TOPOLOGY[self.engine], self.append, self.test

    def key(self):
        """Return a hash of the patch and of the sources that it changes."""
        sources = sorted((ROOT / OURS).iterdir())
        return hashlib.sha256(b''.join(path.read_bytes() for path in [self.path, *sources])).hexdigest()


@dataclasses.dataclass
class Catch:
    seconds: float      # duration of the test, with the boot
    why: str            # '' if the test passed


def say(text):
    print(f'mutants: {text}', file=sys.stderr, flush=True)


def bugs():
    found = []
    for path in sorted(PATCHES.glob('*.patch')):
        head = path.read_text().partition('\n--- ')[0]
        named = dict(re.findall(r'^(Engine|Test|Append|Topology): (.+)$', head, re.M))
        found.append(Bug(path.stem, head.splitlines()[0], named.get('Engine', 'uml'), named['Test'], path,
                         named.get('Append', ''), named.get('Topology', '')))
    return found


# The scratch tree

def prepare_tree():
    """Make a second composed tree. It gets copies of our files instead of links."""
    PLACE.mkdir(parents=True, exist_ok=True)
    if not TREE.exists():
        say(f'making {TREE.relative_to(ROOT)}')
        temp = TREE.with_suffix('.tmp')
        shutil.rmtree(temp, ignore_errors=True)
        SCRATCH.mkdir(parents=True, exist_ok=True)
        subprocess.run(['cp', '-al', ROOT / 'build/tree-7.3', temp], check=True)
        temp.rename(TREE)
    link_our_files()


def link_our_files():
    """Link our files that are not there: new ones, and those whose relative links lead nowhere from here."""
    for _, place in tree.our_files():
        if not (TREE / place).exists():
            (TREE / place).parent.mkdir(parents=True, exist_ok=True)
            (TREE / place).unlink(missing_ok=True)
            (TREE / place).symlink_to((ROOT / 'build/tree-7.3' / place).resolve())


def lay(bug=None):
    """Put our sources into the tree, with or without a bug. Unchanged files keep their times."""
    fresh = PLACE / 'sources'
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / OURS).mkdir(parents=True)
    for path in (ROOT / 'build/tree-7.3' / OURS).iterdir():
        shutil.copy(path, fresh / OURS / path.name)
    if bug:
        subprocess.run(['patch', '-s', '-p1', '--no-backup-if-mismatch', '-d', fresh, '-i', bug.path], check=True)
    for path in (fresh / OURS).iterdir():
        place, content = TREE / OURS / path.name, path.read_bytes()
        if place.is_symlink() or not place.exists() or place.read_bytes() != content:
            files.write(place, content)


def build(engine):
    """Build the kernel. Return its folder, or exit with the compiler's error."""
    plain = Kind.of(engine)
    kind = Mutant(plain.engine)
    kind.folder.mkdir(parents=True, exist_ok=True)
    for name in ('.config', 'localversion-variant'):
        source, place = plain.folder / name, kind.folder / name
        if not place.exists() or place.read_bytes() != source.read_bytes():
            shutil.copyfile(source, place)
    log = PLACE / f'build-{engine}.log'
    if logged(log, f'building {kind.name}', kind.make('-s', f'-j{os.cpu_count()}', 'all'), say=say,
              env=kind.environment()):
        errors = [line for line in log.read_text().splitlines() if 'error' in line]
        raise SystemExit(f'mutants: the kernel could not be built: {errors[0] if errors else log}')
    return kind.folder


# The tests

def shape(topology):
    return {'topology': topology} if topology else {}


def by_torture(folder, engine, topology, append, seconds):
    outcome = torture.torture(folder, engine=engine, duration=seconds, append=append, log=PLACE / 'torture.log',
                              **shape(topology))
    if outcome.ok:
        return ''
    lines = (PLACE / 'torture.log').read_text(errors='replace').splitlines()
    worst = [without_stamp(line) for line in lines if '!!! ' in line]
    return (worst or outcome.complaints or [outcome.verdict or 'no verdict'])[0]


def in_guest(folder, boot, limit):
    """Run a script or suites in a guest. Return the first problem, or ''."""
    append = f'{boot.append} {guests.kunit_parameters(boot)}'.strip()
    outcome = guests.repeated_after_emulator_fault(boot, lambda: guest.run(
        folder, guests.guest_command(boot), engine=boot.engine, cpus=None if boot.topology else 2,
        mem='1G', append=append, timeout=limit, log=PLACE / f'{boot.name}.log', **shape(boot.topology),
        files=[f'{guests.SELFTESTS}:/wq', f'{guests.ktap_helpers()}:/wq/ktap_helpers.sh']))
    return first_fault(outcome, boot)


def first_fault(outcome, boot):
    for piece in boot.pieces():
        text, status = guests.tap_of(outcome, piece)
        if status is None:      # incomplete points say less than the log or the end of the guest
            break
        failed = [point.name for point in tap.parse(text, boot.may_skip) if not point.ok]
        if failed or status:
            return f'{piece}: not ok: {failed[0]}' if failed else f'{piece}: exit status {status}'
    found = kernlog.problems(outcome.kernel)
    if found:
        return found[0]
    return {0: '', guest.TIMED_OUT: 'no end', guest.DIED: 'the kernel died'}.get(outcome.rc, f'{piece}: no end')


def boot_of(engine, topology, append, test):
    if test == 'KUnit':
        suites = (guests.BUILT_IN,) if engine == 'uml' else ('wq_api_kunit',)
        return guests.Boot('kunit', engine, suites=suites, topology=topology, append=append)
    script, _, only = test.partition(' ')
    return guests.Boot(script, engine, (script,), topology=topology, append=append,
                       env=f'WQT_ONLY="{only}"' if only else '')


def hunt(group, seconds, limit=None):
    """Build the kernel and run the test on it, torture for some seconds and others with a limit."""
    engine, topology, append, test = group
    folder = build(engine)
    begin = time.monotonic()
    why = by_torture(folder, engine, topology, append, seconds) if test == 'torture' else \
        in_guest(folder, boot_of(*group), limit or STEP_S[engine])
    return Catch(round(time.monotonic() - begin, 1), ' '.join(why.split())[:160])


# The run

def table(found):
    rows = [(f'{bug.name} \\*' if bug.engine == 'qemu' else bug.name, bug.what,
             bug.test if catch.why else f'**not by {bug.test}**', f'{catch.seconds:.0f} s') for bug, catch in found]
    return tables.rst(('Mutation', 'Bug', 'Caught by', 'After'), rows, numbers={3})


def load(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def attempt(bug, seconds, limit=None):
    """Put the bug into the tree, run its test, and record the result."""
    lay(bug)
    catch = hunt(bug.group, seconds, limit)
    known = {**load(PLACE / 'results.json'), bug.name: {'key': bug.key(), **dataclasses.asdict(catch)}}
    files.write(PLACE / 'results.json', json.dumps(known, indent=1))
    return catch


def caught_before(bug):
    done = load(PLACE / 'results.json').get(bug.name, {})
    return Catch(done['seconds'], done['why']) if done.get('key') == bug.key() and done['why'] else None


def run(chosen, args, limits):
    found = []
    for number, bug in enumerate(chosen, 1):
        catch = None if args.again else caught_before(bug)
        found.append((bug, catch or attempt(bug, args.seconds, limits.get(bug.group))))
        say(f'{number}/{len(chosen)} {bug.name}: {verdict(*found[-1])}')
    return found


def verdict(bug, catch):
    return f'{bug.test}, {catch.seconds:.0f} s: {catch.why}' if catch.why else 'NOT CAUGHT'


def control(group, seconds):
    """Check that the test of a group passes without a bug. Return the seconds after which it counts as hung."""
    engine, *_, test = group
    lay()
    say(' '.join(['control: no bug:', *filter(None, group)]))
    catch = hunt(group, seconds)
    if catch.why:
        raise SystemExit(f'mutants: {test} fails without a bug: {catch.why}')
    return min(STEP_S[engine], 60 + 4 * catch.seconds)


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', metavar='NAME', nargs='*', help='only these mutations')
    parser.add_argument('--list', action='store_true', help='list all mutations and exit')
    parser.add_argument('--seconds', type=int, default=TORTURE_S, metavar='S',
                        help='torture time; default: %(default)s')
    parser.add_argument('--again', action='store_true', help='also try bugs that were caught before')
    parser.add_argument('--no-control', action='store_true', help='do not first run the tests without a bug')
    args = parser.parse_args(argv)
    for name in args.names:
        if not (PATCHES / f'{name}.patch').exists():
            parser.error(f'there is no tests/mutations/{name}.patch: see --list')
    return args


def main(argv=None):
    args = parse_args(argv)
    chosen = [bug for bug in bugs() if not args.names or bug.name in args.names]
    if args.list:
        print('\n'.join(f'{bug.name:18} {bug.test:8} {bug.what}' for bug in chosen))
        return 0
    engines = sorted({bug.engine for bug in chosen})
    try:
        for engine in engines:
            torture.build(engine, 'cmwq', 'release')
        prepare_tree()
        groups = () if args.no_control else sorted({bug.group for bug in chosen})
        limits = {group: control(group, args.seconds) for group in groups}
        found = run(chosen, args, limits)
    except Failure as error:
        print(f'mutants: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    files.write(PLACE / 'table.rst', table(found))
    print(table(found), end='')
    missed = [bug.name for bug, catch in found if not catch.why]
    print(f'{len(found) - len(missed)} caught, {len(missed)} not' + (f': {", ".join(missed)}' if missed else ''))
    return 1 if missed else 0


if __name__ == '__main__':
    procs.end_on_signals()
    sys.exit(main())

# SPDX-License-Identifier: GPL-2.0
"""Add a machine, a workload, a base, a parameter or a scope.

usage: scripts/lab new machine|workload|base|parameter|scope NAME

A machine, a workload and a base begin with files that this writes, to be filled in. Then it prints what remains: each
place where the name has to stand, with a line that is there for another one. Run it again to see what still remains.
tests/host/test_new.py asks for the same, so nothing can be forgotten.
"""
import argparse
import re
import shutil

from wqlab import files
from wqlab.kernels import kinds
from wqlab.paths import ROOT
from wqlab.steps import Failure

FILL = 'FILL IN'
DOCUMENTS = 'Documentation/core-api/workqueue'
SELFTESTS = 'tools/testing/selftests/workqueue'
MACHINES = 'scripts/wqlab/simulated/machines'
# kind -> one that is in all places, and the places: files, and what has to be in one of them. STEM is NAME without "-".
# A kind that has files of its own begins with the first.
PLACES: dict[str, tuple[str, dict[str, str]]] = {
    'machine': ('vm8', {
        f'{MACHINES}/NAME.toml': '^about',
        f'{DOCUMENTS}-simulated.rst': '^``NAME``'}),
    'workload': ('writeback', {
        'scripts/wqlab/workload/STEM.py': '^WORKLOAD = ',
        'scripts/wqlab/workload/workloads.py': r'^MODULES.*\bSTEM\b',
        'scripts/wqlab/workload/__init__.py': r'\bSTEM\.py\b',
        f'{DOCUMENTS}-workloads.rst': r'\bNAME\b'}),
    'base': ('6.12', {
        'patches/NAME.toml': '^sha256',
        'patches/NAME/*-headers.patch': r'^\+\+\+ b/include/linux/workqueue\.h',
        'Makefile': r'LINUX=\S*(?<=[=|])NAME\b',
        f'{DOCUMENTS}-distributors.rst': '^NAME  '}),
    'parameter': ('own_pools', {
        'kernel/workqueue/*.c': r'^module_param\w*\(NAME\b',
        f'patches/{kinds.LINUX}/*-documents.patch': r'^\+\s+workqueue\.NAME=',
        f'{DOCUMENTS}-admin.rst': '^``NAME``',
        f'{DOCUMENTS}-adopt.rst': r'\bNAME\b',
        f'{SELFTESTS}/params.sh': r'\bNAME\b',
        f'{SELFTESTS}/boot.sh': r'\bvalue:NAME\b',
        'tests/guests.py': "'NAME="}),
    'scope': ('numa', {
        'kernel/workqueue/attrs.c': '"NAME"',
        'scripts/wqlab/scopes.py': "'NAME'",
        'lib/cmwq/wqbench_params.c': '"NAME"',
        'lib/cmwq/wqtorture_chaos.c': '"NAME"',
        f'{SELFTESTS}/lib.sh': r'^SCOPES=.*\bNAME\b',
        'tools/workqueue/wqtools/picture.py': "'NAME'",
        'tools/workqueue/json.rst': '``"NAME"``',
        f'{DOCUMENTS}-admin.rst': '``NAME``'}),
}
WORKLOAD = '''# SPDX-License-Identifier: GPL-2.0
"""FILL IN: what runs, and which workqueues it uses. The name of a case is FILL IN."""
import contextlib
import time
from collections.abc import Iterator

from wqlab.workload import cases


class Place:
    def measure(self, case: str, seconds: float) -> tuple[str, dict[str, float]]:
        calls, begin = 0, time.monotonic()
        while time.monotonic() < begin + seconds:
            calls += 1      # FILL IN: what is measured, and whether its data are right
        return 'calls/s', {'rate': calls / seconds}

    def check_again(self) -> None:
        """FILL IN: what has to be the same after the place was out of use."""


@contextlib.contextmanager
def opened(group: str, cpus: int, spoil: str | None) -> Iterator[Place]:
    yield Place()       # FILL IN: make the disk or the file system, and let `spoil` damage it


WORKLOAD = cases.Workload(
    name='NAME', what='FILL IN', latency='FILL IN', columns=(), names=lambda cpus: ['one'], opened=opened,
    sets={'quick': ('*',), 'default': ('*',)})
'''


def named(text: str, name: str) -> str:
    return text.replace('NAME', name).replace('STEM', name.replace('-', ''))


def lines_with(place: str, pattern: str, name: str) -> list[str]:
    """Return the lines of a place that name this one."""
    return [line.strip() for path in sorted(ROOT.glob(named(place, name))) for line in path.read_text().splitlines()
            if re.search(named(pattern, name), line)]


def remaining(kind: str, name: str) -> list[str]:
    """Return a line for each place that lacks the name, and for each one to be filled in."""
    example, places = PLACES[kind]
    lacking = [f'{named(place, name)}: as {lines_with(place, pattern, example)[0]}'
               for place, pattern in places.items() if not lines_with(place, pattern, name)]
    return lacking + [f'{named(place, name)}: {line}' for place in places if named(place, name) != place
                      for line in lines_with(place, FILL, name)]


def begin(kind: str, name: str) -> None:
    """Write the files of a new one, if its kind has files of its own."""
    path = ROOT / named(next(iter(PLACES[kind][1])), name)
    if path.exists() or kind in ('parameter', 'scope'):
        return
    if kind == 'workload':
        files.write(path, named(WORKLOAD, name))
    elif kind == 'machine':
        text = re.sub('#.*', f'# {FILL}: the source', (ROOT / f'{MACHINES}/vm8.toml').read_text())
        files.write(path, re.sub('^about = .*', f'about = "{FILL}"', text, flags=re.M))
    else:
        like = ROOT / 'patches' / kinds.LINUX
        text = re.sub('"[^"]*"', f'"{FILL}"', like.with_name(f'{kinds.LINUX}.toml').read_text())
        files.write(path, text.replace(kinds.LINUX, name))
        shutil.copytree(like, path.with_name(name))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('kind', choices=PLACES)
    parser.add_argument('name')
    args = parser.parse_args(argv)
    if not re.fullmatch(r'[0-9]+\.[0-9]+' if args.kind == 'base' else '[a-z][a-z0-9_-]*', args.name):
        raise Failure(f'{args.name} is no name of a {args.kind}')
    begin(args.kind, args.name)
    print('\n'.join(remaining(args.kind, args.name)) or 'nothing remains')
    return 0

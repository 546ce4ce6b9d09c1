# SPDX-License-Identifier: GPL-2.0
"""Remove what was built.

usage: scripts/lab clean

The base tree, downloads, build/venv and results of measurements (build/bench,
build/workload) stay. To remove them too, delete build/ yourself. While a build, a guest, a
measurement or a test runs, nothing is removed.
"""
import argparse
import contextlib
import shutil

from wqlab.kernels.kinds import ENGINES
from wqlab.paths import BUILD
from wqlab.steps import locked, sayer

say = sayer('clean')
BUILT = (*(f'{engine}-*-[0-9]*' for engine in ENGINES), 'module-*', 'dkms', 'deb', 'deb-*', 'headers-*', 'others',
         'series-*', 'tree-*', 'mutant-*', '.stage-*', '.series-*', '.dkms-*', '.guest', 'log')


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    with contextlib.ExitStack() as held:
        for lock in sorted(BUILD.glob('.lock-*')):
            held.enter_context(locked(lock.name.removeprefix('.lock-'), wait=False))
        for path in sorted({path for pattern in BUILT for path in BUILD.glob(pattern)}):
            say(f'removing build/{path.name}')
            shutil.rmtree(path)
    return 0

# SPDX-License-Identifier: GPL-2.0
"""Remove what was built.

usage: scripts/lab clean

The base tree, downloads, build/venv and results of measurements (build/bench,
build/workload) stay. To remove them too, delete build/ yourself.
"""
import argparse
import shutil

from wqlab.kernels.kinds import ENGINES
from wqlab.paths import BUILD
from wqlab.steps import sayer

say = sayer('clean')
BUILT = (*(f'{engine}-*-[0-9]*' for engine in ENGINES), 'module-*', 'dkms', 'deb', 'deb-*', 'headers-*', 'others',
         'series-*', 'tree-*', 'mutant-*', '.stage-*', '.series-*', '.dkms-*', '.guest', 'log')


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    for path in sorted({path for pattern in BUILT for path in BUILD.glob(pattern)}):
        say(f'removing build/{path.name}')
        shutil.rmtree(path)
    return 0

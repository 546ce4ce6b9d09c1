# SPDX-License-Identifier: GPL-2.0
"""Tests that take hours: torture in every configuration, and whether the tests catch known bugs."""
import subprocess

import pytest

import builds
import guests
import mutants
from once import once
from wqlab import tap
from wqlab.kernels import kinds
from wqlab.torture import matrix

pytestmark = pytest.mark.tier('all')
TORTURE_S = 60
# Bugs with the same control follow each other.
BUGS = sorted(mutants.bugs(), key=lambda bug: bug.group)


def entry_case(entry):
    return pytest.param(entry.name, id=entry.name,
                        marks=guests.needs(entry.engine, entry.config, linux=kinds.LINUX))


@pytest.mark.parametrize('name', [entry_case(entry) for entry in matrix.MATRIX])
def test_torture_in_every_configuration(name):
    lines = []
    command = ['scripts/lab', 'matrix', '--variant', guests.VARIANT, '--duration', str(TORTURE_S), '--again', name]
    with builds.without_unfit(kinds.LINUX), \
            subprocess.Popen(command, cwd=guests.ROOT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT) as child:
        for line in child.stdout:
            guests.say(line.rstrip())
            lines.append(line.rstrip())
    assert child.returncode == 0, '\n'.join(lines[-40:])


@once
def limit_of(group):
    """Run the test of a group of bugs without a bug. Return the limit for it with a bug."""
    guests.kernel(group[0], variant='cmwq', linux=kinds.LINUX)
    mutants.prepare_tree()
    return mutants.control(group, mutants.TORTURE_S)


@pytest.mark.parametrize('bug', [pytest.param(bug, id=bug.name, marks=guests.needs(
    bug.engine, variant='cmwq', linux=kinds.LINUX)) for bug in BUGS])
def test_known_bug_is_caught(bug, report_points):
    if guests.VARIANT == 'base':
        report_points([tap.Point(bug.name, True, 'the base kernel has none of these bugs', skipped=True)])
        return
    catch = mutants.attempt(bug, mutants.TORTURE_S, limit_of(bug.group))
    mutants.say(f'{bug.name}: {mutants.verdict(bug, catch)}')
    assert catch.why, f'NOT CAUGHT: {bug.what}'

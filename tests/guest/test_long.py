# SPDX-License-Identifier: GPL-2.0
"""Tests that take hours: torture in every configuration, and whether the tests catch known bugs."""
import os
import re
import subprocess
import sys

import pytest

import guests
import mutants
from wqlab import tap

pytestmark = [guests.needs('qemu'), pytest.mark.tier('all')]


def lines_of(command, **env):
    """Run a command and print its output at once. Return the output and the status."""
    lines = []
    with subprocess.Popen(command, cwd=guests.ROOT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, **env}) as child:
        for line in child.stdout:
            guests.say(line.rstrip())
            lines.append(line.rstrip())
    return lines, child.returncode


def test_torture_in_every_configuration():
    lines, status = lines_of(['scripts/lab', 'matrix', '--variant', guests.VARIANT, '--duration', '60', '--again'])
    assert status == 0, '\n'.join(lines[-40:])


def points_of(lines, names):
    """Report a point for each bug: whether a test caught it in tests/byhand/mutants.py."""
    told = dict(match.groups() for line in lines if (match := re.search(r' \d+/\d+ (\S+): (.*)$', line)))
    return [tap.Point(name, told.get(name, 'NOT CAUGHT') != 'NOT CAUGHT', told.get(name, 'it was not tried'))
            for name in names]


def test_known_bugs_are_caught(report_points):
    if guests.VARIANT == 'base':
        report_points([tap.Point('known bugs', True, 'the base kernel has none of them', skipped=True)])
        return
    lines, status = lines_of([sys.executable, '-m', 'byhand.mutants', '--again'], PYTHONPATH='scripts:tests')
    report_points(points_of(lines, [bug.name for bug in mutants.bugs()]))
    assert status == 0, '\n'.join(lines[-40:])

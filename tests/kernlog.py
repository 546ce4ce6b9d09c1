# SPDX-License-Identifier: GPL-2.0
"""What a kernel's log says of a test.

A test that provokes a bad line announces it in the log with the line
"wq_selftest: expect: REGEX". "wq_selftest: expect end" ends the announcement. In between,
lines that match the expression are allowed, and at least one must appear.
"""
import re

from wqlab import tap
from wqlab.logs.check import BAD

EXPECT = re.compile(r'wq_selftest: expect: (.+)')
EXPECT_END = 'wq_selftest: expect end'
IN_VAIN = 'a test announced a line that did not come: '
# Before and after a finding. A report of a stall shows where each CPU and RCU's thread are.
LINES_BEFORE, LINES_AFTER = 10, 60


def findings(log):
    """
    Return the bad lines that no test announced, and the announcements that no line matched. Each is the number of a
    line and a text.
    """
    found, expected, seen, number = [], None, False, 0
    for number, line in enumerate(log.splitlines(), 1):
        announced = EXPECT.search(line)
        if announced or EXPECT_END in line:
            if expected and not seen:
                found.append((number, IN_VAIN + expected.pattern))
            expected, seen = re.compile(announced[1]) if announced else None, False
        elif expected and expected.search(line):
            seen = True
        elif BAD.search(line):
            found.append((number, line.strip()))
    if expected and not seen:
        found.append((number, IN_VAIN + expected.pattern))
    return found


def problems(log):
    """Return the findings of a kernel log, as texts."""
    return [f'line {number}: {text}' for number, text in findings(log)]


def report(log):
    """Return the findings, and the lines of the log around each, for someone who does not have the log."""
    found, lines = findings(log), log.splitlines()
    shown = {near for number, _ in found for near in range(number - LINES_BEFORE, number + LINES_AFTER + 1)}
    around = [f'{number}| {line}' for number, line in enumerate(lines, 1) if number in shown]
    return '\n'.join(problems(log) + around)


def parse_modules(log, may_skip=None):
    """Return the points of KUnit suites that are in modules.

    No plan says how many suites there are, and each suite has the number after that of the suite before, in whichever
    module that was. So there must be as many results as suites have begun.
    """
    begun = len(re.findall(r'^    # Subtest: ', log, re.M))
    return tap.parse(f'1..{begun}\n' + re.sub(r'^((?:not )?ok) \d+ ', r'\1 ', log, flags=re.M), may_skip)

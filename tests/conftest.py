# SPDX-License-Identifier: GPL-2.0
"""Counts test points: one for each case, or those that a case itself reports.

The sums go to the file that --tally names; tests/run.sh prints them last. What
could not run, be it skipped or broken in its set-up, counts as failed.
"""
from pathlib import Path

import pytest

from rebuilt import KERNELS

TALLY = pytest.StashKey()


class Tally:
    def __init__(self):
        self.passed = self.failed = 0
        self.points = {}        # node id -> [passed, failed]

    def pytest_runtest_logreport(self, report):
        passed, failed = self.points.get(report.nodeid, (0, 0))
        if report.when != 'call':
            self.failed += not report.passed
        elif not passed + failed:
            self.passed += report.passed
            self.failed += not report.passed
        else:
            self.passed += passed
            # A case may fail besides its points.
            self.failed += failed or (not report.passed)

    def pytest_collectreport(self, report):
        self.failed += report.failed


def pytest_addoption(parser):
    parser.addoption('--tally', help='where to write how many passed and failed')


def pytest_configure(config):
    config.stash[TALLY] = Tally()
    config.pluginmanager.register(config.stash[TALLY])
    config.pluginmanager.register(KERNELS)


def pytest_unconfigure(config):
    tally, path = config.stash.get(TALLY, None), config.getoption('--tally')
    if tally and path:
        Path(path).write_text(f'{tally.passed} {tally.failed}\n')


@pytest.fixture
def report_points(request):
    """Takes a list of tap.Point: counts each, and fails if one failed."""
    tally = request.config.stash[TALLY]

    def report(points):
        bad = [point for point in points if not point.ok]
        tally.points[request.node.nodeid] = [len(points) - len(bad), len(bad)]
        lines = [f'not ok: {point.name}' + ''.join(f'\n    {line}' for line in point.why.splitlines())
                 for point in bad]
        if bad:
            pytest.fail(f'{len(bad)} of {len(points)} points failed\n' + '\n'.join(lines), pytrace=False)
    return report

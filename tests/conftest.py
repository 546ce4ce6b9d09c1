# SPDX-License-Identifier: GPL-2.0
"""Which cases run, in which order, and how they are counted.

A case belongs to a tier (quick, test, all) by its mark `tier`; without one, those of
tests/host are quick and the others are of `test`. A run takes its tier and those before.
The mark `kernel` names the kernel that a case needs, and waits for: it is built in the
background while cases run that do without.

Points are counted: one for each case, or those that a case itself reports. The sums go
to the file that --tally names; tests/run.py prints them last. What could not run, be it
skipped or broken in its set-up, counts as failed; only a reported point may be skipped.
"""
import json
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

import builds
import junit
import progress
from rebuilt import KERNELS

TIERS = ('quick', 'test', 'all')
TALLY = pytest.StashKey()
HOST = Path(__file__).resolve().parent / 'host'


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.points = {}        # node id -> Counter of passed, failed, skipped
        self.left = Counter()   # tier -> cases that this run leaves to it

    def pytest_runtest_logreport(self, report):
        points = self.points.get(report.nodeid)
        if report.when != 'call':
            self.failed += not report.passed
        elif not points:
            self.passed += report.passed
            self.failed += not report.passed
        else:
            self.passed += points['passed']
            self.skipped += points['skipped']
            # A case may fail besides its points.
            self.failed += points['failed'] or (not report.passed)

    def pytest_collectreport(self, report):
        self.failed += report.failed

    def save(self, path):
        path.write_text(json.dumps({'passed': self.passed, 'failed': self.failed, 'skipped': self.skipped,
                                    'left': self.left}))


class Clock:
    """How long cases take, and what is left of them."""

    def __init__(self):
        self.durations = builds.RUN.durations
        self.cases = {}         # what has not run yet: node id -> its kernel
        self.begun = self.waited = 0.0

    def begin(self, items):
        self.cases = {item.nodeid: kernel_of(item) for item in items}
        progress.left = self.left
        progress.say(f'{len(items)} cases')

    def left(self):
        return self.durations.left(list(self.cases.items()), builds.RUN.remaining())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        begin, waited = time.monotonic(), builds.RUN.waited
        done = yield
        self.durations.note(item.nodeid, time.monotonic() - begin - (builds.RUN.waited - waited))
        self.cases.pop(item.nodeid, None)
        return done


def tier_of(item):
    mark = item.get_closest_marker('tier')
    return mark.args[0] if mark else 'quick' if HOST in item.path.parents else 'test'


def kernel_of(item):
    mark = item.get_closest_marker('kernel')
    return mark.args[0] if mark else None


def pytest_addoption(parser):
    parser.addoption('--tally', help='where to write how many passed and failed')
    parser.addoption('--tier', choices=TIERS, help='default: test, or all if a case is named')


def pytest_configure(config):
    config.addinivalue_line('markers', f'tier(NAME): runs from this tier on: {" ".join(TIERS)}')
    config.addinivalue_line('markers', 'kernel(KERNEL): the builds.Kernel that it needs')
    config.stash[TALLY] = Tally()
    config.pluginmanager.register(config.stash[TALLY])
    config.pluginmanager.register(KERNELS)
    # Guests and builds are taken down on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    named = any('::' in arg for arg in config.args)
    limit = TIERS.index(config.getoption('--tier') or ('all' if named else 'test'))
    later = [item for item in items if TIERS.index(tier_of(item)) > limit]
    config.stash[TALLY].left.update(map(tier_of, later))
    config.hook.pytest_deselected(items=later)
    kernels = [None]
    for item in items:
        if item not in later and kernel_of(item) not in kernels:
            kernels.append(kernel_of(item))
    # What needs no kernel runs while the first one is built.
    items[:] = sorted((item for item in items if item not in later), key=lambda item: kernels.index(kernel_of(item)))


def pytest_runtestloop(session):
    if session.config.option.collectonly:
        return
    for item in session.items:
        if kernel_of(item):
            builds.RUN.order(kernel_of(item))
    clock = Clock()
    session.config.pluginmanager.register(clock)
    clock.begin(session.items)


def pytest_runtest_setup(item):
    if kernel_of(item):
        builds.RUN.get(kernel_of(item))


def pytest_sessionfinish(session):
    builds.RUN.stop()
    progress.left = None
    if not session.config.option.collectonly and progress.LATEST.parent.is_dir():
        builds.RUN.durations.save()


def pytest_unconfigure(config):
    tally, path = config.stash.get(TALLY, None), config.getoption('--tally')
    if tally and path:
        tally.save(Path(path))


@pytest.fixture
def report_points(request):
    """Takes a list of tap.Point: counts each, and fails if one failed."""
    tally = request.config.stash[TALLY]

    def report(points):
        states = ['skipped' if point.skipped else 'passed' if point.ok else 'failed' for point in points]
        tally.points[request.node.nodeid] = Counter(states)
        request.node.user_properties += [junit.as_property(state, point.name, point.why)
                                         for state, point in zip(states, points, strict=True)]
        for point in points:
            if point.skipped:
                progress.say(f'SKIP {request.node.name}: {point.name}: {point.why}')
        bad = [point for point, state in zip(points, states, strict=True) if state == 'failed']
        lines = [f'not ok: {point.name}' + ''.join(f'\n    {line}' for line in point.why.splitlines())
                 for point in bad]
        if bad:
            pytest.fail(f'{len(bad)} of {len(points)} points failed\n' + '\n'.join(lines), pytrace=False)
    return report

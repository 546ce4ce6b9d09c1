# SPDX-License-Identifier: GPL-2.0
"""Select the cases of a run, order them, and count their results.

The mark `tier` puts a case into a tier: quick, test or all. Without the mark, cases in
tests/host are in tier quick and all others in tier test. A run includes its tier and the
smaller ones. The mark `kernel` names the kernel that a case needs. Kernels are built in the
background while cases run that need none. The mark `job` names a guest whose result a case
needs. These guests are booted in the background, too, so these cases come last.

Results are counted in points. A case counts as one point, unless it reports its own points.
The sums go to the file that --tally names, and tests/run.py prints them last. A case that
is skipped or whose set-up fails counts as failed. Only a reported point may be skipped.
"""
import contextlib
import io
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import background
import builds
import junit
import progress
import resume
from wqlab.kernels import kinds, tree
from wqlab.steps import Failure

TIERS = ('quick', 'test', 'all')
TALLY = pytest.StashKey['Tally']()
NOTES = pytest.StashKey[resume.Notes]()
HOST = Path(__file__).resolve().parent / 'host'


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.points = {}        # node id -> Counter of passed, failed, skipped
        self.left = Counter()   # tier -> number of cases that this run leaves to that tier

    def pytest_runtest_logreport(self, report):
        points = self.points.get(report.nodeid)
        if report.when != 'call':
            self.failed += not report.passed
        elif not points:
            self.passed += report.passed
            self.failed += not report.passed
        else:
            self.add(points)
            # A case may fail although all its points passed.
            self.failed += not points['failed'] and not report.passed

    def add(self, points):
        self.passed += points['passed']
        self.failed += points['failed']
        self.skipped += points['skipped']

    def pytest_collectreport(self, report):
        self.failed += report.failed

    def save(self, path):
        path.write_text(json.dumps({'passed': self.passed, 'failed': self.failed, 'skipped': self.skipped,
                                    'left': self.left}))


class Clock:
    """Measures how long cases take, and estimates the remaining time."""

    def __init__(self):
        self.durations = builds.RUN.durations
        self.cases = {}         # cases that have not run yet: node id -> what it waits for

    def begin(self, items):
        self.cases = {item.nodeid: job_of(item) or kernel_of(item) for item in items}
        progress.left = self.left
        progress.say(f'{len(items)} cases')

    def left(self):
        return self.durations.left(list(self.cases.items()), builds.RUN.remaining(), background.RUN.remaining())

    @staticmethod
    def waited():
        return builds.RUN.waited + background.RUN.waited

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        begin, waited = time.monotonic(), self.waited()
        done = yield
        self.durations.note(item.nodeid, time.monotonic() - begin - (self.waited() - waited))
        self.cases.pop(item.nodeid, None)
        return done


def tier_of(item):
    mark = item.get_closest_marker('tier')
    return mark.args[0] if mark else 'quick' if HOST in item.path.parents else 'test'


def kernel_of(item):
    mark = item.get_closest_marker('kernel')
    return mark.args[0] if mark else None


def job_of(item):
    mark = item.get_closest_marker('job')
    return mark.args[0] if mark else None


def left_out(items):
    """Return the cases whose kernels do not exist in the release that LINUX= names, and say so. They count as skipped.

    With the default release this does not happen, so each case there runs or fails.
    """
    if builds.LINUX == kinds.LINUX:
        return []
    whys = {}
    for item in items:
        kernel = kernel_of(item)
        try:
            if kernel:
                kinds.Kind.of(kernel.engine, kernel.variant, kernel.config, kernel.linux)
        except Failure as error:
            whys[item] = str(error)
    for why, cases in Counter(whys.values()).items():
        progress.say(f'SKIP {cases} cases: {why}')
    return list(whys)


def pytest_addoption(parser):
    parser.addoption('--tally', help='file for the numbers of passed and failed points')
    parser.addoption('--tier', choices=TIERS, help='cases to run; default: test, or all if a case is named')
    parser.addoption('--resume', action='store_true', help='leave out the cases that passed in the last run')


def pytest_configure(config):
    config.addinivalue_line('markers', f'tier(NAME): runs from this tier on: {" ".join(TIERS)}')
    config.addinivalue_line('markers', 'kernel(KERNEL): the builds.Kernel that it needs')
    config.addinivalue_line('markers', 'job(JOB): the background.Job whose result it needs')
    config.stash[TALLY] = Tally()
    config.pluginmanager.register(config.stash[TALLY])
    config.stash[NOTES] = resume.Notes(config.stash[TALLY], config.getoption('--resume'))
    config.pluginmanager.register(config.stash[NOTES])
    # The exception makes the cleanup code end guests and builds.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    named = any('::' in arg for arg in config.args)
    for item in items:
        if HOST in item.path.parents and (kernel_of(item) or job_of(item)):
            raise pytest.UsageError(f'{item.nodeid} needs a kernel: move it to tests/guest')
    limit = TIERS.index(config.getoption('--tier') or ('all' if named else 'test'))
    later = [item for item in items if TIERS.index(tier_of(item)) > limit]
    config.stash[TALLY].left.update(map(tier_of, later))
    impossible = left_out([item for item in items if item not in later])
    config.stash[TALLY].skipped += len(impossible)
    later += impossible
    config.hook.pytest_deselected(items=later)
    before = config.stash[NOTES].passed([item for item in items if item not in later])
    config.hook.pytest_deselected(items=before)
    later += before
    kernels = [None]
    for item in items:
        if item not in later and kernel_of(item) not in kernels:
            kernels.append(kernel_of(item))
    # Cases that need no kernel run while the first kernel is built, those that need no job while jobs run.
    items[:] = sorted((item for item in items if item not in later),
                      key=lambda item: (job_of(item) is not None, kernels.index(kernel_of(item))))


def pytest_runtestloop(session):
    if session.config.option.collectonly:
        return
    for item in session.items:
        if kernel_of(item):
            builds.RUN.order(kernel_of(item))
        if job_of(item):
            background.RUN.order(job_of(item))
    session.config.stash[NOTES].begin()
    clock = Clock()
    session.config.pluginmanager.register(clock)
    clock.begin(session.items)


def pytest_runtest_setup(item):
    if kernel_of(item):
        builds.RUN.get(kernel_of(item))


def pytest_sessionfinish(session):
    background.RUN.stop()
    builds.RUN.stop()
    progress.left = None
    if not session.config.option.collectonly and progress.LATEST.parent.is_dir():
        builds.RUN.durations.save()


def pytest_unconfigure(config):
    tally, path = config.stash.get(TALLY, None), config.getoption('--tally')
    if tally and path:
        tally.save(Path(path))
    results = config.getoption('xmlpath')
    if results and Path(results).exists():
        junit.show_points(results)


@pytest.fixture
def report_points(request):
    """Return a function that counts a list of tap.Point, and fails if one of them failed."""
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


@pytest.fixture(autouse=True)
def host(request, monkeypatch):
    """
    Cases in tests/host are about the default release, or name another one themselves: hide that of the run. They need
    no kernel, and build none. They may use the composed source tree.
    """
    if HOST not in request.path.parents:
        return
    for name in ('LINUX', *builds.unfit(kinds.LINUX)):
        monkeypatch.delenv(name, raising=False)
    environments = [os.environ, *([sys.modules['calls'].CLEAN_ENV] if 'calls' in sys.modules else [])]
    for environment in environments:
        monkeypatch.setitem(environment, 'WQLAB_NO_BUILDS', '1')
    monkeypatch.setattr(builds.RUN, 'get', lambda _: pytest.fail('a case in tests/host wants a kernel'))


@pytest.fixture(scope='session')
def composed():
    """Make sure that the composed tree is there."""
    tree.compose()


@pytest.fixture
def quiet():
    """Drop what a case prints. Pytest does not capture it, since tests/run.py starts pytest with -s."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield

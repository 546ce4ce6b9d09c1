# SPDX-License-Identifier: GPL-2.0
"""Select the cases of a run, order them, and count their results.

The mark `tier` puts a case into a tier: quick, test, more or all. Without the mark, cases in
tests/host are in tier quick and all others in tier test. A run includes its tier and the
smaller ones, without those up to the tier that --after names.

The mark `kernel` names the kernel that a case needs. Kernels are built in the background while
cases run that need none. The mark `job` names a guest whose result a case needs. These guests
are booted in the background, too, so these cases come last.

Results are counted in points. A case counts as one point, unless it has subtests: then these
count. A case that is skipped or whose set-up fails counts as failed. Only a subtest may be
skipped. The sums are the last line of a run.
"""
import contextlib
import io
import os
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import background
import builds
import progress
from wqlab.kernels import kinds, tree
from wqlab.steps import Failure

TIERS = {'quick': 'make test-quick', 'test': 'make test', 'more': 'make test-more', 'all': 'make test-all'}
TALLY = pytest.StashKey['Tally']()
HOST = Path(__file__).resolve().parent / 'host'


class Tally:
    def __init__(self):
        self.sums = Counter()       # of passed, failed, skipped
        self.points = defaultdict(Counter)      # node id -> the same of its subtests
        self.left = Counter()       # tier -> number of cases that this run leaves to that tier
        self.bad = set()
        self.unfinished = {}        # cases that have not passed, as pytest notes those that failed

    def pytest_runtest_logreport(self, report):
        points = self.points[report.nodeid]
        if isinstance(report, pytest.SubtestReport):
            points[report.outcome] += 1
            self.sums[report.outcome] += 1
        elif report.when != 'call':
            self.sums['failed'] += not report.passed
        elif not points:
            self.sums['passed' if report.passed else 'failed'] += 1
        else:       # it may fail although all its subtests passed
            self.sums['failed'] += not points['failed'] and not report.passed
        if report.failed:
            self.bad.add(report.nodeid)
        elif report.when == 'teardown' and report.nodeid not in self.bad:
            self.unfinished.pop(report.nodeid, None)

    def pytest_collectreport(self, report):
        self.sums['failed'] += report.failed

    def line(self):
        return f'{self.sums["passed"]} passed, {self.sums["failed"]} failed' + \
            (f', {self.sums["skipped"]} skipped' if self.sums['skipped'] else '')


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
    parser.addoption('--tier', choices=TIERS, help='cases to run; default: test, or all if a case is named')
    parser.addoption('--after', choices=TIERS, help='leave out the cases of this tier and of the smaller ones')


def pytest_configure(config):
    config.addinivalue_line('markers', f'tier(NAME): runs from this tier on: {" ".join(TIERS)}')
    config.addinivalue_line('markers', 'kernel(KERNEL): the builds.Kernel that it needs')
    config.addinivalue_line('markers', 'job(JOB): the background.Job whose result it needs')
    config.stash[TALLY] = Tally()
    config.pluginmanager.register(config.stash[TALLY])
    # The exception makes the cleanup code end guests and builds.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    named = any('::' in arg for arg in config.args)
    for item in items:
        if HOST in item.path.parents and (kernel_of(item) or job_of(item)):
            raise pytest.UsageError(f'{item.nodeid} needs a kernel: move it to tests/guest')
    order = list(TIERS)
    limit = order.index(config.getoption('--tier') or ('all' if named else 'test'))
    after = config.getoption('--after')
    wanted = [item for item in items if (order.index(after) if after else -1) < order.index(tier_of(item)) <= limit]
    config.stash[TALLY].left.update(tier_of(item) for item in items if order.index(tier_of(item)) > limit)
    impossible = set(left_out(wanted))
    config.stash[TALLY].sums['skipped'] += len(impossible)
    wanted = [item for item in wanted if item not in impossible]
    chosen = set(wanted)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    kernels = [None, *dict.fromkeys(kernel for kernel in map(kernel_of, wanted) if kernel)]
    # Cases that need no kernel run while the first kernel is built, those that need no job while jobs run.
    items[:] = sorted(wanted, key=lambda item: (job_of(item) is not None, kernels.index(kernel_of(item))))


def pytest_runtestloop(session):
    if session.config.option.collectonly:
        return
    for item in session.items:
        if kernel_of(item):
            builds.RUN.order(kernel_of(item))
        if job_of(item):
            background.RUN.order(job_of(item))
    session.config.stash[TALLY].unfinished = {item.nodeid: True for item in session.items}
    progress.say(f'{len(session.items)} cases')


def pytest_runtest_setup(item):
    if kernel_of(item):
        builds.RUN.get(kernel_of(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    background.RUN.stop()
    builds.RUN.stop()
    done = yield
    if session.config.option.collectonly:
        return done
    tally, cache = session.config.stash[TALLY], getattr(session.config, 'cache', None)     # -p no:cacheprovider
    # Count a failure if nothing ran, if the run was interrupted, or if pytest itself failed.
    if not tally.sums['failed'] and (exitstatus or not tally.sums['passed']):
        tally.sums['failed'] = 1
    session.exitstatus = int(tally.sums['failed'] > 0)
    # What an interrupted run has left out is for --lf, too.
    if cache:
        cache.set('cache/lastfailed', {**cache.get('cache/lastfailed', {}), **tally.unfinished})
    for name, cases in tally.left.items():
        progress.say(f'{cases} cases were left to `{TIERS[name]}`')
    print(tally.line(), flush=True)
    return done


@pytest.fixture
def report_points(request, subtests):
    """Return a function that makes a subtest of each tap.Point."""
    def report(points):
        for point in points:
            with subtests.test(point.name):
                if point.skipped:
                    progress.say(f'SKIP {request.node.name}: {point.name}: {point.why}')
                    pytest.skip(point.why)
                if not point.ok:
                    pytest.fail(f'not ok: {point.name}\n{point.why}', pytrace=False)
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
    """Drop what a case prints. Pytest does not capture it, since tests/run.sh starts pytest with -s."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield

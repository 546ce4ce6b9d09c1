# SPDX-License-Identifier: GPL-2.0
"""tests/run.sh: which cases run, how they are counted, and how skipped ones are reported."""
import fcntl
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import builds
import progress
from suites import Suite


@pytest.fixture
def suite(tmp_path):
    return Suite(tmp_path)


# Counting

POINTS = '''from wqlab.tap import parse
def test_a(report_points):
    report_points(parse("1..3\\nok 1 one\\n{}ok 2 two\\nok 3 three{}\\n", {!r}))
'''
PLAIN = POINTS.format('', '', None)


@pytest.mark.parametrize('text, status, line', [
    ('def test_a(): pass\ndef test_b(): pass\n', 0, '2 passed, 0 failed'),
    ('def test_a(): pass\ndef test_b(): assert 0\n', 1, '1 passed, 1 failed'),
    ('import pytest\ndef test_a(): pytest.skip("no")\ndef test_b(): pass\n', 1, '1 passed, 1 failed'),
    ('import pytest\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pass\n', 1, '1 passed, 1 failed'),
    ('import pytest\n@pytest.mark.xfail\ndef test_a(): assert 0\ndef test_b(): pass\n', 1, '1 passed, 1 failed'),
    ('import pytest\n@pytest.fixture\ndef f(): 1 / 0\ndef test_a(f): pass\n', 1, '0 passed, 1 failed'),
    ('import nothing_of_that_name\n', 1, '0 passed, 1 failed'),
    ('', 1, '0 passed, 1 failed'),
    (PLAIN, 0, '3 passed, 0 failed'),
    (POINTS.format('not ', '', None), 1, '2 passed, 1 failed'),
    (PLAIN + '    assert 0\n', 1, '3 passed, 1 failed'),
    # A point that is skipped for an expected reason counts as skipped. Otherwise it fails.
    (POINTS.format('', ' # SKIP one CPU', 'one CPU'), 0, '2 passed, 0 failed, 1 skipped'),
    (POINTS.format('', ' # SKIP no module', 'one CPU'), 1, '2 passed, 1 failed'),
    (POINTS.format('', ' # SKIP one CPU', None), 1, '2 passed, 1 failed'),
    ('import os\ndef test_a(): os._exit(0)\n', 1, ''),
])
def test_count(suite, text, status, line):
    assert suite(text) == (status, line)


def test_results_of_an_earlier_run_do_not_count(suite):
    assert suite('def test_a(): pass\n') == (0, '1 passed, 0 failed')
    assert suite('import os\ndef test_a(): os._exit(0)\n') == (1, '')
    assert not (suite.place / 'build/test/junit.xml').exists()


def test_a_skipped_point_says_why(suite):
    suite.write('tests/test_it.py', POINTS.format('', ' # SKIP one CPU', 'one CPU'))
    assert re.search(r'^test: SKIP test_a: three: one CPU', suite.run().err, re.M)


def test_cases_whose_kernel_a_release_does_not_have(suite):
    (suite.place / 'patches/6.12').mkdir(parents=True)
    suite.write('tests/test_it.py', 'import builds, pytest\ndef test_host(): pass\n'
                '@pytest.mark.kernel(builds.Kernel("uml"))\ndef test_guest(): assert 0, "it ran"\n')
    done = suite.run(LINUX='6.12')
    assert done.returncode == 0 and done.out.splitlines()[-1] == '1 passed, 0 failed, 1 skipped', done.out
    reason = r'^test: SKIP 1 cases: LINUX=6\.12: UML has one CPU before 6\.19: '
    assert re.search(reason, done.err, re.M), done.err


@pytest.mark.parametrize('linux, seen', [('6.12', 'None None'), ('7.3', 'None /a/tree')])
def test_a_base_tree_is_for_the_release_of_the_run(suite, linux, seen):
    """KERNEL_SRC= of another release must not reach cases and builds of the default release."""
    suite.write('tests/host/test_it.py', '''import os
def test_a():
    assert f'{os.environ.get("LINUX")} {os.environ.get("KERNEL_SRC")}' == 'SEEN'
'''.replace('SEEN', seen))
    suite.write('tests/test_other.py', '''import builds, os
def test_b():
    with builds.without_unfit('7.3'):
        assert str(os.environ.get('KERNEL_SRC')) == 'SEEN'
    assert os.environ['KERNEL_SRC'] == '/a/tree'
'''.replace('SEEN', seen.split()[1]))
    done = suite.run(LINUX=linux, KERNEL_SRC='/a/tree')
    assert done.out.splitlines()[-1] == '2 passed, 0 failed', done.out


def test_unknown_variant(suite):
    status, _ = suite('def test_a(): pass\n', VARIANT='mine')
    assert status


def test_unknown_option(suite):
    status, line = suite('def test_a(): pass\n', '--no-such-option')
    assert status and 'passed, 0 failed' not in line


def test_help(suite):
    done = suite.run('--help')
    assert done.returncode == 0 and 'tests/run.sh' in done.out and not done.err


# Tiers

TIERED = '''import pytest
def test_plain(): pass
@pytest.mark.tier('quick')
def test_quick(): pass
@pytest.mark.tier('all')
@pytest.mark.parametrize('number', range(3))
def test_long(number): pass
'''


@pytest.mark.parametrize('args, passed, left', [
    (['--tier', 'quick'], 2, {'make test': 1, 'make test-all': 3}),
    ([], 3, {'make test-all': 3}),
    (['-k', 'long or quick'], 1, {'make test-all': 3}),
    (['--tier', 'all'], 6, {}),
    (['tests/test_it.py'], 2, {'make test-all': 3}),
    (['./tests/test_it.py'], 2, {'make test-all': 3}),
    (['./tests/test_it.py', '--tier', 'all'], 5, {}),
    (['tests/test_it.py::test_long'], 3, {}),
    (['tests/host'], 1, {}),
])
def test_tiers(suite, args, passed, left):
    """A run reports the cases that it leaves out, and the target that runs them. A named case always runs."""
    suite.write('tests/test_it.py', TIERED)
    suite.write('tests/host/test_host.py', 'def test_host(): pass\n')
    done = suite.run(*args)
    assert done.out.splitlines()[-1] == f'{passed} passed, 0 failed' and done.returncode == 0
    told = re.findall(r'^run: (\d+) cases were left to `(.*)`$', done.err, re.M)
    assert {target: int(cases) for cases, target in told} == left


def test_a_case_of_the_host_cannot_need_a_kernel(suite):
    suite.write('tests/host/test_host.py', WITH_KERNEL)
    done = suite.run()
    assert done.returncode == 1 and 'tests/host/test_host.py::test_guest needs a kernel: move it' in done.err + done.out


# What pytest remembers

def test_last_failed(suite):
    text = 'def test_a(): pass\ndef test_b(): assert 0\n'
    assert suite(text) == (1, '1 passed, 1 failed') and suite(text, '--lf') == (1, '0 passed, 1 failed')
    assert (suite.place / 'build/.pytest_cache').is_dir() and not (suite.place / '.pytest_cache').exists()


def test_stepwise(suite):
    text = 'def test_a(): pass\ndef test_b(): assert {}\ndef test_c(): pass\n'
    assert suite(text.format(0), '--stepwise') == (1, '1 passed, 1 failed')
    assert suite(text.format(1), '--stepwise') == (0, '2 passed, 0 failed')


# Kernels and their builds

WITH_KERNEL = '''import builds, pytest, time
KERNEL = builds.Kernel('uml')
@pytest.mark.kernel(KERNEL)
def test_guest():
    pass
def test_host(): pass
'''


def test_host_cases_run_while_the_kernel_is_built(suite):
    suite.write('scripts/lab', '#!/bin/sh\nuntil [ -e build/host-ran ]; do sleep 0.1; done\n')
    suite.write('tests/test_it.py', 'import builds, pytest\n@pytest.mark.kernel(builds.Kernel("uml"))\n'
                "def test_guest(): pass\ndef test_host(): open('build/host-ran', 'w')\n")
    assert suite.run().out.splitlines()[-1] == '2 passed, 0 failed'


def test_build_fails(suite):
    """The build is tried once, even if several cases need the kernel. All fail and show the reason."""
    suite.write('scripts/lab', '#!/bin/sh\necho tried >>build/tries; echo no compiler >&2; exit 3\n')
    suite.write('tests/test_it.py', WITH_KERNEL.replace('def test_guest', 'def test_other(): pass\n'
                '@pytest.mark.kernel(KERNEL)\ndef test_guest'))
    done = suite.run()
    assert done.out.splitlines()[-1] == '1 passed, 2 failed' and 'no compiler' in done.out
    assert (suite.place / 'build/tries').read_text() == 'tried\n'


WITH_GUEST = '''import background, builds, guest_job, os, pytest, time
from wqlab import cpus
JOB = background.Job('guest x', builds.Kernel('uml'), guest_job.start)
@pytest.mark.job(JOB)
@pytest.mark.kernel(JOB.kernel)
@pytest.mark.parametrize('number', range(2))
def test_of_guest(number):
    assert background.RUN.get(JOB) == 'result'
@pytest.mark.kernel(JOB.kernel)
def test_other(monkeypatch):
    monkeypatch.setenv('CHANGED', '1')
    monkeypatch.setattr(cpus, 'changed', True, raising=False)
    while not os.path.exists('build/boots'):
        time.sleep(0.05)
    open('build/other-ran', 'w')
    while not os.path.exists('build/looked'):
        time.sleep(0.05)
'''
GUEST_JOB = '''import os, progress, time
from wqlab import cpus
def start(folder):
    progress.say(f'x: booting {folder.name}')
    open('build/boots', 'a').write('booted\\n')
    time.sleep(0.4)     # long enough to be recorded
    deadline = time.monotonic() + 30
    while not os.path.exists('build/other-ran') and time.monotonic() < deadline:
        time.sleep(0.05)
    open('build/looked', 'w').write(f'{os.environ.get("CHANGED")} {hasattr(cpus, "changed")}')
    START
'''


@pytest.mark.parametrize('start, line, why', [
    ("return 'result'", '3 passed, 0 failed', ''),
    ("raise OSError('no guest')", '1 passed, 2 failed', 'no guest'),
    ("print('last words', flush=True); os._exit(5)", '1 passed, 2 failed', 'guest x: its process ended with status 5'),
])
def test_other_cases_run_while_a_guest_runs(suite, start, line, why):
    """
    The guest is booted once and does not see what a case changes. If it cannot be booted, all cases that need it
    fail and show the reason.
    """
    suite.write('tests/guest_job.py', GUEST_JOB.replace('START', start))
    suite.write('tests/test_it.py', WITH_GUEST)
    done = suite.run()
    assert done.out.splitlines()[-1] == line and why in done.out
    assert (suite.place / 'build/boots').read_text() == 'booted\n'
    assert (suite.place / 'build/looked').read_text() == 'None False'
    assert re.search(r'^test: x: booting uml-cmwq-release-7.3 \(.* left\)$', done.err, re.M)
    kept = json.loads((suite.place / 'build/test/durations.json').read_text())
    assert ('guest x' in kept) == (not why)


def processes_of(place):
    """Return the processes that stay. On a busy host, one that was killed takes some time to end."""
    deadline = time.monotonic() + 10
    while True:
        found = subprocess.run(['pgrep', '-f', str(place)], capture_output=True, text=True, check=False).stdout.split()
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


HANGING_BUILD = '#!/bin/sh\ntouch build/begun; sh -c "sleep 300; : PLACE"\n'
HANGING_GUEST = '''from wqlab import procs
def start(folder):
    with procs.kept(['sh', '-c', 'touch build/begun; sleep 300; : PLACE']) as child:
        child.wait()
'''


@pytest.mark.parametrize('name, text, cases', [
    ('scripts/lab', HANGING_BUILD, WITH_KERNEL),
    ('tests/guest_job.py', HANGING_GUEST, WITH_GUEST.split('@pytest.mark.kernel(JOB.kernel)\ndef test_other')[0]),
], ids=['build', 'guest'])
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_told_to_end(suite, name, text, cases, number):
    """
    A signal ends the case, the build or guest in the background, and their children. The last line is printed.
    A terminal sends Ctrl-C to the whole group.
    """
    suite.write(name, text.replace('PLACE', str(suite.place)))
    suite.write('tests/test_it.py', cases)
    with suite.start(process_group=0) as child:
        deadline = time.monotonic() + 30
        while not (suite.place / 'build/begun').exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        try:
            assert (suite.place / 'build/begun').exists()
            (os.killpg if number == signal.SIGINT else os.kill)(child.pid, number)
            out, _ = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 1 and re.fullmatch(r'\d passed, 1 failed', out.splitlines()[-1])
    assert not processes_of(suite.place)


# Two runs

def test_a_second_run_waits(suite):
    suite.write('tests/test_it.py', 'def test_a(): pass\n')
    (suite.place / 'build/test').mkdir()
    with open(suite.place / 'build/test/.lock', 'w') as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with suite.start() as child:
            assert 'waiting for another run of the tests' in child.stderr.readline()
            assert not (suite.place / 'build/test/tally.json').exists() and child.poll() is None
            fcntl.flock(held, fcntl.LOCK_UN)
            out, _ = child.communicate(timeout=60)
    assert out.splitlines()[-1] == '1 passed, 0 failed'


OUTLIVES = '''import os, pathlib, time
NOTE = pathlib.Path(__file__).parent.parent / "build/pid"
def test_a():
    if not NOTE.exists():
        NOTE.with_suffix(".new").write_text(str(os.getpid()))
        NOTE.with_suffix(".new").rename(NOTE)
        time.sleep(100)
'''


def test_a_second_run_waits_for_the_pytest_of_a_killed_one(suite):
    suite.write('tests/test_it.py', OUTLIVES)
    note = suite.place / 'build/pid'
    with suite.start() as first:
        deadline = time.monotonic() + 60
        while not note.exists():
            assert first.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        first.kill()
    with suite.start() as second:
        said = second.stderr.readline()
        os.kill(int(note.read_text()), signal.SIGKILL)
        out, _ = second.communicate(timeout=60)
    assert 'waiting for another run of the tests' in said
    assert out.splitlines()[-1] == '1 passed, 0 failed'


# Resuming

RESUMED = '''import pathlib, time, pytest
from wqlab.tap import parse
BUILD = pathlib.Path(__file__).parent.parent / "build"
def note(name):
    with open(BUILD / "ran", "a") as file:
        file.write(name)
def test_a(report_points):
    note("a")
    report_points(parse("1..2\\nok 1 one\\nok 2 two # SKIP one CPU\\n", "one CPU"))
def test_b():
    note("b")
@pytest.fixture
def ends_badly():
    yield
    assert (BUILD / "good").exists()
def test_c(ends_badly):
    note("c")
def test_d():
    note("d")
    if not (BUILD / "good").exists():
        (BUILD / "waits").touch()
        time.sleep(60)
'''


class Resumed:
    """A run of RESUMED in which test_c failed and test_d was interrupted."""

    def __init__(self, suite):
        self.suite = suite
        suite.write('tests/test_it.py', RESUMED)
        with suite.start() as child:
            while not (suite.place / 'build/waits').exists() and child.poll() is None:
                time.sleep(0.1)
            child.send_signal(signal.SIGTERM)
            child.communicate(timeout=60)
        assert self.ran() == 'abcd'
        (suite.place / 'build/good').touch()

    def ran(self):
        ran = self.suite.place / 'build/ran'
        names = ran.read_text() if ran.exists() else ''
        ran.unlink(missing_ok=True)
        return names

    def __call__(self, *args, **env):
        done = self.suite.run(*args, **env)
        assert done.returncode == 0, done.err
        return self.ran(), done.out.splitlines()[-1], done.err


@pytest.fixture
def resumed(suite):
    return Resumed(suite)


def test_resume_runs_what_did_not_pass(resumed):
    ran, line, told = resumed('--resume')
    assert (ran, line) == ('cd', '4 passed, 0 failed, 1 skipped') and '--resume: 2 cases have passed before' in told
    # Nothing is left, and that is no failure.
    assert resumed('--resume')[:2] == ('', '4 passed, 0 failed, 1 skipped')


def test_a_case_that_failed_runs_again(suite):
    suite.write('tests/test_it.py', '''import pathlib
def test_a(): pass
def test_b(): assert pathlib.Path('build/good').exists()
''')
    assert suite.run().out.splitlines()[-1] == '1 passed, 1 failed'
    (suite.place / 'build/good').touch()
    done = suite.run('--resume')
    assert done.out.splitlines()[-1] == '2 passed, 0 failed'
    assert '--resume: 1 cases have passed before' in done.err


def test_resume_of_a_part(resumed):
    assert resumed('--resume', '-k', 'test_b or test_c')[:2] == ('c', '2 passed, 0 failed')
    assert resumed('--resume')[:2] == ('d', '4 passed, 0 failed, 1 skipped')


def test_a_half_written_note_is_no_note(resumed):
    notes = resumed.suite.place / 'build/test/passed.jsonl'
    notes.write_text(notes.read_text()[:-5])
    assert resumed('--resume')[0] == 'bcd'


def test_without_resume_all_cases_run(resumed):
    assert resumed()[:2] == ('abcd', '4 passed, 0 failed, 1 skipped')


@pytest.mark.parametrize('change', [
    {'VARIANT': 'base'}, {'KERNEL_SRC': '/usr/src/linux'}, 'kernel/workqueue/pool.c', 'tests/test_other.py'])
def test_other_sources_or_settings_are_not_resumed(resumed, change):
    if isinstance(change, str):
        resumed.suite.write(change, '')
    ran, _, told = resumed('--resume', **(change if isinstance(change, dict) else {}))
    assert ran == 'abcd' and '--resume: no run with these sources and settings is noted' in told


# Time that is left

def test_time_left(tmp_path):
    """Cases run in turn. They wait for kernels, which are built in turn, and for guests, which run in turn."""
    (tmp_path / 'known').write_text(json.dumps({'a': 10, 'b': 20, 'c': 5}))
    durations = progress.Durations(tmp_path / 'known', tmp_path / 'latest')
    assert durations.left([('a', None), ('b', None)], []) == 30
    assert durations.left([('a', None), ('b', 'x')], [('x', None, 100)]) == 120
    kernels = [('x', None, 5), ('y', None, 40)]
    assert durations.left([('a', None), ('b', 'x'), ('c', 'y')], kernels) == 50
    assert durations.left([('a', None), ('b', 'x'), ('c', 'guest')], kernels, [('guest', 'y', 30)]) == 80
    durations.note('a', 40)
    durations.note('quick', 0.01)
    durations.save()
    again = progress.Durations(tmp_path / 'known', tmp_path / 'latest')
    assert (again.of('a'), again.of('b')) == (40, 20) and again.of('quick') < 0.1 and again.of('unknown') < 0.1


def test_time_of_what_never_ran_here(tmp_path):
    """A kernel takes about as long as other kernels, and a known bug as other bugs. Other cases are short."""
    bug = 'tests/guest/test_long.py::test_known_bug_is_caught'
    (tmp_path / 'known').write_text(json.dumps({
        'build a': 100, 'build b': 600, 'build c': 500, 'rebuild a': 9, f'{bug}[x]': 40, f'{bug}[y]': 60,
        'tests/guest/test_long.py::test_torture_in_every_configuration[uml]': 70}))
    of = progress.Durations(tmp_path / 'known', tmp_path / 'latest').of
    assert (of('build d'), of(f'{bug}[z]'), of(f'{bug}[x]')) == (500, 50, 40)
    assert of('rebuild d') < 0.1 and of('tests/host/test_it.py::test_a[x]') < 0.1


def test_time_left_while_others_note_theirs(tmp_path):
    """Builds and guests run in threads of their own. They note their time while a message says what is left."""
    known = {f'build known {number}': 1 for number in range(2000)}      # so that looking through them takes time
    (tmp_path / 'known').write_text(json.dumps(known))
    durations = progress.Durations(tmp_path / 'known', tmp_path / 'latest')
    done = threading.Event()

    def note():
        for number in itertools.takewhile(lambda number: not done.is_set(), itertools.count()):
            durations.note(f'build {number}', 1)

    noting = threading.Thread(target=note)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        noting.start()
        assert {durations.of('build unknown') for _ in range(50)} == {1}
        durations.save()
    finally:
        done.set()
        noting.join()
        sys.setswitchinterval(interval)
    assert set(json.loads((tmp_path / 'latest').read_text()).values()) == {1}


@pytest.mark.parametrize('seconds, words', [(0, 'less than a minute'), (50, 'about 1 min'), (620, 'about 10 min')])
def test_words(seconds, words):
    assert progress.words(seconds) == words


def test_durations_are_kept_and_told(suite):
    suite.write('tests/durations.json', json.dumps({'tests/test_it.py::test_a': 600}))
    suite.write('tests/test_it.py', 'import time\ndef test_a(): time.sleep(0.5)\n')
    assert 'test: 1 cases (about 10 min left)' in suite.run().err
    kept = json.loads((suite.place / 'build/test/durations.json').read_text())
    assert 0.5 <= kept['tests/test_it.py::test_a'] < 30
    assert 'test: 1 cases (less than a minute left)' in suite.run().err


def test_files_of_a_run_are_replaced(suite):
    """They are not written in place, so a run that is killed while it writes leaves no half of one."""
    place = suite.place / 'build/test'
    suite('def test_a(): pass\n')
    for name in ('durations.json', 'passed.jsonl'):
        (place / f'old-{name}').hardlink_to(place / name)
    suite('def test_a(): pass\n')
    for name in ('durations.json', 'passed.jsonl'):
        assert not (place / name).samefile(place / f'old-{name}'), name


def test_background_builds_are_counted(tmp_path):
    known = tmp_path / 'known'
    kernel = builds.Kernel('uml', variant='cmwq', linux='9.9')
    known.write_text(json.dumps({'build uml-cmwq-release-9.9': 300, 'rebuild uml-cmwq-release-9.9': 20}))
    run = builds.Builds(progress.Durations(known, tmp_path / 'latest'))
    run.pool.shutdown()
    run.futures[kernel], run.names[kernel] = builds.Future(), 'build uml-cmwq-release-9.9'
    assert run.remaining() == [(kernel, None, 300)]
    run.futures[kernel].set_result(None)
    assert run.remaining() == []


# For a CI

def test_junit_shows_points(suite):
    suite(POINTS.format('not ', ' # SKIP one CPU', 'one CPU') + 'def test_b(): pass\n')
    cases, sums = suite.results()
    assert cases == {'test_a': 'failure', 'one': 'passed', 'two': 'failure', 'three': 'skipped', 'test_b': 'passed'}
    assert (sums['tests'], sums['failures'], sums['skipped'], sums['errors']) == ('5', '2', '1', '0')

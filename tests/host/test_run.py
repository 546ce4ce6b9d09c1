# SPDX-License-Identifier: GPL-2.0
"""tests/run.sh: which cases run, how they are counted, and how skipped ones are reported."""
import fcntl
import os
import re
import shutil
import signal
import subprocess

import pytest

import copied
from calls import HEARS_ALL, call, stub, wait_until
from wqlab.paths import ROOT

CLEAN_ENV = {key: value for key, value in os.environ.items() if key not in ('VARIANT', 'LINUX')}
COPIED = ('tests/run.sh', 'tests/conftest.py', 'tests/builds.py', 'tests/progress.py', 'tests/background.py',
          'pyproject.toml', 'patches/7.3.toml', 'patches/6.12.toml')


class Suite:
    """A copy of the test runner with a scripts/lab that builds nothing. It leaves the files of the real run alone."""

    def __init__(self, place):
        self.place = place
        copied.parts(place, 'scripts/wqlab', *COPIED)
        self.write('scripts/lab', '#!/bin/sh\nmkdir -p build/uml-cmwq-release-7.3\n')
        (place / 'scripts/lab').chmod(0o755)

    def write(self, name, text):
        (self.place / name).parent.mkdir(parents=True, exist_ok=True)
        (self.place / name).write_text(text)

    def start(self, *args, process_group=None, **env):
        return subprocess.Popen([*HEARS_ALL, self.place / 'tests/run.sh', *args], cwd=self.place,
                                env={**CLEAN_ENV, **env}, text=True, process_group=process_group,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *args, **env):
        with self.start(*args, **env) as child:
            child.out, child.err = child.communicate(timeout=60)
        return child

    def __call__(self, text, *args, **env):
        """Run one file of cases, given as text. Return the status and the last line."""
        self.write('tests/test_it.py', text)
        done = self.run(*args, **env)
        return done.returncode, (done.out.splitlines() or [''])[-1]


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
])
def test_count(suite, text, status, line):
    assert suite(text) == (status, line)


def test_a_skipped_point_says_why(suite):
    suite.write('tests/test_it.py', POINTS.format('', ' # SKIP one CPU', 'one CPU'))
    assert re.search(r'^test: SKIP test_a: three: one CPU', suite.run().err, re.M)


def test_cases_whose_kernel_a_release_does_not_have(suite):
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


def test_help(suite):
    done = suite.run('--help')
    assert done.returncode == 0 and 'tests/run.sh' in done.out and not done.err


# Tiers

TIERED = '''import pytest
def test_plain(): pass
@pytest.mark.tier('quick')
def test_quick(): pass
@pytest.mark.tier('more')
@pytest.mark.parametrize('number', range(2))
def test_more(number): pass
@pytest.mark.tier('all')
@pytest.mark.parametrize('number', range(3))
def test_long(number): pass
'''


@pytest.mark.parametrize('args, passed, left', [
    (['--tier', 'quick'], 2, {'make test': 1, 'make test-more': 2, 'make test-all': 3}),
    ([], 3, {'make test-more': 2, 'make test-all': 3}),
    (['-k', 'long or quick'], 1, {'make test-all': 3}),
    (['--tier', 'more'], 5, {'make test-all': 3}),
    (['--tier', 'more', '--after', 'test'], 2, {'make test-all': 3}),
    (['--tier', 'all'], 8, {}),
    (['tests/test_it.py'], 2, {'make test-more': 2, 'make test-all': 3}),
    (['./tests/test_it.py', '--tier', 'all'], 7, {}),
    (['tests/test_it.py::test_long'], 3, {}),
    (['tests/host'], 1, {}),
])
def test_tiers(suite, args, passed, left):
    """A run reports the cases that it leaves out, and the target that runs them. A named case always runs."""
    suite.write('tests/test_it.py', TIERED)
    suite.write('tests/host/test_host.py', 'def test_host(): pass\n')
    done = suite.run(*args)
    assert done.out.splitlines()[-1] == f'{passed} passed, 0 failed' and done.returncode == 0
    told = re.findall(r'^test: (\d+) cases were left to `(.*)`$', done.err, re.M)
    assert {target: int(cases) for cases, target in told} == left


@pytest.mark.parametrize('first, second, status, line', [
    ('5 passed, 0 failed', '2 passed, 0 failed, 3 skipped', 0, '7 passed, 0 failed, 3 skipped'),
    ('5 passed, 1 failed', '2 passed, 0 failed', 1, '7 passed, 1 failed, 0 skipped'),
    ('5 passed, 0 failed', 'a crash', 1, '5 passed, 1 failed, 0 skipped'),
])
def test_ci_adds_up_both_targets(tmp_path, first, second, status, line):
    """A run that says nothing has failed."""
    (tmp_path / '.ci').mkdir()
    shutil.copy(ROOT / '.ci/run', tmp_path / '.ci')
    stub(tmp_path / 'scripts', 'deps.sh', ':')
    said = {'test': first, 'test-more': second}
    stub(tmp_path / 'bin', 'make',
         'mkdir -p build/test; echo x >build/test/junit.xml; echo "9 passed, 1 deselected in 3s"\n' +
         ''.join(f'[ $1 != {target} ] || {{ echo "{text}"; exit {int(" 0 failed" not in text)}; }}\n'
                   for target, text in said.items()))
    done = call(tmp_path / '.ci/run', cwd=tmp_path, PATH=f'{tmp_path}/bin:{os.environ["PATH"]}')
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, line), done.stderr
    assert {path.name for path in (tmp_path / 'build').rglob('*') if path.is_file()} == \
        {'junit-test.xml', 'junit-test-more.xml'}


def test_a_case_of_the_host_cannot_need_a_kernel(suite):
    suite.write('tests/host/test_host.py', WITH_KERNEL)
    done = suite.run()
    assert done.returncode and 'tests/host/test_host.py::test_guest needs a kernel: move it' in done.err + done.out


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
    assert re.search(r'^test: x: booting uml-cmwq-release-7.3$', done.err, re.M)


def processes_of(place):
    return subprocess.run(['pgrep', '-f', str(place)], capture_output=True, text=True, check=False).stdout.split()


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
        try:
            wait_until((suite.place / 'build/begun').exists)
            (os.killpg if number == signal.SIGINT else os.kill)(child.pid, number)
            out, _ = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 1 and re.fullmatch(r'\d passed, 1 failed', out.splitlines()[-1])
    wait_until(lambda: not processes_of(suite.place), 10)     # on a busy host, one that was killed takes some time


# Two runs

def test_a_second_run_waits(suite):
    suite.write('tests/test_it.py', 'def test_a(): pass\n')
    (suite.place / 'build/test').mkdir()
    with open(suite.place / 'build/test/.lock', 'w') as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with suite.start() as child:
            assert 'waiting for another run of the tests' in child.stderr.readline()
            assert not (suite.place / 'build/test/junit.xml').exists() and child.poll() is None
            fcntl.flock(held, fcntl.LOCK_UN)
            out, _ = child.communicate(timeout=60)
    assert out.splitlines()[-1] == '1 passed, 0 failed'


# What pytest remembers

INTERRUPTED = '''import pathlib, time
BUILD = pathlib.Path(__file__).parent.parent / "build"
def test_a(): pass
def test_b(): assert (BUILD / "good").exists()
def test_c():
    if not (BUILD / "good").exists():
        (BUILD / "waits").touch()
        time.sleep(60)
def test_d(): pass
'''


def test_last_failed(suite):
    """Of an interrupted run, this is also what it left out."""
    suite.write('tests/test_it.py', INTERRUPTED)
    with suite.start() as child:
        wait_until((suite.place / 'build/waits').exists)
        child.send_signal(signal.SIGTERM)
        assert child.communicate(timeout=60)[0].splitlines()[-1] == '1 passed, 1 failed'
    assert (suite.place / 'build/.pytest_cache').is_dir() and not (suite.place / '.pytest_cache').exists()
    (suite.place / 'build/good').touch()
    assert suite.run('--lf').out.splitlines()[-1] == '3 passed, 0 failed'
    assert suite.run('--lf').out.splitlines()[-1] == '4 passed, 0 failed'      # as no failure is known

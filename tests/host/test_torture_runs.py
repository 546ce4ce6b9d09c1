# SPDX-License-Identifier: GPL-2.0
"""Torture without a guest: the evaluation of a run, the record of runs, the matrix, the options."""
import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import test_races
from calls import call
from wqlab.guest import run as guest
from wqlab.guest.engines import ENGINES
from wqlab.kernels import kinds
from wqlab.steps import Failure
from wqlab.torture import matrix as torture_matrix
from wqlab.torture import run as torture
from wqlab.torture import runs as torture_runs

END = 'wqtorture: --- End of test: {}: seed=1 operations=2 runs=3 violations={}\n'
PASSED = '--- End of test: SUCCESS: seed=7 operations=20 runs=10 attrs=3 masks=2 hotplug=1 violations=0'
FAILED = PASSED.replace('SUCCESS', 'FAILURE').replace('violations=0', 'violations=4')


# The end of a run

def outcome_of(monkeypatch, tmp_path, rc, kernel):
    """Return the result of torture() for a guest that prints `kernel` and ends with `rc`."""
    result = guest.Result(rc, '', kernel, kernel, 1.0)
    monkeypatch.setattr(torture.guest, 'run', lambda *args, **kwargs: result)
    monkeypatch.setattr(torture, 'KEPT', tmp_path)
    return torture.torture(tmp_path, engine='uml', duration=1, seed=7)


@pytest.mark.parametrize('rc, kernel, ok', [
    (0, END.format('SUCCESS', 0), True),
    (1, END.format('FAILURE', 2), False),
    (0, '', False),
    (guest.TIMED_OUT, END.format('SUCCESS', 0), False),
    (guest.DIED, END.format('SUCCESS', 0), False),
    (3, '', False),
    (4, END.format('SUCCESS', 0), False),
    (torture.TAINTED, END.format('SUCCESS', 0), False),
    (0, 'BUG: KASAN: slab-use-after-free\n' + END.format('SUCCESS', 0), False),
])
def test_verdict(monkeypatch, tmp_path, rc, kernel, ok):
    assert outcome_of(monkeypatch, tmp_path, rc, kernel).ok is ok


@pytest.mark.parametrize('log, ours', [
    (test_races.OURS['a timer of ours'], True), (test_races.THEIRS['a work item of another subsystem'], False),
], ids=['ours', 'theirs'])
def test_verdict_of_a_race(front, capsys, monkeypatch, log, ours):
    """Only the frames of its report tell whose race it is."""
    monkeypatch.setattr(torture.races, 'symbols', lambda folder: test_races.KNOWN)
    front.text = log + END.format('SUCCESS', 0)
    assert front.main([]) == ours
    said = capsys.readouterr()
    assert ('BUG: KCSAN: ' in said.out) == ours
    assert ('a race that does not concern the workqueue: ' in said.err) != ours


def test_log_of_a_failure_is_kept(monkeypatch, tmp_path):
    outcome = outcome_of(monkeypatch, tmp_path, 1, END.format('FAILURE', 1))
    outcome.log.write_text('x')
    kept = torture.keep_or_drop(outcome, 'uml')
    assert kept.read_text() == 'x' and f'seed{outcome.seed}' in kept.name
    outcome = outcome_of(monkeypatch, tmp_path, 0, END.format('SUCCESS', 0))
    outcome.log.write_text('x')
    assert torture.keep_or_drop(outcome, 'uml') is None and not outcome.log.exists()


# Other failures during a run

@pytest.fixture
def front(monkeypatch, tmp_path):
    """main() with a fake guest: how the guest is called, what it prints, and how it ends."""
    calls, kernel = [], tmp_path / 'uml-cmwq-release-7.3'
    (kernel / ENGINES['uml'].image).parent.mkdir(parents=True)
    (kernel / ENGINES['uml'].image).touch()

    def run(folder, command, *, log, show, **more):
        calls.append({'command': command, 'folder': folder.name, **more})
        log.write_text(door.text)
        for line in door.text.splitlines():
            show(line)
        if door.error:
            raise door.error
        return guest.Result(door.rc, '', door.text, door.text, 1.0)

    def build(engine, variant, config):
        calls.append((engine, variant, config))
        return kernel
    door = SimpleNamespace(text=END.format('SUCCESS', 0), rc=0, error=None, calls=calls, kernel=kernel,
                            kept=tmp_path / 'torture', main=torture.main)
    monkeypatch.setattr(guest, 'run', run)
    monkeypatch.setattr(torture, 'build', build)
    monkeypatch.setattr(torture, 'KEPT', door.kept)
    return door


def fail(front, complaints=1):
    front.text, front.rc = ''.join(f'BUG: {i}\n' for i in range(complaints)) + END.format('FAILURE', 3), 1


def test_front_door(front, capsys):
    assert front.main(['--seed', '5']) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1].startswith('torture: passed: uml-cmwq-release-7.3: --- End of test: SUCCESS')
    assert [run.verdict for run in torture_runs.load(front.kept)] == ['passed'] and not said.err
    assert sorted(path.name for path in front.kept.iterdir()) == ['.runs.lock', 'runs.json']


@pytest.mark.parametrize('passes', [True, False])
def test_verdict_of_a_run_that_cannot_be_noted(front, capsys, passes):
    """Whatever happens to the record, the verdict is there."""
    (front.kept / 'runs.json').mkdir(parents=True)
    if not passes:
        fail(front)
    with pytest.raises(Failure, match=r'runs\.json: Is a directory'):
        front.main([])
    verdict = 'passed: uml-cmwq-release-7.3: --- End of test: SUCCESS' if passes else \
        'FAILED: uml-cmwq-release-7.3: --- End of test: FAILURE'
    assert capsys.readouterr().out.splitlines()[-1].startswith(f'torture: {verdict}')


def test_complaints_without_end_are_cut(front, capsys):
    fail(front, 1000)
    assert front.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 30 and 'torture: 980 more such lines: see the log' in lines


@pytest.mark.parametrize('lost, verdict, why', [
    ({'flooded': True, 'ended': False, 'rc': guest.DIED}, 'FAILED',
     'the guest printed more than 64 MiB and was killed'),
    ({'unlogged': 'No space left'}, 'passed', 'the log file is not complete: No space left'),
])
def test_verdict_of_a_guest_whose_log_is_not_complete(front, capsys, monkeypatch, lost, verdict, why):
    real = guest.run
    monkeypatch.setattr(guest, 'run', lambda *args, **more: dataclasses.replace(real(*args, **more), **lost))
    assert front.main([]) == (verdict == 'FAILED')
    said = capsys.readouterr()
    assert f'torture: {why}\n' in said.out + said.err and 'the kernel died' not in said.out
    assert said.out.splitlines()[-1].startswith(f'torture: {verdict}: uml-cmwq-release-7.3: --- End of test: SUCCESS')


@pytest.mark.parametrize('error, status', [(KeyboardInterrupt(), 130), (OSError(28, 'No space left'), 2)])
def test_of_half_a_run_nothing_is_left(front, capsys, error, status):
    front.error = error
    assert front.main([]) == status
    assert len(capsys.readouterr().err.splitlines()) == 1 and list(front.kept.iterdir()) == []


@pytest.mark.parametrize('every_s, said', [(0, 32), (60, 11)])
def test_progress_of_a_long_run(monkeypatch, every_s, said):
    clock, lines = iter(range(0, 700, 10)), []
    monkeypatch.setattr(torture.time, 'monotonic', lambda: next(clock))
    show = torture.with_time(lines.append, every_s)
    for number in range(31):
        show(f'wqtorture: stats queued={number}\n')
        show('echo: noise of the shell\n')
    show('wqtorture: !!! lost\n')
    assert len(lines) == said and lines[-1] == '630 s: wqtorture: !!! lost'


# The command line

@pytest.mark.usefixtures('quiet')
def test_options(front):
    """They reach the guest and the module, and the record has them."""
    assert front.main(['--engine', 'qemu', '--topology', 'cores=2,nodes=2', '--cpus', '2', '--mem', '2G',
                       '--append', 'threadirqs', '--duration', '3600', '--seed', '9',
                       '--params', 'nwriters=3 stall=4']) == 0
    called = front.calls[-1]
    assert (called['topology'], called['cpus'], called['mem']) == ('cores=2,nodes=2', 2, '2G') and called['qmp']
    assert called['append'] == f'log_buf_len={torture.LOG_BUFFER} threadirqs'
    assert called['timeout'] >= 3600 + torture.ENDING_S
    assert re.search(r'modprobe wqtorture duration=3600 seed=9 .*nwriters=3 stall=4 ', called['command'])
    run, = torture_runs.load(front.kept)
    assert (run.seconds, run.seed, run.configuration) == \
        (3600, 9, 'uml-cmwq-release 2 CPUs cores=2,nodes=2 threadirqs nwriters=3 stall=4')


@pytest.mark.usefixtures('quiet')
@pytest.mark.parametrize('args, kernel', [
    ([], ('uml', 'cmwq', 'release')),
    (['--engine', 'arm64', '--variant', 'base', '--config', 'debug'], ('arm64', 'base', 'debug')),
])
def test_which_kernel(front, args, kernel):
    assert front.main(args) == 0 and front.calls[0] == kernel


@pytest.mark.parametrize('args, why', [
    (['--duration', '0'], 'not between 1 and'),
    (['--seed', str(1 << 32)], f'not between 1 and {(1 << 32) - 1}'),
    (['--mem', 'lots'], "memory 'lots'"),
    (['--topology', 'cores=2'], 'UML has no topology'),
    (['--params', 'seed=1;poweroff'], 'not a parameter'),
])
def test_calls_that_are_refused_before_a_kernel_is_built(front, capsys, args, why):
    try:
        status = front.main(args)
    except SystemExit as end:
        status = end.code
    said = capsys.readouterr()
    assert status == 2 and why in said.err.splitlines()[-1] and not said.out and not front.calls


def test_parameters():
    assert torture.parameters('uml', 5, 7, 'seed=9 nwriters=2').split() == [
        'duration=5', 'seed=9', 'squeeze_ms=2000', 'nwriters=2']
    assert 'freeze_ms=' in torture.parameters('qemu', 5, 7, '')


def test_a_run_is_of_the_source_that_it_began_with(monkeypatch, tmp_path):
    """An edit of the workqueue during a run does not change the recorded source."""
    sources = iter(['before', 'after'])
    monkeypatch.setattr(torture_runs, 'source', lambda: next(sources))
    outcome = outcome_of(monkeypatch, tmp_path, 0, END.format('SUCCESS', 0))
    assert torture_runs.Run.made('uml', 'uml', 1, outcome).source == 'before'


@pytest.mark.parametrize('options, slowness, mem', [
    ('', 1, '384M'),
    ('CONFIG_PROVE_LOCKING=y\n', 2, '640M'),
    ('CONFIG_PROVE_LOCKING=y\nCONFIG_KASAN=y\n', 4, '1G'),
    ('# CONFIG_KCSAN is not set\n', 1, '384M'),
])
def test_slow_kernels(tmp_path, options, slowness, mem):
    (tmp_path / '.config').write_text(options)
    assert torture.needs_of(tmp_path) == (slowness, mem)
    words = torture.parameters('uml', 5, 7, '', slowness).split()
    assert (f'stall={30 * slowness}' in words) is (slowness > 1)
    assert 'stall=9' in torture.parameters('uml', 5, 7, 'stall=9', slowness).split()


# The record of runs

def a_run(configuration='uml-cmwq-release', verdict=PASSED, complaints=(), duration=60):
    return torture_runs.Run.made(configuration, 'uml-cmwq-release-7.3', duration,
                                 torture.Outcome(verdict, complaints, 7, None, torture_runs.source()))


@pytest.mark.parametrize('verdict, complaints, said, seconds', [
    (PASSED, [], 'passed', 60),
    (FAILED, [], 'violations', 60),
    (PASSED, ['BUG: x'], 'BUG: x', 60),
    ('', ['the guest did not end within 9 s'], 'the guest did not end within 9 s; no verdict', 0),
])
def test_note_of_a_run(verdict, complaints, said, seconds):
    run = a_run(verdict=verdict, complaints=complaints)
    assert (run.verdict, run.seconds, run.ok) == (said, seconds, said == 'passed')
    if verdict:
        assert (run.operations, run.runs, run.attrs, run.masks, run.hotplug) == (20, 10, 3, 2, 1)


def test_notes_that_are_made_at_once(tmp_path):
    """No run is lost, and the file is always complete."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: torture_runs.add(tmp_path, a_run(f'c{i}')), range(24)))
    assert {run.configuration for run in torture_runs.load(tmp_path)} == {f'c{i}' for i in range(24)}
    assert sorted(path.name for path in tmp_path.iterdir()) == ['.runs.lock', 'runs.json']


@pytest.mark.parametrize('text', ['{', '{"a": 1}', '[{"configuration": "x"}]'])
def test_notes_that_are_not(tmp_path, text):
    """Damaged files are not overwritten."""
    (tmp_path / 'runs.json').write_text(text)
    with pytest.raises(Failure, match='runs.json'):
        torture_runs.add(tmp_path, a_run())
    assert (tmp_path / 'runs.json').read_text() == text


# The matrix

def test_table():
    runs = [a_run('a'), a_run('a'), a_run('b', FAILED), dataclasses.replace(a_run('c'), source='other'),
            dataclasses.replace(a_run('a', FAILED), source='other')]
    lines = {row[0]: row for row in torture_matrix.rows(runs)}
    assert lines['a'][1:4] == ('0.03', '40', '20') and lines['a'][-1] == '2 passed'
    assert lines['b'][-2:] == ('4', '1 of 1 failed: violations')
    assert lines['c'][-1] == '1 passed (older)'


@pytest.fixture
def matrix(monkeypatch, tmp_path):
    """The matrix without kernels. Yields main() and the list of tortured configurations."""
    tortured = []

    def fake(folder, *, engine, **kwargs):
        tortured.append(folder.name)
        if 'debug' in folder.name:
            return torture.Outcome('', ['the kernel died'], 7, tmp_path / 'log', torture_runs.source())
        return torture.Outcome(PASSED, [], 7, tmp_path / 'log', torture_runs.source())

    def build(engine, variant, config):
        if config == 'up':
            raise Failure('the kernel does not build')
        return tmp_path / f'{engine}-{variant}-{config}-{kinds.asked_linux()}'
    (tmp_path / 'log').touch()
    monkeypatch.setattr(torture, 'KEPT', tmp_path)
    monkeypatch.setattr(torture, 'build', build)
    monkeypatch.setattr(torture, 'torture', fake)
    monkeypatch.setattr(torture, 'keep_or_drop', lambda *args: None)
    return torture_matrix.main, tortured


@pytest.mark.usefixtures('quiet')
def test_matrix_goes_on_where_it_was(matrix, tmp_path):
    main, tortured = matrix
    assert main(['--duration', '30', 'uml', 'qemu*-rt']) == 0
    assert main(['--duration', '20', 'uml', 'qemu-rt', 'qemu']) == 0
    assert tortured == ['uml-cmwq-release-7.3', 'qemu-cmwq-rt-7.3', 'qemu-cmwq-release-7.3']
    assert main(['--duration', '31', 'uml']) == 0 and main(['--duration', '9', '--again', 'uml']) == 0
    assert main(['--duration', '9', '--variant', 'base', 'uml']) == 0
    assert tortured[3:] == ['uml-cmwq-release-7.3', 'uml-cmwq-release-7.3', 'uml-base-release-7.3']
    assert '3 passed' in (tmp_path / 'runs.rst').read_text()


@pytest.mark.usefixtures('quiet')
def test_matrix_of_another_release(matrix, tmp_path, monkeypatch):
    main, tortured = matrix
    assert main(['qemu']) == 0
    monkeypatch.setenv('LINUX', '6.12')
    assert main(['qemu']) == 0 and main(['qemu']) == 0
    assert tortured == ['qemu-cmwq-release-7.3', 'qemu-cmwq-release-6.12']
    text = (tmp_path / 'runs.rst').read_text()
    assert re.search('^qemu-cmwq-release  .* 1 passed$', text, re.M)
    assert re.search('^qemu-cmwq-release-6.12  .* 1 passed$', text, re.M)


def test_release_of_the_kernel(monkeypatch):
    monkeypatch.setattr(torture, 'build_kernel', lambda kind: kind.name)
    monkeypatch.setenv('LINUX', '6.12')
    assert torture.build('qemu', 'cmwq', 'release') == 'qemu-cmwq-release-6.12'


def test_matrix_hides_nothing(matrix, tmp_path, capsys):
    """A configuration that does not build or boot is in the table, and the others still run."""
    main, tortured = matrix
    assert main(['uml-up', 'uml-debug', 'qemu']) == 1
    assert tortured == ['uml-cmwq-debug-7.3', 'qemu-cmwq-release-7.3']
    text = (tmp_path / 'runs.rst').read_text()
    assert text in capsys.readouterr().out
    for line in (r'uml-cmwq-up .* 1 of 1 failed: the kernel does not build',
                 r'uml-cmwq-debug .* 1 of 1 failed: the kernel died; no verdict', r'qemu-cmwq-release .* 1 passed'):
        assert re.search(line, text), text


def test_matrix_of_an_unknown_configuration():
    done = call('scripts/lab', 'matrix', 'xen')
    assert done.returncode == 2 and "'xen' matches none of: uml " in done.stderr.splitlines()[-1] and not done.stdout


def test_matrix_that_is_interrupted_prints_its_table(matrix, monkeypatch, capsys):
    main, tortured = matrix
    real = torture.torture

    def once(folder, **more):
        if tortured:
            raise KeyboardInterrupt
        return real(folder, **more)
    monkeypatch.setattr(torture, 'torture', once)
    with pytest.raises(KeyboardInterrupt):
        main(['uml', 'qemu'])
    said = capsys.readouterr().out
    assert 'uml-cmwq-release' in said and 'qemu-cmwq-release' not in said

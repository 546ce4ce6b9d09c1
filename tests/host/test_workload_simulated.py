# SPDX-License-Identifier: GPL-2.0
"""Workloads on simulated machines, on the host: options, the guest's script, figures, and a run with a fake guest.

tests/guest/test_workload_machines.py runs a guest.
"""
import re
import shlex
import subprocess

import pytest

import copied
from calls import call
from wqlab.paths import BUILD
from wqlab.simulated import root
from wqlab.steps import Failure
from wqlab.workload import cases, dmcrypt, engines, options, simulated, workloads

NS = 1000


def params(*argv):
    return options.parse_args(['--machine', 'ryzen', *argv])[0]


# Programs of the guest

def compiled(place, name, *more):
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(['gcc', '-x', 'c', '-shared', '-nostdlib', f'-Wl,--no-as-needed,-soname,{name}', '/dev/null', '-x',
                    'none', *more, '-o', place / name], check=True)
    return place / name


def test_programs_come_with_what_their_libraries_need(tmp_path, monkeypatch):
    """A library of a library, in another folder, and the loader."""
    libraries = tmp_path / root.FOLDERS[0]
    far = compiled(tmp_path / root.FOLDERS[-1], 'far.so')
    compiled(tmp_path / 'bin', 'tool', compiled(libraries, 'near.so', far))
    for name in (root.LOADER, 'other.so'):
        (libraries / name).touch()
    monkeypatch.setattr(root, 'PROGRAMS', {'bin/tool': 'tool'})
    root.copy(tmp_path, tmp_path / 'copied')
    assert sorted(path.name for path in (tmp_path / 'copied').rglob('*') if path.is_file()) == sorted(
        ['tool', 'near.so', 'far.so', root.LOADER])
    far.unlink()
    with pytest.raises(Failure, match=r'have no far\.so'):
        root.copy(tmp_path, tmp_path / 'again')


# Options

def test_a_machine_says_what_there_is():
    chosen = params()
    assert (chosen['engine'], chosen['cpus'], chosen['pairs']) == ('arm64', 24, 1)
    assert chosen['workloads'] == list(simulated.ALL) and chosen['seconds'] == simulated.SECONDS
    assert chosen['machine']['name'] == 'ryzen' and chosen['machine']['constants']['cpus'] == 24
    assert options.heading(chosen) == f"simulated, {chosen['machine']['about']}: "
    assert any('computed' in note for note in options.notes({**chosen, 'accel': None}))
    assert params('--seconds', '0.005', '--pairs', '2', '--mem', '1G')['seconds'] == 0.005


@pytest.mark.parametrize('argv, why', [
    (['--engine', 'qemu'], 'leave --engine out'), (['--cpus', '2'], 'leave --cpus out'),
    (['--here'], 'leave --here out'),
    (['--spoil', 'stale'], 'leave --spoil out'),
    (['latency'], 'there is no workload "latency" on a simulated machine: choose from dm-crypt, writeback, nfs'),
    (['--cases', 'ext4/buffered'], 'no case of any workload matches')])
def test_what_a_machine_cannot_have(argv, why):
    done = call('scripts/run-workload.sh', '--machine', 'vm8', *argv)
    assert done.returncode == 2 and why in done.stderr.splitlines()[-1]


def test_other_wrong_options():
    for argv, why in ((['--machine', 'cray'], "no machine 'cray'"), (['--seconds', '0.01'], 'without --machine')):
        done = call('scripts/run-workload.sh', *argv)
        assert done.returncode == 2 and why in done.stderr.splitlines()[-1]


# The script of the guest

def test_sets_have_cases_on_each_machine():
    for cpus in (4, 8, 24, 72, 256):
        for name, one in simulated.WORKLOADS.items():
            every = one.names(cpus)
            assert every and set(every) <= set(workloads.ALL[name].names(cpus))
            for chosen in cases.SETS:
                found = cases.of_set(one, every, chosen)
                assert found
                for pattern in one.sets[chosen]:
                    assert cpus == 4 or cases.matching(every, [pattern]), pattern


@pytest.mark.parametrize('name', simulated.ALL)
def test_the_shell_understands_each_script(name, tmp_path):
    """What it calls is a function of steady.sh, or one of the few programs that are not for that shell."""
    script = tmp_path / 'script'
    script.write_text(simulated.script(name, simulated.WORKLOADS[name].names(24), 24, 0.02))
    subprocess.run(['sh', '-n', script], check=True)
    functions = re.findall(r'^(\w+)\(\)', simulated.STEADY_SH.read_text(), re.M)
    rows = script.read_text().splitlines()
    assert {row.split()[0] for row in rows} <= {'.', 'mkdir', *functions}
    assert rows[-1] == 'finish' and sum(row.startswith('steady ') for row in rows) == len(
        simulated.WORKLOADS[name].names(24))


def test_a_case_has_the_job_of_other_engines():
    job, _ = dmcrypt.job_of('32k-third', 24)
    text = simulated.script('dm-crypt', ['aes/ram/queue/32k-third/cache-strict'], 24, 0.03)
    row, = (row for row in text.splitlines() if row.startswith('steady '))
    assert row.startswith("steady aes/ram/queue/32k-third/cache-strict crypt_requests 64 0.015 0.03 --")
    assert set(job.words()) - set(shlex.split(row)) == {'--iodepth=64'} and '--iodepth=8' in row
    assert simulated.crypt_job('32k-all', 256).options['iodepth'] == 2      # 512 in flight on epyc
    assert "scope cache 1 'kcryptd[-!]*'" in text and text.index('scope ') < text.index('steady ')


def test_data_is_verified_after_the_disk_was_closed():
    text = simulated.script('dm-crypt', ['null/ram/highpri/4k-write-1/cpu'], 4, 0.02)
    steps = [row.split()[0] for row in text.splitlines()]
    assert steps == ['.', 'begin', 'open_crypt', 'quiet', 'scope', 'steady', 'close_crypt', 'open_crypt', 'verify',
                     'close_crypt', 'finish']
    assert '1 high_priority' in text and '--rw=read' in text.splitlines()[-3]


def shell(tmp_path, command):
    done = subprocess.run(['busybox', 'sh', '-c', f'. {simulated.STEADY_SH}; {command}'], cwd=tmp_path, text=True,
                          capture_output=True, check=False)
    return done.stdout, done.returncode


@pytest.mark.parametrize('zeros', ['', '00'])
def test_only_what_ended_in_the_stretch_counts(zeros, tmp_path):
    """Of a stretch from 8.2 to 12.1 ms: the ms 9 and 10, since those of the log may begin up to one later.

    In the first second of the guest's clock, `date` prints zeros in front.
    """
    (tmp_path / 'first').write_text(f'{zeros}8200000\ncpu  1 2 3 4\n')
    (tmp_path / 'last').write_text(f'{zeros}12100000\ncpu  1 2 3 9\n')
    (tmp_path / 'log_clat.log').write_text(''.join(
        f'{ms}, {1000 * ms + direction}, {direction}, 4096, 0, 0\n' for ms in range(7, 14) for direction in (0, 1)))
    out, status = shell(tmp_path, 'figures')
    assert status == 0 and out == ('"elapsed_ns": 3900000, "cpu": ["cpu  1 2 3 4", "cpu  1 2 3 9"], "ms": 2, '
                                   '"ns": [9000, 9001, 10000, 10001]')


def test_wrong_data_is_reported(tmp_path):
    (tmp_path / 'fio').write_text('#!/bin/sh\necho \'fio: verify: bad "magic" header\'; exit 1\n')
    (tmp_path / 'fio').chmod(0o755)
    out, status = shell(tmp_path, f'PATH={tmp_path}:$PATH; PLACE={tmp_path}; verify aes/ram/queue --name=job')
    assert status == 0 and engines.lines.read(out) == [
        {'kind': 'wrong', 'name': 'aes/ram/queue', 'why': 'fio: verify: bad magic header'}]
    (tmp_path / 'fio').write_text('#!/bin/sh\necho "fio: no memory"; exit 1\n')
    out, status = shell(tmp_path, f'PATH={tmp_path}:$PATH; PLACE={tmp_path}; verify aes/ram/queue --name=job')
    assert status == 1 and out.splitlines() == ['fio: no memory', 'workload-inside: fio failed']


# Figures

def stretch(name, ns, idle=(100, 101), ms=20):
    return {'kind': 'stretch', 'name': name, 'elapsed_ns': 20_000_000, 'ms': ms, 'ns': ns,
            'cpu': [f'cpu  1 2 3 {ticks} 5 6 7 0 0 0' for ticks in idle]}


def test_figures_of_requests():
    ns = [NS * us for us in range(1000, 0, -1)]
    found = simulated.figures('dm-crypt', 10, stretch('aes/ram/queue/32k-all/cpu', ns))
    # Of 20 ticks in 20 ms with 10 CPUs, one is idle.
    assert found == {'rate': 1000 / 0.02 / 32, 'iops': 1000 / 0.02, 'cpu_percent': 95.0, 'ios': 1000, 'p50_us': 500,
                     'p99_us': 990, 'p999_us': 999}


def test_figures_of_fsync_and_of_nothing():
    found = simulated.figures('writeback', 8, stretch('ext4/fsync', [1] * 40))
    assert (found['rate'], found['mean_us']) == (2000, 4000)
    assert simulated.figures('nfs', 8, stretch('psync/cpus/write/system', []))['rate'] == 0


# A run

FAKE_GUEST = '''
note(kernel, given('machine'), given('seed'))
script, = (word.split(':')[0] for word in argv if word.endswith(':/script'))
text = pathlib.Path(script).read_text()
names = json.loads(re.search("^begin [0-9]+ '(.*)'$", text, re.M)[1])
stretch = {'kind': 'stretch', 'elapsed_ns': 20000000, 'ms': 20, 'ns': [1000, 3000, 2000], 'cpu': ['cpu 1 1 1 1 1'] * 2}
rows = [{'kind': 'begin', 'release': '7.3', 'cpus': 8, 'cases': names}, *({**stretch, 'name': name} for name in names),
        {'kind': 'end', 'cases': len(names)}]
log.write_text(''.join(f'@workload {json.dumps(row)}\\n' for row in rows))
'''


@pytest.fixture
def project(tmp_path):
    found = copied.project(tmp_path, 'run-workload.sh', FAKE_GUEST, {'engine': 'arm64', 'config': 'workload'},
                           'build/workload', {})
    (tmp_path / 'build' / root.place().relative_to(BUILD)).mkdir(parents=True)
    return found


@pytest.mark.tier('test')
def test_whole_run(project):
    done = project.run('--no-build', '--machine', 'vm8', '--quick', '--pairs', '2')
    assert done.returncode == 0, done.stderr
    kernels = [f'arm64-{variant}-workload-7.3 vm8 {seed}' for seed, variants in (
        (0, ('cmwq', 'base')), (1, ('base', 'cmwq'))) for _ in simulated.ALL for variant in variants]
    assert project.calls() == kernels
    folder, result = project.results()
    assert result['complete'] and result['parameters']['machine']['name'] == 'vm8'
    assert all(row['ratio']['rate']['median'] == 1 for row in result['summary'])
    assert (folder / 'plot.png').read_bytes().startswith(b'\x89PNG')
    for name, one in simulated.WORKLOADS.items():
        heading = f"simulated, {result['parameters']['machine']['about']}: {name}: {one.what}"
        assert heading in done.stdout.splitlines()
    assert 'note: nothing here was measured' in done.stderr and 'simulated' in (folder / 'plot.svg').read_text()

# SPDX-License-Identifier: GPL-2.0
"""The host side of run-workload.sh: options, cases, fio's reports, records, tables, plots, failures."""
import itertools
import os
import re
from pathlib import Path

import pytest

import copied
from calls import call, path_without
from wqlab.measure import record as measure_record
from wqlab.measure import turns
from wqlab.measure.boot import BootError, kernel
from wqlab.paths import ROOT
from wqlab.steps import Failure
from wqlab.workload import (
    cases,
    disks,
    dmcrypt,
    engines,
    fio,
    lines,
    machine,
    nfs,
    nfsserver,
    options,
    plot,
    run,
    scopes,
    stats,
    workloads,
    writeback,
)

DATA = ROOT / 'tests/data/workload'
RECORDED = {name: (DATA / f'uml-{name}.log').read_text() for name in workloads.ALL}


def recorded(workload):
    return lines.parse(lines.read(RECORDED[workload]))


def params(*argv):
    return options.parse_args(list(argv))[0]


def boot(pair, workload, variant, factor=1.0, **changes):
    """Return the recorded boot with `factor` times the rates."""
    entry = recorded(workload)
    for one in entry['runs']:
        one['figures']['rate'] *= factor
    return {'pair': pair, 'workload': workload, 'variant': variant, 'seconds': 1.0, 'log': 'logs/x.log', **entry,
            **changes}


def record(boots, *argv):
    chosen = params(*argv)
    return {'format': measure_record.FORMAT, 'program': 'run-workload', 'complete': False, 'parameters': chosen,
            'engine': chosen['engine'], 'topology': {'cpus': chosen['cpus']}, 'kernels': {}, 'boots': boots,
            'failed_boots': [], 'summary': stats.summarise(boots)}


# The lines of a guest

@pytest.mark.parametrize('name', workloads.ALL)
def test_recorded_run_is_read(name):
    entry = recorded(name)
    one = workloads.ALL[name]
    assert [case['name'] for case in entry['runs']] == \
        cases.chosen_cases(one, one.names(entry['cpus']), 'quick', [])
    assert entry['wrong'] == entry['trouble'] == entry['skipped'] == []
    for case in entry['runs']:
        assert case['figures']['rate'] > 0 and 0 <= case['figures'].get('cpu_percent', 0) <= 100
        assert case['figures']['p50_us'] <= case['figures']['p99_us'] <= case['figures']['p999_us']


def without(kind, text):
    return '\n'.join(line for line in text.splitlines() if f'"kind": "{kind}"' not in line)


@pytest.mark.parametrize('change, why', [
    (lambda text: '', 'did not start'),
    (lambda text: without('begin', text), 'did not start'),
    (lambda text: without('end', text), 'ended early after'),
    (lambda text: without('case', text), r'4 cases were run, but only 0 can be read'),
    (lambda text: text.replace('"unit": "MiB/s"', '"unit": [ 1.0] WARNING', 1), 'only 3 can be read'),
])
def test_incomplete_output_is_an_error(change, why):
    with pytest.raises(Failure, match=why):
        lines.parse(lines.read(change(RECORDED['dm-crypt'])))


def test_other_lines_are_the_log():
    text = f'[ 1.0] hello\n{lines.MARK}{{"kind": "trouble", "lines": ["WARNING: x"]}}\nbye\n'
    assert lines.others(text) == '[ 1.0] hello\nbye'


# fio

def test_figures_of_a_recorded_report():
    """There is a note of fio before it."""
    found = fio.result((DATA / 'fio-fsync.out').read_text(), 0, '')
    read, written, synced = (fio.figures(found, 12.5, 'read'), fio.figures(found, 0, 'write'),
                             fio.sync_figures(found, 50))
    assert read['rate'] == found['read']['bw_bytes'] / 2**20 and read['cpu_percent'] == 12.5
    assert read['iops'] == pytest.approx(read['rate'] * 256, rel=0.05)
    assert written['ios'] == found['write']['total_ios'] > 0 and synced['ios'] == found['sync']['total_ios'] > 0
    assert synced['rate'] == pytest.approx(1000 * synced['ios'] / found['write']['runtime'])
    for figures in (read, written, synced):
        assert 0 < figures['p50_us'] <= figures['p99_us'] <= figures['p999_us']


def test_no_percentiles_of_nothing():
    assert fio.percentiles({'N': 0}) == {}


def test_number_of_loops():
    assert fio.loops_for({'job_runtime': 200}, 2, 1.0) == 10
    assert fio.loops_for({'job_runtime': 90000}, 1, 1.0) == 1
    assert fio.loops_for({'job_runtime': 0}, 1, 100.0) == fio.MOST_LOOPS


# What fio 3.33 reported when a disk changed a byte, when it ignored writes, and when btrfs noticed the change
WRONG = {
    'corrupt': (84, 'crc32c: verify failed at file /dev/mapper/wqlab-crypt offset 18448384, length 4096\n'
                    '       Expected CRC: 5ecdaf61\n', 'fio: crc32c: verify failed at file /dev/mapper'),
    'stale': (84, 'verify: bad header numberio 123, wanted 0 at file /dev/mapper/wqlab-crypt offset 17281024\n',
              'fio: verify: bad header numberio 123'),
    'unreadable': (5, 'fio: io_u error on file /dev/shm/job.0.0: Input/output error: read offset=512000\n',
                   'fio: io_u error on file .*: Input/output error')}


@pytest.mark.parametrize('error, said, why', WRONG.values(), ids=WRONG)
def test_recorded_failures_are_wrong_data(error, said, why):
    with pytest.raises(cases.Wrong, match=why):
        fio.result(f'{{"jobs": [{{"error": {error}}}]}}', 1, said)


@pytest.mark.parametrize('text, status, said, why', [
    ('', 1, 'fio: unrecognized option', 'fio failed with status 1: unrecognized option'),
    ('', 137, '', 'fio failed with status 137: no message'),
    ('{"jobs": []}', 0, '', None),
    ('{"jobs": [{"error": 28}]}', 1, 'fio: No space left', 'No space left'),
])
def test_failures_that_say_nothing_about_data(text, status, said, why):
    if why is None:
        assert fio.result(text, status, said)['error'] == 0
        return
    with pytest.raises(Failure, match=why):
        fio.result(text, status, said)


class FakeFio:
    """Takes the place of fio.call(): what is read is compared with what was written, if `notices`."""

    def __init__(self, notices):
        self.notices, self.written, self.calls = notices, b'', []

    def __call__(self, job, **more):
        path = Path(job.options['filename'])
        self.calls.append(more['rw'])
        if more['rw'] == 'write':
            self.written = os.urandom(int(job.options['size']))
            path.write_bytes(self.written)
        if more['rw'] == 'read' and self.notices and path.read_bytes() != self.written:
            raise cases.Wrong('fio: verify failed')
        return {}


@pytest.mark.parametrize('notices', [True, False])
def test_fio_has_to_notice_a_changed_byte(notices, monkeypatch):
    """fio 3.33 does not with sha512. Each method is tried once."""
    fake = FakeFio(notices)
    monkeypatch.setattr(fio, 'call', fake)
    fio.check_method.cache_clear()
    job = fio.Job({'filename': os.devnull, 'size': 0, 'verify': 'sha512', 'rw': 'none'})
    if notices:
        fio.run(job, rw='none')
        fio.run(job, rw='none')
        assert fake.calls == ['write', 'read', 'none', 'none']
    else:
        with pytest.raises(Failure, match='does not notice a changed byte with verify=sha512'):
            fio.run(job, rw='none')
        assert 'none' not in fake.calls
    fio.check_method.cache_clear()


def test_job_without_a_time_limit():
    """With one, fio would not verify what it wrote last."""
    for job in (dmcrypt.job_of('32k-all', 4)[0], writeback.overwriting('x', 2), writeback.buffered('x', 2),
                nfs.job_of('libaio', 2, 'randwrite', 'x')):
        words = ' '.join(job.words(loops=3))
        assert 'runtime' not in words and 'time_based' not in words and '--verify=' in words and '--loops=3' in words
        # A state that cannot be saved would look like data that cannot be verified.
        assert '--verify_state_save=0' in words


# Cases

@pytest.mark.parametrize('one', workloads.ALL.values(), ids=workloads.ALL)
@pytest.mark.parametrize('cpus', [1, 2, 24])
def test_names_and_sets(one, cpus):
    names = one.names(cpus)
    assert len(names) == len(set(names))
    quick, default = (cases.of_set(one, names, chosen) for chosen in cases.SETS)
    assert set(quick) <= set(default) <= set(names)
    assert [case for _, members in cases.by_prefix(default, one.parts) for case in members] == default


@pytest.mark.parametrize('one', workloads.ALL.values(), ids=workloads.ALL)
def test_no_pattern_of_a_set_is_useless(one):
    for pattern in itertools.chain.from_iterable(one.sets.values()):
        assert cases.matching(one.names(24), [pattern]), f'{pattern} matches nothing'


def test_scenarios_that_are_the_same_are_run_once():
    assert dmcrypt.scenarios(24) == ['32k-all', '32k-third', '32k-sixth']
    assert [dmcrypt.issuers(share, 24) for share in dmcrypt.SHARES.values()] == [24, 8, 4]
    assert dmcrypt.scenarios(2) == ['32k-all', '32k-third'] and dmcrypt.scenarios(1) == ['32k-all']
    assert not dmcrypt.notes(24)
    assert dmcrypt.notes(2) == ['2 CPUs: 32k-sixth left out, since another scenario has the same number of issuers']


@pytest.mark.parametrize('name', [*dmcrypt.SHARES, 'buffered', *dmcrypt.SINGLES])
@pytest.mark.parametrize('cpus', [1, 2, 3, 24, 100])
def test_issuers_do_not_share_blocks(name, cpus):
    job, _ = dmcrypt.job_of(name, cpus)
    block = int(job.options['bs'][:-1]) << 10
    start, size, step = (job.options[key] for key in ('offset', 'size', 'offset_increment'))
    assert size % block == start % block == 0 and step >= size > 0
    end = start + (job.jobs - 1) * step + size
    big, small = dmcrypt.areas(cpus)
    first, last = (0, big) if block == 32768 else (big, big + small)
    assert first << 20 <= start and end <= last << 20
    assert size // block > 64 or cpus == 100


@pytest.mark.parametrize('cpus', [1, 2, 24, 100, 1000])
def test_disks_are_large_enough(cpus):
    assert sum(dmcrypt.areas(cpus)) <= disks.MIB and disks.MIB >= 300     # XFS needs 300


@pytest.mark.parametrize('cpus, counts', [(1, [1, 200]), (2, [1, 2, 200]), (200, [1, 200]), (512, [1, 512, 200])])
def test_each_number_of_jobs_is_run_once(cpus, counts):
    assert list(nfs.counts(cpus).values()) == counts
    same = f'{cpus} CPUs: the cases */cpus/* are left out, since they are the same as */{cpus}/*'
    assert nfs.notes(cpus) == ([] if cpus in (2, 512) else [same])


@pytest.mark.parametrize('cpus', [1, 2, 24, 512])
def test_files_of_all_jobs_fit(cpus):
    used = sum(nfs.blocks(jobs) * jobs * nfs.BLOCK for jobs in nfs.counts(cpus).values())
    assert used <= nfs.SIZE_MIB << 19       # the other half is for the inodes
    assert all(nfs.blocks(jobs) > max(nfs.ENGINES.values()) for jobs in nfs.counts(cpus).values())


# Scopes

@pytest.fixture
def sysfs(tmp_path, monkeypatch):
    monkeypatch.setattr(scopes, 'SYSFS', tmp_path / 'devices')
    monkeypatch.setattr(scopes, 'DEFAULT', tmp_path / 'default')
    (tmp_path / 'default').write_text('cache_shard\n')
    queue = tmp_path / 'devices/kcryptd-254:0-1'
    queue.mkdir(parents=True)
    return queue


def test_scope_is_written(sysfs, tmp_path):
    for name in ('affinity_scope', 'affinity_strict'):
        (sysfs / name).write_text('')
    with scopes.of_workqueue('kcryptd[-!]254:0*', 'cache-strict'):
        pass
    assert [(sysfs / name).read_text() for name in ('affinity_scope', 'affinity_strict')] == ['cache', '1']
    with scopes.of_workqueue('kcryptd[-!]254:0*', 'default'):
        pass
    assert (sysfs / 'affinity_strict').read_text() == '0'
    assert (tmp_path / 'default').read_text() == 'cache_shard\n'


def test_default_scope_instead(sysfs, tmp_path):
    """The workqueue is per-CPU, or its kernel does not show it."""
    with scopes.of_workqueue('kcryptd[-!]254:0*', 'system'):
        assert (tmp_path / 'default').read_text() == 'system'
    assert (tmp_path / 'default').read_text() == 'cache_shard'
    with pytest.raises(cases.Lacking, match='cannot be strict'), scopes.of_workqueue('kcryptd*', 'cache-strict'):
        pass


def test_kernel_without_the_scope(sysfs, tmp_path):
    (tmp_path / 'default').unlink()
    with pytest.raises(cases.Lacking, match="refuses 'cpu' in .*: No such file"), scopes.of_workqueue('x*', 'cpu'):
        pass
    with pytest.raises(cases.Lacking, match="refuses 'cpu' in .*: Is a directory"):
        scopes.write(tmp_path, 'cpu')


# The machine

def test_cpu_use(tmp_path):
    stat = tmp_path / 'stat'
    stat.write_text('cpu 10 0 10 70 10 0 0 0 0 0\ncpu0 ...\n')
    with machine.CpuUse(stat) as use:
        stat.write_text('cpu 60 0 30 80 30 0 0 0 0 0\ncpu0 ...\n')
    assert use.percent == pytest.approx(70)
    with machine.CpuUse(stat) as use:
        pass
    assert use.percent == 0


def test_programs_that_are_missing_or_fail():
    with pytest.raises(Failure, match='no-such-program is not installed: run CONFIG=workload scripts/deps.sh'):
        machine.run('no-such-program')
    with pytest.raises(Failure, match='ls /no/such failed with status 2: ls: cannot access'):
        machine.run('ls', '/no/such')


def test_file_system_that_the_kernel_lacks():
    with pytest.raises(cases.Lacking, match='the kernel has no nosuchfs'):
        machine.need_file_system('nosuchfs')


def test_digest_notices_each_byte(tmp_path):
    files = [tmp_path / 'a', tmp_path / 'b']
    for path in files:
        path.write_bytes(b'x' * (disks.PIECE + 5))
    before = disks.digest(files)
    assert disks.digest(files) == before != disks.digest(reversed(files))
    with open(files[1], 'r+b') as file:
        file.seek(disks.PIECE + 4)
        file.write(b'y')
    assert disks.digest(files) != before
    assert disks.digest(files, 100) == disks.digest(files, 100)
    with pytest.raises(OSError, match='shorter than before'):
        disks.digest(files, 10 << 20)


@pytest.mark.parametrize('change, why', [
    (lambda path: None, None),
    (lambda path: path.write_text('new'), 'opened again, it has other data'),
    (lambda path: path.unlink(), 'the data cannot be read again: .*No such file'),
    (lambda path: machine.run('false'), 'the data cannot be read again: false failed'),
])
def test_data_before_and_after(tmp_path, change, why):
    path = tmp_path / 'a'
    path.write_text('old')

    def check():
        disks.check_same(lambda: disks.digest([path]), [lambda: change(path)])
    if why is None:
        check()
        return
    with pytest.raises(cases.Wrong, match=why):
        check()


# The server of NFS

def test_running_server_is_left_alone(tmp_path):
    for number, name in ((7, 'sh'), (8, 'nfsd4')):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / 'comm').write_text(f'{name}\n')
    (tmp_path / '9').mkdir()
    (tmp_path / '9/comm').symlink_to('gone')
    nfsserver.check_no_other(tmp_path)
    (tmp_path / '7/comm').write_text('nfsd\n')
    with pytest.raises(cases.Lacking, match='runs an NFS server: stop it first'):
        nfsserver.check_no_other(tmp_path)


def test_namespace_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / 'unshare').write_text('#!/bin/sh\necho "unshare: not permitted" >&2\nexit 1\n')
    (tmp_path / 'unshare').chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path), prepend=':')
    with pytest.raises(cases.Lacking, match='no network namespace can be made: unshare: not permitted'):
        with nfsserver.namespace():
            pass


def test_client_does_not_bypass_the_network(tmp_path, monkeypatch):
    monkeypatch.setattr(nfs, 'BYPASS', tmp_path / 'localio_enabled')
    with nfs.without_bypass():
        assert not nfs.BYPASS.exists()
    nfs.BYPASS.write_text('Y\n')
    with nfs.without_bypass():
        assert nfs.BYPASS.read_text() == 'N'
    assert nfs.BYPASS.read_text() == 'Y'


# Options

def test_patterns_choose_the_workloads():
    assert params('--cases', 'ext4/*')['workloads'] == ['writeback']
    chosen = params('--cases', 'aes/ram/highpri/4k-*/cpu')
    assert engines.chosen(chosen, 'dm-crypt') == [f'aes/ram/highpri/{job}/cpu' for job in dmcrypt.SINGLES]


def test_here_is_this_machine():
    chosen = params('--here')
    assert chosen['engine'] == 'here' and chosen['cpus'] == len(os.sched_getaffinity(0))


def test_here_takes_no_release():
    done = call('scripts/run-workload.sh', '--here', LINUX='6.12')
    assert done.returncode == 2 and '--here uses the running kernel: leave LINUX= out' in done.stderr


@pytest.mark.parametrize('argv, why', [
    (['nfsd'], 'there is no workload "nfsd": choose from dm-crypt, writeback'),
    (['--cases', 'ext5/*'], r'no case of any workload matches ext5/\*'),
    (['dm-crypt', '--cases', 'ext4/*'], 'no case of dm-crypt matches'),
    (['--here', '--engine', 'uml'], '--here uses this machine as it is'),
    (['--variant', 'base', '--append-cmwq', 'quiet'], 'leave --append-cmwq out'),
    (['--resume', '--quick'], 'give no other options'),
], ids=lambda value: ' '.join(value) if isinstance(value, list) else '')
def test_bad_options_are_refused(argv, why, capsys):
    with pytest.raises(SystemExit) as ended:
        options.parse_args(argv)
    said = capsys.readouterr()
    assert ended.value.code == 2 and re.search(why, said.err.splitlines()[-1]) and not said.out


def test_list():
    listed = call('scripts/run-workload.sh', '--list', 'writeback').stdout.splitlines()
    assert len(listed) == len(writeback.names(2))
    assert listed[0].split() == ['writeback', 'ext4/fsync', 'quick'] and listed[2].split()[-1] == 'default'


def test_guest_gets_what_was_chosen(tmp_path):
    chosen = {**params('--engine', 'qemu', '--topology', 'cores=4,threads=2', '--mem', '3G', '--quick', '--cases',
                       'ext4/*', '--seconds', '0.5', '--spoil', 'stale'), 'accel': 'tcg'}
    words = engines.qemu(kernel('qemu', 'base', 'workload'), chosen, {'workload': 'writeback'},
                         tmp_path / 'log')
    text = ' '.join(words)
    assert 'qemu-base-workload-7.3 --cpus 8 --topology cores=4,threads=2 --mem 3G --accel tcg' in text
    assert "workload-inside writeback --set quick --seconds 0.5 '--cases=ext4/*' --spoil stale" in words[-1]


@pytest.mark.parametrize('engine', ['uml', 'qemu'])
def test_only_ours_gets_more_parameters(engine, tmp_path):
    chosen = {**params('--engine', engine, '--append-cmwq', 'workqueue.own_pools=0'), 'accel': 'tcg'}
    assert 'ours is booted with workqueue.own_pools=0' in options.notes(chosen)
    for variant, more in (('cmwq', ['workqueue.own_pools=0']), ('base', [])):
        words = engines.ENGINES[engine].start(kernel(engine, variant, 'workload'), chosen,
                                              {'workload': 'nfs'}, tmp_path / 'log')
        assert words[words.index('--append') + 1].split() == disks.parameters().split() + more


def test_time_for_a_boot_follows_from_its_cases():
    assert engines.time_limit(params('--quick')) < engines.time_limit(params()) \
        < engines.time_limit(params('--seconds', '60'))


# Records and tables

def test_boots_alternate():
    """Each variant begins as often as the other: the first boot may be faster or slower."""
    order = run.boots_to_make(params('--pairs', '3', 'dm-crypt', 'writeback'))
    assert [(one['pair'], one['workload'], one['variant']) for one in order[:9]] == [
        (1, 'dm-crypt', 'cmwq'), (1, 'dm-crypt', 'base'), (1, 'writeback', 'cmwq'), (1, 'writeback', 'base'),
        (2, 'dm-crypt', 'base'), (2, 'dm-crypt', 'cmwq'), (2, 'writeback', 'base'), (2, 'writeback', 'cmwq'),
        (3, 'dm-crypt', 'cmwq')]
    assert {one['variant'] for one in run.boots_to_make(params('--variant', 'base'))} == {'base'}


def test_boots_left():
    made = [boot(1, 'dm-crypt', 'cmwq'), boot(1, 'dm-crypt', 'base'), boot(1, 'writeback', 'base')]
    left = run.boots_left(record(made, '--pairs', '1', 'dm-crypt', 'writeback'))
    assert left == [{'pair': 1, 'workload': 'writeback', 'variant': 'cmwq'}]


def test_ratio_is_taken_pair_by_pair():
    """In pair 2 both variants slow down equally. The ratio must not change."""
    boots = [boot(1, 'writeback', 'cmwq', 2.0), boot(1, 'writeback', 'base', 1.0),
             boot(2, 'writeback', 'cmwq', 1.0), boot(2, 'writeback', 'base', 0.5)]
    ratio = stats.summarise(boots)[0]['ratio']['rate']
    assert ratio['boots'] == 2 and ratio['min'] == pytest.approx(2) and ratio['max'] == pytest.approx(2)


def test_table_has_cases_figures_and_ratio():
    boots = [boot(pair, workload, variant, factor) for pair in (1, 2, 3) for workload in workloads.ALL
             for variant, factor in (('cmwq', 1.5), ('base', 1.0))]
    text = stats.format_summary(stats.summarise(boots))
    for name in workloads.ALL:
        for case in recorded(name)['runs']:
            row, = (line for line in text if line.startswith(f'{case["name"]} '))
            assert '  1.50  ' in row and case['unit'] in row
            assert stats.short(case['figures']['rate']) in row and stats.short(case['figures']['p99_us']) in row
    assert text[-1].startswith('ours/base')


def test_table_of_one_variant_and_of_a_case_that_one_lacks():
    text = stats.format_summary(stats.summarise([boot(1, 'writeback', 'base')]))
    assert not any('ours' in line for line in text)
    fewer = boot(1, 'writeback', 'cmwq')
    name = fewer['runs'].pop()['name']
    row, = (line for line in stats.table(stats.summarise([fewer, boot(1, 'writeback', 'base')]),
                                            writeback.WORKLOAD)
            if line.startswith(name))
    assert ' - ' in row
    assert stats.format_summary([]) == ['no case has figures']


def test_complaints_name_boot_and_place():
    wrong = boot(1, 'dm-crypt', 'base', wrong=[{'name': 'aes/ram/queue', 'why': 'fio: verify: bad header'}])
    assert turns.complaints(run.PROGRAM, record([wrong])) == [
        'pair 1 of 3, dm-crypt, base: WRONG DATA in aes/ram/queue: fio: verify: bad header']


def test_skipped_cases_are_told_once():
    why = 'the kernel has no xfs'
    boots = [boot(pair, 'writeback', 'base', skipped=[{'name': f'xfs/{job}', 'why': why} for job in writeback.JOBS])
             for pair in (1, 2)]
    assert run.skipped(record(boots)) == [f'writeback, base: skipped 2 cases, for example xfs/fsync: {why}']


def test_picture_of_recorded_data(tmp_path):
    """Also of the workloads that run only if they are named"""
    plot.write(record([boot(1, name, variant) for name in workloads.ALL for variant in ('cmwq', 'base')]), tmp_path)
    assert (tmp_path / 'plot.png').stat().st_size > 10000 and '</svg>' in (tmp_path / 'plot.svg').read_text()


# --here

@pytest.fixture
def root(monkeypatch):
    monkeypatch.setattr(os, 'geteuid', lambda: 0)


def running(monkeypatch, variant):
    monkeypatch.setattr(engines, 'running_variant', lambda: variant)
    monkeypatch.setattr(engines, 'running_kernel', lambda: {'release': f'7.3-{variant}', 'version': '#1'})


def test_here_needs_root(monkeypatch):
    monkeypatch.setattr(os, 'geteuid', lambda: 1000)
    with pytest.raises(Failure, match='needs root'):
        run.check_running(record([], '--here'))


def test_here_measures_one_kernel_after_the_other(monkeypatch, root):
    one = record([], '--here', '--pairs', '1', 'dm-crypt', 'writeback')
    running(monkeypatch, 'base')
    run.check_running(one)
    assert [left['variant'] for left in run.possible(one)] == ['base', 'base']
    running(monkeypatch, 'cmwq')
    run.check_running(one)
    assert [left['variant'] for left in run.possible(one)] == ['cmwq', 'cmwq']
    assert set(one['kernels']) == {'cmwq', 'base'}


def test_here_refuses_another_kernel(monkeypatch, root):
    running(monkeypatch, 'base')
    with pytest.raises(Failure, match='the running kernel is base, not cmwq'):
        run.check_running(record([], '--here', '--variant', 'cmwq'))
    other = {**record([], '--here'), 'kernels': {'base': {'release': '6.1', 'version': '#2'}}}
    with pytest.raises(Failure, match='has measured another base kernel'):
        run.check_running(other)


@pytest.mark.tier('test')
def test_here_says_how_to_go_on(monkeypatch, root, tmp_path, capsys):
    running(monkeypatch, 'base')
    made = [boot(1, name, 'base') for name in workloads.UNNAMED]
    results = turns.Results(run.PROGRAM, record(made, '--here', '--pairs', '1'), tmp_path)
    assert turns.finish(results, 0) == 0
    said = capsys.readouterr()
    assert 'to compare it with the cmwq kernel, boot that and run: scripts/run-workload.sh --resume' in said.err
    assert 'plot.png' in said.out and (tmp_path / 'plot.png').exists()


# A copy of the project with a fake guest

FAKE_GUEST = '''
name = re.search('workload-inside ([^ ]+)', argv[-1])[1]
number = note(kernel, name)
text = (here / f'uml-{name}.log').read_text()
if marked(f'dies-{number}'):
    log.write_text('Kernel panic - not syncing: test\\n')
    print('guest: the guest died', file=sys.stderr)
    sys.exit(125)
if marked(f'spoils-{number}'):
    text += '@workload {"kind": "wrong", "name": "ext4", "why": "fio: verify: bad header"}\\n'
log.write_text(text)
'''


@pytest.fixture
def project(tmp_path):
    """A copy of the scripts with empty kernels. The guest prints the recorded log."""
    return copied.project(tmp_path, 'run-workload.sh', FAKE_GUEST, {'config': 'workload'},
                          'build/workload', {f'uml-{name}.log': text for name, text in RECORDED.items()})


QUICK = ('--no-build', '--quick')


@pytest.mark.tier('test')
def test_whole_run(project):
    done = project.run(*QUICK)
    assert done.returncode == 0, done.stderr
    once = [f'uml-{variant}-workload-7.3 {name}' for name in workloads.UNNAMED for variant in ('cmwq', 'base')]
    twice = [f'uml-{variant}-workload-7.3 {name}' for name in workloads.UNNAMED for variant in ('base', 'cmwq')]
    assert project.calls() == once + twice
    folder, result = project.results()
    assert result['complete'] and result['kernels']['cmwq']['release'] == '7.3.4-cmwq'
    assert [row['workload'] for row in result['summary']] == \
        [name for name in workloads.UNNAMED for _ in recorded(name)['runs']]
    assert all(row['ratio']['rate']['median'] == 1 for row in result['summary'])
    assert (folder / 'plot.png').read_bytes().startswith(b'\x89PNG')
    assert sorted(path.name for path in (folder / 'logs').iterdir())[0] == '001-dm-crypt-base.log'
    assert 'aes/ram/queue/32k-all/system ' in done.stdout and re.search('^ext4/fsync .* 1.00 ', done.stdout, re.M)
    assert f'[{len(once) * 2}/{len(once) * 2}] pair 2 of 2, {workloads.UNNAMED[-1]}, cmwq' in done.stderr
    assert 'note: UML has no caches' in done.stderr


@pytest.mark.tier('test')
def test_wrong_data_fails_the_run(project):
    project.mark('spoils-4')
    done = project.run(*QUICK, '--pairs', '1')
    assert done.returncode == 1
    assert 'FAILED: pair 1 of 1, writeback, base: WRONG DATA in ext4: fio: verify: bad header' in done.stderr
    assert project.results()[1]['complete'] and 'ext4/fsync' in done.stdout


def test_dead_guests_end_the_run_which_can_be_resumed(project):
    project.mark('dies-2')
    project.mark('dies-3')
    done = project.run(*QUICK, '--pairs', '1', 'writeback')
    assert done.returncode == 1 and len(project.calls()) == 3
    assert 'the workload did not start (status 125: "Kernel panic - not syncing: test")' in done.stderr
    assert 'trying once more' in done.stderr and 'ext4/fsync' in done.stdout
    assert done.stderr.splitlines()[-1].startswith('run-workload: to continue: scripts/run-workload.sh --resume build/')
    done = project.run('--resume')
    assert project.calls()[3:] == ['uml-base-workload-7.3 writeback'] and project.results()[1]['complete']
    assert done.returncode == 1 and 'FAILED: pair 1 of 1, writeback, base, attempt 2' in done.stderr


def test_log_of_a_guest_that_took_too_long(tmp_path):
    with pytest.raises(BootError, match=r'the run took longer than \d+ s'):
        engines.entry_of(params('--quick', 'nfs'), {'pair': 1}, tmp_path / 'log', 124, 70.0)


def test_packages_of_workloads_are_asked_for(tmp_path):
    """Only CONFIG=workload needs the tools of file systems."""
    script = tmp_path / 'deps.sh'
    text = (ROOT / 'scripts/deps.sh').read_text()
    script.write_text(text.replace(':/usr/sbin:/sbin command', ' command'))
    path = path_without(tmp_path, 'mkfs.xfs', 'mkfs.btrfs')
    asked = call('bash', script, '--check', PATH=path, CONFIG='workload').stderr
    assert 'xfsprogs' in asked and 'btrfs-progs' in asked
    assert 'xfsprogs' not in call('bash', script, '--check', PATH=path).stderr

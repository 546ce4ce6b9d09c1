# SPDX-License-Identifier: GPL-2.0
"""The workload endure: which changes are made, that they are put back, and what it makes of fio's reports."""
import collections
import errno
import itertools
import os
import random
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from calls import call
from wqlab.steps import Failure
from wqlab.workload import cases, changes, disks, endure, engines, fio, lines, machine, options, scopes

SCOPES = {'cpu', 'smt', 'cache', 'cache_shard', 'numa', 'system'}
QUEUES = ('kcryptd-254:0-1', 'writeback')


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Files as those of a kernel with four CPUs, of which the first cannot go offline."""
    files = {'queues/cpumask': 'f', 'queues/cpumask_requested': 'f', 'queues/cpumask_isolated': '0',
             'queues/kcryptd_io-254:0-1/max_active': '1', 'parameters/default_affinity_scope': 'cache_shard',
             'parameters/cache_shard_size': '8', 'cpu/present': '0-3', 'drop_caches': '0', 'memory.reclaim': '',
             **{f'cpu/cpu{number}/online': '1' for number in (1, 2, 3)}}
    for queue in QUEUES:
        files |= {f'queues/{queue}/{name}': text for name, text in (
            ('affinity_scope', 'default (cache_shard)'), ('affinity_strict', '0'), ('cpumask', 'f'), ('nice', '0'),
            ('max_active', '4'))}
    for name, text in {**files, 'mounts': f'cgroup2 {tmp_path} cgroup2 rw 0 0'}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + '\n')
    for name in ('queues/cpumask_requested', 'queues/cpumask_isolated'):
        (tmp_path / name).chmod(0o444)
    monkeypatch.setattr(scopes, 'SYSFS', tmp_path / 'queues')
    monkeypatch.setattr(scopes, 'DEFAULT', tmp_path / 'parameters/default_affinity_scope')
    for name, place in (('SHARD_SIZE', 'parameters/cache_shard_size'), ('CPUS', 'cpu'), ('MOUNTS', 'mounts'),
                        ('DROP_CACHES', 'drop_caches')):
        monkeypatch.setattr(changes, name, tmp_path / place)
    monkeypatch.setattr(changes, 'PACE_S', 0)
    monkeypatch.setattr(os, 'sync', lambda: None)
    return tmp_path


@pytest.fixture
def written(kernel, monkeypatch):
    """What is written to each file, except at the end."""
    found = collections.defaultdict(list)
    put = scopes.put

    def noting(path, value):
        found[str(path.relative_to(kernel))].append(value)
        put(path, value)
    monkeypatch.setattr(scopes, 'put', noting)
    return found


def contents(folder):
    return {path: changes.content(path) for path in folder.rglob('*')
            if path.is_file() and path.name not in ('drop_caches', 'memory.reclaim')}


def change(count, seed=1):
    """Make this many changes, if none fails."""
    with changes.Changer(random.Random(seed), changes.PACE_S) as changer:
        while len(changer.seconds) < count and not changer.error:
            changer.ending.wait(0.001)
    changer.check()
    return changer


# Which changes

def test_all_kinds_are_made_and_put_back(kernel):
    before = contents(kernel)
    changer = change(200)
    figures = changer.figures()
    assert changer.complete and all(figures[name] > 0 for name in changes.NAMES)
    assert figures['changes'] == sum(figures[name] for name in changes.NAMES) == len(changer.seconds) >= 200
    assert 0 < figures['p50_us'] <= figures['p99_us'] <= figures['p999_us']
    assert contents(kernel) == before
    # What cannot be read back as it is written
    assert (kernel / 'queues/writeback/affinity_scope').read_text() == 'default'


def test_values(kernel, written):
    change(2000)
    for queue in QUEUES:
        names = {name: set(written[f'queues/{queue}/{name}']) for name in
                 ('affinity_scope', 'affinity_strict', 'cpumask', 'nice', 'max_active')}
        assert names['affinity_scope'] == SCOPES | {'default'} and names['affinity_strict'] == {'0', '1'}
        assert names['nice'] <= {str(nice) for nice in range(-20, 20)} and len(names['nice']) > 10
        assert {int(mask, 16) for mask in names['cpumask']} - {0xf} <= set(range(1, 16)) and len(names['cpumask']) > 8
        assert names['max_active'] - {'4'} == {'1', '2', '5', '16', '256'}
    assert set(written['parameters/default_affinity_scope']) == SCOPES
    assert set(written['parameters/cache_shard_size']) == {'1', '2', '3', '4', '8'}
    for number in (1, 2, 3):
        states = written[f'cpu/cpu{number}/online']
        changed = [state for state, _ in itertools.groupby(states)]
        assert changed[0] == '0' and set(states) == {'0', '1'} and len(states) - len(changed) <= 1
    assert set(written['drop_caches']) == {'3'} and set(written['memory.reclaim']) == {'16M'}
    assert not any('requested' in name or 'isolated' in name for name in written)


def test_order_follows_from_the_seed():
    weights = {'a': 3, 'b': 1, 'c': 2}

    def first(seed):
        return list(itertools.islice(changes.order(weights, random.Random(seed)), 60))
    assert first(1) == first(1) != first(2)
    for place in range(0, 60, 6):
        assert collections.Counter(first(1)[place:place + 6]) == weights


def test_same_seed_same_changes(kernel, monkeypatch):
    def made(seed):
        found = []
        monkeypatch.setattr(scopes, 'put', lambda path, value: found.append((path, value)))
        change(100, seed)
        return found[:100]
    assert made(1) == made(1) != made(2)


def test_kernel_that_cannot_change_all(kernel, written):
    """As the base kernel under UML: no hotplug, and a shard size that cannot be changed."""
    (kernel / 'parameters/cache_shard_size').chmod(0o444)
    (kernel / 'queues/writeback/max_active').chmod(0o444)
    shutil.rmtree(kernel / 'cpu/cpu1')
    for number in (2, 3):
        shutil.rmtree(kernel / f'cpu/cpu{number}')
    changer = change(300)
    assert changer.complete and changer.figures()['hotplug'] == changer.figures()['shard_size'] == 0
    assert not {'parameters/cache_shard_size', 'queues/writeback/max_active'} & set(written)


def test_kernel_without_shards(kernel, written):
    (kernel / 'parameters/cache_shard_size').unlink()
    change(300)
    assert set(written['parameters/default_affinity_scope'][:-1]) == SCOPES - {'cache_shard'}
    assert 'cache_shard' not in written['queues/writeback/affinity_scope']


@pytest.mark.parametrize('numbers, text', [([0], '00000001'), ([0, 1, 31], '80000003'), ([32], '00000001,00000000'),
                                           ([1, 67], '00000008,00000000,00000002')])
def test_masks_as_the_kernel_reads_them(numbers, text):
    assert changes.mask_text(numbers) == text


def test_requested_mask_is_put_back(kernel):
    """The mask in force lacks the isolated CPUs."""
    (kernel / 'queues/cpumask').write_text('7\n')
    assert changes.content(kernel / 'queues/cpumask') == 'f'
    assert changes.content(kernel / 'queues/writeback/cpumask') == 'f'


# Refusals

def refusing(monkeypatch, name, number=errno.EINVAL):
    put = scopes.put

    def refuse(path, value):
        if path.name == name:
            raise OSError(number, os.strerror(number))
        put(path, value)
    monkeypatch.setattr(scopes, 'put', refuse)


@pytest.mark.parametrize('name, number, why', [
    ('nice', errno.EINVAL, r"the kernel refuses '-?\d+' in .*/nice: Invalid argument"),
    ('online', errno.EBUSY, "the kernel refuses '0' in .*/online: Device or resource busy"),
    ('drop_caches', errno.EAGAIN, "the kernel refuses '3' in .*/drop_caches: Resource temporarily"),
    ('memory.reclaim', errno.EINVAL, "the kernel refuses '16M' in .*/memory.reclaim: Invalid"),
])
def test_refused_change_is_an_error(kernel, monkeypatch, name, number, why):
    before = contents(kernel)
    refusing(monkeypatch, name, number)
    with pytest.raises(Failure, match=why):
        change(1000)
    assert contents(kernel) == before


def test_nothing_left_to_reclaim(kernel, monkeypatch):
    refusing(monkeypatch, 'memory.reclaim', errno.EAGAIN)
    assert change(200).figures()['memory'] > 5


def test_no_cgroup(kernel, monkeypatch):
    (kernel / 'mounts').write_text('proc /proc proc rw 0 0\n')
    calls = []

    def run(*words):
        calls.append(words[0])
        if words[0] == 'mount':
            raise Failure('mount failed with status 32')
    monkeypatch.setattr(machine, 'run', run)
    assert change(100).figures()['memory'] > 0 and calls == ['mount']


def test_queue_that_goes_away(kernel):
    settings = changes.Settings()
    path = kernel / 'queues/writeback/nice'
    assert settings.put(path, '5')
    shutil.rmtree(path.parent)
    assert not settings.put(path, '6')
    settings.put_back()


def test_settings_that_do_not_come_back(kernel, monkeypatch):
    settings = changes.Settings()
    for name in ('nice', 'cpumask'):
        settings.put(kernel / 'queues/writeback' / name, '3')
    refusing(monkeypatch, 'nice')
    with pytest.raises(Failure, match='1 settings could not be put back: .*/nice is 3, and not 0 as before'):
        settings.put_back()
    assert (kernel / 'queues/writeback/cpumask').read_text() == 'f'


def test_CPUs_come_back_first(kernel, written):
    settings = changes.Settings()
    settings.put(kernel / 'queues/writeback/nice', '3')
    settings.put(kernel / 'cpu/cpu1/online', '0')
    written.clear()
    settings.put_back()
    assert list(written) == ['cpu/cpu1/online', 'queues/writeback/nice']


# What is written

@pytest.mark.parametrize('cpus', [1, 2, 24, 512])
@pytest.mark.parametrize('piece', endure.PIECES, ids=lambda piece: piece.name)
def test_jobs_have_blocks_of_their_own(piece, cpus):
    jobs = endure.Stack(None, None, cpus).jobs
    size = endure.size_each(piece, jobs)
    assert 2 <= jobs <= max(2, cpus) and size >= 2 * piece.block and size % piece.block == 0
    assert jobs * size <= piece.mib << 20 <= endure.ALL_MIB << 20
    assert endure.ALL_MIB * 2 < disks.MIB


class Watched(endure.Stack):
    """A stack on nothing. `calls` are the runs of fio: (its options, what was asked for beyond)."""
    def __init__(self, cpus):
        super().__init__(None, SimpleNamespace(place='/x'), cpus)
        self.calls, self.digests, self.missing, self.complaints, self.lines = [], itertools.repeat('same'), 0, [], []

    def open(self, new):
        self.calls.append(('open', new))

    def close(self):
        self.calls.append(('close',))

    def digest(self):
        return next(self.digests)

    def run(self, job, **more):
        self.calls.append((job.options, more))
        piece, = (piece for piece in endure.PIECES if piece.block == job.options['bs'])
        return {'read': {'io_bytes': job.jobs * endure.size_each(piece, job.jobs) - self.missing}}


@pytest.fixture
def stack(monkeypatch):
    found = Watched(2)
    monkeypatch.setattr(fio, 'run', found.run)
    monkeypatch.setattr(machine, 'KernelLog', lambda: SimpleNamespace(complaints=lambda: found.complaints))
    monkeypatch.setattr(lines, 'emit', lambda kind, **fields: found.lines.append((kind, fields)))
    return found


def test_data_is_verified_before_it_is_overwritten(stack):
    piece, chance = endure.PIECES[0], random.Random(1)
    assert stack.write(piece, chance) == 24 << 20
    assert stack.write(piece, chance) == 48 << 20
    (first, more), (again, only), (second, last) = stack.calls
    assert more == last == {} and only == {'verify_only': 1} and first == again
    assert second['randseed'] != first['randseed'] and second['verify'] == 'crc32c'


def test_data_that_fio_does_not_verify(stack):
    stack.missing = 4096
    with pytest.raises(cases.Wrong, match=r'direct: fio has verified \d+ bytes instead of 25165824'):
        stack.write(endure.PIECES[0], random.Random(1))


def test_a_case_lasts_until_all_kinds_were_made(stack, kernel):
    random.seed(5)
    unit, figures = stack.measure('ext4-on-crypt', 0.1)
    assert unit == 'MiB/s' and figures['rate'] > 0 and figures['rounds'] >= 1
    assert figures['verified_mib'] == 50 * (2 * figures['rounds'] - 1)
    assert all(figures[name] > 0 for name in changes.NAMES)
    kind, fields = stack.lines[0]
    assert kind == 'news' and re.fullmatch(r'ext4-on-crypt: round 1, direct, \d+ changes', fields['text'])


def test_refused_change_ends_the_case(stack, kernel, monkeypatch):
    refusing(monkeypatch, 'cpumask')
    with pytest.raises(Failure, match='the kernel refuses'):
        stack.measure('ext4-on-crypt', 3600)


def test_log_is_read_in_each_round(stack, kernel):
    stack.complaints = ['WARNING: x']
    stack.measure('ext4-on-crypt', 0.1)
    assert ('trouble', {'lines': ['WARNING: x']}) in stack.lines


def test_data_is_read_again(stack):
    for piece in endure.PIECES:
        stack.write(piece, random.Random(1))
    del stack.calls[:]
    stack.check_again()
    assert stack.calls[:2] == [('close',), ('open', False)]
    assert [more for _, more in stack.calls[2:]] == [{'verify_only': 1}] * 3


def test_other_data_after_all_was_mounted_again(stack):
    stack.digests = iter(['before', 'after'])
    with pytest.raises(cases.Wrong, match='other data'):
        stack.check_again()


def test_damaged_file_system(monkeypatch):
    def run(*words):
        raise Failure('e2fsck -f -n failed with status 4: Inode 12 has an invalid extent')
    monkeypatch.setattr(machine, 'run', run)
    with pytest.raises(cases.Wrong, match='ext4 is damaged: e2fsck .*Inode 12'):
        endure.check_file_system(Path('/dev/x'))


# The command line

def test_it_runs_only_if_it_is_named():
    assert 'endure' not in options.parse_args([])[0]['workloads']
    assert 'endure' not in options.parse_args(['--quick'])[0]['workloads']
    assert options.parse_args(['--quick', 'endure'])[0]['workloads'] == ['endure']
    listed = call('scripts/run-workload.sh', '--list').stdout.splitlines()
    assert 'endure ext4-on-crypt quick, only if named' in [' '.join(line.split()) for line in listed]
    assert not any('named' in line for line in listed if not line.startswith('endure'))


def test_seed_is_chosen_told_and_passed_on():
    params = options.parse_args(['endure', '--seed', '5'])[0]
    assert engines.inside(params, 'endure')[-2:] == ['--seed', '5']
    assert 'to make the same random choices again, give --seed 5' in options.notes(params)
    seeds = {options.parse_args(['endure'])[0]['seed'] for _ in range(3)}
    assert len(seeds) > 1
    assert not any('--seed' in note for note in options.notes(options.parse_args(['writeback'])[0]))


def test_seed_that_is_no_number():
    done = call('scripts/run-workload.sh', '--seed', 'x', 'endure')
    assert done.returncode == 2 and '"x" is not a number' in done.stderr


def test_progress_of_a_long_case(tmp_path):
    log = tmp_path / 'log'
    log.write_text('@workload {"kind": "begin", "cases": ["ext4-on-crypt"]}\n'
                   '@workload {"kind": "news", "text": "ext4-on-crypt: 3 rounds, 120 changes"}\n')
    assert engines.newest(log) == '0 of 1 cases, ext4-on-crypt: 3 rounds, 120 changes'

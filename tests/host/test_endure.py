# SPDX-License-Identifier: GPL-2.0
"""The workload endure: which changes are made, that they are put back, and what it makes of fio's reports."""
import collections
import errno
import itertools
import os
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from calls import call
from wqlab import files
from wqlab.scopes import SCOPES as ALL
from wqlab.steps import Failure
from wqlab.workload import cases, disks, endure, fio, lines, machine, options, scopes

SCOPES = set(ALL)
QUEUES = ('kcryptd-254:0-1', 'writeback')


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Files as those of a kernel with four CPUs, of which the first cannot go offline."""
    files = {'queues/cpumask': 'f', 'queues/cpumask_requested': 'f', 'queues/cpumask_isolated': '0',
             'queues/kcryptd_io-254:0-1/max_active': '1', 'parameters/default_affinity_scope': 'cache_shard',
             'parameters/cache_shard_size': '8', 'cpu/present': '0-3',
             **{f'cpu/cpu{number}/online': '1' for number in (1, 2, 3)}}
    for queue in QUEUES:
        files |= {f'queues/{queue}/{name}': text for name, text in (
            ('affinity_scope', 'default (cache_shard)'), ('affinity_strict', '0'), ('cpumask', 'f'), ('nice', '0'),
            ('max_active', '4'))}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + '\n')
    for name in ('queues/cpumask_requested', 'queues/cpumask_isolated'):
        (tmp_path / name).chmod(0o444)
    monkeypatch.setattr(scopes, 'SYSFS', tmp_path / 'queues')
    monkeypatch.setattr(scopes, 'DEFAULT', tmp_path / 'parameters/default_affinity_scope')
    monkeypatch.setattr(endure, 'SHARD_SIZE', tmp_path / 'parameters/cache_shard_size')
    monkeypatch.setattr(endure, 'CPUS', tmp_path / 'cpu')
    monkeypatch.setattr(endure, 'PACE_S', 0)
    return tmp_path


@pytest.fixture
def written(kernel, monkeypatch):
    """What is written to each file, with what it has again at the end."""
    found = collections.defaultdict(list)
    put = files.put

    def noting(path, value):
        found[str(path.relative_to(kernel))].append(value)
        put(path, value)
    monkeypatch.setattr(files, 'put', noting)
    return found


def contents(folder):
    return {path: endure.content(path) for path in folder.rglob('*') if path.is_file()}


def change(count):
    """Make this many changes, if none fails."""
    changer = endure.Changer()
    changer.ending.wait = lambda timeout=None: len(changer.seconds) >= count
    changer.work()
    return changer


# Which changes

def test_all_kinds_are_made_and_put_back(kernel):
    before = contents(kernel)
    changer = change(200)
    figures = changer.figures()
    assert changer.complete and all(figures[name] > 0 for name in endure.KINDS)
    assert figures['changes'] == sum(figures[name] for name in endure.KINDS) == len(changer.seconds) >= 200
    assert 0 < figures['p50_us'] <= figures['p99_us'] <= figures['p999_us']
    assert contents(kernel) == before
    # What cannot be read back as it is written
    assert (kernel / 'queues/writeback/affinity_scope').read_text() == 'default'


def test_values(kernel, written):
    change(2500)
    for queue in QUEUES:
        names = {name: set(written[f'queues/{queue}/{name}']) for name in
                 ('affinity_scope', 'affinity_strict', 'cpumask', 'nice', 'max_active')}
        assert names['affinity_scope'] == SCOPES | {'default'} and names['affinity_strict'] == {'0', '1'}
        assert names['nice'] <= {str(nice) for nice in range(-20, 20)} and len(names['nice']) > 10
        assert {int(mask, 16) for mask in names['cpumask']} <= set(range(1, 16)) and len(names['cpumask']) > 8
        assert names['max_active'] - {'4'} == {'1', '2', '5', '16', '256'}
    assert set(written['parameters/default_affinity_scope']) == SCOPES
    assert set(written['parameters/cache_shard_size']) == {'1', '2', '3', '4', '8'}
    for number in (1, 2, 3):
        states = written[f'cpu/cpu{number}/online']
        changed = [state for state, _ in itertools.groupby(states)]
        assert changed[0] == '0' and set(states) == {'0', '1'} and len(states) - len(changed) <= 1
    assert not any('requested' in name or 'isolated' in name for name in written)


def test_kernel_that_cannot_change_all(kernel, written):
    """As the base kernel under UML: no hotplug, and a shard size that cannot be changed."""
    (kernel / 'parameters/cache_shard_size').chmod(0o444)
    (kernel / 'queues/writeback/max_active').chmod(0o444)
    for number in (1, 2, 3):
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
    assert endure.mask_text(numbers) == text


def test_requested_mask_is_put_back(kernel):
    """The mask in force lacks the isolated CPUs."""
    (kernel / 'queues/cpumask').write_text('7\n')
    assert endure.content(kernel / 'queues/cpumask') == 'f'


# Refusals

def refusing(monkeypatch, name, number=errno.EINVAL):
    put = files.put

    def refuse(path, value):
        if path.name == name:
            raise OSError(number, os.strerror(number))
        put(path, value)
    monkeypatch.setattr(files, 'put', refuse)


@pytest.mark.parametrize('name, number, why', [
    ('nice', errno.EINVAL, r"the kernel refuses '-?\d+' in .*/nice: Invalid argument"),
    ('online', errno.EBUSY, "the kernel refuses '0' in .*/online: Device or resource busy"),
])
def test_refused_change_is_an_error(kernel, monkeypatch, name, number, why):
    before = contents(kernel)
    refusing(monkeypatch, name, number)
    with pytest.raises(Failure, match=why):
        change(1000)
    assert contents(kernel) == before


def test_queue_that_goes_away(kernel):
    changer = endure.Changer()
    path = kernel / 'queues/writeback/nice'
    changer.put(path, '5')
    shutil.rmtree(path.parent)
    changer.put(path, '6')
    changer.put_back()


def test_setting_that_does_not_come_back(kernel, monkeypatch):
    changer = endure.Changer()
    changer.put(kernel / 'queues/writeback/nice', '3')
    refusing(monkeypatch, 'nice')
    with pytest.raises(Failure, match='/nice is 3, and not 0 as before'):
        changer.put_back()


def test_CPUs_come_back_first(kernel, written):
    changer = endure.Changer()
    changer.put(kernel / 'queues/writeback/nice', '3')
    changer.put(kernel / 'cpu/cpu1/online', '0')
    written.clear()
    changer.put_back()
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
    piece = endure.PIECES[0]
    assert stack.write(piece) == 24 << 20
    assert stack.write(piece) == 48 << 20
    (first, more), (again, only), (second, last) = stack.calls
    assert more == last == {} and only == {'verify_only': 1} and first == again
    assert second['randseed'] != first['randseed'] and second['verify'] == 'crc32c'


def test_data_that_fio_does_not_verify(stack):
    stack.missing = 4096
    with pytest.raises(cases.Wrong, match=r'direct: fio has verified \d+ bytes instead of 25165824'):
        stack.write(endure.PIECES[0])


def test_a_case_lasts_until_all_kinds_were_made(stack, kernel):
    random.seed(5)
    stack.complaints = ['WARNING: x']
    unit, figures = stack.measure('ext4-on-crypt', 0.1)
    assert unit == 'MiB/s' and figures['rate'] > 0 and figures['rounds'] >= 1
    assert figures['verified_mib'] == 50 * (2 * figures['rounds'] - 1)
    assert all(figures[name] > 0 for name in endure.KINDS)
    assert stack.lines == [('trouble', {'lines': ['WARNING: x']})] * figures['rounds']


def test_refused_change_ends_the_case(stack, kernel, monkeypatch):
    refusing(monkeypatch, 'cpumask')
    with pytest.raises(Failure, match='the kernel refuses'):
        stack.measure('ext4-on-crypt', 3600)


def test_data_is_read_again(stack):
    for piece in endure.PIECES:
        stack.write(piece)
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
    assert options.parse_args(['--quick', 'endure'])[0]['workloads'] == ['endure']
    listed = call('scripts/run-workload.sh', '--list').stdout.splitlines()
    assert 'endure ext4-on-crypt quick, only if named' in [' '.join(line.split()) for line in listed]
    assert not any('named' in line for line in listed if not line.startswith('endure'))

# SPDX-License-Identifier: GPL-2.0
"""The description of a guest, without a boot: machines, kernels, KVM, the initrd."""
import contextlib
import os
import platform
import re
import socket
import subprocess
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

import guests
from wqlab import cpus
from wqlab.bench import options as bench_options
from wqlab.bench import seat
from wqlab.guest import boot, initramfs, kvm, run, tsc
from wqlab.guest import channels as channels_module
from wqlab.guest.channels import LOG, OUT, Feeder, FileChannel, Reader, SocketChannel
from wqlab.guest.engines import ENGINES, find_kernel
from wqlab.guest.engines.qemu import Qemu
from wqlab.guest.setup import Setup
from wqlab.guest.topology import Topology, complete, parse
from wqlab.measure import boot as measure_boot
from wqlab.steps import Failure

# CPU lists

@pytest.mark.parametrize('text, numbers', [
    ('', []), ('\n', []), ('0', [0]), ('0-2,5\n', [0, 1, 2, 5]), ('7-7,10-11', [7, 10, 11]),
])
def test_list_of_cpus(text, numbers):
    assert cpus.parse(text) == numbers


@pytest.mark.parametrize('text', ['x', '3-1', '1-', '-1', '0-2:1'])
def test_no_list_of_cpus(text):
    with pytest.raises(ValueError):
        cpus.parse(text)


# The host's counter, which emulated CPUs read

@pytest.fixture
def unknown_rate():
    """The rate has not been measured, neither before the test nor after it."""
    forget = tsc.rate_khz.cache_clear
    forget()
    yield
    forget()


def rate_in(parameters):
    return [int(word.partition('=')[2]) for word in parameters if word.startswith('tsc_early_khz=')]


def test_guest_is_told_the_rate(tmp_path, monkeypatch, unknown_rate):
    monkeypatch.setattr(platform, 'machine', lambda: 'aarch64')
    plain = Setup(tmp_path, tmp_path, Topology(), 512, 'true')
    assert rate_in(Qemu().parameters(plain)) == []
    monkeypatch.setattr(tsc, 'rate_khz', lambda: 2596122)
    assert rate_in(Qemu().parameters(plain)) == [2596122]
    assert rate_in(Qemu().parameters(replace(plain, icount=True))) == []
    assert rate_in(Qemu().parameters(replace(plain, accel='kvm'))) == []


def test_host_that_forbids_to_make_code(monkeypatch, capsys, unknown_rate):
    def refuse(*args, **kwargs):
        raise PermissionError('no')
    monkeypatch.setattr(tsc, 'has_counter', lambda: True)
    monkeypatch.setattr(tsc.mmap, 'mmap', refuse)
    assert tsc.rate_khz() is None
    assert 'the time stamp counter cannot be read (no)' in capsys.readouterr().err


@pytest.mark.parametrize('counts, rate', [
    ((52_000_000, 52_000_100), 2_600_002), ((52_000_000, 52_100_000), None), ((-1, -1), None), ((0, 0), None),
])
def test_counter_that_jumps(monkeypatch, capsys, unknown_rate, counts, rate):
    monkeypatch.setattr(tsc, 'has_counter', lambda: True)
    monkeypatch.setattr(tsc, 'differences', lambda: [(count, 20_000_000) for count in counts])
    assert tsc.rate_khz() == rate
    assert ('jumps' in capsys.readouterr().err) == (rate is None)


# Machines

@pytest.fixture
def folder(tmp_path):
    """A build folder with something like a kernel."""
    image = tmp_path / ENGINES['qemu'].image
    image.parent.mkdir(parents=True)
    image.write_text('')
    return tmp_path


def test_kernel_that_make_boot_cannot_use(folder, capsys):
    """Its root is the host's file system, which needs 9p."""
    (folder / '.config').write_text('CONFIG_64BIT=y\n# CONFIG_9P_FS is not set\n')
    assert boot.main(['--kernel', str(folder), '--command', 'true']) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r'boot: .* has no 9p .*`scripts/lab guest`\n', said), said


@pytest.mark.parametrize('text, number, why', [
    ('cores=4,nodes=3', None, 'nodes=3 does not divide 4 CPUs'),
    ('cores=2,cores=3', None, 'gives cores twice'),
    ('sockets=2,cores=2,llcs=3', None, 'llcs=3 must be a multiple of sockets=2'),
    ('cores=4,llcs=3', None, 'that divides the 4 cores'),
    ('cores=2,nodes=2,memless=2', None, 'at least one of 2 nodes must have memory'),
    ('cores=1025', None, 'NUMBER from 1 to 1024'),
    ('cores=\u00b2', None, 'NUMBER from 1 to 1024'),
    ('cores=4', 3, '3 CPUs do not fit the topology, which has 4'),
])
def test_who_boots_a_guest_refuses_the_same_machines(folder, capsys, text, number, why):
    """Bench and guests share a parser, so a topology that the bench accepts cannot fail later in a guest."""
    words = ['--topology', text, *(['--cpus', str(number)] if number else [])]
    assert run.main(['--kernel', str(folder), *words, '--', 'true']) == 2
    assert why in capsys.readouterr().err
    assert boot.main(['--kernel', str(folder), *words, '--command', 'true']) == 2
    assert why in capsys.readouterr().err
    with pytest.raises(SystemExit):
        bench_options.parse_args(['--engine', 'qemu', *words])
    assert why in capsys.readouterr().err


@pytest.mark.parametrize('words, machine', [
    ([], Topology(cores=2)),
    (['--cpus', '3'], Topology(cores=3)),
    (['--topology', 'sockets=2'], Topology(cores=2, sockets=2, llcs=2)),
    (['--topology', 'threads=2'], Topology(cores=2, threads=2)),
    (['--topology', 'threads=2', '--cpus', '8'], Topology(cores=4, threads=2)),
    (['--topology', 'cores=2,nodes=2,memless=1,cpuless=1'], Topology(cores=2, nodes=2, memless=1, cpuless=1)),
])
def test_the_bench_counts_the_cpus_that_its_guests_have(folder, words, machine):
    params = bench_options.parse_args(['--engine', 'qemu', *words])[0]
    argv = seat.guest_arguments(measure_boot.kernel('qemu', 'cmwq'), {**params, 'accel': None},
                                      {'variant': 'cmwq'}, 'log')
    args = run.options().parse_args(argv[2:])
    assert complete(parse(args.topology or ''), args.cpus) == machine
    assert params['cpus'] == machine.cpus


# Kernels

@pytest.mark.parametrize('name', ENGINES)
def test_kernel_of_each_engine(tmp_path, name):
    image = tmp_path / ENGINES[name].image
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_text('')
    for kernel, engine in ((tmp_path, None), (image, None), (tmp_path, name)):
        assert find_kernel(kernel, engine) == (ENGINES[name], image, tmp_path)


def test_kernel_that_is_in_no_build_folder(tmp_path):
    """For example /boot/vmlinuz: only its own folder is searched."""
    (tmp_path / 'vmlinuz').write_text('')
    assert find_kernel(tmp_path / 'vmlinuz') == (ENGINES['qemu'], tmp_path / 'vmlinuz', tmp_path)


def test_no_kernel(tmp_path):
    with pytest.raises(Failure, match='has no linux: build it'):
        find_kernel(tmp_path, 'uml')
    with pytest.raises(Failure, match="engine 'xen': must be one of uml, qemu, arm64"):
        find_kernel(tmp_path, 'xen')


# KVM

class Host:
    """A host with a /dev/kvm. Called with a kernel, it returns the remembered result or that of a boot."""
    def __init__(self, folder):
        self.folder, self.tried = folder, []

    def __call__(self, content):
        (self.folder / 'image').write_text(content)

        def boots():
            self.tried.append(content)
            return content == 'good'
        return kvm.works(self.folder / 'image', boots)


@pytest.fixture
def host(tmp_path, monkeypatch):
    (tmp_path / 'kvm').write_text('')
    (tmp_path / 'boot_id').write_text('first\n')
    monkeypatch.setattr(kvm, 'CACHE', tmp_path / 'cache')
    monkeypatch.setattr(kvm, 'DEVICE', tmp_path / 'kvm')
    monkeypatch.setattr(kvm, 'BOOT_ID', tmp_path / 'boot_id')
    return Host(tmp_path)


@pytest.mark.usefixtures('quiet')
def test_a_kernel_that_kvm_does_not_run_says_nothing_about_the_next(host):
    assert [host(kernel) for kernel in ('bad', 'good', 'bad', 'good')] == [False, True, False, True]
    assert host.tried == ['bad', 'good']


@pytest.mark.usefixtures('quiet')
def test_kvm_is_tried_again_after_a_boot_of_the_host(host):
    host('good')
    (host.folder / 'boot_id').write_text('second\n')
    assert host('good') and host.tried == ['good', 'good']


def test_no_kvm(host):
    (host.folder / 'kvm').unlink()
    assert not host('good') and not host.tried


# Files of a guest, and its output

def test_archive_is_what_cpio_reads(tmp_path):
    (tmp_path / 'from/sub').mkdir(parents=True)
    (tmp_path / 'from/sub/a').write_text('of the host')
    (tmp_path / 'from/run').write_text('')
    (tmp_path / 'from/run').chmod(0o755)
    archive = initramfs.Archive()
    archive.file('etc/deep/file', b'odd', 0o640)
    archive.link('bin/sh', '../etc/deep/file')
    archive.host(tmp_path / 'from', '/there')
    into = tmp_path / 'into'
    into.mkdir()
    subprocess.run(['cpio', '-i', '--quiet'], cwd=into, input=archive.content(), check=True)
    assert (into / 'bin/sh').read_text() == 'odd' and (into / 'etc/deep/file').stat().st_mode & 0o777 == 0o640
    assert (into / 'there/sub/a').read_text() == 'of the host' and (into / 'there/run').stat().st_mode & 0o100


def test_an_archive_that_cannot_be_made_is_not_kept(tmp_path, monkeypatch):
    folder = tmp_path / 'cache'
    folder.mkdir()
    monkeypatch.setattr(initramfs, 'CACHE', folder)

    def fails():
        raise Failure('no')
    with pytest.raises(Failure):
        initramfs.cached('base', 1, fails)
    assert not list(folder.iterdir())
    assert initramfs.cached('base', 1, lambda: b'x').read_bytes() == b'x'
    assert initramfs.cached('base', 1, fails).read_bytes() == b'x'


def test_reader_tells_channels_and_status_apart(tmp_path):
    channels = {name: FileChannel(tmp_path / name) for name in (LOG, OUT)}
    reader = Reader(channels, 'mark=', log=tmp_path / 'both')
    channels[LOG].far.write(b'kernel\r\nmark=9\n')
    channels[OUT].far.write(b'one\nhalf')
    for channel in channels.values():
        channel.far.flush()
    assert reader.poll() and not reader.poll() and reader.rc is None
    channels[OUT].far.write(b' line mark=7\nlast')
    channels[OUT].far.flush()
    reader.close()
    assert (reader.rc, reader.kept) == (7, {LOG: ['kernel\n', 'mark=9\n'], OUT: ['one\n', 'half line ', 'last']})
    assert (tmp_path / 'both').read_text() == 'kernel\nmark=9\none\nhalf line last'


def test_full_disk_costs_the_log_file_and_not_the_guest(tmp_path):
    channels = {name: FileChannel(tmp_path / name) for name in (LOG, OUT)}
    reader = Reader(channels, 'mark=', log='/dev/full')
    channels[LOG].far.write(b'first\nsecond\n')
    channels[OUT].far.write(b'mark=0\n')
    for channel in channels.values():
        channel.far.flush()
    while reader.poll():
        pass
    reader.close()
    assert 'No space left' in reader.unlogged
    assert reader.rc == 0 and reader.kept[LOG] == ['first\n', 'second\n']


def test_guest_that_prints_without_end_is_ended(tmp_path, monkeypatch):
    """The text that is kept is limited, too."""
    monkeypatch.setattr(channels_module, 'MOST_KEPT', 1000)
    channels = {name: FileChannel(tmp_path / name) for name in (LOG, OUT)}
    reader = Reader(channels, 'mark=', log=tmp_path / 'both')
    with subprocess.Popen(['yes', 'WARNING: again'], stdout=channels[LOG].far) as child:
        try:
            assert run.Guest(child, reader, None, time.monotonic() + 60).watch(stays=False)
            assert child.poll() is None and reader.flooded
        finally:
            child.kill()
    reader.close()
    assert 1000 < sum(map(len, reader.all)) <= 2000 == pytest.approx((tmp_path / 'both').stat().st_size, rel=0.1)


def test_input_reaches_the_guest_whole_and_in_order():
    """The guest may take less than is there. After the input, its terminal gets the sign for the end."""
    channel, (reading, writing) = SocketChannel(), os.pipe()
    channel.source.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    channel.far.setblocking(False)
    feeder, text, got = Feeder(reading, channel), b'line\n' * 10000, b''
    os.write(writing, text)
    os.close(writing)
    deadline = time.monotonic() + 20
    while not got.endswith(b'\x04') and time.monotonic() < deadline:
        feeder.poll()
        with contextlib.suppress(BlockingIOError):
            got += channel.far.recv(1000)
    feeder.poll()
    os.close(reading)
    channel.close()
    assert got == text + b'\x04'


@pytest.mark.parametrize('more, said', [
    ({'flooded': True}, 'guest: it printed more than 64 MiB and was killed\n'),
    ({'unlogged': 'No space left', 'rc': 0, 'ended': True}, 'guest: the.log is not complete: No space left\n'),
])
def test_what_was_lost_is_said(monkeypatch, capsys, more, said):
    result = run.Result(**{'rc': run.DIED, 'output': '', 'log': '', 'kernel': 'x\n', 'seconds': 1.0, 'ended': False,
                           **more})
    monkeypatch.setattr(run, 'run', lambda *_, **__: result)
    assert run.main(['--kernel', 'k', '--log', 'the.log', '--', 'true']) == result.rc
    assert capsys.readouterr().err == said


# QEMU's own faults

@pytest.mark.parametrize('engine, kernel, boots', [
    ('qemu', ['Oops: int3: 0000 [#1] SMP', ''], 2),
    ('qemu', ['Oops: int3: 0000 [#1] SMP'] * 3, 2),
    ('qemu', ['Oops: 0000 [#1] SMP'], 1),
    ('uml', ['Oops: int3: 0000 [#1] SMP'], 1),
])
def test_a_boot_is_repeated_after_a_fault_of_qemu(monkeypatch, engine, kernel, boots):
    logs = iter(kernel)
    begun = []
    monkeypatch.setattr(guests, 'run_boot',
                        lambda boot, folder: begun.append(boot) or SimpleNamespace(kernel=next(logs)))
    outcome = guests.boot_once(guests.Boot('some', engine), None)
    assert len(begun) == boots and outcome.kernel == kernel[boots - 1]

# SPDX-License-Identifier: GPL-2.0
"""Our workqueue on the long-term release, beyond what test_boots.py and test_drgn.py run there."""
import re
import shutil
import subprocess

import pytest

import guests
import torture_guests
from guests import guest
from wqlab.bench import parse as bench_parse
from wqlab.kernels import hooks, kinds
from wqlab.paths import ROOT
from wqlab.scopes import SCOPES
from wqlab.torture import run as torture

ON_OLD = [pytest.mark.tier('all'), guests.needs('qemu', 'release', 'cmwq', guests.OLD)]
RELEASES = [pytest.param(guests.OLD, marks=ON_OLD),
            pytest.param(kinds.LINUX, marks=[pytest.mark.tier('all'), guests.needs('qemu', 'release', 'cmwq')])]
TORTURE_S = 60
FLUSH_WARNING = 'Do not flush a system workqueue'


def kernel_of(linux):
    return guests.kernel('qemu', 'release', 'cmwq', linux)


@pytest.mark.parametrize('linux', RELEASES)
def test_hooks_fit(linux):
    kernel_of(linux)        # fetches the tree
    assert hooks.check(linux) == []


@pytest.mark.parametrize('linux', RELEASES[:1])
def test_torture(linux):
    """With CPUs that go and come, changes of attributes, freezing, and threads that cannot be made."""
    outcome = torture.torture(kernel_of(linux), engine='qemu', duration=TORTURE_S, cpus=4, mem='512M',
                              log=torture_guests.log_of(linux))
    torture_guests.survived(outcome, 1000)
    for name in ('cpu_checked', 'pod_checked', 'order_checked', 'destroy', 'limit', 'moved', 'rescued', 'held'):
        assert f' {name}=' in outcome.log.read_text(), f'no {name} in {outcome.log}'


@pytest.mark.parametrize('linux', RELEASES[:1])
def test_benchmark(linux):
    """Each scope runs, and nothing is lost, runs twice, or leaves a strict pod."""
    result = guest.run(kernel_of(linux), "modprobe test_workqueue items=300 warmup=10 2>/dev/null; dmesg | "
                       "grep -a 'test_workqueue: '", engine='qemu', cpus=4, topology='sockets=2,cores=2', timeout=300)
    assert result.rc == 0, result.log[-3000:]
    runs = bench_parse.parse_output(result.output)['runs']
    assert {run['scope'] for run in runs} >= set(SCOPES)
    assert not any(run[key] for run in runs for key in bench_parse.VIOLATIONS)
    guests.check_log(result.kernel)


def build(folder, linux, *flags):
    """Build old_callers.ko for our kernel of a release. Return what the compiler said."""
    shutil.copy(ROOT / 'tests/guest/old_callers.c', folder)
    (folder / 'Kbuild').write_text(f'obj-m := old_callers.o\nccflags-y := {" ".join(flags)}\n')
    done = subprocess.run(['make', '-s', '-C', kernel_of(linux), f'M={folder}', 'modules'], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    return '\n'.join(line for line in done.stderr.splitlines() if 'BTF' not in line)


@pytest.mark.parametrize('linux', RELEASES)
def test_module_with_names_of_old_and_new(linux, tmp_path):
    """The sources are the same, but for one flag, and one function that 7.3 has dropped."""
    old = linux == guests.OLD
    flags = ['-DPERCPU=0', '-DON_CPU_SAFE=1'] if old else ['-DPERCPU=WQ_PERCPU']
    assert not re.search('warning|error', build(tmp_path, linux, *flags))
    result = guest.run(kernel_of(linux), 'echo 0 >/sys/devices/system/cpu/cpu1/online; '
                       'insmod /old_callers.ko && rmmod old_callers', engine='qemu', cpus=2, timeout=120,
                       files=[f'{tmp_path}/old_callers.ko:/old_callers.ko'])
    assert result.rc == 0, result.log[-3000:]
    guests.check_log(result.kernel)
    ran, wanted, percpu, unbound, cpu = re.search(r'old_callers: (\d+) of (\d+), system_wq (\w+), system_unbound_wq '
                                                  r'(\w+), cpu (\d+)', result.kernel).groups()
    assert ran == wanted == '35' and cpu == '42'
    assert percpu == unbound == ('same' if old else 'other')
    assert ('enqueued on deprecated workqueue' in result.kernel) != old
    if old:
        assert 'old_callers: safe: cpu 42, gone -19' in result.kernel


# Of these the base kernel's flush_workqueue() warns at compile time, and of no others.
FLUSH_WARNS = {f'system_{name}_wq' for name in ('highpri', 'long', 'freezable', 'power_efficient',
                                                'freezable_power_efficient')}
FLUSH_WARNS_OLD = FLUSH_WARNS | {'system_wq', 'system_unbound_wq'}
FLUSH_WARNS_NEW = FLUSH_WARNS | {'system_percpu_wq', 'system_dfl_wq', 'system_dfl_long_wq'}


@pytest.mark.parametrize('linux', RELEASES)
def test_flush_of_system_workqueues(linux, tmp_path):
    """A module that builds with -Werror for the base kernel builds for ours."""
    old = linux == guests.OLD
    known = FLUSH_WARNS_OLD | FLUSH_WARNS_NEW | {'system_bh_wq', 'system_bh_highpri_wq'}
    if old:
        known.remove('system_dfl_long_wq')      # the base kernel 6.12 has none
    warns = {name for name in known
             if FLUSH_WARNING in build(tmp_path, linux, '-DPERCPU=WQ_PERCPU', f'-DFLUSH={name}')}
    assert warns == (FLUSH_WARNS_OLD if old else FLUSH_WARNS_NEW)

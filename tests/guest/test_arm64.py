# SPDX-License-Identifier: GPL-2.0
"""arm64, cross-built and emulated: the caches and pods that the PPTT describes, the suites, torture.

`make test-all` and `make arm64` run these tests. They install what the tests need.
"""
import re
import subprocess

import pytest

import guests
import test_pptt
import test_torture_matrix
import torture_guests
from test_boots import check_end, check_log, named, points_of
from wqlab.cpus import parse
from wqlab.torture import run as torture

pytestmark = [guests.needs('arm64'), pytest.mark.tier('all')]
DURATION = 40
BOOTS = (
    # two caches of two cores
    guests.Boot('arm64-llcs', 'arm64', (*guests.EVERYWHERE, 'hotplug', 'freezer', 'sysrq', 'watchdog'), guests.KUNIT,
                cpus=4, topology='cores=4,llcs=2', mem='1G', shards='2 2', tier='all', timeout=1200),
    # 2 sockets and nodes, threads
    guests.Boot('arm64-numa', 'arm64', ('pods', 'masks'), cpus=8, topology='sockets=2,cores=2,threads=2,nodes=2',
                mem='1G', shards='2 2', tier='all', timeout=600),
    # NVIDIA's Grace: 72 cores behind one cache
    guests.Boot('arm64-grace', 'arm64', ('pods',), cpus=72, topology='cores=72', mem='3G',
                shards='8 8 8 8 8 8 8 8 8', icount=True, tier='all', timeout=900),
)
PIECES = [guests.case(boot, piece) for boot in BOOTS for piece in boot.pieces()]
CACHES = r'''
cd /sys/devices/system/cpu
for index in cpu[0-9]*/cache/index*; do
	echo "$index $(cat $index/level) $(cat $index/type) $(cat $index/shared_cpu_list)"
done
'''


@pytest.mark.parametrize('sockets, cores, threads, llcs', [(1, 4, 1, 2), (2, 2, 2, 2)])
def test_linux_believes_the_table(sockets, cores, threads, llcs):
    topology = f'sockets={sockets},cores={cores},threads={threads},llcs={llcs}'
    outcome = guests.guest.run(guests.kernel('arm64'), CACHES, topology=topology, mem='512M')
    assert outcome.rc == 0, outcome.log[-3000:]
    assert 'Table Upgrade: override [PPTT-BOCHS -BXPC' in outcome.kernel
    table, seen = test_pptt.made(sockets, cores, threads, llcs), {}
    for level, kind, cpus in re.findall(r'^\S+ (\d) (\w+) ([\d,-]+)$', outcome.output, re.M):
        seen.setdefault((int(level), kind.lower()), set()).add(tuple(parse(cpus)))
    assert set(seen) == {(1, 'data'), (1, 'instruction'), (2, 'unified'), (3, 'unified')}
    for (level, kind), groups in seen.items():
        assert sorted(map(list, groups)) == test_pptt.sharers(table, level, kind), (level, kind)


def test_iasl_reads_the_table(tmp_path):
    """ACPI's compiler can decode the table, and compiling the result gives the same table."""
    (tmp_path / 'pptt.aml').write_bytes(test_pptt.made(2, 4, 2, 4))
    for args in (['-d', 'pptt.aml'], ['-p', 'again', 'pptt.dsl']):
        done = subprocess.run(['iasl', *args], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    # Skip the names of the compilers, and the checksum.
    first, again = ((tmp_path / name).read_bytes() for name in ('pptt.aml', 'again.aml'))
    assert first[:9] == again[:9] and first[10:28] == again[10:28] and first[36:] == again[36:]


@pytest.mark.parametrize('boot, piece', PIECES)
def test_piece(boot, piece, report_points):
    report_points(points_of(boot, piece))


@pytest.mark.parametrize('boot', named(BOOTS))
def test_kernel_log(boot):
    check_end(boot)
    check_log(boot)


def test_memory_of_a_failure(tmp_path):
    outcome = test_torture_matrix.fails('arm64', tmp_path, duration=5, more='stall=0')
    assert not outcome.ok and 'FAILURE' in outcome.verdict, outcome
    seen = test_torture_matrix.looked_into(outcome.core, 'arm64')
    outcome.core.unlink()       # it is large, and pytest keeps tmp_path
    # The test may be recreating one or two of its workqueues at this moment.
    assert len(set(re.findall(r'\bwqt_(?:ordered|unbound|percpu|bh)\w*', seen))) > 8, seen


def test_survives_torture():
    folder = guests.kernel('arm64')
    guests.say(f'torture-arm64: {DURATION} s')
    outcome = torture.torture(folder, engine='arm64', duration=DURATION, topology='cores=4,llcs=2', mem='512M',
                              log=torture_guests.log_of('arm64'))
    figures = torture_guests.survived(outcome)
    assert int(figures['hotplug']) > 0, f'no CPU went down: see {outcome.log}'

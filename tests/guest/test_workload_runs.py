# SPDX-License-Identifier: GPL-2.0
"""A small case of each workload in a guest. The data and the report are checked, never the time."""
import re
import shlex

import pytest

import guests
from calls import call
from wqlab.measure.boot import accelerator, kernel
from wqlab.paths import ROOT
from wqlab.workload import disks, engines, options

# The strict scope can only be set where sysfs shows kcryptd.
SMALL = {'dm-crypt': ['null/ram/queue/32k-all/cpu', 'null/ram/queue/4k-write-32/cache-strict'],
         'writeback': ['btrfs-zstd/fsync', 'btrfs-zstd/buffered'],
         'latency': ['dm-crypt/item-highpri'],
         'nfs': ['psync/cpus/write/system', 'psync/cpus/read/cache']}
# Each makes a disk of its own, or takes another way through dm-crypt.
PLACES = {'dm-crypt': ['aes/ram/no-queue/4k-read-1/default', 'aes/ram/same-cpu/4k-write-1/default',
                       'aes/ram/highpri/4k-write-1/system', 'aes/ram/queue/buffered/default'],
          'writeback': ['ext4/buffered', 'xfs/fsync'],
          'latency': ['dm-crypt-highpri/item-percpu', 'ext4-fsync/item-unbound',
                      'btrfs-zstd-buffered/item-unbound-highpri'],
          'nfs': ['libaio/cpus/read/default', 'io_uring/200/write/cache_shard', 'posixaio/1/write/default']}
# How many requests or probes the percentiles are of
NUMBER = ('ios', 'probes')
UML, QEMU = guests.needs('uml', 'workload'), guests.needs('qemu', 'workload')
pytestmark = pytest.mark.tier('all')


def boot(engine, workload, names, folder, *argv):
    """Boot once, run the cases, and return the entry for the record."""
    guests.kernel(engine, 'workload')
    chosen = [word for name in names for word in ('--cases', name)]
    params, _ = options.parse_args([workload, '--engine', engine, '--seconds', '0.1', *chosen, *argv])
    build = kernel(engine, guests.VARIANT, 'workload')
    params['accel'] = accelerator(params, build)
    return engines.run_boot(build, params, {'pair': 1, 'workload': workload, 'variant': guests.VARIANT},
                            folder / 'log', lambda seconds, text: guests.say(f'{workload}: {seconds:.0f} s, {text}'))


def check_good(entry, names):
    assert not entry['wrong'] and not entry['trouble'] and not entry['skipped']
    assert [run['name'] for run in entry['runs']] == names
    assert entry['release'].endswith(f'-{guests.VARIANT}') and entry['cpus'] == 2
    for run in entry['runs']:
        assert run['figures']['rate'] > 0 and any(run['figures'].get(name) for name in NUMBER)
        if '/buffered' not in run['name'] or 'aes' in run['name']:
            assert 0 < run['figures']['p50_us'] <= run['figures']['p99_us'] <= run['figures']['p999_us']


@UML
@pytest.mark.parametrize('names', [SMALL, PLACES], ids=['small', 'places'])
@pytest.mark.parametrize('workload', SMALL)
def test_data_is_right(workload, names, tmp_path):
    check_good(boot('uml', workload, names[workload], tmp_path), names[workload])


@QEMU
@pytest.mark.parametrize('workload', SMALL)
def test_data_is_right_under_qemu(workload, tmp_path):
    check_good(boot('qemu', workload, SMALL[workload], tmp_path), SMALL[workload])


@UML
@pytest.mark.parametrize('how', ['corrupt', 'stale'])
@pytest.mark.parametrize('workload', ['dm-crypt', 'writeback', 'latency'])
def test_wrong_data_is_noticed(workload, how, tmp_path):
    """One of 50 writes changes a byte, or writes are ignored, so that blocks keep older content."""
    entry = boot('uml', workload, SMALL[workload], tmp_path, '--spoil', how)
    found, = entry['wrong']
    assert SMALL[workload][0].startswith(found['name'])
    assert re.search('verify|Input/output error|cannot be (read|used)|other data', found['why'])


@UML
def test_report_of_both_variants():
    for variant in ('cmwq', 'base'):
        guests.kernel('uml', 'workload', variant)
    chosen = [word for names in SMALL.values() for name in names for word in ('--cases', name)]
    done = call('scripts/run-workload.sh', '--no-build', '--pairs', '1', '--seconds', '0.1', *chosen, timeout=600)
    assert done.returncode == 0, done.stderr
    for name in (name for names in SMALL.values() for name in names):
        row, = (line for line in done.stdout.splitlines() if line.startswith(f'{name} '))
        assert re.search(r'(MiB/s|fsyncs/s|IOPS) +[\d.,]+ +[\d.,]+ +\d+\.\d\d ', row)
    assert re.search(r'results: build/workload/\S+/results.json, plot.png, plot.svg', done.stdout)


LEAVES_NOTHING = f'''
set -e
{ROOT}/scripts/lab workload-inside nfs --seconds 0.1 --cases psync/1/write/default
grep -E 'nfs|rpc_pipefs|wqlab' /proc/mounts && exit 1
grep -x nfsd /proc/[0-9]*/comm && exit 1
ls -A /dev/shm
'''


@UML
def test_server_leaves_nothing():
    """Its threads have ended, its file systems are unmounted, its folders deleted."""
    folder = guests.kernel('uml', 'workload')
    outcome = guests.guest.run(folder, engines.ON_HOSTFS.replace('COMMAND', shlex.join(['sh', '-c', LEAVES_NOTHING])),
                               engine='uml', mem='1536M')
    assert outcome.rc == 0, outcome.output
    *_, line = outcome.output.splitlines()
    assert '"kind": "end", "cases": 1' in line, outcome.output


HERE = f'''{guests.COPY_OF_SCRIPTS}
scripts/run-workload.sh --here --no-build --pairs 1 --seconds 0.1 --cases xfs/fsync
ls build/workload/*/results.json
'''


@UML
def test_here_on_a_running_kernel():
    """Only the running kernel is measured, and the run says how to measure the other one."""
    folder = guests.kernel('uml', 'workload')
    outcome = guests.guest.run(folder, engines.ON_HOSTFS.replace('COMMAND', shlex.join(['sh', '-c', HERE])),
                               engine='uml', mem='1536M', append=disks.parameters())
    other = 'base' if guests.VARIANT == 'cmwq' else 'cmwq'
    assert outcome.rc == 0, outcome.output
    assert re.search(r'^xfs/fsync +fsyncs/s +[\d.,]+ ', outcome.output, re.M)
    assert f'to compare it with the {other} kernel, boot that and run: scripts/run-workload.sh --resume' \
        in outcome.output
    assert re.search('^build/workload/.*/results.json$', outcome.output, re.M)

# SPDX-License-Identifier: GPL-2.0
"""Profiles of small cases in guests, and what perf kwork reads there. Never the time itself is checked."""
import re
import shlex
import sys

import pytest

import guests
from calls import call
from wqlab.bench.boot import Build
from wqlab.paths import ROOT
from wqlab.workload import disks, engines, lines, options
from wqlab.workload.profile import CYCLES, WAITS, outside, stacks

CASE = 'null/ram/queue/4k-write-32/system'
UML, QEMU = guests.needs('uml', 'workload'), guests.needs('qemu', 'workload')
pytestmark = pytest.mark.tier('all')


def profile(engine, kind, folder, seconds='0.1'):
    """Boot once, run a case, and return its profile."""
    guests.kernel(engine, 'workload')
    params, _ = options.parse_args(['dm-crypt', '--engine', engine, '--seconds', seconds, '--cases', CASE, '--profile'])
    build = Build(ROOT, engine, guests.VARIANT, 'workload', None)
    params['accel'] = engines.accelerator(params, build)
    boot = {'pair': 1, 'workload': 'dm-crypt', 'variant': guests.VARIANT, 'profile': kind}
    entry = engines.run_boot(build, params, boot, folder / 'log',
                             lambda seconds, text: guests.say(f'profile of {kind}: {seconds:.0f} s, {text}'))
    assert not entry['trouble'] and not entry['wrong'] and not entry['skipped']
    one, = entry['profiles']
    assert (one['name'], one['profile']) == (CASE, kind)
    return one


def check_waits(one):
    """Each request of fio is an item of kcryptd."""
    kcryptd, = (queue for name, queue in one['queues'].items() if re.match(r'kcryptd-\d+:\d+$', name))
    assert kcryptd['items'] > 100 and (one['lost'] or kcryptd['unstarted'] == 0)
    for what in ('wait', 'run'):
        times = [kcryptd[f'{what}_{point}_us'] for point in ('p50', 'p99', 'p999', 'max')]
        assert times == sorted(times) and times[0] > 0 and times[-1] < 1e6 * one['seconds']
    assert 0 <= kcryptd['elsewhere_percent'] <= 100


@UML
def test_waits(tmp_path):
    one = profile('uml', WAITS, tmp_path)
    check_waits(one)
    assert one['lost'] == 0


@QEMU
def test_waits_under_qemu(tmp_path):
    check_waits(profile('qemu', WAITS, tmp_path))


# As scripts/lab workload-inside, with a trace buffer that is soon full
SMALL_BUFFER = f'''
import sys
sys.path.insert(0, {str(ROOT / 'scripts')!r})
from wqlab.workload import inside
from wqlab.workload.profile import tracer
tracer.BUFFERS_KIB = 128
sys.exit(inside.main(['dm-crypt', '--seconds', '0.1', '--profile', 'waits', '--cases', {CASE!r}]))
'''


@UML
def test_events_that_do_not_fit_are_counted():
    """What is left is complete: each start has its queueing, and no item seems to wait for ever."""
    folder = guests.kernel('uml', 'workload')
    command = shlex.join([sys.executable, '-c', SMALL_BUFFER])
    outcome = guests.guest.run(folder, engines.ON_HOSTFS.replace('COMMAND', command), engine='uml', mem='1536M',
                               append=disks.parameters(), cpus=2)
    assert outcome.rc == 0, outcome.output
    one, = lines.parse(outcome.output)['profiles']
    assert one['lost'] > 1000
    started = sum(queue['items'] for queue in one['queues'].values())
    assert started > 100 and one['unqueued'] < started / 10
    check_waits(one)


def check_cycles(one):
    assert one['samples'] > 20 and sum(one['shares'].values()) == pytest.approx(100, abs=0.1)
    assert one['shares'][stacks.QUEUEING] + one['shares'][stacks.LOCK] + one['shares'][stacks.WAKING] > 0
    assert one['shares'][stacks.ITEM] > 0 and one['shares'][stacks.OTHER] > 0
    assert sum(one['top'][stacks.ITEM].values()) <= one['shares'][stacks.ITEM] + 0.1


@UML
def test_cycles_of_uml_from_outside(tmp_path):
    if outside.why_not():       # then a run says why
        assert engines.profiles('uml') == [WAITS]
        return
    one = profile('uml', CYCLES, tmp_path, seconds='1')
    check_cycles(one)
    assert one['event'] == 'cpu-clock outside' and not list(tmp_path.glob('*.perf'))


@QEMU
def test_cycles_under_qemu(tmp_path):
    check_cycles(profile('qemu', CYCLES, tmp_path, seconds='0.5'))


# Each dd queues items of the unbound workqueue of a loop device, from one CPU or the other.
KWORK = r'''
cd /dev/shm && truncate -s 8M disk && loop=$(losetup --find --show disk) || exit
perf kwork -k workqueue record -o data -- sh -c "for i in 0 1 2 3 4 5 6 7
	do taskset -c \$((i % 2)) dd if=/dev/zero of=$loop bs=4k count=4 oflag=direct status=none; done" || exit
losetup -d $loop
for each in report latency; do
	echo "@@ $each"
	perf kwork -k workqueue $each -i data >text || exit
	LC_ALL=C tr -cd '[:print:]\n' <text		# it prints bytes after the end of long names
done
echo @@ script
perf script -i data | grep loop_
'''
ROW = re.compile(r'^ +\(w\)(\S+) +\| +(\d{4}) +\| +[\d.]+ ms +\| +(\d+) +\| +[\d.]+ ms +\|', re.M)


@QEMU
def test_perf_kwork_reads_our_tracepoints():
    """Its counts are those of the events, as far as it can pair them: by CPU."""
    script = ROOT / 'build/test/kwork.sh'       # /tmp of the guest is not that of this machine
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(KWORK)
    done = call('scripts/lab', 'boot', '--kernel', guests.kernel('qemu', 'workload'), '--cpus', '2', '--mem', '1G',
                '--command', f'sh {script}', timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    _, report, latency, events = re.split('^@@.*$', done.stdout, flags=re.M)
    starts, ends = (len(re.findall(rf'workqueue_execute_{which}:.*loop_', events)) for which in ('start', 'end'))
    assert starts == ends > 8 and 'workqueue_activate_work' in events
    counts = {what: sum(int(count) for name, _, count in ROW.findall(text) if name.startswith('loop_'))
              for what, text in (('report', report), ('latency', latency))}
    assert 0 < counts['report'] <= starts and counts['latency'] <= starts
    assert ROW.search(latency)

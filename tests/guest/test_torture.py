# SPDX-License-Identifier: GPL-2.0
"""Torture: a short run on two kernels."""
import re

import pytest

import background
import guests
from torture_guests import job, log_of, progress, survived
from wqlab.guest import run as guest
from wqlab.torture import run as torture

LOCKUP = 'BUG: workqueue lockup - pool'
STUCK = ('stuck=1 nwriters=1 nsoftirq=0 nhardirq=0 stutter=0 attrs_ms=0 onoff_ms=0 famine_ms=0 slow_ms=0 '
         'storm_ms=0 lost_ms=0 squeeze_ms=0 freeze_ms=0')


@pytest.mark.parametrize('config', [
    pytest.param(config, marks=[guests.needs('uml', config), pytest.mark.job(job(config)), pytest.mark.tier(tier)])
    for config, tier in (('release', 'test'), ('debug', 'more'))])
def test_survives(config):
    outcome = background.RUN.get(job(config))
    figures, log, kernel = survived(outcome), outcome.log, outcome.log.read_text()
    stats = '\n'.join(line for line in kernel.splitlines() if 'wqtorture: stats' in line)
    counts = {name: int(count) for name, count in re.findall(r' (runs|runs_bh)=(\d+)', stats)}     # the last of each
    assert counts['runs_bh'] and int(figures['runs']) == sum(counts.values()), f'{counts} in {log}'
    for name in ('cpu_checked', 'pod_checked', 'order_checked', 'destroy', 'limit', 'moved', 'rescued',
                 'start_checked', 'slow', 'slow_rescued', 'storm', 'lost_cpu', 'held'):
        assert f' {name}=' in kernel, f'no {name} in {log}'


@pytest.mark.tier('more')
@pytest.mark.parametrize('engine', [pytest.param(engine, marks=guests.needs(engine)) for engine in ('uml', 'qemu')])
def test_watchdog_names_who_is_stuck(engine):
    """One item keeps its CPU for longer than the watchdog allows. The log names the item and the place."""
    folder = guests.kernel(engine)
    log = log_of(f'stuck-{engine}')
    outcome = torture.torture(folder, engine=engine, duration=12, log=log, more=STUCK,
                              show=progress(f'stuck-{engine}'))
    kernel = log.read_text()
    assert 'SUCCESS' in outcome.verdict and ' stuck=1 ' in kernel, f'{outcome.verdict or "no verdict"}: see {log}'
    wrong = [line for line in outcome.complaints if LOCKUP not in line]
    assert not wrong, '\n'.join(wrong)
    cpu = re.search(r'stuck: wqt_stuck_fn \[wqtorture\] keeps CPU (\d+) ', kernel)[1]
    report = kernel.partition(f'{LOCKUP} cpus={cpu} ')[2]
    assert report, f'no report on CPU {cpu} in {log}'
    assert re.search(rf' wqt_held: .*\n.* cpus={cpu} .*\n.*in-flight: .*\d:wqt_stuck_fn ', report), \
        f'not named in {log}'


# In place of the module: while the reader of the log stands still, 1 MB of messages, and then a verdict.
FLOOD = r'''
modprobe()
{
	read -r line <&9
	kill -STOP $cat
	line=$(printf %0900d 0)
	i=0
	while [ $i -lt 1100 ]; do echo "$line"; i=$((i + 1)); done >/dev/kmsg
	kill -CONT $cat
	echo 'wqtorture: --- End of test: SUCCESS: ' >/dev/kmsg
}
rmmod() { :; }
'''


@pytest.mark.tier('more')
@guests.needs('uml')
def test_many_messages_hide_no_verdict(monkeypatch):
    monkeypatch.setattr(torture, 'IN_GUEST', FLOOD + torture.IN_GUEST)
    log = log_of('flood')
    torture.torture(guests.kernel('uml'), engine='uml', duration=10, log=log, append='printk.devkmsg=on quiet')
    assert re.search('^wqtorture: --- End of test: SUCCESS', log.read_text(), re.M), f'it was not read: see {log}'


# Only some of the actors get a thread. Afterwards there are threads for what these have queued.
TOO_FEW = r'''
max=/proc/sys/kernel/threads-max
enough=$(cat $max)
mkfifo /tmp/kmsg
cat /dev/kmsg >/tmp/kmsg &
cat=$!
exec 9</tmp/kmsg
relieve()
{
	while read -r line <&9; do
		case $line in *'cannot start'*) break ;; esac
	done
	echo $enough >$max
}
for i in 1 2 3 4 5; do
	relieve &
	echo $(($(ls -d /proc/[0-9]* | wc -l) + 16)) >$max
	! modprobe wqtorture nwriters=8 || exit 9
	wait $!
done
kill $cat
'''


@guests.needs('uml')
def test_cannot_start():
    """What some actors have queued already is finished before the module goes away."""
    log = log_of('cannot-start')
    result = guest.run(guests.kernel('uml'), TOO_FEW, engine='uml', cpus=2, mem='384M', timeout=200, log=log)
    assert result.rc == 0, f'status {result.rc}: see {log}'
    assert re.findall(r'wqtorture: cannot start: error (-\d+)', result.kernel) == ['-11'] * 5, f'see {log}'
    assert '-torture:!!! wqt_writer/0' not in result.kernel, f'nobody has queued: see {log}'
    guests.check_log(result.kernel)
    assert 'wqtorture: !!!' not in result.kernel, f'see {log}'


@pytest.mark.tier('more')
@guests.needs('uml')
def test_famine_waits_for_the_start():
    """The module starts slowly, and would make threads scarce at once."""
    more = 'famine_ms=1 nwriters=40 nsoftirq=16 nhardirq=16'
    command = torture.IN_GUEST.replace('modprobe wqtorture', 'nice -n 19 modprobe wqtorture')
    for seed in range(1, 6):
        log = log_of('famine-at-start')
        result = guest.run(guests.kernel('uml'),
                           command.replace('PARAMETERS', torture.parameters('uml', 2, seed, more, 1)),
                           engine='uml', cpus=2, bins=['nice'], mem='384M', timeout=100, log=log)
        assert 'cannot start' not in result.kernel and result.rc == 0, f'status {result.rc}: see {log}'
        assert ' famine=' in result.kernel, f'no famine in {log}'

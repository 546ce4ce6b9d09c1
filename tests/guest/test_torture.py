# SPDX-License-Identifier: GPL-2.0
"""Torture: a short run on two kernels."""
import re

import pytest

import background
import guests
from torture_guests import DURATION, Progress, job, log_of
from wqlab.logs import check as kernlog
from wqlab.torture import run as torture

LOCKUP = 'BUG: workqueue lockup - pool'
STUCK = ('stuck=1 nwriters=1 nsoftirq=0 nhardirq=0 stutter=0 attrs_ms=0 onoff_ms=0 famine_ms=0 slow_ms=0 '
         'storm_ms=0 lost_ms=0 squeeze_ms=0 freeze_ms=0')


@pytest.mark.parametrize('config', [
    pytest.param(config, marks=[guests.needs('uml', config), pytest.mark.job(job(config))]) for config in DURATION])
def test_survives(config):
    outcome = background.RUN.get(job(config))
    log = outcome.log
    assert outcome.ok, (f'seed {outcome.seed}: {outcome.verdict or "no verdict"}: '
                        f'{outcome.complaints}: see {log}')
    kernel = log.read_text()
    found = kernlog.problems(kernel)
    assert not found, '\n'.join(found)
    # The run must have done something, or its success means nothing.
    figures = dict(word.split('=') for word in outcome.verdict.split() if '=' in word)
    assert int(figures['runs']) > 3000 and int(figures['attrs']) > 5 and int(figures['masks']) > 2
    for name in ('cpu_checked', 'pod_checked', 'order_checked', 'destroy', 'limit', 'moved', 'rescued',
                 'start_checked', 'slow', 'slow_rescued', 'storm', 'lost_cpu', 'held'):
        assert f' {name}=' in kernel, f'no {name} in {log}'


@pytest.mark.parametrize('engine', [pytest.param(engine, marks=guests.needs(engine)) for engine in ('uml', 'qemu')])
def test_watchdog_names_who_is_stuck(engine):
    """One item keeps its CPU for longer than the watchdog allows. The log names the item and the place."""
    folder = guests.kernel(engine)
    log = log_of(f'stuck-{engine}')
    outcome = torture.torture(folder, engine=engine, duration=12, log=log, more=STUCK,
                              stream=Progress(f'torture-stuck-{engine}'))
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


@guests.needs('uml')
def test_many_messages_hide_no_verdict(monkeypatch):
    monkeypatch.setattr(torture, 'IN_GUEST', FLOOD + torture.IN_GUEST)
    log = log_of('flood')
    torture.torture(guests.kernel('uml'), engine='uml', duration=10, log=log, append='printk.devkmsg=on quiet')
    assert re.search('^wqtorture: --- End of test: SUCCESS', log.read_text(), re.M), f'it was not read: see {log}'

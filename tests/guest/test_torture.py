# SPDX-License-Identifier: GPL-2.0
"""Torture: a short run on two kernels."""
import re

import pytest

import guests
from wqlab.logs import check as kernlog
from wqlab.torture import run as torture

pytestmark = guests.needs('uml')
DURATION = {'release': 25, 'debug': 45}
LOCKUP = 'BUG: workqueue lockup - pool'
STUCK = ('stuck=1 nwriters=1 nsoftirq=0 nhardirq=0 stutter=0 attrs_ms=0 onoff_ms=0 famine_ms=0 slow_ms=0 '
         'storm_ms=0 lost_ms=0 squeeze_ms=0 freeze_ms=0')


class Progress:
    """Reports progress from time to time."""

    def __init__(self, name):
        self.name = name

    def write(self, line):
        if 'wqtorture: ---' in line or '!!!' in line:
            guests.say(f'{self.name}: {line.strip()}')

    def flush(self):
        pass


@pytest.mark.parametrize('config, mem', [
    ('release', '384M'), pytest.param('debug', '1G', marks=guests.needs('uml', 'debug'))])
def test_survives(config, mem):
    folder = guests.kernel('uml', config)
    guests.RESULTS.mkdir(parents=True, exist_ok=True)
    log = guests.RESULTS / f'torture-{config}.log'
    guests.say(f'torture-{config}: {DURATION[config]} s')
    outcome = torture.torture(folder, engine='uml', duration=DURATION[config], mem=mem, log=log,
                              stream=Progress(f'torture-{config}'))
    assert outcome.ok, (f'seed {outcome.seed}: {outcome.verdict or "no verdict"}: '
                        f'{outcome.complaints}: see {log}')
    kernel = log.read_text()
    found = kernlog.problems(kernel)
    assert not found, '\n'.join(found)
    # The run must have done something, or its success means nothing.
    figures = dict(word.split('=') for word in outcome.verdict.split() if '=' in word)
    assert int(figures['runs']) > 3000 and int(figures['attrs']) > 5 and int(figures['masks']) > 2
    for name in ('cpu_checked', 'pod_checked', 'order_checked', 'destroy', 'limit', 'moved', 'rescued',
                 'start_checked', 'slow', 'storm', 'lost_cpu', 'held'):
        assert f' {name}=' in kernel, f'no {name} in {log}'


@pytest.mark.parametrize('engine', ['uml', pytest.param('qemu', marks=guests.needs('qemu'))])
def test_watchdog_names_who_is_stuck(engine):
    """One item keeps its CPU for longer than the watchdog allows. The log names the item and the place."""
    folder = guests.kernel(engine)
    guests.RESULTS.mkdir(parents=True, exist_ok=True)
    log = guests.RESULTS / f'torture-stuck-{engine}.log'
    outcome = torture.torture(folder, engine=engine, duration=12, log=log, more=STUCK,
                              stream=Progress(f'torture-stuck-{engine}'))
    kernel = log.read_text()
    assert 'SUCCESS' in outcome.verdict and ' stuck=1 ' in kernel, f'{outcome.verdict or "no verdict"}: see {log}'
    # Nothing else is wrong. If the clock of an emulated machine runs too fast, 4 s also cause a soft lockup.
    wrong = [line for line in outcome.complaints if LOCKUP not in line and 'soft lockup' not in line]
    assert not wrong, '\n'.join(wrong)
    cpu = re.search(r'stuck: wqt_stuck_fn \[wqtorture\] keeps CPU (\d+) ', kernel)[1]
    report = kernel.partition(f'{LOCKUP} cpus={cpu} ')[2]
    assert report, f'no report on CPU {cpu} in {log}'
    assert re.search(rf' wqt_held: .*\n.* cpus={cpu} .*\n.*in-flight: .*\d:wqt_stuck_fn ', report), \
        f'not named in {log}'

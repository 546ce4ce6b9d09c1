# SPDX-License-Identifier: GPL-2.0
"""Short runs of torture in the background."""
import functools

import background
import guests
from builds import Kernel
from wqlab.torture import run as torture

DURATION = {'release': 25, 'debug': 45}
PROGRESS_S = 15
MEMORY = {'release': '384M', 'debug': '1G'}


def log_of(name):
    guests.RESULTS.mkdir(parents=True, exist_ok=True)
    return guests.RESULTS / f'torture-{name}.log'


def progress(name):
    return torture.with_time(lambda line: guests.say(f'torture-{name}: {line}'), PROGRESS_S)


def run(config, folder):
    guests.say(f'torture-{config}: {DURATION[config]} s')
    return torture.torture(folder, engine='uml', duration=DURATION[config], mem=MEMORY[config], log=log_of(config),
                           show=progress(config))


def job(config):
    return background.Job(f'torture {config}', Kernel('uml', config), functools.partial(run, config))


def survived(outcome, least=3000):
    """Fail if a run found something, or if it did next to nothing, so that its success means nothing."""
    assert outcome.ok, (f'seed {outcome.seed}: {outcome.verdict or "no verdict"}: '
                        f'{outcome.complaints}: see {outcome.log}')
    guests.check_log(outcome.log.read_text())
    figures = dict(word.split('=') for word in outcome.verdict.split() if '=' in word)
    assert int(figures['runs']) > least and int(figures['attrs']) > 5 and int(figures['masks']) > 2
    return figures

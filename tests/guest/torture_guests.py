# SPDX-License-Identifier: GPL-2.0
"""Short runs of torture in the background."""
import functools

import background
import guests
from builds import Kernel
from wqlab.torture import run as torture

DURATION = {'release': 25, 'debug': 45}
MEMORY = {'release': '384M', 'debug': '1G'}


class Progress:
    """Reports progress from time to time."""

    def __init__(self, name):
        self.name = name

    def write(self, line):
        if 'wqtorture: ---' in line or '!!!' in line:
            guests.say(f'{self.name}: {line.strip()}')

    def flush(self):
        pass


def log_of(name):
    guests.RESULTS.mkdir(parents=True, exist_ok=True)
    return guests.RESULTS / f'torture-{name}.log'


def run(config, folder):
    guests.say(f'torture-{config}: {DURATION[config]} s')
    return torture.torture(folder, engine='uml', duration=DURATION[config], mem=MEMORY[config], log=log_of(config),
                           stream=Progress(f'torture-{config}'))


def job(config):
    return background.Job(f'torture {config}', Kernel('uml', config), functools.partial(run, config))

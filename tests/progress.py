# SPDX-License-Identifier: GPL-2.0
"""What a run of the tests says while it goes on, and how long it will still take.

The last run left in build/test/durations.json how long each case and each kernel took;
tests/durations.json is for those that never ran here.
"""
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KNOWN = HERE / 'durations.json'
LATEST = HERE.parent / 'build/test/durations.json'
SHORT = 0.3             # seconds; a case that takes less is not noted


def load(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


class Durations:
    """Seconds by name: of cases, and of kernels as "build NAME" and "rebuild NAME"."""

    def __init__(self, known=KNOWN, latest=LATEST):
        self.latest = latest
        self.seconds = {**load(known), **load(latest)}

    def note(self, name, seconds):
        if seconds >= SHORT or name in self.seconds:
            self.seconds[name] = round(seconds, 1)

    def save(self):
        temp = self.latest.with_suffix('.tmp')
        temp.write_text(json.dumps(self.seconds, indent=0, sort_keys=True))
        os.replace(temp, self.latest)

    def of(self, name):
        return self.seconds.get(name, SHORT / 10)

    def left(self, cases, kernels):
        """Seconds until all cases have run, one after the other, while kernels are built in turn.

        cases: (name, kernel it waits for or None); kernels: (name, seconds that it still takes).
        """
        ready, clock = {}, 0
        for kernel, seconds in kernels:
            clock += seconds
            ready[kernel] = clock
        clock = 0
        for name, kernel in cases:
            clock = max(clock, ready.get(kernel, 0)) + self.of(name)
        return clock


left = None             # a function: seconds that the run still takes


def words(seconds):
    return 'less than a minute' if seconds < 45 else f'about {max(1, round(seconds / 60))} min'


def say(text):
    more = f' ({words(left())} left)' if left else ''
    sys.stderr.write(f'test: {text}{more}\n')     # in one piece: builds speak, too
    sys.stderr.flush()

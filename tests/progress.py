# SPDX-License-Identifier: GPL-2.0
"""Progress messages of a test run, with an estimate of the remaining time.

build/test/durations.json has the time that each case and each kernel took in the last run.
tests/durations.json is used for those that have not run here yet.
"""
import collections.abc
import json
import re
import statistics
import sys
import threading
from pathlib import Path

from wqlab import files

HERE = Path(__file__).resolve().parent
KNOWN = HERE / 'durations.json'
LATEST = HERE.parent / 'build/test/durations.json'
SHORT = 0.3             # seconds; shorter cases are not recorded
# The kernels, and cases that take about as long as others of the same function: known bugs, torture by configuration
LIKE_OTHERS = re.compile(r'build |tests/guest/test_long.py::\w+\[')


def load(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


class Durations:
    """Seconds by name. The names are those of cases, "build KERNEL" and "rebuild KERNEL"."""

    def __init__(self, known=KNOWN, latest=LATEST):
        self.latest = latest
        self.lock = threading.Lock()    # builds and guests note their time while others ask for the time left
        self.seconds = {**load(known), **load(latest)}      # guarded by lock

    def note(self, name, seconds):
        with self.lock:
            if seconds >= SHORT or name in self.seconds:
                self.seconds[name] = round(seconds, 1)

    def save(self):
        with self.lock:
            files.write(self.latest, json.dumps(self.seconds, indent=0, sort_keys=True))

    def of(self, name):
        """Return the seconds of a case or a kernel. One that is not known is like others of its kind."""
        kind = LIKE_OTHERS.match(name)
        with self.lock:
            if name in self.seconds:
                return self.seconds[name]
            alike = [seconds for other, seconds in self.seconds.items() if kind and other.startswith(kind.group())]
        return statistics.median(alike or [SHORT / 10])

    def left(self, cases, *lanes):
        """Return the seconds until all cases have run in turn, while the things in each lane are also made in turn.

        cases: (name, the thing that it waits for, or None); a lane: (thing, what it waits for, remaining seconds).
        """
        ready = {}
        for lane in lanes:
            clock = 0
            for thing, after, seconds in lane:
                clock = max(clock, ready.get(after, 0)) + seconds
                ready[thing] = clock
        clock = 0
        for name, after in cases:
            clock = max(clock, ready.get(after, 0)) + self.of(name)
        return clock


left: collections.abc.Callable[[], float] | None = None     # a function that returns the remaining seconds of the run


def words(seconds):
    return 'less than a minute' if seconds < 45 else f'about {max(1, round(seconds / 60))} min'


PREFIX = 'test: '
# A case that looks at its own standard error must not see what other threads say meanwhile.
TERMINAL = sys.stderr


def say(text):
    more = f' ({words(left())} left)' if left else ''
    TERMINAL.write(f'{PREFIX}{text}{more}\n')     # in one write: builds print messages at the same time
    TERMINAL.flush()


def repeat(line):
    """Say what another process of this run has said. It does not know how much time is left."""
    if line.startswith(PREFIX):
        say(line.removeprefix(PREFIX).rstrip('\n'))
    else:
        TERMINAL.write(line)

# SPDX-License-Identifier: GPL-2.0
"""Note which cases pass, so that a run that was interrupted, or in which cases failed, can be resumed.

The notes hold for the sources and settings with which the run began. Their first line names
these, and each other line names a case that passed and its points.
"""
import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import progress
from wqlab import files
from wqlab.kernels import kinds
from wqlab.paths import BUILD, ROOT

NOTES = BUILD / 'test/passed.jsonl'
NOT_SOURCES = ('build', '__pycache__')
SETTINGS = ('VARIANT', *kinds.TREE)


def sources():
    """Return a hash of all files outside build/, except hidden ones."""
    total = hashlib.sha256()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name not in NOT_SOURCES and not name.startswith('.'))
        for path in (Path(folder, name) for name in sorted(names) if not name.startswith('.')):
            if path.is_file():
                total.update(f'{path.relative_to(ROOT)}\0{path.stat().st_size}\0'.encode())
                total.update(path.read_bytes())
    return total.hexdigest()


def load(path, identity):
    """Return the cases that passed: node id -> Counter of points. None: the notes are of other sources or settings."""
    try:
        first, *lines = path.read_text().splitlines()
    except (FileNotFoundError, ValueError):
        return None
    if first != identity:
        return None
    known = {}
    for line in lines:
        try:
            name, points = json.loads(line)
        except ValueError:      # the run was killed while it wrote this line
            continue
        known[name] = Counter(points)
    return known


class Notes:
    def __init__(self, tally, resume):
        self.tally = tally
        self.bad = set()
        self.identity = ' '.join((sources(), *(os.environ.get(name, '') for name in SETTINGS)))
        self.file = None
        known = load(NOTES, self.identity) if resume else {}
        if known is None:
            progress.say('--resume: no run with these sources and settings is noted: all cases run')
        self.known = known or {}

    def passed(self, items):
        """Return the items that have passed before, and count their points."""
        before = [item for item in items if item.nodeid in self.known]
        for item in before:
            self.tally.add(self.known[item.nodeid])
        if before:
            progress.say(f'--resume: {len(before)} cases have passed before')
        return before

    def begin(self):
        NOTES.parent.mkdir(parents=True, exist_ok=True)
        lines = [self.identity, *map(json.dumps, self.known.items())]
        files.write(NOTES, ''.join(f'{line}\n' for line in lines))
        self.file = open(NOTES, 'a', encoding='utf-8')

    def pytest_runtest_logreport(self, report):
        if not report.passed:
            self.bad.add(report.nodeid)
        elif report.when == 'teardown' and report.nodeid not in self.bad:
            print(json.dumps((report.nodeid, self.tally.points.get(report.nodeid) or {'passed': 1})),
                  file=self.file, flush=True)

    def pytest_unconfigure(self):
        if self.file:
            self.file.close()

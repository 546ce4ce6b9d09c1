# SPDX-License-Identifier: GPL-2.0
"""Reads what cmwq shows in debugfs. This needs no debug information and no drgn.

    read(wanted)        a stats.Reading for each workqueue, in the kernel's order
    present()           whether this kernel has the files
"""
import collections
import os
import re

from . import program, stats

FOLDER = '/sys/kernel/debug/workqueue'
NAMED_OTHERWISE = {'cpu_time': 'cpu_time_us'}


def present(folder=FOLDER):
    return os.path.exists(os.path.join(folder, 'workqueues'))


def _lines(folder, name):
    """Return the words of each line, as {column: word} and the list of those that have no column."""
    try:
        with open(os.path.join(folder, name), encoding='utf-8') as file:
            head, *lines = [line.split() for line in file]
    except PermissionError:
        raise program.Trouble(f'no permission to read {folder}: run this as root') from None
    except FileNotFoundError:
        raise program.Trouble(f'{folder} is missing: mount debugfs; only a kernel with cmwq and CONFIG_DEBUG_FS has '
                              'it') from None
    return [(dict(zip(head, words)), words[len(head) - 1:]) for words in lines]


def name_of(word):
    """Undo the octal escapes of a name, each of which is a byte."""
    raw = re.sub(r'\\([0-7]{3})', lambda found: chr(int(found[1], 8)), word)
    return raw.encode('latin-1').decode(errors='replace')


def _waits(folder):
    """Return {name: {least us: items}}. Workqueues that share a name are taken together."""
    found = {}
    for columns, pairs in _lines(folder, 'latency'):
        if columns['kind'] == 'wait':
            hist = found.setdefault(name_of(columns['workqueue']), collections.Counter())
            for least, _, items in (pair.partition(':') for pair in pairs):
                hist[int(least)] += int(items)
    return found


def read(wanted=lambda name: True, folder=FOLDER):
    waits, found, seen = _waits(folder), [], {}
    for columns, _ in _lines(folder, 'workqueues'):
        name = name_of(columns['workqueue'])
        nth = seen[name] = seen.get(name, -1) + 1       # a name may be used twice
        if not wanted(name):
            continue
        counts = {key: int(columns[NAMED_OTHERWISE.get(key, key)]) for key in stats.COUNTERS}
        found.append(stats.Reading(name, None, columns['type'], columns['reclaim'] == '1', {0: counts}, nth,
                                   waits.get(name)))
    return found

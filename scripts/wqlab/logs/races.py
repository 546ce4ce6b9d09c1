# SPDX-License-Identifier: GPL-2.0
"""Whose data race KCSAN reports.

A report's title names the functions that raced. Those of the workqueue and of its
tests are in the kernel's objects; a race among others is the base kernel's, whatever
called them.
"""
import functools
import re
import subprocess
from pathlib import Path

HOMES = ('kernel/workqueue/*.o', 'kernel/workqueue.o', 'lib/cmwq/*.o')
TITLE = re.compile(r'BUG: KCSAN: (?:data-race|assert: race) in (.+)')


def plain(function):
    """Without what the compiler adds to the name, like .isra.0, and without the module."""
    return re.split(r'[ .]', function.strip())[0]


@functools.cache
def own_functions(folder):
    """The names of our functions in a kernel that was built there."""
    objects = [path for home in HOMES for path in sorted(Path(folder).glob(home))]
    if not objects:
        return set()
    listed = subprocess.run(['nm', '--defined-only', *objects], capture_output=True, text=True, check=True)
    return {plain(found[1]) for found in re.finditer(r'^[0-9a-f]+ [tTwW] (\S+)$', listed.stdout, re.M)}


def elsewhere(line, folder):
    """The line is the title of a report in which no function of ours raced, in a kernel that was built there."""
    title = TITLE.search(line)
    own = title and own_functions(folder)
    return bool(own and not own.intersection(map(plain, title[1].split(' / '))))

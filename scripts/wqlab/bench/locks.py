# SPDX-License-Identifier: GPL-2.0
"""Read how often locks are contended: /proc/lock_stat of a kernel with CONFIG_LOCK_STAT."""

import re
from statistics import median

from wqlab.bench import parse

METRICS = ('contentions', 'acquisitions', 'other_contentions')      # per item
# The locks of both workqueues. kernel/workqueue/ and the base kernel's file give some of them different names. A host
# test compares the list with both.
LOCKS = ('&pool->lock', '&slots->lock', '&nna->lock', '&wq->mutex', '&pool->cb_lock', 'wq_pool_mutex',
         'wq_pool_attach_mutex', 'wq_mayday_lock', 'wci_lock', 'line_lock', 'latency_switch_mutex')
# "lock_stat: CONTENTIONS ACQUISITIONS NAME". Functions of the guest's shell run before a pass, after it,
# and when it is reported.
#
# The column "contentions" leaves out waits of no time. The clock of UML moves in steps of 10 ms, so nearly all of them
# are left out there. The lines below a lock say how often somebody waited at which place, for the four places that were
# first. "con-bounces" are waits for another CPU. The largest of the three is the best count of waits.
COMMAND = r'''
fresh() { echo 0 >/proc/lock_stat; }
over() { :; }
locks() {
	awk 'function flush() { if (name != "") print "lock_stat:", (waits > places ? waits : places), taken, name }
	/lock debugging disabled/ { print "lock_stat: off" }
	/^ *-+$/ { block++ }
	block == 1 && match($0, /[0-9]+ +\[</) { places += substr($0, RSTART) + 0 }
	match($0, /: +[0-9]+ +[0-9]+ +[0-9.]+ /) {
		flush(); block = places = 0
		name = substr($0, 1, RSTART - 1); sub(/^ +/, "", name)
		split(substr($0, RSTART + 1), field); taken = field[8]
		waits = field[1] > field[2] + 0 ? field[1] : field[2]
	}
	END { flush(); print "lock_stat: end" }' /proc/lock_stat
}
'''
LINE = re.compile(r'lock_stat: (\d+) (\d+) (\S.*)')


def class_of(name):
    """Return the name without what tells classes of the same name apart: "x#2", "x/1", "x-R" is x."""
    return re.sub(r'(#\d+)?(/\d+)?(-[RW])?$', '', name)


def read(text):
    """Return {name: [contentions, acquisitions]} of what a guest has printed, or raise BenchOutputError."""
    lines, found = text.splitlines(), {}
    if 'lock_stat: off' in lines:
        raise parse.BenchOutputError('lockdep is off, so locks were not counted: see the log for its report')
    if 'lock_stat: end' not in lines:
        raise parse.BenchOutputError('the guest did not print its /proc/lock_stat')
    for match in filter(None, map(LINE.fullmatch, lines)):
        counts = found.setdefault(class_of(match[3]), [0, 0])
        counts[0] += int(match[1])
        counts[1] += int(match[2])
    return found


def add(runs, text, warmup):
    """Add to the run of a pass how often locks were contended and taken.

    If a pass has several runs, add nothing: the counts do not tell the runs apart. Items that each thread queued to
    warm up took locks as well.
    """
    found = read(text)
    if len(runs) != 1:
        return
    run, = runs
    items = run['items_with_warmup'] = run['items'] + run['threads'] * warmup
    mine = {name: counts for name, counts in found.items() if name in LOCKS}
    if not mine.get(LOCKS[0], [0, 0])[1]:
        raise parse.BenchOutputError(f'/proc/lock_stat does not have {LOCKS[0]}, which each item takes')
    others = {name: counts for name, counts in found.items() if name not in LOCKS and counts[0]}
    run['locks'] = {**mine, **others}
    run['contentions'] = sum(counts[0] for counts in mine.values()) / items
    run['acquisitions'] = sum(counts[1] for counts in mine.values()) / items
    run['other_contentions'] = sum(counts[0] for counts in others.values()) / items


def per_item(run):
    """Return {name: (contentions, acquisitions) per item} of the workqueue's locks."""
    items = run['items_with_warmup']
    return {name: (counts[0] / items, counts[1] / items) for name, counts in run['locks'].items() if name in LOCKS}


def middle(figures):
    """Return {name: [contentions, acquisitions]}, medians over a list of such."""
    return {name: [median(one.get(name, (0, 0))[part] for one in figures) for part in (0, 1)]
            for name in sorted({name for one in figures for name in one}, key=LOCKS.index)}


def by_lock(boots, scope):
    """Return {'locks': {name: [contentions, acquisitions]}} per item: medians over the boots of medians in each."""
    found = [[per_item(run) for run in boot['runs'] if run['scope'] == scope and 'locks' in run] for boot in boots]
    figures = [middle(runs) for runs in found if runs]
    return {'locks': middle(figures)} if figures else {}

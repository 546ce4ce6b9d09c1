# SPDX-License-Identifier: GPL-2.0
"""Reads that race with writes are marked with READ_ONCE().

workqueue_struct.h gives fields of a workqueue the letters WO if wq->mutex guards their writes and anybody
may read them. KCSAN reports a read without a mark only if a write happens to come at that moment.
"""
import re

import pytest

from csource import functions
from wqlab.paths import ROOT

HOME = ROOT / 'kernel/workqueue'
# These functions see a workqueue that nobody else has yet, or no longer.
ALONE = {'__alloc_workqueue', 'alloc_and_link_percpu_pwqs', 'get_percpu_pool', 'init_rescuer', 'wq_alloc', 'wq_free',
         'wq_make_unbound_pwqs', 'wq_publish', 'wq_set_limits'}
STRUCT = re.compile(r'^struct workqueue_struct \{\n(.*?)^\};', re.M | re.S)
TAKES = re.compile(r'(?:guard\(mutex\)\(|scoped_guard\(mutex, |mutex_lock\()&wq->mutex\)')
HOLDS = 'lockdep_assert_held(&wq->mutex)'
MARKED = re.compile(r'\b(?:READ|WRITE)_ONCE\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)')


def fields():
    return re.findall(r'(\w+);\s*/\* WO\b', STRUCT.search((HOME / 'workqueue_struct.h').read_text())[1])


def unmarked(source):
    """Return (function, access) for each access that neither has a mark nor holds the mutex."""
    access = re.compile(rf'(?:\b(?:wq|target)|\bdev_wq\(.*?\))->(?:{"|".join(fields())})\b')
    for name, _, body in functions(source):
        if name in ALONE or HOLDS in body:
            continue
        for found in access.findall(MARKED.sub('', TAKES.split(body)[0])):
            yield name, found


def test_fields_are_found():
    assert {'flags', 'max_active'} <= set(fields())


@pytest.mark.parametrize('path', sorted(HOME.glob('*.[ch]')), ids=lambda path: path.name)
def test_racing_reads_are_marked(path):
    assert not list(unmarked(path.read_text(encoding='utf-8')))


@pytest.mark.parametrize('body, found', [
    ('return wq->flags & WQ_BH;', ['wq->flags']),
    ('return READ_ONCE(wq->flags) & WQ_BH && pwq->wq->max_active;', ['wq->max_active']),
    ('return !(dev_wq(kobj_to_dev(kobj))->flags & WQ_BH);', ['dev_wq(kobj_to_dev(kobj))->flags']),
    ('return !(READ_ONCE(dev_wq(kobj_to_dev(kobj))->flags) & WQ_BH);', []),
    ('if (wq->flags & WQ_BH)\n\t\treturn 0;\n\tguard(mutex)(&wq->mutex);\n\treturn wq->max_active;', ['wq->flags']),
    ('lockdep_assert_held(&wq->mutex);\n\treturn wq->flags & WQ_BH;', []),
    ('return pool->flags & POOL_BH;', []),
])
def test_unmarked(body, found):
    head = '/* what it does */\n__printf(1, 0)\nstatic int it(struct workqueue_struct *wq)\n\t__must_hold(&x)'
    assert list(unmarked(f'{head}\n{{\n\t{body}\n}}\n')) == [('it', access) for access in found]

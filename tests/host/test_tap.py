# SPDX-License-Identifier: GPL-2.0
"""The TAP reader believes nothing that is not there."""
import pytest

from wqlab import tap

GOOD = 'TAP version 13\n1..2\nok 1 first\n# a note\nok 2 second\n# Totals: pass:2\n'
NESTED = '''\
KTAP version 1
1..1
    KTAP version 1
    # Subtest: suite
    1..2
    ok 1 plain
        KTAP version 1
        # Subtest: table
        ok 1 row a
        ok 2 row b
    # table: pass:2 fail:0 skip:0 total:2
    ok 2 table
# suite: pass:2 fail:0
ok 1 suite
'''


def outcome(text):
    return [(point.name, point.ok) for point in tap.parse(text)]


def test_good():
    assert outcome(GOOD) == [('first', True), ('second', True)]


def test_leaves_of_a_nested_one_are_the_points():
    assert outcome(NESTED) == [('suite: plain', True), ('suite: table: row a', True),
                               ('suite: table: row b', True)]


def test_failed_point_brings_its_notes():
    points = tap.parse('1..2\nok 1 a\n# x is 3\n# not 4\nnot ok 2 b\n')
    assert [(p.ok, p.why) for p in points] == [(True, ''), (False, 'x is 3\nnot 4')]


def test_parent_that_fails_alone():
    assert ('suite', False) in outcome(NESTED.replace('ok 1 suite', 'not ok 1 suite'))


@pytest.mark.parametrize('text', [
    '',                                             # nothing at all
    'TAP version 13\n',                             # no points
    '1..0 # SKIP no such thing\n',                  # all skipped
    GOOD.replace('1..2', '1..3'),                   # one is missing
    GOOD.replace('1..2', '1..1'),                   # one too many
    GOOD.replace('1..2\n', ''),                     # no plan
    GOOD.replace('ok 2 second', 'ok 3 second'),     # misnumbered
    GOOD.replace('second', 'second # SKIP no CPU'),
    GOOD.replace('second', 'second # TODO later'),
    GOOD.replace('second', 'second # XFAIL known'),
    GOOD + 'Bail out!  the helper is gone\n',
    NESTED.replace('    1..2', '    1..3'),
    NESTED.replace('total:2', 'total:3'),
    NESTED.replace('total:2', ''),
    NESTED.replace('    ok 1 plain\n', ''),
    NESTED.replace('row b', 'row b # SKIP'),
    NESTED.split('        ok 2 row b')[0],          # cut off in the middle
])
def test_not_good(text):
    assert not all(ok for _, ok in outcome(text))

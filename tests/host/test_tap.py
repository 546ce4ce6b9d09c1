# SPDX-License-Identifier: GPL-2.0
"""The TAP reader is strict: anything that is missing is a failure."""
import dataclasses
import re

import pytest

import guests
import kernlog
import test_selftests
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


def test_skipped_for_an_expected_reason():
    text = GOOD.replace('second', 'second # SKIP one CPU is one pool')
    skipped = tap.parse(text, 'one CPU|the base kernel')[1]
    assert (skipped.name, skipped.ok, skipped.skipped, skipped.why) == ('second', True, True, 'one CPU is one pool')
    for wrong in (text.replace('one CPU', 'no CPU'), text.replace('ok 2', 'not ok 2'), text.replace('SKIP', 'TODO')):
        assert not any(point.skipped for point in tap.parse(wrong, 'one CPU|the base kernel'))
        assert not all(point.ok for point in tap.parse(wrong, 'one CPU|the base kernel'))


TABLE = '''\
1..1
    KTAP version 1
    ok 1 row a # SKIP the base kernel hangs
    ok 2 row b # SKIP the base kernel hangs
# table: pass:0 fail:0 skip:2 total:2
ok 1 table # SKIP \n'''


def test_all_rows_of_a_table_are_skipped():
    """Then KUnit gives the table no reason."""
    points = tap.parse(TABLE, 'the base kernel')
    assert [(point.name, point.ok, point.skipped) for point in points] == [
        ('table: row a', True, True), ('table: row b', True, True)]
    for wrong in (TABLE.replace('row b # SKIP the base kernel hangs', 'row b'),
                  TABLE.replace('ok 1 table', 'not ok 1 table'), TABLE.replace('total:2', 'total:3')):
        assert not all(point.ok for point in tap.parse(wrong, 'the base kernel'))
    assert not all(point.ok for point in tap.parse(TABLE, 'one CPU'))


SUITES = ['''\
    KTAP version 1
    # Subtest: first
    # module: one
    1..2
    ok 1 plain
    ok 2 other # SKIP no such device
# first: pass:1 fail:0 skip:1 total:2
ok 7 first
''', 'another: a message of the kernel\n', '''\
    KTAP version 1
    # Subtest: second
    # module: two
    1..1
    ok 1 alone
ok 8 second
''']


def test_suites_in_modules():
    points = kernlog.parse_modules(''.join(SUITES), 'no such')
    assert [(point.name, point.skipped) for point in points] == [
        ('first: plain', False), ('first: other', True), ('second: alone', False)]
    assert all(point.ok for point in points)


@pytest.mark.parametrize('text', [
    ''.join(SUITES).replace('ok 8 second\n', ''), ''.join(SUITES).replace('    ok 1 plain\n', ''),
    ''.join(SUITES).replace('    ok 1 alone', '    not ok 1 alone').replace('ok 8', 'not ok 8'),
], ids=['no end', 'too few', 'failed'])
def test_suites_in_modules_that_are_not_good(text):
    assert not all(point.ok for point in kernlog.parse_modules(text, 'no such'))


def run_script(folder, shell, reason):
    return test_selftests.run(shell, folder, f'''{test_selftests.BEGIN}
test_runs() {{ :; }}
test_cannot() {{ echo "it ran"; return 1; }}
skip "{reason}" cannot cannot:here
run_tests runs cannot cannot:here cannot:there
''')


@pytest.mark.usefixtures('composed')
@pytest.mark.parametrize('shell', [['bash'], ['busybox', 'sh']], ids=lambda shell: shell[0])
@pytest.mark.parametrize('reason, skipped', [
    ('one CPU is one pool', 2), ('the CPUs cannot go offline', 2), ('laziness', 0),
])
def test_skip_of_the_scripts(tmp_path, shell, reason, skipped):
    """A script does not run a test that it skips, but reports a point with a reason of a known kind."""
    done = run_script(tmp_path, shell, reason)
    points = tap.parse(done.stdout, 'one CPU|the CPUs')
    assert [(point.name, point.skipped) for point in points] == [
        ('runs', False), ('cannot', skipped > 0), ('cannot: here', skipped > 0), ('cannot: there', False)], done
    assert sum(point.why == reason for point in points) == skipped and done.stdout.count('it ran') == 3 - skipped


# For each reason that a script gives, it is true of one of these guests, and not of another.
GUESTS = [guests.Boot('', 'uml', variant='base', shards='2'), *(
    guests.Boot('', engine, variant='cmwq', topology=topology, append=append) for engine, topology, append in (
        ('uml', '', ''), ('qemu', 'cores=1', 'isolcpus=domain,9'),
        ('qemu', 'sockets=2,cores=1,nodes=2', ''), ('qemu', 'cores=4', 'nohz_full=1-3 maxcpus=1'))),
    guests.Boot('', 'uml', variant='cmwq', config='debug', append='kmemleak=on'),
    guests.Boot('', 'qemu', variant='cmwq', linux=guests.OLD)]


def true_of_some(reason):
    """Is it true of some guests, and not of others?"""
    return {bool(re.match(boot.may_skip, reason)) for boot in GUESTS} == {True, False}


@pytest.mark.usefixtures('composed')
@pytest.mark.parametrize('path', test_selftests.SCRIPTS, ids=lambda path: path.stem)
def test_reasons_of_the_scripts(tmp_path, path):
    """Each is of a known kind, and may be true."""
    for reason in re.findall(r'\bskip "(.*?)" ', path.read_text()):
        assert true_of_some(reason), reason
        assert reason.replace('\\', '') in run_script(tmp_path, ['bash'], reason).stdout, reason


def test_reasons_of_the_suites():
    text = ''.join(path.read_text() for path in sorted((guests.ROOT / 'lib/cmwq').glob('wq_api*.c')))
    reasons = set(re.findall(r'"((?:the base kernel|one CPU|this kernel|this KUnit) .*?)"', text))
    assert len(reasons) > 5
    # All kernels that we build have a freezer.
    assert [reason for reason in reasons if not true_of_some(reason)] == ['this kernel has no freezer']


def test_reasons_that_are_not_true_of_a_guest():
    """The machine that was made for certain tests has to run them."""
    boot = next(boot for boot in guests.BOOTS if boot.name == 'qemu-own')
    may_skip = dataclasses.replace(boot, variant='cmwq', linux=guests.kinds.LINUX).may_skip
    for reason in ('one CPU is one pool', 'the base kernel fails it',
                   'the CPUs cannot go offline', 'the CPUs are fewer than three',
                   'the CPUs are not on two nodes', ''):
        assert not re.match(may_skip, reason), reason

# SPDX-License-Identifier: GPL-2.0
"""wq_monitor.py without a kernel: rates, columns, lines and the screen."""
import ast
import contextlib
import json
import os
import re
import signal
import sys
import termios

import pexpect
import pytest

import wq_monitor
from wqtools import asbase, debugfs, program, stats

TOP = (1 << 64) - 1


def counts(**given):
    return {**dict.fromkeys(stats.COUNTERS, 0), **given}


def reading(name='wq', address=0x1000, kind='unbound', reclaim=False, **pwqs):
    return stats.Reading(name, address, kind, reclaim, {int(key[1:]): value for key, value in pwqs.items()})


def rate_of(old, new, counter='started', seconds=2.0):
    return stats.rows([old], [new], seconds)[0].rate[counter]


# Differences

def test_rate_adds_up_what_each_pwq_did():
    old = reading(p1=counts(started=10), p2=counts(started=5))
    new = reading(p1=counts(started=11), p2=counts(started=8))
    assert rate_of(old, new) == 2


def test_counter_that_wraps_and_one_that_begins_anew():
    """A new pwq may have the address of a freed one. Its counters start at 0."""
    assert rate_of(reading(p1=counts(started=TOP - 1)), reading(p1=counts(started=4))) == 3
    assert rate_of(reading(p1=counts(started=10**6)), reading(p1=counts(started=8))) == 4


def test_pwq_that_went_takes_nothing_away():
    old = reading(p1=counts(started=10**9), p2=counts(started=5))
    new = reading(p2=counts(started=9))
    row = stats.rows([old], [new], 2.0)[0]
    assert row.rate['started'] == 2 and row.total['started'] == 9 and row.reset


def test_reset_is_marked():
    old, same, back = (reading(p1=counts(started=number)) for number in (9, 9, 2))
    wrapped = stats.rows([reading(p1=counts(started=TOP))], [reading(p1=counts(started=1))], 1.0)[0]
    rows = [stats.rows([old], [new], 1.0)[0] for new in (same, back)]
    assert [row.reset for row in rows] == [False, True] and not wrapped.reset
    assert [stats.line(row, stats.COLUMNS)[stats.NAME_WIDTH] for row in rows] == [' ', '*']


def test_pwq_that_came_counts_in_full():
    assert rate_of(reading(p1=counts(started=7)), reading(p1=counts(started=7), p9=counts(started=6))) == 3


def test_workqueue_that_went_is_not_shown():
    gone, kept = reading('gone', 0x10, p1=counts()), reading('kept', 0x20, p2=counts(started=1))
    assert [row.name for row in stats.rows([gone, kept], [kept], 1.0)] == ['kept']


def test_workqueue_that_came_has_no_rate_yet():
    row = stats.rows([], [reading(p1=counts(started=3))], 1.0)[0]
    assert row.rate is None and row.total['started'] == 3


def test_address_used_by_another_workqueue_is_another_row():
    row = stats.rows([reading('old', p1=counts(started=50))], [reading('new', p1=counts(started=60))], 1.0)[0]
    assert row.name == 'new' and row.rate is None


def test_workqueues_of_one_name_are_apart():
    old = [reading('events', 0x10, p1=counts(started=1)), reading('events', 0x20, p2=counts(started=10))]
    new = [reading('events', 0x10, p1=counts(started=2)), reading('events', 0x20, p2=counts(started=40))]
    assert [row.rate['started'] for row in stats.rows(old, new, 1.0)] == [1, 30]


def test_in_flight_is_never_below_none():
    torn = reading(p1=counts(started=4, completed=5), p2=counts(started=9, completed=7))
    assert torn.in_flight == 2
    assert reading(p1=counts(started=1, completed=TOP)).in_flight == 2


@pytest.mark.parametrize('kind, reclaim, has', [
    ('percpu', False, {'cpu_intensive', 'cm_wakeup'}),
    ('percpu', True, {'cpu_intensive', 'cm_wakeup', 'mayday', 'rescued'}),
    ('unbound', True, {'repatriated', 'mayday', 'rescued'}),
    ('ordered', False, {'repatriated'}),
    ('bh', False, set()),
])
def test_what_kinds_of_workqueue_count(kind, reclaim, has):
    row = stats.rows(None, [reading(kind=kind, reclaim=reclaim, p1=counts())], 0)[0]
    assert {name for name, number in row.total.items() if number is not None} == \
        has | {'started', 'completed', 'cpu_time'}


def test_kernel_without_a_counter():
    old, new = reading(p1={'started': 1, 'completed': 1}), reading(p1={'started': 3, 'completed': 3})
    row = stats.rows([old], [new], 1.0)[0]
    assert row.total['repatriated'] is None and row.rate['repatriated'] is None and row.rate['started'] == 2
    assert stats.line(row, stats.COLUMNS)


# What is shown

def three_rows():
    old = [reading('b', 1, p1=counts()), reading('c', 2, 'percpu', p2=counts()), reading('a', 3, 'bh', p3=counts())]
    new = [reading('b', 1, p1=counts(started=5, completed=1, cpu_time=2_000_000, repatriated=7)),
           reading('c', 2, 'percpu', True, p2=counts(started=9, completed=9, cpu_time=5, cpu_intensive=1,
                                                     cm_wakeup=3, mayday=2, rescued=1)),
           reading('a', 3, 'bh', p3=counts(started=1, completed=0))]
    return stats.rows(old, new, 1.0)


@pytest.mark.parametrize('key', stats.SORT_KEYS)
def test_sort_by_every_column(key):
    rows = three_rows()
    forth, back = stats.sort(rows, key), stats.sort(rows, key, True)
    assert sorted(row.name for row in forth) == sorted(row.name for row in back) == ['a', 'b', 'c']
    if key in ('name', 'type'):
        values = [getattr(row, key) for row in forth]
        assert values == sorted(values) and [getattr(row, key) for row in back] == values[::-1]
        return
    value = next(column.value for column in stats.COLUMNS if column.key == key)
    for rows_, sign in ((forth, -1), (back, 1)):
        numbers = [value(row) for row in rows_]
        have = [number for number in numbers if number is not None]
        assert have == sorted(have, key=lambda number: sign * number)
        assert numbers == have + [None] * (3 - len(have)), 'rows without a number come last'


def test_wakeups_and_repatriations_share_a_column():
    column = next(column for column in stats.COLUMNS if column.key == 'wakeups')
    assert {row.name: column.value(row) for row in three_rows()} == {'a': None, 'b': 7, 'c': 3}


@pytest.mark.parametrize('number', [0, 9, 999999, 1e6, 123456789, 1e13, 1e19, TOP * 1e-6])
def test_cells_keep_their_width(number):
    for column in stats.COLUMNS:
        if column.key != 'cpu_time' and column.key != 'cpu_time_rate':
            assert len(column.show(number)) <= stats.WIDTH - 1
    assert len(stats._rate(number)) <= stats.WIDTH - 1


@pytest.mark.parametrize('width', [1, 60, 100, 200, 300])
def test_columns_fit_the_terminal(width):
    columns = stats.choose(('total', 'rate', 'wait'), width)
    least = stats.NAME_WIDTH + stats.TYPE_WIDTH + stats.WIDTH
    for row in three_rows():
        assert len(stats.line(row, columns)) == len(stats.header(columns)) <= max(width, least)
    assert columns and (width < 200 or len(columns) == len(stats.COLUMNS))


def test_total_and_rate_alone():
    assert {column.kind for column in stats.choose(('total',))} == {'total', 'always'}
    assert {column.kind for column in stats.choose(('rate',))} == {'rate', 'always'}


# The whole tool, with a fake kernel

class Kernel:
    """A fake kernel. More items have started at each read. One workqueue exists only at every other read."""

    def __init__(self):
        self.reads = 0

    def __call__(self):
        self.reads += 1
        found = [reading('busy', 1, p1=counts(started=100 * self.reads, completed=100 * self.reads - 2)),
                 reading('idle', 2, 'percpu', p2=counts())]
        return found + ([reading('odd', 3, p3=counts(started=1))] if self.reads % 2 else [])


def monitor_of(*argv):
    args = wq_monitor.options(list(argv))
    made = wq_monitor.Monitor.__new__(wq_monitor.Monitor)
    made.args, made.read = args, Kernel()
    made.sort, made.reverse, made.active = args.sort, args.reverse, args.active
    made.last, made.last_time, made.rows, made.seconds, made.time = None, None, [], None, None
    return made


def test_json_lines_parse(capsys):
    wq_monitor.print_samples(monitor_of('-i', '0.01', '--json'), 3, wq_monitor.print_json)
    printed = capsys.readouterr().out.splitlines()
    lines = [json.loads(line) for line in printed]
    assert [ast.literal_eval(line) for line in printed] == lines, 'as those who parse the lines of a kernel tree do'
    assert [line['name'] for line in lines] == ['busy', 'idle', 'odd', 'busy', 'idle', 'busy', 'idle', 'odd']
    first, later = lines[0], lines[3]
    assert 'rate' not in first and 'interval' not in first
    assert later['rate']['started'] > 0 and later['started'] == 200 and later['in_flight'] == 2
    assert (later['unbound'], later['mem_reclaim'], later['reset'], later['address']) == (1, 0, 0, '0x1')
    assert set(later['rate']) == {'started', 'completed', 'cpu_time', 'repatriated'}
    assert list(first)[:12] == ['timestamp', 'name', 'unbound', 'mem_reclaim', *stats.COUNTERS]


def test_rows_of_the_table():
    counted = counts(started=9, completed=7, cpu_time=1_250_000, cpu_intensive=1, cm_wakeup=3, repatriated=4, mayday=2,
                     rescued=12345678)
    def row_of(**how):
        return asbase.line(stats.rows(None, [reading(p1=counted, **how)], 0)[0])
    assert row_of(name='p', kind='percpu', reclaim=True) == \
        'p                               9     2      1.2       1       3       2 12345678 '
    assert row_of(name='o', kind='ordered', reclaim=True) == \
        'o                               9     2      1.2       -       4       2 12345678 '
    assert row_of(name='b', kind='bh') == \
        'b                               9     2      1.2       1       3       -       - '
    long = row_of(name='x' + 'kworker-with-a-long-name')
    assert long.startswith('kworker-with-a-long-name        9 '), 'the end of a name is kept'
    torn = reading(p1=counts(started=4, completed=5), p2=counts(started=9, completed=7))
    assert asbase.line(stats.rows(None, [torn], 0)[0]).split()[1:3] == ['13', '1']


@pytest.mark.parametrize('how', [[], ['--json'], ['--plain'], ['--screen']])
def test_no_such_workqueue(how, capsys):
    """The table and --json wait for the workqueue, as the script in a kernel tree does. --plain and --screen fail."""
    monitor = monitor_of(*how, 'absent')
    monitor.read = list
    if how in ([], ['--json']):
        wq_monitor.print_samples(monitor, 1, wq_monitor.print_json if how else wq_monitor.print_table)
        said = capsys.readouterr()
        assert 'no workqueue has such a name' in said.err and len(said.out.splitlines()) == (0 if how else 2)
    else:
        with pytest.raises(program.Trouble, match='no workqueue has such a name'):
            monitor.sample()


def test_help_documents_every_field_of_json():
    text = wq_monitor.DESCRIPTION.partition('--json prints')[2]
    for name in asbase.as_json(three_rows()[0], 0, 1):
        assert re.search(rf'\b{name}\b', text), name


def test_lines_repeat_their_header(capsys):
    wq_monitor.print_samples(monitor_of('-i', '0', '--plain'), 40, wq_monitor.Lines(('total', 'rate')))
    lines = capsys.readouterr().out.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith('time')]
    assert heads[:3] == [0, wq_monitor.HEADER_EVERY + 1, 2 * wq_monitor.HEADER_EVERY + 2]
    assert all(re.match(r'\d\d:\d\d:\d\d (busy|idle|odd) ', line) for line in lines if not line.startswith('time'))


def test_active_top_and_order(capsys):
    wq_monitor.print_samples(monitor_of('-i', '0.01', '--active', '--top', '1', '--sort', 'in_flight'), 2,
                             wq_monitor.Lines(('rate',)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all(' busy ' in line for line in lines[1:])


@pytest.mark.parametrize('argv, says', [
    (['('], 'not a regular expression'), (['-i', '-1'], 'a number of at least 0'),
    (['-i', 'nan'], 'a number of at least 0'), (['-n', '0'], 'a whole number of at least 1'),
    (['--debugfs', '--symbols', 'x'], 'the running kernel'), (['--rate'], 'of --screen or --plain'),
])
def test_wrong_calls_are_told_in_one_line(argv, says, capsys):
    with pytest.raises(SystemExit) as end:
        wq_monitor.options(argv)
    assert end.value.code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize('argv, source, shown', [
    ([], 'live', 'table'), (['--json'], 'live', 'json'), (['--plain'], 'live', 'lines'),
    ([], 'core', 'table'), (['--json'], 'core', 'json'), (['--screen'], 'core', 'lines'),
])
def test_what_options_show(argv, source, shown, monkeypatch):
    called = []
    monkeypatch.setattr(program, 'get', lambda args: None)
    monkeypatch.setattr(program, 'source', lambda prog: source)
    monkeypatch.setattr(wq_monitor, 'Monitor', lambda prog, args: None)
    monkeypatch.setattr(wq_monitor, 'print_samples', lambda monitor, count, show: called.append((count, show)))
    wq_monitor.watch(wq_monitor.options(argv))
    (count, show), = called
    assert count == (None if source == 'live' else 1)
    kinds = {wq_monitor.print_table: 'table', wq_monitor.print_json: 'json'}
    assert (kinds.get(show) or isinstance(show, wq_monitor.Lines) and 'lines') == shown


def test_screen_needs_a_terminal(monkeypatch):
    monkeypatch.setattr(program, 'get', lambda args: None)
    monkeypatch.setattr(program, 'source', lambda prog: 'live')
    monkeypatch.setattr(wq_monitor, 'Monitor', lambda prog, args: None)
    with pytest.raises(program.Trouble, match='--screen needs a terminal'):
        wq_monitor.watch(wq_monitor.options(['--screen']))


# Without drgn

FILES = {
    'workqueues': '''\
workqueue type reclaim queued started completed cancelled in_flight held_back cpu_time_us longest_ms cpu_intensive \
cm_wakeup repatriated mayday rescued
events percpu 0 9 8 6 1 2 0 20000 30 1 2 0 0 0
events percpu 0 0 0 0 0 0 0 0 0 0 0 0 0 0
tty-UML\\040console unbound 1 5 5 5 0 0 0 0 0 0 0 3 4 1
''',
    'latency': '''\
workqueue kind items missed longest_us from_us:items
tty-UML\\040console wait 100 2 17 0:50 1:40 8:9 16:1
tty-UML\\040console run 100 0 3 0:98 2:2
'''}


@pytest.fixture
def files(tmp_path, monkeypatch):
    def write(**texts):
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
    write(**FILES)
    monkeypatch.setattr(debugfs.read, '__defaults__', (debugfs.read.__defaults__[0], str(tmp_path)))
    monkeypatch.setattr(debugfs.present, '__defaults__', (str(tmp_path),))
    return write


def test_counts_from_debugfs(files):
    first, second, last = debugfs.read()
    assert first.total('started') == 8 and first.in_flight == 2 and first.total('cpu_time') == 20000
    assert first.key != second.key and second.total('started') == 0
    assert (last.name, last.type, last.mem_reclaim) == ('tty-UML console', 'unbound', True)
    assert (last.total('repatriated'), last.total('mayday'), last.total('rescued')) == (3, 4, 1)
    assert [one.name for one in debugfs.read(lambda name: name.startswith('tty'))] == ['tty-UML console']


@pytest.mark.parametrize('word, name', [
    ('a\\134b', 'a\\b'), ('wg-kex-\\303\\251', 'wg-kex-é'), ('wg-kex-\\034\\377', 'wg-kex-\x1c\ufffd')])
def test_name_in_debugfs(word, name):
    assert debugfs.name_of(word) == name


def test_waits_from_debugfs(files, capsys):
    """Half of the items waited for less than 1 us, 99 of 100 for less than 16."""
    wq_monitor.watch(wq_monitor.options(['--debugfs', '-i', '0', '--json']))
    events, _, tty = map(json.loads, capsys.readouterr().out.splitlines())
    assert tty['wait_us'] == {'p50': 1, 'p99': 16} and 'wait_us' not in events and 'address' not in tty
    wq_monitor.watch(wq_monitor.options(['--debugfs', '-i', '0', '--plain', 'tty']))
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[-4:] == ['p50', 'us', 'p99', 'us'] and line.split()[-2:] == ['1', '16']


def test_waits_are_those_since_the_last_sample(files):
    old = debugfs.read()[-1]
    files(latency=FILES['latency'].replace('100 2 17 0:50 1:40', '110 2 17 0:50 1:50'))
    new = debugfs.read()[-1]
    assert stats.waited(old, new) == {50: 2, 99: 2}
    assert stats.waited(new, old) == {50: 1, 99: 16}, 'measured anew'
    assert stats.waited(new, new) == {}


def test_fallback_without_drgn(files, tmp_path, monkeypatch, capsys):
    """The table is the same, and the reason is told. With --symbols, or without the files, it fails as before."""
    def fail(args):
        raise program.Trouble('no debug information')
    monkeypatch.setattr(program, 'get', fail)
    wq_monitor.watch(wq_monitor.options(['-i', '0', 'events']))
    said = capsys.readouterr()
    assert said.out.splitlines()[2].split() == ['events', '8', '2', '0.0', '1', '2', '-', '-']
    assert 'no debug information' in said.err and len(said.err.splitlines()) == 1
    with pytest.raises(program.Trouble):
        wq_monitor.watch(wq_monitor.options(['-i', '0', '--symbols', 'vmlinux']))
    (tmp_path / 'workqueues').unlink()
    with pytest.raises(program.Trouble, match='no debug information'):
        wq_monitor.watch(wq_monitor.options(['-i', '0']))
    with pytest.raises(program.Trouble, match='mount debugfs'):
        wq_monitor.watch(wq_monitor.options(['-i', '0', '--debugfs']))


# The screen, on a pseudo terminal

SCREEN = '''
import signal, test_wqtools_monitor as t
signal.signal(signal.SIGINT, signal.default_int_handler)    # a CI may have started the tests with SIGINT ignored
signal.signal(signal.SIGTERM, t.wq_monitor.end_quietly)
try:
    t.wq_monitor.run_screen(t.monitor_of('-i', '{}'), None, '7.3-test')
except KeyboardInterrupt:
    pass
print('END')
'''


@pytest.fixture
def terminal():
    """Return a function that starts the tool with its own terminal."""
    with contextlib.ExitStack() as stack:
        def start(interval='0.05'):
            child = pexpect.spawn(sys.executable, ['-c', SCREEN.format(interval)], timeout=20, encoding='utf-8',
                                  dimensions=(12, 90), env={**os.environ, 'PYTHONPATH': ':'.join(sys.path)})
            child.delaybeforesend = None
            stack.callback(child.close, force=True)
            child.modes = termios.tcgetattr(child.child_fd)
            return child
        yield start


def assert_restored(screen):
    screen.expect(r'\x1b\[\?25h\x1b\[\?1049l')
    assert 'Traceback' not in screen.before
    screen.expect_exact('END')
    after = termios.tcgetattr(screen.child_fd)
    assert after[3] == screen.modes[3] and after[3] & termios.ECHO and after[3] & termios.ICANON
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == 0


@pytest.mark.parametrize('how', ['q', 'SIGINT', 'SIGTERM'])
def test_screen_gives_the_terminal_back(terminal, how):
    screen = terminal()
    screen.expect(r'\x1b\[\?1049h.*sorted by started_rate.*busy')
    if how == 'q':
        screen.send('q')
    else:
        screen.kill(getattr(signal, how))
    assert_restored(screen)


def test_screen_hears_keys_when_reading_takes_all_the_time(terminal):
    screen = terminal('0')
    screen.expect('sorted by started_rate')
    screen.send('q')
    assert_restored(screen)


def test_keys_that_are_typed_fast_are_all_heard(terminal):
    screen = terminal('30')
    screen.expect('sorted by started_rate')
    screen.send('rs')
    screen.expect('sorted by completed, reversed')
    screen.send('p\x1b[A')
    screen.expect('paused')
    screen.send('pq')
    assert_restored(screen)


def test_screen_keys(terminal):
    screen = terminal('30')
    screen.expect('sorted by started_rate')
    for key, then in (('r', 'started_rate, reversed'), ('s', 'sorted by completed,? '), ('p', 'paused'),
                      ('a', 'not shown'), ('p', r'busy')):
        screen.send(key)
        screen.expect(then)
    screen.send('q')
    assert_restored(screen)

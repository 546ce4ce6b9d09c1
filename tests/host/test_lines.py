# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --lines: what the plugin counts, the figures, whose lines they are, the options, the tables."""

import random
import subprocess

import drgn
import pytest

from wqlab.bench import options as bench_options
from wqlab.bench import plot as bench_plot
from wqlab.bench import run as bench_run
from wqlab.bench import seat
from wqlab.bench.boot import Build
from wqlab.bench.lines import count, measure, plugin, report
from wqlab.guest import GuestError, plugins
from wqlab.guest import run as guest_run
from wqlab.paths import ROOT
from wqlab.simulated import objects

A, B = 0xffff888000001000, 0xffff888000002040
QUEUE, SWITCH, ITEM = 0xffffffff81000000, 0xffffffff81000001, 0xffffffffa0000002


# The plugin, with tests/host/lines_vcpus.c in place of QEMU

@pytest.fixture(scope='module')
def vcpus(tmp_path_factory):
    program = tmp_path_factory.mktemp('vcpus') / 'vcpus'
    subprocess.run(['gcc', '-Wall', '-Wextra', '-Werror', '-I', plugins.HEADER.parent, '-o', program,
                    ROOT / 'tests/host/lines_vcpus.c', plugin.SOURCE], check=True)
    return program


class Machine:
    """Emulated CPUs that run a script."""

    def __init__(self, program, folder, cpus=2):
        self.program, self.cpus = program, cpus
        self.control, self.out = plugin.Control(folder / 'control'), folder / 'out'
        self.arguments = [f'control={folder / "control"}', f'out={self.out}', f'queue={QUEUE:x}', f'switch={SWITCH:x}']

    def start(self, script):
        return subprocess.run([self.program, str(self.cpus), *self.arguments], input=script, text=True,
                              capture_output=True, check=False)

    def run(self, script, submitters=1, warmup=1, items=100):
        """Run a script, in which each submitter queues an item first. Return {address: line}."""
        self.control.arm(submitters, warmup, items, ITEM)
        assert self.start(script + '\nqueue 0' * items).returncode == 0
        assert self.control.state == plugin.DONE
        with open(self.out, encoding='ascii') as file:
            return {line.address: line for line in count.parse(file)}


@pytest.fixture
def machine(vcpus, tmp_path):
    return Machine(vcpus, tmp_path)


def rows(*words):
    return '\n'.join(words)


def test_a_visit_counts_once_however_often_it_touches(machine):
    found = machine.run(rows('queue 0', *[f'write 0 {A:x} 4'] * 5, f'read 0 {A:x} 4', f'read 1 {A:x} 8',
                             f'read 1 {A + 8:x} 8'))
    line = found[A]
    assert line.cpus == [(0, 1), (1, 0)] and line.moves == 2
    assert line.words[0] == ((0, 1), (1, 0)) and line.words[1] == ((0, 0), (1, 0)) == line.words[2]
    assert line.words[4] == ((0, 0), (0, 0))


@pytest.mark.parametrize('mark', ['queue 1', 'switch 1', 'item 1'])
def test_each_mark_begins_a_visit(machine, mark):
    found = machine.run(rows('queue 0', f'write 0 {A:x} 4', f'write 1 {A:x} 4', mark, f'write 1 {A:x} 4', 'other 1',
                             f'write 1 {A:x} 4', 'switch 0', f'write 1 {A:x} 4'))
    assert found[A].cpus == [(0, 1), (0, 2)]
    assert machine.control.ran == mark.startswith('item')


def test_a_line_of_one_cpu_or_that_nobody_writes_is_left_out(machine):
    found = machine.run(rows('queue 0', f'write 0 {A:x} 4', f'read 0 {B:x} 4', f'read 1 {B:x} 4'))
    assert found == {}


def test_user_memory_and_devices_are_left_out(machine):
    found = machine.run(rows('queue 0', 'write 0 1000 4', 'write 1 1000 4', f'device 0 {A:x} 4', f'device 1 {A:x} 4'))
    assert found == {}


def test_an_access_may_cross_lines(machine):
    found = machine.run(rows('queue 0', f'write 0 {A + 60:x} 8', f'write 1 {A + 62:x} 4'))
    assert set(found) == {A, A + 64}
    assert found[A].words[15] == ((0, 1), (0, 1)) and found[A].words[14] == ((0, 0), (0, 0))
    assert found[A + 64].words[0] == ((0, 1), (0, 1)) and found[A + 64].words[1] == ((0, 0), (0, 0))


def test_the_observed_moves_depend_on_the_order_and_the_others_do_not(machine):
    turns = [[f'write {cpu} {A:x} 4', f'switch {cpu}'] for cpu in (0, 1)]
    alternating = machine.run(rows('queue 0', *(turns[0] + turns[1]) * 10))[A]
    in_slices = machine.run(rows('queue 0', *turns[0] * 10, *turns[1] * 10))[A]
    assert (alternating.moves, in_slices.moves) == (20, 20)
    assert (alternating.observed, in_slices.observed) == (20, 2)


def test_counting_begins_when_all_are_warm_and_ends_with_the_first(machine):
    early = [f'write {cpu} {A:x} 4' for cpu in (0, 1)]
    found = machine.run(rows('queue 0', 'queue 0', 'queue 1', *early, 'queue 1', *[f'write {cpu} {B:x} 4'
                                                                                  for cpu in (0, 1)]),
                        submitters=2, warmup=2, items=3)
    assert list(found) == [B] and machine.control.items == 3


def test_the_next_count_begins_anew(machine):
    script = rows('queue 0', f'write 0 {A:x} 4', f'write 1 {A:x} 4')
    assert machine.run(script)[A].cpus == machine.run(script)[A].cpus == [(0, 1), (0, 1)]
    assert machine.control.items == 100


def test_a_report_that_cannot_be_written_is_a_failure(vcpus, tmp_path):
    machine = Machine(vcpus, tmp_path)
    machine.arguments[1] = f'out={tmp_path}/no/such/folder'
    machine.control.arm(1, 1, 1, ITEM)
    assert machine.start(rows('queue 0', 'queue 0')).returncode == 0
    assert machine.control.state == plugin.FAILED


def test_lines_without_room_are_counted(machine):
    machine.control.arm(1, 1, 1, ITEM)
    machine.start(rows('queue 0', f'write 0 {0xffff888000000000 + (1 << 34):x} 4', 'queue 0'))
    assert machine.control.full == 1


@pytest.mark.parametrize('change, cpus', [(['speed=9'], 2), (['nonsense'], 2), (['control=/no/such'], 2), ([], 65)])
def test_the_plugin_refuses_wrong_arguments_with_one_line(vcpus, tmp_path, change, cpus):
    machine = Machine(vcpus, tmp_path, cpus)
    machine.arguments += change
    done = machine.start('')
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1


# Compiling it

def test_the_plugin_is_compiled_once(tmp_path):
    built = plugin.build(tmp_path)
    before = built.stat().st_mtime_ns
    assert plugin.build(tmp_path) == built and built.stat().st_mtime_ns == before
    assert list(tmp_path.iterdir()) == [built]


@pytest.mark.parametrize('compiler, why', [(('false',), 'no message'), (('/no/such/cc',), 'No such file')])
def test_a_compiler_that_fails_is_named(tmp_path, monkeypatch, compiler, why):
    monkeypatch.setattr(plugins, 'CC', compiler)
    with pytest.raises(plugins.PluginError, match=why):
        plugin.build(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_marks_come_from_the_system_map(tmp_path):
    symbols = tmp_path / 'System.map'
    symbols.write_text('ffffffff81000010 T queue_work_on\nffffffff81000020 T __switch_to\n')
    assert plugin.marks(symbols) == {'queue': 'ffffffff81000010', 'switch': 'ffffffff81000020'}
    symbols.write_text('ffffffff81000010 T queue_work_on\n')
    with pytest.raises(plugins.PluginError, match='no __switch_to'):
        plugin.marks(symbols)
    with pytest.raises(plugins.PluginError, match='cannot be read'):
        plugin.marks(tmp_path / 'none')


def test_a_comma_in_a_path_is_doubled():
    assert plugins.argument('/a,b/x.so', out='/c,d', queue='1f') == '/a,,b/x.so,out=/c,,d,queue=1f'


# The figure

def moved(order):
    """Return how often a line moves if visits (cpu, writes) come in this order. Each CPU begins without it."""
    have, moves = set(), 0
    for cpu, writes in order:
        if writes:
            moves += have != {cpu}
            have = {cpu}
        else:
            moves += cpu not in have
            have.add(cpu)
    return moves


@pytest.mark.parametrize('visits, expected', [
    ([], 0), ([(5, 7)], 0), ([(5, 0), (9, 0)], 0),
    ([(0, 10), (0, 10)], 20),
    ([(0, 10)] * 64, 640),
    ([(10, 0), (0, 10)], 20),       # a flag that one writes and one reads
    ([(1000, 0), (1000, 0), (1000, 1)], 3),     # read by all, written once
    ([(0, 1000), (0, 1)], 2),
])
def test_the_most_that_may_move(visits, expected):
    assert count.most(visits) == expected


def test_no_order_moves_more():
    """No order moves the line more often than most() says, if the first visit of each CPU does not count."""
    chance = random.Random(1)
    for _ in range(300):
        visits = [(chance.randrange(6), chance.randrange(6)) for _ in range(chance.randrange(1, 5))]
        order = [(cpu, writes) for cpu, one in enumerate(visits) for writes in (0, 1) for _ in range(one[writes])]
        chance.shuffle(order)
        assert moved(order) - len(visits) <= count.most(visits)


def test_taking_turns_moves_as_much():
    for cpus in (2, 4, 64):
        order = [(cpu, True) for _ in range(10) for cpu in range(cpus)]
        assert moved(order) == count.most([(0, 10)] * cpus) == 10 * cpus


WORDS = ' 0 1 2 0' + ' 0 0' * 14


@pytest.mark.parametrize('text, why', [
    (['line ffff888000001000 3', f'cpu 0 1 2{WORDS}'], 'not complete'),
    (['line ffff888000001000 3', 'cpu 0 1 2', 'end'], 'makes no sense'),
    (['cpu 0 1 2' + WORDS, 'end'], 'makes no sense'),
    (['what is this', 'end'], 'makes no sense'),
    (['line x y', 'end'], 'invalid literal'),
])
def test_a_damaged_report_is_refused(tmp_path, text, why):
    path = tmp_path / 'report'
    path.write_text('\n'.join(text))
    with pytest.raises(count.ReportError, match=why):
        count.read(path)
    with pytest.raises(count.ReportError):
        count.read(tmp_path / 'none')


def test_report():
    one, = count.parse(['line ffff888000001000 3', f'cpu 0 1 2{WORDS}', f'cpu 5 0 1{WORDS}', 'end'])
    assert (one.address, one.observed, one.cpus) == (A, 3, [(1, 2), (0, 1)])
    assert one.words[0] == ((0, 1),) * 2 and one.words[1] == ((2, 0),) * 2


# Whose lines

class FakeMemory:
    """A pool, then the variable of another subsystem, in one line. The last line is a stack."""
    workqueue: objects.Ranges

    def at(self, address):
        offset = address - A
        if 0 <= offset < 32:
            return objects.Place('worker_pool', 'lock' if offset < 4 else 'nr_idle', offset + 64, 800, True)
        if offset < 64:
            return objects.Place('jiffies', '', 0, 8, False)
        return objects.Place('stack of a kworker', '', 0, 16384, False)


def line(address, observed=0, **words):
    """Return a line that two CPUs touched; of w0=(0, 3) each wrote word 0 three times."""
    row = [max(visits[i] for visits in words.values()) for i in (0, 1)]
    for number in range(16):
        row += words.get(f'w{number}', (0, 0))
    return count.Line(address, observed, [[str(number) for number in row]] * 2)


def test_lines_belong_to_what_moves_in_them():
    lines = [line(A, 7, w0=(0, 10), w1=(20, 0), w9=(5, 0)), line(A, 1, w9=(0, 5), w1=(3, 0)),
             line(A + 64, 2, w3=(0, 1)), line(A + 128, w3=(0, 2))]
    found = measure.table(lines, FakeMemory(), items=10)
    assert found['items'] == 10 and len(found['rows']) == 3
    pool, other, stack = found['rows']
    assert (pool['what'], pool['workqueue'], pool['lines']) == ('worker_pool+64', True, 1)
    assert pool['fields'] == {'lock': 2.0, 'nr_idle': 0.0}
    assert (other['what'], stack['what'], stack['lines'], stack['moves']) == ('jiffies', 'stack of a kworker', 2, 0.6)
    assert found['moves'] == pool['moves'] and found['moves_else'] == other['moves'] + stack['moves']
    assert found['observed'] + found['observed_else'] == pytest.approx(1.0)


def test_a_line_with_other_memory_is_shared_out():
    """What the lock would move alone is the workqueue's. What else the line moves is due to its neighbour."""
    pool, other = measure.table([line(A, 7, w0=(0, 10), w9=(20, 0))], FakeMemory(), items=10)['rows']
    whole = count.most([(20, 10)] * 2) / 10
    assert (pool['what'], pool['moves'], pool['fields']) == ('worker_pool+64', 2.0, {'lock': 2.0})
    assert (other['what'], other['moves']) == ('jiffies', whole - 2.0)
    assert pool['observed'] + other['observed'] == pytest.approx(0.7)
    for neighbour, moves in ({'w1': (20, 0)}, whole), ({'w9': (0, 5)}, 2.0):
        alone, = measure.table([line(A, w0=(0, 10), **neighbour)], FakeMemory(), items=10)['rows']
        assert alone['moves'] == moves


def test_words_that_only_share_a_line():
    """One CPU writes each word, so neither would move alone."""
    one = line(A, w0=(0, 10), w9=(0, 10))
    one.rows = [row[:2 + 2 * other] + ['0', '0'] + row[4 + 2 * other:] for row, other in zip(one.rows, (9, 0))]
    found, = measure.table([one], FakeMemory(), items=10)['rows']
    assert found['workqueue'] and found['moves'] == 2 and set(found['fields'].values()) == {0}


def test_lines_that_rarely_move_are_only_counted():
    memory = FakeMemory()
    memory.workqueue = objects.Ranges([objects.Range(A, A + 32, 'worker_pool', None)])
    found = measure.table([line(A, w0=(0, 1)), line(A, w0=(0, 5000)), line(A + 64, w0=(0, 1))], memory, items=10000)
    assert [(row['what'], row['workqueue'], row['lines'], row['moves'], row['fields']) for row in found['rows']] == \
        [('worker_pool+64', True, 2, 1.0002, {'lock': 1.0}), ('stack of a kworker', False, 1, 0.0002, {})]


def test_rows_of_other_memory_are_limited():
    class Many:
        def at(self, address):
            return objects.Place(f'v{address >> 6}', '', 0, 8, False)
    found = measure.table([line(A + 64 * i, w0=(0, 1)) for i in range(100)], Many(), items=1)
    assert len(found['rows']) == measure.OTHERS_KEPT and found['moves_else'] == 200


def test_fields_of_a_struct():
    prog = drgn.Program(drgn.host_platform)
    number, byte = prog.int_type('int', 4, True), prog.int_type('char', 1, True)
    inner = prog.struct_type('list_head', 16, [drgn.TypeMember(prog.pointer_type(number), 'next', 0),
                                               drgn.TypeMember(prog.pointer_type(number), 'prev', 64)])
    nameless = prog.union_type(None, 8, [drgn.TypeMember(number, 'count'), drgn.TypeMember(number, 'sum')])
    pool = prog.typedef_type('pool_t', prog.struct_type('pool', 64, [
        drgn.TypeMember(number, 'lock', 0), drgn.TypeMember(byte, 'one', 32), drgn.TypeMember(byte, 'two', 40),
        drgn.TypeMember(inner, 'list', 64), drgn.TypeMember(nameless, None, 192),
        drgn.TypeMember(drgn.Object(prog, number, 0, bit_field_size=3), 'bits', 256),
        drgn.TypeMember(prog.array_type(number), 'rest', 320)]))
    found = [objects.field_at(pool, offset) for offset in range(0, 48, 4)]
    assert found == ['lock', 'one/two', *['list'] * 4, 'count/sum', '', 'bits', '', 'rest', 'rest']
    assert objects.field_at(prog.array_type(pool, 2), 64 + 8) == 'list'
    assert objects.field_at(number, 0) == objects.field_at(None, 0) == ''
    entity = prog.struct_type('entity', 128, [drgn.TypeMember(inner, 'list', 0), drgn.TypeMember(number, 'sum', 512)])
    large = prog.struct_type('task', 136, [drgn.TypeMember(number, 'state', 0), drgn.TypeMember(entity, 'se', 64)])
    assert [objects.field_at(large, offset) for offset in (0, 8, 72, 80)] == ['state', 'se.list', 'se.sum', 'se']
    many = prog.struct_type('bits', 4, [drgn.TypeMember(byte, name, 8 * place) for place, name in enumerate('abcd')])
    assert objects.field_at(many, 0) == 'a/b/c/...'


def test_the_object_at_an_address():
    ranges = objects.Ranges([objects.Range(10, 20, 'a', None), objects.Range(30, 40, 'b', None),
                             objects.Range(30, 40, 'b', None)])
    assert len(ranges.all) == 2
    found = {address: ranges.at(address) for address in (9, 10, 19, 20, 30, 39, 40)}
    assert {address: one and one.what for address, one in found.items()} == \
        {9: None, 10: 'a', 19: 'a', 20: None, 30: 'b', 39: 'b', 40: None}


# Options

def params(*argv):
    return bench_options.parse_args(list(argv))[0]


def test_defaults_of_lines():
    chosen = params('--lines')
    assert (chosen['engine'], chosen['cpus'], chosen['pairs'], chosen['items'], chosen['repeats'], chosen['mode']) == \
        ('qemu', 4, 1, 1000, 1, 'latency')
    assert params('--lines', '--topology', 'sockets=2,cores=4')['cpus'] == 8
    assert params('--lines', '--cpus', '64', '--pairs', '3', '--items', '7')['pairs'] == 3
    assert params()['pairs'] == 5 and not params()['lines']
    assert list(bench_options.warnings(chosen)) == []


BAD_OPTIONS = [
    (['--engine', 'uml'], 'leave --engine uml out'), (['--icount'], 'leave --icount out'),
    (['--mode', 'burst'], '--lines needs --mode latency or batch'), (['--mode', 'mixed'], '--lines needs --mode'),
    (['--cpus', '1'], 'needs 2 to 64 CPUs'), (['--cpus', '65'], 'needs 2 to 64 CPUs'),
    (['--cpus', '4', '--threads', '5'], 'a CPU for each of --threads'),
]


@pytest.mark.parametrize('argv, why', BAD_OPTIONS, ids=lambda value: ' '.join(value) if isinstance(value, list) else '')
def test_options_that_make_no_sense_are_refused(capsys, argv, why):
    with pytest.raises(SystemExit) as left:
        params('--lines', *argv)
    assert left.value.code == 2 and why in capsys.readouterr().err.splitlines()[-1]


def test_the_guest_gets_the_plugin(tmp_path, monkeypatch):
    monkeypatch.setattr(plugin, 'marks', lambda path: {'queue': '1', 'switch': '2'})
    built = Build(ROOT, 'qemu', 'cmwq')
    watched = measure.Watched(built, params('--lines'), tmp_path)
    argv = seat.guest_arguments(ROOT, built, params('--lines'), {'variant': 'cmwq', 'shard_size': None}, 'x.log',
                                watched.options(), measure.FIND_ITEM)
    args = guest_run.options().parse_args(argv[2:])
    assert args.plugin == f'{plugin.build()},control={tmp_path}/control,out={tmp_path}/report,queue=1,switch=2'
    assert args.qmp == watched.socket and measure.FIND_ITEM in args.command[0]


@pytest.mark.parametrize('engine, accel', [('uml', 'auto'), ('qemu', 'kvm')])
def test_a_plugin_needs_emulation(tmp_path, engine, accel):
    from wqlab.guest.engines import ENGINES
    image = tmp_path / ENGINES[engine].image
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_text('')
    with pytest.raises(GuestError, match='a plugin needs an emulated guest'):
        guest_run.run(tmp_path, 'true', engine=engine, accel=accel, plugin='x.so')


# Tables

def one_run(scope, moves, what='worker_pool+0', repeat=1, **fields):
    row = {'what': what, 'workqueue': True, 'lines': 1, 'moves': moves, 'observed': moves / 2, 'fields': fields}
    other = {'what': 'jiffies', 'workqueue': False, 'lines': 1, 'moves': 4.0, 'observed': 1.0, 'fields': {}}
    return {'scope': scope, 'repeat': repeat, 'lines': {'items': 100, 'moves': moves, 'observed': moves / 2,
                                                        'moves_else': 4.0, 'observed_else': 1.0, 'rows': [row, other]}}


def boot(variant, *runs, pair=1):
    return {'variant': variant, 'shard_size': None, 'pair': pair, 'runs': list(runs)}


def test_tables():
    rows_ = report.summarise([boot('cmwq', one_run('cpu', 0.0), one_run('system', 6.0, lock=3.0, nr_idle=0.0)),
                              boot('base', one_run('system', 8.0, lock=4.0))])
    text = report.lines(rows_, {'cmwq': 'ours', 'base': 'base'})
    assert any(row.split() == ['system', '6.00', '/', '8.00', '3.00', '/', '4.00', '4.00', '/', '4.00', '1.00', '/',
                               '1.00'] for row in text)
    assert any(row.split() == ['6.00', '3.00', 'worker_pool+0', 'lock', '3.00,', 'nr_idle'] for row in text)
    assert any(row.split() == ['4.00', '1.00', '(jiffies)'] for row in text)
    assert 'ours, scope cpu' in text and 'base, scope system' in text and 'base, scope cpu' not in text
    assert report.lines([], {}) == ['no runs']
    runs = one_run('cpu', 0.0), one_run('cpu', 9.0, repeat=2)
    assert report.outline(boot('cmwq', *runs)) == 'lines per item: cpu 0.00'


def test_runs_are_averaged():
    row, = report.summarise([boot('cmwq', one_run('cpu', 2.0, lock=2.0)),
                             boot('cmwq', one_run('cpu', 4.0, what='worker+0', task=1.0), pair=2)])
    assert row['cmwq']['moves']['median'] == 3.0 and row['cmwq']['moves']['boots'] == 2
    assert [(one['what'], one['moves'], one['fields']) for one in row['cmwq']['rows']] == \
        [('jiffies', 4.0, {}), ('worker+0', 2.0, {'task': 0.5}), ('worker_pool+0', 1.0, {'lock': 1.0})]


def test_plots_show_lines():
    chosen = {**params('--lines'), 'accel': 'tcg'}
    record = {'parameters': chosen, 'engine': 'qemu', 'topology': {'cpus': 4},
              'summary': report.summarise([boot('cmwq', one_run('cpu', 2.0))])}
    assert [metric for metric, _ in bench_plot.panels(record)] == ['moves', 'observed', 'moves_else']


def test_program_of_a_record():
    assert bench_run.program_of({'lines': True}) is bench_run.LINES
    assert bench_run.program_of({}) is bench_run.program_of({'lines': False}) is bench_run.PROGRAM

# SPDX-License-Identifier: GPL-2.0
"""What run-workload.sh --profile makes of recorded and of made-up traces and stacks."""
import base64
import json
import os
import re
import struct
import zlib
from pathlib import Path

import pytest

import copied
from wqlab.kernels import tree
from wqlab.paths import BUILD, ROOT
from wqlab.workload import engines, options, run
from wqlab.workload.cases import Lacking
from wqlab.workload.profile import cycles, outside, ring, stacks, tables, tracer, waits
from wqlab.workload.profile.tracer import ACTIVATE, END, QUEUE, START

DATA = ROOT / 'tests/data/workload'
TRACE = json.loads((DATA / 'trace.json').read_text())
PAGE = ring.Page('\n'.join(TRACE['header_page']))
FORMATS = {name: ring.Format('\n'.join(text)) for name, text in TRACE['formats'].items()}


def trace(pages=None, lost=None):
    """What was recorded in a guest of UML, or these pages."""
    pages = pages or {int(cpu): [zlib.decompress(base64.b64decode(page)) for page in found]
                      for cpu, found in TRACE['pages'].items()}
    return tracer.Recorded(PAGE, FORMATS, pages, lost or dict.fromkeys(pages, 0))


# The pages

TEXT = re.compile(r'^ *.*-(\d+) +\[(\d+)\] \S* *(\d+)\.(\d{6}): (\w+): work struct[ =](?:0x)?([0-9a-f]+)'
                  r'(?:.*workqueue=(\S+))?', re.M)


def test_recorded_pages_have_what_the_kernel_prints():
    """The kernel printed the same buffer before its pages were read."""
    printed = [(int(cpu), int(seconds + micro), tracer.EVENTS[event], int(pid), int(work, 16), name)
               for pid, cpu, seconds, micro, event, work, name in TEXT.findall('\n'.join(TRACE['trace']))]
    found = [(cpu, (time + 500) // 1000, which, pid, work & (1 << 64) - 1, name)
             for time, cpu, which, pid, work, name in trace().events()]
    assert len(found) == 64 and {event[0] for event in found} == {0, 1}
    assert sorted(found) == sorted(printed)


def header(kind, delta):
    return struct.pack('=I', kind | delta << ring.KIND_BITS)


def queueing(delta, work, name):
    """An event as the kernel writes it, for the format that was recorded."""
    one = FORMATS['workqueue_queue_work']
    at = max(field.offset + field.size for field in one.fields.values())
    text = name.encode() + b'\0'
    data = bytearray(at) + text + bytes(-len(text) % 4)
    for field, value in (('common_type', one.number), ('common_pid', 7), ('work', work),
                         ('workqueue', at | len(text) << 16)):
        place = one.fields[field]
        data[place.offset:place.offset + place.size] = value.to_bytes(place.size, 'little')
    return header(len(data) // 4, delta) + bytes(data)


def page(time, *pieces, flags=0):
    data = b''.join(pieces)
    return struct.pack('=QQ', time, len(data) | flags) + data + bytes(4080 - len(data))


def test_times_between_events():
    whole = (5 << 60) + 12345
    pieces = [queueing(10, 1, 'a'), header(ring.MORE_TIME, 3) + struct.pack('=I', 1), queueing(0, 2, 'b'),
              header(ring.WHOLE_TIME, 99) + struct.pack('=I', 7), queueing(1, 3, 'c'),
              header(ring.PADDING, 5) + struct.pack('=I', 12) + bytes(8), queueing(2, 4, 'd'),
              header(ring.PADDING, 0), b'\xff' * 20]
    found = list(trace({0: [page(whole, *pieces, flags=1 << 31)]}).of_cpu(0))
    later = (whole >> 59 << 59) + (7 << 27) + 99
    assert found == [(whole + 10, 0, QUEUE, 7, 1, 'a'), (whole + 13 + (1 << 27), 0, QUEUE, 7, 2, 'b'),
                     (later + 1, 0, QUEUE, 7, 3, 'c'), (later + 8, 0, QUEUE, 7, 4, 'd')]


def test_event_with_its_length_in_a_word():
    data = queueing(0, 1, 'x')[4:]
    long = header(ring.LONG, 4) + struct.pack('=I', len(data) + 4) + data
    assert [event[0] for event in trace({0: [page(100, long, queueing(1, 2, 'y'))]}).of_cpu(0)] == [104, 105]


def test_events_of_cpus_are_merged():
    pages = {0: [page(100, queueing(0, 1, 'a'), queueing(20, 2, 'a'))], 1: [page(90, queueing(15, 3, 'b'))]}
    assert [event[4] for event in trace(pages).events()] == [1, 3, 2]


def test_nothing_counts_after_the_first_lost_event():
    """The buffer of CPU 0 was full at 200 or later. What CPU 1 did then may lack its queueing."""
    pages = {0: [page(100, queueing(0, 1, 'a')), page(200, queueing(0, 2, 'a'))],
             1: [page(100, queueing(50, 3, 'b'), queueing(500, 4, 'b'))], 2: []}
    assert [event[4] for event in trace(pages, {0: 9, 1: 0, 2: 0}).events()] == [1, 3]
    assert [event[4] for event in trace(pages).events()] == [1, 3, 2, 4]


# Pairing

def paired(*events):
    """The figures of events: (time in µs, CPU, which, PID, item, workqueue)."""
    full = [(1000 * time, cpu, which, pid, work, name[0] if name else '')
            for time, cpu, which, pid, work, *name in events]
    return waits.Pairing().add(full).result()


def test_an_item_waits_and_runs():
    found = paired((10, 0, QUEUE, 1, 99, 'q'), (10, 0, ACTIVATE, 1, 99), (13, 1, START, 2, 99), (20, 1, END, 2, 99))
    queue = found['queues']['q']
    assert (queue['items'], queue['wait_p50_us'], queue['run_max_us'], queue['unstarted']) == (1, 3, 7, 0)
    assert (queue['elsewhere_percent'], queue['held_percent']) == (100, 0)
    assert (found['unqueued'], found['events'], found['seconds']) == (0, 4, 0)


def test_item_is_queued_again_while_it_runs():
    """It starts a second time after its first run, and has waited since its second queueing."""
    found = paired((0, 0, QUEUE, 1, 99, 'q'), (5, 0, START, 2, 99), (7, 1, QUEUE, 1, 99, 'q'), (9, 0, END, 2, 99),
                   (20, 0, START, 2, 99), (21, 0, END, 2, 99))
    queue = found['queues']['q']
    assert (queue['items'], queue['wait_p50_us'], queue['wait_max_us']) == (2, 5, 13)
    assert (queue['run_p50_us'], queue['run_max_us'], queue['elsewhere_percent']) == (1, 4, 50)


def test_item_that_was_taken_back():
    """The start belongs to the last queueing, here on another workqueue. Another item is never started."""
    found = paired((0, 0, QUEUE, 1, 99, 'a'), (10, 0, QUEUE, 1, 99, 'b'), (12, 0, START, 2, 99), (13, 0, END, 2, 99),
                   (14, 0, QUEUE, 1, 98, 'b'))
    assert found['queues']['a'] == {'items': 0, 'unstarted': 1}
    assert (found['queues']['b']['wait_max_us'], found['queues']['b']['unstarted']) == (2, 1)


def test_item_that_was_held_back():
    """It becomes active when another one ends, which here has the same CPU and task as the queueing."""
    found = paired((0, 0, QUEUE, 1, 99, 'q'), (1, 0, ACTIVATE, 1, 99), (2, 0, START, 1, 99), (3, 0, QUEUE, 1, 98, 'q'),
                   (4, 0, END, 1, 99), (5, 0, ACTIVATE, 1, 98), (6, 0, START, 1, 98), (7, 0, END, 1, 98))
    assert (found['queues']['q']['items'], found['queues']['q']['held_percent']) == (2, 50)


def test_two_runs_at_one_address():
    """The function frees its item and goes on, and another item runs at the address meanwhile."""
    found = paired((0, 0, QUEUE, 1, 99, 'a'), (1, 0, START, 2, 99), (2, 1, QUEUE, 1, 99, 'b'), (3, 1, START, 3, 99),
                   (5, 1, END, 3, 99), (50, 0, END, 2, 99))
    assert (found['queues']['a']['run_max_us'], found['queues']['b']['run_max_us']) == (49, 2)


def test_starts_without_a_queueing():
    """A flush barrier is not queued, and some items were queued before the trace began."""
    found = paired((1, 0, START, 2, 99), (2, 0, END, 2, 99), (3, 0, END, 3, 98))
    assert found['unqueued'] == 1 and found['queues'] == {}


def test_tables_of_one_device_are_one_workqueue():
    found = paired((0, 0, QUEUE, 1, 1, 'kcryptd-254:0-1'), (1, 0, QUEUE, 1, 2, 'kcryptd-254:0-12'),
                   (2, 0, QUEUE, 1, 3, 'loop0'))
    assert list(found['queues']) == ['kcryptd-254:0', 'loop0']


def test_percentiles():
    times = list(range(1, 1001))
    assert [waits.percentile(times, share) for share in waits.POINTS.values()] == [500, 990, 999, 1000]
    assert [waits.percentile([7], share) for share in waits.POINTS.values()] == [7] * 4


def test_recorded_trace():
    found = waits.Pairing().add(trace().events()).result()
    assert found['events'] == sum(1 for _ in trace().events()) and found['seconds'] > 0
    assert sum(queue['items'] for queue in found['queues'].values()) == 16
    for queue in found['queues'].values():
        if queue['items']:
            assert 0 < queue['wait_p50_us'] <= queue['wait_p99_us'] <= queue['wait_p999_us'] <= queue['wait_max_us']


def test_kernel_that_cannot_trace(tmp_path):
    with pytest.raises(Lacking, match='cannot trace events: mount -t tracefs failed'):
        tracer.mounted(tmp_path / 'nowhere')
    (tmp_path / 'instances').write_text('')
    with pytest.raises(Lacking, match='gives no trace buffer: Not a directory'), tracer.tracing(tmp_path):
        pass


# Stacks

def stack(text):
    """A stack written from its beginning inwards."""
    return list(reversed(text.split()))


WORKER = 'ret_from_fork kthread worker_thread '
OURS, BASE = WORKER + 'process_one_work ', WORKER + 'process_scheduled_works process_one_work '
STACKS = [
    ('item', OURS + 'kcryptd_crypt crypt_convert aes_encrypt'),
    ('item', BASE + 'kcryptd_crypt'),
    ('item', BASE + 'ext4_end_io_rsv_work ext4_end_io_end'),        # the names end like those of the workqueue
    ('item', OURS + 'wg_packet_encrypt_worker chacha20'),
    ('item', BASE + 'kcryptd_crypt bio_endio __wake_up _raw_spin_lock_irqsave native_queued_spin_lock_slowpath'),
    ('item', BASE + 'kcryptd_crypt complete try_to_wake_up ttwu_queue'),
    ('item', OURS + 'xfs_end_io schedule __schedule'),
    ('lock', 'entry_SYSCALL_64 submit_bio crypt_map queue_work_on _raw_spin_lock native_queued_spin_lock_slowpath'),
    ('lock', 'entry_SYSCALL_64 crypt_map queue_work_on __queue_work _raw_spin_lock'),
    ('lock', BASE + '_raw_spin_lock_irq'),
    ('lock', OURS + '_raw_spin_lock_irq.constprop.0 native_queued_spin_lock_slowpath'),
    ('lock', WORKER + '_raw_spin_lock_irq'),
    ('lock', OURS + 'kcryptd_crypt crypt_dec_pending queue_work_on __queue_work pwq_find_and_lock _raw_spin_lock'),
    ('lock', 'ret_from_fork fio flush_work __flush_work pool_lock_runner _raw_spin_lock'),
    ('waking', 'entry_SYSCALL_64 crypt_map queue_work_on __queue_work try_to_wake_up select_task_rq_fair'),
    ('waking', 'entry_SYSCALL_64 crypt_map queue_work_on __queue_work kick_pool wake_up_process _raw_spin_lock'),
    ('waking', BASE + 'kick_pool_pick cpumask_any_and_distribute'),
    ('waking', OURS + 'pool_pick_worker'),
    ('waking', OURS + 'try_to_wake_up ttwu_do_activate'),
    ('waking', 'handle_softirqs run_timer_softirq pool_mayday_timeout send_mayday wake_up_process'),
    ('queueing', 'entry_SYSCALL_64 crypt_map queue_work_on'),
    ('queueing', 'entry_SYSCALL_64 crypt_map queue_work_on __queue_work insert_work'),
    ('queueing', BASE + 'kcryptd_crypt queue_work_on _raw_spin_unlock_irqrestore'),
    ('queueing', 'ret_from_fork call_timer_fn delayed_work_timer_fn __queue_work'),
    ('rest', OURS), ('rest', BASE), ('rest', WORKER + 'schedule __schedule'),
    ('rest', OURS + 'pwq_give_slot'), ('rest', BASE + 'pwq_dec_nr_in_flight'), ('rest', BASE + '_raw_spin_unlock_irq'),
    ('rest', OURS + '__cond_resched'), ('rest', BASE + 'sized_strscpy'), ('rest', WORKER + 'create_worker kthread'),
    ('rest', BASE + 'kcryptd_crypt schedule wq_worker_sleeping'),
    ('lock', OURS + 'kcryptd_crypt schedule wq_worker_sleeping _raw_spin_lock_irq'),
    ('rest', 'entry_SYSCALL_64 __flush_workqueue mutex_lock'),
    ('other', 'entry_SYSCALL_64 ksys_write vfs_write'), ('other', ''),
    ('other', 'entry_SYSCALL_64 futex_wake try_to_wake_up'),
    # an interrupt belongs to nobody, but queues items for itself
    ('other', BASE + 'kcryptd_crypt asm_sysvec_apic_timer_interrupt tick_nohz_handler'),
    ('other', OURS + 'kcryptd_crypt unblock_signals sig_handler_common timer_handler do_IRQ handle_irq_event'),
    ('queueing', OURS + 'kcryptd_crypt asm_common_interrupt handle_irq_event nvme_irq queue_work_on'),
    ('item', 'do_idle asm_common_interrupt handle_softirqs workqueue_softirq_action bh_worker process_one_work bh_fn'),
    ('idle', 'cpu_startup_entry do_idle default_idle_call default_idle'),
    ('other', 'cpu_startup_entry do_idle default_idle_call asm_sysvec_call_function_single sched_ttwu_pending'),
    ('tracing', BASE + '__traceiter_workqueue_execute_start trace_event_buffer_reserve'),
    ('tracing', 'entry_SYSCALL_64 queue_work_on trace_event_raw_event_workqueue_queue_work _raw_spin_lock'),
]


@pytest.mark.parametrize('kind, text', STACKS)
def test_classes_of_stacks(kind, text):
    assert stacks.classify(stack(text)) == kind


# The rooms that items pass, and what in them is not for items
STEADY = ('queue', 'active', 'spare', 'pwq', 'worklist', 'claim', 'data', 'concurrency', 'run', 'kick', 'worker',
          'manager')
CHANGES = {'bh_pool_kick_highpri', 'bh_pool_kick_normal', 'bh_pool_init', 'module_param_named', 'node_weight',
           'workqueue_set_max_active', 'workqueue_set_min_active'}
DEFINED = re.compile(r'^(?!\s|#|typedef|extern)[\w *]*?\b(\w+)\([^;\n]*$', re.M)


def functions(*paths):
    return {name for path in paths for name in DEFINED.findall(Path(path).read_text())}


def test_names_are_those_of_the_sources():
    """A function that is renamed would silently count for another class."""
    tree.main([])
    ours = functions(*(ROOT / 'kernel/workqueue').glob('*.[ch]'))
    base = functions(BUILD / 'tree-7.3/kernel/workqueue.c')
    assert stacks.ROLES | stacks.WAKES <= ours | base
    rooms = [path for room in STEADY for path in (ROOT / 'kernel/workqueue').glob(f'{room}.[ch]')]
    assert {name for name in functions(*rooms) - stacks.ROLES if not stacks.HELPER.fullmatch(name)} == CHANGES


# perf

def test_samples_of_perf():
    found = list(cycles.samples((DATA / 'perf-script.txt').read_text()))
    assert len(found) > 20 and {event for event, _, _ in found} == {'cpu-clock'}
    assert any(stacks.classify(names) == 'item' for _, _, names in found)
    assert cycles.result(found, 0)['samples'] == len(found)


def test_shares_are_of_the_busy_time_by_period():
    found = [('cycles', 10, ['default_idle', 'default_idle_call', 'do_idle']), ('cycles', 30, stack(OURS + 'my_fn x')),
             ('cycles', 10, stack('main queue_work_on')), ('cycles', 99, stack(BASE + '__traceiter_x y')),
             ('cycles', 60, ['memcpy'])]
    one = cycles.result(found, 3)
    assert one['shares'] == {'lock': 0, 'waking': 0, 'queueing': 10, 'item': 30, 'rest': 0, 'other': 60}
    assert (one['samples'], one['lost'], one['event']) == (3, 3, 'cycles')
    assert one['top']['item'] == {'x': 30} and one['top']['other'] == {'memcpy': 60}
    with pytest.raises(Lacking, match='no samples'):
        cycles.result(found[:1], 0)


def test_lines_of_perf_that_are_no_samples():
    text = ('fio  some name   250000 cpu-clock:pppH: \n\t    ffffffff81 queue_work_on\n\t   7f12 main+0x1 (x)\n\n'
            'fio 0 [000]  9.1: PERF_RECORD_LOST lost 12\nkworker/0:1-ev 5 cycles: \n\t  12 [unknown]\n\n'
            'fio 0 [000]  9.1: PERF_RECORD_LOST_SAMPLES lost 3\n')
    assert list(cycles.samples(text)) == [('cpu-clock:pppH', 250000, ['queue_work_on', 'main+0x1']),
                                          ('cycles', 5, ['[unknown]'])]
    assert cycles.lost(text) == 15


# Tables

FIGURES = {'items': 1000, 'unstarted': 0, 'elsewhere_percent': 12.5, 'held_percent': 0,
           **{f'{what}_{point}_us': place + 1 for what in ('wait', 'run')
              for place, point in enumerate(('p50', 'p99', 'p999', 'max'))}}


def boot(pair, variant, *profiles):
    return {'pair': pair, 'workload': 'dm-crypt', 'variant': variant, 'profiles': list(profiles)}


def waiting(lost=0, factor=1, **more):
    queues = {'kcryptd': {key: factor * value for key, value in FIGURES.items()},
              'rare': {**FIGURES, 'items': 5}, **more}
    return {'name': 'a/b', 'profile': 'waits', 'queues': queues, 'lost': lost, 'seconds': 0.7, 'unqueued': 0}


def sampled(item, **more):
    return {'name': 'a/b', 'profile': 'cycles', 'event': 'cycles', 'samples': 100, 'lost': 0,
            'shares': {**dict.fromkeys(stacks.CLASSES, 0), 'item': item}, **more}


def shown(*boots):
    return tables.lines(list(boots), lambda boot: f"pair {boot['pair']}, {boot['variant']}")


def test_tables_have_both_variants_side_by_side():
    text = shown(boot(1, 'cmwq', waiting(), sampled(75)), boot(1, 'base', waiting(factor=3), sampled(50)))
    waited, ran = (line for line in text if 'kcryptd' in line)
    assert re.search(r'^a/b +kcryptd +1,000 / 3,000 +1 / 3 +2 / 6 +3 / 9 +4 / 12 +12.5 / 37.5 +0 / 0$', waited)
    assert re.search(r'^a/b +kcryptd +1 / 3 +2 / 6 +3 / 9 +4 / 12$', ran)
    assert not any('rare' in line for line in text) and any('left out: workqueues' in line for line in text)
    row, = (line for line in text if '75 / 50' in line)
    assert row.startswith('a/b ') and row.endswith('100 / 100')
    assert not any('did not fit' in line or 'perf lost' in line or tables.TIMER_NOTE in line for line in text)


def test_median_over_boots_and_busiest_first():
    more = {'busy': {**FIGURES, 'items': 9000}, 'empty': {'items': 0, 'unstarted': 3}}
    text = shown(*(boot(pair, 'base', waiting(factor=pair, **more)) for pair in (1, 2, 3)))
    rows = [line.split()[1:4] for line in text if line.startswith('a/b')]
    assert rows == [['busy', '9,000', '1'], ['kcryptd', '2,000', '2'], ['busy', '1', '2'], ['kcryptd', '2', '4']]


def test_what_is_missing_is_said():
    text = shown(boot(2, 'base', waiting(lost=1234), sampled(50, lost=9, event='cpu-clock:H')))
    assert ('pair 2, base, a/b: 1,234 events did not fit into the trace buffer; the figures are of the first 0.7 s'
            in text)
    assert 'pair 2, base, a/b: perf lost 9 samples' in text and tables.TIMER_NOTE in text
    assert shown(boot(1, 'cmwq')) == ['no case has a profile']


def test_samples_from_outside_are_not_delayed():
    """The timer of another kernel does not wait while the guest has its interrupts off."""
    assert tables.TIMER_NOTE not in shown(boot(1, 'base', sampled(50, event='cpu-clock outside')))


# Runs

@pytest.fixture
def perf(monkeypatch):
    """Let perf be usable on this machine, or not."""
    def set_to(why):
        monkeypatch.setattr(outside, 'why_not', lambda: why)
    set_to(None)
    return set_to


def params(*argv):
    return options.parse_args(list(argv))[0]


def test_each_boot_records_one_kind(perf):
    chosen = params('--profile', '--quick', 'writeback')
    assert (chosen['profile'], chosen['pairs']) == (['waits', 'cycles'], 1)
    boots = run.boots_to_make(chosen)
    assert [(boot['profile'], boot['variant']) for boot in boots] == [
        ('waits', 'cmwq'), ('waits', 'base'), ('cycles', 'cmwq'), ('cycles', 'base')]
    assert len({run.stem(boot) for boot in boots}) == 4
    record = {'parameters': chosen, 'boots': [{**boots[2], 'runs': []}]}
    assert run.boots_left(record) == [boots[0], boots[1], boots[3]]
    assert params('--profile', '--pairs', '4')['pairs'] == 4
    assert 'profile' not in run.boots_to_make(params('writeback'))[0]


def test_guest_records_what_its_engine_can(perf):
    def words(engine, kind):
        return ' '.join(engines.inside(params('--engine', engine, '--profile'), 'writeback', kind))
    assert '--profile cycles' in words('qemu', 'cycles') and '--profile waits' in words('uml', 'waits')
    assert '--profile times' in words('uml', 'cycles')      # perf runs outside
    assert '--profile' not in words('uml', None)


def test_machine_without_perf(perf):
    perf('perf is not installed')
    uml = params('--profile')
    assert uml['profile'] == ['waits']
    assert "where the CPUs' time goes is not shown: perf is not installed" in options.notes(uml)
    assert not any('is not shown' in note for note in options.notes(params()))
    assert params('--profile', '--engine', 'qemu')['profile'] == ['waits', 'cycles']    # the guest has its own


def test_perf_that_cannot_be_used(monkeypatch, tmp_path):
    def fake(text):
        (tmp_path / 'perf').write_text(f'#!/bin/sh\n{text}\n')
        (tmp_path / 'perf').chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path))
    assert outside.why_not() == 'perf is not installed: run CONFIG=workload scripts/deps.sh as root'
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}:/usr/bin:/bin')
    fake('exit 0')
    assert outside.why_not() is None
    fake('echo "Error:" >&2; echo "No permission to enable cpu-clock event." >&2; exit 255')
    assert 'rror' in (outside.why_not() or '')
    with pytest.raises(Lacking, match='perf cannot be used: Error'), cycles.sampling(tmp_path / 'data'):
        pass


# Prints the log of a boot, and a profile of the recorded kind for each of its cases.
GUEST = '''import json, pathlib, sys
here = pathlib.Path(__file__).parents[2]
argv = sys.argv[1:]
kind = argv[-1].split('--profile ')[1].split()[0]
text = (here / 'writeback.log').read_text()
profile = json.loads((here / f'{kind}.json').read_text())
lines = []
for line in text.splitlines():
    if '"kind": "case"' in line:
        name = json.loads(line.split(' ', 1)[1])['name']
        lines.append('@workload ' + json.dumps({**profile, 'kind': 'profile', 'name': name}))
    lines.append(line)
log = pathlib.Path(argv[argv.index('--log') + 1])
log.write_text('\\n'.join(lines) + '\\n')
if (here / 'blocks').exists():
    (log.parents[1] / 'profile.txt').mkdir(exist_ok=True)
    log.write_text(log.read_text() + '@workload {"kind": "wrong", "name": "ext4", "why": "fio: bad header"}\\n')
'''
# Starts what it is asked to, or prints recorded samples.
PERF = '''#!/bin/sh
echo "$@" >>{root}/perf-calls
case $1 in
record) while [ "$1" != -- ]; do shift; done; shift; exec "$@" ;;
script) cat {data}/perf-script.txt ;;
esac
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of the scripts with a guest and a perf that print what was recorded."""
    project = copied.project(
        tmp_path, 'run-workload.sh', GUEST, {'config': 'workload', 'module': None}, 'build/workload',
        {'writeback.log': (DATA / 'uml-writeback.log').read_text(), 'waits.json': json.dumps(waiting()),
         'times.json': json.dumps({'profile': 'times', 'begin': 1700000000.5, 'end': 1700000001.5})})
    place = tmp_path / 'bin'
    place.mkdir()
    (place / 'perf').write_text(PERF.format(root=tmp_path, data=DATA))
    (place / 'perf').chmod(0o755)
    monkeypatch.setenv('PATH', f'{place}:{os.environ["PATH"]}')
    return project


def test_whole_run(project):
    done = project.run('--no-build', '--quick', '--profile', 'writeback')
    assert done.returncode == 0, done.stderr
    folder, record = project.results()
    assert [(boot['profile'], boot['variant']) for boot in record['boots']] == [
        ('waits', 'cmwq'), ('waits', 'base'), ('cycles', 'cmwq'), ('cycles', 'base')]
    assert all(len(boot['profiles']) == len(boot['runs']) for boot in record['boots'])
    assert 'profiled: the rates contain the cost' in done.stderr
    text = (folder / 'profile.txt').read_text()
    assert text in done.stdout and "where the CPUs' time goes" in text
    assert re.search('^ext4/fsync +kcryptd ', text, re.M)
    assert sorted(path.name for path in folder.iterdir()) == ['logs', 'plot.png', 'plot.svg', 'profile.txt',
                                                              'results.json']
    assert not list((folder / 'logs').glob('*.perf'))
    calls = (project.root / 'perf-calls').read_text()
    assert '--time 1700000000.500000,1700000001.500000' in calls and '--call-graph dwarf' in calls


def test_profile_that_cannot_be_written_costs_nothing_else(project):
    project.mark('blocks')
    done = project.run('--no-build', '--quick', '--profile', 'writeback')
    assert done.returncode == 1 and "where the CPUs' time goes" in done.stdout
    folder, record = project.results()
    assert f'FAILED: build/workload/{folder.name}/profile.txt cannot be written: ' in done.stderr
    assert 'WRONG DATA in ext4: fio: bad header' in done.stderr and 'Traceback' not in done.stderr
    assert record['complete'] and (folder / 'plot.png').exists()

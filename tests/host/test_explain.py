# SPDX-License-Identifier: GPL-2.0
"""Where the time of simulated CPUs went: a made-up report, made-up objects, the tables, the picture, the copies."""
import json
import re
import subprocess
import xml.etree.ElementTree as xml

import drgn
import pytest

from wqlab.paths import ROOT
from wqlab.simulated import core, explain, flames, objects, stalls
from wqlab.steps import Failure

POOL, SLOT, TASK, USER = 0xffff000000001000, 0xffff000000002008, 0xffff000000003000, 0x1000
QUEUE, RUN, WAKE = 0xffff800000000010, 0xffff800000000020, 0xffff800000000030
NAMES = {QUEUE: 'queue', RUN: 'run', WAKE: 'wake'}
COUNTERS = {'cpus': 4, 'idle': 2_000_000, 'time': 1_000_000, 'instructions': 900, 'wakes': 20, 'ipis': 10,
            'untracked': 0, 'lost': 0}
ITEMS = 10


class FakeMemory:
    def at(self, address):
        return objects.Place(*{POOL: ('worker_pool.lock', True), SLOT: ('worker_pool.worklist', True)}.get(
            address, ('task_struct', False)))

    def function(self, address):
        return objects.Function(NAMES.get(address, objects.NOBODY), f'{NAMES[address]}.c:7' if address in NAMES else '')


def explained(*rows, **counters):
    stretch = stalls.Stretch({**COUNTERS, **counters}, [stalls.Stall(*row) for row in rows])
    found = explain.explain(stretch, FakeMemory(), ITEMS)
    assert json.loads(json.dumps(found)) == found
    return found


ROWS = ((POOL, QUEUE, RUN, 20, 400_000), (POOL, QUEUE, QUEUE, 10, 100_000), (POOL, RUN, QUEUE, 5, 100_000),
        (SLOT, RUN, QUEUE, 10, 100_000), (TASK, WAKE, 0, 2, 200_000), (USER, WAKE, RUN, 1, 100_000))


def test_fields_and_functions():
    found = explained(*ROWS)
    rows = {row['field']: row for row in found['rows']}
    assert {name: (row['ns'], row['moves'], row['lines'], row['workqueue']) for name, row in rows.items()} == {
        'worker_pool.lock': (60, 3.5, 1, True), 'worker_pool.worklist': (10, 1, 1, True),
        'task_struct': (20, 0.2, 1, False), 'user memory': (10, 0.1, 1, False)}
    assert [(pair['waiter'], pair['writer'], pair['ns']) for pair in rows['worker_pool.lock']['pairs']] == [
        ('queue', 'run', 40), ('queue', 'queue', 10), ('run', 'queue', 10)]
    assert rows['worker_pool.lock']['pairs'][0]['at'] == ['queue.c:7', 'run.c:7']
    assert rows['task_struct']['pairs'][0]['writer'] == objects.NOBODY
    assert (found['ns'], found['wakes'], found['ipis'], found['us']) == (100, 2, 1, 1)
    assert (found['waiting'], found['idle'], found['executing']) == (0.25, 0.5, 0.25)


def test_a_field_of_several_objects_is_one_row():
    found = explained((TASK, WAKE, RUN, 1, 1000), (TASK + 4096, WAKE, RUN, 1, 1000))
    row, = found['rows']
    assert (row['lines'], row['moves']) == (2, 0.2)


def test_long_lists_are_summed_up(monkeypatch):
    """No waiting is lost: the last row has what the others lack."""
    monkeypatch.setattr(explain, 'LEAST_FIELD', 0.2)
    monkeypatch.setattr(explain, 'LEAST_PAIR', 0.2)
    found = explained(*ROWS)
    assert [row['field'] for row in found['rows']] == ['worker_pool.lock', 'task_struct', explain.OTHERS]
    for rows in (found['rows'], *(row['pairs'] for row in found['rows'] if row['pairs'])):
        assert sum(row['ns'] for row in rows) in (found['ns'], 60, 20)
    assert sum(row['ns'] for row in found['rows']) == found['ns']
    assert found['rows'][0]['pairs'][-1]['waiter'] == explain.OTHER_PAIRS


def test_nothing_waited():
    found = explained()
    assert found['rows'] == [] and found['ns'] == 0 and explain.lines(found)
    xml.fromstring(flames.picture('nothing', [('base', found)]))


def test_table():
    found = explained(*ROWS)
    assert explain.summary([('base', found)])[-1].split() == \
        ['base', '1', '25%', '25%', '50%', '100', '2.00', '1.00', '90']
    body = [row.split() for row in explain.lines(found)]
    assert body[0][:4] == ['waiting', 'ns/item', 'moves/item', 'lines']
    assert ['60.0%', '60.0', '3.50', '1', 'worker_pool.lock'] in body
    assert '40.0% 40.0 2.00 queue (queue.c:7) after run (run.c:7)'.split() in body
    assert ['20.0%', '20.0', '0.20', '1', '(task_struct)'] in body


def test_differences():
    """The largest change comes first, also if a kernel does not have the field."""
    ours = explained((POOL, QUEUE, RUN, 20, 100_000), (TASK, WAKE, 0, 2, 200_000))
    rows = [row.split() for row in explain.differences(explained(*ROWS), ours)[1:]]
    assert rows[0] == ['-50.0', '60.0', '10.0', '3.50', '2.00', 'worker_pool.lock']
    assert {row[-1]: row[:3] for row in rows}['worker_pool.worklist'] == ['-10.0', '10.0', '0.0']
    assert rows[-1] == ['-70.0', '100.0', '30.0', 'all']


def test_picture():
    """1 ns is as wide for both kernels."""
    ours = explained((POOL, QUEUE, RUN, 20, 300_000))
    text = flames.picture('scope <system>', [('base', explained(*ROWS)), ('ours', ours)])
    root = xml.fromstring(text)
    space = {'svg': 'http://www.w3.org/2000/svg'}
    assert 'scope <system>' in {node.text for node in root.iterfind('svg:text', space)}
    boxes = [(group.find('svg:title', space).text, float(group.find('svg:rect', space).get('width')))
             for group in root.iterfind('svg:g', space)]
    locks = {title: width for title, width in boxes if title.startswith('worker_pool.lock')}
    assert [title.partition(': ')[2] for title in locks] == [
        '60.0 ns for an item, 60.0%', '30.0 ns for an item, 100.0%']
    wide, narrow = locks.values()
    assert wide == pytest.approx(2 * narrow, abs=2)
    assert any(title.startswith('run: 40.0 ns') for title, _ in boxes)


# Objects

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


# The copy of the memory

INFO = b'OSRELEASE=7.3\nBUILD-ID=1\nNUMBER(kimage_voffset)=0xffff\nKERNELOFFSET=0\n'


def copy(folder, *pieces):
    """Return the copy of a memory of 16 MB that has these pieces of (place, bytes)."""
    path = folder / 'memory.0'
    with open(path, 'wb') as file:
        for place, content in pieces:
            file.seek(core.HEAD + place)
            file.write(content)
        file.truncate(core.HEAD + (16 << 20))
    return path


def test_a_copy_becomes_a_core(tmp_path):
    """The kernel's code has the text with which its description begins, too."""
    path = copy(tmp_path, (4096, b'OSRELEASE=%s\n\0'), (8 << 20, b'\0' * 100 + INFO + b'\0'))
    core.complete(path)
    notes = subprocess.run(['readelf', '--wide', '-n', path], capture_output=True, text=True, check=True).stdout
    assert re.search(rf'VMCOREINFO\s+0x{len(INFO):08x}', notes) and INFO.hex(' ') in notes
    segments = subprocess.run(['readelf', '--wide', '-l', path], capture_output=True, text=True, check=True).stdout
    assert re.search(rf'LOAD\s+0x{core.HEAD:06x} 0x0*{core.RAM:x} 0x0*{core.RAM:x} 0x0*1000000 0x0*1000000', segments)


@pytest.mark.parametrize('pieces', [[], [(4096, b'OSRELEASE=%s\n\0')]])
def test_a_copy_without_a_kernel_is_refused(tmp_path, pieces):
    with pytest.raises(Failure, match='holds no kernel'):
        core.complete(copy(tmp_path, *pieces))


def test_a_copy_that_is_missing_is_refused(tmp_path):
    with pytest.raises(Failure, match='cannot be used'):
        core.complete(tmp_path / 'none')


def test_the_room_for_the_header_is_that_of_the_plugin():
    text = (ROOT / 'scripts/wqlab/simulated/plugin/memory.c').read_text()
    assert core.HEAD == 1 << int(re.search(r'#define HEAD\s+\(1 << (\d+)\)', text)[1])

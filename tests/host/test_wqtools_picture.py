# SPDX-License-Identifier: GPL-2.0
"""The drawings of wq_dump.py, with hand-made machines: they are complete, and nothing overlaps."""
import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest

import wqtools_machines as machines
from wqtools import picture, svg, textpicture

SVG = '{http://www.w3.org/2000/svg}'


def load(snapshot, pool, busy=0, waiting=0, held=0, stuck=0.1, function='foo_fn'):
    """Add running, waiting and held-back items to one pool of a snapshot."""
    pool.workers = [machines.worker(3000 + 100 * pool.id + number, function, 2.0 + number, state='D')
                    for number in range(busy)] + pool.workers
    pool.waiting = [machines.item(function)] * waiting
    pool.no_progress_for = stuck if waiting else None
    snapshot.workqueues.append(machines.workqueue('loaded', pwqs=[
        machines.pwq(pool.id, [machines.item('held_fn')] * held, busy)]))
    return snapshot


def pool_of(snapshot, cpu):
    return next(pool for pool in snapshot.pools if pool.kind == 'percpu' and pool.cpu == cpu)


def crowded(cpus):
    """Make a machine in which one shard has many busy unbound pools, with large numbers and long function names."""
    snapshot = machines.machine([cpus], threads=cpus // 4)
    for pool in snapshot.pools[:16]:
        load(snapshot, pool, busy=1234, waiting=9876, held=54321, stuck=400000)
        pool.nr_idle = 1234
    for number in range(30):
        pool = machines.pool(2000 + number, 'unbound', cpus=[0, 1], nice=-20 if number % 2 else 5,
                             strict=not number % 3)
        snapshot.pools.append(pool)
        load(snapshot, pool, busy=123, waiting=9876, held=12345, stuck=99999, function='very_löng_name_' * 9)
    return snapshot


def four_cpus():
    snapshot = machines.machine([2, 2], sockets=2)
    return load(snapshot, pool_of(snapshot, 1), 1, 5, 3, stuck=45)


def busy_144():
    snapshot = machines.machine([36, 36], threads=2, sockets=2, offline=[7, 100], isolated=[3, 4])
    for number, pool in enumerate(snapshot.pools):
        load(snapshot, pool, number % 5, number * number % 301 if number % 3 else 0, number % 7, number % 40)
    return snapshot


def without_topology():
    """Make a machine without shards. Some of its CPUs were never online."""
    snapshot = machines.machine([4, 4], default='cache')
    for cpu in snapshot.cpus:
        cpu.shard = None
        if cpu.cpu > 5:
            cpu.socket = cpu.llc = cpu.node = cpu.core = None
            cpu.online = False
    return snapshot


def without_scopes():
    snapshot = machines.machine([2])
    snapshot.scopes = []
    return snapshot


MACHINES = {
    'one CPU': lambda: machines.machine([1]),
    '4 CPUs, 2 nodes': four_cpus,
    '36 cores, 2 threads, one LLC': lambda: machines.machine([36], threads=2),
    'unequal LLCs': lambda: machines.machine([2, 4, 12, 18], offline=[5, 30], isolated=[0, 1, 20]),
    '144 CPUs, 2 sockets': busy_144,
    'nodes within a socket': lambda: machines.machine([8, 8], nodes=lambda cpu: cpu // 8),
    'nodes within an LLC': lambda: machines.machine([4], nodes=lambda cpu: cpu // 2),
    '400 CPUs': lambda: machines.machine([50] * 8, sockets=4),
    'crowded, few CPUs': lambda: crowded(4),
    'crowded, many CPUs': lambda: crowded(20),
    'no topology': without_topology,
    'no scopes': without_scopes,
}


@pytest.fixture(params=MACHINES)
def snapshot(request):
    return MACHINES[request.param]()


def elements(root, name):
    return root.iter(SVG + name)


def overlap(one, other):
    """Return True if two boxes overlap by more than a rounding error."""
    return all(one[low] < other[high] - 0.2 and other[low] < one[high] - 0.2 for low, high in ((0, 2), (1, 3)))


def contains(one, other):
    return all(one[low] <= other[low] + 0.2 and one[low + 2] >= other[low + 2] - 0.2 for low in (0, 1))


def rect_box(rect):
    x, y, width, height = (float(rect.get(key, 0)) for key in ('x', 'y', 'width', 'height'))
    return x, y, x + width, y + height


def text_box(text):
    """Return the box of a text in the widest font that a viewer may choose."""
    size, x, y = (float(text.get(key)) for key in ('font-size', 'x', 'y'))
    if text.get('font-family'):
        width = len(text.text) * size * svg.MONO_WIDTH
    else:
        width = svg.text_width(text.text, size, bool(text.get('font-weight')))
    left = x - {'end': width, 'middle': width / 2}.get(text.get('text-anchor'), 0)
    return left, y - 0.75 * size, left + width, y + 0.2 * size


def nearby(boxes):
    """Return the pairs of boxes that may touch: those that share a cell of a coarse grid."""
    cells = {}
    for number, box in enumerate(boxes):
        for cell in itertools.product(*(range(int(box[low] // 200), int(box[low + 2] // 200) + 1) for low in (0, 1))):
            cells.setdefault(cell, []).append(number)
    return {pair for found in cells.values() for pair in itertools.combinations(found, 2)}


def test_svg_is_sound_and_has_every_cpu_once(snapshot):
    root = ElementTree.fromstring(svg.draw(snapshot))
    assert re.fullmatch(r'0 0 \d+ \d+', root.get('viewBox'))
    titles = [group.find(SVG + 'title').text.split('\n')[0] for group in elements(root, 'g')
              if group.get('class') == 'cpu']
    numbers = [int(re.match(r'CPU (\d+)', title)[1]) for title in titles]
    assert sorted(numbers) == snapshot.kernel.possible_cpus
    assert sum('offline' in title for title in titles) == sum(not cpu.online for cpu in snapshot.cpus)


def test_svg_texts_do_not_overlap(snapshot):
    root = ElementTree.fromstring(svg.draw(snapshot))
    width, height = map(float, root.get('viewBox').split()[2:])
    texts = list(elements(root, 'text'))
    boxes = [text_box(text) for text in texts]
    for text, box in zip(texts, boxes):
        assert contains((0, 0, width, height), box), f'{text.text!r} leaves the picture'
    for one, other in nearby(boxes):
        assert not overlap(boxes[one], boxes[other]), f'{texts[one].text!r} is over {texts[other].text!r}'


def test_svg_boxes_are_nested_or_apart(snapshot):
    root = ElementTree.fromstring(svg.draw(snapshot))
    boxes = [rect_box(rect) for rect in elements(root, 'rect') if rect.get('x')]
    for first, second in nearby(boxes):
        one, other = boxes[first], boxes[second]
        assert not overlap(one, other) or contains(one, other) or contains(other, one), (one, other)


def test_svg_text_stays_in_its_box(snapshot):
    """Each text fits into the smallest box in which it starts."""
    root = ElementTree.fromstring(svg.draw(snapshot))
    texts = list(elements(root, 'text'))
    starts = [(box[0], (box[1] + box[3]) / 2) for box in map(text_box, texts)]
    homes = [(0, 0, *map(float, root.get('viewBox').split()[2:]))] * len(texts)
    boxes = [rect_box(rect) for rect in elements(root, 'rect') if rect.get('x')]
    for one, other in nearby(boxes + [(x, y, x, y) for x, y in starts]):
        text = max(one, other) - len(boxes)
        if min(one, other) < len(boxes) <= max(one, other):
            (x, y), box = starts[text], boxes[min(one, other)]
            if box[0] < x < box[2] and box[1] < y < box[3] and box[2] - box[0] < homes[text][2] - homes[text][0]:
                homes[text] = box
    for text, home in zip(texts, homes):
        assert contains((home[0], 0, home[2], 1e9), text_box(text)), f'{text.text!r} leaves its box'


def cores_in(group):
    """Return the numbers of all CPUs drawn inside a group."""
    return sorted(int(re.match(r'CPU (\d+)', one.find(SVG + 'title').text)[1])
                  for one in elements(group, 'g') if one.get('class') == 'cpu')


def test_36_cores_show_as_five_shards():
    snapshot = machines.machine([36], threads=2)
    root = ElementTree.fromstring(svg.draw(snapshot))
    shards = [group for group in elements(root, 'g') if group.get('class') == 'shard']
    assert [len(cores_in(shard)) // 2 for shard in shards] == [8, 7, 7, 7, 7]
    assert [cores_in(shard) for shard in shards] == [pod.cpus for pod in snapshot.scopes[3].pods]
    assert [shard.find(SVG + 'text').text for shard in shards][:2] == ['shard 0: CPUs 0-7,36-43',
                                                                       'shard 1: CPUs 8-14,44-50']
    assert all(shard.find(SVG + 'rect').get('stroke') == svg.ACCENT for shard in shards)
    threads = [cores_in(group) for group in elements(root, 'g') if group.get('class') == 'core']
    assert sorted(threads) == [[core, core + 36] for core in range(36)]


def test_groups_that_are_one_and_the_same_are_drawn_once():
    root = ElementTree.fromstring(svg.draw(machines.machine([2, 2], sockets=2)))
    labels = [text.text for text in elements(root, 'text')]
    assert 'socket 0 · node 0 · LLC 0: CPUs 0-1' in labels and 'shard 1: CPUs 2-3' in labels
    inner = picture.build(machines.machine([4], nodes=lambda cpu: cpu // 2)).root.children[0]
    assert inner.label == 'socket 0 · LLC 0'
    assert [child.label for child in inner.children[0].children] == ['node 0', 'node 1']
    outer = picture.build(machines.machine([4, 4, 4, 4], sockets=2, nodes=lambda cpu: 0)).root.children
    assert [child.label for child in outer] == ['node 0'] and [child.label for child in outer[0].children] == [
        'socket 0', 'socket 1']


@pytest.mark.parametrize('default, kind, number', [('cache', 'llc', 2), ('numa', 'node', 1), ('smt', 'core', 16),
                                                   ('cpu', 'cpu', 32), ('system', 'machine', 1)])
def test_pods_of_the_default_scope_are_marked(default, kind, number):
    def marked(group):
        return [group] * group.default_pod + [one for child in group.children for one in marked(child)]

    snapshot = machines.machine([8, 8], threads=2, default=default)
    built = picture.build(snapshot)
    assert [kind in group.kinds for group in marked(built.root)] == [True] * number
    assert f'default affinity scope: {default}' in svg.draw(snapshot)


def test_pools_hang_on_the_smallest_group_that_holds_them():
    snapshot = machines.machine([8, 8], threads=2)
    for number, cpus in enumerate(([5], [5, 21], [1, 2], [7, 8], [0])):
        snapshot.pools.append(machines.pool(500 + number, 'unbound', cpus=cpus))
    homes = {pool.id: group.label for group in walk(picture.build(snapshot).root) for pool in group.pools}
    assert [homes[500 + number] for number in range(5)] == ['CPU 5', 'core 5', 'shard 0', 'socket 0 · node 0', 'CPU 0']
    assert homes[4 * 31 + 2] == 'CPU 31'


def walk(group):
    yield group
    for child in group.children:
        yield from walk(child)


@pytest.mark.parametrize('counts, level', [((0, 0, 0), 0), ((2, 0, 0), 1), ((0, 1, 0), 2), ((1, 2, 1), 2),
                                           ((0, 2, 2), 3), ((0, 0, 15), 3), ((0, 8, 8), 4), ((0, 63, 0), 4),
                                           ((0, 63, 1), 5)])
def test_levels(counts, level):
    busy, waiting, held = counts
    assert picture.Load(busy, 1, waiting, held).level == level
    snapshot = machines.machine([20])
    load(snapshot, pool_of(snapshot, 13), busy, waiting, held)
    root = ElementTree.fromstring(svg.draw(snapshot))
    cell = next(group for group in elements(root, 'g') if group.find(SVG + 'title').text.startswith('CPU 13\n'))
    assert cell.find(SVG + 'rect').get('fill') == svg.FILLS[level]
    assert f'13{textpicture.Style(True).levels[level]}' in textpicture.draw(snapshot, 80)
    assert f'13{textpicture.Style(False).levels[level]}' in textpicture.draw(snapshot, 80, unicode=False)


def test_offline_isolated_and_stuck_cpus_are_marked():
    snapshot = machines.machine([20], offline=[3], isolated=[4, 5])
    load(snapshot, pool_of(snapshot, 6), 1, 2, stuck=45)
    root = ElementTree.fromstring(svg.draw(snapshot))
    cells = {int(re.match(r'CPU (\d+)', group.find(SVG + 'title').text)[1]): group
             for group in elements(root, 'g') if group.get('class') == 'cpu'}

    def cpus(mark):
        return [cpu for cpu, group in cells.items() if mark(group)]

    assert cpus(lambda group: any(rect.get('fill') == 'url(#offline)' for rect in elements(group, 'rect'))) == [3]
    assert cpus(lambda group: group.find(SVG + 'rect').get('stroke-dasharray')) == [4, 5]
    assert cpus(lambda group: group.find(SVG + 'circle') is not None) == [6]
    text = textpicture.draw(snapshot, 80)
    for cell in (' 3x', ' 4·i', ' 5·i', ' 6▃!', ' 7· '):
        assert cell in text


def test_most_loaded_pools_come_first_with_what_they_do():
    snapshot = machines.machine([4])
    load(snapshot, pool_of(snapshot, 1), 3, 2, 0, function='busy_fn')
    load(snapshot, pool_of(snapshot, 2), 1, 200, 4, function='piled_<&>_fn')
    load(snapshot, pool_of(snapshot, 3), 1, 1, 0, stuck=45, function='stuck_fn')
    assert [pool.cpu for pool in picture.build(snapshot).hot] == [3, 2, 1]
    for drawing in (svg.draw(snapshot), textpicture.draw(snapshot, 200)):
        assert 'pool 14, CPU 3 normal: 1 busy, 1 idle, 1 waiting, no progress for 45s' in drawing
        assert '200 waiting, 4 held back' in drawing and '3 busy_fn (up to 4.0s)' in drawing
    assert 'waiting: 200 piled_&lt;&amp;&gt;_fn; held back: 4 held_fn' in svg.draw(snapshot)


def test_a_kernel_that_does_not_say_since_when():
    snapshot = machines.machine([4])
    snapshot.pools[2].workers = [machines.worker(50 + number, 'foo_fn', None) for number in range(2)]
    assert picture.running(snapshot.pools[2]) == '2 foo_fn'


@pytest.mark.parametrize('functions, words', [('aab', '2 a, b'), ('abcdefg', 'a, b, c, d, e, f, g'),
                                              ('abcdefghh', '2 h, a, b, c, d, e, 2 others'), ('', '')])
def test_what_waits_by_function(functions, words):
    items = [machines.item(function) for function in functions] + [machines.item('barrier_fn', barrier=True)]
    assert picture.queued(items) == words


def test_of_many_pools_the_most_loaded_are_drawn():
    snapshot = machines.machine([4])
    for number in range(9):
        pool = machines.pool(2000 + number, 'unbound', cpus=[0, 1], nice=number)
        snapshot.pools.append(pool)
        load(snapshot, pool, waiting=number)
    root = ElementTree.fromstring(svg.draw(snapshot))
    shard = next(group for group in elements(root, 'g') if group.get('class') == 'shard')
    texts = [text.text for text in elements(shard, 'text')]
    assert [text for text in texts if re.match('pool |and ', text)] == [
        'pool 2005 nice 5', 'pool 2006 nice 6', 'pool 2007 nice 7', 'pool 2008 nice 8', 'and 7 pools more']
    assert '0 busy, 10 items' in texts


@pytest.mark.parametrize('unicode', [True, False])
@pytest.mark.parametrize('width', [20, 40, 80, 133, 400])
def test_text_fits_its_width(snapshot, width, unicode):
    text = textpicture.draw(snapshot, width, unicode)
    assert max(map(len, text.splitlines())) <= max(width, 40)
    assert unicode or text.isascii()
    frame = ('│', '┌', '└') if unicode else ('|', '+-')
    boxed = [line for line in text.splitlines() if line.startswith(frame)]
    assert {len(line) for line in boxed} == {max(width, 40)}


def test_text_has_every_cpu_once(snapshot):
    text = textpicture.draw(snapshot, 100)
    frames = [line for line in text.splitlines() if line.startswith('│') and 'pool' not in line and 'CPU' not in line]
    numbers = [int(number) for line in frames for number in re.findall(r'(\d+)[·▁▃▅▇█x]', line)]
    assert sorted(numbers) == snapshot.kernel.possible_cpus


@pytest.mark.parametrize('secs, words', [(0, '0.0s'), (9.94, '9.9s'), (9.96, '10s'), (119, '119s'), (120, '2min'),
                                         (7199, '120min'), (7200, '2h'), (200000, '2d')])
def test_seconds(secs, words):
    assert picture.seconds(secs) == words

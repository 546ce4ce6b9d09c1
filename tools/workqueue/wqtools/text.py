# SPDX-License-Identifier: GPL-2.0
"""A Snapshot as readable text: the sections of wq_dump.

    lines(snapshot, sections, width=None, full=False)

Lines are kept within width if that is given.  On machines with more than FEW_CPUS CPUs,
similar pools of CPUs share a line unless full is set.  Long lists of items are shortened in
the same way.

CPUs are listed as in sysfs.  A map from CPUs to numbers is written "0-3:17" if the CPUs have
the same number, and "0-3:2,6,10,14" or "0-143:2,6..574" if the numbers rise evenly.
"""
from .model import cpulist
from .picture import seconds

FEW_CPUS = 16
FEW_ITEMS = 8           # lists of up to this many items are shown item by item
WRITTEN_OUT = 8         # series of up to this many numbers are written out
LONG_MAP = 60           # characters; workqueues share one copy of a map that is longer
NARROW = 16             # the least width to which a column is narrowed
INHERENT = {'unbound': ('DISASSOCIATED',), 'bh': ('BH', 'DISASSOCIATED'), 'percpu': ()}
TYPE_FLAGS = ('UNBOUND', 'PERCPU', 'BH', 'ORDERED')


def lines(snapshot, sections, width=None, full=False):
    result = headline(snapshot, width)
    for section in sections:
        result += [''] + SECTIONS[section](snapshot, width, full)
    if snapshot.warnings:
        result += ['', 'Not everything could be read:'] + [f'  {line}' for line in snapshot.warnings]
    return result


def headline(snapshot, width):
    kernel = snapshot.kernel
    facts = [f'Linux {kernel.release} {kernel.arch}', 'live' if kernel.source == 'live' else 'from a dump',
             f'up {seconds(kernel.uptime)}', f'CPUs {cpulist(kernel.online_cpus)} online']
    if kernel.possible_cpus != kernel.online_cpus:
        facts.append(f'{cpulist(kernel.possible_cpus)} possible')
    facts += [f'unbound work on {cpulist(kernel.unbound_cpus)}',
              f'nodes {cpulist(kernel.nodes)}' if len(kernel.nodes) > 1 else 'one node']
    if kernel.cache_shard_size is not None:
        facts.append(f'cache_shard_size {kernel.cache_shard_size}')
    return wrap(', '.join(facts), width)


# sections

def scopes(snapshot, width, full):
    result = ['Affinity scopes: the pods of CPUs that share a worker pool']
    rows = []
    for scope in snapshot.scopes:
        rows.append((scope.name + (' (default)' if scope.default else ''), str(len(scope.pods)),
                     pods(scope), mapping(scope.cpu_pod)))
    return result + table(('SCOPE', 'PODS', 'POD:CPUS BY NODE', 'CPU:POD'), rows, width, numbers=(1,))


def pods(scope):
    """The pods of a scope, node by node. A series of pods with one CPU each is one word."""
    words, start, node = [], 0, None
    while start < len(scope.pods):
        pod, end = scope.pods[start], start + 1
        while end < len(scope.pods) and _next_single(scope.pods[end - 1], scope.pods[end]):
            end += 1
        if pod.node != node:
            words.append('none:' if pod.node < 0 else f'node{pod.node}:')
            node = pod.node
        if end - start > 2:
            words.append(f'{pod.id}-{scope.pods[end - 1].id}:{pod.cpus[0]}-{scope.pods[end - 1].cpus[0]}')
        else:
            end = start + 1
            words.append(f'{pod.id}:{cpulist(pod.cpus)}')
        start = end
    return ' '.join(words)


def _next_single(before, pod):
    return (before.node == pod.node and len(before.cpus) == len(pod.cpus) == 1
            and pod.cpus[0] == before.cpus[0] + 1 and pod.id == before.id + 1)


def pools(snapshot, width, full):
    rows = []
    for group in _alike(snapshot, full):
        first = group[0]
        notes = ['strict'] if first.strict and first.kind == 'unbound' else []
        notes += [name.lower() for name in first.flag_names if name not in INHERENT[first.kind]]
        cpus = sorted(cpu for pool in group for cpu in pool.cpus) if first.cpu is not None else first.cpus
        rows.append((series([pool.id for pool in group]), first.kind, cpulist(cpus),
                     '' if first.pod_cpus is None else cpulist(first.pod_cpus),
                     cpulist(sorted(pool.own_cpu for pool in group if pool.own_cpu is not None)),
                     '' if first.node < 0 else str(first.node), str(first.nice),
                     str(first.refcnt), f'{first.nr_idle}/{first.nr_workers}', ' '.join(notes)))
    return [f'Worker pools: {len(snapshot.pools)}'] + table(
        ('POOL', 'KIND', 'CPUS', 'POD', 'OWN', 'NODE', 'NICE', 'REFS', 'IDLE/ALL', 'NOTES'), rows, width,
        numbers=(5, 6, 7, 8))


def _alike(snapshot, full):
    """Pools line by line. On a big machine, pools that differ only in their CPU share a line."""
    groups = {}
    together = len(snapshot.kernel.possible_cpus) > FEW_CPUS and not full
    for pool in snapshot.pools:
        key = pool.id
        if together and pool.cpu is not None:
            key = (pool.kind, pool.node, pool.nice, pool.refcnt, pool.nr_idle, pool.nr_workers, pool.flags)
        elif together and pool.own_cpu is not None:
            key = (tuple(pool.cpus), tuple(pool.pod_cpus), pool.strict, pool.nice, pool.refcnt, pool.nr_idle,
                   pool.nr_workers, pool.flags)
        groups.setdefault(key, []).append(pool)
    return groups.values()


def pool_map(snapshot, width, full):
    maps = [mapping(wq.cpu_pool) for wq in snapshot.workqueues]
    named = _long_maps(maps)
    rows = [(wq.name, wq.type, notes_of(wq), '' if wq.dfl_pool is None else str(wq.dfl_pool), named.get(one, one))
            for wq, one in zip(snapshot.workqueues, maps)]
    result = ['Workqueues: the pool that serves what is queued on a CPU'] + table(
        ('WORKQUEUE', 'TYPE', 'NOTES', 'DEFAULT', 'CPU:POOL'), rows, width, numbers=(3,))
    return result + (table(('', ''), [(name, one) for one, name in named.items()], width)[1:] if named else [])


def _long_maps(maps):
    """Names for long maps that many workqueues share."""
    long = dict.fromkeys(one for one in maps if len(one) > LONG_MAP and maps.count(one) > 1)
    return {one: f'map{number}' for number, one in enumerate(long, 1)}


def notes_of(wq):
    words = [name.lower() for name in wq.flag_names if name not in TYPE_FLAGS]
    if wq.scope is not None:
        words.insert(0, wq.scope + (',strict' if wq.strict else ''))
    return ' '.join(words)


def rescuers(snapshot, width, full):
    rows = [(wq.name, '' if wq.rescuer.pid is None else str(wq.rescuer.pid), cpulist(wq.rescuer_cpus or []),
             _rescuer_does(wq)) for wq in snapshot.workqueues if wq.rescuer]
    title = 'Rescuers: who runs work when no worker can be created'
    return [title] + (table(('WORKQUEUE', 'PID', 'CPUS', 'DOES'), rows, width, numbers=(1,)) if rows else ['  none'])


def _rescuer_does(wq):
    called = [str(pwq.pool) for pwq in wq.pwqs if pwq.mayday]
    words = [f'called by pool {",".join(called)}'] if called else []
    if wq.rescuer.item is not None:
        words.insert(0, f'runs {wq.rescuer.function}{_for(wq.rescuer.running_for)}')
    return '; '.join(words) or 'waits'


def active(snapshot, width, full):
    rows = []
    for wq in snapshot.workqueues:
        if wq.type in ('unbound', 'ordered'):
            nodes = [f'{"several" if one.node < 0 else f"node{one.node}"}:{one.nr}/{one.max}' for one in wq.node_active
                     if one.node < 0 or one.node in snapshot.kernel.nodes]
            rows.append((wq.name, wq.type, '-' if wq.min_active is None else str(wq.min_active), str(wq.max_active),
                         str(sum(len(pwq.inactive) for pwq in wq.pwqs)), ' '.join(nodes)))
    title = 'Unbound workqueues: items at work or ready by node, of those that may be'
    return [title] + (table(('WORKQUEUE', 'TYPE', 'MIN', 'MAX', 'HELD', 'ACTIVE/MAX'), rows, width,
                            numbers=(2, 3, 4)) if rows else ['  none'])


def now(snapshot, width, full):
    """What each pool is doing. Idle pools are only counted."""
    held = {}
    for wq in snapshot.workqueues:
        for pwq in wq.pwqs:
            if pwq.inactive or pwq.plugged:
                held.setdefault(pwq.pool, []).append((wq, pwq))
    result, idle = ['What goes on'], 0
    for pool in snapshot.pools:
        entries = _pool_now(pool, held.get(pool.id, []), full)
        if not entries:
            idle += 1
            continue
        result += wrap(_pool_title(pool), width, 2, 6)
        label = max(len(one) for one, _ in entries)
        for word, text in entries:
            result += wrap(f'{word.ljust(label)}  {text}', width, 4, label + 6)
    total = len(snapshot.pools)
    return result + [f'  nothing to do in {idle} of {total} pools' if idle < total else '  nothing to do in any pool']


def _pool_title(pool):
    where = f'CPU {pool.cpu}' if pool.cpu is not None else f'pod {cpulist(pool.pod_cpus or pool.cpus)}'
    where += f', own={pool.own_cpu}' if pool.own_cpu is not None else ''
    words = [f'pool {pool.id}: {pool.kind}, {where}, nice {pool.nice}',
             f'{pool.nr_idle} of {pool.nr_workers} workers idle']
    if pool.waiting:
        words.append(f'{len(pool.waiting)} waiting')
        if pool.no_progress_for is not None:
            words.append(f'no item started for {seconds(pool.no_progress_for)}')
    return ', '.join(words)


def _pool_now(pool, held, full):
    """Pairs of a label and its text."""
    entries = []
    for worker in pool.workers:
        entries += _worker_now(worker, pool, full)
    if pool.manager is not None:
        entries.append(('manager', f'{_worker_name(_by_pid(pool, pool.manager), pool.manager)} creates a worker'))
    entries += _items('waits', pool.waiting, full, _since(pool))
    for wq, pwq in held:
        reason = _held_because(_node_limit(wq, pool), wq, pwq)
        entries += _items('held', pwq.inactive, full, f', {reason}')
        if not pwq.inactive:
            entries.append(('held', f'{wq.name}: {reason}'))
    entries += [('mayday', f'the rescuer of {name} was called') for name in pool.mayday]
    return entries


def _since(pool):
    """An item has no time stamp. The pool shows for how long it has started none."""
    return '' if pool.no_progress_for is None else f', none started for {seconds(pool.no_progress_for)}'


def _worker_now(worker, pool, full):
    entries = []
    if worker.item is not None:
        label = 'rescues' if worker.rescuer else 'runs'
        text = f'{worker.function} {worker.item:#x}'
        text += f' of {worker.workqueue}' if worker.workqueue else ''
        text += f'{_for(worker.running_for)} in {_worker_name(worker, worker.pid)}'
        if worker.pid is not None:
            text += f', state {worker.state}'
            text += f' on CPU {worker.cpu}' if worker.cpu != pool.cpu else ''
        flags = [name.lower() for name in worker.flags if name in ('CPU_INTENSIVE', 'REBOUND', 'DIE')]
        entries.append((label, text + ''.join(f', {flag}' for flag in flags)))
    elif worker.rescuer:
        entries.append(('rescuer', f'{_worker_name(worker, worker.pid)} of {worker.rescuer} is here'))
    return entries + _items('next', worker.scheduled, full, f', only in {_worker_name(worker, worker.pid)}')


def _worker_name(worker, pid):
    if worker is None or worker.pid is None:
        return 'softirq' if pid is None else f'pid {pid}'
    return f'{worker.comm} (pid {worker.pid})'


def _by_pid(pool, pid):
    return next((worker for worker in pool.workers if worker.pid == pid), None)


def _for(secs):
    return '' if secs is None else f' for {seconds(secs)}'


def _items(label, items, full, suffix):
    """A line for each item. The rest of a long list is summed up by function and workqueue."""
    shown = items if full or len(items) <= FEW_ITEMS else items[:FEW_ITEMS]
    entries = []
    for item in shown:
        text = f'{item.function} {item.address:#x}' + (f' of {item.workqueue}' if item.workqueue else '')
        text += ' (a flush waits for it)' if item.barrier else ''
        entries.append((label, text + (suffix if item is shown[0] else '')))
    counts = {}
    for item in items[len(shown):]:
        key = f'{item.function} of {item.workqueue}'
        counts[key] = counts.get(key, 0) + 1
    return entries + [(label, f'{count} more {key}') for key, count in counts.items()]


def _node_limit(wq, pool):
    """Active items and limit of an unbound workqueue on the pool's node; None if it is not counted by node."""
    if wq.type in ('unbound', 'ordered'):
        for one in wq.node_active:
            if one.node == pool.node:
                return one.nr, one.max, 'several nodes' if one.node < 0 else f'node {one.node}'
    return None


def _held_because(limit, wq, pwq):
    if pwq.plugged:
        return 'until older items of this ordered workqueue are done' if wq.type == 'ordered' else \
               'until older items of its CPU have started'
    if limit is None:
        return f'{pwq.nr_active} of max_active {wq.max_active} active'
    why = 'until an earlier one starts, ' if limit[0] < limit[1] else ''
    return f'{why}{limit[0]} of {limit[1]} active on {limit[2]}'


SECTIONS = {'scopes': scopes, 'pools': pools, 'map': pool_map, 'rescuers': rescuers, 'active': active, 'now': now}
CONFIGURATION = ('scopes', 'pools', 'map', 'rescuers', 'active')
# the parts of a Snapshot that each section shows
PARTS = {'scopes': ('scopes',), 'pools': ('pools',), 'map': ('workqueues',), 'rescuers': ('workqueues',),
         'active': ('workqueues',), 'now': ('pools', 'workqueues')}


# numbers

def series(numbers):
    """Numbers in their order. Long series with even steps are abbreviated: 2,6..574."""
    words, start = [], 0
    while start < len(numbers):
        end = _even(numbers, start)
        run = numbers[start:end]
        if len(run) > WRITTEN_OUT:
            words.append(f'{run[0]},{run[1]}..{run[-1]}')
        else:
            end = start + 1
            words.append(str(numbers[start]))
        start = end
    return ','.join(words)


def _even(numbers, start):
    """End of the run of equal steps, at least one number, that begins at @start."""
    end = start + 1
    while end < len(numbers) and numbers[end] - numbers[end - 1] == numbers[start + 1] - numbers[start]:
        end += 1
    return end


def mapping(values):
    """A map from CPU to number, written as described at the top."""
    shared, runs = {}, []
    for cpus, numbers in _runs(sorted(values.items())):
        if numbers[0] == numbers[-1]:
            runs += [] if numbers[0] in shared else [(cpus, numbers)]
            shared.setdefault(numbers[0], []).extend(cpus)
        else:
            runs.append((cpus, numbers))
    return ' '.join(f'{cpulist(shared[numbers[0]])}:{numbers[0]}' if numbers[0] == numbers[-1]
                    else f'{cpulist(cpus)}:{series(numbers)}' for cpus, numbers in runs)


def _runs(pairs):
    """Groups of neighbours with the same number, or of at least three whose numbers rise evenly, else single CPUs."""
    start = 0
    while start < len(pairs):
        end = start + 1
        while end < len(pairs) and pairs[end][0] == pairs[end - 1][0] + 1:
            end += 1
        cpus, numbers = zip(*pairs[start:end])
        run = _even(numbers, 0)
        if numbers[0] != numbers[run - 1]:
            if run < len(numbers) and numbers[run] == numbers[run - 1]:
                run -= 1        # the last one begins a new run
            run = run if run > 2 else 1
        yield list(cpus[:run]), list(numbers[:run])
        start += run


# layout

def table(heads, rows, width, numbers=()):
    """Columns as wide as needed. If that is too wide, the widest are wrapped."""
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    keep = [column for column in range(len(heads)) if any(row[column] for row in rows) or not rows]
    while width and 2 + sum(widths[column] + 2 for column in keep) - 2 > width:
        widest = max(keep, key=lambda column: widths[column])
        if widths[widest] <= NARROW:
            break
        widths[widest] -= 1
    result = []
    for row in [heads, *rows]:
        cells = [_cell(row[column], widths[column], column in numbers) for column in keep]
        for line in range(max(len(cell) for cell in cells)):
            words = [cell[line] if line < len(cell) else ' ' * len(cell[0]) for cell in cells]
            result.append('  ' + '  '.join(words).rstrip())
    return result


def _cell(text, width, right):
    return [part.rjust(width) if right else part.ljust(width) for part in pieces(text, width)]


def pieces(text, width):
    """Text in pieces of at most @width, broken at spaces, else after commas, else anywhere."""
    result = []
    while len(text) > width:
        cut = text.rfind(' ', 1, width + 1)
        if cut < 1:
            cut = text.rfind(',', 0, width) + 1 or width
        result.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return result + [text]


def wrap(text, width, first=0, rest=2):
    """One line, or several. Those after the first are indented by @rest."""
    if not width or len(text) + first <= width:
        return [' ' * first + text]
    head, *tail = pieces(text, max(width - first, NARROW))
    left = ' '.join(tail) if tail else ''
    return [' ' * first + head] + [' ' * rest + one for one in pieces(left, max(width - rest, NARROW))]

# SPDX-License-Identifier: GPL-2.0
"""The output that the scripts of the same names in a kernel tree have. Free of drgn.

    dump(snapshot, name_width)      the lines of wq_dump.py; name_width is the kernel's WQ_NAME_LEN
    table(rows)                     the lines of one sample of wq_monitor.py, from stats.Rows
    as_json(row, when, seconds)     an object of wq_monitor.py --json: those keys first, then ours

People parse this output, so each space is part of the interface. What could not be read is
"?" here, where those scripts fail.
"""
UNKNOWN = '?'
TYPE_WIDTH = 9
MASK_HEADS = ('unbound_cpus', 'rescuer_cpus')


def dump(snapshot, name_width):
    sections = (scopes(snapshot), pools(snapshot), pool_map(snapshot, name_width), rescuers(snapshot, name_width),
                active(snapshot, name_width))
    return [line for section in sections for line in ['', *section]][1:]


def mask(cpus):
    """Words of 32 CPUs, the lowest first. The last word has all its digits."""
    if cpus is None:
        return UNKNOWN
    words = [0] * (max(cpus, default=-1) // 32 + 1)
    for cpu in cpus:
        words[cpu // 32] |= 1 << cpu % 32
    return ' '.join([*map(hex, words[:-1]), *(f'{word:08x}' for word in words[-1:])])


def known(value):
    return UNKNOWN if value is None else str(value)


def title(text):
    return [text, '=' * len(text)]


def numbered(values):
    return ''.join(f' [{key}]={value}' for key, value in values)


# Sections of wq_dump.py

def scopes(snapshot):
    result = [*title('Affinity Scopes'), f'wq_unbound_cpumask={mask(snapshot.kernel.unbound_cpus)}']
    for scope in snapshot.scopes:
        result += ['', scope.name.upper() + (' (default)' if scope.default else ''),
                   f'  nr_pods  {len(scope.pods)}',
                   '  pod_cpus' + numbered((pod.id, mask(pod.cpus)) for pod in scope.pods),
                   '  pod_node' + numbered((pod.id, pod.node) for pod in scope.pods),
                   '  cpu_pod ' + numbered(scope.cpu_pod.items())]
    return result


def id_width(snapshot):
    return max((len(str(pool.id)) for pool in snapshot.pools), default=0)


def pools(snapshot):
    width, refs = id_width(snapshot), max((len(str(pool.refcnt)) for pool in snapshot.pools), default=0)
    return title('Worker Pools') + [
        f'pool[{pool.id:0{width}}] flags={pool.flags:#04x} ref={pool.refcnt:{refs}} nice={pool.nice:3} '
        f'idle/workers={pool.nr_idle:3}/{pool.nr_workers:3} {_place(pool)}' for pool in snapshot.pools]


def _place(pool):
    if pool.cpu is not None:
        return f'cpu={pool.cpu:3}' + (' bh' if pool.kind == 'bh' else '')
    return f'cpus={mask(pool.cpus)} pod_cpus={mask(pool.pod_cpus)}' + (' strict' if pool.strict else '')


def pool_map(snapshot, name_width):
    width, cpus = id_width(snapshot), snapshot.kernel.possible_cpus
    heads = ''.join(f' {cpu:{width}}' for cpu in cpus)
    result = title('Workqueue CPU -> pool') + [
        f'[{"workqueue":^{name_width - 2}}\\ {"type   CPU".ljust(TYPE_WIDTH)}{heads} dfl]']
    for wq in snapshot.workqueues:
        kind = 'unbound,S' if wq.type == 'unbound' and wq.strict else wq.type
        cells = [known(wq.cpu_pool.get(cpu)).rjust(max(width, len(str(cpu)))) for cpu in cpus]
        if wq.type in ('unbound', 'ordered'):
            cells.append(known(wq.dfl_pool).rjust(width))
        result.append(' '.join([wq.name.ljust(name_width), kind.ljust(TYPE_WIDTH + 1), *cells]))
    return result


def rescuers(snapshot, name_width):
    least = len(mask(snapshot.kernel.unbound_cpus))
    unbound, rescuer = widths = [max(least, len(head)) for head in MASK_HEADS]
    heads = [head.ljust(width) for head, width in zip(MASK_HEADS, widths)]
    result = title('Workqueue -> rescuer') + [
        f'[{"workqueue":^{name_width - 2}}\\ {heads[0]}    pid {heads[1]} ]']
    for wq in snapshot.workqueues:
        if 'MEM_RECLAIM' in wq.flag_names:
            may = mask(wq.cpus) if wq.type in ('unbound', 'ordered') else ''
            pid = known(wq.rescuer and wq.rescuer.pid)
            result.append(f'{wq.name.ljust(name_width)} {may.ljust(unbound)} {pid:>6} '
                          f'{mask(wq.rescuer_cpus).ljust(rescuer)}')
    return result


def active(snapshot, name_width):
    """Without CONFIG_NUMA only the title: the script of the kernel tree ends there."""
    result, kernel = title('Unbound workqueue -> node_nr/max_active'), snapshot.kernel
    if kernel.node_cpus is None:
        return result
    result.append(f'online_cpus={mask(kernel.online_cpus)}')
    result += [f'NODE[{node:02}]={mask(kernel.node_cpus.get(node))}' for node in kernel.possible_nodes]
    layout = Counts if any(scope.name == 'cache_shard' for scope in snapshot.scopes) else OldCounts
    result += ['', layout.head(kernel.possible_nodes, name_width), '']
    for wq in snapshot.workqueues:
        if wq.type in ('unbound', 'ordered'):
            by_node = {one.node: one for one in wq.node_active}
            result.append(f'{wq.name.ljust(name_width)} '
                          + layout.line(wq, [by_node.get(node) for node in [*kernel.possible_nodes, -1]]))
    return result


class Counts:
    """Columns of the last section."""

    @staticmethod
    def head(nodes, name_width):
        heads = ['min'.rjust(4), 'max'.rjust(4), *(f'NODE {node}'.rjust(9) for node in nodes), 'dfl'.rjust(9)]
        return f'[{"workqueue":^{name_width - 1}} {" ".join(heads)} ]'

    @staticmethod
    def line(wq, active):
        cells = [UNKNOWN if one is None else f'{one.nr}/{one.max}' for one in active]
        limits = [known(wq.min_active).rjust(4), str(wq.max_active).rjust(4)]
        return ' '.join([*limits, *(cell.rjust(9) for cell in cells)])


class OldCounts:
    """The same in kernels before the scope cache_shard."""

    @staticmethod
    def head(nodes, name_width):
        first, *others = nodes
        heads = [f' NODE {first}', *(str(node).rjust(7) for node in others), 'dfl'.rjust(7)]
        return f'[{"workqueue":^{name_width - 2}}\\ min max {" ".join(heads)} ]'

    @staticmethod
    def line(wq, active):
        cells = [UNKNOWN.rjust(7) if one is None else f'{one.nr:3}/{one.max:3}' for one in active]
        return ' '.join([known(wq.min_active).rjust(3), str(wq.max_active).rjust(3), *cells])


# wq_monitor.py

NAME_WIDTH = 24
COLUMNS = (('total', 8), ('infl', 5), ('CPUtime', 8), ('CPUitsv', 7), ('CMW/RPR', 7), ('mayday', 7), ('rescued', 7))


def table(rows):
    return ['', ' '.join([' ' * NAME_WIDTH, *(head.rjust(width) for head, width in COLUMNS)]), *map(line, rows)]


def line(row):
    count, unbound = row.count, is_unbound(row)
    rescues = [count['mayday'], count['rescued']] if row.mem_reclaim else ['-', '-']
    cells = [count['started'], max(count['started'] - count['completed'], 0), f'{count["cpu_time"] / 1e6:.1f}',
             '-' if unbound else count['cpu_intensive'], count['repatriated' if unbound else 'cm_wakeup'], *rescues]
    texts = [str(cell).rjust(width) for cell, (_, width) in zip(cells, COLUMNS)]
    return ' '.join([row.name[-NAME_WIDTH:].ljust(NAME_WIDTH), *texts, ''])


def is_unbound(row):
    return row.type in ('unbound', 'ordered')


def as_json(row, when, seconds):
    """
    One object. It is a literal of Python, too: those scripts print one, and people read it as one.
    So flags are 0 and 1, and what would be null is left out.
    """
    result = {'timestamp': when, 'name': row.name, 'unbound': int(is_unbound(row)),
              'mem_reclaim': int(row.mem_reclaim), **row.count,
              **({} if row.address is None else {'address': f'{row.address:#x}'}), 'type': row.type,
              'in_flight': row.in_flight, 'reset': int(row.reset)}
    if row.wait:
        result['wait_us'] = {f'p{percent}': us for percent, us in row.wait.items()}
    if row.rate is not None:
        result['interval'] = round(seconds, 3)
        result['rate'] = {key: round(rate, 3) for key, rate in row.rate.items() if rate is not None}
    return result

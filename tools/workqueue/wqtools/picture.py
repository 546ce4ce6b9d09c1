# SPDX-License-Identifier: GPL-2.0
"""The structure of a machine and the load of its parts, ready to be drawn.

A Snapshot becomes a tree: sockets contain NUMA nodes (where these differ), nodes contain
LLCs, and these contain shards, cores and CPUs.  Each worker pool belongs to the
smallest group that contains all its CPUs.  svg.py and textpicture.py draw the tree.
"""
import collections
import dataclasses
import typing

from .model import cpulist

STUCK_S = 10        # seconds without progress after which a pool is marked in the picture
HOT_POOLS = 8       # how many of the most loaded pools are listed
FUNCTIONS = 6       # how many functions that wait in a pool are named

# How loaded something is: level 0 is idle, 1 has nothing waiting, then by the number of waiting and held-back items
PILE_STEPS = (1, 4, 16, 64)
LEVEL_NAMES = ('idle', 'busy', '1-3 items wait or are held back', '4-15', '16-63', '64 or more')

LEVELS = ('socket', 'llc', 'shard', 'core')         # outermost first; 'node' goes where it fits
SCOPE_KINDS = {'cpu': 'cpu', 'smt': 'core', 'cache': 'llc', 'cache_shard': 'shard', 'numa': 'node',
               'system': 'machine'}
KIND_NAMES = {'socket': 'socket', 'node': 'node', 'llc': 'LLC', 'shard': 'shard', 'core': 'core', 'cpu': 'CPU'}


@dataclasses.dataclass
class Load:
    busy: int = 0
    idle: int = 0
    waiting: int = 0
    held: int = 0
    stuck: float = 0        # longest time without progress, if something waits

    def __add__(self, other):
        return Load(self.busy + other.busy, self.idle + other.idle, self.waiting + other.waiting,
                    self.held + other.held, max(self.stuck, other.stuck))

    @property
    def pile(self):
        return self.waiting + self.held

    @property
    def level(self):
        """An index into LEVEL_NAMES."""
        if not self.pile:
            return 1 if self.busy else 0
        return 1 + sum(self.pile >= step for step in PILE_STEPS)

    @property
    def is_stuck(self):
        return self.stuck >= STUCK_S

    def words(self):
        text = f'{self.busy} busy, {self.idle} idle'
        if self.waiting:
            text += f', {self.waiting} waiting'
        if self.held:
            text += f', {self.held} held back'
        if self.is_stuck:
            text += f', no progress for {seconds(self.stuck)}'
        return text


@dataclasses.dataclass
class Group:
    """CPUs that share something. If several levels have the same CPUs, they are one group."""
    kinds: list                     # of LEVELS, "node", "cpu", "machine" or "unknown"
    label: str
    cpus: list
    children: list = dataclasses.field(default_factory=list)
    pools: list = dataclasses.field(default_factory=list)   # pools that serve exactly this group
    default_pod: bool = False       # a pod of the default affinity scope


@dataclasses.dataclass
class Picture:
    snapshot: typing.Any            # model.Snapshot, or one of the tests
    root: Group                     # kind "machine"
    cpus: dict                      # number -> model.Cpu
    loads: dict                     # pool id -> Load
    users: dict                     # pool id -> names of the workqueues that use it
    default_scope: object           # model.Scope or None
    hot: list                       # of model.Pool, the most loaded first
    cpu_pools: dict                 # CPU -> the pools that serve it alone

    def load_of(self, pools):
        return sum((self.loads[pool.id] for pool in pools), Load())

    def is_isolated(self, cpu):
        return cpu not in self.snapshot.kernel.unbound_cpus


def seconds(secs):
    """A time as short text: "0.3s", "45s", "12min", "30h"."""
    if secs < 9.95:
        return f'{secs:.1f}s'
    for unit, size, limit in (('s', 1, 120), ('min', 60, 7200), ('h', 3600, 172800)):
        if secs < limit:
            return f'{secs / size:.0f}{unit}'
    return f'{secs / 86400:.0f}d'


def cpus_words(cpus):
    return f'CPU{"" if len(cpus) == 1 else "s"} {cpulist(cpus)}'


def plural(number, what):
    return f'{number} {what}' if number == 1 else f'{number} {what}s'


def build(snapshot):
    """Everything that a drawing needs, from a Snapshot."""
    cpus = {cpu.cpu: cpu for cpu in snapshot.cpus}
    default = next((scope for scope in snapshot.scopes if scope.default), None)
    root = Group(['machine'], 'machine', sorted(cpus))
    root.children = _split_machine(snapshot, cpus)
    _mark_default_pods(root, SCOPE_KINDS.get(default.name) if default else None)
    for pool in snapshot.pools:
        _home(root, pool).pools.append(pool)

    loads = _pool_loads(snapshot)
    picture = Picture(snapshot, root, cpus, loads, _pool_users(snapshot), default, [], _cpu_pools(root))
    picture.hot = sorted((pool for pool in snapshot.pools if loads[pool.id].level),
                         key=lambda pool: heat(loads[pool.id]), reverse=True)[:HOT_POOLS]
    return picture


def heat(load):
    """A key that sorts what needs attention to the end."""
    return load.is_stuck, load.pile, load.busy


def _cpu_pools(group):
    if 'cpu' in group.kinds:
        return {group.cpus[0]: group.pools}
    return {cpu: pools for child in group.children for cpu, pools in _cpu_pools(child).items()}


def all_pools(group):
    """The pools of a group and of all groups in it."""
    return group.pools + [pool for child in group.children for pool in all_pools(child)]


def _pool_loads(snapshot):
    held = collections.Counter()
    for wq in snapshot.workqueues:
        for pwq in wq.pwqs:
            held[pwq.pool] += len(pwq.inactive)
    return {pool.id: Load(len(pool.busy), pool.nr_idle, len(pool.waiting), held[pool.id],
                          pool.no_progress_for or 0) for pool in snapshot.pools}


def _pool_users(snapshot):
    users = collections.defaultdict(list)
    for wq in snapshot.workqueues:
        for pool in {pwq.pool for pwq in wq.pwqs}:
            users[pool].append(wq.name)
    return users


def _key(cpu, level):
    return getattr(cpu, level)


def _levels(cpus):
    """The levels that this machine has, including nodes."""
    levels = [level for level in LEVELS if any(_key(cpu, level) is not None for cpu in cpus)]
    if all(cpu.node is None for cpu in cpus):
        return levels
    index = 0
    while index < len(levels) and not _is_within(cpus, levels[index], 'node'):
        index += 1
    # if each socket is a node, the socket comes first
    if index < len(levels) and _is_within(cpus, 'node', levels[index]):
        index += 1
    return levels[:index] + ['node'] + levels[index:]


def _is_within(cpus, inner, outer):
    """Is each group of the inner level within one group of the outer level?"""
    pairs = {(_key(cpu, inner), _key(cpu, outer)) for cpu in cpus}
    return len(pairs) == len({pair[0] for pair in pairs})


def _split_machine(snapshot, cpus):
    known = [cpu for cpu in snapshot.cpus if cpu.socket is not None or cpu.llc is not None]
    groups = _split(known, _levels(known))
    unknown = sorted(set(cpus) - {cpu.cpu for cpu in known})
    if unknown:
        groups.append(Group(['unknown'], 'place not known', unknown, [_cpu_group(cpus[cpu]) for cpu in unknown]))
    return groups


def _cpu_group(cpu):
    return Group(['cpu'], f'CPU {cpu.cpu}', [cpu.cpu])


def _split(cpus, levels):
    """One Group for each value that the first of the levels has among these CPUs."""
    if not levels:
        return [_cpu_group(cpu) for cpu in sorted(cpus, key=lambda cpu: cpu.cpu)]
    parts = collections.defaultdict(list)
    for cpu in cpus:
        parts[_key(cpu, levels[0])].append(cpu)

    groups = []
    for number in sorted(parts, key=lambda number: (number is None, number)):
        name = KIND_NAMES[levels[0]]
        group = Group([levels[0]], f'{name} {number}' if number is not None else f'{name} not known',
                      sorted(cpu.cpu for cpu in parts[number]), _split(parts[number], levels[1:]))
        groups.append(_merge_only_child(group))
    return groups


def _merge_only_child(group):
    """Merges a group with its only child, such as a socket with its LLC; shards, cores and CPUs stay visible."""
    child = group.children[0]
    if len(group.children) > 1 or 'cpu' in child.kinds or 'shard' in child.kinds or 'core' in child.kinds:
        return group
    return dataclasses.replace(child, kinds=group.kinds + child.kinds, label=f'{group.label} · {child.label}')


def _mark_default_pods(group, kind):
    group.default_pod = kind in group.kinds
    for child in group.children:
        _mark_default_pods(child, kind)


def _home(group, pool):
    """The smallest group that contains all CPUs of the pool's pod."""
    cpus = set(_pod(pool))
    while True:
        for child in group.children:
            if cpus and cpus <= set(child.cpus):
                group = child
                break
        else:
            return group


def _pod(pool):
    return pool.pod_cpus if pool.pod_cpus is not None else pool.cpus


def pool_name(pool):
    """What the pool is for, in up to three words."""
    highpri = ' highpri' if pool.nice < 0 else ''
    if pool.kind == 'unbound':
        return f'nice {pool.nice}' * bool(pool.nice) + ' strict' * pool.strict
    return ('BH' if pool.kind == 'bh' else 'normal' if not highpri else '') + highpri


def pool_place(pool):
    if pool.cpu is not None:
        return f'CPU {pool.cpu} {pool_name(pool).strip()}'
    own = '' if pool.own_cpu is None else f' own={pool.own_cpu}'
    return f'{cpus_words(_pod(pool))}{own} {pool_name(pool).strip()}'.rstrip()


def running(pool):
    """What the pool's workers run: "foo_fn (45s), 3 bar_fn (up to 2.0s)". Some kernels do not record how long."""
    times = collections.defaultdict(list)
    for worker in pool.busy:
        times[worker.function or '?'].append(worker.running_for)
    words = []
    for function, found in sorted(times.items(), key=lambda pair: -len(pair[1])):
        text = function if len(found) == 1 else f'{len(found)} {function}'
        if None not in found:
            text += f' ({"up to " * (len(found) > 1)}{seconds(max(found))})'
        words.append(text)
    return ', '.join(words)


def queued(items):
    """Items that wait, by function: "5 foo_fn, bar_fn". The rarer functions are only counted."""
    counts = collections.Counter(item.function for item in items if not item.barrier).most_common()
    shown = counts if len(counts) <= FUNCTIONS + 1 else counts[:FUNCTIONS]
    words = [function if number == 1 else f'{number} {function}' for function, number in shown]
    rest = sum(number for _, number in counts[len(shown):])
    return ', '.join(words + ([f'{rest} others'] if rest else []))


def held_items(snapshot, pool):
    return [item for wq in snapshot.workqueues for pwq in wq.pwqs if pwq.pool == pool.id for item in pwq.inactive]


def pool_doing(picture, pool):
    """What runs and what waits in a pool, by function."""
    parts = [('runs', running(pool)), ('waiting', queued(pool.waiting)),
             ('held back', queued(held_items(picture.snapshot, pool))),
             ('called to the rescue', ', '.join(pool.mayday)),
             ('creating workers', f'pid {pool.manager}' if pool.manager is not None else '')]
    return '; '.join(f'{what}: {text}' for what, text in parts if text)


def headlines(picture):
    """Two lines about the machine and about how unbound work is divided by default."""
    kernel, scope = picture.snapshot.kernel, picture.default_scope
    first = f'Linux {kernel.release} {kernel.arch}, {kernel.source}, up {seconds(kernel.uptime)}, ' \
            f'{len(kernel.online_cpus)} of {plural(len(kernel.possible_cpus), "CPU")} online, ' \
            f'{plural(len(kernel.nodes), "node")}'
    second = 'default affinity scope: not known'
    if scope:
        second = f'default affinity scope: {scope.name}, {plural(len(scope.pods), "pod")}'
        if scope.name == 'cache_shard' and kernel.cache_shard_size is not None:
            second += f' of up to {plural(kernel.cache_shard_size, "core")}'
    isolated = sorted(set(kernel.possible_cpus) - set(kernel.unbound_cpus))
    if isolated:
        second += f'; isolated from unbound work: {cpus_words(isolated)}'
    return [first, second]


def counts(picture):
    """The machine's load in one line."""
    total = picture.load_of(picture.snapshot.pools)
    stuck = sum(load.is_stuck for load in picture.loads.values())
    text = f'{plural(len(picture.loads), "pool")}: {total.busy} workers busy, {total.idle} idle; ' \
           f'{plural(total.waiting, "item")} waiting, {total.held} held back'
    return text + (f'; {plural(stuck, "pool")} without progress for {STUCK_S}s or more' if stuck else '')


def group_title(picture, group):
    """All about a group, a line each: the tooltip of the SVG."""
    cores = {picture.cpus[cpu].core for cpu in group.cpus}
    lines = [group.label, cpus_words(group.cpus)]
    if 'cpu' not in group.kinds and None not in cores:
        lines[-1] += f', {plural(len(cores), "core")}'
    if group.default_pod:
        lines.append(f'a pod of the default affinity scope, {picture.default_scope.name}')
    return lines + [f'pool {pool.id} {pool_name(pool).strip()}: {picture.loads[pool.id].words()}'.replace(' :', ':')
                    for pool in group.pools]


def pool_title(picture, pool):
    """All about a pool, a line each."""
    lines = [f'pool {pool.id}, {pool_place(pool)}', picture.loads[pool.id].words()]
    lines += [line for line in pool_doing(picture, pool).split('; ') if line]
    if picture.users[pool.id]:
        lines.append(f'serves: {shorten(picture.users[pool.id], 10)}')
    return lines


def shorten(names, limit):
    more = f' and {len(names) - limit} more' if len(names) > limit else ''
    return ', '.join(names[:limit]) + more


def cores_of(group):
    """A list of the CPUs of each core below the group, for drawings that show no cores."""
    cores = []
    for child in group.children:
        cores += [child] if 'cpu' in child.kinds or 'core' in child.kinds else cores_of(child)
    return cores

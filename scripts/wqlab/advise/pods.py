# SPDX-License-Identifier: GPL-2.0
"""What the CPUs of a machine share, and so which settings differ at all.

Settings with the same pods behave alike. Only one of them is measured, which leaves more time for the others. Where
it is not known what CPUs share, as in UML, no two settings are taken for the same.
"""
from collections.abc import Iterable

from wqlab import cpus
from wqlab.scopes import SCOPES, SHARD

# Below /sys, as a shell understands it.
CPU = 'devices/system/cpu/cpu[0-9]*'
ONLINE, POSSIBLE = 'devices/system/cpu/online', 'devices/system/cpu/possible'
PARAMETERS = 'module/workqueue/parameters'
SHARD_SIZE = f'{PARAMETERS}/cache_shard_size'
OURS = f'{PARAMETERS}/own_pools'        # only a kernel that has this can change the size of shards while it runs
FILES = (ONLINE, POSSIBLE, f'{CPU}/topology/thread_siblings_list', f'{CPU}/cache/index*/shared_cpu_list',
         'devices/system/node/node[0-9]*/cpulist', SHARD_SIZE, OURS)

Pods = set[frozenset[int]]

# The setting that others are compared with: what a workqueue has that does not choose.
DEFAULT = 'default'
# The same once more. Its ratio to the default is 1 on a machine that is quiet enough.
AGAIN = 'default again'


def parts(setting: str) -> tuple[str, int | None]:
    """Return the scope of a setting, and the size of its shards, unless it is the present one: cpu, cache_shard/4."""
    scope, _, size = setting.partition('/')
    return DEFAULT if scope == AGAIN else scope, int(size) if size else None


class Machine:
    """What sysfs says: {path below /sys: content}."""

    def __init__(self, files: dict[str, str]):
        self.files = files
        self.online = set(cpus.parse(files[ONLINE]))
        self.shard_size = int(files[SHARD_SIZE]) if SHARD_SIZE in files else None
        self.can_resize = self.shard_size is not None and OURS in files

    def groups(self, start: str, end: str) -> Pods | None:
        """Return the groups of CPUs in the files of such names, or None if one has no group. A later file counts."""
        of = {}
        for path in sorted(self.files):
            if path.startswith(start) and path.endswith(end):
                shared = frozenset(cpus.parse(self.files[path])) & self.online
                of.update(dict.fromkeys(shared, shared))
        return set(of.values()) if of.keys() == self.online else None

    def shards(self, size: int | None) -> Pods | None:
        """Return the shards if they are cores or whole caches. Others are like no scope.

        In the kernel, CPUs that are possible but offline count, too, and sysfs does not tell which caches they share.
        """
        cores, caches = self.of_scope('smt'), self.of_scope('cache')
        if not cores or not caches or not size or self.files.get(POSSIBLE) != self.files[ONLINE]:
            return None
        most = max(sum(core <= cache for core in cores) for cache in caches)
        return caches if most <= size else cores if size == 1 else None

    def of_scope(self, scope: str) -> Pods | None:
        place = 'devices/system/cpu/cpu'
        if scope == 'smt':
            return self.groups(place, '/thread_siblings_list')
        if scope == 'cache':                # the last level has the highest index
            return self.groups(place, '/shared_cpu_list')
        if scope == 'numa':
            return self.groups('devices/system/node/', '/cpulist')
        return {frozenset(self.online)} if scope == 'system' else {frozenset([cpu]) for cpu in self.online}

    def pods(self, setting: str) -> Pods | None:
        """Return the pods of a setting. None: they are not known."""
        scope, size = parts(setting)
        if len(self.online) == 1:
            return {frozenset(self.online)}
        return self.shards(size or self.shard_size) if scope == SHARD else self.of_scope(scope)


def choose(machine: Machine, default: str, scopes: Iterable[str], sizes: Iterable[int]) \
        -> tuple[list[str], dict[str, str]]:
    """Return the settings to measure, and {another: the measured one that has the same pods}.

    default: the scope that is the present default.
    """
    wanted = [scope for scope in SCOPES if scope in scopes and scope != default]
    wanted += [f'{SHARD}/{size}' for size in sizes if size != machine.shard_size]
    known, same = [default], {}
    for setting in wanted:
        mine = machine.pods(setting)
        twin = next((one for one in known if mine and mine == machine.pods(one)), None)
        if twin:
            same[setting] = twin
        else:
            known.append(setting)
    return known[1:], same

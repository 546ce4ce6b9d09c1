# SPDX-License-Identifier: GPL-2.0
"""What the CPUs of a machine share, and so which settings differ at all.

Settings with the same pods behave alike. Only one of them is measured, which leaves more time
for the others. Where sysfs does not tell what CPUs share, as in UML, no two settings are taken for
the same.
"""
import dataclasses
import re
from collections.abc import Callable, Iterable

from wqlab import cpus
from wqlab.scopes import SCOPES, SHARD

# Below /sys: patterns that both a shell and glob() understand.
CPU = 'devices/system/cpu/cpu[0-9]*'
ONLINE, POSSIBLE = 'devices/system/cpu/online', 'devices/system/cpu/possible'
UNBOUND = 'devices/virtual/workqueue/cpumask'
PARAMETERS = 'module/workqueue/parameters'
SHARD_SIZE = f'{PARAMETERS}/cache_shard_size'
FILES = (ONLINE, POSSIBLE, UNBOUND, f'{CPU}/topology/thread_siblings_list', f'{CPU}/cache/index*/level',
         f'{CPU}/cache/index*/shared_cpu_list', 'devices/system/node/node[0-9]*/cpulist', f'{PARAMETERS}/*')

Pods = frozenset[frozenset[int]]


@dataclasses.dataclass(frozen=True)
class Setting:
    """A scope, with the size of its shards if that is not the present one."""
    scope: str
    shard_size: int | None = None

    @property
    def name(self) -> str:
        return self.scope if self.shard_size is None else f'{self.scope}/{self.shard_size}'


# The setting that others are compared with: what a workqueue has that does not choose.
DEFAULT = Setting('default')
# The same once more. Its ratio to the default is 1 on a machine that is quiet enough.
AGAIN = 'default again'


def mask(text: str) -> set[int]:
    """Return the CPUs of a mask such as "00000000,0000ffff"."""
    number = int(text.replace(',', ''), 16)
    return {bit for bit in range(number.bit_length()) if number >> bit & 1}


class Machine:
    """What sysfs says: {path below /sys: content}."""

    def __init__(self, files: dict[str, str], shard_size_mode: int | None):
        self.files = files
        self.online = set(cpus.parse(files[ONLINE]))
        self.usable = self.online & mask(files[UNBOUND]) if UNBOUND in files else self.online
        self.can_resize = bool(shard_size_mode and shard_size_mode & 0o200)

    @property
    def shard_size(self) -> int | None:
        return int(self.files[SHARD_SIZE]) if SHARD_SIZE in self.files else None

    def parameters(self) -> dict[str, str]:
        return {path.rpartition('/')[2]: text for path, text in self.files.items() if path.startswith(PARAMETERS)}

    def group(self, of: Callable[[int], Iterable[int] | None]) -> Pods | None:
        """Return groups of online CPUs. of(CPU) names the CPUs in its group. If it is None for one, return None."""
        found = set()
        for cpu in self.online:
            shared = of(cpu)
            if shared is None:
                return None
            found.add(frozenset({cpu, *shared} & self.online))
        return frozenset(found)

    def siblings(self, cpu: int) -> list[int] | None:
        text = self.files.get(f'devices/system/cpu/cpu{cpu}/topology/thread_siblings_list')
        return None if text is None else cpus.parse(text)

    def of_cache(self, cpu: int) -> list[int] | None:
        """Return the CPUs that share its last-level cache."""
        place, found = f'devices/system/cpu/cpu{cpu}/cache/index', []
        for path, text in self.files.items():
            if path.startswith(place) and path.endswith('/level'):
                found.append((int(text), self.files.get(path.replace('/level', '/shared_cpu_list'))))
        shared = max(found, default=(0, None))[1]
        return None if shared is None else cpus.parse(shared)

    def of_node(self, cpu: int) -> list[int] | None:
        lists = [cpus.parse(text) for path, text in self.files.items() if re.search(r'/node\d+/cpulist$', path)]
        return next((one for one in lists if cpu in one), None)

    def nr_shards(self, cores: int, size: int) -> int:
        """Return into how many shards a cache of so many cores is cut. Ours rounds up, the base kernel to nearest."""
        return max(1, -(-cores // size) if self.can_resize else (cores + size // 2) // size)

    def shards(self, size: int) -> Pods | None:
        """
        Return the shards, or None if they are not known. In the kernel, CPUs that are possible but offline count, too.
        But sysfs does not tell which caches they share.
        """
        if self.files.get(POSSIBLE) != self.files[ONLINE]:
            return None
        caches, cores = self.group(self.of_cache), self.group(self.siblings)
        if caches is None or cores is None:
            return None
        found = []
        for cache in caches:
            mine = sorted((core for core in cores if core <= cache), key=min)
            number = self.nr_shards(len(mine), size)
            small, large = divmod(len(mine), number)
            at = 0
            for shard in range(number):
                count = small + (shard < large)
                found.append(frozenset().union(*mine[at:at + count]))
                at += count
        return frozenset(found)

    def groups(self, setting: Setting) -> Pods | None:
        if setting.scope == SHARD:
            size = setting.shard_size or self.shard_size
            return self.shards(size) if size else None
        if setting.scope == 'system':
            return frozenset([frozenset(self.online)])
        shared = {'cpu': lambda cpu: [cpu], 'smt': self.siblings, 'cache': self.of_cache,
                  'numa': self.of_node}[setting.scope]
        return self.group(shared)

    def pods(self, setting: Setting) -> Pods | None:
        """Return the pods of a setting, without CPUs that unbound items may not use. None: they are not known."""
        groups = self.groups(setting)
        return None if groups is None else frozenset(filter(None, (group & self.usable for group in groups)))

    def same(self, one: Setting, other: Setting) -> bool:
        """Return True if two settings surely have the same pods."""
        pods = self.pods(one)
        return pods is not None and pods == self.pods(other)


def choose(machine: Machine, default: str, scopes: Iterable[str], sizes: Iterable[int]) \
        -> tuple[list[Setting], dict[str, str]]:
    """Return the settings to measure, and {name of another: the measured one that has the same pods}.

    default: the scope that is the present default.
    """
    wanted = [Setting(scope) for scope in SCOPES if scope in scopes and scope != default]
    wanted += [Setting(SHARD, size) for size in sizes if size != machine.shard_size]
    known, same = [Setting(default)], {}
    for setting in wanted:
        twin = next((one for one in known if machine.same(one, setting)), None)
        if twin:
            same[setting.name] = twin.name
        else:
            known.append(setting)
    return known[1:], same

# SPDX-License-Identifier: GPL-2.0
"""The picture of a machine for a terminal: a box for each group, a sign for each CPU, and the load in words."""
import textwrap

from . import picture as pic
from .model import cpulist

MIN_WIDTH = 40
LOADED = 8          # up to this many pools of a group are described one by one


class Style:
    """The signs to draw with: levels as bars of growing height, or plain ASCII."""

    def __init__(self, unicode):
        self.levels = '·▁▃▅▇█' if unicode else '.-+*#@'
        self.horizontal, self.vertical = '─│' if unicode else '-|'
        self.top, self.bottom = ('┌┐', '└┘') if unicode else ('++', '++')
        self.ellipsis = '…' if unicode else '...'
        self.unicode = unicode

    def plain(self, text):
        """Uses only signs that the terminal can show."""
        return text if self.unicode else text.replace('·', '/').encode('ascii', 'replace').decode()

    def cut(self, text, width):
        text = self.plain(text)
        return text if len(text) <= width else text[:width - len(self.ellipsis)] + self.ellipsis


class Drawing:
    def __init__(self, picture, style):
        self.picture, self.style = picture, style
        self.digits = len(str(max(picture.cpus)))
        self.marked = any(self.mark(cpu) for cpu in picture.root.cpus)

    def mark(self, cpu):
        """A stuck pool is more important than isolation."""
        if any(self.picture.loads[pool.id].is_stuck for pool in self.picture.cpu_pools[cpu]):
            return '!'
        return 'i' if self.picture.is_isolated(cpu) else ''

    def cell(self, cpu):
        load = self.picture.load_of(self.picture.cpu_pools[cpu])
        sign = self.style.levels[load.level] if self.picture.cpus[cpu].online or load.level else 'x'
        return f'{cpu:>{self.digits}}{sign}' + (f'{self.mark(cpu):1}' if self.marked else '')

    def core(self, group):
        return '/'.join(self.cell(cpu) for cpu in group.cpus)

    def cells(self, group, width):
        """The CPUs in columns. A slash joins the threads of a core."""
        cores = [self.core(core) for core in pic.cores_of(group)]
        column = max(len(core) for core in cores) + 2
        number = max((width + 2) // column, 1)
        return [''.join(core.ljust(column) for core in cores[start:start + number]).rstrip()
                for start in range(0, len(cores), number)]

    def pool_lines(self, pools):
        """Loaded pools one by one, the most loaded first. The idle ones share a line."""
        loads = self.picture.loads
        loaded = sorted((pool for pool in pools if loads[pool.id].level), key=lambda pool: pic.heat(loads[pool.id]),
                        reverse=True)
        lines = [f'{self.style.levels[loads[pool.id].level]} pool {pool.id}, {pic.pool_place(pool)}: '
                 f'{loads[pool.id].words()}' for pool in loaded[:LOADED]]
        if loaded[LOADED:]:
            rest = self.picture.load_of(loaded[LOADED:])
            lines.append(f'  and {pic.plural(len(loaded) - LOADED, "pool")} more: {rest.words()}')
        return lines

    def idle_line(self, pools):
        idle = [pool for pool in pools if not self.picture.loads[pool.id].level]
        if not idle:
            return []
        names = 'pool' if len(idle) == 1 else 'pools'
        return [f'{self.style.levels[0]} idle unbound {names} {cpulist([pool.id for pool in idle])}: '
                f'{pic.plural(self.picture.load_of(idle).idle, "worker")}']

    def box(self, group, width):
        """A group in a frame of exactly this width."""
        style, inner = self.style, width - 4
        mark = ' [default pod]' if group.default_pod else ''
        label = style.cut(f' {group.label}: {pic.cpus_words(group.cpus)}{mark} ', inner)
        lines = [style.top[0] + style.horizontal + label + style.horizontal * (inner + 1 - len(label)) + style.top[1]]
        lines += [f'{style.vertical} {style.cut(line, inner):{inner}} {style.vertical}'
                  for line in self.content(group, inner)]
        return lines + [style.bottom[0] + style.horizontal * (inner + 2) + style.bottom[1]]

    def content(self, group, width):
        """The pools and contents of the group, without a frame."""
        pools, children = group.pools, group.children
        is_leaf = all('core' in child.kinds or 'cpu' in child.kinds for child in children)
        if is_leaf:
            pools = pools + [pool for child in children for pool in pic.all_pools(child)]
        lines = self.cells(group, width) if is_leaf else []
        lines += self.pool_lines(pools) + self.idle_line([pool for pool in pools if pool.kind == 'unbound'])
        if not is_leaf:
            for child in children:
                lines += self.box(child, width)
        return lines

    def legend(self, width):
        entries = [f'{sign} {name}' for sign, name in zip(self.style.levels, pic.LEVEL_NAMES)]
        entries += ['x offline', 'i isolated from unbound work', f'! no progress for {pic.STUCK_S}s']
        entries += ['0/1 threads of a core'] if any(len(core.cpus) > 1 for core in pic.cores_of(self.picture.root)) \
            else []
        # do not break a line between a sign and its name
        lines = textwrap.wrap('; '.join(entry.replace(' ', '\0') for entry in entries), width)
        return [line.replace('\0', ' ') for line in lines]

    def hot_lines(self, width):
        if not self.picture.hot:
            return textwrap.wrap('Most loaded pools: none, no worker runs anything, and nothing waits', width)
        lines = ['Most loaded pools']
        for pool in self.picture.hot:
            load = self.picture.loads[pool.id]
            text = f'{self.style.levels[load.level]} pool {pool.id}, {pic.pool_place(pool)}: {load.words()}; ' \
                   f'{pic.pool_doing(self.picture, pool)}'
            lines += textwrap.wrap(self.style.plain(text), width, initial_indent='  ', subsequent_indent='      ')
        return lines


def draw(snapshot, width, unicode=True):
    """The picture, no line longer than the width (of at least 40)."""
    width = max(width, MIN_WIDTH)
    picture, style = pic.build(snapshot), Style(unicode)
    drawing = Drawing(picture, style)
    lines = []
    for line in (*pic.headlines(picture), pic.counts(picture)):
        lines += textwrap.wrap(style.plain(line), width)
    lines += drawing.legend(width)
    lines += [style.cut(line, width) for line in drawing.content(picture.root, width)]
    lines += drawing.hot_lines(width)
    return '\n'.join(line.rstrip() for line in lines) + '\n'

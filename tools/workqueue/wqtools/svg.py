# SPDX-License-Identifier: GPL-2.0
"""The picture of a machine as SVG: boxes in boxes, coloured by load.

Every part first computes its size and is then drawn into a place of at least that
size, so nothing overlaps.  Text is measured in the widest of the common sans-serif
fonts.  The viewer may have a narrower one.
"""
import math
from xml.sax.saxutils import escape, quoteattr

from . import picture as pic

SANS = 'Verdana, DejaVu Sans, Helvetica, Arial, sans-serif'
MONO = 'DejaVu Sans Mono, Menlo, Consolas, monospace'
MONO_WIDTH = 0.61           # of the font size, in the widest of these fonts

# Blue for what runs, then darker and darker from yellow to brown. They differ also in grey and for the colour-blind.
FILLS = ('#ffffff', '#cfe3f3', '#fee6a8', '#fdbb5a', '#ea7a1c', '#8c2d04')
INKS = ('#1b2733',) * 5 + ('#ffffff',)
INK, FAINT, LINE, ACCENT = '#1b2733', '#56636f', '#93a0ad', '#0b5394'
BACKGROUNDS = {'socket': '#eef1f5', 'node': '#e6ebf0', 'llc': '#dde4eb', 'shard': '#f8fafc', 'core': '#e6ebf0',
               'unknown': '#f4f4f4'}

PAD = 8                     # between a frame and what is in it, and between neighbours
HEAD = 18                   # height of a frame's label
ROW = 13                    # of small text
SMALL = 9.5                 # font size of counts
WORKER = 15                 # width of the square for workers, with space around it
MIN_WIDTH = 980             # of the whole, for header and legend
DETAILED_CPUS = 16          # with up to this many CPUs, each shows its pools one by one
CHIPS = 4                   # unbound pools of a group that are drawn one by one
ASPECTS = {'machine': 1.7, 'socket': 1.7, 'node': 1.7, 'llc': 1.8, 'shard': 3.0, 'core': 9}


def text_width(text, size, bold=False):
    """An upper bound for the width of the text, in the fonts above."""
    ems = sum(0.40 if char in "ijl.,:;|!' ()·-" else 1.0 if char in 'mwMW%' else 0.78 if char.isupper() else 0.66
              for char in text)
    return ems * size * (1.12 if bold else 1)


def shorten(text, chars):
    return text if len(text) <= chars else text[:max(chars - 1, 0)] + '…'


def number(value):
    """Counts never take more than four digits."""
    return str(value) if value < 10000 else f'{value // 1000}k'


class Canvas:
    """Collects the elements of the SVG."""

    def __init__(self):
        self.lines = []

    def add(self, text):
        self.lines.append(text)

    def rect(self, x, y, width, height, fill, stroke='none', stroke_width=1, dash='', radius=2, extra=''):
        dashed = f' stroke-dasharray="{dash}"' if dash else ''
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" '
                 f'fill="{fill}" stroke="{stroke}" stroke-width="{stroke_width}"{dashed}{extra}/>')

    def text(self, x, y, text, size=SMALL, fill=INK, bold=False, mono=False, end=False):
        if not text:
            return
        style = ' font-weight="bold"' * bold + f' font-family={quoteattr(MONO)}' * mono + ' text-anchor="end"' * end
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}"{style} '
                 f'xml:space="preserve">{escape(text)}</text>')

    def open(self, title_lines, kind):
        self.add(f'<g class={quoteattr(kind)}><title>{escape(chr(10).join(title_lines))}</title>')

    def close(self):
        self.add('</g>')

    def square(self, x, baseline, ink, full):
        """A worker."""
        self.rect(x + 0.5, baseline - 6.5, 6, 6, ink if full else 'none', ink, radius=0)

    def alarm(self, x, y):
        """Marks a pool that makes no progress; takes 12 x 12."""
        self.add(f'<circle cx="{x + 6:.1f}" cy="{y + 6:.1f}" r="6" fill="#000000"/>')
        self.add(f'<text x="{x + 6:.1f}" y="{y + 9.7:.1f}" font-size="10" font-weight="bold" fill="#ffffff" '
                 'text-anchor="middle">!</text>')


def workers_width(load):
    return text_width(number(load.busy) + number(load.idle), SMALL) + 2 * WORKER


def draw_workers(canvas, x, baseline, load, ink, room):
    """Busy and idle workers: a number and a full square, and, if there is room, a number and a hollow square."""
    counts = ((load.busy, True), (load.idle, False))
    for count, full in counts if workers_width(load) <= room else counts[:1]:
        canvas.text(x, baseline, number(count), fill=ink)
        x += text_width(number(count), SMALL)
        canvas.square(x + 2, baseline, ink, full)
        x += WORKER


def ink_of(load):
    """Counts of idle workers are drawn less strongly."""
    return INKS[load.level] if load.level else FAINT


def wait_words(load):
    return f'{number(load.waiting)} wait' if load.waiting else ''


def held_words(load):
    return f'{number(load.held)} held' if load.held else ''


def pile_words(load):
    return [words for words in (wait_words(load), held_words(load)) if words]


class Chip:
    """An unbound pool: its number and properties, workers, items."""

    height = 2 * ROW + 7

    def __init__(self, picture, pool):
        self.picture, self.pool = picture, pool
        self.load = picture.loads[pool.id]
        self.name = f'pool {pool.id} {pic.pool_name(pool).strip()}'.rstrip()
        counts = workers_width(self.load) + sum(text_width(word, SMALL) + 8 for word in pile_words(self.load))
        self.width = max(text_width(self.name, SMALL, True) + 16 * self.load.is_stuck, counts) + 12

    def draw(self, canvas, x, y):
        level = self.load.level
        canvas.open(pic.pool_title(self.picture, self.pool), 'pool')
        canvas.rect(x, y, self.width, self.height, FILLS[level], LINE, radius=6)
        canvas.text(x + 6, y + ROW, self.name, fill=INKS[level], bold=True)
        if self.load.is_stuck:
            canvas.alarm(x + self.width - 16, y + 3)
        draw_workers(canvas, x + 6, y + 2 * ROW, self.load, ink_of(self.load), self.width)
        left = x + 6 + workers_width(self.load)
        for words in pile_words(self.load):
            canvas.text(left, y + 2 * ROW, words, fill=INKS[level])
            left += text_width(words, SMALL) + 8
        canvas.close()


class MoreChip:
    """Represents the pools of a group that have the least to do."""

    height = Chip.height

    def __init__(self, picture, pools):
        self.text = f'and {pic.plural(len(pools), "pool")} more'
        self.load = picture.load_of(pools)
        self.title = [f'pool {pool.id} {pic.pool_name(pool).strip()}: {picture.loads[pool.id].words()}'
                      for pool in pools]
        self.counts = f'{self.load.busy} busy, {number(self.load.pile)} items'
        self.width = max(text_width(self.text, SMALL), text_width(self.counts, SMALL)) + 12

    def draw(self, canvas, x, y):
        level = self.load.level
        canvas.open(self.title, 'pools')
        canvas.rect(x, y, self.width, self.height, FILLS[level], LINE, dash='2 2', radius=6)
        canvas.text(x + 6, y + ROW, self.text, fill=INKS[level])
        canvas.text(x + 6, y + 2 * ROW, self.counts, fill=INKS[level])
        canvas.close()


def make_chips(picture, pools):
    order = sorted(pools, key=lambda pool: (picture.loads[pool.id].is_stuck, picture.loads[pool.id].pile,
                                            picture.loads[pool.id].busy, -pool.id), reverse=True)
    shown = order if len(order) <= CHIPS + 1 else order[:CHIPS]
    chips = [Chip(picture, pool) for pool in sorted(shown, key=lambda pool: pool.id)]
    return chips + ([MoreChip(picture, order[CHIPS:])] if len(shown) < len(order) else [])


class CpuCell:
    """A CPU with the sum of its pools, for machines with many."""

    width, height = 62, 4 * ROW + 3

    def __init__(self, picture, group):
        self.picture, self.group = picture, group
        self.cpu = picture.cpus[group.cpus[0]]
        self.load = picture.load_of(group.pools)

    def title(self):
        lines = [f'CPU {self.cpu.cpu}' + ('' if self.cpu.online else ', offline')
                 + (', isolated from unbound work' if self.picture.is_isolated(self.cpu.cpu) else ''),
                 ', '.join(f'{pic.KIND_NAMES[kind]} {getattr(self.cpu, kind)}'
                           for kind in ('socket', 'node', 'llc', 'shard', 'core')
                           if getattr(self.cpu, kind) is not None)]
        for pool in self.group.pools:
            lines += [f'pool {pool.id} {pic.pool_name(pool).strip()}: {self.picture.loads[pool.id].words()}']
            lines += [f'    runs {pic.running(pool)}'] if pool.busy else []
        return [line for line in lines if line]

    def draw_box(self, canvas, x, y, fill):
        """The outline shows whether the CPU gets unbound work. A hatched CPU is offline."""
        accent = self.group.default_pod
        isolated = self.picture.is_isolated(self.cpu.cpu)
        canvas.rect(x, y, self.width, self.height, fill, ACCENT if accent else INK if isolated else LINE,
                    2 if isolated or accent else 1, '5 3' if isolated else '')
        if not self.cpu.online:
            canvas.rect(x, y, self.width, self.height, 'url(#offline)')

    def draw(self, canvas, x, y):
        level = self.load.level
        ink = INKS[level]
        canvas.open(self.title(), 'cpu')
        self.draw_box(canvas, x, y, FILLS[level])
        canvas.text(x + 4, y + ROW, str(self.cpu.cpu), 11, ink, bold=True)
        if self.load.is_stuck:
            canvas.alarm(x + self.width - 15, y + 3)
        if self.load.level or self.cpu.online:
            draw_workers(canvas, x + 4, y + 2 * ROW - 1, self.load, ink_of(self.load), self.width - 4)
        else:
            canvas.text(x + 4, y + 2 * ROW - 1, 'offline', fill=FAINT)
        for row, words in enumerate(pile_words(self.load), 3):
            canvas.text(x + 4, y + row * ROW - 1, words, fill=ink)
        canvas.close()


class CpuTable(CpuCell):
    """A CPU with its pools one by one, for machines with few."""

    width = 316

    def __init__(self, picture, group):
        super().__init__(picture, group)
        self.pools = sorted(group.pools, key=lambda pool: (pool.kind == 'bh', pool.id))
        self.height = HEAD + (ROW + 2) * max(len(self.pools), 1) + 4

    def draw(self, canvas, x, y):
        canvas.open(self.title(), 'cpu')
        self.draw_box(canvas, x, y, '#ffffff')
        note = ', '.join(word for word, true in (('offline', not self.cpu.online),
                                                 ('isolated', self.picture.is_isolated(self.cpu.cpu))) if true)
        canvas.text(x + 5, y + ROW, f'CPU {self.cpu.cpu}', 11, bold=True)
        canvas.text(x + self.width - 5, y + ROW, note, fill=FAINT, end=True)
        for row, pool in enumerate(self.pools):
            self.draw_pool(canvas, x + 3, y + HEAD + row * (ROW + 2), pool)
        canvas.close()

    def draw_pool(self, canvas, x, y, pool):
        load = self.picture.loads[pool.id]
        ink = ink_of(load)
        canvas.open(pic.pool_title(self.picture, pool), 'pool')
        canvas.rect(x, y, self.width - 6, ROW + 1, FILLS[load.level])
        name = pic.pool_name(pool).strip()
        canvas.text(x + 3, y + ROW - 3, shorten(f'pool {pool.id} {name}' if pool.kind == 'unbound' else name, 14),
                    fill=ink)
        draw_workers(canvas, x + 98, y + ROW - 3, load, ink, 84)
        canvas.text(x + 182, y + ROW - 3, wait_words(load), fill=ink)
        canvas.text(x + 238, y + ROW - 3, held_words(load), fill=ink)
        if load.is_stuck:
            canvas.alarm(x + self.width - 20, y + 1)
        canvas.close()


class Frame:
    """A socket, node, LLC, shard or core: label, pools, and its contents in a grid."""

    def __init__(self, picture, group, detailed, widen):
        self.picture, self.group = picture, group
        self.kind = group.kinds[-1]
        self.is_core = self.kind == 'core'
        self.pad = 4 if self.is_core else PAD
        self.chips = make_chips(picture, group.pools)
        self.items = [make_item(picture, child, detailed, widen) for child in group.children]
        aspect = ASPECTS.get(self.kind, 2) * (1 if self.kind in ('shard', 'core') else widen)
        self.rows = best_rows(self.items, aspect, self.pad)
        self.measure()

    def label(self):
        """As much of the label as fits. The tooltip has the CPUs, too."""
        text = self.group.label
        if self.kind != 'machine':
            longer = f'{text}: {pic.cpus_words(self.group.cpus)}'
            text = longer if text_width(longer, 11, True) <= self.width - 2 * PAD else text
        return text

    def measure(self):
        widest_chip = max((chip.width for chip in self.chips), default=0)
        self.head = 0 if self.is_core or self.kind == 'machine' else HEAD
        grid_width, grid_height = extent(self.rows, self.pad)
        inner = max(grid_width, widest_chip, 0 if not self.head else text_width(self.group.label, 11, True))
        if len(self.chips) > 1:         # two side by side do not make it much wider
            inner = max(inner, min(2 * widest_chip + PAD, inner * 1.4))
        self.width = inner + 2 * self.pad
        self.chip_rows = flow(self.chips, inner, PAD)
        self.height = self.pad + self.head + len(self.chip_rows) * (Chip.height + PAD) + grid_height + self.pad

    def draw(self, canvas, x, y):
        canvas.open(pic.group_title(self.picture, self.group), self.kind)
        self.draw_frame(canvas, x, y)
        top = y + self.pad + self.head
        for row in self.chip_rows:
            left = x + self.pad
            for chip in row:
                chip.draw(canvas, left, top)
                left += chip.width + PAD
            top += Chip.height + PAD
        self.draw_grid(canvas, x + self.pad, top)
        canvas.close()

    def draw_frame(self, canvas, x, y):
        if self.kind == 'machine':
            return
        accent = self.group.default_pod
        canvas.rect(x, y, self.width, self.height, BACKGROUNDS[self.kind], ACCENT if accent else LINE,
                    2 if accent else 1, radius=4)
        if self.head:
            canvas.text(x + self.pad, y + 16, self.label(), 11, ACCENT if accent else INK, bold=True)

    def draw_grid(self, canvas, x, y):
        for row in self.rows:
            left, height = x, max(item.height for item in row)
            for item in row:
                if isinstance(item, Frame):
                    item.height = height        # neighbours line up
                item.draw(canvas, left, y)
                left += item.width + self.pad
            y += height + self.pad


def make_item(picture, group, detailed, widen):
    """A core with one thread is shown as its CPU."""
    while 'cpu' not in group.kinds and 'core' in group.kinds and len(group.children) == 1:
        group = group.children[0]
    if 'cpu' in group.kinds:
        return CpuTable(picture, group) if detailed else CpuCell(picture, group)
    return Frame(picture, group, detailed, widen)


def flow(items, room, gap):
    """Rows of items, each as full as the room allows."""
    rows, left = [], -1
    for item in items:
        if item.width > left:
            rows.append([])
            left = room
        rows[-1].append(item)
        left -= item.width + gap
    return rows


def extent(rows, gap):
    """Width and height of rows of items."""
    return (max(sum(item.width + gap for item in row) for row in rows) - gap,
            sum(max(item.height for item in row) + gap for row in rows) - gap)


def best_rows(items, aspect, gap):
    """The rows that come closest to the aspect ratio and leave little space empty."""
    area = sum((item.width + gap) * (item.height + gap) for item in items)

    def badness(rows):
        width, height = extent(rows, gap)
        return abs(math.log(width / height / aspect)) + (width + gap) * (height + gap) / area

    rooms = [sum(item.width + gap for item in items[:number]) for number in range(1, len(items) + 1)]
    widest = max(item.width for item in items)
    return min((flow(items, max(room, widest), gap) for room in rooms), key=badness)


def lay_out(picture):
    """The machine. The width of its groups is chosen so that the whole fits a screen best."""
    detailed = len(picture.cpus) <= DETAILED_CPUS
    frames = [Frame(picture, picture.root, detailed, widen) for widen in (1, 0.6, 1.6, 2.4)]
    return min(frames, key=lambda frame: abs(math.log(frame.width / frame.height / ASPECTS['machine'])))


class Legend:
    """The legend, in as many rows as it needs."""

    def __init__(self, picture, width):
        self.picture = picture
        self.entries = [(self.swatch(level), 18, name) for level, name in enumerate(pic.LEVEL_NAMES)]
        self.entries += [(self.worker(True), 10, 'busy worker'), (self.worker(False), 10, 'idle worker'),
                         (self.swatch(0, 'hatched'), 18, 'offline CPU'), (self.swatch(0, 'dashed'), 18, 'isolated CPU'),
                         (lambda canvas, x, y: canvas.alarm(x, y - 9), 14, f'no progress for {pic.STUCK_S}s')]
        if picture.default_scope:
            self.entries.append((self.swatch(0, 'accent'), 18, f'pod of {picture.default_scope.name}, the default'))
        self.rows, room = [], -1
        for entry in self.entries:
            taken = self.taken(entry)
            if taken > room:
                self.rows.append([])
                room = width
            self.rows[-1].append(entry)
            room -= taken
        self.height = 18 * len(self.rows)

    @staticmethod
    def taken(entry):
        return entry[1] + 5 + text_width(entry[2], SMALL) + 14

    @staticmethod
    def swatch(level, style=''):
        def draw(canvas, x, y):
            stroke = {'accent': ACCENT, 'dashed': INK}.get(style, LINE)
            canvas.rect(x, y - 10, 18, 12, FILLS[level], stroke, 1 if stroke == LINE else 2,
                        '5 3' if style == 'dashed' else '')
            if style == 'hatched':
                canvas.rect(x, y - 10, 18, 12, 'url(#offline)')
        return draw

    @staticmethod
    def worker(full):
        return lambda canvas, x, y: canvas.square(x + 1, y, INK, full)

    def draw(self, canvas, x, y):
        for row in self.rows:
            left = x
            for entry in row:
                draw, width, name = entry
                draw(canvas, left, y + 12)
                canvas.text(left + width + 5, y + 12, name)
                left += self.taken(entry)
            y += 18


class HotList:
    """The most loaded pools in words: what they run, what waits in them."""

    row = 2 * ROW + 8

    def __init__(self, picture, width):
        self.picture, self.width = picture, width
        self.height = 20 + (self.row * len(picture.hot) if picture.hot else ROW + 4)

    def draw(self, canvas, x, y):
        canvas.text(x, y + 12, 'Most loaded pools', 12, bold=True)
        y += 20
        if not self.picture.hot:
            canvas.text(x, y + ROW, 'none: no worker runs anything, and nothing waits')
        chars = int((self.width - 20) / (10 * MONO_WIDTH))
        for pool in self.picture.hot:
            load = self.picture.loads[pool.id]
            canvas.open(pic.pool_title(self.picture, pool), 'hot')
            canvas.rect(x, y + 2, 12, 2 * ROW + 2, FILLS[load.level], LINE)
            canvas.text(x + 20, y + ROW, shorten(f'pool {pool.id}, {pic.pool_place(pool)}: {load.words()}', chars), 10,
                        mono=True, bold=True)
            canvas.text(x + 20, y + 2 * ROW + 1, shorten(pic.pool_doing(self.picture, pool), chars), 10, mono=True)
            canvas.close()
            y += self.row


OFFLINE_PATTERN = ('<defs><pattern id="offline" width="6" height="6" patternUnits="userSpaceOnUse" '
                   'patternTransform="rotate(45)"><rect width="2" height="6" fill="#7d8893" fill-opacity="0.4"/>'
                   '</pattern></defs>')


def draw(snapshot):
    """The whole SVG document as a string."""
    picture = pic.build(snapshot)
    machine = lay_out(picture)
    width = max(machine.width - 2 * PAD, MIN_WIDTH)
    legend, hot = Legend(picture, width), HotList(picture, width)
    lines = [line for text in (*pic.headlines(picture), pic.counts(picture)) for line in wrap(text, width)]

    canvas = Canvas()
    top = 2 * PAD + 12
    for index, line in enumerate(lines):
        canvas.text(2 * PAD, top + 16 * index, line, 12 if index else 13, INK if index else ACCENT, bold=not index)
    top += 16 * len(lines) - 4
    legend.draw(canvas, 2 * PAD, top)
    top += legend.height
    machine.draw(canvas, PAD, top)
    top += machine.height + PAD
    hot.draw(canvas, 2 * PAD, top)
    top += hot.height + PAD

    total = width + 4 * PAD
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{top:.0f}" '
            f'viewBox="0 0 {total:.0f} {top:.0f}" font-family={quoteattr(SANS)}>',
            f'<title>Workqueues of {escape(snapshot.kernel.release)}</title>', OFFLINE_PATTERN,
            f'<rect width="{total:.0f}" height="{top:.0f}" fill="#ffffff"/>']
    return '\n'.join(head + canvas.lines + ['</svg>']) + '\n'


def wrap(text, width):
    """Lines of header text that fit."""
    lines = ['']
    for word in text.split(' '):
        if lines[-1] and text_width(f'{lines[-1]} {word}', 13, True) > width:
            lines.append('')
        lines[-1] = f'{lines[-1]} {word}'.strip()
    return lines

# SPDX-License-Identifier: GPL-2.0
"""Draw what CPUs waited for, as an SVG: fields, below each who waited, and below that after whose write.

Pictures of several kernels stand one above the other, and 1 ns for an item is as wide in each. So a loss and a gain are
seen at once.
"""
import colorsys
import dataclasses
import html
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from wqlab.simulated.explain import Explained, Kernels

WIDTH, MARGIN, ROW, FONT = 1280, 10, 20, 12
LETTER = 6.6            # the width of one, about
LEGEND = 'a field; below it who waited for it, and below that after whose write. Warm: objects of the workqueue.'
NARROW = 3              # boxes of fewer pixels are not drawn


@dataclasses.dataclass
class Box:
    name: str
    ns: float
    colour: str
    inner: list['Box']


def colour(name: str, workqueue: bool) -> str:
    """Return the same colour for the same name: warm for the workqueue's, cold for all else."""
    shade = zlib.crc32(name.encode()) % 40
    hue, light, saturation = (20 if workqueue else 190) + shade, 0.62 + shade % 5 * 0.03, 0.75 if workqueue else 0.35
    return '#' + ''.join(f'{round(255 * part):02x}' for part in colorsys.hls_to_rgb(hue / 360, light, saturation))


def boxes(found: Explained) -> list[Box]:
    """Return a box for each field."""
    return [Box(row['field'], row['ns'], colour(row['field'], row['workqueue']), waiters(row)) for row in found['rows']]


def waiters(row: dict[str, Any]) -> list[Box]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for pair in row['pairs']:
        by_name.setdefault(pair['waiter'], []).append(pair)
    found = [Box(name, sum(pair['ns'] for pair in pairs), colour(name, row['workqueue']),
                 [Box(pair['writer'], pair['ns'], colour(pair['writer'], row['workqueue']), [])
                  for pair in pairs]) for name, pairs in by_name.items()]
    return sorted(found, key=lambda box: -box.ns)


def drawn(some: Sequence[Box], x: float, y: int, scale: float, whole: float) -> Iterator[str]:
    """Yield the boxes side by side, with what is in each below it."""
    for box in some:
        width = box.ns * scale
        if width >= NARROW:
            words = html.escape(f'{box.name}: {box.ns:,.1f} ns for an item, {box.ns / whole:.1%}')
            yield (f'<g><title>{words}</title><rect x="{x:.1f}" y="{y}" width="{width - 0.5:.1f}" height="{ROW - 1}" '
                   f'fill="{box.colour}"/>{label(box.name, x, y, width)}</g>')
            yield from drawn(box.inner, x, y + ROW, scale, whole)
        x += width


def label(name: str, x: float, y: int, width: float) -> str:
    """Return as much of a name as fits."""
    room = int((width - 6) / LETTER)
    if room < 3:
        return ''
    text = name if len(name) <= room else f'{name[:room - 1]}\N{HORIZONTAL ELLIPSIS}'
    return f'<text x="{x + 3:.1f}" y="{y + ROW - 6}">{html.escape(text)}</text>'


def heading(name: str, found: Explained) -> list[str]:
    return [f'{name}: {found["ns"]:,.0f} ns of waiting for each item',
            f'CPUs executed {found["executing"]:.0%} of the time, waited for cache lines {found["waiting"]:.0%}, were '
            f'halted {found["idle"]:.0%}; {found["wakes"]:.2f} wake-ups and {found["ipis"]:.2f} IPIs for each item']


def picture(title: str, kernels: Kernels) -> str:
    """Return an SVG, with the kernels in this order."""
    most = max((found['ns'] for _, found in kernels), default=0) or 1
    scale = (WIDTH - 2 * MARGIN) / most
    y, body = MARGIN + ROW, [f'<text x="{MARGIN}" y="{MARGIN + FONT}" font-weight="bold">{html.escape(title)}</text>']
    for name, found in kernels:
        for row in heading(name, found):
            y += ROW
            body.append(f'<text x="{MARGIN}" y="{y - 6}">{html.escape(row)}</text>')
        body += drawn(boxes(found), MARGIN, y, scale, found['ns'] or 1)
        y += 3 * ROW + ROW // 2
    y += ROW
    body.append(f'<text x="{MARGIN}" y="{y - 6}" fill="#666">{LEGEND}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + MARGIN}" '
            f'font-family="monospace" font-size="{FONT - 1}"><rect width="100%" height="100%" fill="white"/>\n'
            + '\n'.join(body) + '\n</svg>\n')

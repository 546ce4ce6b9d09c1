# SPDX-License-Identifier: GPL-2.0
"""Quote parts of our documents as plain text, for a mail. So its figures are always those of the documents."""
import dataclasses
import re
import textwrap

WIDTH = 72
RULE = re.compile(r'=+(?: +=+)+$')
UNDERLINE = re.compile(r'([=~-])\1{2,}$')
RATIO = re.compile(r'(\d+\.\d+) \((\d+\.\d+)-(\d+\.\d+)\)$')


@dataclasses.dataclass
class Table:
    head: list[str]
    rows: list[list[str]]

    def without(self, columns: list[str]) -> 'Table':
        keep = [number for number, name in enumerate(self.head) if name not in columns]
        return Table([self.head[number] for number in keep], [[row[number] for number in keep] for row in self.rows])

    def text(self) -> str:
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        return '\n'.join('  '.join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)

    def ratios(self) -> list[tuple[str, float, float, float]]:
        """Return (row, ratio, least, most) for each row that has a ratio with its extremes."""
        found = []
        for row in self.rows:
            match = next(filter(None, (RATIO.match(cell) for cell in row)), None)
            if match:
                two = self.head[0] == 'Topology' or (self.head[1] == 'scope' and row[1] != '-')
                name = ' '.join(row[:2]) if two else row[0]
                found.append((name, float(match[1]), float(match[2]), float(match[3])))
        return found


def plain(text: str) -> str:
    """Return the text without the marks of reStructuredText and Markdown."""
    text = re.sub(r'``([^`]*)``|`([^`]*)`', lambda match: match[1] or match[2] or '', text)
    text = re.sub(r'\*{1,2}([^*\s](?:[^*]*[^*\s])?)\*{1,2}', r'\1', text)
    return text.replace('\\-', '-').replace('\\|', '|')


def heading(lines: list[str], number: int) -> str:
    """Return the level of the heading that begins in this line: "#" and more, or the letter below it; or ''."""
    mark = re.match(r'(#+) \S', lines[number])
    if mark:
        return mark[1]
    below = UNDERLINE.match(lines[number + 1]) if number + 1 < len(lines) else None
    return below[1] if below and re.match(r'\w', lines[number]) else ''


def section(text: str, title: str) -> list[str] | None:
    """Return the lines below this heading, up to the next heading of its level."""
    lines = text.splitlines()
    levels = [heading(lines, number) for number in range(len(lines))]
    start = next((number for number, line in enumerate(lines) if levels[number] and line.lstrip('# ') == title), None)
    if start is None:
        return None
    level = levels[start]
    end = next((number for number in range(start + 1, len(lines))
                if levels[number] == level or (level[0] == '#' and levels[number] and levels[number] < level)),
               len(lines))
    return lines[start + (1 if level[0] == '#' else 2):end]


def blocks(lines: list[str]) -> list[list[str]]:
    """Return the paragraphs. Items of a list in Markdown are paragraphs, too."""
    found: list[list[str]] = [[]]
    for number, line in enumerate(lines):
        if not line.strip():
            found.append([])
        elif heading(lines, number):
            found += [[line.lstrip('# ')], []]
        elif UNDERLINE.match(line) and number and heading(lines, number - 1):
            continue
        elif line.startswith('- '):
            found.append([line])
        else:
            found[-1].append(line)
    return [block for block in found if block]


def table_of(block: list[str]) -> Table | None:
    if RULE.match(block[0]):
        starts = [match.start() for match in re.finditer('=+', block[0])]
        spans = list(zip(starts, [*starts[1:], None]))
        cells = [[plain(line[start:end]).strip() for start, end in spans] for line in block if not RULE.match(line)]
    elif block[0].startswith('|'):
        cells = [[plain(cell).strip() for cell in line.strip('| ').split('|')] for line in block
                 if not re.fullmatch('[-| :]+', line)]
    else:
        return None
    for above, row in zip(cells, cells[1:]):
        if row[0] == '\\' and any(map(RATIO.match, row)):
            row[0] = above[0]       # the same as above
    return Table(cells[0], cells[1:])


def flowed(block: list[str]) -> str:
    """Return a paragraph with lines of the width of a mail."""
    indent = block[0][:len(block[0]) - len(block[0].lstrip())]
    if not indent and len(block) > 1 and block[1].startswith('  ') and not block[0].startswith('- '):
        return f'{plain(block[0])}\n{flowed(block[1:])}'        # a term and its definition
    hang = indent + ('  ' if block[0].startswith('- ') else '')
    words = ' '.join(line.strip() for line in block)
    if words.endswith('::'):
        words = words[:-1]
    return textwrap.fill(plain(words), WIDTH, initial_indent=indent, subsequent_indent=hang, break_on_hyphens=False,
                         break_long_words=False)


class Quote:
    """Blocks of a document as plain text, and the tables among them."""

    def __init__(self, found: list[list[str]], drop: list[str]) -> None:
        self.texts: list[str] = []
        self.tables: list[Table] = []
        literal: int | None = None      # what is indented by more than this is kept as it is
        hidden = False
        for block in found:
            indent = len(block[0]) - len(block[0].lstrip())
            if indent and hidden:
                continue
            hidden = block[0].startswith('.. ')
            table = table_of(block)
            if table:
                table = table.without(drop)
                self.tables.append(table)
                self.texts.append(table.text())
            elif literal is not None and indent > literal:
                self.texts.append('\n'.join(block))
                continue
            elif not hidden:
                self.texts.append(flowed(block))
            last = block[-1]
            literal = len(last) - len(last.lstrip()) if last.endswith('::') else None

    def __str__(self) -> str:
        return '\n\n'.join(self.texts)


def start_of(found: list[list[str]], words: str) -> int | None:
    """Return the number of the first block that begins with these words."""
    return next((number for number, block in enumerate(found)
                 if plain(' '.join(map(str.strip, block))).lstrip('- ').startswith(words)), None)


def measured(found: list[list[str]]) -> list[list[str]]:
    """Return each paragraph that ends in "::", with the output of a program that follows it."""
    kept: list[list[str]] = []
    keeping = False
    for number, block in enumerate(found):
        if block[0].startswith(' '):
            kept += [block] * keeping
        else:
            following = found[number + 1] if number + 1 < len(found) else ['']
            keeping = block[-1].endswith('::') and following[0].startswith(' ') and len(following) > 1
            kept += [block] * keeping
    return kept

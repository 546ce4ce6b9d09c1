# SPDX-License-Identifier: GPL-2.0
"""The cover letter. cover.txt has its text. Lines that begin with @ stand for what is filled in.

    @quote FILE | SECTION [| from WORDS] [| until WORDS] [| drop COLUMN, COLUMN]
                    this section of a document, or its paragraphs between those that begin with
                    these words, without these columns of its tables
    @measured FILE | SECTION
                    the outputs of programs in it, with the paragraphs before them
    @verdict        what all tables together say: how many ratios are below 1
    @order          what the patches after the first add
    @base           what the series applies to
    @linux@ and @project@ are words within a line.
"""
import re
from collections.abc import Callable
from pathlib import Path

from wqlab.paths import ROOT
from wqlab.series import quote
from wqlab.steps import Failure, shown

TEXT = Path(__file__).with_name('cover.txt')


def options_of(words: list[str], place: str) -> dict[str, str]:
    found = {}
    for word in words:
        name, _, value = word.partition(' ')
        if name not in ('from', 'until', 'drop') or not value:
            raise Failure(f'{place}: unknown: {word}: give from, until or drop, and a value')
        found[name] = value
    return found


class Letter:
    def __init__(self, values: dict[str, str], say: Callable[[str], None], root: Path = ROOT) -> None:
        """@values: base, order, linux and project, as text."""
        self.values, self.say, self.root = values, say, root
        self.tables: list[tuple[str, quote.Table]] = []

    def blocks_of(self, name: str, title: str) -> list[list[str]]:
        path = self.root / name
        lines = quote.section(path.read_text(), title) if path.is_file() else None
        if lines is None:
            raise Failure(f'{shown(TEXT)} quotes the section "{title}" of {name}, which does not exist')
        return quote.blocks(lines)

    def part(self, found: list[list[str]], options: dict[str, str], place: str) -> list[list[str]]:
        """Return the blocks between those that begin with the given words. If there are none: all."""
        ends = {'from': 0, 'until': len(found)}
        for name in ends:
            if name in options:
                number = quote.start_of(found, options[name])
                if number is None:
                    self.say(f'note: no paragraph in {place} begins with "{options[name]}", so the letter quotes too '
                             f'much: correct {shown(TEXT)}')
                else:
                    ends[name] = number
        return found[ends['from']:ends['until']]

    def quoted(self, what: str, line: str) -> str:
        words = [word.strip() for word in line.split('|')]
        if len(words) < 2:
            raise Failure(f'{shown(TEXT)}: @{what} needs FILE | SECTION: {line}')
        name, title, *more = words
        place = f'{name}, "{title}"'
        options = options_of(more, shown(TEXT))
        found = self.part(self.blocks_of(name, title), options, place)
        if what == 'measured':
            found = quote.measured(found)
        made = quote.Quote(found, re.split(', *', options.get('drop', '')))
        if not made.texts:
            raise Failure(f'{shown(TEXT)}: @{what} finds nothing in {place}')
        self.tables += [(name, table) for table in made.tables]
        return str(made)

    def verdict(self) -> str:
        """Say how many ratios of rates are below 1, and where the extremes or the interval lack 1."""
        rows = [row for _, table in self.tables for row in table.ratios()]
        if not rows:
            raise Failure(f'{shown(TEXT)}: no table that it quotes has a ratio with its extremes')
        below = sum(ratio < 1 for _, ratio, _, _ in rows)
        worse, better = ([f'    {name} {ratio:.2f} ({least:.2f}-{most:.2f})' for name, ratio, least, most in rows
                          if holds(least, most)] for holds in (lambda least, most: most < 1,
                                                               lambda least, most: least > 1))
        return '\n'.join([
            f'- Of {len(rows)} ratios of rates below, {below} are less than 1. In {len(worse)}, all that the',
            f'  brackets contain is below 1{":" * bool(worse)}', *worse,
            f'  and in {len(better)}, all of it is above 1{":" if better else "."}', *better])

    def filled(self, line: str) -> str:
        match = re.match(r'@(\w+)(?: (.+))?$', line)
        if not match:
            for name in ('linux', 'project'):
                line = line.replace(f'@{name}@', self.values[name])
            return line
        what, rest = match.groups()
        if what in ('quote', 'measured') and rest:
            return self.quoted(what, rest)
        if what in ('base', 'order') and not rest:
            return self.values[what]
        if what == 'verdict' and not rest:
            return line         # once all tables are known
        raise Failure(f'{shown(TEXT)}: unknown: {line}: {shown(__file__)} lists the lines that may begin with @')

    def text(self) -> str:
        """Return the letter: the subject, an empty line, and the rest."""
        lines = [self.filled(line) for line in TEXT.read_text().splitlines()]
        letter = '\n'.join(self.verdict() if line == '@verdict' else line for line in lines) + '\n'
        return re.sub(r'\n{3,}', '\n\n', letter)

# SPDX-License-Identifier: GPL-2.0
"""Tables are aligned, and those for documents are reStructuredText."""
from wqlab import tables

HEAD = ('name', 'items/s', 'said')
ROWS = [('a', '1,000', 'well'), ('longer', '7', '')]


def test_plain():
    assert tables.lines(HEAD, ROWS, {1}) == ['name      items/s  said', 'a           1,000  well', 'longer          7']


def test_two_lines_of_heads_and_no_row():
    assert [line.split() for line in tables.lines(('a\nb', 'c'), [], ())] == [['a', 'c'], ['b']]


def test_rst():
    text = tables.rst(HEAD, ROWS, {1}).splitlines()
    rule = text[0]
    assert set(rule) == {'=', ' '} and [number for number, line in enumerate(text) if line == rule] == [0, 2, 5]
    gaps = [place for place, sign in enumerate(rule) if sign == ' ']
    assert len(gaps) == 4 and all(line[gap:gap + 1].strip() == '' for line in text for gap in gaps)
    assert [line.split() for line in text[3:5]] == [list(ROWS[0]), ['longer', '7']]

# SPDX-License-Identifier: GPL-2.0
"""workqueue-differences.rst lists what differs from the base kernel: texts, names of structures and variables.

Both lists are held against the sources of the two kernels.
"""
import re

import pytest

from wqlab.kernels import base
from wqlab.kernels.kinds import LINUX
from wqlab.paths import ROOT

DOCUMENT = ROOT / 'Documentation/core-api/workqueue-differences.rst'
OURS = [*sorted((ROOT / 'kernel/workqueue').glob('*.[ch]')), ROOT / 'kernel/workqueue_internal.h']
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|#include[^\n]*', re.S)
STRING = r'"(?:[^"\\]|\\.)*"'
PRINTING = re.compile(rf'\b(?:pr_\w+|printk\w*|\w*WARN\w*)\(((?:[^;"]|{STRING})*);')
CONVERSION = re.compile(r'%[-*.\d]*(?:ll|l)?(?:p[A-Za-z]*|[a-z])')
WORD = re.compile(r'[a-z]{3}')
TYPE = re.compile(r'^(?:struct|enum) (\w+) \{', re.M)
VARIABLE = re.compile(r'^(?:static |const |struct |enum |unsigned |bool |int |long )+(?:\w+ )?[ *]*(?:const )?(\w+)'
                      r'(?:\[[^\]]*\])*(?: __\w+)*(?: = ?.*)?[;{,]\s*$', re.M)
DEFINED = re.compile(r'^(?:static )?(?:DEFINE_PER_CPU\w*\([^,]*, |(?:DEFINE_(?!PER_CPU)\w+|LIST_HEAD)\()(\w+)', re.M)
NOTHING = '(nothing)'


def code(*paths):
    return '\n'.join(COMMENT.sub('', path.read_text(encoding='utf-8')) for path in paths)


def strings(text):
    """Return the string literals. The compiler joins those that follow each other."""
    joined = (''.join(string[1:-1] for string in re.findall(STRING, run))
              for run in re.findall(rf'(?:{STRING}\s*)+', text))
    return [re.sub(r'\\(.)', lambda match: {'n': '\n'}.get(match[1], match[1]), text) for text in joined]


def messages(text):
    """Return the formats of what is printed, but for those that only put numbers and names side by side."""
    found = [message for call in PRINTING.finditer(text) for message in strings(call[1])[:1]]
    return [message for message in found if WORD.search(CONVERSION.sub('', message))]


def parts(message):
    """Return the parts between the conversions, and before each name=value: some lines are printed in pieces."""
    found = re.split(rf'{CONVERSION.pattern}| (?=\w+=)', message.replace('workqueue: ', ''))
    return [part.strip(' :') for part in found if WORD.search(part)]


def table(title):
    """Return the rows of the first table after a title."""
    text = DOCUMENT.read_text(encoding='utf-8').partition(f'\n{title}\n')[2]
    _, body, _ = re.split(r'^ *=+(?: +=+)+\n', text, flags=re.M)[1:4]
    return [re.split(r' {2,}', line.strip()) for line in body.splitlines()]


def pieces(cell):
    """Return what stands between the dots of a cell."""
    found = (piece.strip(' ,:') for piece in re.split(r'\.\.\.|\(``\w+\(\)``\)', cell))
    return [piece for piece in found if piece]


def describes(cell, message):
    return all(piece in message for piece in pieces(cell))


@pytest.fixture(scope='module')
def kernels():
    return code(base.Base(LINUX).tree / 'kernel/workqueue.c'), code(*OURS)


@pytest.mark.parametrize('column', [0, 1], ids=['base', 'ours'])
def test_texts_that_differ(kernels, column):
    """Each row has a text that only this kernel prints, and each such text has a row."""
    rows = [tuple(row) for row in table('Texts') if row[0] != 'base kernel' and row[column] != NOTHING]
    said = '\n'.join(strings(kernels[1 - column]))
    lacking = [message for message in messages(kernels[column]) if not all(part in said for part in parts(message))]
    described = set()
    for message in lacking:
        fitting = [row for row in rows if describes(row[column], message)]
        assert fitting, message
        described.add(max(fitting, key=lambda row: len(row[column])))
    assert described == set(rows)


def names(text):
    return {name for kind in (TYPE, VARIABLE, DEFINED) for name in kind.findall(text)}


def test_names_that_differ(kernels):
    theirs, ours = kernels
    used = set(re.findall(r'\w+', ours))
    rows = {there: here for there, here, _ in table('have the same name. Test: ``tests/host/test_differences.py``.')
            if there != 'base kernel'}
    assert len(names(theirs)) > 70
    assert {f'``{name}``' for name in names(theirs) - used} == set(rows)
    assert {here.strip('`') for here in rows.values()} - {'none'} <= used - set(re.findall(r'\w+', theirs))

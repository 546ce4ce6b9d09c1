# SPDX-License-Identifier: GPL-2.0
"""Tables of text."""


def lines(head, rows, numbers, style='plain'):
    """The lines of a table; the cells of the columns in `numbers` are aligned to the right."""
    from tabulate import tabulate  # only here: --help works before build/venv is made
    align = ['right' if column in numbers else 'left' for column in range(len(head))]
    text = tabulate(rows, head, tablefmt=style, colalign=align, disable_numparse=True)
    return [line.rstrip() for line in text.splitlines()]


def rst(head, rows, numbers):
    """The same as a table of reStructuredText."""
    return '\n'.join(lines(head, rows, numbers, 'rst')) + '\n'

# SPDX-License-Identifier: GPL-2.0
"""Tables as plain text and as reStructuredText."""


def lines(head, rows, numbers, style='plain'):
    """Return a table as lines of text. Cells of the columns in `numbers` are aligned to the right."""
    from tabulate import tabulate  # imported here so that --help works before build/venv exists
    align = ['right' if column in numbers else 'left' for column in range(len(head))]
    text = tabulate(rows, head, tablefmt=style, colalign=align, disable_numparse=True)
    return [line.rstrip() for line in text.splitlines()]


def rst(head, rows, numbers):
    """Return the same table in reStructuredText."""
    return '\n'.join(lines(head, rows, numbers, 'rst')) + '\n'

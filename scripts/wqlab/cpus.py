# SPDX-License-Identifier: GPL-2.0
"""Lists of CPUs as the kernel's files have them."""


def parse(text: str) -> list[int]:
    """[0, 1, 2, 5] of "0-2,5", [] of an empty line; ValueError for what is no such list."""
    found: list[int] = []
    for part in filter(None, text.strip().split(',')):
        first, dash, last = part.partition('-')
        numbers = range(int(first), int(last if dash else first) + 1)
        if not numbers:
            raise ValueError(f'{part!r} is not a range of CPUs')
        found += numbers
    return found

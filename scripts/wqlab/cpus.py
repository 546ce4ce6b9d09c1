# SPDX-License-Identifier: GPL-2.0
"""CPU lists in the format that kernel files use."""


def parse(text: str) -> list[int]:
    """Convert "0-2,5" to [0, 1, 2, 5] and an empty line to []. Raise ValueError if the text is not a CPU list."""
    found: list[int] = []
    for part in filter(None, text.strip().split(',')):
        first, dash, last = part.partition('-')
        numbers = range(int(first), int(last if dash else first) + 1)
        if not numbers:
            raise ValueError(f'{part!r} is not a range of CPUs')
        found += numbers
    return found

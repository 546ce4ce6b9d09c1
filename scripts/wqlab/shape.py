# SPDX-License-Identifier: GPL-2.0
"""Check what a JSON file contains, where it is read.

A shape is a type, a set of words, [shape] for a list, {key: shape} for an object, or a tuple of shapes of which one has
to fit. An object may lack keys that end with "?", and may have more keys than those that are named. The key ... is for
the values of all these.
"""
from typing import Any

Shape = Any
NUMBER, NOTHING = (int, float), type(None)
TYPES = {bool: 'true or false', int: 'a whole number', float: 'a number', str: 'a text', list: 'a list',
         dict: 'an object', NOTHING: 'null'}


def expected(shape: Shape) -> str:
    """Return a shape in words."""
    if isinstance(shape, tuple):
        return ' or '.join(map(expected, shape))
    if isinstance(shape, set):
        return ' or '.join(sorted(shape))
    return TYPES[shape if isinstance(shape, type) else type(shape)]


def fits(value: Any, shape: Shape) -> bool:
    """Return True if a value has a shape. What it contains is not looked at."""
    if isinstance(shape, set):
        return isinstance(value, str) and value in shape
    return type(value) is (shape if isinstance(shape, type) else type(shape))


def parts(value: Any, shape: Shape, place: str) -> list[tuple[Any, Shape, str]]:
    """Return what a list or an object contains, with the shape and the name of each part."""
    if isinstance(shape, list):
        return [(each, shape[0], f'{place}[{number}]') for number, each in enumerate(value)]
    if not isinstance(shape, dict):
        return []
    inner = {key.rstrip('?'): part for key, part in shape.items() if key is not ...}
    return [(each, inner.get(key, shape.get(...)), f'{place}.{key}' if place else key) for key, each in value.items()
            if key in inner or ... in shape]


def fault(value: Any, shape: Shape, place: str = '') -> str:
    """Return what is wrong with a value, such as "boots[2] lacks runs", or ''. @place is the name of the value."""
    choices = shape if isinstance(shape, tuple) else (shape,)
    one = next((choice for choice in choices if fits(value, choice)), None)
    if one is None:
        found = f'"{value}"' if isinstance(value, str) else TYPES[type(value)]
        return f'{place or "it"} is {found}, and not {expected(shape)}'
    if isinstance(one, dict):
        lacking = [key for key in one if key is not ... and not key.endswith('?') and key not in value]
        if lacking:
            return f'{f"{place} " if place else ""}lacks {", ".join(sorted(lacking))}'
    return next(filter(None, (fault(*part) for part in parts(value, one, place))), '')

# SPDX-License-Identifier: GPL-2.0
"""Records that are not as a script wrote them."""
import functools
import json

OTHERS = (None, 'x', 5, {})


def changed(one, path, change):
    """Return a copy of a record after change(what contains the place, its key there)."""
    copy = json.loads(json.dumps(one))
    change(functools.reduce(lambda value, key: value[key], path[:-1], copy), path[-1])
    return copy


def without(one, *path):
    return changed(one, path, lambda place, key: place.pop(key))


def replaced(one, new, *path):
    return changed(one, path, lambda place, key: place.__setitem__(key, new))


def places(value, *path):
    """Yield the path to each value in objects and lists, but only to the first one in a list."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from places(inner, *path, key)


def everywhere(one):
    """Yield (path, record) for each place: a record that lacks it, and some that have a value of another type there."""
    for path in places(one):
        yield path, without(one, *path)
        for new in OTHERS:
            yield path, replaced(one, new, *path)


def bugs(one, path, use, error):
    """Return the places whose damage makes use() raise anything but @error, and how often it raised that.

    path: of the file that use() reads.
    """
    found, refused = [], 0
    for place, damaged in everywhere(one):
        path.write_text(json.dumps(damaged))
        try:
            use()
        except error as why:
            refused += 1
            if str(path) not in str(why) or '\n' in str(why):
                found.append((place, why))
        except Exception as why:
            found.append((place, why))
    return found, refused

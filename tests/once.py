# SPDX-License-Identifier: GPL-2.0
"""Do slow work once, although several tests need it, and even if it fails."""
import functools

import pytest


def once(function):
    """Like functools.cache, but also keep the error: a build that failed is not repeated for the next test."""
    kept: dict = {}

    @functools.wraps(function)
    def wrapper(*args):
        if args not in kept:
            try:
                kept[args] = function(*args), None, None
            except (Exception, pytest.fail.Exception) as error:
                kept[args] = None, error, error.__traceback__
        result, failure, where = kept[args]
        if failure:
            raise failure.with_traceback(where)
        return result

    return wrapper

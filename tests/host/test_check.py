# SPDX-License-Identifier: GPL-2.0
"""make check reports the findings of its checkers."""
import re

import pytest

from calls import call
from wqlab.kernels import check
from wqlab.paths import ROOT


@pytest.mark.tier('more')
def test_scripts_are_clean():
    """ruff, mypy, shellcheck and codespell find nothing."""
    done = call('scripts/lab', 'check', '--no-kernel', timeout=300)
    assert done.returncode == 0, done.stderr
    assert all(re.search(rf'^check: {name}.*: clean$', done.stderr, re.M)
               for name in ('ruff', 'mypy', 'shellcheck, [1-9]', 'codespell'))


def test_check_of_the_base():
    done = call('scripts/lab', 'check', VARIANT='base')
    assert done.returncode == 1 and 'VARIANT=base: must be one of: cmwq' in done.stderr


OUTSIDE = re.compile(r'ROOT[.]parent|[.][.]/shared|\bshared/bin')


def test_nothing_beside_the_repository_is_used():
    """A clone has all that `make check` and the other targets run."""
    assert OUTSIDE.search("tool = ROOT" ".parent / 'x'")
    assert not [name for name in check.tracked() if OUTSIDE.search((ROOT / name).read_text(errors='replace'))]


@pytest.mark.tier('all')
def test_check():
    """The complete check, on the smallest kernel."""
    done = call('scripts/lab', 'check', timeout=3000, ENGINE='uml')
    assert done.returncode == 0, done.stderr
    assert re.search('^check: W=1 and sparse, kernel/workqueue: clean$', done.stderr, re.M)

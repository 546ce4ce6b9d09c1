# SPDX-License-Identifier: GPL-2.0
"""Cases in this folder need no kernel, and build none. They may use the composed source tree."""
import pytest

import builds
import calls
from wqlab.kernels import tree


@pytest.fixture(autouse=True)
def no_builds(monkeypatch):
    monkeypatch.setenv('WQLAB_NO_BUILDS', '1')
    monkeypatch.setitem(calls.CLEAN_ENV, 'WQLAB_NO_BUILDS', '1')
    monkeypatch.setattr(builds.RUN, 'get', lambda _: pytest.fail('a case in tests/host wants a kernel'))


@pytest.fixture(scope='session')
def composed():
    """Make sure that the composed tree is there."""
    tree.compose()

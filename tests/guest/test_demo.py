# SPDX-License-Identifier: GPL-2.0
"""What `make demo` records."""
import re
import subprocess

import pytest

import guests

pytestmark = [guests.needs('qemu'), pytest.mark.tier('all')]


def test_demo():
    (guests.ROOT / 'build/demo').mkdir(parents=True, exist_ok=True)
    done = subprocess.run(['scripts/demo.sh', 'outside', guests.kernel('qemu')], cwd=guests.ROOT, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=900, check=True)
    assert re.search(r'^queued ([1-9]\d*)\nran \1\nlost 0\ntwice 0$', done.stdout, re.M)
    assert 'BUG: workqueue lockup - pool cpus=3 ' in done.stdout
    assert re.search(r'\b3\S!', done.stdout), 'the picture does not mark CPU 3'
    assert re.search(r'blamed: kworker/3:\d+ .* has been running on CPU 3 without sleeping', done.stdout)

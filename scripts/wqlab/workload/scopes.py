# SPDX-License-Identifier: GPL-2.0
"""Set the affinity scope of a workqueue."""
import contextlib
from collections.abc import Iterator
from pathlib import Path

from wqlab import files
from wqlab.workload.cases import Lacking

SYSFS = Path('/sys/devices/virtual/workqueue')
DEFAULT = Path('/sys/module/workqueue/parameters/default_affinity_scope')
# name of the scope in a case: (value of affinity_scope, value of affinity_strict)
SCOPES = {'default': ('default', '0'), 'system': ('system', '0'), 'cache': ('cache', '0'),
          'cache-strict': ('cache', '1'), 'cache_shard': ('cache_shard', '0'), 'cpu': ('cpu', '0')}


def write(path: Path, value: str) -> None:
    """Write to a file that exists, or raise Lacking."""
    try:
        files.put(path, value)
    except OSError as error:
        raise Lacking(f'the kernel refuses {value!r} in {path}: {error.strerror}') from None


@contextlib.contextmanager
def changed(path: Path, value: str) -> Iterator[None]:
    """Meanwhile, a parameter has another value."""
    before = path.read_text().strip() if path.exists() else ''
    write(path, value)
    try:
        yield
    finally:
        write(path, before)


@contextlib.contextmanager
def of_workqueue(pattern: str, scope: str) -> Iterator[None]:
    """Give the workqueues of this name the scope. If sysfs does not show them, change the default scope meanwhile."""
    value, strict = SCOPES[scope]
    found = [path for path in SYSFS.glob(pattern) if (path / 'affinity_scope').exists()]
    for path in found:
        write(path / 'affinity_scope', value)
        write(path / 'affinity_strict', strict)
    if found or scope == 'default':
        yield
        return
    if strict == '1':
        raise Lacking(f'sysfs does not show {pattern}, and the default scope cannot be strict')
    with changed(DEFAULT, value):
        yield

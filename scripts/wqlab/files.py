# SPDX-License-Identifier: GPL-2.0
"""Write files atomically: a reader sees the old file or the complete new one."""
import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wqlab.steps import Failure


@contextlib.contextmanager
def replacing(path: str | os.PathLike, mode: int = 0o644) -> Iterator[Path]:
    """Yield a new empty file beside @path. It replaces @path if the block succeeds, and is deleted if it fails."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f'.{path.name}.', suffix='.tmp', dir=path.parent)
    os.close(handle)
    temp = Path(name)
    try:
        yield temp
        temp.chmod(mode)
        os.replace(temp, path)
    except OSError as error:
        if error.filename is None:      # as of write()
            error.filename = str(path)
        raise
    finally:
        temp.unlink(missing_ok=True)


def read(path: Path) -> str:
    """Read a file that the user names. If it is no text, raise Failure."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise Failure(f'{path} is not a text: name another file') from None


def write(path: str | os.PathLike, content: str | bytes, mode: int = 0o644) -> None:
    with replacing(path, mode) as temp:
        temp.write_bytes(content.encode() if isinstance(content, str) else content)


def put(path: Path, value: str) -> None:
    """Write to a file that exists, as of sysfs, or raise OSError."""
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(file, value.encode())
    finally:
        os.close(file)

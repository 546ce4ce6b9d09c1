# SPDX-License-Identifier: GPL-2.0
"""Compile plugins for QEMU's TCG. qemu_plugin.h, beside this file, is what they use of QEMU."""
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from wqlab import files
from wqlab.steps import Failure

HEADER = Path(__file__).parent / 'qemu_plugin.h'
CC = ('gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', '-fvisibility=hidden')


def build(sources: Sequence[Path], target: Path) -> Path:
    """Compile C files, and return the plugin. Its name gets a digest of its sources, so an old one is never used."""
    digest = hashlib.sha256(b''.join(path.read_bytes() for path in [*sources, HEADER])).hexdigest()[:12]
    target = target.with_name(f'{target.name}-{digest}.so')
    if target.exists():
        return target
    with files.replacing(target, 0o755) as temp:
        units = (str(path) for path in sources if path.suffix == '.c')
        try:
            done = subprocess.run([*CC, '-I', str(HEADER.parent), '-o', str(temp), *units],
                                  capture_output=True, text=True, check=False)
        except OSError as error:
            raise Failure(f'the plugin for QEMU cannot be compiled: {CC[0]}: {error.strerror}') from None
        if done.returncode:
            said = done.stderr.splitlines() or ['no message']
            raise Failure(f'the plugin for QEMU cannot be compiled: {said[0]}')
    return target


def argument(path: Path, **values: object) -> str:
    """Return the argument of QEMU's option -plugin, in which a comma is doubled."""
    words = [str(path), *(f'{key}={value}' for key, value in values.items())]
    return ','.join(word.replace(',', ',,') for word in words)

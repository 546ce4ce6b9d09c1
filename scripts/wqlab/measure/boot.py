# SPDX-License-Identifier: GPL-2.0
"""The kernels that are measured, and a guest that runs until it ends."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from wqlab import procs
from wqlab.guest.engines import ENGINES
from wqlab.kernels import kinds
from wqlab.kernels.kinds import Kind
from wqlab.paths import ROOT
from wqlab.steps import Failure

PROGRESS_S = 10     # between two progress lines of a boot
TIMED_OUT = 124     # the status of a guest that took too long
STOP_S = 10         # time for the program that runs an interrupted guest to delete its files


class BootError(Failure):
    """A build or a boot failed, so there are no results."""

    def __init__(self, text, boot=None):
        super().__init__(text)
        self.boot = boot


def kernel(engine, variant, config='release'):
    """Return a kernel of the release that LINUX= names."""
    return Kind(kinds.ENGINES[engine], variant, config, kinds.asked_linux())


def module_of(kernel):
    """Return the benchmark of a kernel, or None: those for workloads need none."""
    return None if kernel.config == 'workload' else kernel.folder / 'lib/cmwq/test_workqueue.ko'


def check(kernel):
    for path in filter(None, (kernel.image, module_of(kernel))):
        if not path.is_file():
            raise BootError(f'{path} is missing: run make kernel ENGINE={kernel.engine.name} '
                            f'VARIANT={kernel.variant} CONFIG={kernel.config}')


def install(what, **environment):
    """Install the packages that something needs."""
    if procs.run([ROOT / 'scripts/deps.sh'], env={**os.environ, **environment}):
        raise BootError(f'could not install what {what} needs: see the lines above')


def accelerator(params, kernel):
    """Return the accelerator of the guest: "kvm" or "tcg" for QEMU, None for UML. Computed time has none."""
    if params['engine'] == 'uml' or params.get('machine'):
        return None
    if not ENGINES[params['engine']].may_use_kvm:
        return 'tcg'
    from wqlab.guest import run  # accelerator() may boot a kernel to find out
    return run.accelerator(kernel.image, icount=params.get('icount', False))


def read_text(path):
    try:
        return Path(path).read_text(encoding='utf-8', errors='replace')
    except FileNotFoundError:
        return ''


def run_guest(argv, progress, stdout=subprocess.DEVNULL, limit=None):
    """Run a guest until it ends, or until `limit` seconds are over. Meanwhile, progress(seconds) is called.

    Return its exit status (TIMED_OUT if it was ended), its messages, and how many seconds it took.
    """
    start = time.monotonic()
    late = False
    with tempfile.TemporaryFile() as messages:
        with procs.kept(argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=messages) as process:
            try:
                while process.poll() is None and not late:
                    try:
                        process.wait(timeout=PROGRESS_S)
                    except subprocess.TimeoutExpired:
                        progress(time.monotonic() - start)
                    late = bool(limit) and time.monotonic() - start > limit
            finally:
                if process.poll() is None:
                    procs.end_gently(process, STOP_S)
        messages.seek(0)
        said = messages.read().decode('utf-8', 'replace')
    return TIMED_OUT if late else process.returncode, said, time.monotonic() - start

# SPDX-License-Identifier: GPL-2.0
"""Build the kernels, and run a guest until it ends."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from wqlab import procs
from wqlab.guest.engines import ENGINES
from wqlab.kernels import kinds
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


class Build:
    """The build folder of one kernel, and the files that a measurement uses from it."""

    def __init__(self, root, engine, variant, config='release', module='lib/cmwq/test_workqueue.ko'):
        self.engine, self.variant, self.config = engine, variant, config
        self.linux = kinds.asked_linux()
        self.folder = Path(root) / 'build' / f'{engine}-{variant}-{config}-{self.linux}'
        self.image = self.folder / ENGINES[engine].image
        self.module = self.folder / module if module else None

    def base(self):
        """Return where the base tree of this kernel came from, or None."""
        path = self.folder.parent / f'.linux-{self.linux}.origin'
        return path.read_text(encoding='utf-8').strip() if path.exists() else None

    def release(self):
        path = self.folder / 'include/config/kernel.release'
        return path.read_text(encoding='utf-8').strip()

    def check(self):
        for path in (self.image, self.module):
            if path and not path.is_file():
                raise BootError(f'{path} is missing: run make kernel ENGINE={self.engine} '
                                f'VARIANT={self.variant} CONFIG={self.config}')

    def make(self, root):
        """Build the kernel. The program reports progress."""
        asked = {'ENGINE': self.engine, 'VARIANT': self.variant, 'CONFIG': self.config, 'LINUX': self.linux}
        if procs.run([Path(root) / 'scripts/lab', 'kernel'], env={**os.environ, **asked}):
            raise BootError(f'building the {self.variant} kernel for {self.engine} failed: '
                            'see the lines above')


def install(what, **environment):
    """Install the packages that something needs."""
    if procs.run([ROOT / 'scripts/deps.sh'], env={**os.environ, **environment}):
        raise BootError(f'could not install what {what} needs: see the lines above')


def accelerator(params, build):
    """Return the accelerator of the guest: "kvm" or "tcg" for QEMU, None for UML."""
    if params['engine'] == 'uml':
        return None
    if not ENGINES[params['engine']].may_use_kvm:
        return 'tcg'
    from wqlab.guest import run  # accelerator() may boot a kernel to find out
    return run.accelerator(build.image, icount=params.get('icount', False))


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

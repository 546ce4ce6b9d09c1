# SPDX-License-Identifier: GPL-2.0
"""Build the kernels for a test run in the background, in the order in which the tests need them."""
import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

import progress
from wqlab import procs
from wqlab.kernels import kinds
from wqlab.paths import BUILD, ROOT
from wqlab.steps import using

LINUX = os.environ.get('LINUX') or kinds.LINUX
*_, OLD = kinds.releases()     # the long-term release that we support
VARIANT = os.environ.get('VARIANT', 'cmwq')
PATIENCE = 30           # seconds between progress messages while a case waits for a kernel


@dataclasses.dataclass(frozen=True)
class Kernel:
    engine: str
    config: str = 'release'
    variant: str = VARIANT
    linux: str = LINUX

    @property
    def name(self):
        return f'{self.engine}-{self.variant}-{self.config}-{self.linux}'

    @property
    def folder(self):
        return BUILD / self.name


def unfit(linux):
    """Return the variables that have no meaning for this release: they name another one."""
    return kinds.TREE if linux != LINUX else ()


@contextlib.contextmanager
def without_unfit(linux):
    """Hide these variables within the block."""
    with pytest.MonkeyPatch.context() as patch:
        for name in unfit(linux):
            patch.delenv(name, raising=False)
        yield


class BuildFailed(Exception):
    pass


def waited_for(future, name):
    """Return what the future has once it is there, and say meanwhile that a case waits for it."""
    begin = time.monotonic()
    while not wait([future], PATIENCE).done:
        progress.say(f'waiting for {name}, {time.monotonic() - begin:.0f} s so far')
    return future.result()


class Builds:
    def __init__(self):
        self.futures: dict[Kernel, Future] = {}
        self.child = None
        self.pool = ThreadPoolExecutor(1)
        self.held = contextlib.ExitStack()      # the kernels that are built stay as they are

    def order(self, kernel):
        if kernel not in self.futures:
            self.futures[kernel] = self.pool.submit(self._build, kernel)
        return self.futures[kernel]

    def get(self, kernel):
        """Wait until the kernel is built. Return its folder."""
        return waited_for(self.order(kernel), kernel.name)

    def stop(self):
        self.pool.shutdown(wait=False, cancel_futures=True)
        child = self.child
        if child and child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
        self.pool.shutdown()
        self.held.close()

    def _build(self, kernel):
        dropped = ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL', 'WQLAB_NO_BUILDS', *unfit(kernel.linux))
        env = {key: value for key, value in os.environ.items() if key not in dropped}
        env |= {'ENGINE': kernel.engine, 'VARIANT': kernel.variant, 'CONFIG': kernel.config, 'LINUX': kernel.linux}
        begin = time.monotonic()
        log = BUILD / f'log/test-{kernel.name}.log'
        log.parent.mkdir(parents=True, exist_ok=True)
        progress.say(f'building {kernel.name} in the background (log: {log.relative_to(ROOT)})')
        with open(log, 'w') as file:
            self.child = subprocess.Popen(
                ['nice', '-n', '19', ROOT / 'scripts/lab', 'kernel'], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
            procs.set_priority(self.child, 19)
            status = self.child.wait()
        if status:
            last = ''.join(log.read_text(errors='replace').splitlines(True)[-20:])
            raise BuildFailed(f'{kernel.name} could not be built (status {status}):\n{last}')
        progress.say(f'{kernel.name} is built: {time.monotonic() - begin:.0f} s')
        self.held.enter_context(using(kernel.folder))
        return kernel.folder


RUN = Builds()

# SPDX-License-Identifier: GPL-2.0
"""Record a profile of what runs on this machine."""
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from wqlab.workload import lines
from wqlab.workload.profile import CYCLES, TIMES, WAITS, cycles, tracer, waits

Recording = contextlib.AbstractContextManager[Callable[[], dict]]


@contextlib.contextmanager
def waiting() -> Iterator[Callable[[], dict]]:
    """Trace the workqueues while the block runs. Yield a function that ends the trace and returns the figures."""
    with tracer.tracing() as buffer:
        def figures() -> dict:
            found = buffer.recorded()
            return {**waits.Pairing().add(found.events()).result(), 'lost': sum(found.lost.values())}
        yield figures


@contextlib.contextmanager
def sampled() -> Iterator[Callable[[], dict]]:
    """Take samples of the CPUs while the block runs. Yield a function that ends this and returns the shares."""
    with tempfile.TemporaryDirectory(prefix='wqlab-') as folder, contextlib.ExitStack() as stack:
        data = Path(folder, 'perf.data')
        stack.enter_context(cycles.sampling(data))

        def figures() -> dict:
            stack.close()
            text = cycles.script(data)
            return cycles.result(cycles.samples(text), cycles.lost(text))
        yield figures


@contextlib.contextmanager
def timed() -> Iterator[Callable[[], dict]]:
    begin = time.time()
    yield lambda: {'begin': begin, 'end': time.time()}


RECORDINGS: dict[str, Callable[[], Recording]] = {WAITS: waiting, CYCLES: sampled, TIMES: timed}


@contextlib.contextmanager
def case(name: str, kind: str | None) -> Iterator[None]:
    """Record a profile of the block, if a kind is given, and print its line."""
    if not kind:
        yield
        return
    with RECORDINGS[kind]() as figures:
        yield
        lines.emit('profile', name=name, profile=kind, **figures())

# SPDX-License-Identifier: GPL-2.0
"""Boot guests in the background, one at a time, while other cases run.

A guest rarely uses all CPUs of the host. The cases that need its result come last in a run.
"""
import dataclasses
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import builds
import progress


@dataclasses.dataclass(frozen=True)
class Job:
    name: str                   # its name in the durations
    kernel: builds.Kernel
    start: Callable[[], Any] = dataclasses.field(compare=False)


class Jobs:
    def __init__(self, kernels):
        self.kernels = kernels
        self.futures: dict[Job, Future] = {}    # in the order of running
        self.begun: dict[Job, float] = {}
        self.waited = 0.0       # seconds that cases have waited for jobs
        self.queue = queue.SimpleQueue()

    def order(self, job):
        if not self.futures:
            # A daemon, so that an interrupted run does not wait for a guest. The guest ends with this process.
            threading.Thread(target=self._work, daemon=True).start()
        if job not in self.futures:
            self.futures[job] = Future()
            self.queue.put(job)
        return self.futures[job]

    def get(self, job):
        """Wait until the job has run. Return its result."""
        future, begin = self.order(job), time.monotonic()
        try:
            while not wait([future], builds.PATIENCE).done:
                progress.say(f'waiting for {job.name}, {time.monotonic() - begin:.0f} s so far')
            return future.result()
        finally:
            self.waited += time.monotonic() - begin

    def remaining(self):
        """Return (job, its kernel, remaining seconds) in the order of running."""
        now = time.monotonic()
        return [(job, job.kernel, max(0.0, self.kernels.durations.of(job.name) - (now - self.begun.get(job, now))))
                for job, future in list(self.futures.items()) if not future.done()]

    def _run(self, job):
        self.kernels.order(job.kernel).result()
        self.begun[job] = begin = time.monotonic()
        result = job.start()
        self.kernels.durations.note(job.name, time.monotonic() - begin)
        return result

    def _work(self):
        while True:
            job = self.queue.get()
            try:
                self.futures[job].set_result(self._run(job))
            except BaseException as error:      # it belongs to the cases that ask for the result
                self.futures[job].set_exception(error)


RUN = Jobs(builds.RUN)

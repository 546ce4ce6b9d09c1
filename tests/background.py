# SPDX-License-Identifier: GPL-2.0
"""Boot guests in the background, one at a time, while other cases run.

A guest rarely uses all CPUs of the host. The cases that need its result come last in a run. Each
guest has a process of its own: cases may change modules and the environment of the run, and a guest
must not see that. A run that ends early ends the process, and this process ends its guest.

Guests in the background have a higher priority than the other cases: if a CPU of a guest has to
wait while it holds a spinlock, the guest's other CPUs spin. For example, two tests of masks.sh on a
debug kernel (UML, 2 CPUs) take 25 s alone. Beside a busy process they take 77 s with the same
priority as the process, and 35 s with PRIORITY.
"""
import dataclasses
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import builds
import progress
from wqlab import procs
from wqlab.paths import ROOT

PRIORITY = -5       # as nice
ENVIRONMENT = dict(os.environ)      # before any case has changed it


class NoResult(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    kernel: builds.Kernel
    # Is called with the folder of the kernel, in the other process: has to be a function of a module, or a
    # functools.partial of one. Its result and exceptions come back.
    start: Callable[[Any], Any] = dataclasses.field(compare=False)


def in_own_process(job, folder, begun):
    """
    Call job.start(folder) in a new process. Return its result, or raise what it raised. Call begun(child) with the
    process.
    """
    environment = {**ENVIRONMENT, 'PYTHONPATH': os.pathsep.join(sys.path)}
    with tempfile.TemporaryFile() as order, tempfile.TemporaryFile() as answer:
        pickle.dump((job.start, folder), order)
        order.seek(0)
        with procs.kept([sys.executable, __file__], new_session=True, stdin=order, stdout=answer,
                        stderr=subprocess.PIPE, text=True, errors='replace', cwd=ROOT, env=environment) as child:
            begun(child)
            procs.set_priority(child, PRIORITY)
            said = []
            for line in child.stderr:
                said.append(line)
                progress.write(line)
            status = child.wait()
        answer.seek(0)
        content = answer.read()
    if not content:
        raise NoResult(f'{job.name}: its process ended with status {status}:\n{"".join(said[-20:])}')
    result, error = pickle.loads(content)
    if error:
        raise error
    return result


def main():
    """Run in the process that in_own_process() starts."""
    procs.end_on_signals()
    with os.fdopen(os.dup(1), 'wb') as answer:
        os.dup2(2, 1)       # standard output is for the answer only: print all else to standard error
        start, folder = pickle.load(sys.stdin.buffer)
        try:
            content = pickle.dumps((start(folder), None))
        except Exception as error:      # it belongs to the cases that ask for the result
            content = pickle.dumps((None, error))
        answer.write(content)


class Jobs:
    def __init__(self, kernels):
        self.kernels = kernels
        self.futures: dict[Job, Future] = {}    # in the order of running
        self.queue = queue.SimpleQueue()
        self.child = None       # the process of the job that runs
        self.stopped = False

    def order(self, job):
        if not self.futures:
            # A daemon, so that a run that ends without stop() does not wait for a guest.
            threading.Thread(target=self._work, daemon=True).start()
        if job not in self.futures:
            self.futures[job] = Future()
            self.queue.put(job)
        return self.futures[job]

    def get(self, job):
        """Wait until the job has run. Return its result."""
        return builds.waited_for(self.order(job), job.name)

    def stop(self):
        """End the job that runs, and wait until its guest has ended. No other job begins."""
        self.stopped = True
        if self.child:
            procs.end_gently(self.child, procs.ENDING_S)

    def _has_begun(self, child):
        self.child = child
        if self.stopped:    # stop() may have come before it could see the child
            child.terminate()

    def _run(self, job):
        return in_own_process(job, self.kernels.order(job.kernel).result(), self._has_begun)

    def _work(self):
        while not self.stopped:
            job = self.queue.get()
            try:
                self.futures[job].set_result(self._run(job))
            except BaseException as error:      # it belongs to the cases that ask for the result
                self.futures[job].set_exception(error)


RUN = Jobs(builds.RUN)

if __name__ == '__main__':
    main()

# SPDX-License-Identifier: GPL-2.0
"""The rate of the host's time stamp counter, which the CPUs of an emulated x86 guest read, too."""
import ctypes
import functools
import itertools
import mmap
import platform
import sys
import time

from wqlab.steps import sayer

say = sayer('guest')
READ_COUNTER = bytes.fromhex('0f31'         # rdtsc
                             '48c1e220'     # shl $32, %rdx
                             '4809d0'       # or %rdx, %rax
                             'c3')          # ret
INTERVAL_S = 0.02
TRIES = 20
DIFFER = 0.001      # of two measurements


def has_counter() -> bool:
    return platform.machine() == 'x86_64' and sys.maxsize > 2 ** 32


def differences() -> list[tuple[int, int]]:
    """Measure twice by how much the counter and the time, in ns, grow in an interval."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(READ_COUNTER)
    read_counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def sample() -> tuple[int, int, int]:
        """Return how long it took to read both, the counter, and the time."""
        begin = time.monotonic_ns()
        count = read_counter()
        end = time.monotonic_ns()
        return end - begin, count, (begin + end) // 2

    samples = []
    for pause in (0, INTERVAL_S, INTERVAL_S):
        time.sleep(pause)
        # A busy host may interrupt this between the two. The shortest try was not interrupted.
        samples.append(min(sample() for _ in range(TRIES)))
    return [(last - first, end - begin) for (_, first, begin), (_, last, end) in itertools.pairwise(samples)]


@functools.cache
def rate_khz() -> int | None:
    """Return the rate, or None if the host has no such counter, or if it cannot be read or jumps.

    A host may forbid a program to make the code that reads it. It jumps if CPUs disagree.
    """
    if not has_counter():
        return None
    try:
        rates = [count * 1_000_000 / ns for count, ns in differences()]
    except OSError as error:
        say(f'note: the time stamp counter cannot be read ({error}): on a busy host, clocks of guests may be wrong')
        return None
    if min(rates) <= 0 or max(rates) > min(rates) * (1 + DIFFER):
        say('note: the time stamp counter jumps: clocks of guests may be wrong')
        return None
    return round(sum(rates) / len(rates))

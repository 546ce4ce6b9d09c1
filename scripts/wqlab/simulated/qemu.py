# SPDX-License-Identifier: GPL-2.0
"""How QEMU simulates a machine: with our plugin, and with nothing that differs from one run to the next."""
import contextlib
import dataclasses
import hashlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from wqlab import files
from wqlab.paths import BUILD
from wqlab.simulated.machines import Machine
from wqlab.steps import Failure, first_match

SOURCES = sorted((Path(__file__).parent / 'plugin').glob('*.[ch]'))
CC = ('gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', '-fvisibility=hidden')
# Not of a machine, but of the simulation, in ns. A shorter quantum costs time, and changes little.
QUANTUM = 200           # how far a CPU may be ahead of the others
COARSE = 50_000         # the same while time is not simulated
EVENTS = 100_000        # the longest that WFE sleeps: Linux lets the counter send 10,000 events a second
# It has the atomic instructions of newer cores, but no pointer authentication, which is slow under TCG.
CPU = 'neoverse-n1'
# The counter shows each ns. There is no random number that does not come from QEMU's seed, and no clock but ours.
BOARD = ('-M', 'virt,gic-version=3,dtb-randomness=off', '-cpu', f'{CPU},cntfrq=1000000000',
         '-accel', 'tcg,thread=multi', '-seed', '1', '-rtc', 'base=2026-01-01,clock=vm')
TOGGLE = 'proc_do_uts_string'           # runs when somebody writes to /proc/sys/kernel/hostname
MEMORY = 'memory-backend-memfd'         # files, which the plugin can copy
LOCKS = '__lock_text_start', '__lock_text_end'
PARAMETER = 'nokaslr'                   # so that it is where System.map says


def build(folder: Path = BUILD / 'simulated') -> Path:
    """Return the compiled plugin. Its name has a digest of its sources, so an old one is never used."""
    digest = hashlib.sha256(b''.join(path.read_bytes() for path in SOURCES)).hexdigest()[:12]
    target = folder / f'plugin-{digest}.so'
    if not target.exists():
        with files.replacing(target, 0o755) as temp:
            done = subprocess.run([*CC, '-o', temp, *(path for path in SOURCES if path.suffix == '.c')],
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                raise Failure(f'the plugin for QEMU cannot be compiled: {first_match(done.stderr, "error")}')
    return target


def argument(plugin: Path, machine: Machine, out: Path, toggle: str, seed: int = 0, quantum: int = QUANTUM,
             more: dict[str, str] | None = None) -> str:
    """
    Return the argument of -plugin, in which a comma is doubled. @toggle is the address, in hex, of what begins and ends
    the simulation.
    """
    values = {'out': out, 'toggle': toggle, 'seed': seed, 'quantum': quantum * 1000, 'coarse': COARSE * 1000,
              'events': EVENTS * 1000, **machine.constants(), **(more or {})}
    words = [str(plugin), *(f'{key}={value}' for key, value in values.items())]
    return ','.join(word.replace(',', ',,') for word in words)


def environment(plugin: Path) -> dict[str, str]:
    """Return what has to be added to QEMU's environment: the plugin replaces functions of libc, too."""
    return {'LD_PRELOAD': str(plugin)}


@contextlib.contextmanager
def host_cpus() -> Iterator[set[int]]:
    """
    Yield the CPUs of this host that a simulation shall use: one that no other simulation has, or all. QEMU's threads
    take turns, up to a million times a second, and a turn is passed on several times as fast within a CPU.
    """
    cpus = os.sched_getaffinity(0)
    with socket.socket(socket.AF_UNIX) as claim:
        for cpu in sorted(cpus):
            with contextlib.suppress(OSError):
                claim.bind(f'\0wqlab-simulation-{cpu}')     # a name that is free again when this process ends
                cpus = {cpu}
                break
        yield cpus


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A machine that is simulated while a guest runs."""
    machine: Machine
    report: Path
    symbols: Path           # System.map
    seed: int = 0
    memory: Path | None = None      # what the copies of the guest's memory are called, before .0, .1, ...

    def argument(self) -> str:
        """Return the argument of -plugin."""
        found = {name: address for address, _, name in map(str.split, files.read(self.symbols).splitlines())
                 if name in (TOGGLE, *LOCKS)}
        for name in TOGGLE, *LOCKS:
            if name not in found:
                raise Failure(f'{self.symbols} has no {name}: build the kernel again')
        more = {'locks': '-'.join(found[name] for name in LOCKS)}
        if self.memory:
            more['memory'] = str(self.memory)
        return argument(build(), self.machine, self.report, found[TOGGLE], self.seed, more=more)

    @staticmethod
    def environment() -> dict[str, str]:
        return environment(build())

# SPDX-License-Identifier: GPL-2.0
"""Guests whose time is computed. They get all orders with their command, and never wait for this machine.

So nothing that happens here has an influence on their results. They run at the same time, on a core each.
"""
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wqlab.bench import machine, options, seat
from wqlab.kernels.kinds import Kind
from wqlab.scopes import SCOPES
from wqlab.simulated import explain, stalls
from wqlab.steps import Failure

# A write to this file begins the simulation, and the next one ends it.
SWITCH = '/proc/sys/kernel/hostname'
FUNCTIONS = f'fresh() {{ echo begin >{SWITCH}; }}; over() {{ echo end >{SWITCH}; }}'


def passes(params: dict[str, Any]) -> list[tuple[int, str]]:
    """Return (repeat, scope or row) of all passes. A kernel that lacks a scope says so."""
    rows = [*(params['scopes'] or SCOPES), *options.floor_of(params)]
    return [(repeat, row) for repeat in range(1, params['repeats'] + 1) for row in rows]


def orders(params: dict[str, Any]) -> str:
    """Return the orders as the input of the guest's loop."""
    lines = ''.join(seat.order(params, row) for _, row in passes(params))
    return f"<<'ORDERS'\n{lines}ORDERS"


class Seat:
    """A guest that makes all passes, and why they took so long."""

    def __init__(self, place: seat.Seat, kernel: Kind, memory: Path):
        self.place, self.kernel, self.memory = place, kernel, memory

    def take(self, number: int, repeat: int, clock: seat.Clock) -> None:
        """Wait for the result of a pass, and explain it."""
        before = len(self.place.runs)
        self.place.take(repeat, clock)
        copy = self.memory.with_suffix(f'.{number}')
        for run in self.place.runs[before:]:
            if 'items' in run:
                run['why'] = self.explained(number, copy, run)
        copy.unlink(missing_ok=True)

    def explained(self, number: int, copy: Path, run: dict[str, Any]) -> dict[str, Any]:
        items = run['items'] + run['threads'] * options.warmup(self.place.params)
        try:
            stretch = stalls.read_one(machine.report(self.place.log), number)
            return explain.explain_copy(stretch, copy, self.kernel.folder, items)
        except Failure as error:
            raise self.place.error(str(error)) from None


@contextlib.contextmanager
def taken(kernel: Kind, params: dict[str, Any], boot: dict, log: Path) -> Iterator[Seat]:
    """Boot a guest that makes all passes."""
    with tempfile.TemporaryDirectory(prefix='.memory-', dir=log.parent) as folder:
        memory = Path(folder, 'memory')
        with seat.taken(kernel, params, boot, log, machine.guest_options(params, boot, log, memory),
                        seat.command(FUNCTIONS, orders=orders(params))) as place:
            yield Seat(place, kernel, memory)


def play(kernels: dict[str, Kind], params: dict[str, Any], boots: list[dict], logs: list[Path],
         tick: seat.Tick) -> list[dict]:
    """Boot guests together. Return the entries of these boots for the record."""
    params, clock = options.of_boot(params, boots[0]), seat.Clock(tick)
    with contextlib.ExitStack() as stack:
        seats = [stack.enter_context(taken(kernels[boot['variant']], params, boot, log))
                 for boot, log in zip(boots, logs, strict=True)]
        for one in seats:
            one.place.begin(params['scopes'], clock)
        for number, (repeat, _) in enumerate(passes(params)):
            for one in seats:
                one.take(number, repeat, clock)
        return [one.place.leave() for one in seats]

# SPDX-License-Identifier: GPL-2.0
"""Guests whose time is computed. They get all orders with their command, and never wait for this machine.

So nothing that happens here has an influence on their results. They run at the same time, on a core each.
"""
import contextlib
from pathlib import Path
from typing import Any

from wqlab.bench import options, seat
from wqlab.bench.boot import Build

# A write to this file begins the simulation, and the next one ends it.
SWITCH = '/proc/sys/kernel/hostname'
FUNCTIONS = f'locks() {{ :; }}; fresh() {{ echo begin >{SWITCH}; }}; over() {{ echo end >{SWITCH}; }}'


def passes(params: dict[str, Any]) -> list[tuple[int, str]]:
    """Return (repeat, scope or row) of all passes. A kernel that lacks a scope says so."""
    rows = [*(params['scopes'] or options.SCOPES[1:]), *options.floor_of(params)]
    return [(repeat, row) for repeat in range(1, params['repeats'] + 1) for row in rows]


def orders(params: dict[str, Any]) -> str:
    """Return the orders as the input of the guest's loop."""
    lines = ''.join(seat.order(params, row) for _, row in passes(params))
    return f"<<'ORDERS'\n{lines}ORDERS"


def taken(root: Path, build: Build, params: dict[str, Any], boot: dict, log: Path
          ) -> contextlib.AbstractContextManager[seat.Seat]:
    """Boot a guest that makes all passes."""
    return seat.taken(root, build, params, boot, log, inside=seat.command(FUNCTIONS, orders=orders(params)))


def play(root: Path, builds: dict[str, Build], params: dict[str, Any], boots: list[dict], logs: list[Path],
         tick: seat.Tick) -> list[dict]:
    """Boot guests together. Return the entries of these boots for the record."""
    params, clock = options.of_boot(params, boots[0]), seat.Clock(tick)
    with contextlib.ExitStack() as stack:
        seats = [stack.enter_context(taken(root, builds[boot['variant']], params, boot, log))
                 for boot, log in zip(boots, logs, strict=True)]
        for one in seats:
            one.begin(params['scopes'], clock)
        for repeat, _ in passes(params):
            for one in seats:
                one.take(repeat, clock)
        return [one.leave() for one in seats]

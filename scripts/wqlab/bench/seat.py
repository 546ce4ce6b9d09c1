# SPDX-License-Identifier: GPL-2.0
"""Guests that wait for orders. Each order makes one pass of the benchmark module.

The guests of a pair are booted together and make their passes in turn. A pass takes less than
a second, so both variants see the same state of the machine. A guest that waits sleeps in
read(), and uses next to no CPU time.
"""
import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from wqlab import procs
from wqlab.bench import by_scope, options
from wqlab.bench import parse as bench_parse
from wqlab.kernels.kinds import Kind
from wqlab.logs import check
from wqlab.measure import stats
from wqlab.measure.boot import PROGRESS_S, STOP_S, TIMED_OUT, BootError, module_of, read_text
from wqlab.paths import ROOT
from wqlab.steps import Failure

GUEST_MODULE = '/test_workqueue.ko'
PARAMETERS = '/sys/module/test_workqueue/parameters'
DONE = '@done'
END_S = 60          # a guest has 10 s to power off (POWEROFF_S of wqlab.guest.run); then the program that runs it ends
# An order is a line of NAME=VALUE, parameters of the module. The pass that the module
# makes when it is loaded shows which scopes the kernel has. dmesg -c prints what is new.
COMMAND = f'''
report() {{ dmesg -c | grep -a 'test_workqueue: '; echo {DONE}; }}
dmesg -c >/dev/null
insmod {GUEST_MODULE} keep=1 threads=1 items=1 warmup=0 || exit
@more@
report
cd {PARAMETERS} || exit
while read -r order; do
	for word in $order; do
		echo "${{word#*=}}" >"${{word%%=*}}" || exit
	done
	fresh
	echo 1 >run
	over
	report
done 2>/dev/null @orders@
exit 0
'''
NOTHING_AROUND = 'fresh() { :; }; over() { :; }'
Tick = Callable[[float, str], None]     # (seconds since the boots began, the newest result)


def outline(runs: list[dict]) -> str:
    """Return the results of these runs in a few words."""
    return 'items/s: ' + ', '.join(f"{by_scope.label(run['scope'])} {run['items_per_s'] / 1000:,.0f}k" for run in runs)


class Clock:
    """Reports progress from time to time."""

    def __init__(self, tick: Tick):
        self.tick, self.begun = tick, time.monotonic()
        self.told = self.begun
        self.newest = ''

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self.told >= PROGRESS_S:
            self.told = now
            self.tick(now - self.begun, self.newest)


def order(params: dict[str, Any], scopes: str) -> str:
    """Return the line that makes a guest run the scopes once."""
    if scopes in bench_parse.FLOOR:
        params = options.of_floor(params)
    chosen = {'threads': params['threads'], 'items': params['items'], 'warmup': options.warmup(params),
              'mode': params['mode'], 'batch': params['batch'], 'strict': int(params['strict']), 'scopes': scopes,
              'wq': params['wq'], 'burn_us': params['burn_us'], 'max_active': params['max_active'] or 0,
              **({'leave': 1} if params.get('machine') else {})}
    return ' '.join(f'{key}={value}' for key, value in chosen.items()) + '\n'


def command(functions: str = NOTHING_AROUND, more: str = ':', orders: str = '') -> str:
    """
    Return what runs in a guest. `functions` run around each pass, `more` as soon as the module is loaded. The orders
    come from the input, or are part of the command.
    """
    return functions + COMMAND.replace('@more@', more).replace('@orders@', orders)


def guest_arguments(kernel: Kind, params: dict[str, Any], boot: dict, log: Path,
                    options_of_guest: Sequence[str] = (), inside: str = '') -> list[str]:
    """Return the command that boots a guest, in which `inside` runs."""
    argv = [str(ROOT / 'scripts/lab'), 'guest', '--stdin',
            '--kernel', str(kernel.folder), '--engine', params['engine'],
            '--cpus', str(params['cpus']), '--mem', params['mem'], '--timeout', str(params['boot_timeout']),
            '--file', f'{module_of(kernel)}:{GUEST_MODULE}', '--log', str(log)]
    if params['topology']:
        argv += ['--topology', ','.join(f'{key}={n}' for key, n in params['topology'].items())]
    if params['icount']:
        argv += ['--icount']
    elif params['accel']:
        argv += ['--accel', params['accel']]
    if params.get('append_cmwq') and boot['variant'] == stats.OURS:
        argv += ['--append', params['append_cmwq']]
    return [*argv, *options_of_guest, '--', inside or command()]


class Seat:
    """A guest that waits for orders, and the results of its passes."""

    def __init__(self, boot: dict, log: Path, child: subprocess.Popen, messages: Any, params: dict[str, Any]):
        self.boot, self.log, self.child, self.messages, self.params = boot, log, child, messages, params
        self.limit = params['boot_timeout']
        self.begun = time.monotonic()
        self.rest = b''
        self.said: list[str] = []       # with the last report
        self.scopes: list[str] = []
        self.runs: list[dict] = []
        self.found: dict[str, Any] = {'passed_over': [], 'status': 'ok', 'violations': 0, 'notes': []}

    def error(self, text: str) -> BootError:
        return BootError(f'{text}; see {self.log}', self.boot)

    def report(self, clock: Clock) -> dict[str, Any]:
        """Wait for the report of a pass, and return it."""
        assert self.child.stdout
        while True:
            *whole, rest = self.rest.split(b'\n')
            lines = [line.decode('utf-8', 'replace') for line in whole]
            if DONE in lines:
                self.rest = b'\n'.join([*whole[lines.index(DONE) + 1:], rest])
                self.said = lines[:lines.index(DONE)]
                return self.parsed('\n'.join(self.said))
            clock()
            if not select.select([self.child.stdout], [], [], PROGRESS_S)[0]:
                continue
            piece = os.read(self.child.stdout.fileno(), 1 << 16)
            if not piece:
                raise self.failure(lines)
            self.rest += piece

    def parsed(self, text: str) -> dict[str, Any]:
        try:
            return bench_parse.parse_output(text)
        except Failure as error:
            raise self.error(str(error)) from None

    def failure(self, lines: list[str]) -> BootError:
        """Return the error of a guest that has ended early."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(timeout=END_S)
        status = self.child.returncode
        if status == TIMED_OUT:
            return self.error(f"the boot took longer than {self.limit} s")
        self.messages.seek(0)
        said = self.messages.read().decode('utf-8', 'replace')
        hints = [*check.bad_lines(read_text(self.log)), *said.splitlines(), *lines[-1:], 'no message']
        return self.error(f'the guest ended early (status {status}: "{hints[0]}")')

    def note(self, parsed: dict[str, Any]) -> None:
        self.found['notes'] += [line for line in parsed['notes'] if line not in self.found['notes']]
        self.found['violations'] += parsed['violations']
        if parsed['status'] != 'ok':
            self.found['status'] = parsed['status']

    def begin(self, wanted: list[str] | None, clock: Clock) -> None:
        """Wait until the guest is ready, and choose from its scopes."""
        parsed = self.report(clock)
        self.note(parsed)
        has = [run['scope'] for run in parsed['runs']]
        self.scopes = [scope for scope in wanted or has if scope in (*has, 'default')]
        self.scopes += options.floor_of(self.params) if self.scopes else []
        self.found['passed_over'] = [scope for scope in parsed['passed_over'] if not wanted or scope in wanted]
        if not self.scopes:
            raise self.error(f'this kernel has none of the scopes {", ".join(wanted or [])}: choose other --scopes')

    def give(self, line: str) -> None:
        """Give an order."""
        assert self.child.stdin
        with contextlib.suppress(BrokenPipeError):      # report() says why
            self.child.stdin.write(line.encode())
            self.child.stdin.flush()

    def take(self, repeat: int, clock: Clock) -> None:
        """Wait for the result of an order."""
        parsed = self.report(clock)
        self.note(parsed)
        self.runs += [{**run, 'repeat': repeat} for run in parsed['runs']]
        clock.newest = f"{self.boot['variant']}, {outline(self.runs[-1:])}"

    def make_pass(self, line: str, repeat: int, clock: Clock) -> None:
        """Give an order and wait for the result."""
        self.give(line)
        self.take(repeat, clock)

    def lost(self) -> bool:
        """Return True if items were lost. Further passes would only wait for more of them."""
        return any(run['lost'] for run in self.runs)

    def leave(self) -> dict:
        """End the guest. Return the entry of this boot for the record."""
        assert self.child.stdin
        self.child.stdin.close()
        try:
            status = self.child.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            raise self.error('the guest did not end after its last pass') from None
        if status:
            raise self.failure([])
        return {**self.boot, 'seconds': round(time.monotonic() - self.begun, 1), 'log': f'logs/{self.log.name}',
                'trouble': check.bad_lines(read_text(self.log)), 'runs': self.runs, **self.found}


@contextlib.contextmanager
def taken(kernel: Kind, params: dict[str, Any], boot: dict, log: Path,
          options_of_guest: Sequence[str] = (), inside: str = '') -> Iterator[Seat]:
    """Boot a guest that waits for orders, and end it with the block."""
    argv = guest_arguments(kernel, params, boot, log, options_of_guest, inside)
    with tempfile.TemporaryFile() as messages, \
            procs.kept(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages) as child:
        try:
            yield Seat(boot, log, child, messages, params)
        finally:
            if child.poll() is None:
                procs.end_gently(child, STOP_S)


def make_passes(seats: list[Seat], params: dict[str, Any], clock: Clock) -> None:
    """Run each scope in all guests in turn, and again. Who begins changes each time: A B, B A, A B, ..."""
    scopes = list(dict.fromkeys(scope for seat in seats for scope in seat.scopes))
    for repeat in range(1, params['repeats'] + 1):
        for number, scope in enumerate(scopes):
            for seat in seats if (repeat + number) % 2 else seats[::-1]:
                if scope in seat.scopes and not seat.lost():
                    seat.make_pass(order(params, scope), repeat, clock)


def play(kernels: dict[str, Kind], params: dict[str, Any], boots: list[dict], logs: list[Path],
         tick: Tick) -> list[dict]:
    """Boot guests together, and make all passes. Return the entries of these boots for the record."""
    params, clock = options.of_boot(params, boots[0]), Clock(tick)
    with contextlib.ExitStack() as stack:
        seats = [stack.enter_context(taken(kernels[boot['variant']], params, boot, log))
                 for boot, log in zip(boots, logs, strict=True)]
        for seat in seats:
            seat.begin(params['scopes'], clock)
        make_passes(seats, params, clock)
        return [seat.leave() for seat in seats]

# SPDX-License-Identifier: GPL-2.0
"""Which share of the CPUs' time goes into the workqueue, and into what of it: perf's samples, by class.

perf counts cycles where the CPU can count them. Elsewhere it uses a timer, `cpu-clock`. Under a
kernel that runs on the CPU itself, its interrupt waits while interrupts are off, as they are
under the lock of a pool. So a sample of that time falls on the function that turns them on.
"""
import collections
import contextlib
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from wqlab import procs
from wqlab.steps import first_match, plain_environment
from wqlab.workload import machine
from wqlab.workload.cases import Lacking
from wqlab.workload.profile import stacks

RATE = 997              # samples of a CPU in a second, not in step with the tick
MOST_NAMES = 12         # functions of each class that a record has
HEAD = re.compile(r'^.*?\s(\d+)\s+(\S+?):\s*$')
FRAME = re.compile(r'^\s+[0-9a-f]+ (\S+)')
LOST = re.compile(r'PERF_RECORD_LOST\w*.*?lost (\d+)')
Sample = tuple[str, int, list[str]]     # event, period, functions: the innermost first
ENDING_S = 60


def samples(text: str) -> Iterator[Sample]:
    """Yield the samples in the output of `perf script`: a head, a line for each function, an empty line."""
    for block in text.split('\n\n'):
        lines = [line for line in block.splitlines() if line.strip() and not LOST.search(line)]
        head = HEAD.match(lines[0]) if lines else None
        if head:
            yield head[2], int(head[1]), [frame[1] for frame in map(FRAME.match, lines[1:]) if frame]


def result(found: Iterable[Sample], lost: int) -> dict:
    """Return the share of each class in the time in which CPUs were neither idle nor tracing, in percent."""
    periods: collections.Counter[str] = collections.Counter()
    names: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    events: collections.Counter[str] = collections.Counter()
    for event, period, functions in found:
        kind = stacks.classify(functions)
        if kind in stacks.CLASSES:
            events[event] += 1
            periods[kind] += period
            names[kind][functions[0] if functions else '?'] += period
    if not events:
        raise Lacking('perf has no samples: the CPUs were idle')
    total = sum(periods.values())
    top = {kind: {name: round(100 * period / total, 2) for name, period in counter.most_common(MOST_NAMES)}
           for kind, counter in names.items()}
    return {'event': events.most_common(1)[0][0], 'samples': events.total(), 'lost': lost, 'top': top,
            'shares': {kind: round(100 * periods[kind] / total, 3) for kind in stacks.CLASSES}}


def lost(text: str) -> int:
    return sum(map(int, LOST.findall(text)))


def record_words(data: Path, *options: str) -> list[str]:
    return ['perf', 'record', '--quiet', '--freq', str(RATE), '--output', str(data), *options]


def script(data: Path, *options: str) -> str:
    return machine.run('perf', 'script', '--input', data, '--show-lost-events', '--fields',
                       'comm,period,event,ip,sym', *options)


def wait_for_start(perf: subprocess.Popen) -> None:
    """Wait until perf has begun: it starts `cat` then, which repeats what it gets. Raise Lacking if it fails."""
    assert perf.stdin and perf.stdout and perf.stderr
    with contextlib.suppress(BrokenPipeError):
        perf.stdin.write('\n')
        perf.stdin.flush()
    if not perf.stdout.readline():
        raise Lacking(f"perf cannot be used: {first_match(perf.stderr.read(), 'error', 'permi', 'not found', 'no ')}")


@contextlib.contextmanager
def sampling(data: Path, options: Sequence[str] = ('--all-cpus', '-g')) -> Iterator[None]:
    """Let perf take samples of all CPUs while the block runs."""
    environment = plain_environment(**machine.environment())
    with procs.kept([*record_words(data, *options), '--', 'cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True, env=environment) as perf:
        wait_for_start(perf)
        yield
        assert perf.stdin
        perf.stdin.close()      # `cat` ends, and so does perf
        procs.wait_for(perf, ENDING_S)

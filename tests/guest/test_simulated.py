# SPDX-License-Identifier: GPL-2.0
"""The rules of simulated machines, on programs whose answers are known on paper.

simulated/cases.c runs on bare CPUs of QEMU. Its cases follow each other in CASES as they do there. An instruction
takes 1 ps here, so that only what a case is about costs time.
"""
import itertools
import os
import subprocess

import pytest

from wqlab.guest.topology import complete, parse
from wqlab.paths import ROOT
from wqlab.simulated import qemu, stalls
from wqlab.simulated.machines import Machine

pytestmark = pytest.mark.tier('more')      # `make test-more` installs the compiler

HOME = ROOT / 'tests/guest/simulated'
CC = ('aarch64-linux-gnu-gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-march=armv8.1-a', '-mgeneral-regs-only',
      '-mno-outline-atomics', '-ffreestanding', '-fno-stack-protector', '-fno-pie', '-nostdlib', '-static', '-no-pie',
      '-Wl,-Ttext=0x40200000,--build-id=none')
CASES = ('bounce', 'bounce_exclusive', 'lock', 'readers', 'ping', 'poll', 'wake', 'wake_and_take', 'count',
         'count_alone', 'write', 'write_and_wait', 'write_and_add', 'write_and_release', 'load_and_cas', 'touch',
         'flush', 'spinlock', 'chain')
PARAMETERS = 0x48000000
INSN = 0.001        # ns
LINE = 50
QUANTUM = 10        # short, so that no CPU does all its turns before others have begun
NS = dict(atomic=0, core_line=LINE, llc_line=LINE, socket_line=LINE, far_line=LINE, first=0, hold=0, buffer=1000,
          wake=3000, ipi=200, irq=400, relax=1)
# A CPU looks at the clock once in a turn of a loop, so it may begin a turn later than others: 1 ns
TURN = 2


class Bare:
    """A program without a kernel, on a simulated machine."""

    def __init__(self, folder):
        self.program, self.uart, self.out = (folder / name for name in ('cases', 'uart', 'out'))
        subprocess.run([*CC, '-o', self.program, HOME / 'start.S', HOME / 'cases.c'], check=True)
        self.plugin = qemu.build(folder)
        symbols = subprocess.run(['aarch64-linux-gnu-nm', self.program], capture_output=True, text=True, check=True)
        self.toggle, = (row.split()[0] for row in symbols.stdout.splitlines() if row.endswith(' toggle'))
        self.failures = self.stretch = self.text = None

    def start(self, machine, case, turns, seed=0, quantum=QUANTUM):
        cpus = machine.topology.cpus
        memory = [word for number, value in enumerate((CASES.index(case), cpus, turns)) for word in
                  ('-device', f'loader,addr={PARAMETERS + 4 * number:#x},data={value},data-len=4')]
        return subprocess.run(['qemu-system-aarch64', *qemu.BOARD, '-smp', str(cpus), '-m', '256', '-display', 'none',
                               '-nodefaults', '-serial', f'file:{self.uart}', '-kernel', self.program, *memory,
                               '-plugin', qemu.argument(self.plugin, machine, self.out, self.toggle, seed, quantum)],
                              env={**os.environ, **qemu.environment(self.plugin)}, timeout=60, check=False,
                              capture_output=True, text=True)

    def run(self, case, cpus=2, turns=100, topology='', ghz=1 / INSN, queue=1, seed=0, quantum=QUANTUM, **ns):
        """Run a case. Return how many ns each CPU took."""
        shape = complete(parse(topology), None if topology else cpus)
        done = self.start(Machine('test', '', shape, ghz, 1, 1.6, queue, {**NS, **ns}), case, turns, seed, quantum)
        assert (done.returncode, done.stderr) == (0, '')
        self.text = [file.read_text() for file in (self.uart, self.out)]
        rows = [row.split() for row in self.text[0].splitlines()]
        assert len(rows) == shape.cpus
        self.failures = [int(failed) for _, failed in rows]
        self.stretch, = stalls.read(self.out)
        return [int(ns) for ns, _ in rows]


@pytest.fixture(scope='module')
def bare(tmp_path_factory):
    return Bare(tmp_path_factory.mktemp('bare'))


def about(ns):
    return pytest.approx(ns, abs=TURN)


@pytest.mark.parametrize('case', ['bounce', 'bounce_exclusive'])
def test_two_cpus_bounce_a_line(bare, case):
    """Each atomic instruction is one transfer, by LSE as by LDXR and STXR."""
    assert max(bare.run(case, turns=100)) == about(2 * 100 * LINE)
    _, moves, ps = bare.stretch.by(lambda stall: stall.line)[0]
    assert moves == 200 and ps == pytest.approx(200 * 2 * LINE * 1000, rel=0.02)


def test_a_line_that_others_wait_for_moves_slowly(bare):
    """All want it at once. From the third move on there is a queue. There is none if two CPUs send each other a line,
    or if all read it."""
    times = sorted(bare.run('bounce', 8, turns=1, queue=3))
    assert [late - soon for soon, late in itertools.pairwise(times[2:])] == [about(3 * LINE)] * 5
    assert max(bare.run('bounce', turns=100, queue=3)) == about(2 * 100 * LINE)
    assert sorted(bare.run('readers', 8, queue=3)) == [about(0), *[about(LINE)] * 7]


def test_a_cpu_that_has_fetched_a_line_gives_others_a_turn(bare):
    """It does not use up a long quantum. Only CPU 0, which has the line at first, may do so once."""
    assert max(bare.run('bounce', turns=1000, quantum=200)) == pytest.approx(2 * 1000 * LINE, abs=200 * LINE)


def test_atomic_instructions(bare):
    assert bare.run('bounce', 1, turns=100, atomic=7) == [about(100 * (7 + 1))]


@pytest.mark.parametrize('topology, ns', [
    ('cores=1,threads=2', 10), ('cores=2', 40), ('cores=2,llcs=2', 80), ('sockets=2,cores=1', 200)])
def test_distance(bare, topology, ns):
    """A line comes from the same core, cache, socket, or from another socket. CPU 0 may begin, who has it."""
    costs = dict(core_line=10, llc_line=40, socket_line=80, far_line=200)
    assert max(bare.run('bounce', topology=topology, turns=100, **costs)) == pytest.approx(2 * 100 * ns, abs=ns + TURN)


@pytest.mark.parametrize('cpus', [2, 8, 16])
def test_owners_of_a_lock_follow_each_other(bare, cpus):
    """Each owner fetches the line behind the lock. Its release takes the lock's line from those who wait, and the next
    one fetches it: three transfers. The first owner fetches the ticket and the lock's line from CPU 0."""
    times = sorted(bare.run('lock', cpus))
    assert times == [about(3 * LINE * number) for number in range(cpus)]


def test_readers_do_not_wait_for_each_other(bare):
    assert sorted(bare.run('readers', 8)) == [about(0), *[about(LINE)] * 7]


@pytest.mark.parametrize('case', ['ping', 'poll'])
def test_a_ping_is_two_transfers(bare, case):
    """One for the writer, who takes the line from the reader, one for the reader. Who polls finds out a turn later."""
    assert max(bare.run(case, turns=100)) == pytest.approx(4 * 100 * LINE, abs=TURN + (200 if case == 'poll' else 0))


def test_who_waits_in_wfe_executes_nothing(bare):
    """It would poll 10,000 times in a turn."""
    def instructions(turns):
        bare.run('ping', turns=turns, llc_line=5000)
        return bare.stretch.counters['instructions']
    assert instructions(110) - instructions(10) < 100 * 60


def test_wake_up_of_a_halted_cpu(bare):
    """CPU 0 polls 5000 times, and then sends an interrupt, which costs it some time. CPU 1 starts after a while."""
    sender, woken = bare.run('wake', turns=5000)
    assert sender == pytest.approx(5000 + 200, abs=25) and woken == about(sender + 3000)
    assert bare.stretch.counters['wakes'] == bare.stretch.counters['ipis'] == 1
    sender, woken = bare.run('wake_and_take', turns=5000)
    assert woken == about(sender + 3000 + 400)
    sender, woken = bare.run('wake', turns=5000, wake=9000, ipi=0)
    assert sender == pytest.approx(5000, abs=25) and woken == about(sender + 9000)


def test_instructions_beside_a_busy_sibling(bare):
    """Twice 50,000 instructions of 1 ns"""
    assert bare.run('count', cpus=1, turns=50000, ghz=1)[0] == pytest.approx(100_000, abs=50)
    assert bare.run('count', topology='cores=2', turns=50000, ghz=1) == [pytest.approx(100_000, abs=50)] * 2
    assert bare.run('count', topology='cores=1,threads=2', turns=50000, ghz=1) == [pytest.approx(160_000, abs=50)] * 2
    alone, _ = bare.run('count_alone', topology='cores=1,threads=2', turns=50000, ghz=1, ipi=0)
    assert alone == pytest.approx(100_000, abs=50)


def test_stores_wait_in_a_buffer(bare):
    assert bare.run('write') == [about(0), about(0)]
    assert bare.run('write_and_wait') == [about(0), about(LINE)]
    assert bare.run('write', buffer=20) == [about(0), about(LINE - 20)]


def test_what_waits_for_stores(bare):
    """An atomic instruction, and a store that releases: then its line is taken from CPU 0, and fetched by it."""
    assert bare.run('write_and_add') == [about(0), about(2 * LINE)]
    assert bare.run('write_and_release') == [about(3 * LINE), about(0)]


def test_a_line_is_held_for_a_while(bare):
    """With two CPUs that load a number and then compare and swap it, someone comes between each time, or nobody does.

    Each has two transfers to make: to read the line, and to take it from the other one.
    """
    assert max(bare.run('load_and_cas', turns=100, hold=0.5)) == about(2 * 200 * LINE)
    assert bare.failures == [0, 0]
    bare.run('load_and_cas', turns=100, hold=0)
    assert sum(bare.failures) >= 190


def test_a_hold_does_not_lead_to_the_next_one(bare):
    """CPU 2 wants the third line while CPU 1 waits for the second one, so CPU 2 gets it first."""
    assert bare.run('chain', 3, turns=60, hold=1) == [about(0), about(160), about(110)]


def test_the_first_touch(bare):
    assert bare.run('touch', 1, turns=200, first=30)[0] == about(200 * 30)


def test_the_same_seed_is_the_same_run(bare):
    """To the bit, beside others that want the host's CPUs as well. Another seed is another run."""
    seeds = []
    for seed in (1, 2):
        runs = []
        for busy in (False, True):
            others = [subprocess.Popen(['sh', '-c', 'while :; do :; done']) for _ in range(3 * busy)]
            try:
                bare.run('load_and_cas', 8, turns=50, seed=seed)
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            runs.append(bare.text)
        assert runs[0] == runs[1]
        seeds.append(runs[0])
    assert seeds[0] != seeds[1]


def test_cpus_that_want_to_be_alone(bare):
    """QEMU stops all CPUs for a flush of all TLBs, of which each has to wait until it has its turn."""
    runs = [(bare.run('flush', 8, turns=100), bare.text) for _ in range(2)]
    assert runs[0] == runs[1] and len(runs[0][0]) == 8


def test_who_takes_a_lock_does_not_depend_on_the_quantum(bare):
    """A CPU that is ahead of others waits for them before it tries to take a lock."""
    short, long = (max(bare.run('spinlock', 8, turns=200, ghz=2.5, relax=20, quantum=ns)) for ns in (20, 500))
    assert long == pytest.approx(short, rel=0.05)


@pytest.mark.parametrize('change, why', [
    (dict(cpus=3), 'cpus=3, but QEMU has 2'), (dict(speed=9), 'what is speed?'), (dict(wake='x'), 'what is wake?'),
    (dict(threads=0), 'needs CPUs in each core')])
def test_the_plugin_refuses_wrong_arguments_with_one_line(bare, monkeypatch, change, why):
    constants = Machine.constants
    monkeypatch.setattr(Machine, 'constants', lambda machine: {**constants(machine), **change})
    done = bare.start(Machine('test', '', complete({}, 2), 1, 1, 1, 1, NS), 'count', turns=1)
    assert done.returncode and why in done.stderr.splitlines()[0]

# SPDX-License-Identifier: GPL-2.0
"""Guests whose workqueues and items are known, for the tests of the drgn scripts.

A guest creates workqueues and items with the module wq_test_helper. It prints what sysfs
and the module report about them, and then changes nothing more. scripts/dump-guest.sh
saves its memory. Each guest is booted once, even if many tests use it.
"""
import atexit
import contextlib
import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import builds
import guests
from builds import OLD
from once import once
from wqlab import cpus, procs
from wqlab.guest import running
from wqlab.kernels import base, kinds
from wqlab.paths import ROOT
from wqlab.scopes import SCOPES
from wqlab.torture.matrix import OWN

LOGS = guests.RESULTS / 'drgn'
ENDING_S = 60       # enough for a runner to end its guest and to delete its files
PYTHON = ROOT / 'build/venv/bin/python3'
DRGN = ROOT / 'build/venv/bin/drgn'
TOOLS = ROOT / 'tools/workqueue'


@dataclasses.dataclass(frozen=True)
class Machine:
    name: str
    cpus: int
    topology: str
    variant: str = guests.VARIANT
    linux: str = guests.LINUX
    mem: str = '512M'
    append: str = ''
    offline: tuple = ()         # CPUs that are taken down before work is queued
    timeout: int = 300
    tier: str = 'test'

    @property
    def kernel(self):
        return guests.Kernel('qemu', 'release', self.variant, self.linux)

    @property
    def old(self):
        """Return True if this is the base's workqueue of an old release."""
        return (self.linux, self.variant) == (OLD, 'base')

    @property
    def scopes(self):
        return [scope for scope in SCOPES if not self.old or scope != 'cache_shard']


# numa: 2 sockets, each with one LLC, one node and 2 cores.
# 36-smt: one LLC with 36 cores of 2 threads.
# unequal: LLCs of 8, 8, 8 and 3 CPUs. The last LLC has a core with one thread. Two CPUs are offline.
# own: as numa, with own pools as soon as a CPU shares its pool.
MACHINES = (
    Machine('numa', 4, 'sockets=2,cores=2,nodes=2'),
    Machine('36-smt', 72, 'cores=36,threads=2', mem='1G', tier='more'),
    Machine('unequal', 32, 'sockets=2,cores=8,threads=2,llcs=4', append='nr_cpus=27', offline=(9, 25), tier='more'),
    Machine('own', 4, 'sockets=2,cores=2,nodes=2', append=OWN, offline=(3,)),
)
BASE = Machine('base', 4, 'sockets=2,cores=2,nodes=2', variant='base', tier='all')
OLDER = Machine(f'base-{OLD}', 4, 'sockets=2,cores=2,nodes=2', variant='base', linux=OLD, tier='all')
CARRIED = Machine(f'cmwq-{OLD}', 4, 'sockets=2,cores=2,nodes=2', variant='cmwq', linux=OLD, tier='all')

HELPER = r'''
modprobe wq_test_helper || exit 1
H=/sys/kernel/debug/wq_test
mk() { echo "$@" >$H/create || echo "@@ failed: create $*"; }
q() { echo "$2" >$H/$1/queue || echo "@@ failed: queue $*"; }
mk t_percpu percpu
mk t_limit percpu max_active=1
mk t_unbound unbound max_active=2
mk t_reclaim percpu mem_reclaim
q t_percpu "block cpu=1 n=2"
q t_percpu "nop cpu=0 n=7"
q t_limit "block cpu=0 n=3"
q t_unbound "block cpu=0 n=5"
'''
# On the base kernel 6.12 the helper cannot create ordered and BH workqueues, so they are left out.
WORK = HELPER + r'''
P=/sys/module/workqueue/parameters
mk t_intense percpu cpu_intensive
mk t_urgent unbound mem_reclaim highpri
mk t_strict unbound
mk t_stall percpu
q t_intense "hog cpu=$LAST ms=3000000"
q t_reclaim "block cpu=0"
q t_urgent "block cpu=$LAST n=2"
if [ $OLD = 0 ]; then
	mk t_ordered ordered
	mk t_bh bh
	q t_ordered "block n=4"
	q t_bh "nop cpu=1 n=4"
fi
D=/sys/bus/workqueue/devices/t_strict
echo 1 >$D/affinity_strict
echo 5 >$D/nice
for scope in $SCOPES; do
	echo $scope >$D/affinity_scope || echo "@@ failed: scope $scope"
	sed "s/^/@@ map $scope /" $H/t_strict/map
done
echo smt >$D/affinity_scope
echo 3 >$D/cpumask
'''

# Queued last: items of the kernel may also have to wait behind the hog.
STALL = r'''
echo 0 >$P/cpu_intensive_thresh_us
q t_stall "hog cpu=1 ms=3000000"
until [ "$(wc -l <$H/t_stall/held)" -eq 1 ]; do sleep 0.1; done
q t_stall "nop cpu=1 n=3"
'''

FACTS = r'''
echo "@@ facts"
echo "uname:$(uname -r)"
cd /sys/devices/system
grep -H "" cpu/online cpu/possible node/online node/node*/cpulist cpu/cpu*/topology/physical_package_id \
	cpu/cpu*/topology/thread_siblings_list cpu/cpu*/cache/index3/shared_cpu_list
cd /sys/devices/virtual/workqueue
grep -H "" cpumask */per_cpu */max_active */nice */cpumask */affinity_scope */affinity_strict
cd $P
grep -H "" *
cd $H
grep -H "" */held */stats
echo "@@ end facts"
'''


def script(machine):
    last = max(set(range(online_limit(machine))) - set(machine.offline))
    down = '\n'.join(f'echo 0 >/sys/devices/system/cpu/cpu{cpu}/online' for cpu in machine.offline)
    return '\n'.join([
        down, f'LAST={last} OLD={int(machine.old)} SCOPES="{" ".join(machine.scopes)}"',
        WORK, STALL, 'sleep 1', FACTS, 'echo "@@ ready"',
        'while read -r up rest </proc/uptime; do echo "@@ tick $up"; sleep 0.5; done'])


def online_limit(machine):
    limit = re.search(r'nr_cpus=(\d+)', machine.append)
    return int(limit[1]) if limit else machine.cpus


@functools.cache
def place():
    """Make a folder for this run. It is deleted at the end, or by the next run if this one is killed."""
    for folder in (guests.RESULTS, LOGS):
        folder.mkdir(parents=True, exist_ok=True)
    procs.remove_leftovers(guests.RESULTS, 'drgn-*')
    folder = Path(tempfile.mkdtemp(prefix=f'drgn-{os.getpid()}-', dir=guests.RESULTS))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# Guests

class Output:
    """Collects the output of a guest. wait() waits until a line matches a pattern."""

    def __init__(self):
        self.text, self.ended = '', False
        self.news = threading.Condition()

    def write(self, line):
        with self.news:
            self.text += line
            self.news.notify_all()

    def flush(self):
        pass

    def end(self):
        with self.news:
            self.ended = True
            self.news.notify_all()

    def wait(self, pattern, timeout, start=0):
        def found():
            return re.compile(pattern, re.M).search(self.text, start)
        with self.news:
            self.news.wait_for(lambda: found() or self.ended, timeout)
            if not found():
                raise AssertionError(f'the guest did not print {pattern!r}:\n{self.text[-3000:]}')
            return found()


@dataclasses.dataclass
class Seen:
    """A guest and the data that was read from it."""
    machine: Machine
    core: Path
    vmlinux: Path
    dump: dict          # the output of wq_dump.py --json
    output: str         # what the guest printed
    log: str            # kernel log

    @functools.cached_property
    def facts(self):
        """Return the files that the guest printed: name -> lines."""
        part = self.output.partition('@@ facts\n')[2].partition('@@ end facts\n')[0]
        found = {}
        for line in part.splitlines():
            name, _, value = line.partition(':')
            found.setdefault(name, []).append(value)
        return found

    def fact(self, name):
        assert len(self.facts[name]) == 1, self.facts[name]
        return self.facts[name][0]

    @property
    def online(self):
        return cpus_of(self.fact('cpu/online'))

    def files(self, pattern):
        """Return the first line of each file whose name matches, by the group of the pattern."""
        found = {match[1]: lines[0] for name, lines in self.facts.items() if (match := re.fullmatch(pattern, name))}
        assert found, f'no file name matches {pattern}'
        return found

    def map(self, scope):
        """Return for each CPU where its worker in this scope may run, as the helper reported it."""
        found = re.findall(rf'^@@ map {scope} cpu=(\d+) ran=\d+ pid=\d+ allowed=(\S+) ', self.output, re.M)
        return {int(cpu): cpus_of(allowed) for cpu, allowed in found}

    def held(self):
        """Return (workqueue, function, pid, CPU) of each running item, as the helper reported it."""
        return [(name.partition('/')[0], f'wqh_{kind}_fn', int(pid), int(cpu))
                for name, lines in self.facts.items() if name.endswith('/held')
                for kind, pid, cpu in re.findall(r'^(\w+) pid=(\d+) cpu=(\d+)$', '\n'.join(lines), re.M)]

    def stats(self, name):
        return {key: int(value) for key, value in (line.split() for line in self.facts[f'{name}/stats'])}


def cpus_of(text):
    return set(cpus.parse(text))


def mask_of(text):
    """Convert a mask that sysfs prints to a set."""
    bits = int(text.replace(',', ''), 16)
    return {cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1}


def copy_output(source, output):
    for line in source:
        output.write(line)
    output.end()


@contextlib.contextmanager
def started(*command, ending_s=ENDING_S):
    """Start a program of scripts/lab. Yield it and its Output. At the end of the block, end it and its guest."""
    output = Output()
    with procs.kept(['scripts/lab', *command], cwd=ROOT, text=True, errors='replace', stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        copier = threading.Thread(target=copy_output, args=(child.stdout, output), daemon=True)
        copier.start()
        try:
            yield child, output
        finally:
            procs.end_gently(child, ending_s)
    copier.join(ENDING_S)


def came_to(pattern, output, timeout):
    """Wait for a line that matches. Fail if the guest reported that a command failed."""
    output.wait(pattern, timeout)
    failed = re.search('^@@ failed: .*', output.text, re.M)
    assert not failed, f'{failed[0]}\n{output.text[-3000:]}'


@contextlib.contextmanager
def guest_of(machine, folder):
    """Boot the machine and wait until its items are queued. Yield its name for dump-guest.sh, and its Output."""
    log = place() / f'{machine.name}.log'
    socket = os.path.relpath(place() / f'{machine.name}.qmp', ROOT)     # relative, since QEMU allows 107 bytes
    try:
        with started('guest', '--kernel', folder, '--engine', 'qemu', '--cpus', machine.cpus, '--topology',
                     machine.topology, '--mem', machine.mem, f'--append={machine.append}', '--timeout',
                     machine.timeout, '--log', log, '--qmp', socket, '--', script(machine)) as (child, output):
            came_to('^@@ ready$', output, machine.timeout)
            yield str(child.pid), output
    finally:
        if log.exists():
            os.replace(log, LOGS / log.name)


@once
def seen(machine):
    folder, core = guests.builds.RUN.get(machine.kernel), place() / f'{machine.name}.core'
    guests.say(f'drgn-{machine.name}: booting {folder.name} with {machine.cpus} CPUs {machine.topology} '
               f'{machine.append}'.rstrip())
    begin = time.monotonic()
    with guest_of(machine, folder) as (name, output):
        done = call('scripts/dump-guest.sh', '--guest', name, '--keep', core, 'dump', '--json')
        assert done.returncode == 0, done.stderr
        output.wait('^@@ tick', 30, start=len(output.text))
    guests.say(f'drgn-{machine.name}: {time.monotonic() - begin:.0f} s')
    return Seen(machine, core, folder / 'vmlinux', json.loads(done.stdout), output.text,
                (LOGS / f'{machine.name}.log').read_text())


# A guest of `make boot`. It has the files of the host, and so it has python.

LIVE_CPUS = 'sockets=2,cores=2,nodes=2'
LIVE = HELPER + r'''
mk m_load percpu
mk m_gone unbound
q t_reclaim "block cpu=2"
q m_gone "nop n=3"
echo "threads=1 depth=2 sleep_us=20000" >$H/m_load/load
$PYTHON $PLACE/watch.py || echo "@@ failed: watch.py"
echo m_load >$H/destroy
echo "@@ live"
$PYTHON $TOOLS/wq_dump.py --symbols $VMLINUX --json
echo "@@ end live $?"
for tool in wq_dump wq_monitor; do
	said=$(setpriv --bounding-set=-sys_rawio $PYTHON $TOOLS/$tool.py --symbols $VMLINUX 2>&1)
	echo "@@ nobody $? $said"
done
echo "@@ ready"
while read -r up rest </proc/uptime; do echo "@@ tick $up"; sleep 0.5; done
'''

# Use wq_monitor.py as a person does: watch while a workqueue is destroyed, then press Ctrl-C.
WATCH = r'''
import json, os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, os.environ['TOOLS'] + '/wq_monitor.py', '--symbols', os.environ['VMLINUX'],
                          '--interval', '1', '--json', '^m_'], stdout=subprocess.PIPE, text=True)
times = set()
for line in child.stdout:
    print('@@ sample', line, end='', flush=True)
    times.add(json.loads(line)['timestamp'])
    if len(times) == 3 and os.path.exists('/sys/kernel/debug/wq_test/m_gone'):
        with open('/sys/kernel/debug/wq_test/destroy', 'w') as file:
            file.write('m_gone')
    if len(times) == 6:
        break
child.send_signal(signal.SIGINT)
for line in child.communicate()[0].splitlines():
    print('@@ sample', line)
print('@@ monitor ended', child.returncode, flush=True)
'''


@dataclasses.dataclass
class Booted:
    """A running guest."""
    name: str           # for dump-guest.sh
    socket: str
    vmlinux: Path
    output: Output

    @property
    def live(self):
        """Return what wq_dump.py --json printed inside the guest."""
        return json.loads(re.search(r'^@@ live$(.*)^@@ end live 0$', self.output.text, re.M | re.S)[1])

    @property
    def samples(self):
        """Return the samples that wq_monitor.py --json printed inside the guest before Ctrl-C."""
        return [json.loads(line) for line in re.findall(r'^@@ sample (.*)$', self.output.text, re.M)]

    def goes_on(self):
        """Wait for the next tick of the guest. It shows that the guest is not paused."""
        self.output.wait('^@@ tick', 60, start=len(self.output.text))
        return True


@contextlib.contextmanager
def booted():
    """Boot our kernel as `make boot` does. Yield the guest when its commands have run, and end it after the block."""
    folder = guests.kernel('qemu')
    (place() / 'watch.py').write_text(WATCH)
    (place() / 'live.sh').write_text(LIVE)
    settings = f'PYTHON={PYTHON} PLACE={place()} TOOLS={TOOLS} VMLINUX={folder / "vmlinux"}'
    guests.say('drgn-live: booting; drgn inside takes a minute')
    begin = time.monotonic()
    # own pools come and go, but two dumps of this guest must agree
    with started('boot', '--kernel', folder, '--topology', LIVE_CPUS, '--mem', '1G',
                 '--append', 'workqueue.own_pools=0',
                 '--command', f'export {settings}; sh {place()}/live.sh') as (child, output):
        try:
            came_to('^@@ ready', output, 600)
            guests.say(f'drgn-live: {time.monotonic() - begin:.0f} s')
            yield Booted(str(child.pid), str(running.FOLDER / f'{child.pid}.qmp'), folder / 'vmlinux', output)
        finally:
            (LOGS / 'live.log').write_text(output.text)


# Tools

def call(*command, timeout=120, feed='', **more):
    return subprocess.run([str(word) for word in command], cwd=ROOT, text=True, capture_output=True,
                          input=feed, timeout=timeout, check=False, **more)


def base_tools(machine):
    """Return the base kernel's scripts that know this workqueue. Ours is that of the newest release on all kernels."""
    linux = kinds.LINUX if machine.variant == 'cmwq' else machine.linux
    with builds.without_unfit(linux):
        return base.fetch(linux).tree / 'tools/workqueue'


def tool(name, what, *arguments, **more):
    """Run one of our tools with python."""
    return call(PYTHON, TOOLS / name, '--core', what.core, '--symbols', what.vmlinux, *arguments, **more)


def by_drgn(path, what, *arguments):
    """Run a script with drgn."""
    return call(DRGN, '-q', '-c', what.core, '-s', what.vmlinux, path, *arguments)

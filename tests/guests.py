# SPDX-License-Identifier: GPL-2.0
"""The guests that the tests boot, and the scripts and suites that run in each."""
import dataclasses
import functools
import itertools
import re
import time

import pytest

import background
import builds
import kernlog
from builds import LINUX, OLD, VARIANT, Kernel
from progress import say
from wqlab.guest import run as guest
from wqlab.guest.topology import complete, parse
from wqlab.kernels import kinds
from wqlab.logs.check import without_stamp
from wqlab.paths import ROOT
from wqlab.torture.matrix import OWN

BEFORE = kinds.releases()[kinds.releases().index(kinds.LINUX) + 1]
RESULTS = ROOT / 'build' / 'test'
SELFTESTS = ROOT / 'tools/testing/selftests/workqueue'
KUNIT = ('wq_shard_kunit', 'wq_topology_kunit', 'wq_api_kunit')
BUILT_IN = 'kunit'              # all suites, if they are built into the kernel
BEYOND_BASE = {'resize', 'own', 'console', 'stats'}     # scripts that test features which the base kernel lacks


@dataclasses.dataclass(frozen=True)
class Boot:
    name: str
    engine: str
    scripts: tuple = ()
    suites: tuple = ()
    config: str = 'release'
    variant: str = VARIANT
    linux: str = LINUX
    tier: str = 'test'
    cpus: int = 2
    topology: str = ''
    online: int = 0             # CPUs that Linux brings up, if not all
    shards: str = ''            # the number of cores in each shard, the largest first
    mem: str = '512M'
    bins: tuple = ()            # programs of the host that the scripts need
    append: str = ''
    env: str = ''
    icount: bool = False        # time counts instructions, for guests with many CPUs
    timeout: int = 300
    dies: bool = False          # the script makes the kernel panic

    @property
    def kernel(self):
        return Kernel(self.engine, self.config, self.variant, self.linux)

    def pieces(self):
        return [*self.scripts, *self.suites]

    @property
    def job(self):
        return background.Job(f'guest {self.name}', self.kernel, functools.partial(boot_once, self))

    def lacks(self, piece):
        return self.variant == 'base' and piece in BEYOND_BASE

    @property
    def may_skip(self):
        """Return a pattern of the reasons for which a point may be skipped: those that are true of this guest."""
        machine = complete(parse(self.topology), None if self.topology else self.cpus)
        reasons = [reason for reason, is_true in {
            'one CPU': machine.cpus == 1,
            'the CPUs are in one package': machine.sockets == 1,
            'the base kernel': self.variant == 'base',
            'the CPUs cannot go offline': self.engine == 'uml',
            'no sizes': not self.shards,
            'this kernel has no freezer': False,
            'this kernel has no lockdep': self.config not in ('debug', 'rt'),
            'the CPUs are fewer than three': machine.cpus < 3,
            'the CPUs are not on two nodes': machine.nodes != 2,
            'the CPUs of a node are too few': machine.cpus // machine.nodes == 1,
            'the CPUs are not isolated at boot': 'isolcpus=' not in self.append,
            'the CPUs all have a tick': 'nohz' not in self.append,
            'the CPUs have no tick': 'nohz' in self.append,
            'the CPUs are all online': 'maxcpus=' not in self.append,
            'the CPUs that stay are too few': 'nohz' in self.append or 'isolcpus=' in self.append,
            'this KUnit cannot suppress warnings': self.linux == OLD,
            'the kernel was not booted with kmemleak=on': 'kmemleak=on' not in self.append,
            'wq_api_kunit.early is off': 'wq_api_kunit.early=1' not in self.append.split(),
            # Its KUnit gives no reason when a suite that ran at boot runs again.
            '$': self.linux == OLD,
        }.items() if is_true]
        return '|'.join(reasons) or None


EVERYWHERE = ('sysfs', 'params', 'pods', 'masks', 'resize', 'own', 'rescuer', 'isolate', 'observe', 'stats')
# These take a third of a debug guest's time. The other scripts and torture take nearly all of the same locks.
SLOW_IN_DEBUG = ('sysfs', 'params', 'observe', 'rescuer')
# With own pools, these take half a minute and find nothing that they do not find without it.
ALIKE_WITH_OWN = ('sysfs', 'observe', 'stats')
ONE_ROUND = 'WQT_ROUNDS=1'
GOOD_PARAMETERS = ' '.join('workqueue.' + p for p in (
    'default_affinity_scope=numa', 'cache_shard_size=1', 'unbound_cpus=1', 'power_efficient=1',
    'debug_force_rr_cpu=1', 'cpu_intensive_thresh_us=20000', 'cpu_intensive_warning_thresh=6',
    'watchdog_thresh=7', 'panic_on_stall=5', 'panic_on_stall_time=99', 'own_pools=2',
    'offload_isolated=1'))
BAD_PARAMETERS = ' '.join('workqueue.' + p for p in (
    'default_affinity_scope=cachex', 'cache_shard_size=0', 'unbound_cpus=nonsense',
    'watchdog_thresh=x')) + ' isolcpus=domain,1'

BOOTS: tuple[Boot, ...] = (
    Boot('uml-2', 'uml', (*EVERYWHERE, 'console', 'watchdog'), shards='1 1', timeout=400),
    Boot('uml-1', 'uml', ('sysfs', 'params', 'pods', 'rescuer', 'observe'), cpus=1, tier='more', timeout=400),
    # `params` expects the defaults
    Boot('uml-own', 'uml', tuple(name for name in EVERYWHERE if name not in ('params', *ALIKE_WITH_OWN)), (BUILT_IN,),
         append=OWN, shards='1 1', tier='more', timeout=400),
    Boot('uml-own-rest', 'uml', (*ALIKE_WITH_OWN, 'watchdog'), append=OWN, tier='all', timeout=400),
    Boot('uml-kunit', 'uml', suites=(BUILT_IN,), tier='quick', append='wq_api_kunit.early=1', timeout=400),
    Boot('uml-parameters', 'uml', ('boot',), tier='quick', append=GOOD_PARAMETERS),
    Boot('uml-bad-parameters', 'uml', ('rejected',), tier='quick', append=BAD_PARAMETERS),
    Boot('uml-panic', 'uml', ('panic',), append='workqueue.panic_on_stall=1', tier='quick', dies=True, timeout=60),
    Boot('uml-panic-time', 'uml', ('panic',), append='workqueue.panic_on_stall_time=4', tier='more', dies=True,
         timeout=60),
    Boot('uml-pause', 'uml', ('pause',), tier='more'),
    Boot('uml-reclaim', 'uml', ('reclaim',), mem='96M', bins=('mkfs.ext4',), env='WQT_SHORTAGE_S=30',
         tier='more'),
    Boot('uml-own-reclaim', 'uml', ('reclaim',), mem='96M', bins=('mkfs.ext4',), tier='all',
         append=f'{OWN} workqueue.default_affinity_scope=system'),
    Boot('uml-debug', 'uml', (*(name for name in EVERYWHERE if name not in SLOW_IN_DEBUG), 'console', 'watchdog'),
         (BUILT_IN,), config='debug', mem='1G', env=ONE_ROUND, shards='1 1', tier='more', timeout=1500),
    Boot('uml-debug-rest', 'uml', SLOW_IN_DEBUG, config='debug', mem='1G', tier='all', timeout=900),
    Boot('uml-faults', 'uml', ('faults',), config='debug', mem='1G', tier='more', timeout=900),
    Boot('uml-own-faults', 'uml', ('faults',), config='debug', mem='1G', append=OWN, tier='all', timeout=900),
    # with kmemleak, there are twice as many allocations to fail, and each is slower
    Boot('uml-leaks', 'uml', ('faults',), config='debug', mem='1G', append='kmemleak=on', tier='all', timeout=3600),
    # 2 sockets, LLCs and nodes with 2 cores each
    Boot('qemu-numa', 'qemu', ('pods', 'own', 'hotplug', 'freezer', 'sysrq', 'stats'), cpus=4,
         topology='sockets=2,cores=2,nodes=2', mem='1G', shards='2 2', timeout=900),
    # what uml-2 and uml-kunit have, too
    Boot('qemu-numa-rest', 'qemu', ('sysfs', 'params', 'masks', 'resize', 'console'), ('wq_api_kunit',), cpus=4,
         topology='sockets=2,cores=2,nodes=2', mem='1G', shards='2 2', tier='more', timeout=900),
    Boot('qemu-own', 'qemu', ('own', 'hotplug', 'pods', 'masks', 'freezer', 'resize'), cpus=4,
         topology='sockets=2,cores=2,nodes=2', mem='1G', append=OWN, env=ONE_ROUND, shards='2 2', tier='more',
         timeout=900),
    # one LLC of 36 cores: the most even division is 8 7 7 7 7
    Boot('qemu-36', 'qemu', ('pods', 'resize'), cpus=36, topology='cores=36', mem='2G',
         shards='8 7 7 7 7', tier='more', timeout=600),
    Boot('qemu-smt', 'qemu', ('pods',), cpus=36, topology='cores=18,threads=2', mem='2G',
         shards='6 6 6', tier='more', timeout=600),
    # LLCs of 6 and 4 cores; the last core has lost its second thread
    Boot('qemu-unequal', 'qemu', ('pods',), cpus=24,
         topology='sockets=2,cores=6,threads=2', online=19, mem='1G',
         append='nr_cpus=19 workqueue.cache_shard_size=4', shards='4 3 3', tier='more', timeout=900),
    # one CPU of each LLC is outside all domains of the scheduler
    Boot('qemu-isolated', 'qemu', ('pods',), cpus=8, topology='sockets=2,cores=4',
         mem='1G', append='isolcpus=domain,1,5', tier='more', timeout=600),
    # CPUs without a tick: the only other one comes up last, the others come up after the boot, and
    # the others are also out of all domains
    Boot('qemu-nohz', 'qemu', ('isolate', 'masks'), ('wq_api_kunit',), cpus=4, mem='1G',
         append='nohz_full=0-2', env=ONE_ROUND, tier='more', timeout=900),
    Boot('qemu-nohz-late', 'qemu', ('isolate', 'pods', 'masks', 'rescuer', 'hotplug', 'freezer', 'resize'), KUNIT,
         cpus=4, online=1, mem='1G', append='nohz_full=1-3 maxcpus=1', env=ONE_ROUND, tier='all', timeout=900),
    Boot('qemu-nohz-isolated', 'qemu', ('isolate', 'masks', 'rescuer', 'hotplug', 'freezer'), KUNIT, cpus=4, mem='1G',
         append='isolcpus=nohz,domain,managed_irq,1-3', env=ONE_ROUND, tier='all', timeout=900),
    # 6 CPUs are present, but come online only after the boot
    Boot('qemu-late', 'qemu', ('late', 'hotplug'), cpus=14, topology='sockets=2,cores=7', online=8,
         mem='1G', append='maxcpus=8', tier='more', timeout=600),
    # softirqs and timers in threads, lockdep
    Boot('qemu-rt', 'qemu', ('rescuer', 'hotplug'), config='rt', cpus=4, mem='1G', tier='all', timeout=900),
)
# Check the tests: run them on the base kernel too.
if VARIANT == 'cmwq':
    BOOTS += tuple(dataclasses.replace(boot, name=f'base-{boot.name}', variant='base', tier='all') for boot in BOOTS
                   if boot.name in ('uml-2', 'uml-1', 'uml-kunit', 'uml-parameters', 'uml-panic', 'uml-reclaim',
                                    'qemu-numa', 'qemu-numa-rest'))
# The release before, which needs no patches of its own
if (VARIANT, LINUX) == ('cmwq', kinds.LINUX):
    BOOTS += tuple(dataclasses.replace(boot, name=f'{BEFORE}-{boot.name}', linux=BEFORE, tier='all') for boot in BOOTS
                   if boot.name in ('uml-2', 'uml-own', 'uml-kunit', 'uml-parameters', 'uml-panic'))
# Run the same on the long-term release. Its UML has one CPU.
if (VARIANT, LINUX) == ('cmwq', kinds.LINUX):
    BOOTS += tuple(dataclasses.replace(boot, name=f'{OLD}-{boot.name}', linux=OLD, tier='all') for boot in BOOTS
                   if boot.name in ('qemu-numa', 'qemu-numa-rest', 'qemu-own', 'qemu-36', 'qemu-unequal',
                                    'qemu-isolated', 'qemu-late'))
    BOOTS += (
        Boot(f'{OLD}-uml-1', 'uml', ('sysfs', 'params', 'pods', 'rescuer', 'observe'), (BUILT_IN,), config='up',
             linux=OLD, cpus=1, tier='all', timeout=400),
        Boot(f'{OLD}-qemu-everywhere', 'qemu', (*EVERYWHERE, 'watchdog'), KUNIT, linux=OLD, cpus=4,
             topology='sockets=2,cores=2', mem='1G', shards='2 2', tier='all', timeout=1200),
        Boot(f'{OLD}-qemu-parameters', 'qemu', ('boot',), linux=OLD, cpus=2, tier='all', append=GOOD_PARAMETERS),
        Boot(f'{OLD}-qemu-panic', 'qemu', ('panic',), linux=OLD, cpus=2, append='workqueue.panic_on_stall=1',
             tier='all', dies=True, timeout=120),
    )


# A guest sees the files of the host, but must not write there: go to a copy of the scripts.
COPY_OF_SCRIPTS = f'''
set -e
mkdir -p /dev/shm/copy/build
cp -r {ROOT}/scripts /dev/shm/copy/
ln -s {ROOT}/build/venv /dev/shm/copy/build/venv
cd /dev/shm/copy
'''


def ktap_helpers(linux=LINUX):
    """Return the shell functions that the scripts need, which the tree of that release has."""
    return ROOT / f'build/tree-{linux}/tools/testing/selftests/kselftest/ktap_helpers.sh'


def kernel(engine, config='release', variant=VARIANT, linux=LINUX):
    """Wait until the kernel is built. Return its folder."""
    return builds.RUN.get(Kernel(engine, config, variant, linux))


def needs(engine, config='release', variant=VARIANT, linux=LINUX):
    """Mark a case that calls kernel() with the same arguments."""
    return pytest.mark.kernel(Kernel(engine, config, variant, linux))


def case(thing, *more, name=None):
    """Return the parameters and marks of a case that runs on a guest."""
    marks = [pytest.mark.tier(thing.tier), pytest.mark.kernel(thing.kernel)]
    if isinstance(thing, Boot):
        marks.append(pytest.mark.job(thing.job))
    return pytest.param(thing, *more, id='-'.join([name or thing.name, *more]), marks=marks)


def progress_of(name, line):
    """Report which part a guest has begun, and what fails."""
    piece = re.match(r'@@ begin (\S+)', line)
    if piece:
        say(f'{name}: {piece[1]}')
    elif line.startswith('not ok'):
        say(f'{name}:   {line.strip()}')


def run_suites(piece):
    if piece in KUNIT:
        return f'modprobe {piece}'
    return ('(set -- /sys/kernel/debug/kunit/*/run; echo "1..$#" >/dev/kmsg; '
            'for run; do echo 1 >"$run" || exit 1; done)')


def kunit_parameters(boot):
    """Suites in modules run when they are loaded. Built-in suites must wait until user space runs."""
    return 'kunit.enable=1 kunit.autorun=1' if set(boot.suites) & set(KUNIT) else 'kunit.enable=1'


def guest_command(boot):
    lines = ['echo "@@ cpus $(cat /sys/devices/system/cpu/online)"',
             f'export VARIANT={boot.variant} KTAP_HELPERS=/wq/ktap_helpers.sh {boot.env}']
    if boot.shards:
        lines.append(f'export WQT_SHARDS="{boot.shards}"')
    for piece in boot.pieces():
        if boot.lacks(piece):
            continue
        run = f'sh /wq/{piece}.sh'
        if piece in (BUILT_IN, *KUNIT):
            # The results are in the log. These marks show which lines belong to which suite.
            run = (f'echo "wq_selftest: begin {piece}" >/dev/kmsg; {run_suites(piece)}; rc=$?; '
                   f'echo "wq_selftest: end {piece}" >/dev/kmsg; (exit $rc)')
        lines += [f'echo "@@ begin {piece}"', f'{run}; echo "@@ end {piece} $?"']
    return '\n'.join([*lines, 'exit 0'])


# QEMU before 8.1 may execute an int3 that Linux has replaced since, when a tracepoint or a static key is
# switched (https://bugzilla.redhat.com/show_bug.cgi?id=2216496). Linux panics then.
EMULATOR_FAULT = 'Oops: int3: '


def boot_once(boot, folder):
    RESULTS.mkdir(parents=True, exist_ok=True)
    return repeated_after_emulator_fault(boot, lambda: run_boot(boot, folder))


def repeated_after_emulator_fault(boot, run):
    """Call run(), and once more if the guest ended by a fault of QEMU. Return what it returned last."""
    outcome = run()
    if boot.engine == 'qemu' and EMULATOR_FAULT in outcome.kernel:
        say(f'{boot.name}: QEMU has executed an int3 that is no longer there: once more')
        outcome = run()
    return outcome


def run_boot(boot, folder):
    say(f'{boot.name}: booting {folder.name} with {boot.cpus} CPUs {boot.topology} {boot.append}'.rstrip())
    begin = time.monotonic()
    outcome = guest.run(
        folder, guest_command(boot), engine=boot.engine, cpus=boot.cpus, topology=boot.topology or None,
        mem=boot.mem, append=f'{boot.append} {kunit_parameters(boot)}'.strip(), timeout=boot.timeout,
        icount=boot.icount, bins=boot.bins,
        files=[f'{SELFTESTS}:/wq', f'{ktap_helpers(boot.linux)}:/wq/ktap_helpers.sh'],
        log=RESULTS / f'{boot.name}.log', show=functools.partial(progress_of, boot.name))
    say(f'{boot.name}: {time.monotonic() - begin:.0f} s')
    return outcome


def result(boot):
    """Return the result of the guest. It is booted once, even if several tests use its result."""
    return background.RUN.get(boot.job)


def check_log(log):
    """Fail if a kernel log has problems, and show the lines around each."""
    assert not kernlog.findings(log), kernlog.report(log)


def tap_of(outcome, piece):
    """Return the output of one script or suite in a guest, and its exit status (None: it did not end)."""
    part = re.search(rf'^@@ begin {piece}$(.*?)(?:^@@ end {piece} (\d+)$|\Z)', outcome.output, re.M | re.S)
    if not part:
        return '', None
    status = int(part[2]) if part[2] else None
    if piece not in (BUILT_IN, *KUNIT):
        return part[1], status
    log = '\n'.join(map(without_stamp, outcome.kernel.splitlines()))
    found = re.search(rf'wq_selftest: begin {piece}\n(.*?)(?:wq_selftest: end {piece}|\Z)', log, re.S)
    text = found[1] if found else ''
    if piece == BUILT_IN:       # each suite was run alone, so each has number 1
        number = itertools.count(1)
        text = re.sub(r'^(not ok|ok) 1 ', lambda point: f'{point[1]} {next(number)} ', text, flags=re.M)
    return text, status

# SPDX-License-Identifier: GPL-2.0
"""Show bugs of the base kernel's workqueue that ours does not have.

For each bug there is a self-test or a KUnit case. It runs first on the base kernel,
where it should fail, and then on ours, where it should pass. Each run boots a guest of
its own: UML with 2 CPUs, or, if CPUs have to go offline or UML of that release has only
one, QEMU with 4 CPUs on 2 nodes.

With FIXED=1, the tests run only on the base kernel, which then has the patches of
patches/base-fixes/, and should pass.

exit status: 0 if every test failed on the base kernel and passed on ours, or passed with
FIXED=1; 1 if not, or if a test did not run; 2 if the command line is wrong.
"""
import argparse
import dataclasses

from wqlab import tap
from wqlab.guest import run as guest
from wqlab.kernels import build, tree
from wqlab.kernels.kinds import Kind, asked_linux, uml_is_smp
from wqlab.paths import BUILD, ROOT
from wqlab.steps import sayer, shown

SELFTESTS = ROOT / 'tools/testing/selftests/workqueue'
TOPOLOGY = 'sockets=2,cores=2,nodes=2'
TIMEOUT_S = 300
WHY_LINES = 3


@dataclasses.dataclass(frozen=True)
class Bug:
    name: str
    what: str       # what a user sees on the base kernel
    test: str       # SCRIPT.TEST for a self-test, kunit.SUITE.CASE for a KUnit case

    @property
    def engine(self):
        """UML has no CPU hotplug, and one CPU in old releases."""
        return 'qemu' if self.test.startswith('hotplug.') or not uml_is_smp(asked_linux()) else 'uml'

    @property
    def point(self):
        """The name of its test point, or the last part of it."""
        if self.test.startswith('kunit.'):
            return self.test.rpartition('.')[2]
        name, colon, argument = self.test.partition('.')[2].partition(':')
        return name.replace('_', ' ') + (f': {argument}' if colon else '')


BUGS = (
    Bug('strict', 'after a CPU comes back online, workers of strict pods may run on every CPU',
        'hotplug.strict_workers_stay_in_their_pods'),
    Bug('limit', 'if max_active is raised while no CPU of the workqueue is online, items still wait at the old limit',
        'hotplug.limit_raised_while_its_CPU_is_away'),
    Bug('offline', 'a BH item that is queued for an offline CPU waits until the CPU is back',
        'hotplug.queueing_on_a_CPU_that_is_gone:wqt_b'),
    Bug('delayed', 'a delayed item that names an offline CPU waits until the CPU is back',
        'hotplug.delayed_items_for_a_CPU_that_is_gone:wqt_u'),
    Bug('drain', 'a BH item that queues itself keeps its CPU from going offline',
        'hotplug.BH_item_that_does_not_end'),
    Bug('stall', 'cancel_work() passes its slot to a waiting item, but no worker is woken to run that item',
        'kunit.wq_api_cancel.cancel_wakes_successor'),
    Bug('flush', 'flush_work() returns while the item still runs, if the item was queued again and then cancelled',
        'kunit.wq_api_flush.flush_work_waits_for_run_after_cancel'),
    Bug('cancel', 'after a change of attributes, cancel_work_sync() returns while an ordered item still runs',
        'kunit.wq_api_cancel.cancel_sync_finds_older_run'),
    Bug('chain', 'drain_workqueue() returns although the next item of a chain waits on another pool',
        'kunit.wq_api_flush.drain_follows_chain'),
    Bug('successor', 'a BH item cannot queue the next one while its workqueue is drained',
        'kunit.wq_api_bh.bh_drain_includes_chained'),
    Bug('rescue', 'without memory for workers, pools that share one slot wait up to 100 ms for each item',
        'rescuer.turns_at_the_slot:pools'),
    Bug('leak', 'destroy_workqueue() warns and leaks memory if the rescuer was called but never ran',
        'rescuer.gone_before_it_ran'),
    Bug('boot', 'a workqueue that an item makes while workers are started at boot gets no rescuer',
        'kunit.wq_api_attrs.made_while_workers_start'),
    Bug('astray', 'a rescuer that is called to a CPU on its way down runs on one where it is not allowed',
        'hotplug.rescuer_meets_a_CPU_halfway_down:percpu'),
    Bug('pause', 'after the machine was paused, items that have hardly run are reported as a lockup',
        'pause.pause_is_no_stall'),
    Bug('thief', 'the report of a stuck pool shows a worker that was preempted, and not the task that has the CPU',
        'watchdog.report_names_the_thief'),
)


say = sayer('basebugs')


def commands(bug, variant):
    """Return what runs the bug's test in a guest, and the kernel parameters that it needs."""
    place, _, name = bug.test.partition('.')
    if place == 'kunit':
        results = f'/sys/kernel/debug/kunit/{name.partition(".")[0]}'
        return (f'echo 1 >{results}/run; cat {results}/results',
                'kunit.enable=1 wq_api_kunit.base_bugs=1 wq_api_kunit.early=1')
    return f'export VARIANT={variant} KTAP_HELPERS=/wq/ktap_helpers.sh WQT_ONLY={name}; sh /wq/{place}.sh', ''


def log_of(bug, variant):
    return BUILD / f'log/basebugs-{bug.name}-{variant}.log'


def points_of(bug, folder, variant):
    """Boot a kernel, run the bug's test in it, and return the test points but those that were skipped."""
    command, append = commands(bug, variant)
    helpers = BUILD / f'tree-{asked_linux()}/tools/testing/selftests/kselftest/ktap_helpers.sh'
    outcome = guest.run(folder, command, engine=bug.engine, topology=TOPOLOGY if bug.engine == 'qemu' else None,
                        append=append, timeout=TIMEOUT_S,
                        files=[f'{SELFTESTS}:/wq', f'{helpers}:/wq/ktap_helpers.sh'],
                        log=log_of(bug, variant))
    points = [point for point in tap.parse(outcome.output, may_skip='.*') if not point.skipped]
    # The other cases of a KUnit suite run, too.
    return [point for point in points if bug.point in point.name or not bug.test.startswith('kunit.')]


def has_bug(bug, folder, variant):
    """
    Run the bug's test on one kernel and print the result. Return True if the test failed, and False if it passed.
    Return None if it did not run, or if only something else failed: that says nothing about the bug.
    """
    points = points_of(bug, folder, variant)
    own = [point for point in points if bug.point in point.name]
    failed = [point for point in points if not point.ok]
    print(f'  {variant}: {len(failed)} of {len(points)} test points fail' if own else
          f'  {variant}: the test did not run: see {shown(log_of(bug, variant))}', flush=True)
    for line in [line for point in failed for line in [point.name, *point.why.splitlines()]][:WHY_LINES]:
        print(f'    {line}', flush=True)
    if any(not point.ok for point in own):
        return True
    return None if failed or not own else False


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [bug.name for bug in BUGS]
    parser.add_argument('names', nargs='*', metavar='NAME', help=f'the bugs to show: {", ".join(known)}; default: all')
    args = parser.parse_args(argv)
    for name in args.names:
        if name not in known:
            parser.error(f'there is no bug named {name}: choose from {", ".join(known)}')
    chosen = [bug for bug in BUGS if not args.names or bug.name in args.names]
    expected = {'base': False} if tree.fixes_asked(asked_linux()) else {'base': True, 'cmwq': False}
    kinds = {(bug, variant): Kind.of(bug.engine, variant, linux=asked_linux())
             for bug in chosen for variant in expected}

    as_said = 0
    for number, bug in enumerate(chosen, 1):
        say(f'{number} of {len(chosen)}: {bug.name}')
        print(f'{bug.name}: {bug.what}', flush=True)
        kernels = {variant: build.build(kinds[bug, variant]) for variant in expected}
        found = {variant: has_bug(bug, folder, variant) for variant, folder in kernels.items()}
        as_said += found == expected
    print(f'{as_said} of {len(chosen)} tests ' + ('fail on the base kernel and pass on ours' if 'cmwq' in expected else
                                                  'pass on the base kernel with our fixes'))
    return 0 if as_said == len(chosen) else 1

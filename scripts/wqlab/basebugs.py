# SPDX-License-Identifier: GPL-2.0
"""Show bugs of the base kernel's workqueue, and that they are not in ours.

Each bug has a test among the self-tests and KUnit suites. Such a test is run on the
base kernel, where it should fail, and then on ours, where it should pass, each time in
a freshly booted guest (QEMU, 4 CPUs on 2 nodes).

exit status: 0 if every test failed on the base kernel and passed on ours, else 1; 2 for
a wrong call.
"""
import argparse
import dataclasses
import re

from wqlab import tap
from wqlab.guest import GuestError
from wqlab.guest import run as guest
from wqlab.kernels import build
from wqlab.kernels.kinds import Kind
from wqlab.logs import check
from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure, sayer

SELFTESTS = ROOT / 'tools/testing/selftests/workqueue'
KTAP_HELPERS = BUILD / 'tree-7.3/tools/testing/selftests/kselftest/ktap_helpers.sh'
TOPOLOGY = 'sockets=2,cores=2,nodes=2'
TIMEOUT_S = 300
WHY_LINES = 3


@dataclasses.dataclass(frozen=True)
class Bug:
    name: str
    what: str       # a user sees on the base kernel
    test: str       # SCRIPT.TEST of the self-tests, or kunit.SUITE.CASE


BUGS = (
    Bug('strict', 'once a CPU has come online, workers of strict pods run on any CPU of their workqueue',
        'hotplug.strict_workers_stay_in_their_pods'),
    Bug('limit', 'max_active is raised while the workqueue has no CPU: items stay held back even so',
        'hotplug.limit_raised_while_its_CPU_is_away'),
    Bug('stall', 'cancel_work() hands its slot to an item, and no worker is woken for that',
        'kunit.wq_api_cancel.cancel_wakes_successor'),
    Bug('flush', 'flush_work() returns while the item runs, if a later queueing of it is cancelled',
        'kunit.wq_api_flush.flush_work_waits_for_run_after_cancel'),
    Bug('cancel', 'cancel_work_sync() returns while an ordered item runs, after a change of attributes',
        'kunit.wq_api_cancel.cancel_sync_finds_older_run'),
    Bug('rescue', 'without memory for workers, pools that take turns at one slot wait up to 100 ms for each item',
        'rescuer.turns_at_the_slot:pools'),
    Bug('leak', 'destroy_workqueue() warns and leaks if its rescuer was called but never ran',
        'rescuer.gone_before_it_ran'),
)


say = sayer('basebugs')


def points_of(bug, folder, variant):
    """What the bug's test reports on a kernel that is booted for it."""
    place, _, name = bug.test.partition('.')
    if place == 'kunit':
        command = 'modprobe wq_api_kunit base_bugs=1'
        append = f'kunit.enable=1 kunit.autorun=1 kunit.filter_glob={name}'
    else:
        command = (f'export VARIANT={variant} KTAP_HELPERS=/wq/ktap_helpers.sh WQT_ONLY={name}; '
                   f'sh /wq/{place}.sh')
        append = ''
    outcome = guest.run(folder, command, engine='qemu', topology=TOPOLOGY, append=append,
                        timeout=TIMEOUT_S, files=[f'{SELFTESTS}:/wq', f'{KTAP_HELPERS}:/wq/ktap_helpers.sh'],
                        log=BUILD / f'log/basebugs-{bug.name}-{variant}.log')
    if place == 'kunit':
        log = '\n'.join(map(check.without_stamp, outcome.kernel.splitlines()))
        found = re.search(r'^KTAP version.*', log, re.M | re.S)
        lines = re.findall(r'^ *(?:(?:not )?ok\b.*|1\.\..*|# .*)$', found[0], re.M) if found else []
        return tap.parse('\n'.join(lines))
    return tap.parse(outcome.output)


def shown(bug, folder, variant):
    """Whether the bug's test failed, as is to be on the base kernel alone; prints what it said."""
    points = points_of(bug, folder, variant)
    failed = [point for point in points if not point.ok]
    print(f'  {variant}: {len(failed)} of {len(points)} test points fail', flush=True)
    for line in [line for point in failed for line in [point.name, *point.why.splitlines()]][:WHY_LINES]:
        print(f'    {line}', flush=True)
    return bool(failed)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [bug.name for bug in BUGS]
    parser.add_argument('names', nargs='*', metavar='NAME', help=f'of {", ".join(known)}; default: all')
    args = parser.parse_args(argv)
    for name in args.names:
        if name not in known:
            parser.error(f'no bug is called {name}: choose from {", ".join(known)}')
    chosen = [bug for bug in BUGS if not args.names or bug.name in args.names]

    try:
        kernels = {variant: build.build(Kind.of(variant=variant)) for variant in ('base', 'cmwq')}
        as_said = 0
        for number, bug in enumerate(chosen, 1):
            say(f'{number} of {len(chosen)}: {bug.name}')
            print(f'{bug.name}: {bug.what}', flush=True)
            fails = {variant: shown(bug, folder, variant) for variant, folder in kernels.items()}
            as_said += fails['base'] and not fails['cmwq']
    except (GuestError, OSError) as error:
        raise Failure(str(error)) from error
    print(f'{as_said} of {len(chosen)} fail on the base kernel and pass on ours')
    return 0 if as_said == len(chosen) else 1

# SPDX-License-Identifier: GPL-2.0
"""How many kworkers there are: after boot, while each CPU queues, and after five minutes without work."""
import concurrent.futures
import re

import pytest

import guests
from wqlab.guest import run as guest

MODULE = '/test_workqueue.ko'
HOMES = 'workqueue.pool_per_cpu=1'
ITEMS = 60000       # of each thread, so that a pass takes some seconds
IDLE_S = 330        # idle workers end after 300 s, when a timer that may be late fires
CPUS, TOPOLOGY = 4, 'sockets=2,cores=2,nodes=2'
COUNT = f'''
count() {{ cat /proc/[0-9]*/comm | grep -c '^kworker/u'; }}
sleep 5
echo "@@ boot $(count)"
for scope in $SCOPES; do
	most=0
	insmod {MODULE} scopes=$scope items={ITEMS} 2>/dev/null &
	while [ -d /proc/$! ]; do
		now=$(count)
		[ $now -le $most ] || most=$now
		sleep 0.5
	done
	echo "@@ $scope $most"
done
sleep {IDLE_S}
echo "@@ later $(count)"
'''
# (variant, kernel parameters): the scopes in which each CPU queues, one after the other
RUNS = {('base', ''): 'cpu', ('cmwq', ''): 'system cpu', ('cmwq', HOMES): 'system cpu'}
OURS = pytest.mark.parametrize('ours', [run for run in RUNS if run[0] == 'cmwq'], ids=['default', 'homes'])

pytestmark = [guests.needs('qemu', variant='base'), guests.needs('qemu', variant='cmwq'), pytest.mark.tier('all')]


def counted(variant, append):
    """Return how many unbound kworkers the guest had at each time."""
    folder = guests.kernel('qemu', variant=variant)
    command = f'SCOPES="{RUNS[variant, append]}"\n{COUNT}'
    result = guest.run(folder, command, engine='qemu', topology=TOPOLOGY, mem='512M', append=append,
                       timeout=2 * IDLE_S, files=[f'{folder}/lib/cmwq/test_workqueue.ko:{MODULE}'])
    assert result.rc == 0, result.log[-3000:]
    guests.check_log(result.kernel)
    return {when: int(number) for when, number in re.findall(r'^@@ (\w+) (\d+)$', result.output, re.M)}


@pytest.fixture(scope='module')
def numbers():
    """Nearly all of the time the guests sleep, so they do it together."""
    with concurrent.futures.ThreadPoolExecutor(len(RUNS)) as pool:
        found = dict(zip(RUNS, pool.map(lambda run: counted(*run), RUNS), strict=True))
    guests.say(', '.join(f'{" ".join(run).strip()}: {count}' for run, count in found.items()))
    return found


@OURS
def test_after_boot(numbers, ours):
    """What boot itself queues warms up pools, with homes those of some CPUs, with two threads each."""
    assert numbers[ours]['boot'] < numbers['base', '']['boot'] + CPUS


@OURS
def test_while_each_cpu_queues(numbers, ours):
    """
    In scope `cpu` each CPU has the pool that it has in the base kernel, and two workers there. With homes this is so in
    any scope.
    """
    base = numbers['base', '']['cpu']
    assert base > numbers['base', '']['boot'] + CPUS
    assert max(numbers[ours][scope] for scope in ('system', 'cpu')) < base + 2 * CPUS


@OURS
def test_five_minutes_later(numbers, ours):
    """Only what the machine itself does keeps some workers."""
    assert numbers[ours]['later'] <= numbers['base', '']['later'] + 2

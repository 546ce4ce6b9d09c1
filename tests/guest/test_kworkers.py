# SPDX-License-Identifier: GPL-2.0
"""How many kworkers there are: after boot, while each CPU queues, and after five minutes without work."""
import concurrent.futures
import re

import pytest

import guests
from wqlab.guest import run as guest
from wqlab.torture.matrix import OWN

MODULE = '/test_workqueue.ko'
ITEMS = 60000       # of each thread, so that a pass takes some seconds
IDLE_S = 330        # idle workers end after 300 s, when a timer that may be late fires
CPUS, TOPOLOGY = 4, 'sockets=2,cores=2,nodes=2'
COUNT = f'''
names() {{ cat /proc/[0-9]*/comm | grep '^kworker/u'; }}
count() {{ names | wc -l; }}
pools() {{ names | cut -d: -f1 | sort | uniq -c | while read number name; do echo "@@ $1:$name $number"; done; }}
busy() {{ for cpu in $(seq 0 {CPUS - 1}); do taskset -c $cpu timeout 1 sh -c 'while :; do :; done'; done; }}
sleep 5
pools boot
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
busy                    # the timer that ends idle workers does not wake up a CPU
sleep 2
pools later
'''
# (variant, kernel parameters): the scopes in which each CPU queues, one after the other
RUNS = {('base', ''): 'cpu', ('cmwq', ''): 'system cpu', ('cmwq', OWN): 'system cpu'}
OURS = pytest.mark.parametrize('ours', [run for run in RUNS if run[0] == 'cmwq'], ids=['default', 'own'])

pytestmark = [guests.needs('qemu', variant='base'), guests.needs('qemu', variant='cmwq'), pytest.mark.tier('all')]


def counted(variant, append):
    """Return how many unbound kworkers the guest had at each time, or each pool: "boot:kworker/u16"."""
    folder = guests.kernel('qemu', variant=variant)
    command = f'SCOPES="{RUNS[variant, append]}"\n{COUNT}'
    result = guest.run(folder, command, engine='qemu', topology=TOPOLOGY, mem='512M', append=append,
                       timeout=2 * IDLE_S, files=[f'{folder}/lib/cmwq/test_workqueue.ko:{MODULE}'])
    assert result.rc == 0, result.log[-3000:]
    guests.check_log(result.kernel)
    return {when: int(number) for when, number in re.findall(r'^@@ (\S+) (\d+)$', result.output, re.M)}


def pools(found, when='boot'):
    """Return how many workers each pool had."""
    numbers = [number for key, number in found.items() if key.startswith(f'{when}:')]
    assert numbers, when
    return numbers


@pytest.fixture(scope='module')
def numbers():
    """Nearly all of the time the guests sleep, so they do it together."""
    with concurrent.futures.ThreadPoolExecutor(len(RUNS)) as pool:
        found = dict(zip(RUNS, pool.map(lambda run: counted(*run), RUNS), strict=True))
    guests.say(', '.join(f'{" ".join(run).strip()}: {count}' for run, count in found.items()))
    return found


@OURS
def test_after_boot(numbers, ours):
    """What boot queues gives few CPUs own pools, or none; each such pool has two workers."""
    assert sum(pools(numbers[ours])) < sum(pools(numbers['base', ''])) + CPUS


def test_pools_after_boot_by_default(numbers):
    assert len(pools(numbers['cmwq', ''])) <= len(pools(numbers['base', '']))


@OURS
def test_while_each_cpu_queues(numbers, ours):
    """
    In scope `cpu` each CPU has the pool that it has in the base kernel, and two workers there. With own pools this is
    so in any scope.
    """
    base = numbers['base', '']['cpu']
    assert base > sum(pools(numbers['base', ''])) + CPUS
    assert max(numbers[ours][scope] for scope in ('system', 'cpu')) < base + 2 * CPUS


@OURS
def test_five_minutes_later(numbers, ours):
    """Pools of the pods keep two workers each. Own pools that nobody uses have ended."""
    assert sum(pools(numbers[ours], 'later')) <= sum(pools(numbers['base', ''], 'later')) + 2

# SPDX-License-Identifier: GPL-2.0
"""Which kworkers end after five minutes."""
import re

import guests
from wqlab.guest import run as guest

MODULE, RUN = '/wq_probe.ko', '/sys/module/wq_probe/parameters/run'
IDLE_S = 330        # idle workers end after 300 s, when a timer that may be late fires
# Nothing else uses the pool of unbound workqueues of high priority. The output, which is work too, does not.
STEPS = f'''
threads() {{
	for task in /proc/[0-9]*; do
		read -r name <$task/comm && echo "@@ $1 ${{task#/proc/}} $name"
	done
}}
pause() {{
	for try in $(seq $1); do sleep 5; done
}}
echo -20 >/sys/devices/virtual/workqueue/writeback/nice		# keeps the pool when the probe has ended
insmod {MODULE} period_us=1000000
echo unbound_highpri >{RUN}
sleep 10
threads before
pause {IDLE_S // 5}
threads after
echo stop >{RUN}
pause {IDLE_S // 5}
threads unused
'''


def kworkers(output, when):
    """Return {process: name} of the kworkers of unbound pools."""
    return dict(re.findall(rf'^@@ {when} (\d+) (kworker/u\S+)$', output, re.M))


@guests.needs('qemu')
def test_a_pool_in_use_keeps_its_reserve():
    """
    An item a second needs one worker, and always the same. The other one is the reserve. If it ended, the next item
    would wait until a new one is made. If the pool is not used, both end. With icount, a guest that sleeps takes no
    time.
    """
    folder = guests.kernel('qemu')
    result = guest.run(folder, STEPS, engine='qemu', cpus=1, mem='512M', icount=True, timeout=400,
                       append='workqueue.pool_per_cpu=1', files=[f'{folder}/lib/cmwq/wq_probe.ko:{MODULE}'])
    assert result.rc == 0, result.log[-3000:]
    guests.check_log(result.kernel)
    before = kworkers(result.output, 'before')
    pool, = {name.partition(':')[0] for name in before.values() if 'wq_probe' in name}
    used = {process for process, name in before.items() if name.startswith(f'{pool}:')}
    assert len(used) == 2, result.output
    assert used <= set(kworkers(result.output, 'after')), result.output
    assert not used & set(kworkers(result.output, 'unused')), result.output

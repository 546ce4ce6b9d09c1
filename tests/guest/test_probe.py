# SPDX-License-Identifier: GPL-2.0
"""wq_probe in a guest: it counts each item, and each tick for which an item came too late."""
import guests
from guests import guest
from wqlab.logs import check

pytestmark = guests.needs('uml')
KINDS = ('percpu', 'highpri', 'unbound', 'unbound_highpri')
BEGIN = 'run=/sys/module/wq_probe/parameters/run; modprobe wq_probe || exit; '


def run_in_guest(command):
    result = guest.run(guests.kernel('uml'), BEGIN + command, engine='uml', cpus=2, mem='512M', timeout=120)
    assert result.rc == 0, f'guest status {result.rc}\n{result.log[-3000:]}'
    assert not check.bad_lines(result.kernel)
    return result.output.splitlines()


def fields(line):
    kind, *numbers = (word.split('=') for word in line.split())
    assert kind[0] == 'kind'
    return kind[1], {name: int(number) for name, number in numbers}


def test_each_kind():
    steps = [f'echo {kind} >$run && cat $run && sleep 0.3 && echo stop >$run && cat $run' for kind in KINDS]
    lines = run_in_guest(' && '.join(steps) + ' && rmmod wq_probe')
    assert lines[::2] == ['running'] * len(KINDS)
    for wanted, line in zip(KINDS, lines[1::2]):
        kind, found = fields(line)
        assert kind == wanted and found['period_us'] == 1000 and found['queued'] == found['ran'] > 0
        assert 0 < found['p50_ns'] <= found['p99_ns'] <= found['p999_ns'] <= found['max_ns']


def test_ticks_of_a_busy_cpu_count():
    """No worker of CPU 1 runs for a second. Meanwhile, each tick is a sample, though only one item waits."""
    line, = run_in_guest('modprobe wq_test_helper && cd /sys/kernel/debug/wq_test && echo highpri >$run && '
                         'echo cpu=1 ms=1000 >occupy && sleep 1.5 && echo stop >$run && cat $run')
    _, found = fields(line)
    assert found['queued'] == found['ran'] and found['late'] > 100
    assert found['max_ns'] > 500_000_000 and found['p99_ns'] > 100_000_000

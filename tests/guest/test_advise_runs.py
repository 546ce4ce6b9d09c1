# SPDX-License-Identifier: GPL-2.0
"""advise.sh in guests: its report is complete, and the machine is afterwards what it was before. Nothing is timed."""
import json
import re
import shlex

import pytest

import guests
from calls import call
from wqlab.advise import pods, verdict
from wqlab.logs import check
from wqlab.paths import ROOT
from wqlab.workload import engines

UML = guests.needs('uml')
pytestmark = pytest.mark.tier('more')
COPY = f'''{guests.COPY_OF_SCRIPTS}
size=/sys/module/workqueue/parameters/cache_shard_size
state() {{
	grep -s . /sys/module/workqueue/parameters/* /sys/devices/virtual/workqueue/*/* || true
	ls /sys/module /sys/devices/virtual/workqueue
}}
state >/run/before
'''
SAME = '''
state >/run/after
diff /run/before /run/after && echo "as before"
'''
RECORD = 'echo "$(dmesg | grep -c test_workqueue:) lines"; cat build/advise/*/results.json'


def in_guest(command, variant=guests.VARIANT):
    """Run a command in the UML guest, with the files of this machine. Return its output."""
    folder = guests.kernel('uml', variant=variant)
    module = folder / 'lib/cmwq/test_workqueue.ko'
    text = f'''{COPY}
mkdir build/module-$(uname -r)
ln -s {module} build/module-$(uname -r)/
advise="scripts/advise.sh --no-build"
{command}
{SAME}'''
    result = guests.guest.run(folder, engines.ON_HOSTFS.replace('COMMAND', shlex.join(['bash', '-c', text])),
                              engine='uml', cpus=2, mem='1G', timeout=400)
    assert result.rc == 0, f'{result.rc}\n{result.output[-3000:]}{result.kernel[-2000:]}'
    assert not check.bad_lines(result.kernel)
    assert 'as before' in result.output, result.output[:3000]
    return result.output


def check_record(record, settings, loads):
    assert record['complete'] and record['present']['scope'] == 'cache_shard'
    assert record['settings'] == settings and list(record['items']) == loads and all(record['items'].values())
    assert record['turns'] and record['advice']['verdict'] in (
        verdict.SHORT, verdict.NOISY, verdict.CHOOSE, verdict.TRADE, verdict.LEAVE)
    for turn in record['turns']:
        for found in turn:
            assert list(found) == loads
            assert all(set(runs) == {'default', pods.AGAIN, *settings} for runs in found.values())
            assert all(run['items'] > 0 and run['elapsed_ns'] > 0 for runs in found.values() for run in runs.values())
    assert all(row[half]['low'] <= row[half]['median'] <= row[half]['high'] for row in record['rows']
               for half in (verdict.PICK, verdict.PROVE))


def record_in(output):
    return json.loads(output[output.index('\n{\n') + 1:output.rindex('\n}\n') + 2])


@UML
def test_on_a_running_kernel():
    """The whole way of a real machine: load the module, change sizes, unload, report."""
    output = in_guest(f'$advise --minutes 0.4 --shard-sizes 1 --scopes system 2>&1\n{RECORD}')
    record = record_in(output)
    check_record(record, ['system', 'cache_shard/1'], ['latency', 'batch', 'burst', 'spread', 'mixed'])
    assert record['parameters']['engine'] is None and record['present']['shard_size'] == 8
    assert re.search(r'^results: build/advise/\S+/results.json$', output, re.M)
    # two lines taint the kernel; no run leaves any
    assert int(re.search(r'^(\d+) lines', output, re.M)[1]) <= 2


@UML
def test_signals_leave_the_machine_as_it_was():
    """Each signal comes while the size of shards is changed. Afterwards, the size is the former one."""
    steps = '''
for signal in TERM INT HUP KILL; do
	env --default-signal=INT --default-signal=HUP $advise --shard-sizes 1 --scopes cpu --loads latency,batch & pid=$!
	until [ $(cat $size) = 1 ]; do :; done
	kill -$signal $pid
	wait $pid || echo "@ $signal $?"
	for try in $(seq 100); do
		[ -d /sys/module/test_workqueue ] || break
		sleep 0.1
	done
	echo "@ $(cat $size)"
done
'''
    said = [line.removeprefix('@ ') for line in in_guest(steps).splitlines() if line.startswith('@ ')]
    assert said == ['TERM 143', '8', 'INT 130', '8', 'HUP 129', '8', 'KILL 137', '8']


@pytest.mark.tier('all')
@guests.needs('uml', variant='base')
def test_on_the_base_kernel():
    """Its shards have a size only at boot."""
    output = in_guest(f'! $advise --shard-sizes 2 2>&1\nrm -r build/advise\n'
                      f'$advise --minutes 0.4 --scopes smt,system --loads latency 2>&1\n{RECORD}', variant='base')
    assert 'can change the size of shards only at boot' in output
    assert not record_in(output)['present']['can_resize']


@pytest.mark.parametrize('options, settings, same', [
    pytest.param('uml --scopes cpu,system', ['cpu', 'system'], {}, marks=UML),
    # two nodes with a cache each: what has the same pods is not measured
    pytest.param('qemu --topology sockets=2,cores=4,nodes=2 --shard-sizes 2,4', ['cpu', 'system', 'cache_shard/2'],
                 {'smt': 'cpu', 'cache': 'cache_shard', 'numa': 'cache_shard', 'cache_shard/4': 'cache_shard'},
                 marks=[guests.needs('qemu'), pytest.mark.tier('all')])])
def test_a_guest_is_advised(options, settings, same):
    done = call('scripts/advise.sh', '--no-build', '--minutes', '0.4', '--loads', 'latency', '--engine',
                *options.split(), timeout=400)
    assert done.returncode == 0, done.stderr
    record = json.loads((ROOT / re.search(r'^results: (\S+/results.json)', done.stdout, re.M)[1]).read_text())
    check_record(record, settings, ['latency'])
    assert record['same'] == same

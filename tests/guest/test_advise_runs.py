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
RECORD = '''
echo "$(dmesg | grep -c test_workqueue:) lines"
cat build/advise/*/results.json
'''
QUICK = '--minutes 0.4 --slice-ms 2'


def in_guest(command, variant=guests.VARIANT):
    """Run a command in the UML guest, with the files of this machine. Return its output."""
    folder = guests.kernel('uml', variant=variant)
    module = folder / 'lib/cmwq/test_workqueue.ko'
    text = f'{COPY}\nmodule={module}\nadvise="scripts/advise.sh --module $module"\n{command}\n{SAME}'
    result = guests.guest.run(folder, engines.ON_HOSTFS.replace('COMMAND', shlex.join(['bash', '-c', text])),
                              engine='uml', cpus=2, mem='1G', timeout=400)
    assert result.rc == 0, f'{result.rc}\n{result.output[-3000:]}{result.kernel[-2000:]}'
    assert not check.bad_lines(result.kernel)
    assert 'as before' in result.output, result.output[:3000]
    return result.output


def record_in(output):
    return json.loads(output[output.index('\n{\n') + 1:output.rindex('\n}\n') + 2])


def check_record(record, settings, loads):
    assert record['complete'] and record['present']['scope'] == 'cache_shard'
    assert [pods.Setting(**one).name for one in record['settings']] == settings
    assert list(record['items']) == loads and all(items > 0 for items in record['items'].values())
    assert record['turns'] and record['advice']['verdict'] in (
        verdict.SHORT, verdict.NOISY, verdict.CHOOSE, verdict.TRADE, verdict.LEAVE)
    names = {'default', pods.AGAIN, *settings}
    for turn in record['turns']:
        for found in turn['rounds']:
            assert list(found) == loads and all(set(runs) == names for runs in found.values())
            assert all(run['items'] > 0 and run['elapsed_ns'] > 0 for runs in found.values() for run in runs.values())
    assert all(row[half]['low'] <= row[half]['median'] <= row[half]['high'] for row in record['rows']
               for half in (verdict.PICK, verdict.PROVE) if row[half])


@UML
def test_on_a_running_kernel():
    """The whole way of a real machine: load the module, change sizes, unload, report."""
    output = in_guest(f'$advise {QUICK} --shard-sizes 1 --scopes system 2>&1\n{RECORD}')
    record = record_in(output)
    check_record(record, ['system', 'cache_shard/1'], ['latency', 'batch', 'burst', 'spread', 'mixed'])
    assert record['parameters']['engine'] is None and record['present']['shard_size'] == 8
    assert re.search(r'^results: build/advise/\S+/results.json$', output, re.M)
    assert re.search('^system +[-0-9]', output, re.M) and re.search('^default again +[-0-9]', output, re.M)
    # two lines taint the kernel; no run leaves any
    assert int(re.search(r'^(\d+) lines', output, re.M)[1]) <= 2


@UML
def test_signals_leave_the_machine_as_it_was():
    """Each signal comes while the size of shards is changed. Afterwards, the size is the former one."""
    steps = '''
for signal in TERM INT HUP KILL; do
	env --default-signal=INT --default-signal=HUP $advise --minutes 1 --slice-ms 300 --shard-sizes 1 \\
		--scopes cpu --loads latency,batch & pid=$!
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
    output = in_guest(steps)
    said = [line.removeprefix('@ ') for line in output.splitlines() if line.startswith('@ ')]
    assert said[:8] == ['TERM 143', '8', 'INT 130', '8', 'HUP 129', '8', 'KILL 137', '8']


@UML
def test_what_is_refused():
    """Each by one line, and nothing has changed."""
    steps = """
try() {
	"$@" 2>/run/said && echo "@ it works" || echo "@ $? $(wc -l </run/said) $(tail -1 /run/said)"
}
insmod $module keep=1 items=1 threads=1
try $advise
rmmod test_workqueue
try scripts/advise.sh --module /run/none.ko
echo nonsense >/run/bad.ko
try scripts/advise.sh --module /run/bad.ko
KDIR=/run/none try scripts/advise.sh
try setpriv --reuid=65534 $advise
"""
    said = [line.removeprefix('@ ') for line in in_guest(steps).splitlines() if line.startswith('@ ')]
    wanted = ('test_workqueue is loaded already', '/run/none.ko does not exist',
              'the module cannot be loaded: insmod: ', '/run/none does not exist: install the package linux-headers-',
              'run this as root')
    assert len(said) == len(wanted)
    for line, text in zip(said, wanted):
        assert re.match(r'1 \d+ advise: ', line) and text in line
    assert [line.split()[1] for line in said if 'loaded: insmod' not in line] == ['1'] * 4


@pytest.mark.tier('all')
@guests.needs('uml', variant='base')
def test_on_the_base_kernel():
    """Its shards have a size only at boot."""
    output = in_guest(f'! $advise --shard-sizes 2 2>&1\nrm -r build/advise\n'
                      f'$advise {QUICK} --scopes smt,system --loads latency 2>&1\n{RECORD}', variant='base')
    assert 'can change the size of shards only at boot' in output
    record = record_in(output)
    assert not record['present']['can_resize']


@UML
def test_an_engine():
    done = call('scripts/advise.sh', '--engine', 'uml', '--no-build', *QUICK.split(), '--scopes', 'cpu,system',
                '--loads', 'latency,spread', timeout=300)
    assert done.returncode == 0, done.stderr
    path = ROOT / re.search(r'^results: (build/advise/\S+/results.json)', done.stdout, re.M)[1]
    record = json.loads(path.read_text())
    check_record(record, ['cpu', 'system'], ['latency', 'spread'])


@pytest.mark.tier('all')
@guests.needs('qemu')
def test_a_guest_with_a_topology():
    """Two nodes with a cache each: what has the same pods is not measured."""
    done = call('scripts/advise.sh', '--engine', 'qemu', '--no-build', '--topology', 'sockets=2,cores=4,nodes=2',
                '--minutes', '0.5', '--slice-ms', '2', '--loads', 'latency', '--shard-sizes', '2,4', timeout=400)
    assert done.returncode == 0, done.stderr
    path = ROOT / re.search(r'^results: (build/advise/\S+/results.json)', done.stdout, re.M)[1]
    record = json.loads(path.read_text())
    check_record(record, ['cpu', 'system', 'cache_shard/2'], ['latency'])
    assert record['same'] == {'smt': 'cpu', 'cache': 'cache_shard', 'numa': 'cache_shard',
                              'cache_shard/4': 'cache_shard'}

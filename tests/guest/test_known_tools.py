# SPDX-License-Identifier: GPL-2.0
"""Tools that people have read our kernel as they read the base kernel.

Those that read memory get the memory of the guests in drgn_guests.py. Those that trace run in
a guest, on both kernels, and must report the same items.
"""
import collections
import re
import shlex

import drgn
import pytest
from drgn.helpers.linux.kthread import kthread_data, task_is_kthread
from drgn.helpers.linux.pid import find_task, for_each_task

import debs
import drgn_guests as world
import guests
from calls import call
from once import once

OURS, BASE = world.MACHINES[0], world.BASE
EACH = pytest.mark.parametrize('machine', [guests.case(machine) for machine in (OURS, BASE)])
ALL = pytest.mark.tier('all')


# crash, and the commands of drgn that work like those of crash

COMMANDS = '''list -o workqueue_struct.list -s workqueue_struct.name,flags,max_active -H workqueues
tree -t xarray -s worker_pool.id,cpu,nr_workers,nr_idle worker_pool_idr
'''


def by_crash(machine, commands):
    """crash 9.0.2 cannot read the modules of either kernel, so it is told to leave them out."""
    seen, crash = world.seen(machine), debs.in_root(debs.unpacked('crash', ('sid',)), 'usr/bin/crash')
    return world.call(*crash, '--no_modules', '-s', seen.vmlinux, seen.core, feed=f'set scroll off\n{commands}\nquit\n')


def by_drgn_crash(machine, commands):
    seen = world.seen(machine)
    return world.call(world.DRGN.with_name('drgn-crash'), seen.vmlinux, seen.core, feed=commands)


def objects(text):
    """Return {address: {member: value}} of what `-s` prints. drgn adds the type to each value."""
    found, now = {}, {}
    for line in text.splitlines():
        address = re.search(r'^(?:%crash> )?([0-9a-f]{16})$', line)
        member = re.match(r'  (\w+) = (?:\([^)]*\))?(?:"(.*)"|(-?\d+)),?$', line)
        if address:
            now = found.setdefault(f'0x{address[1]}', {})
        elif member:
            now[member[1]] = member[2].partition('\\0')[0] if member[3] is None else int(member[3])
    return found


READERS = pytest.mark.parametrize('read', [
    pytest.param(by_drgn_crash, id='drgn-crash'), pytest.param(by_crash, id='crash', marks=ALL)])


@EACH
@READERS
def test_crash_lists_workqueues_and_pools(machine, read):
    dump, done = world.seen(machine).dump, read(machine, COMMANDS)
    assert done.returncode == 0, done.stderr
    found = objects(done.stdout)
    listed = [(address, one['name'], one['flags'], one['max_active'])
              for address, one in found.items() if 'name' in one]
    assert listed == [(wq['address'], wq['name'], wq['flags'], wq['max_active']) for wq in dump['workqueues']]
    pools = [(address, one['id'], one['cpu'], one['nr_workers'], one['nr_idle'])
             for address, one in found.items() if 'id' in one]
    assert pools == [(pool['address'], pool['id'], -1 if pool['cpu'] is None else pool['cpu'], pool['nr_workers'],
                      pool['nr_idle']) for pool in dump['pools']]


@EACH
@READERS
def test_crash_shows_stacks(machine, read):
    """Each worker that sleeps in an item was called by the function of its thread and kthread()."""
    pids = [pid for _, function, pid, _ in world.seen(machine).held() if function == 'wqh_block_fn']
    done = read(machine, '\n'.join(f'bt {pid}' for pid in pids))
    assert done.returncode == 0 and len(pids) >= 7, done.stderr
    stacks = re.split(r'^(?:%crash> )?PID: (\d+) ', done.stdout, flags=re.M)
    assert [int(pid) for pid in stacks[1::2]] == pids
    for stack in stacks[2::2]:
        frames = re.findall(r'^ *#\d+ .*?\] (\w+)', stack, re.M)
        assert re.search(r'__schedule .*(worker|rescuer)_thread .*kthread .*ret_from_fork', ' '.join(frames)), stack


# The helpers of drgn

def opened(machine):
    seen, prog = world.seen(machine), drgn.Program()
    prog.set_core_dump(str(seen.core))
    prog.load_debug_info([str(seen.vmlinux)], main=True)
    return prog


@EACH
def test_drgn_knows_kworkers(machine):
    """The data of a kworker's thread is its struct worker, also that of a rescuer."""
    prog, dump = opened(machine), world.seen(machine).dump
    resident = {worker['pid']: pool['id'] for pool in dump['pools'] for worker in pool['workers']
                if worker['pid'] is not None and not worker['rescuer']}
    rescuers = {wq['rescuer']['pid']: wq['name'] for wq in dump['workqueues'] if wq['rescuer']}
    found = {}
    for task in for_each_task(prog):
        if task_is_kthread(task) and re.match(rb'kworker/', task.comm.string_()):
            worker = drgn.cast('struct worker *', kthread_data(task))
            assert worker.task == task
            rescued = worker.rescue_wq
            found[task.pid.value_()] = rescued.name.string_().decode() if rescued else worker.pool.id.value_()
    assert found == {**resident, **rescuers}


@EACH
def test_drgn_unwinds_workers(machine):
    prog = opened(machine)
    for name, function, pid, _ in world.seen(machine).held():
        if function == 'wqh_block_fn':
            frames = [frame.name for frame in prog.stack_trace(find_task(prog, pid))]
            assert {'worker_thread', 'rescuer_thread'} & set(frames) and 'kthread' in frames, (name, frames)


# Tools that trace

# A helper's item runs once, so each has the same four events.
TRACED = r"""
H=/sys/kernel/debug/wq_test
load() {
	taskset -c 0 sh -c "echo 'nop cpu=0 n=20' >$H/$1/queue" &&
		taskset -c 1 sh -c "echo 'nop cpu=1 n=10' >$H/$1/queue" && echo "$2 20000" >$H/$1/wait
}
[ -z "$1" ] || { load $1 $2; exit; }
modprobe wq_test_helper && cd /dev/shm || exit 1
for name in k_percpu k_unbound k_bh k_ordered; do echo $name ${name#k_} >$H/create || exit 1; done
TRACE_CMD record -o trace.dat -e workqueue sh -c "for name in k_percpu k_unbound k_bh k_ordered; do
	sh $0 \$name 30 || exit; done" || exit 1
echo "@@ trace-cmd"
TRACE_CMD report trace.dat || exit 1
perf kwork -k workqueue record -o data -- sh $0 k_percpu 60 || exit 1
for each in report latency timehist; do
	echo "@@ $each"
	perf kwork -k workqueue $each -i data >text || exit 1
	LC_ALL=C tr -cd '[:print:]\n' <text		# it prints bytes after the end of long names
done
echo "@@ end"
"""
VARIANTS = pytest.mark.parametrize('variant', [
    pytest.param(variant, marks=[ALL, guests.needs('qemu', variant=variant)]) for variant in ('cmwq', 'base')])


@once
def traced(variant):
    """Return {tool: what it reports} of a guest."""
    trace_cmd = shlex.join(debs.in_root(debs.unpacked('trace-cmd', ('trixie', 'bookworm')), 'usr/bin/trace-cmd'))
    script = guests.RESULTS / f'traced-{variant}.sh'      # /tmp of the guest is not that of this machine
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(TRACED.replace('TRACE_CMD', trace_cmd).replace('$0', str(script)))
    done = call('scripts/lab', 'boot', '--kernel', guests.kernel('qemu', variant=variant), '--cpus', '2', '--mem', '1G',
                '--command', f'sh {script}', timeout=600)
    script.with_suffix('.log').write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    parts = re.split('^@@ (.*)$', done.stdout, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2]))


@VARIANTS
def test_trace_cmd(variant):
    """Each item of the helper is queued, activated, started and ended, in this order and on the right workqueue."""
    items, runs = {}, collections.defaultdict(list)
    for what, item, rest in re.findall(r': workqueue_(\w+): +work struct[= ](?:0x)?([0-9a-f]+):? *(.*)',
                                       traced(variant)['trace-cmd']):
        if what == 'queue_work':        # at this address there may have been another item before
            items[item] = []
            runs[re.search(r'workqueue=(\S+)', rest)[1]].append(items[item])
        if item in items:
            items[item].append(what)
    for name in ('k_percpu', 'k_unbound', 'k_bh', 'k_ordered'):
        assert runs[name] == [['queue_work', 'activate_work', 'execute_start', 'execute_end']] * 30, name


ROW = re.compile(r'^ +\(w\)(\S+) +\| +(\d{4}) +\| +[\d.]+ ms +\| +(\d+) +\| +[\d.]+ ms +\|', re.M)


@VARIANTS
def test_perf_kwork(variant):
    """It finds the items of each CPU, since each was queued on the CPU on which it ran. It has a row for each."""
    found = traced(variant)
    for what in ('report', 'latency'):
        counts = collections.Counter()
        for name, cpu, count in ROW.findall(found[what]):
            counts[int(cpu)] += int(count) if name == 'wqh_nop_fn' else 0
        assert counts == {0: 20, 1: 10}, found[what]
    assert len(re.findall(r'\(w\)wqh_nop_fn', found['timehist'])) == 30

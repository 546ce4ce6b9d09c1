# SPDX-License-Identifier: GPL-2.0
"""Test wq_dump.py and wq_monitor.py on real guests.

The tests compare what the tools read from a guest's memory with the guest's own sysfs, and
with the reports of the module that created the items (see drgn_guests.py).
"""
import ast
import json
import os
import re
import signal
import subprocess
import xml.etree.ElementTree as ElementTree

import drgn
import pytest

import drgn_guests as world
import guests
from calls import HEARS_ALL, wait_until
from drgn_guests import cpus_of, mask_of
from wqlab.torture.matrix import OWN

pytestmark = guests.needs('qemu')
ALL = (*world.MACHINES, world.BASE, world.OLDER, world.CARRIED)
LIVE = pytest.mark.tier('more')     # drgn inside takes two minutes
EACH = pytest.mark.parametrize('machine', [guests.case(machine) for machine in ALL])
OURS = pytest.mark.parametrize('machine', [guests.case(machine) for machine in world.MACHINES])
SVG = '{http://www.w3.org/2000/svg}'
# What the tools must find: machine -> (number of CPUs in each LLC, number of cores, number of nodes)
SHAPES = {'numa': ([2, 2], 4, 2), '36-smt': ([72], 36, 1), 'unequal': ([8, 8, 8, 3], 14, 1),
          'own': ([2, 2], 4, 2), 'base': ([2, 2], 4, 2), world.OLDER.name: ([2, 2], 4, 2),
          world.CARRIED.name: ([2, 2], 4, 2)}


def groups(mapping):
    """Convert {CPU: key} to the set of groups of CPUs with equal keys."""
    found = {}
    for cpu, key in mapping.items():
        found.setdefault(key, set()).add(cpu)
    return {frozenset(group) for group in found.values()}


def scope_of(dump, name):
    return next(scope for scope in dump['scopes'] if scope['name'] == name)


def pods_of(dump, name):
    return {pod['id']: cpus_of(pod['cpus']) for pod in scope_of(dump, name)['pods']}


def workqueue_of(dump, name):
    found = [wq for wq in dump['workqueues'] if wq['name'] == name]
    assert len(found) == 1, name
    return found[0]


def pool_of(dump, number):
    return next(pool for pool in dump['pools'] if pool['id'] == number)


def made_here(dump):
    return [wq for wq in dump['workqueues'] if wq['name'].startswith('t_')]


# The kernel and its CPUs

@EACH
def test_kernel(machine):
    seen = world.seen(machine)
    kernel = seen.dump['kernel']
    assert kernel['release'] == seen.fact('uname')
    assert (kernel['source'], kernel['arch']) == ('core', 'x86_64')
    assert cpus_of(kernel['online_cpus']) == seen.online
    assert cpus_of(kernel['possible_cpus']) == cpus_of(seen.fact('cpu/possible'))
    assert cpus_of(kernel['unbound_cpus']) == mask_of(seen.fact('cpumask'))
    assert set(kernel['nodes']) == cpus_of(seen.fact('node/online'))
    ticks = [float(up) for up in re.findall(r'^@@ tick (\S+)', seen.output, re.M)]
    # uptime is computed from jiffies. The first tick may come after the dump.
    assert 0 < kernel['uptime'] < max(ticks) + 1
    if machine.old:
        assert kernel['cache_shard_size'] is None
    else:
        assert kernel['cache_shard_size'] == int(seen.fact('cache_shard_size'))
    assert seen.dump['format'] == 2 and not seen.dump['warnings']


@EACH
def test_cpus(machine):
    seen = world.seen(machine)
    listed = {cpu['cpu']: cpu for cpu in seen.dump['cpus']}
    assert set(listed) == cpus_of(seen.fact('cpu/possible'))
    assert {number for number, cpu in listed.items() if cpu['online']} == seen.online
    sockets = seen.files(r'cpu/cpu(\d+)/topology/physical_package_id')
    for number, socket in sockets.items():
        if int(number) in seen.online:
            assert listed[int(number)]['socket'] == int(socket)
    for node, cpus in seen.files(r'node/node(\d+)/cpulist').items():
        assert {number for number in seen.online if listed[number]['node'] == int(node)} == cpus_of(cpus)
    for field, scope in (('llc', 'cache'), ('core', 'smt'), ('shard', 'cache_shard')):
        if scope in machine.scopes:
            pods = scope_of(seen.dump, scope)['cpu_pod']
            assert {str(number): cpu[field] for number, cpu in listed.items()} == pods
        else:
            assert {cpu[field] for cpu in listed.values()} == {None}


# Names that scripts for the base kernel read

STRUCTS = ('worker_pool', 'pool_workqueue', 'workqueue_struct', 'worker', 'wq_node_nr_active', 'wq_pod_type',
           'workqueue_attrs', 'wq_flusher', 'wq_barrier', 'wq_device')
ENUMS = ('worker_pool_flags', 'worker_flags', 'pool_workqueue_stats', 'work_bits', 'work_flags', 'wq_flags',
         'wq_affn_scope')


def names_that_differ():
    """Return {"struct.member" of the base kernel: our name or None}, as the documentation lists them."""
    text = (world.ROOT / 'Documentation/core-api/workqueue-differences.rst').read_text()
    table = text.partition('Names that differ\n')[2]
    rows = re.findall(r'^``(\w+\.\w+)`` +(?:``(\w+)``|none) ', table, re.M)
    assert rows
    return {name: ours or None for name, ours in rows}


def symbols_of(variant):
    """Open a vmlinux for its types and addresses, without a running kernel."""
    prog = drgn.Program()
    vmlinux = guests.kernel('qemu', variant=variant) / 'vmlinux'
    prog.extra_module(str(vmlinux), create=True).try_file(str(vmlinux), force=True)
    return prog


def members(struct):
    """Return the names of the members, including those inside unnamed members."""
    found = set()
    for member in struct.members or ():
        found |= {member.name} if member.name else members(member.type)
    return found


@pytest.mark.tier('all')
@guests.needs('qemu', variant='base')
def test_names_are_the_base_kernels():
    """The document lists exactly the members that differ. test_differences.py has types and variables."""
    ours, base = symbols_of('cmwq'), symbols_of('base')
    lacking = {f'{name}.{member}' for name in STRUCTS
               for member in members(base.type(f'struct {name}')) - members(ours.type(f'struct {name}'))}
    listed = names_that_differ()
    assert lacking == set(listed)
    for name, new in listed.items():
        struct = name.partition('.')[0]
        assert new is None or new in members(ours.type(f'struct {struct}')) - members(base.type(f'struct {struct}'))
    for name in ENUMS:
        for flag in base.type(f'enum {name}').enumerators:
            assert ours.constant(flag.name).value_() == flag.value, flag.name


# Scopes

@EACH
def test_scopes(machine):
    seen = world.seen(machine)
    scopes = seen.dump['scopes']
    assert [scope['name'] for scope in scopes] == list(machine.scopes)
    assert [scope['name'] for scope in scopes if scope['default']] == [seen.fact('default_affinity_scope')]
    possible = cpus_of(seen.fact('cpu/possible'))
    for scope in scopes:
        pods = pods_of(seen.dump, scope['name'])
        assert {int(cpu): pod for cpu, pod in scope['cpu_pod'].items()} == \
            {cpu: pod for pod, cpus in pods.items() for cpu in cpus}
        assert sum(map(len, pods.values())) == len(possible) and set().union(*pods.values()) == possible


@EACH
def test_scopes_as_the_topology(machine):
    seen = world.seen(machine)
    def sets(pattern):
        return {frozenset(cpus_of(lines[0]) & seen.online) for name, lines in seen.facts.items()
                if re.fullmatch(pattern, name)}

    expected = {
        'cpu': {frozenset([cpu]) for cpu in seen.online},
        'smt': sets(r'cpu/cpu\d+/topology/thread_siblings_list'),
        'cache': sets(r'cpu/cpu\d+/cache/index3/shared_cpu_list'),
        'numa': sets(r'node/node\d+/cpulist'),
        'system': {frozenset(seen.online)},
    }
    for scope, wanted in expected.items():
        got = {frozenset(pod & seen.online) for pod in pods_of(seen.dump, scope).values()} - {frozenset()}
        assert got == wanted, scope
    llcs, cores, nodes = SHAPES[machine.name]
    assert sorted(map(len, pods_of(seen.dump, 'cache').values()), reverse=True) == llcs
    assert len(pods_of(seen.dump, 'smt')) == cores and len(pods_of(seen.dump, 'numa')) == nodes


@EACH
def test_scopes_as_workers_are_bound(machine):
    """The guest's helper ran an item for each CPU on a strict workqueue, in one scope after another."""
    seen = world.seen(machine)
    for scope in machine.scopes:
        allowed = seen.map(scope)
        assert set(allowed) == seen.online
        pods, cpu_pod = pods_of(seen.dump, scope), scope_of(seen.dump, scope)['cpu_pod']
        for cpu, cpus in allowed.items():
            assert cpus & seen.online == pods[cpu_pod[str(cpu)]] & seen.online, (scope, cpu)


@OURS
def test_shards(machine):
    """Each shard has whole cores of one LLC. Shards are as few as possible, and their sizes differ by 1 at most."""
    seen = world.seen(machine)
    size = seen.dump['kernel']['cache_shard_size']
    core_of = scope_of(seen.dump, 'smt')['cpu_pod']
    shards = pods_of(seen.dump, 'cache_shard').values()
    for llc in pods_of(seen.dump, 'cache').values():
        inside = [{core_of[str(cpu)] for cpu in shard} for shard in shards if shard & llc]
        assert all(shard <= llc for shard in shards if shard & llc)
        cores = sum(map(len, inside))
        assert cores == len(set().union(*inside)) == len({core_of[str(cpu)] for cpu in llc})
        assert len(inside) == -(-cores // size) and max(map(len, inside)) - min(map(len, inside)) <= 1
    if machine.name == '36-smt':
        assert sorted(map(len, shards), reverse=True) == [16, 14, 14, 14, 14]


# Workqueues

@EACH
def test_attributes_of_workqueues(machine):
    seen = world.seen(machine)
    names = seen.files(r'([^/]+)/max_active')
    assert len(names) > 5
    for name, max_active in names.items():
        wq = workqueue_of(seen.dump, name)
        assert wq['max_active'] == int(max_active)
        assert (wq['type'] == 'percpu') == (seen.fact(f'{name}/per_cpu') == '1')
        if wq['type'] == 'percpu':
            assert (wq['scope'], wq['nice'], wq['cpus']) == (None, None, None)
            continue
        assert wq['nice'] == int(seen.fact(f'{name}/nice'))
        assert cpus_of(wq['cpus']) == mask_of(seen.fact(f'{name}/cpumask'))
        assert wq['scope'] == seen.fact(f'{name}/affinity_scope').partition(' ')[0]
        assert wq['strict'] == (seen.fact(f'{name}/affinity_strict') == '1')


@EACH
def test_types_and_flags(machine):
    dump = world.seen(machine).dump
    expected = {'t_percpu': ('percpu', set()), 't_limit': ('percpu', set()), 't_intense': ('percpu', {'CPU_INTENSIVE'}),
                't_unbound': ('unbound', set()), 't_reclaim': ('percpu', {'MEM_RECLAIM'}),
                't_urgent': ('unbound', {'MEM_RECLAIM', 'HIGHPRI'}), 't_strict': ('unbound', set()),
                't_stall': ('percpu', set())}
    if not machine.old:
        expected.update(t_ordered=('ordered', set()), t_bh=('bh', {'BH'}))
    kinds = {'MEM_RECLAIM', 'HIGHPRI', 'FREEZABLE', 'CPU_INTENSIVE', 'BH'}
    assert {wq['name']: (wq['type'], set(wq['flag_names']) & kinds) for wq in made_here(dump)} == expected
    for wq in made_here(dump):
        assert bool(wq['rescuer']) == ('MEM_RECLAIM' in wq['flag_names'])
    assert len({wq['address'] for wq in dump['workqueues']}) == len(dump['workqueues']) > 20


@EACH
def test_cpu_to_pool(machine):
    seen = world.seen(machine)
    possible = cpus_of(seen.fact('cpu/possible'))
    for wq in seen.dump['workqueues']:
        assert {int(cpu) for cpu in wq['cpu_pool']} == possible
        pools = {int(cpu): pool_of(seen.dump, number) for cpu, number in wq['cpu_pool'].items()}
        if wq['type'] in ('percpu', 'bh'):
            nice = -20 if 'HIGHPRI' in wq['flag_names'] else 0
            assert all((pool['kind'], pool['cpu'], pool['nice']) == (wq['type'], cpu, nice)
                       for cpu, pool in pools.items())
            continue
        assert {(pool['kind'], pool['nice']) for pool in pools.values()} == {('unbound', wq['nice'])}
        if wq['type'] == 'ordered':
            assert set(wq['cpu_pool'].values()) == {wq['dfl_pool']}
            continue
        scope = seen.fact('default_affinity_scope') if wq['scope'] == 'default' else wq['scope']
        pods, cpu_pod = pods_of(seen.dump, scope), scope_of(seen.dump, scope)['cpu_pod']
        for cpu in seen.online & cpus_of(wq['cpus']):
            pod = pods[cpu_pod[str(cpu)]] & cpus_of(wq['cpus'])
            assert cpus_of(pools[cpu]['pod_cpus']) & seen.online == pod & seen.online, (wq['name'], cpu)


@EACH
def test_strict_workqueue(machine):
    """The guest set t_strict through sysfs to nice 5, CPUs 0 and 1, strict, and scope smt."""
    seen = world.seen(machine)
    wq = workqueue_of(seen.dump, 't_strict')
    assert (wq['nice'], wq['cpus'], wq['strict'], wq['scope']) == (5, '0-1', True, 'smt')
    siblings = {cpu: cpus_of(seen.fact(f'cpu/cpu{cpu}/topology/thread_siblings_list')) for cpu in (0, 1)}
    for cpu in (0, 1):
        pool = pool_of(seen.dump, wq['cpu_pool'][str(cpu)])
        assert pool['strict'] and pool['nice'] == 5 and cpus_of(pool['pod_cpus']) == siblings[cpu] & {0, 1}


@EACH
def test_pools(machine):
    seen = world.seen(machine)
    pools = seen.dump['pools']
    possible = cpus_of(seen.fact('cpu/possible'))
    assert len({pool['id'] for pool in pools}) == len(pools)
    for kind in ('percpu', 'bh'):
        assert sorted((pool['cpu'], pool['nice']) for pool in pools if pool['kind'] == kind) == \
            sorted((cpu, nice) for cpu in possible for nice in (-20, 0))
    for pool in pools:
        resident = [worker for worker in pool['workers'] if not worker['rescuer']]
        assert len(resident) == pool['nr_workers']
        assert sum('IDLE' in worker['flags'] for worker in resident) == pool['nr_idle']
        if pool['kind'] == 'percpu':
            assert cpus_of(pool['cpus']) == {pool['cpu']}
            assert ('DISASSOCIATED' in pool['flag_names']) == (pool['cpu'] not in seen.online)


@OURS
def test_own_pools(machine):
    """Only the CPU whose own pool it is queues there, and only on unbound workqueues."""
    seen = world.seen(machine)
    owners = {pool['id']: pool['own_cpu'] for pool in seen.dump['pools']}
    assert all(pool['own_cpu'] is None for pool in seen.dump['pools'] if pool['kind'] != 'unbound')
    for wq in seen.dump['workqueues']:
        for cpu, pool in wq['cpu_pool'].items():
            assert owners[pool] in (None, int(cpu)), wq['name']


# Running and waiting items

@EACH
def test_what_runs(machine):
    """The items that the module holds run, and no other items of its workqueues do."""
    seen = world.seen(machine)
    running = {(worker['workqueue'], worker['function'], worker['pid']): (worker, pool)
               for pool in seen.dump['pools'] for worker in pool['workers'] if worker['item']}
    held = seen.held()
    assert len(held) >= 9
    assert {key for key in running if key[0].startswith('t_')} == {item[:3] for item in held}
    for *key, cpu in held:
        worker, pool = running[tuple(key)]
        wq = workqueue_of(seen.dump, key[0])
        # 6.12's own workqueue does not note when a worker took its item.
        if machine.old:
            assert worker['running_for'] is None
        else:
            assert 0.5 < worker['running_for'] < seen.dump['kernel']['uptime']
        assert pool['id'] in wq['cpu_pool'].values()
        assert worker['state'] == ('R' if key[1] == 'wqh_hog_fn' else 'D')
        # If the host is busy, other workers may become CPU-intensive, too.
        assert 'CPU_INTENSIVE' in worker['flags'] or key[0] != 't_intense'
        # A worker of an unbound workqueue may have moved after the item noted its CPU.
        if wq['type'] == 'percpu':
            assert pool['cpu'] == worker['cpu'] == cpu


@EACH
def test_what_is_held_back(machine):
    """Each queued item has run, runs, waits in a pool, or is held back by max_active. None is lost."""
    seen = world.seen(machine)
    waiting = [item for pool in seen.dump['pools'] for item in pool['waiting']]
    back = {}
    for wq in made_here(seen.dump):
        name, stats = wq['name'], seen.stats(wq['name'])
        # A marker of an own pool is held back behind other items. The helper has not queued it.
        inactive = [item for pwq in wq['pwqs'] for item in pwq['inactive']]
        back[name] = [item for item in inactive if item['function'] != 'own_marker_fn']
        mine = [item for item in waiting if item['workqueue'] == name]
        assert len(back[name]) + len(mine) == stats['queued'] - stats['ran'], name
        running = sum(held[0] == name for held in seen.held())
        assert sum(pwq['nr_active'] for pwq in wq['pwqs']) == running + len(mine), name
        assert sum(pwq['nr_in_flight'] for pwq in wq['pwqs']) == running + len(mine) + len(inactive), name
        assert {item['function'] for item in back[name]} <= {'wqh_block_fn'}
        assert len({item['address'] for item in back[name]}) == len(back[name])
    expected = {'t_limit': 2, 't_unbound': 3}
    if not machine.old:
        expected['t_ordered'] = 3
    assert {name: len(items) for name, items in back.items() if items} == expected


@EACH
def test_what_waits(machine):
    """Three items wait behind the hog in the pool of CPU 1."""
    seen = world.seen(machine)
    pool = pool_of(seen.dump, workqueue_of(seen.dump, 't_stall')['cpu_pool']['1'])
    mine = [item['function'] for item in pool['waiting'] if item['workqueue'] == 't_stall']
    assert mine == ['wqh_nop_fn'] * 3 and 0.5 < pool['no_progress_for'] < seen.dump['kernel']['uptime']
    assert pool['nr_running'] == 1
    others = [item['workqueue'] for other in seen.dump['pools'] if other is not pool for item in other['waiting']]
    assert not [name for name in others if name.startswith('t_')]


@EACH
def test_active_by_node(machine):
    seen = world.seen(machine)
    for name in ('t_unbound', 't_urgent'):
        wq = workqueue_of(seen.dump, name)
        taken = sum(node['nr'] for node in wq['node_active'])
        assert sum(pwq['nr_active'] for pwq in wq['pwqs']) == 2
        # A marker of an own pool may have left a spare slot.
        assert taken == 2 or machine.append == OWN and taken > 2
        nodes = {node['node']: node for node in wq['node_active']}
        assert set(nodes) - {-1} == cpus_of(seen.fact('node/online'))
        assert all(node['nr'] <= node['max'] for node in nodes.values())
    assert workqueue_of(seen.dump, 't_unbound')['min_active'] == 2


@EACH
def test_counters(machine):
    seen = world.seen(machine)
    for wq in made_here(seen.dump):
        total = {key: sum(pwq['stats'][key] for pwq in wq['pwqs']) for key in wq['pwqs'][0]['stats']}
        ran = seen.stats(wq['name'])['ran']
        # Markers of own pools are items, too. The helper has not queued them.
        assert total['started'] == ran or wq['name'] == 't_strict' or machine.append == OWN and total['started'] > ran
        held = sum(item[0] == wq['name'] for item in seen.held())
        assert total['completed'] == total['started'] - held
        assert total['rescued'] == seen.stats(wq['name'])['rescued']


# Other options of wq_dump.py: --work, --stalls, pictures, filters

@EACH
def test_state_of_an_item(machine):
    seen = world.seen(machine)

    def state(address):
        done = world.tool('wq_dump.py', seen, '--work', address)
        assert done.returncode == 0, done.stderr
        return done.stdout
    worker = next(worker for pool in seen.dump['pools'] for worker in pool['workers']
                  if worker['workqueue'] == 't_reclaim')
    assert re.search(rf'\brun.*{worker["pid"]}', state(worker['item'])), state(worker['item'])
    limited = next(pwq for pwq in workqueue_of(seen.dump, 't_limit')['pwqs'] if pwq['inactive'])
    for number, back in enumerate(limited['inactive'], 1):
        words = state(back['address'])
        assert f': a work item that runs {back["function"]}\n' in words, words
        assert (f'  queued on workqueue t_limit, held back as number {number} of 2 on pool {limited["pool"]} (CPU 0): '
                '1 of 1 items are active (max_active)\n') in words, words
    stalled = pool_of(seen.dump, workqueue_of(seen.dump, 't_stall')['cpu_pool']['1'])
    waiting = [item for item in stalled['waiting'] if not item['barrier']]
    for number, behind in enumerate(waiting, 1):
        if behind['workqueue'] == 't_stall':
            words = state(behind['address'])
            assert (f'  queued on workqueue t_stall: waits for a worker of pool {stalled["id"]} (CPU 1), '
                    f'number {number} of {len(waiting)} on its worklist\n  not running\n') in words, words


@EACH
def test_stalls(machine):
    seen = world.seen(machine)
    hog = next(item for item in seen.held() if item[0] == 't_stall')
    done = world.tool('wq_dump.py', seen, '--stalls', '0.5')
    assert done.returncode == 0 and not done.stderr, done.stderr
    pool = workqueue_of(seen.dump, 't_stall')['cpu_pool']['1']
    assert re.search(rf'pool {pool}\b', done.stdout) and re.search(rf'\b{hog[2]}\b', done.stdout), done.stdout
    # the stack of the worker that is blamed
    assert 'wqh_hog_fn' in done.stdout and 'kthread' in done.stdout, done.stdout
    quiet = world.tool('wq_dump.py', seen, '--stalls', '100000')
    assert quiet.returncode == 0 and 'wqh_hog_fn' not in quiet.stdout


@EACH
def test_text_and_pictures(machine, tmp_path):
    seen = world.seen(machine)
    text = world.tool('wq_dump.py', seen, '--section', 'all')
    assert text.returncode == 0 and not text.stderr, text.stderr
    rows = [line.split()[:2] for line in text.stdout.splitlines()]
    for wq in seen.dump['workqueues']:
        assert [wq['name'], wq['type']] in rows
        held = [item['address'] for pwq in wq['pwqs'] for item in pwq['inactive']]
        assert set(held) <= set(re.findall(r'^ +held +\S+ (0x[0-9a-f]+) ', text.stdout, re.M)), wq['name']
    busy = [worker for pool in seen.dump['pools'] for worker in pool['workers'] if worker['item']]
    assert sorted(re.findall(r'^ +(?:runs|rescues) +(\S+) (0x[0-9a-f]+)\b', text.stdout, re.M)) == \
        sorted((worker['function'], worker['item']) for worker in busy)

    stalled = workqueue_of(seen.dump, 't_stall')['cpu_pool']['1']
    svg = world.tool('wq_dump.py', seen, '--svg', tmp_path / 'it.svg')
    assert svg.returncode == 0 and not svg.stderr, svg.stderr
    titles = {}
    for group in ElementTree.parse(tmp_path / 'it.svg').iter(f'{SVG}g'):
        titles.setdefault(group.get('class'), []).append(group.find(f'{SVG}title').text.splitlines())
    drawn = {int(re.match(r'CPU (\d+)', lines[0])[1]): lines for lines in titles['cpu']}
    assert len(titles['cpu']) == len(drawn) and set(drawn) == cpus_of(seen.dump['kernel']['possible_cpus'])
    assert {cpu for cpu, lines in drawn.items() if ', offline' not in lines[0]} == seen.online
    load = next(number for number, line in enumerate(drawn[1]) if line.startswith(f'pool {stalled} '))
    assert re.search(r'\b\d+ waiting\b', drawn[1][load]) and 'wqh_hog_fn' in drawn[1][load + 1]
    assert any(lines[0].startswith(f'pool {stalled}, CPU 1') for lines in titles['hot'])

    picture = world.tool('wq_dump.py', seen, '--picture')
    assert picture.returncode == 0 and not picture.stderr, picture.stderr
    words = ' '.join(picture.stdout.split())
    assert f'{len(seen.online)} of {len(drawn)} CPUs online' in words
    assert f'{len(seen.dump["pools"])} pools: {len(busy)} workers busy' in words
    assert re.search(rf'Most loaded pools .*pool {stalled}, CPU 1\b.* runs: [^;]*wqh_hog_fn', words)


@OURS
def test_filters(machine):
    seen = world.seen(machine)
    one = json.loads(world.tool('wq_dump.py', seen, '--json', 't_lim*').stdout)
    assert [wq['name'] for wq in one['workqueues']] == ['t_limit']
    assert {pool['id'] for pool in one['pools']} == set(one['workqueues'][0]['cpu_pool'].values())
    cpu = json.loads(world.tool('wq_dump.py', seen, '--json', '--cpu', '1').stdout)
    assert [entry['cpu'] for entry in cpu['cpus']] == [1]
    assert {tuple(wq['cpu_pool']) for wq in cpu['workqueues']} == {('1',)}
    scopes = json.loads(world.tool('wq_dump.py', seen, '--json', '--section', 'scopes').stdout)
    assert scopes['scopes'] == seen.dump['scopes'] and 'pools' not in scopes
    unknown = world.tool('wq_dump.py', seen, 'no_such')
    assert unknown.returncode == 1 and re.fullmatch(r'.*no_such.*\n', unknown.stderr)


# Tools run by drgn, and the base tree's scripts

@EACH
def test_run_by_drgn(machine):
    """If drgn runs the script, the output is the same."""
    seen = world.seen(machine)
    done = world.by_drgn(world.TOOLS / 'wq_dump.py', seen, '--json')
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert json.loads(done.stdout) == seen.dump


@EACH
@pytest.mark.parametrize('command', [['wq_dump.py'], ['wq_monitor.py', '-i', '0'],
                                     ['wq_monitor.py', '-i', '0', '^t_', 'events$']], ids=' '.join)
def test_same_as_base(machine, command):
    """
    Without new options our scripts print what those of the kernel's own tree print, which work unchanged on each
    kernel.
    """
    seen, (name, *arguments) = world.seen(machine), command
    base, ours = (world.by_drgn(tools / name, seen, *arguments)
                  for tools in (world.base_tools(machine), world.TOOLS))
    assert base.returncode == 0 and base.stdout and not base.stderr, base.stderr
    assert (ours.returncode, ours.stderr, ours.stdout) == (0, '', base.stdout)


@EACH
def test_json_has_what_base_has(machine):
    """Those who parse the lines of the base tree's script find the same keys and values, in the same order."""
    seen = world.seen(machine)
    base, ours = (world.by_drgn(tools / 'wq_monitor.py', seen, '-i', '0', '-j')
                  for tools in (world.base_tools(machine), world.TOOLS))
    assert (base.returncode, ours.returncode, ours.stderr) == (0, 0, '') and base.stdout, base.stderr
    for before, now in zip(base.stdout.splitlines(), ours.stdout.splitlines(), strict=True):
        old, new = ast.literal_eval(before), ast.literal_eval(now)
        assert new == json.loads(now) and list(new)[:len(old)] == list(old)
        assert {key: new[key] for key in old if key != 'timestamp'} == \
            {key: value for key, value in old.items() if key != 'timestamp'}
        assert 0 <= new['timestamp'] - old['timestamp'] < 3600


# wq_monitor.py

@EACH
def test_monitor_of_a_dump(machine):
    seen = world.seen(machine)
    done = world.tool('wq_monitor.py', seen, '--json')
    assert done.returncode == 0 and not done.stderr, done.stderr
    rows = {row['address']: row for row in map(json.loads, done.stdout.splitlines())}
    assert set(rows) == {wq['address'] for wq in seen.dump['workqueues']}
    for wq in seen.dump['workqueues']:
        row = rows[wq['address']]
        assert row['name'] == wq['name']
        total = {key: sum(pwq['stats'][key] for pwq in wq['pwqs']) for key in wq['pwqs'][0]['stats']}
        assert set(total) - set(row) == {'cancelled', 'barriers', 'barriers_done'}      # debugfs has them
        assert all(row[key] == total[key] for key in total if key in row)
        assert row['started'] >= 0 and row['in_flight'] == total['started'] - total['completed']
        assert row['type'] == wq['type'] and 'rate' not in row
    plain = world.by_drgn(world.TOOLS / 'wq_monitor.py', seen, '--plain', '--sort', 'started', '^t_')
    assert plain.returncode == 0 and not plain.stderr, plain.stderr
    lines = plain.stdout.splitlines()
    assert len(lines) == 1 + len(made_here(seen.dump)) and re.match(r'time +workqueue +type +infl +start ', lines[0])


# A guest of make boot: the tools inside it, and dump-guest.sh outside

@pytest.fixture(scope='module')
def booted():
    with world.booted() as guest:
        yield guest


def dump_guest(booted, *arguments):
    done = world.call('scripts/dump-guest.sh', '--guest', booted.name, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def stable(dump):
    """Select the data that stays the same while the guest waits. Times and numbers of idle workers change."""
    return {
        'kernel': {key: value for key, value in dump['kernel'].items() if key not in ('uptime', 'source')},
        'cpus': dump['cpus'], 'scopes': dump['scopes'], 'format': dump['format'],
        'pools': [{key: pool[key] for key in ('id', 'address', 'kind', 'cpu', 'node', 'nice', 'cpus', 'pod_cpus',
                                              'strict')}
                  for pool in dump['pools']],
        'workqueues': [{key: value for key, value in wq.items() if key not in ('pwqs', 'node_active', 'rescuer')}
                       for wq in dump['workqueues']],
        'made here': [[wq['node_active'], [{key: value for key, value in pwq.items() if key != 'refcnt'}
                                           for pwq in wq['pwqs']]] for wq in made_here(dump)],
        'rescuers': {wq['name']: wq['rescuer'] and wq['rescuer']['pid'] for wq in dump['workqueues']},
        'running': sorted((worker['pid'], worker['item'], worker['function'], worker['cpu'], worker['state'])
                          for pool in dump['pools'] for worker in pool['workers']
                          if worker['item'] and worker['workqueue'].startswith('t_')),
    }


@LIVE
def test_live_and_dump_agree(booted):
    live, dump = booted.live, json.loads(dump_guest(booted, 'dump', '--json').stdout)
    assert (live['kernel']['source'], dump['kernel']['source']) == ('live', 'core')
    assert live['kernel']['uptime'] < dump['kernel']['uptime']
    first, second = stable(live), stable(dump)
    for key in first:
        assert first[key] == second[key], key
    assert len(first['running']) == 6 and len(first['made here']) == 4
    assert booted.goes_on()


@LIVE
def test_live_monitor(booted):
    """The monitor runs under load until Ctrl-C. Meanwhile a workqueue is destroyed."""
    assert re.search(r'^@@ monitor ended 0$', booted.output.text, re.M), booted.output.text[-3000:]
    load = [row for row in booted.samples if row['name'] == 'm_load']
    assert len(load) >= 6 and 'rate' not in load[0]
    started = [row['started'] for row in load]
    assert started == sorted(started) and started[-1] > started[0]
    since = 0
    for due, (before, row) in enumerate(zip(load, load[1:]), 1):
        since += row['interval']
        # One sample per second. The sample after a late one may follow it closely, but is never early.
        assert since > due - 0.1 and row['timestamp'] > before['timestamp'] and not row['reset']
        per_second = (row['started'] - before['started']) / row['interval']
        # The interval is rounded to milliseconds.
        assert row['rate']['started'] == pytest.approx(per_second, rel=max(0.01, 0.001 / row['interval']), abs=0.1)
        assert 0 <= row['in_flight'] <= 2
    gone = [row for row in booted.samples if row['name'] == 'm_gone']
    assert 3 <= len(gone) < len(load) and {row['started'] for row in gone} == {3}


@LIVE
def test_monitor_from_outside(booted):
    rows = [json.loads(line) for line in dump_guest(booted, 'monitor', '--json', '^t_').stdout.splitlines()]
    assert {row['name']: row['in_flight'] for row in rows} == \
        {'t_percpu': 2, 't_limit': 1, 't_unbound': 2, 't_reclaim': 1}
    again = dump_guest(booted, '--every', '0.5', '--times', '2', 'monitor', '--json', '^t_percpu$').stdout.splitlines()
    first, second = map(json.loads, again)
    assert first['timestamp'] < second['timestamp'] and first['started'] == second['started'] == 9
    assert booted.goes_on()


def left_behind():
    return [place.name for place in world.running.FOLDER.iterdir() if place.suffix not in ('.qmp', '.json')]


@LIVE
def test_interrupted_dump(booted):
    """After Ctrl-C during a dump the guest goes on, the file with its memory is deleted, and the next dump works."""
    child = subprocess.Popen([*HEARS_ALL, 'scripts/dump-guest.sh', '--guest', booted.name, 'dump'], cwd=world.ROOT,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any(place.stat().st_size for place in world.running.FOLDER.glob(f'.guest-{child.pid}-*')))
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130 and 'Traceback' not in errors
    assert not [name for name in left_behind() if str(child.pid) in name]
    assert booted.goes_on()
    again = ('scripts/dump-guest.sh', '--guest', booted.name, 'dump', 't_limit')
    wait_until(lambda: not world.call(*again).returncode, 60)
    assert booted.goes_on()


@LIVE
def test_kept_dump(booted, tmp_path):
    core = tmp_path / 'kept.core'
    done = dump_guest(booted, '--keep', core, 'dump', '--section', 'active')
    assert 't_unbound' in done.stdout and [place.name for place in tmp_path.iterdir()] == ['kept.core']
    again = world.call(world.PYTHON, world.TOOLS / 'wq_dump.py', '--core', core, '--symbols', booted.vmlinux,
                       '--section', 'active')
    assert again.stdout == done.stdout


@LIVE
def test_guest_given_by_socket(booted):
    done = world.call('scripts/dump-guest.sh', '--qmp', booted.socket, '--vmlinux', booted.vmlinux, 'dump', '--json',
                      't_limit')
    assert [wq['name'] for wq in json.loads(done.stdout)['workqueues']] == ['t_limit']
    listed = world.call('scripts/dump-guest.sh', '--list').stdout
    assert re.search(rf'^ +{booted.name} +make boot', listed, re.M)


# Errors that the user can mend: one line, status 1

BOTH = pytest.mark.parametrize('name', ['wq_dump.py', 'wq_monitor.py'])


def one_line(pattern, done):
    assert done.returncode == 1 and not done.stdout, done
    assert 'Traceback' not in done.stderr
    assert len(done.stderr.splitlines()) == 1 and re.search(pattern, done.stderr), done.stderr


def open_with(name, core, vmlinux, **more):
    return world.call(world.PYTHON, world.TOOLS / name, '--core', core, '--symbols', vmlinux, **more)


@pytest.fixture(scope='module')
def sample():
    return world.seen(world.MACHINES[0])


@pytest.mark.tier('all')
@guests.needs('qemu', 'release', 'base', world.OLD)
@BOTH
def test_vmlinux_of_another_kernel(name, sample):
    other = world.seen(world.OLDER).vmlinux
    done = open_with(name, sample.core, other)
    one_line(rf'vmlinux does not belong to kernel {re.escape(sample.fact("uname"))}', done)
    done = world.call(world.DRGN, '-q', '-c', sample.core, '-s', other, world.TOOLS / name)
    assert done.returncode == 1 and 'Traceback' not in done.stderr
    assert sample.fact('uname') in done.stderr.splitlines()[-1]


@BOTH
def test_vmlinux_without_debug_information(name, sample, tmp_path):
    subprocess.run(['objcopy', '--strip-debug', sample.vmlinux, tmp_path / 'vmlinux'], check=True)
    one_line('no debug information .*CONFIG_DEBUG_INFO', open_with(name, sample.core, tmp_path / 'vmlinux'))


@BOTH
def test_no_vmlinux(name, sample, tmp_path):
    (tmp_path / 'vmlinux').write_text('nonsense')
    one_line('vmlinux is not a vmlinux: give', open_with(name, sample.core, tmp_path / 'vmlinux'))


@BOTH
@pytest.mark.parametrize('part', [0.002, 0.3, 0.6, 0.99])
def test_cut_core(name, part, sample, tmp_path):
    """The tool prints what it could read and what it could not, or it reports in one line that the core is damaged."""
    with open(sample.core, 'rb') as core, open(tmp_path / 'cut', 'wb') as cut:
        cut.write(core.read(int(sample.core.stat().st_size * part)))
    done = open_with(name, tmp_path / 'cut', sample.vmlinux)
    assert 'Traceback' not in done.stderr
    if done.returncode:
        one_line('damaged|incomplete|not the memory of a kernel', done)
    else:
        assert part > 0.1 and (name == 'wq_monitor.py' or part > 0.9 or 'short read' in done.stderr)


@BOTH
def test_no_permission(name, sample, tmp_path):
    """If the tests run as root, drop the capabilities that let root read every file."""
    core = tmp_path / 'core'
    core.write_text('')
    core.chmod(0)
    less = ['setpriv', '--bounding-set=-dac_override,-dac_read_search'] if os.geteuid() == 0 else []
    one_line('no permission to read .*core', world.call(*less, world.PYTHON, world.TOOLS / name, '--core', core,
                                                        '--symbols', sample.vmlinux))


@LIVE
def test_no_permission_for_the_running_kernel(booted):
    said = re.findall(r'^@@ nobody (\d+) (.*)$', booted.output.text, re.M)
    words = 'no permission to read /proc/kcore: run this as root, or give a dump with --core FILE'
    assert said == [('1', f'wq_dump: {words}'), ('1', f'wq_monitor: {words}')]

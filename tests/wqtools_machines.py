# SPDX-License-Identifier: GPL-2.0
"""Hand-made machines and workqueues, for tests that need no kernel."""
from wqtools import model


def item(function='foo_fn', address=0xffff888000001000, workqueue='test', **more):
    return model.Item(address, function, workqueue, more.pop('pool', None), **more)


def worker(pid=100, function=None, running_for=None, flags=(), **more):
    fields = dict(state='S' if function else 'I', comm=f'kworker/{pid}', id=0, cpu=0, desc='', rescuer=None,
                  idle_for=None if function else 1.0)
    if function:
        fields.update(item=0xffff888000002000 + 64 * (pid or 0), workqueue='test')
    fields.update(more)
    return model.Worker(pid=pid, flags=list(flags), function=function, running_for=running_for, **fields)


def pool(id, kind='percpu', cpu=0, cpus=None, **more):
    """Make a pool. Its counts are taken from its workers unless they are given."""
    cpus = [cpu] if cpus is None else list(cpus)
    workers = more.get('workers', [])
    fields = dict(address=0xffff888000100000 + 0x1000 * id, node=-1, flags=0, flag_names=[], refcnt=1, nice=0,
                  pod_cpus=cpus if kind == 'unbound' else None, strict=False, nr_running=0,
                  nr_idle=sum(one.function is None for one in workers),
                  nr_workers=sum(one.rescuer is None for one in workers), manager=None, no_progress_for=None,
                  workers=[], waiting=[], mayday=[])
    fields.update(more)
    return model.Pool(id=id, kind=kind, cpu=None if kind == 'unbound' else cpu, cpus=cpus, **fields)


def pwq(pool_id, inactive=(), nr_active=0, **more):
    fields = dict(address=0xffff888000300000 + 0x100 * pool_id, refcnt=1, nr_in_flight=nr_active + len(inactive),
                  plugged=False, mayday=False, stats={})
    fields.update(more)
    return model.Pwq(pool=pool_id, inactive=list(inactive), nr_active=nr_active, **fields)


def workqueue(name='test', type='percpu', pwqs=(), max_active=1024, **more):
    unbound = type in ('unbound', 'ordered')
    fields = dict(address=0xffff888000400000, flags=0, flag_names=[], min_active=None,
                  scope='default' if unbound else None, strict=False, nice=0 if unbound else None, cpus=None,
                  cpu_pool={}, dfl_pool=None, node_active=[], rescuer=None, rescuer_cpus=None)
    fields.update(more)
    return model.Workqueue(name=name, type=type, max_active=max_active, pwqs=list(pwqs), **fields)


def percpu_pools(cpus):
    """Make the four pools of each CPU, all idle, with the numbers that the kernel gives them."""
    pools = []
    for cpu in cpus:
        softirq = dict(comm='', cpu=cpu, state='')
        pools += [pool(4 * cpu, 'bh', cpu, workers=[worker(None, **softirq)]),
                  pool(4 * cpu + 1, 'bh', cpu, nice=-20, workers=[worker(None, **softirq)]),
                  pool(4 * cpu + 2, 'percpu', cpu, workers=[worker(10 * cpu + 7, cpu=cpu)]),
                  pool(4 * cpu + 3, 'percpu', cpu, nice=-20, workers=[worker(10 * cpu + 8, cpu=cpu)])]
    return pools


def machine(llcs, threads=1, sockets=1, nodes=None, shard_size=8, offline=(), isolated=(), default='cache_shard'):
    """Make a machine. llcs has the number of cores of each LLC.

    The LLCs are spread over the sockets in order. Threads are numbered as on real machines:
    first the first threads of all cores, then the second threads.
    """
    total = sum(llcs)
    cpus, shard_pods, shard, core = [], [], 0, 0
    for llc, cores in enumerate(llcs):
        socket = llc * sockets // len(llcs)
        shards = -(-cores // shard_size)
        sizes = [cores // shards + (index < cores % shards) for index in range(shards)]
        for size in sizes:
            numbers = [core + index + thread * total for index in range(size) for thread in range(threads)]
            for number in sorted(numbers):
                cpus.append(model.Cpu(number, number not in offline, socket,
                                      socket if nodes is None else nodes(number), llc, shard, number % total))
            shard_pods.append(model.Pod(shard, sorted(numbers), -1))
            shard, core = shard + 1, core + size
    cpus.sort(key=lambda cpu: cpu.cpu)
    numbers = [cpu.cpu for cpu in cpus]

    def pods(key):
        found = {}
        for cpu in cpus:
            found.setdefault(getattr(cpu, key) if key else 0, []).append(cpu.cpu)
        return [model.Pod(index, members, -1) for index, members in sorted(found.items())]

    nodes_of = {cpu.cpu: cpu.node for cpu in cpus}

    def node_of(members):
        found = {nodes_of[cpu] for cpu in members}
        return found.pop() if len(found) == 1 else -1

    def scope(name, pods):
        for pod in pods:
            pod.node = node_of(pod.cpus)
        return model.Scope(name, name == default, pods, {cpu: pod.id for pod in pods for cpu in pod.cpus})

    scopes = [scope('cpu', pods('cpu')), scope('smt', pods('core')), scope('cache', pods('llc')),
              scope('cache_shard', shard_pods), scope('numa', pods('node')), scope('system', pods(None))]
    node_cpus = {pod.id: pod.cpus for pod in pods('node')}
    kernel = model.Kernel('7.3.4', 'core', 'x86_64', 754.2, numbers, [n for n in numbers if n not in offline],
                          [n for n in numbers if n not in isolated], sorted(node_cpus), shard_size, sorted(node_cpus),
                          node_cpus)
    pools = percpu_pools(numbers)
    chosen = next(one for one in scopes if one.default)
    for pod in chosen.pods:
        number = len(pools)
        pools.append(pool(number, 'unbound', cpus=pod.cpus,
                          workers=[worker(5000 + 2 * number), worker(5001 + 2 * number)]))
    pools.append(pool(len(pools), 'unbound', cpus=numbers, workers=[worker(9000)]))
    return model.Snapshot(kernel, cpus, scopes, pools, [], [])

# SPDX-License-Identifier: GPL-2.0
"""
A Snapshot of a kernel's workqueues, read by drgn.

    read.snapshot(prog, parts=PARTS, wanted=None)

parts selects which of "scopes", "pools" and "workqueues" to read, and wanted(name) selects
workqueues.  No locks are taken, so on a live kernel one part may be a moment newer than
another.  What changes while it is read is read again or left out.  What cannot be read
leaves a line in Snapshot.warnings.
"""
import functools

from drgn import FaultError
from drgn.helpers.linux.percpu import per_cpu
from drgn.helpers.linux.sched import task_cpu, task_state_to_char

from . import model, program, structs

PARTS = ('scopes', 'pools', 'workqueues')
BARRIER = 'wq_barrier_func'
TRIES = 3               # how often to walk a live list that changes
UNREADABLE = (FaultError, structs.Broken)


def snapshot(prog, parts=PARTS, wanted=None):
    return _Reader(prog).snapshot(parts, wanted or (lambda name: True))


def _on(member):
    return lambda entry: structs.linked(entry, member)


class _Reader:
    def __init__(self, prog):
        self.prog = prog
        self.live = program.source(prog) == 'live'
        self.warnings = []
        self.possible = structs.possible_cpus(prog)
        self.online = structs.online_cpus(prog)
        self.nodes = structs.nodes(prog)

    def snapshot(self, parts, wanted):
        kernel = self.kernel()
        scopes = self.scopes() if 'scopes' in parts else []
        workqueues, mayday = self.workqueues(wanted) if {'pools', 'workqueues'} & set(parts) else ([], {})
        pools = self.pools(mayday) if 'pools' in parts else []
        cpus = self.cpus(scopes) if 'scopes' in parts else []
        return model.Snapshot(kernel, cpus, scopes, pools, workqueues if 'workqueues' in parts else [], self.warnings)

    # coping with changes and damage

    def warn(self, what, error):
        self.warnings.append(f'{what}: {error}')

    def part(self, what, read, otherwise):
        """The result of read(), or @otherwise if that fails."""
        try:
            return read()
        except UNREADABLE as error:
            self.warn(what, error)
            return otherwise

    def entries(self, what, walk):
        """What walk() yields. If the list cannot be walked to its end, what was found of it."""
        for left in reversed(range(TRIES if self.live else 1)):
            found = []
            try:
                for entry in walk():
                    found.append(entry)
                break
            except UNREADABLE as error:
                if not left:
                    self.warn(what, error)
        return found

    def each(self, what, walk, exists, read):
        """
        read(entry) of each entry of walk().  On a live kernel an entry may be freed
        before it is read, which is no error.  If it no longer exists() after it was read,
        its result and its warnings are dropped.
        """
        results = []
        for entry in self.entries(what, walk):
            warnings = len(self.warnings)
            try:
                result = read(entry)
            except UNREADABLE as error:
                result = None
                self.warn(f'{what}, at {entry.value_():#x}', error)
            if self.live and not exists(entry):
                del self.warnings[warnings:]
            elif result is not None:
                results.append(result)
        return results

    # the machine

    def kernel(self):
        prog = self.prog
        names = prog['init_uts_ns'].name
        try:
            shard_size = prog['wq_cache_shard_size'].value_()
        except LookupError:
            shard_size = None
        return model.Kernel(structs.string(names.release), program.source(prog), structs.string(names.machine),
                            structs.uptime(prog), self.possible, self.online,
                            structs.cpus(prog['wq_unbound_cpumask']), self.nodes, shard_size,
                            structs.possible_nodes(prog),
                            self.part('CPUs of nodes', lambda: structs.node_cpus(prog), None))

    def scopes(self):
        names = structs.enumerators(self.prog, 'enum wq_affn_scope', 'WQ_AFFN_')
        default = self.prog['wq_affn_dfl'].value_()
        scopes = []
        for name, value in names.items():
            if name in ('DFL', 'NR_TYPES'):
                continue
            try:
                scopes.append(self.scope(name.lower(), value == default, self.prog['wq_pod_types'][value]))
            except UNREADABLE as error:
                self.warn(f'scope {name.lower()}', error)
        return scopes

    def scope(self, name, default, pods):
        if not 0 < pods.nr_pods.value_() <= len(self.possible):
            raise structs.Broken(f'{pods.nr_pods.value_()} pods cannot be')
        cpu_pod = {cpu: pods.cpu_pod[cpu].value_() for cpu in self.possible}
        return model.Scope(name, default,
                           [model.Pod(pod, structs.cpus(pods.pod_cpus[pod]), pods.pod_node[pod].value_())
                            for pod in range(pods.nr_pods.value_())], cpu_pod)

    def cpus(self, scopes):
        by_name = {scope.name: scope for scope in scopes}

        def pod_of(cpu, name):
            return by_name[name].cpu_pod.get(cpu) if name in by_name else None

        def node_of(cpu):
            pod = pod_of(cpu, 'numa')
            nodes = {one.id: one.node for one in by_name['numa'].pods} if pod is not None else {}
            return None if nodes.get(pod, -1) < 0 else nodes[pod]

        return [model.Cpu(cpu, cpu in self.online, self.socket(cpu), node_of(cpu), pod_of(cpu, 'cache'),
                          pod_of(cpu, 'cache_shard'), pod_of(cpu, 'smt')) for cpu in self.possible]

    def socket(self, cpu):
        """Its place depends on the architecture. It is not valid for a CPU that was never up."""
        prog = self.prog
        try:
            info = per_cpu(prog['cpu_info'], cpu)
            if cpu not in self.online and not info.initialized:
                return None
            topology = structs.field(info, 'topo')
            return structs.field(info, 'phys_proc_id').value_() if topology is None else topology.pkg_id.value_()
        except (LookupError, AttributeError, FaultError):
            pass
        try:
            package = prog['cpu_topology'][cpu].package_id.value_()
        except (LookupError, AttributeError, FaultError):
            return None
        return package if package >= 0 else None

    # pools and their workers

    def pools(self, mayday):
        return sorted(self.each('worker pools', lambda: structs.pools(self.prog), structs.pool_exists,
                                lambda pool: self.pool(pool, mayday)), key=lambda pool: pool.id)

    def pool(self, pool, mayday):
        number, flags, kind = pool.id.value_(), pool.flags.value_(), structs.pool_kind(pool)
        cpu = pool.cpu.value_()
        waiting = self.items(f'list of pool {number}', lambda: structs.waiting(pool), number)
        stamp = structs.field(pool, 'last_progress_ts', 'watchdog_ts')
        return model.Pool(
            id=number, address=pool.value_(), kind=kind, cpu=cpu if cpu >= 0 else None, node=pool.node.value_(),
            flags=flags, flag_names=structs.flag_names(self.prog, 'enum worker_pool_flags', 'POOL_', flags),
            refcnt=pool.refcnt.value_(), nice=pool.attrs.nice.value_(),
            cpus=structs.cpus(pool.attrs.cpumask) if kind == 'unbound' else [cpu],
            pod_cpus=structs.cpus(pool.attrs.member_('__pod_cpumask')) if kind == 'unbound' else None,
            strict=bool(pool.attrs.affn_strict), nr_running=self.number(pool.nr_running),
            nr_idle=pool.nr_idle.value_(), nr_workers=pool.nr_workers.value_(), manager=self.manager(pool),
            no_progress_for=structs.since(self.prog, stamp) if waiting and stamp is not None else None,
            workers=self.pool_workers(pool, number), waiting=waiting, mayday=mayday.get(pool.value_(), []),
            own_cpu=structs.own_cpu(pool))

    @staticmethod
    def number(obj):
        """An int, or an atomic_t in older kernels."""
        counter = structs.field(obj, 'counter') if obj.type_.kind.name in ('STRUCT', 'TYPEDEF') else None
        return (obj if counter is None else counter).value_()

    def manager(self, pool):
        worker = pool.manager.read_()
        try:
            return worker.task.pid.value_() if worker else None
        except FaultError:
            return None         # it has ended meanwhile

    def pool_workers(self, pool, number):
        what = f'workers of pool {number}'
        if structs.pool_kind(pool) == 'bh':
            worker = structs.bh_worker(pool)
            return [self.worker(worker, number, pool.cpu.value_())] if worker is not None else []
        return self.each(what, lambda: structs.pool_workers(pool), _on('node'),
                         lambda worker: self.worker(worker, number))

    def worker(self, worker, pool, bh_cpu=None):
        """One worker. Give bh_cpu for a worker without a task, which is the softirq of that CPU."""
        prog, flags = self.prog, worker.flags.value_()
        names = structs.flag_names(prog, 'enum worker_flags', 'WORKER_', flags)
        task = worker.task.read_()
        rescues = worker.rescue_wq.read_()
        result = model.Worker(
            pid=task.pid.value_() if task else None, comm=structs.string(task.comm) if task else '',
            id=worker.id.value_(), cpu=task_cpu(task) if task else bh_cpu,
            state=task_state_to_char(task) if task else '', flags=names, desc=structs.string(worker.desc),
            rescuer=structs.wq_name(rescues) if rescues else None,
            idle_for=structs.since(prog, worker.last_active) if 'IDLE' in names else None)
        self.fill_current(worker, result)
        result.scheduled = self.items(f'own list of worker {result.comm or result.cpu}',
                                      lambda: structs.scheduled(worker), pool, result.pid)
        return result

    def fill_current(self, worker, result):
        """Fills in what the worker runs, if it still runs the same item after all was read."""
        item = worker.current_work.value_()
        if not item:
            return
        address, pwq = worker.current_func.value_(), worker.current_pwq.read_()
        start = structs.field(worker, 'current_start')
        running_for = None if start is None else structs.since(self.prog, start)
        name = self.pwq_name(pwq)
        if self.live and worker.current_work.value_() != item:
            return
        result.item, result.function = item, structs.function(self.prog, address)
        result.workqueue, result.running_for = name, running_for

    def pwq_name(self, pwq):
        try:
            return structs.wq_name(pwq.wq) if pwq else None
        except FaultError:
            return None

    def items(self, what, walk, pool, worker=None):
        return self.each(what, walk, _on('entry'), lambda work: self.item(work, pool, worker))

    def item(self, work, pool, worker):
        """None for an item that was taken off the list meanwhile."""
        pwq = structs.work_pwq(work)
        if pwq is None and self.live:
            return None
        function = structs.function(self.prog, work.func.value_())
        linked = structs.work_data(work) >> structs.constant(self.prog, 'WORK_STRUCT_LINKED_BIT') & 1
        return model.Item(work.value_(), function, self.pwq_name(pwq), pool, worker, function == BARRIER, bool(linked))

    # workqueues

    def workqueues(self, wanted):
        """The wanted workqueues, and for each pool's address the workqueues whose rescuers were called for it."""
        mayday = {}
        return self.each('workqueues', lambda: structs.workqueues(self.prog), _on('list'),
                         lambda wq: self.workqueue(wq, wanted, mayday)), mayday

    def workqueue(self, wq, wanted, mayday):
        name = structs.wq_name(wq)
        called = self.entries(f'maydays of {name}', lambda: structs.maydays(wq))
        for pwq in called:
            try:
                mayday.setdefault(pwq.pool.value_(), []).append(name)
            except FaultError as error:
                self.warn(f'maydays of {name}', error)
        if not wanted(name):
            return None
        kind, flags = structs.wq_type(wq), wq.flags.value_()
        attrs = structs.wq_attrs(wq) if kind in ('unbound', 'ordered') else None
        default = wq.dfl_pwq.read_() if attrs else None
        minimum, rescuer = structs.field(wq, 'min_active'), wq.rescuer.read_()
        waits = {pwq.value_() for pwq in called}
        return model.Workqueue(
            name=name, address=wq.value_(), type=kind, flags=flags,
            flag_names=structs.flag_names(self.prog, 'enum wq_flags', 'WQ_', flags)
            + structs.flag_names(self.prog, 'enum wq_flags', '__WQ_', flags),
            max_active=wq.max_active.value_(), min_active=None if minimum is None else minimum.value_(),
            scope=self.scope_name(attrs.affn_scope) if attrs else None,
            strict=bool(attrs.affn_strict) if attrs else False,
            nice=attrs.nice.value_() if attrs else None, cpus=structs.cpus(attrs.cpumask) if attrs else None,
            cpu_pool=self.cpu_pool(wq, name), dfl_pool=default.pool.id.value_() if default else None,
            node_active=self.part(f'active items of {name}', lambda: self.node_active(wq), []) if attrs else [],
            pwqs=self.each(f'pwqs of {name}', lambda: structs.pwqs(wq), _on('pwqs_node'),
                           lambda pwq: self.pwq(pwq, name, waits)),
            rescuer=self.part(f'rescuer of {name}', lambda: self.worker(rescuer, None), None) if rescuer else None,
            rescuer_cpus=self.part(f'CPUs of the rescuer of {name}', lambda: structs.cpus(rescuer.task.cpus_ptr), None)
            if rescuer else None)

    def scope_name(self, scope):
        names = structs.enumerators(self.prog, 'enum wq_affn_scope', 'WQ_AFFN_')
        name = next((name.lower() for name, value in names.items() if value == scope.value_()), str(scope.value_()))
        return 'default' if name == 'dfl' else name

    def cpu_pool(self, wq, name):
        def pool_id(cpu):
            pwq = structs.cpu_pwq(wq, cpu)
            return None if pwq is None else pwq.pool.id.value_()
        pools = {cpu: self.part(f'pool of {name} on CPU {cpu}', functools.partial(pool_id, cpu), None)
                 for cpu in self.possible}
        return {cpu: pool for cpu, pool in pools.items() if pool is not None}

    def node_active(self, wq):
        found = []
        for node in structs.possible_nodes(self.prog) + [-1]:
            active = structs.node_active(wq, node)
            if active is not None:
                found.append(model.NodeActive(node, active.nr.counter.value_(), active.max.value_()))
        return found

    def pwq(self, pwq, name, waits):
        pool, stats = pwq.pool.id.value_(), pwq.stats
        return model.Pwq(
            address=pwq.value_(), pool=pool, refcnt=pwq.refcnt.value_(), nr_active=pwq.nr_active.value_(),
            nr_in_flight=sum(pwq.nr_in_flight.value_()),
            inactive=self.items(f'held back items of {name}', lambda: structs.inactive(pwq), pool),
            plugged=bool(pwq.plugged), mayday=pwq.value_() in waits,
            stats={key: stats[index].value_() for key, index in structs.stat_names(self.prog).items()
                   if index < len(stats)})

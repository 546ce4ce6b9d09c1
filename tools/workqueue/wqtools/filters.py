# SPDX-License-Identifier: GPL-2.0
"""Selects the part of a Snapshot that the user asked for.

    matcher(names, regex)           a function that returns whether a workqueue is wanted
    select(snapshot, named, cpu)    a Snapshot with only what belongs to its workqueues (if
                                    they were chosen by name) and to the CPU (if not None)
"""
import dataclasses
import fnmatch
import re


def matcher(names, regex=False):
    """Names are exact or shell patterns, or regular expressions that match anywhere in a name."""
    if not names:
        return lambda name: True
    if regex:
        patterns = [re.compile(name) for name in names]
        return lambda name: any(pattern.search(name) for pattern in patterns)
    return lambda name: any(name == one or fnmatch.fnmatchcase(name, one) for one in names)


def select(snapshot, named, cpu):
    if cpu is not None:
        snapshot = _of_cpu(snapshot, cpu)
    if named:
        used = used_pools(snapshot.workqueues)
        snapshot = dataclasses.replace(snapshot, pools=[pool for pool in snapshot.pools if pool.id in used])
    return snapshot


def used_pools(workqueues):
    return {pool for wq in workqueues
            for pool in [*wq.cpu_pool.values(), wq.dfl_pool, *(pwq.pool for pwq in wq.pwqs)] if pool is not None}


def serves(pool, cpu):
    """Does the pool serve work queued on that CPU, or does one of its workers run something there?"""
    if pool.own_cpu is not None:
        served = [pool.own_cpu]
    else:
        served = pool.cpus if pool.pod_cpus is None else pool.pod_cpus
    return cpu in served or any(one.cpu == cpu for one in pool.busy)


def _of_cpu(snapshot, cpu):
    pools = [pool for pool in snapshot.pools if serves(pool, cpu)]
    kept = {pool.id for pool in pools} if snapshot.pools else None
    return dataclasses.replace(
        snapshot, pools=pools, cpus=[one for one in snapshot.cpus if one.cpu == cpu],
        scopes=[_scope_of_cpu(scope, cpu) for scope in snapshot.scopes],
        workqueues=[_workqueue_of_cpu(wq, cpu, kept) for wq in snapshot.workqueues])


def _scope_of_cpu(scope, cpu):
    return dataclasses.replace(scope, pods=[pod for pod in scope.pods if cpu in pod.cpus],
                               cpu_pod={key: pod for key, pod in scope.cpu_pod.items() if key == cpu})


def _workqueue_of_cpu(wq, cpu, pools):
    """If there are no pools in the Snapshot, the CPU's entry in cpu_pool selects its pwqs."""
    mine = {key: pool for key, pool in wq.cpu_pool.items() if key == cpu}
    kept = {*mine.values(), wq.dfl_pool} if pools is None else pools
    return dataclasses.replace(wq, cpu_pool=mine, pwqs=[pwq for pwq in wq.pwqs if pwq.pool in kept])

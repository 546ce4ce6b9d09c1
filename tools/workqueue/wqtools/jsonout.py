# SPDX-License-Identifier: GPL-2.0
"""A Snapshot as JSON: the fields of model.py under the same names.

CPU sets become strings ("0-3,8"), addresses become strings ("0xffff..."), keys of
maps are strings as everywhere in JSON, and None becomes null.
"""
import dataclasses
import json

from . import model

CPULISTS = ('possible_cpus', 'online_cpus', 'unbound_cpus', 'node_cpus', 'cpus', 'pod_cpus', 'rescuer_cpus')
ADDRESSES = ('address', 'item')


def to_dict(snapshot, parts=None):
    """
    The whole Snapshot, with "format" in front.  If @parts is given, only those of "scopes",
    "pools" and "workqueues" that are in it.  Snapshot.cpus belongs to the scopes.
    """
    result = {'format': model.FORMAT}
    for field in dataclasses.fields(snapshot):
        part = 'scopes' if field.name == 'cpus' else field.name
        if parts is None or part in parts or part in ('kernel', 'warnings'):
            result[field.name] = _plain(field.name, getattr(snapshot, field.name))
    return result


def dumps(snapshot, parts=None):
    return json.dumps(to_dict(snapshot, parts), indent=1)


def _plain(name, value):
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list):
        if name in CPULISTS and all(isinstance(one, int) for one in value):
            return model.cpulist(value)
        return [_plain('', one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(name, one) for key, one in value.items()}
    if name in ADDRESSES and value is not None:
        return f'{value:#x}'
    return round(value, 3) if isinstance(value, float) else value

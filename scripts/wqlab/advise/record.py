# SPDX-License-Identifier: GPL-2.0
"""results.json of advise.sh. It is replaced after each turn, so an interrupted run can go on."""
import platform
from pathlib import Path
from typing import Any

from wqlab.advise import loads, pods
from wqlab.measure import record as measure_record
from wqlab.measure.boot import Build
from wqlab.measure.record import RecordError
from wqlab.paths import BUILD, ROOT
from wqlab.shape import NOTHING, NUMBER

RESULTS = BUILD / 'advise'
NAMES = {*loads.LOADS}
SIZE = (int, NOTHING)
RUN = {f'{name}?': NUMBER for name in loads.KEPT if name != 'actual'}
SHAPE = {
    'complete': bool, 'kernel': {'release': str}, 'machine': {'cpu': str}, 'seconds': NUMBER,
    'parameters': {'engine': ({'uml', 'qemu'}, NOTHING), 'variant': (str, NOTHING), 'module': (str, NOTHING),
                   'minutes': NUMBER, 'slice_ms': int, 'threshold': NUMBER, 'cpus': (int, NOTHING),
                   'loads': ([NAMES], NOTHING), 'scopes': ([str], NOTHING), 'shard_sizes': ([int], NOTHING)},
    'present': ({'scope': str, 'shard_size': SIZE, 'can_resize': bool}, NOTHING), 'cpus?': int,
    'settings': [{'scope': str, 'shard_size': SIZE}], 'same': {...: str}, 'lacking': [str],
    'items': {**{f'{name}?': int for name in NAMES}},
    'turns': [{'session': int, 'rounds': [{f'{name}?': {...: RUN} for name in NAMES}]}]}
Record = dict[str, Any]


def kernel_of(target: Path | Build) -> dict[str, str]:
    """Describe the kernel of a guest, or the running one with the module that is loaded into it."""
    if isinstance(target, Build):
        return measure_record.describe_kernel(target)
    return {'release': platform.release(), 'version': platform.version(),
            'module_sha256': measure_record.file_digest(target)}


def new(params: dict[str, Any], kernel: dict[str, str]) -> Record:
    return {**measure_record.begun(ROOT), 'kernel': kernel, 'parameters': params, 'present': None, 'settings': [],
            'same': {}, 'lacking': [], 'items': {}, 'seconds': 0.0, 'turns': [], 'rows': [], 'advice': None}


def save(record: Record, folder: Path) -> None:
    measure_record.save(record, folder)


def load(folder: Path) -> Record:
    path, record = folder / 'results.json', measure_record.load(folder, SHAPE)
    names = [pods.DEFAULT.name, pods.AGAIN, *(pods.Setting(**one).name for one in record['settings'])]
    rounds = {load: dict.fromkeys(names, RUN) for load in record['items']}
    measure_record.check(record, path, {'turns': [{'rounds': [rounds]}]},
                         *([{'cpus': int}] if record['present'] else []))
    if record['turns'] and not rounds:
        raise RecordError(f'{path}: turns of no items: it is damaged: start a new run')
    return record


def find_unfinished() -> Path:
    return measure_record.find_unfinished(RESULTS, load)


def check_same(record: Record, found: dict[str, Any]) -> None:
    """Raise RecordError if what a run depends on has changed since it began."""
    for name, value in found.items():
        if record[name] != value:
            raise RecordError(f'{name!r} has changed since this run began, from {record[name]} to {value}: '
                              'start a new run')

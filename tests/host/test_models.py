# SPDX-License-Identifier: GPL-2.0
"""Models of protocols that no single lock protects. spin searches all their states.

Each model has mutations. With any one of them the search must fail, or the model proves nothing.
"""
import hashlib
import re
import subprocess
import sys

import pytest

from wqlab.paths import BUILD, ROOT

pytestmark = pytest.mark.tier('more')     # the searches take a minute or two
PLACE = BUILD / 'test/models'

# model: variants that must hold, and for each the mutations that must break it
MODELS: dict[str, dict[str, tuple[str, ...]]] = {
    'chain': {
        '': ('ONE_LOOK', 'NO_COUNT'),
    },
    'claim': {
        '': ('NO_LOOK_BACK', 'LOOK_EARLY', 'STATE_LATE', 'CULL_FIRST', 'CULL_BLIND', 'KEEP_NONE', 'KEEP_LISTED'),
        'PERCPU': ('NO_LOOK_BACK', 'LOOK_EARLY', 'STATE_LATE', 'CULL_FIRST', 'CULL_BLIND', 'KEEP_NONE',
                   'KEEP_LISTED'),
    },
    'colors': {
        '': ('NO_PAINT', 'PAINT_LATE', 'NO_COUNT', 'NO_ARM', 'KEEP_COLOR', 'KEEP_FIRST', 'NO_OVERFLOW',
             'RETIRE_ALL', 'NO_ASSIGN', 'WORK_COLOR'),
    },
    'cursor': {
        '': ('NO_DROP_TAKE', 'NO_DROP_CANCEL', 'BEHIND', 'NO_PLACE', 'TAKE_LATE', 'ADD_FIRST', 'STAY_DEAD'),
    },
    'drain': {
        '': ('NO_HOME', 'HOME_STALE', 'SET_LATE', 'CLEAR_EARLY'),
    },
    'freeze': {
        '': ('NO_GRANT', 'GRANT_ONE', 'GRANT_LOST', 'NO_FILL', 'WAIT', 'UNPLUG', 'KEEP_PLUGGED',
             'NO_PARK', 'NO_ACTIVE', 'NO_THAW'),
        'THREE': ('OWN_FIRST', 'FILL_SHORT'),
        'NODES': (),
        'LATE': ('GRANT_HELD',),
        'CANCEL': ('CANCEL_KEEP',),
    },
    'ordered': {
        '': ('NO_SECOND', 'NO_PLUG', 'NO_UNPLUG', 'UNPLUG_NEXT', 'NO_REFCNT', 'NO_MOVED', 'MOVED_LATE',
             'NO_HOME', 'HOME_STALE', 'NO_RUNNER', 'NO_LEAVE'),
    },
    'own': {
        '': ('NO_MARKER', 'NO_PLUG', 'NO_UNPLUG', 'NO_PARK', 'NO_RECHECK', 'MARKER_FIRST', 'TAKE_FULL',
             'TAKE_UNLOCKED', 'MOVE_PLUGGED'),
    },
    'slots': {
        '': ('NO_MB_FREE', 'NO_MB_PARK', 'NO_RETRY', 'NO_GO_ON', 'NO_FILL', 'FILL_TRIES', 'PARK_LATE',
             'KEEP_FROZEN', 'HAND_FROZEN', 'HAND_LOSES', 'NO_NEXT', 'NO_HEIR'),
        'TWO': ('NO_NEXT', 'NO_HEIR'),
        'KICKS': ('NO_KICK',),
    },
    'reentry': {
        '': ('NO_MB_RUN', 'NO_MB_QUEUE', 'NO_LAST_POOL', 'NO_COLLISION', 'LAST_LATE', 'BUSY_SHORT'),
    },
    'spare': {
        '': ('NO_MB_SPARE', 'NO_MB_FREE', 'NO_FREE', 'FREE_ONE', 'NO_LIST', 'NO_LOOK', 'TAKE_FREED', 'EMPTIED',
             'NO_NEXT'),
        'THREE': (),
        'FROZEN': ('OVER_LIMIT', 'FROZEN_KEEPS', 'FILL_SHORT'),
        'DEAD': ('DEAD_KEEPS',),
    },
    'wake': {
        '': ('NO_KICK_QUEUE', 'NO_KICK_SLEEP', 'NO_LOOK_BACK', 'STATE_LATE', 'AWAKE_LATE',
             'SLEEP_UNLOCKED'),
        'UNBOUND': ('NO_KICK_QUEUE', 'STATE_LATE', 'AWAKE_LATE', 'NO_CHAIN'),
    },
}
HOLD = [(model, variant) for model, variants in MODELS.items() for variant in variants]
BREAK = [(model, variant, mutation) for model, variant in HOLD for mutation in MODELS[model][variant]]


def run(folder, *command):
    out = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert out.returncode == 0, f'{command[0]}: {out.stdout}{out.stderr}'
    return out


def search(model, *defines):
    """
    Search all states of the model. Return the number of errors and the output.

    It depends on nothing but the program that spin writes. If that has not changed since the last search, the
    output has not changed either.
    """
    names = [name for name in defines if name]
    folder = PLACE / '-'.join([model, *names])
    folder.mkdir(parents=True, exist_ok=True)
    run(folder, 'spin', *(f'-D{name}' for name in names), '-a', ROOT / 'tests/models' / f'{model}.pml')
    program = hashlib.sha256(b''.join(file.read_bytes() for file in sorted(folder.glob('pan.?')))).hexdigest()
    log, searched = folder / 'log', folder / 'searched'
    if not (searched.exists() and searched.read_text() == program):
        searched.unlink(missing_ok=True)
        run(folder, 'gcc', '-O1', '-w', '-DSAFETY', '-DCOLLAPSE', '-DMEMLIM=2048', '-o', 'pan', 'pan.c')
        out = run(folder, './pan', '-m1000000')
        # The search must be complete, or it proves nothing.
        assert 'max search depth too small' not in out.stdout and 'memory' not in out.stderr, out.stdout
        log.write_text(out.stdout)
        searched.write_text(program)
    text = log.read_text()
    found = re.search(r'errors: (\d+)', text)
    assert found, text
    return int(found[1]), text


@pytest.mark.parametrize('model, variant', HOLD, ids=lambda word: word or 'plain')
def test_model_holds(model, variant):
    errors, text = search(model, variant)
    assert errors == 0, f'{text}\nto see how: cd build/test/models, spin -t -p'


@pytest.mark.parametrize('model, variant, mutation', BREAK, ids=lambda word: word or 'plain')
def test_mutation_breaks_the_model(model, variant, mutation):
    errors, text = search(model, variant, mutation)
    assert errors, f'{model} holds with {mutation}, which it must not\n{text}'


def test_a_search_is_repeated_if_the_model_changed(tmp_path, monkeypatch):
    (tmp_path / 'tests/models').mkdir(parents=True)
    monkeypatch.setattr(sys.modules[__name__], 'ROOT', tmp_path)
    monkeypatch.setattr(sys.modules[__name__], 'PLACE', tmp_path / 'build')
    model = tmp_path / 'tests/models/some.pml'
    model.write_text('active proctype one() { assert(1 == 1) }\n')
    assert search('some')[0] == 0
    compiled = (tmp_path / 'build/some/pan').stat().st_mtime_ns
    model.write_text('/* the same */ active proctype one() { assert(1 == 1) }\n')
    assert search('some')[0] == 0 and (tmp_path / 'build/some/pan').stat().st_mtime_ns == compiled
    model.write_text('active proctype one() { assert(1 == 2) }\n')
    assert search('some')[0] == 1 and search('some')[0] == 1
    model.write_text('active proctype one() { assert(1 == 2) \n')
    with pytest.raises(AssertionError):
        search('some')
    model.write_text('active proctype one() { assert(1 == 1) }\n')
    assert search('some')[0] == 0


def test_every_mutation_is_tried():
    for model, variants in MODELS.items():
        named = set(re.findall(r'^#if(?:n?def) (\w+)', (ROOT / 'tests/models' / f'{model}.pml').read_text(), re.M))
        tried = {word for variant, mutations in variants.items() for word in (variant, *mutations)}
        assert named - {'POOLS', 'ITEMS', 'TIMES'} == tried - {''}

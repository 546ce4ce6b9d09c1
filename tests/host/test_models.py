# SPDX-License-Identifier: GPL-2.0
"""Models of protocols that no single lock protects. spin searches all their states.

Each model has mutations. With any one of them the search must fail, or the model proves nothing.
"""
import re
import subprocess

import pytest

from wqlab.paths import BUILD, ROOT

pytestmark = pytest.mark.tier('test')     # the searches take a minute or two
PLACE = BUILD / 'test/models'

# model: variants that must hold, and for each the mutations that must break it
MODELS = {
    'cold': {
        '': ('NO_KICK', 'TWICE', 'CULL_WORK', 'RESIGN_BLIND', 'RESIGN_EARLY', 'RESIGN_SHORT', 'NO_TIMER',
             'TIMER_LATE', 'NO_WAIT'),
    },
    'cursor': {
        '': ('NO_DROP_TAKE', 'NO_DROP_CANCEL', 'NO_SKIP', 'SPLIT', 'AT_HEAD', 'NO_PLACE', 'STOP_EARLY',
             'TAKE_LATE', 'ADD_FIRST', 'STAY_DEAD'),
    },
    'ordered': {
        '': ('NO_SECOND', 'NO_PLUG', 'NO_UNPLUG', 'UNPLUG_NEXT', 'NO_REFCNT', 'NO_MOVED', 'MOVED_LATE',
             'NO_HOME', 'HOME_STALE', 'NO_RUNNER', 'NO_LEAVE'),
    },
    'slots': {
        '': ('NO_MB_FREE', 'NO_MB_PARK', 'NO_RETRY', 'NO_GO_ON', 'NO_FILL', 'PARK_LATE', 'KEEP_FROZEN',
             'KEEP_UNPARKS'),
    },
    'reentry': {
        '': ('NO_MB_RUN', 'NO_MB_QUEUE', 'NO_LAST_POOL', 'NO_COLLISION', 'LAST_LATE', 'BUSY_SHORT'),
    },
    'spare': {
        '': ('NO_MB_SPARE', 'NO_MB_PARK', 'NO_MB_FLAG', 'CLEAR_LATE', 'NO_FREE', 'FREE_UNLOCKED', 'NO_LOOK',
             'TAKE_ALL'),
        'THREE': ('NO_HAND_OVER', 'NO_ACQUIRE'),
        'FROZEN': ('OVER_LIMIT',),
        'DEAD': ('DEAD_KEEPS',),
    },
    'wake': {
        '': ('NO_KICK_QUEUE', 'NO_KICK_SLEEP', 'NO_LOOK_BACK', 'STATE_LATE', 'SLEEP_UNLOCKED'),
        'UNBOUND': ('NO_KICK_QUEUE', 'STATE_LATE', 'NO_CHAIN'),
    },
}
HOLD = [(model, variant) for model, variants in MODELS.items() for variant in variants]
BREAK = [(model, variant, mutation) for model, variant in HOLD for mutation in MODELS[model][variant]]


def search(model, *defines):
    """Search all states of the model. Return the number of errors and the output."""
    defines = [name for name in defines if name]
    folder = PLACE / '-'.join([model, *defines])
    folder.mkdir(parents=True, exist_ok=True)
    for command in (['spin', *(f'-D{name}' for name in defines), '-a', ROOT / 'tests/models' / f'{model}.pml'],
                    ['gcc', '-O2', '-w', '-DSAFETY', '-DCOLLAPSE', '-DMEMLIM=2048', '-o', 'pan', 'pan.c'],
                    ['./pan', '-m1000000']):
        out = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        assert out.returncode == 0, f'{command[0]}: {out.stdout}{out.stderr}'
    (folder / 'log').write_text(out.stdout)
    # The search must be complete, or it proves nothing.
    assert 'max search depth too small' not in out.stdout and 'memory' not in out.stderr, out.stdout
    found = re.search(r'errors: (\d+)', out.stdout)
    assert found, out.stdout
    return int(found[1]), out.stdout


@pytest.mark.parametrize('model, variant', HOLD, ids=lambda word: word or 'plain')
def test_model_holds(model, variant):
    errors, text = search(model, variant)
    assert errors == 0, f'{text}\nto see how: cd build/test/models, spin -t -p'


@pytest.mark.parametrize('model, variant, mutation', BREAK, ids=lambda word: word or 'plain')
def test_mutation_breaks_the_model(model, variant, mutation):
    errors, text = search(model, variant, mutation)
    assert errors, f'{model} holds with {mutation}, which it must not\n{text}'


def test_every_mutation_is_tried():
    for model, variants in MODELS.items():
        named = set(re.findall(r'^#if(?:n?def) (\w+)', (ROOT / 'tests/models' / f'{model}.pml').read_text(), re.M))
        tried = {word for variant, mutations in variants.items() for word in (variant, *mutations)}
        assert named - {'POOLS', 'ITEMS', 'TIMES'} == tried - {''}

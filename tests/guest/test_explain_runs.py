# SPDX-License-Identifier: GPL-2.0
"""What eight simulated CPUs waited for: objects and functions are found in the memory of a real guest."""
import pytest

import guests
from progress import say
from wqlab.bench import options, simulated, why
from wqlab.measure.boot import kernel
from wqlab.simulated import explain

pytestmark = pytest.mark.tier('all')
SCOPES = ['cpu', 'system']
THREADS, ITEMS = 8, 100


@pytest.mark.parametrize('variant', [pytest.param(variant, marks=guests.needs('arm64', variant=variant))
                                     for variant in ('cmwq', 'base')])
def test_a_pass_is_explained(tmp_path, variant):
    """In the scope system, all CPUs take the lock of one pool. Which CPU waits how long depends on the kernel."""
    guests.kernel('arm64', variant=variant)
    params, _, _ = options.parse_args(['--machine', 'vm8', '--variant', variant, '--scopes', ','.join(SCOPES),
                                       '--items', str(ITEMS)])
    boot = {'pair': 1, 'variant': variant}
    entry, = simulated.play({variant: kernel('arm64', variant)}, params, [boot], [tmp_path / 'log'],
                            lambda seconds, text: say(f'explain: {seconds:.0f} s, {text}'))
    assert not entry['trouble'] and [run['scope'] for run in entry['runs']] == SCOPES
    for run in entry['runs']:
        found = run['why']
        assert found['items'] == THREADS * (ITEMS + options.warmup(params))
        assert found['waiting'] + found['idle'] + found['executing'] == pytest.approx(1) and found['cpus'] == THREADS
        assert sum(row['ns'] for row in found['rows']) == pytest.approx(found['ns'])
        assert explain.OTHERS in {row['field'] for row in found['rows']}
    lock = next(row for row in entry['runs'][1]['why']['rows'] if row['field'] == 'worker_pool.lock')
    assert lock['workqueue'] and 'process_one_work' in {pair['waiter'] for pair in lock['pairs']}
    assert all(place.partition(':')[0].endswith('.c') for pair in lock['pairs'][:3] for place in pair['at'])
    record = {'parameters': params, 'boots': [entry]}
    assert 'process_one_work' in '\n'.join(why.lines(record))
    why.write(record, tmp_path)
    assert {path.name for path in tmp_path.glob('why*')} == {'why.txt', 'why-cpu.svg', 'why-system.svg'}
    assert not list(tmp_path.glob('memory*'))

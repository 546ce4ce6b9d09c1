# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --machine: a kernel on eight simulated CPUs, against itself."""
import pytest

import guests
from progress import say
from wqlab.bench import options, simulated
from wqlab.measure.boot import kernel

pytestmark = [guests.needs('arm64'), pytest.mark.tier('more')]
SCOPES = ['cpu', 'system']


def play(folder, *args):
    """Boot two guests at once. Return their places, and what each has measured."""
    guests.kernel('arm64')
    params, _, _ = options.parse_args(['--machine', 'vm8', '--gate', '--items', '100', *args])
    places = options.places(params)
    entries = simulated.play({place: kernel('arm64', 'cmwq') for place in places}, params,
                             [{'pair': 1, 'variant': place} for place in places],
                             [folder / f'{place}.log' for place in places],
                             lambda seconds, text: say(f'simulated: {seconds:.0f} s, {text}'))
    assert not any(entry['trouble'] or entry['violations'] for entry in entries)
    return places, [entry['runs'] for entry in entries]


def test_cpus_that_share_get_pools(tmp_path):
    """As booted, each CPU gets a pool with three workers. The time is computed, so it is exact."""
    _, (without, (own,)) = play(tmp_path, '--mode', 'batch', '--scopes', 'system',
                               '--append-cmwq', 'workqueue.own_pools=0')
    assert own['kworkers'] >= without[0]['kworkers'] + 2 * 8 and own['elapsed_ns'] < without[0]['elapsed_ns'] / 2


def test_the_same_kernel_gives_the_same_result(tmp_path):
    """Two guests at once, each of which disturbs the other: times, waits and moves of lines are the same to the bit."""
    places, (first, second) = play(tmp_path, '--scopes', ','.join(SCOPES))
    assert [run['scope'] for run in first] == SCOPES and first == second
    assert all(run['items'] == 8 * 100 and run['elapsed_ns'] > 0 for run in first)
    first, second = ((tmp_path / f'{place}.stalls').read_text() for place in places)
    assert first == second and first.count('end\n') == len(SCOPES)

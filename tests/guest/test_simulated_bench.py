# SPDX-License-Identifier: GPL-2.0
"""run-bench.sh --machine: a kernel on eight simulated CPUs, against itself."""
import guests
from progress import say
from wqlab.bench import options, simulated
from wqlab.bench.boot import Build
from wqlab.paths import ROOT

pytestmark = guests.needs('arm64')
SCOPES = ['cpu', 'system']


def test_the_same_kernel_gives_the_same_result(tmp_path):
    """Two guests at once, each of which disturbs the other: times, waits and moves of lines are the same to the bit."""
    guests.kernel('arm64')
    params, _, _ = options.parse_args(['--machine', 'vm8', '--gate', '--scopes', ','.join(SCOPES), '--items', '100'])
    places = options.places(params)
    entries = simulated.play(ROOT, {place: Build(ROOT, 'arm64', 'cmwq') for place in places}, params,
                             [{'pair': 1, 'shard_size': None, 'variant': place} for place in places],
                             [tmp_path / f'{place}.log' for place in places],
                             lambda seconds, text: say(f'simulated: {seconds:.0f} s, {text}'))
    assert not any(entry['trouble'] or entry['violations'] for entry in entries)
    first, second = (entry['runs'] for entry in entries)
    assert [run['scope'] for run in first] == SCOPES and first == second
    assert all(run['items'] == 8 * 100 and run['elapsed_ns'] > 0 for run in first)
    first, second = ((tmp_path / f'{place}.stalls').read_text() for place in places)
    assert first == second and first.count('end\n') == len(SCOPES)

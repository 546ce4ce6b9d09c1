# SPDX-License-Identifier: GPL-2.0
"""A case of dm-crypt in a simulated guest of 4 CPUs, twice. `make test-all` installs what it needs."""
import re

import pytest

import guests
from wqlab.measure.boot import kernel
from wqlab.simulated import machines, stalls
from wqlab.workload import engines, options

pytestmark = pytest.mark.tier('all')
CASE = 'null/ram/queue/4k-write-32/cache'


def boot(machine, log):
    """Boot once, run the case, and return the entry for the record."""
    params, _ = options.parse_args(['dm-crypt', '--machine', str(machine), '--cases', CASE, '--seconds', '0.005'])
    return engines.run_boot(kernel('arm64', guests.VARIANT, 'workload'), params,
                            {'pair': 1, 'workload': 'dm-crypt', 'variant': guests.VARIANT}, log,
                            lambda seconds, text: guests.say(f'dm-crypt: {seconds:.0f} s, {text}'))


@guests.needs('arm64', 'workload')
def test_a_stretch_is_simulated_and_its_data_verified(tmp_path):
    """The second boot has the same figures, to the last digit: nothing depends on this computer."""
    guests.kernel('arm64', 'workload')
    machine = tmp_path / 'small.toml'
    machine.write_text(re.sub('^topology = .*$', 'topology = "cores=2,threads=2,llcs=2"',
                              machines.find('ryzen').read_text(), flags=re.M))
    first, second = (boot(machine, tmp_path / name) for name in ('first', 'second'))
    assert not first['wrong'] and not first['trouble'] and not first['skipped'] and first['cpus'] == 4
    run, = first['runs']
    assert run['name'] == CASE and run['unit'] == 'MiB/s' and run['figures']['ios'] > 0
    assert 0 < run['figures']['p50_us'] <= run['figures']['p99_us'] <= run['figures']['p999_us']
    assert second['runs'] == first['runs']
    stretch, = stalls.read(tmp_path / 'first.stalls')
    # 2.5 ms to settle, and what counts
    assert stretch.us > 7_500

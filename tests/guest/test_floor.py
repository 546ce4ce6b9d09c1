# SPDX-License-Identifier: GPL-2.0
"""The mode floor of the benchmark module: what it does is counted, not timed."""

import math

import pytest

import bench_guests
import guests
from bench_guests import MODULE, counts
from wqlab.bench import parse
from wqlab.guest import run as guest
from wqlab.logs import check

pytestmark = guests.needs('uml')
ITEMS, SAMPLE = 500, 17
THREADS = {'same': 2, 'other': 2, 'line': 1}
PLAIN = f'mode=floor items={ITEMS} warmup=0'
EACH = [f'{PLAIN} scopes={row}' for row in THREADS]
FAULTS = {fault: f'{PLAIN} scopes=same,other fault={fault} timeout=1' for fault in ('lose', 'twice')}


@pytest.fixture(scope='module')
def passes():
    cases = [PLAIN, *EACH, f'{PLAIN} threads=5', f'{FAULTS["lose"]} threads=1 every={ITEMS}',
             f'{FAULTS["twice"]} every=100']
    blocks, result = bench_guests.run_each(cases)
    assert not check.bad_lines(result.kernel)
    return blocks


def test_all_rows(passes):
    parsed, found = counts(passes[PLAIN])
    assert parsed['status'] == 'ok' and not any(found.values())
    assert {run['scope']: run['threads'] for run in parsed['runs']} == THREADS
    for run in parsed['runs']:
        assert (run['mode'], run['wq'], run['kworkers'], run['in_flight'], run['judged']) == \
            ('floor', 'none', 0, 1, 'no')
        assert run['items'] == ITEMS * run['threads'] and run['sample'] == SAMPLE
        assert run['waits'] == run['threads'] * math.ceil(ITEMS / SAMPLE)
        for figure in ('', 'start_', 'done_'):
            values = [run[figure + key] for key in parse.QUANTILES]
            assert values == sorted(values) and values[-1] > 0


@pytest.mark.parametrize('row', THREADS)
def test_one_row(passes, row):
    parsed, found = counts(passes[f'{PLAIN} scopes={row}'])
    assert [run['scope'] for run in parsed['runs']] == [row] and not any(found.values())


def test_threads_that_spin_have_their_cpus_for_themselves(passes):
    runs = counts(passes[f'{PLAIN} threads=5'])[0]['runs']
    assert [run['threads'] for run in runs] == [5, 5, 1]


def test_a_lost_item_ends_the_pass(passes):
    parsed, found = counts(passes[f'{FAULTS["lose"]} threads=1 every={ITEMS}'])
    assert parsed['status'] == 'violated' and found.pop('lost') == 1 and not any(found.values())
    assert [run['scope'] for run in parsed['runs']] == ['same']


def test_items_that_run_twice_count(passes):
    parsed, found = counts(passes[f'{FAULTS["twice"]} every=100'])
    assert parsed['status'] == 'violated' and found.pop('twice') == 2 * 2 * ITEMS // 100 and not any(found.values())


def on_one_cpu(command):
    result = guest.run(bench_guests.kernel(), command, engine='uml', cpus=1, mem='512M', timeout=60,
                       files=[f'{bench_guests.module()}:{MODULE}'])
    assert result.rc == 0 and not check.bad_lines(result.kernel), result.log[-3000:]
    return result.output, bench_guests.renamed(result.kernel)


def test_one_cpu_has_one_row():
    _, log = on_one_cpu(f'insmod {MODULE} {PLAIN}; true')
    parsed, found = counts(log)
    assert [run['scope'] for run in parsed['runs']] == ['same'] and not any(found.values())
    assert parsed['passed_over'] == ['other', 'line']


def test_one_cpu_lacks_the_rows_asked_for():
    output, log = on_one_cpu(f'insmod {MODULE} {PLAIN} scopes=line,other 2>&1; true')
    assert 'Operation not supported' in output and 'done status=failed' in log


def test_a_signal_ends_threads_and_partners():
    steps = [f'insmod {MODULE} mode=floor scopes={row} items=10000000 & pid=$!; '
             f'until ps -o comm | grep -q wq_partner; do sleep 0.1; done; kill -TERM $pid; wait $pid; echo "@ $?"; '
             f'ps -o comm | grep wq_' for row in THREADS]
    result = bench_guests.run('; '.join([*steps, 'true']))
    assert [line for line in result.output.splitlines() if line.startswith('@')] == ['@ 143'] * 3
    assert 'wq_' not in result.output
    assert result.kernel.count('done status=interrupted') == 3 and not check.bad_lines(result.kernel)

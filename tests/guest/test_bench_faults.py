# SPDX-License-Identifier: GPL-2.0
"""The benchmark module in a guest: it notices faults, cleans up, and refuses wrong parameters."""
import re

import pytest

import bench_guests
import guests
from bench_guests import MODULE, counts
from wqlab.bench import parse as bench_parse
from wqlab.logs import check
from wqlab.scopes import SCOPES

pytestmark = [guests.needs('uml'), pytest.mark.tier('more')]
ITEMS = 2000
THREADS = bench_guests.CPUS

# Print what a pass has left behind: module, workqueue, threads.
LEFT = ('left() { lsmod | grep test_; ls /sys/bus/workqueue/devices | grep test_; '
        'ps -o comm | grep wq_bench; true; }; ')


def run_in_guest(command, timeout=120):
    return bench_guests.run(LEFT + command, timeout)


def load(args):
    """Load the module once. Return the output of insmod and the kernel log."""
    result = run_in_guest(f'insmod {MODULE} {args} 2>&1; left')
    return result.output, bench_guests.renamed(result.kernel)


def args(fault, **more):
    more = {'items': ITEMS, 'warmup': 0, 'every': 1000, 'scopes': 'cpu', **more}
    return ' '.join([f'fault={fault}', *(f'{key}={value}' for key, value in more.items())])


def test_no_fault_no_violation():
    output, log = load(args('none', strict=1, scopes=''))
    parsed, found = counts(log)
    assert parsed['status'] == 'ok'
    assert not any(found.values())
    assert {run['judged'] for run in parsed['runs']} == {'yes'}
    assert [run['scope'] for run in parsed['runs']] == list(SCOPES)
    assert {run['items'] for run in parsed['runs']} == {ITEMS * THREADS}
    assert 'Operation canceled' in output
    assert 'test_' not in output.replace(MODULE, '')
    assert not check.bad_lines(log)


def test_lost_item_is_counted_and_ends_the_pass():
    """
    There is only one thread. While one waits for its lost item, another would lose one, too. test_bench_modes.py has
    all faults in each mode.
    """
    output, log = load(args('lose', timeout=1, every=ITEMS, repeats=2, threads=1))
    parsed, found = counts(log)
    assert parsed['status'] == 'violated'
    assert found.pop('lost') == 1
    assert not any(found.values())
    assert len(parsed['runs']) == 1
    assert 'Protocol error' in output


def test_items_in_another_pod_are_counted_when_strict():
    _, log = load(args('outside', strict=1, every=100))
    parsed, found = counts(log)
    assert parsed['status'] == 'violated'
    assert found.pop('outside') == ITEMS * THREADS // 100
    assert not any(found.values())


def test_items_in_another_pod_are_allowed_when_not_strict():
    _, log = load(args('outside', every=100))
    parsed, found = counts(log)
    assert parsed['status'] == 'ok'
    assert not any(found.values())


BAD = ['threads=-1', 'threads=1025', 'threads=x', 'items=0', 'items=10000001', 'batch=0',
       'batch=65537', 'repeats=0', 'warmup=-1', 'timeout=0', 'max_active=-1', 'mode=fast',
       'mode=LATENCY', 'scopes=cachex', 'scopes=CACHE', 'scopes=cpu,', 'scopes=cpu,cpu',
       'strict=maybe', 'keep=2', 'sample=0', 'burn_us=0', 'burn_us=100001', 'wq=fast', 'wq=percpu,bh',
       'scopes=cpu wq=bh', 'strict=1 wq=percpu', 'mode=mixed wq=bh', 'mode=limit wq=bh',
       'max_active=2 wq=ordered', 'max_active=2 wq=bh', 'mode=limit max_active=32', 'mode=limit batch=1',
       'mode=floor wq=percpu', 'wq=none', 'scopes=cpu mode=floor', 'scopes=same', 'scopes=line,line mode=floor',
       'strict=1 mode=floor', 'max_active=2 mode=floor', 'scopes=cpu mode=life', 'wq=none mode=life', 'quiet=2',
       'leave=2']


def test_bad_parameters_are_refused_with_one_line():
    """All parameters are tried in one boot. For each, the guest prints a marker, the output of insmod, and the log."""
    steps = [f'echo "@ {arg}"; dmesg -c >/dev/null; insmod {MODULE} {arg} 2>&1; '
             f'dmesg -c | grep -a test_bench_faults; left' for arg in BAD]
    result = run_in_guest('; '.join(steps))
    blocks = result.output.split('@ ')[1:]
    assert len(blocks) == len(BAD)
    for arg, block in zip(BAD, blocks):
        lines = [line for line in block.splitlines()[1:] if 'taints kernel' not in line]
        assert len(lines) == 2, f'{arg}: {block}'
        assert 'Invalid parameters' in lines[0], arg
        assert arg.partition('=')[0] in lines[1], arg


def test_a_signal_ends_a_pass_and_nothing_stays():
    steps = [f'insmod {MODULE} items=10000000 {extra} & pid=$!; '
             f'until ps -o comm | grep -q wq_bench; do sleep 0.1; done; kill -{name} $pid; '
             f'wait $pid; echo "@ $?"; left'
             for name, extra in (('TERM', ''), ('KILL', ''), ('HUP', 'mode=batch batch=65536'))]
    result = run_in_guest('; '.join(steps) + '; true')
    assert [line for line in result.output.splitlines() if line.startswith('@')] == \
        ['@ 143', '@ 137', '@ 129']
    assert 'wq_bench' not in result.output and 'test_bench' not in result.output
    assert result.kernel.count('done status=interrupted') == 3
    assert not check.bad_lines(result.kernel)


def test_out_of_memory_leaves_nothing():
    result = run_in_guest(f'insmod {MODULE} mode=batch batch=65536 threads=1024 2>&1; left; echo end')
    assert 'not enough memory' in result.kernel
    assert 'Cannot allocate memory' in result.output
    assert 'oom-kill' not in result.kernel
    assert result.output.endswith('end\n')
    assert 'wq_bench' not in result.output and 'test_bench' not in result.output.replace(MODULE, '')
    assert not check.bad_lines(result.kernel)


def test_kept_module_makes_further_passes():
    params = '/sys/module/test_bench_faults/parameters'
    result = run_in_guest(
        f'insmod {MODULE} items=100 scopes=cpu keep=1 && echo loaded; '
        f'echo numa,system >{params}/scopes; echo 1 >{params}/run && echo ran; '
        f'echo 0 >{params}/items; echo 1 >{params}/run || echo refused; '
        f'rmmod test_bench_faults && echo gone; left')
    assert result.output.splitlines()[0] == 'loaded'
    assert [word for word in ('ran', 'refused', 'gone') if word in result.output.split()] == \
        ['ran', 'refused', 'gone']
    log = result.kernel
    scopes = [part.split('scope=')[1].split()[0] for part in log.splitlines()
              if 'result scope=' in part]
    assert scopes == ['cpu', 'numa', 'system']
    assert 'items=0 is not between' in log


def test_a_quiet_module_leaves_the_log_alone():
    """The result of the last run is read from the parameter `run`, and errors still go to the log."""
    params = '/sys/module/test_bench_faults/parameters'
    result = run_in_guest(
        f'insmod {MODULE} items=100 scopes=cpu keep=1 quiet=1 && echo "@ $(cat {params}/run)"; '
        f'echo numa,system >{params}/scopes; echo batch >{params}/mode; echo 1 >{params}/run; '
        f'echo "@ $(cat {params}/run)"; '
        f'(echo 10000000 >{params}/items; echo 1 >{params}/run) & pid=$!; '
        f'until ps -o comm | grep -q wq_bench; do sleep 0.1; done; echo "@ $(cat {params}/run)"; '
        f'kill $pid; wait $pid; echo "@ $(cat {params}/run)"; '
        f'echo 0 >{params}/items; echo 1 >{params}/run; rmmod test_bench_faults; echo "@ $(left)"')
    first, second, third, fourth, last = [block.strip() for block in result.output.split('@ ')[1:]]
    for block, mode, scope, runs in ((first, 'latency', 'cpu', 1), (second, 'batch', 'system', 2)):
        lines = block.splitlines()
        assert [line.split()[0] for line in lines] == ['result', 'wait', 'done']
        assert bench_parse.parse_result(lines[0].removeprefix('result '))['mode'] == mode
        assert bench_parse.parse_wait(lines[1].removeprefix('wait '))['scope'] == scope
        assert lines[2] == f'done status=ok runs={runs} violations=0 error=0'
    assert third.split()[0] == 'running' and fourth.startswith('done status=interrupted runs=0')
    assert 'test_bench' not in last and not check.bad_lines(result.kernel)
    said = bench_guests.renamed(result.kernel)
    assert not re.search('result scope|wait scope|done status|items/s', said) and 'items=0 is not between' in said


def test_a_pass_that_leaves_its_workqueue():
    """It stays until the next pass, or until the module goes. Load and unload are as always."""
    params = '/sys/module/test_bench_faults/parameters'
    run = f'echo 1 >{params}/run && echo ran; echo "@ $(ls /sys/bus/workqueue/devices | grep -c test_)"'
    result = run_in_guest(
        f'insmod {MODULE} items=100 scopes=cpu leave=1; left; '
        f'insmod {MODULE} items=100 scopes=cpu keep=1 leave=1; {run}; {run}; echo 0 >{params}/leave; {run}; '
        f'echo 1 >{params}/leave; {run}; rmmod test_bench_faults && echo gone; left')
    said = result.output.replace(MODULE, '')
    assert re.findall('@ .*|gone|test_.*', said) == ['@ 1', '@ 1', '@ 0', '@ 1', 'gone'] and said.count('ran') == 4
    assert not check.bad_lines(result.kernel)


def test_a_pass_that_ends_early_leaves_what_it_has():
    params = '/sys/module/test_bench_faults/parameters'
    result = run_in_guest(
        f'insmod {MODULE} items=100 scopes=cpu keep=1 leave=1; '
        f'echo batch >{params}/mode; echo 65536 >{params}/batch; echo 1024 >{params}/threads; '
        f'echo 1 >{params}/run || echo failed; rmmod test_bench_faults && echo gone; left')
    assert 'not enough memory' in result.kernel and result.output.splitlines()[-2:] == ['failed', 'gone']
    assert not check.bad_lines(result.kernel)

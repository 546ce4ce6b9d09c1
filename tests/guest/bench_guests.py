# SPDX-License-Identifier: GPL-2.0
"""Guests that load the benchmark module, built with faults (bench_faults.c)."""

import functools
import subprocess
import tempfile
from pathlib import Path

import guests
from guests import guest
from once import once
from wqlab.bench import parse as bench_parse
from wqlab.paths import ROOT

MODULE = '/test_bench_faults.ko'
CPUS = 2
INCLUDED = ('test_workqueue.c', 'wqbench_item.c', 'wqbench_floor.c', 'wqbench_setup.c')     # by other files


@once
def kernel():
    return guests.kernel('uml')


@functools.cache
def place():
    """Return a folder that goes when the tests end."""
    return tempfile.TemporaryDirectory(prefix='bench-faults-')


@once
def module():
    """Build the module. Return its path."""
    folder = Path(place().name)
    sources = [*(ROOT / 'lib/cmwq').glob('wqbench*.[ch]'), ROOT / 'tests/guest/bench_faults.c',
               ROOT / 'lib/test_workqueue.c',
               *(ROOT / 'lib/cmwq' / name for name in ('wq_hist.h', 'wq_compat.h', 'wq_tally.h', 'wq_ticker.h'))]
    for source in sources:
        (folder / source.name).write_bytes(source.read_bytes())
    objects = ' '.join(f'{source.stem}.o' for source in sources
                       if source.suffix == '.c' and source.name not in INCLUDED)
    (folder / 'Kbuild').write_text(f'obj-m := test_bench_faults.o\ntest_bench_faults-y := {objects}\n')
    done = subprocess.run(['make', '-s', '-C', kernel(), f'M={folder}', 'ARCH=um', 'modules'],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / 'test_bench_faults.ko'


def run(command, timeout=120):
    result = guest.run(kernel(), command, engine='uml', cpus=CPUS, mem='512M', timeout=timeout,
                       files=[f'{module()}:{MODULE}'])
    assert result.rc == 0, f'guest status {result.rc}\n{result.log[-3000:]}'
    return result


def renamed(log):
    """The faulty module has another name, and its lines in the log begin with that."""
    return log.replace('test_bench_faults: ', bench_parse.PREFIX)


def run_each(cases):
    """Load the module once for each case, a string of parameters, all in one boot. Return {case: its log}."""
    steps = [f"dmesg -c >/dev/null; insmod {MODULE} {case} 2>/dev/null; echo '@ {case}'; "
             f"dmesg -c | grep -a 'test_bench_faults: '" for case in cases]
    result = run('; '.join([*steps, 'true']), timeout=300)
    blocks = dict(block.split('\n', 1) for block in renamed(result.output).split('@ ')[1:])
    assert list(blocks) == list(cases)
    return blocks, result


def counts(log):
    parsed = bench_parse.parse_output(log)
    return parsed, {key: sum(run[key] for run in parsed['runs']) for key in bench_parse.VIOLATIONS}

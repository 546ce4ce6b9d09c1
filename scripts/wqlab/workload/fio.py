# SPDX-License-Identifier: GPL-2.0
"""Run fio for about as long as wanted, verify all that it wrote, and read its figures.

A run that writes is not limited by time but by loops. If time is over, fio does not verify
what it wrote last. With time_based it does not notice that a block still has older content:
it compares the number of the write only if the amount is fixed. So a first loop is timed,
which also warms up, and then as many loops are made as fit. In each loop fio writes all
blocks of its files, then reads them back. A run that only reads first verifies all blocks,
once; fio 3.33 does not repeat that. Then it reads for as long as wanted.

Each job is a process. On UML, threads that share an address space never run in user mode at
the same time. With fio's option `thread` dm-crypt took twice the time there.

With sha512, fio 3.33 does not notice a changed byte, only blocks in the wrong place. So before
a method is used, check_method() changes a byte, and fio has to notice it.
"""
import dataclasses
import functools
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from wqlab.steps import Failure, plain_environment
from wqlab.workload import machine
from wqlab.workload.cases import Wrong

MOST_LOOPS = 10000
PERCENTILES = {'p50_us': '50.000000', 'p99_us': '99.000000', 'p999_us': '99.900000'}
# Errors of fio that mean that data is wrong, or could not be read or written: EIO, EILSEQ, EUCLEAN
DATA_ERRORS = (5, 84, 117)
MIB = 1 << 20
BLOCK = 4096


@dataclasses.dataclass(frozen=True)
class Job:
    """What fio does, without the number of loops."""
    options: dict[str, Any]
    jobs: int = 1

    def words(self, **more: object) -> list[str]:
        chosen = {'name': 'job', 'group_reporting': 1, 'numjobs': self.jobs, 'verify_fatal': 1,
                  'verify_state_save': 0, 'percentile_list': '50:99:99.9', **self.options, **more}
        return [f'--{name}={value}' for name, value in chosen.items()]


def loops_for(first: dict, jobs: int, seconds: float) -> int:
    """Return how many loops take about this long, if one took as long as in the first report."""
    each = first['job_runtime'] / 1000 / jobs
    return max(1, min(MOST_LOOPS, round(seconds / max(each, 0.001))))


def result(text: str, status: int, said: str) -> dict:
    """Return the report of a run's only group, or raise Wrong if its data was wrong, Failure if fio failed."""
    try:
        report = json.loads(text[text.index('{'):])['jobs'][0]
    except (ValueError, KeyError, IndexError):
        report = {'error': status}
    if not status and not report['error']:
        return report
    lines = [line for line in [*said.splitlines(), *text.partition('{')[0].splitlines()] if line.strip()]
    reason = next((line for line in lines if 'verify' in line), lines[0] if lines else 'no message')
    reason = reason.strip().removeprefix('fio: ')
    if report['error'] in DATA_ERRORS or 'verify' in reason:
        raise Wrong(f'fio: {reason}')
    raise Failure(f'fio failed with status {status}: {reason}')


def call(job: Job, **more: object) -> dict:
    """Run fio and return its report of the job."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, 'report')
        words = ['fio', '--output-format=json', f'--output={output}', *job.words(**more)]
        try:
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL, env=plain_environment(**machine.environment()))
        except FileNotFoundError:
            raise Failure('fio is not installed: run scripts/deps.sh as root') from None
        text = output.read_text(errors='replace') if output.exists() else ''
        return result(text, done.returncode, done.stderr)


@functools.cache
def check_method(method: str) -> None:
    """Raise Failure if fio, when it verifies with this method, does not notice a changed byte."""
    with tempfile.NamedTemporaryFile(prefix='wqlab-') as file:
        block = Job({'filename': file.name, 'size': BLOCK, 'bs': BLOCK, 'verify': method})
        call(block, rw='write', do_verify=0)
        with open(file.name, 'r+b') as data:
            data.seek(BLOCK - 1)
            last = data.read(1)[0]
            data.seek(BLOCK - 1)
            data.write(bytes([last ^ 1]))
        try:
            call(block, rw='read')
        except Wrong:
            return
    raise Failure(f'this fio does not notice a changed byte with verify={method}: install another version')


def run(job: Job, **more: object) -> dict:
    """Run fio, which can verify what the job writes, and return its report of the job."""
    if 'verify' in job.options:
        check_method(str(job.options['verify']))
    return call(job, **more)


def repeated(job: Job, seconds: float) -> tuple[dict, float]:
    """Run a job for about this long. Return its report and the CPU use in percent."""
    first = run(job)
    amount = {'loops': loops_for(first, job.jobs, seconds)} if first['write']['total_ios'] else \
        {'verify': 0, 'time_based': 1, 'runtime': f'{seconds * 1000:.0f}ms'}
    with machine.CpuUse() as use:
        report = run(job, **amount)
    return report, use.percent


def percentiles(latency: dict) -> dict[str, float]:
    """Return the percentiles in microseconds, or nothing if there are none."""
    found = latency.get('percentile', {})
    return {name: found[key] / 1000 for name, key in PERCENTILES.items() if key in found}


def figures(report: dict, cpu_percent: float, direction: str) -> dict[str, float]:
    """Return the figures of one direction, "read" or "write": rate in MiB/s, IOPS, and latency of completion."""
    one = report[direction]
    return {'rate': one['bw_bytes'] / MIB, 'iops': one['iops'], 'cpu_percent': cpu_percent,
            **percentiles(one['clat_ns']), 'ios': one['total_ios']}


def sync_figures(report: dict, cpu_percent: float) -> dict[str, float]:
    """Return the figures of the fsync() calls: how many in a second of writing, and how long they take."""
    sync, seconds = report['sync'], report['write']['runtime'] / 1000
    return {'rate': sync['total_ios'] / seconds if seconds else 0.0, 'cpu_percent': cpu_percent,
            **percentiles(sync['lat_ns']), 'ios': sync['total_ios']}

# SPDX-License-Identifier: GPL-2.0
"""Building the kernels, and one boot that runs the benchmark module."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from wqlab import procs
from wqlab.bench import parse as bench_parse
from wqlab.guest.engines import ENGINES
from wqlab.logs import check

LINUX = os.environ.get('LINUX', '7.3')
PROGRESS_S = 10     # between two lines about a boot
STOP_S = 10         # for an interrupted guest's runner to delete its files
GUEST_MODULE = '/test_workqueue.ko'


class BootError(Exception):
    """A build or boot that gave no results."""


class Build:
    """The output folder of one kernel, and what the benchmark takes from it."""

    def __init__(self, root, engine, variant):
        self.engine, self.variant = engine, variant
        self.folder = Path(root) / 'build' / f'{engine}-{variant}-release-{LINUX}'
        self.image = self.folder / ENGINES[engine].image
        self.module = self.folder / 'lib/cmwq/test_workqueue.ko'

    def release(self):
        path = self.folder / 'include/config/kernel.release'
        return path.read_text(encoding='utf-8').strip()

    def check(self):
        for path in (self.image, self.module):
            if not path.is_file():
                raise BootError(f'{path} is missing: run make kernel ENGINE={self.engine} '
                                f'VARIANT={self.variant} CONFIG=release')

    def make(self, root):
        """Build it; make and its scripts show their own progress."""
        argv = ['make', '-C', str(root), '--no-print-directory', 'kernel',
                f'ENGINE={self.engine}', f'VARIANT={self.variant}', 'CONFIG=release',
                f'LINUX={LINUX}']
        if subprocess.run(argv, check=False).returncode:
            raise BootError(f'building the {self.variant} kernel for {self.engine} failed: '
                            'see the lines above')


def accelerator(params, build):
    """What runs the guest's instructions: "kvm" or "tcg" for QEMU, None for UML."""
    if params['engine'] == 'uml':
        return None
    from wqlab.guest import run  # only here: this may boot a kernel to find out
    return run.accelerator(build.image, icount=params['icount'])


def module_arguments(params):
    """The module's parameters as insmod takes them."""
    args = {
        'threads': params['threads'],
        'items': params['items'],
        'mode': params['mode'],
        'batch': params['batch'],
        'repeats': params['repeats'],
        'strict': int(params['strict']),
    }
    if params['scopes']:
        args['scopes'] = ','.join(params['scopes'])
    return ' '.join(f'{key}={value}' for key, value in args.items())


def guest_command(params):
    """What the guest runs. insmod fails by design; dmesg repeats what the console may tear."""
    return (f'insmod {GUEST_MODULE} {module_arguments(params)}; echo "insmod status $?"; '
            "dmesg | grep -a 'test_workqueue: '")


def guest_arguments(root, build, params, boot, log):
    argv = [str(Path(root) / 'scripts/lab'), 'guest',
            '--kernel', str(build.folder), '--engine', params['engine'],
            '--cpus', str(params['cpus']), '--mem', params['mem'], '--timeout', str(params['boot_timeout']),
            '--file', f'{build.module}:{GUEST_MODULE}', '--log', str(log)]
    if params['topology']:
        argv += ['--topology', ','.join(f'{key}={n}' for key, n in params['topology'].items())]
    if params['icount']:
        argv += ['--icount']
    elif params['accel']:
        argv += ['--accel', params['accel']]
    if boot['shard_size'] is not None:
        argv += ['--append', f"workqueue.cache_shard_size={boot['shard_size']}"]
    return argv + ['--', guest_command(params)]


def read_text(path):
    try:
        return Path(path).read_text(encoding='utf-8', errors='replace')
    except FileNotFoundError:
        return ''


def last_run(log):
    """The newest result in a log that is still being written, None before the first."""
    for text in reversed(list(bench_parse.tagged_lines(read_text(log)))):
        run = bench_parse.parse_result(text.removeprefix('result '))
        if run:
            return run
    return None


def run_guest(argv, log, progress):
    """Run a guest to its end; progress(seconds, newest result) is called meanwhile.

    Returns its exit status, its own messages and the seconds it took.
    """
    start = time.monotonic()
    with tempfile.TemporaryFile() as messages:
        with procs.kept(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=messages) as process:
            try:
                while process.poll() is None:
                    try:
                        process.wait(timeout=PROGRESS_S)
                    except subprocess.TimeoutExpired:
                        progress(time.monotonic() - start, last_run(log))
            finally:
                if process.poll() is None:
                    procs.end_gently(process, STOP_S)
        messages.seek(0)
        said = messages.read().decode('utf-8', 'replace')
    return process.returncode, said, time.monotonic() - start


def run_boot(root, build, params, boot, log, progress):
    """Boot once; returns the boot's entry for the record."""
    argv = guest_arguments(root, build, params, boot, log)
    status, said, seconds = run_guest(argv, log, progress)
    console = read_text(log)
    if status == 124:
        raise BootError(f"the boot took longer than {params['boot_timeout']} s "
                        f'(--boot-timeout); see {log}')
    trouble = check.bad_lines(console)
    try:
        parsed = bench_parse.parse_output(console)
    except bench_parse.BenchOutputError as error:
        hints = trouble or said.splitlines() or ['no message']
        raise BootError(f'{error} (guest status {status}: "{hints[0]}"); see {log}') from None
    return {**boot, 'seconds': round(seconds, 1), 'log': f'logs/{Path(log).name}',
            'trouble': trouble, **parsed}

# SPDX-License-Identifier: GPL-2.0
"""Build the kernels, and boot one of them to run the benchmark module."""

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
PROGRESS_S = 10     # between two progress lines of a boot
TIMED_OUT = 124     # the status of a guest that took too long
STOP_S = 10         # time for the program that runs an interrupted guest to delete its files
GUEST_MODULE = '/test_workqueue.ko'


class BootError(Exception):
    """A build or a boot failed, so there are no results."""


class Build:
    """The build folder of one kernel, and the files that a measurement uses from it."""

    def __init__(self, root, engine, variant, config='release', module='lib/cmwq/test_workqueue.ko'):
        self.engine, self.variant, self.config = engine, variant, config
        self.folder = Path(root) / 'build' / f'{engine}-{variant}-{config}-{LINUX}'
        self.image = self.folder / ENGINES[engine].image
        self.module = self.folder / module if module else None

    def release(self):
        path = self.folder / 'include/config/kernel.release'
        return path.read_text(encoding='utf-8').strip()

    def check(self):
        for path in (self.image, self.module):
            if path and not path.is_file():
                raise BootError(f'{path} is missing: run make kernel ENGINE={self.engine} '
                                f'VARIANT={self.variant} CONFIG={self.config}')

    def make(self, root):
        """Build the kernel. make and its scripts report progress."""
        argv = ['make', '-C', str(root), '--no-print-directory', 'kernel',
                f'ENGINE={self.engine}', f'VARIANT={self.variant}', f'CONFIG={self.config}', f'LINUX={LINUX}']
        if subprocess.run(argv, check=False).returncode:
            raise BootError(f'building the {self.variant} kernel for {self.engine} failed: '
                            'see the lines above')


def accelerator(params, build):
    """Return the accelerator of the guest: "kvm" or "tcg" for QEMU, None for UML."""
    if params['engine'] == 'uml':
        return None
    from wqlab.guest import run  # accelerator() may boot a kernel to find out
    return run.accelerator(build.image, icount=params['icount'])


def module_arguments(params):
    """Return the module's parameters for insmod."""
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
    """Return the command for the guest. insmod fails by design. dmesg repeats lines that the console may break."""
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
    """Return the latest result in a log that is still growing, or None if there is none yet."""
    for text in reversed(list(bench_parse.tagged_lines(read_text(log)))):
        run = bench_parse.parse_result(text.removeprefix('result '))
        if run:
            return run
    return None


def run_guest(argv, progress, stdout=subprocess.DEVNULL, limit=None):
    """Run a guest until it ends, or until `limit` seconds are over. Meanwhile, progress(seconds) is called.

    Return its exit status (TIMED_OUT if it was ended), its messages, and how many seconds it took.
    """
    start = time.monotonic()
    late = False
    with tempfile.TemporaryFile() as messages:
        with procs.kept(argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=messages) as process:
            try:
                while process.poll() is None and not late:
                    try:
                        process.wait(timeout=PROGRESS_S)
                    except subprocess.TimeoutExpired:
                        progress(time.monotonic() - start)
                    late = bool(limit) and time.monotonic() - start > limit
            finally:
                if process.poll() is None:
                    procs.end_gently(process, STOP_S)
        messages.seek(0)
        said = messages.read().decode('utf-8', 'replace')
    return TIMED_OUT if late else process.returncode, said, time.monotonic() - start


def run_boot(root, build, params, boot, log, progress):
    """Boot once. Return the entry of this boot for the record."""
    argv = guest_arguments(root, build, params, boot, log)
    status, said, seconds = run_guest(argv, lambda now: progress(now, last_run(log)))
    console = read_text(log)
    if status == TIMED_OUT:
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

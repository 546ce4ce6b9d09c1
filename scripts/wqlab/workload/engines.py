# SPDX-License-Identifier: GPL-2.0
"""Where a workload runs: in a guest of UML or QEMU that sees this machine's files, or here."""
import dataclasses
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wqlab.kernels.kinds import Kind
from wqlab.logs import check
from wqlab.measure import boot as measure_boot
from wqlab.measure.boot import BootError
from wqlab.paths import ROOT
from wqlab.simulated import root
from wqlab.steps import Failure, shown
from wqlab.workload import cases, disks, lines, simulated, workloads

LAB = ROOT / 'scripts/lab'
BOOT_S = {'uml': 60, 'qemu': 300, 'here': 60, 'arm64': 1200}
# The slowest that a case may be: seconds for its first loop, for each second that is asked for, and for its group.
SLOWEST = {'uml': (20, 6), 'qemu': (60, 20), 'here': (20, 6), 'arm64': (3600, 0)}
CONFIGS = ('/proc/config.gz', f'/boot/config-{platform.release()}')
# The files of this machine, which the guest cannot write to, with scratch space in /dev/shm and /run.
ON_HOSTFS = '''
mkdir /host && mount -t hostfs -o ro,/ hostfs /host || exit
for each in proc/proc sysfs/sys devtmpfs/dev tmpfs/run; do
	mount -t ${each%/*} ${each%/*} /host/${each#*/} || exit
done
mkdir -p /host/dev/shm && mount -t tmpfs tmpfs /host/dev/shm || exit
exec chroot /host COMMAND
'''


@dataclasses.dataclass(frozen=True)
class Engine:
    limits: tuple[str, ...]         # what it cannot show
    # (kernel, parameters, the boot, the log) -> the program to start
    start: Callable[[Kind | None, dict, dict, Path], list[str]]
    writes_log: bool                # the program writes its output to the log itself


def parameters(kernel: Kind, params: dict) -> str:
    """Return the kernel parameters of a guest."""
    more = params.get('append_cmwq', '') if kernel.variant == 'cmwq' else ''
    return f'{disks.parameters()} {more}'.strip()


def uml(kernel: Kind | None, params: dict, boot: dict, log: Path) -> list[str]:
    assert kernel
    command = inside(params, boot['workload'])
    return [str(LAB), 'guest', '--kernel', str(kernel.folder), '--engine', 'uml', '--cpus', str(params['cpus']),
            '--mem', params['mem'], '--timeout', str(10 * time_limit(params)), '--log', str(log),
            '--append', parameters(kernel, params), '--', ON_HOSTFS.replace('COMMAND', shlex.join(command))]


def qemu(kernel: Kind | None, params: dict, boot: dict, log: Path) -> list[str]:
    assert kernel
    command = inside(params, boot['workload'])
    topology = ','.join(f'{key}={number}' for key, number in (params['topology'] or {}).items())
    return [str(LAB), 'boot', '--kernel', str(kernel.folder), '--cpus', str(params['cpus']), '--topology', topology,
            '--mem', params['mem'], '--accel', params['accel'], '--append', parameters(kernel, params), '--show-log',
            '--command', shlex.join(command)]


def here(kernel: Kind | None, params: dict, boot: dict, log: Path) -> list[str]:
    return inside(params, boot['workload'])


def arm64(kernel: Kind | None, params: dict, boot: dict, log: Path) -> list[str]:
    """Return the program that boots a simulated machine. Its pairs have different seeds."""
    assert kernel
    script = log.with_suffix('.sh')
    script.write_text(simulated.script(boot['workload'], chosen(params, boot['workload']), params['cpus'],
                                       params['seconds']))
    files = {root.programs(): '/', simulated.STEADY_SH: '/steady.sh', script: '/script'}
    return [str(LAB), 'guest', '--kernel', str(kernel.folder), '--engine', 'arm64', '--mem', params['mem'],
            '--machine', params['machine']['name'], '--report', str(log.with_suffix('.stalls')),
            '--seed', str(boot['pair'] - 1), '--timeout', str(10 * time_limit(params)),
            '--log', str(log), '--append', parameters(kernel, params),
            *(word for pair in files.items() for word in ('--file', ':'.join(map(str, pair)))),
            '--', 'exec chrt --fifo 50 sh /script']


ENGINES = {
    'uml': Engine(('UML has no caches: the scopes cpu, cache and cache_shard have the same pods',
                   "UML has none of the CPU's instructions for ciphers: they are slower than on the machine itself",
                   "UML's CPUs cannot go offline"),
                  uml, writes_log=True),
    'qemu': Engine((), qemu, writes_log=False),
    'here': Engine(('one kernel runs at a time: the other one has to be booted by hand',), here,
                   writes_log=False),
    'arm64': Engine(('nothing here was measured: the time of the guest is computed, see workqueue-simulated.rst',),
                    arm64, writes_log=True),
}


def limits(params: dict[str, Any]) -> list[str]:
    """Return what this engine, with these parameters, cannot show."""
    found = list(ENGINES[params['engine']].limits)
    if params['accel'] == 'tcg':
        found.append('QEMU emulates the CPUs: compare the variants, not with other machines; p99 and beyond also '
                     'contain pauses of the emulator')
    for name in params['workloads']:
        found += [f'{name}: {note}' for note in workloads.known(params)[name].notes(params['cpus'])]
    return found


def running_variant() -> str:
    """Return which variant the running kernel is. Without its configuration, it is taken for a base kernel."""
    for path in filter(os.path.exists, CONFIGS):
        text = subprocess.run(['zcat', '-f', path], capture_output=True, text=True, check=False).stdout
        return 'cmwq' if re.search('^CONFIG_WORKQUEUE_CMWQ=y$', text, re.M) else 'base'
    return 'base'


def running_kernel() -> dict[str, str]:
    """Describe the running kernel, as a part of the record."""
    return {'release': platform.release(), 'version': platform.version()}


def chosen(params: dict[str, Any], workload: str) -> list[str]:
    one = workloads.known(params)[workload]
    return cases.chosen_cases(one, one.names(params['cpus']), params['set'], params['cases'])


def time_limit(params: dict[str, Any]) -> int:
    """Return after how many seconds a boot is given up."""
    most = max(len(chosen(params, name)) for name in params['workloads'])
    first, each = SLOWEST[params['engine']]
    return int(BOOT_S[params['engine']] + 2 * most * (first + each * params['seconds']))


def inside(params: dict[str, Any], workload: str) -> list[str]:
    """Return the command that runs the cases of a workload."""
    command = [str(LAB), 'workload-inside', workload, '--set', params['set'], '--seconds', f"{params['seconds']:g}"]
    command += [f'--cases={pattern}' for pattern in params['cases']]
    return command + (['--spoil', params['spoil']] if params['spoil'] else [])


def read(text: str, params: dict, boot: dict) -> list[dict]:
    """Return what a boot has reported so far."""
    found = lines.read(text)
    return simulated.with_figures(found, boot['workload'], params['cpus']) if params.get('machine') else found


def newest(found: list[dict]) -> str:
    """Describe how far a boot has come."""
    planned = sum(len(one['cases']) for one in found if one['kind'] == 'begin')
    done = [one for one in found if one['kind'] in ('case', 'skip')]
    if not planned:
        return ''
    last = next((f", {one['name']} {one['figures']['rate']:,.0f} {one['unit']}" for one in reversed(found)
                 if one['kind'] == 'case'), '')
    return f'{len(done)} of {planned} cases{last}'


def run_boot(kernel: Kind | None, params: dict, boot: dict, log: Path, tick: Callable[[float, str], None]) -> dict:
    """Boot once and run a workload. Return the entry of this boot for the record, or raise BootError."""
    engine, limit = ENGINES[params['engine']], time_limit(params)
    argv = engine.start(kernel, params, boot, log)

    def progress(seconds: float) -> None:
        tick(seconds, newest(read(measure_boot.read_text(log), params, boot)))      # the log is still growing
    with open(os.devnull if engine.writes_log else log, 'wb') as out:
        status, said, seconds = measure_boot.run_guest(argv, progress, out, limit)
    with open(log, 'a', encoding='utf-8') as file:
        file.write(said)        # QEMU's kernel log, and messages of the programs
    return entry_of(params, boot, log, status, seconds)


def hint(text: str, trouble: list[str]) -> str:
    """Return the line of a log that best explains why the run ended early."""
    found = [line.strip() for line in lines.others(text).splitlines() if line.strip()]
    said = [line for line in found if line.startswith(('workload-inside: ', 'mount: ', 'chroot: '))]
    return next(iter([*trouble, *said, *found[-1:]]), 'no message')


def entry_of(params: dict, boot: dict, log: Path, status: int, seconds: float) -> dict:
    text = measure_boot.read_text(log)
    trouble = check.bad_lines(lines.others(text))
    if status == measure_boot.TIMED_OUT:
        raise BootError(f'the run took longer than {time_limit(params)} s; see {shown(log)}')
    try:
        parsed = lines.parse(read(text, params, boot))
    except Failure as error:
        raise BootError(f'{error} (status {status}: "{hint(text, trouble)}"); see {shown(log)}') from None
    parsed['trouble'] = list(dict.fromkeys([*parsed['trouble'], *trouble]))
    return {**boot, 'seconds': round(seconds, 1), 'log': f'logs/{log.name}', **parsed}

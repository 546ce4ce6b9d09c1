# SPDX-License-Identifier: GPL-2.0
"""results.json: what was run, on which machine, and every result.

The whole file is replaced after each boot. So it is always valid, and an interrupted run can be
resumed from it.
"""
import datetime
import hashlib
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

from wqlab import files
from wqlab.kernels import base
from wqlab.kernels.build import release_of
from wqlab.measure.boot import module_of
from wqlab.paths import ROOT
from wqlab.simulated import machines
from wqlab.steps import Failure, told

FORMAT = 2


def utc_now():
    return datetime.datetime.now(datetime.UTC)


def now():
    """Return the time as records have it."""
    return utc_now().isoformat(timespec='seconds')


def command_line(*argv, cwd=None):
    """Return the first line of a command's output, or None if the command fails."""
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    lines = done.stdout.splitlines()
    return lines[0] if lines else ''


def cpu_model():
    try:
        for line in Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines():
            if line.startswith('model name'):
                return line.partition(':')[2].strip()
    except OSError:
        pass
    return platform.machine()


def describe_machine():
    pages = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    return {
        'cpu': cpu_model(),
        'cores': os.cpu_count(),
        'memory_mib': pages // 2**20,
        'kernel': platform.release(),
        'system': platform.freedesktop_os_release().get('PRETTY_NAME')
                  if Path('/etc/os-release').exists() else None,
        'load_at_start': round(os.getloadavg()[0], 2),
        'python': platform.python_version(),
        'gcc': command_line('gcc', '--version'),
        'qemu': command_line('qemu-system-x86_64', '--version')
                if shutil.which('qemu-system-x86_64') else None,
    }


def describe_git():
    """Return the commit and whether files differ from it, or None outside a repository."""
    commit = command_line('git', 'rev-parse', '--verify', 'HEAD', cwd=ROOT)
    changes = command_line('git', 'status', '--porcelain', cwd=ROOT)
    if commit is None and changes is None:
        return None
    return {'commit': commit, 'modified': bool(changes)}


def file_digest(path):
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def describe_kernel(kernel):
    module = module_of(kernel)
    return {
        'folder': kernel.folder.name,
        'release': release_of(kernel.folder),
        'image_sha256': file_digest(kernel.image),
        **({'module_sha256': file_digest(module)} if module else {}),
        'config_sha256': file_digest(kernel.folder / '.config'),
    }


def base_of(kernel):
    """Return where the base tree of this kernel came from, or None."""
    origin = base.Base(kernel.linux).origin
    return origin.read_text().strip() if origin.exists() else None


def begun():
    """Return what each record begins with."""
    return {'format': FORMAT, 'complete': False, 'started': now(), 'finished': None, 'machine': describe_machine(),
            'git': describe_git()}


def new_record(program, params, kernels):
    return {
        **begun(),
        'program': program,
        'engine': params['engine'],
        'topology': {'cpus': params['cpus'], **(params['topology'] or {})},
        'kernels': {variant: describe_kernel(kernel) for variant, kernel in kernels.items()},
        'base': next(map(base_of, kernels.values()), None),
        'parameters': params,
        'boots': [],
        'failed_boots': [],
        'summary': [],
    }


def new_folder(parent):
    """Make build/PROGRAM/<UTC time>/. If it exists, append a number."""
    stamp = utc_now().strftime('%Y-%m-%dT%H-%M-%SZ')
    for suffix in [''] + [f'-{i}' for i in range(2, 100)]:
        folder = Path(parent) / (stamp + suffix)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        (folder / 'logs').mkdir()
        return folder
    raise Failure(f'{parent}: no free name for the folder of the results: try again in a second')


def save(record, folder):
    path = Path(folder) / 'results.json'
    files.write(path, json.dumps(record, indent=1, ensure_ascii=False) + '\n')


def read(path):
    """Return what a file contains."""
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        raise Failure(f'{path} does not exist: name the folder of a run') from None
    except OSError as error:
        raise Failure(told(error)) from None
    except ValueError as error:
        raise Failure(f'{path} cannot be read: {error}') from None


def load(folder, program):
    """Return a record of this program."""
    path = Path(folder) / 'results.json'
    record = read(path)
    if not isinstance(record, dict) or (record.get('format'), record.get('program')) != (FORMAT, program):
        raise Failure(f'{path} was not written by this version of {program}.sh: start a new run')
    return record


def find_unfinished(parent, program):
    """Return the latest folder below `parent` with an unfinished record of this program."""
    folders = sorted((path.parent for path in Path(parent).glob('*/results.json')), reverse=True)
    for folder in folders:
        try:
            if not load(folder, program)['complete']:
                return folder
        except Failure:
            continue
    raise Failure(f'{parent} contains no unfinished run: there is nothing to resume')


def check_same_machine(params):
    """Raise Failure if the simulated machine of a run, if it has one, has changed."""
    machine = params.get('machine')
    if machine and machines.described(machine['name'], params['cpus']) != machine:
        raise Failure(f"the machine {machine['name']} has changed since this run began: start a new run")


def check_same_kernels(record, kernels):
    """Raise Failure if a kernel has changed. One record must not mix boots of different kernels."""
    for variant, kernel in kernels.items():
        if describe_kernel(kernel) != record['kernels'].get(variant):
            raise Failure(f'{kernel.folder} has changed since this run began: start a new run')

# SPDX-License-Identifier: GPL-2.0
"""make: the variables that its help names work, and all others are refused."""
import re
import shutil

import pytest

from calls import call, stub
from wqlab.paths import ROOT

MAKEFILE = (ROOT / 'Makefile').read_text()
NAMED = {target: set(re.findall(r'\b([A-Z0-9_]+)=', words)) for target, words in
         re.findall(r'^([a-z0-9-]+):.*?## (.*)$', MAKEFILE, re.M)}
TARGETS = {target: names for target, names in NAMED.items() if target != 'help'}
# Variables that the programs read from the environment.
BY_ENVIRONMENT = {'deps': {'ENGINE'}, 'module': {'KDIR'}, 'arm64': {'VARIANT'},
                  **dict.fromkeys(('test', 'test-quick', 'test-all'), {'VARIANT', 'LINUX'}),
                  'boot': {'VARIANT', 'CONFIG'}, 'check': {'ENGINE', 'CONFIG'}}
FOR_KERNELS = {'ENGINE', 'VARIANT', 'CONFIG', 'LINUX', 'KERNEL_SRC', 'LINUX_TARBALL', 'LINUX_TARBALL_SHA256'}
SAY = 'printf "%s\\n" "$(basename "$0") $*" >>said; env >>env'


@pytest.fixture
def front(tmp_path):
    """The Makefile with fake scripts that only print how they were called."""
    shutil.copy(ROOT / 'Makefile', tmp_path)
    for name in ('scripts/lab', 'scripts/deps.sh', 'scripts/run-bench.sh', 'scripts/run-workload.sh',
                 'scripts/advise.sh', 'scripts/dump-guest.sh', 'tests/run.sh', 'build/venv/bin/python3'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        stub((tmp_path / name).parent, name.rsplit('/', 1)[-1], SAY)
    return lambda *words, **env: call('make', *words, cwd=tmp_path, **env)


@pytest.fixture
def spoken(front, tmp_path):
    """Return (command lines, environment) of the programs that a call of make runs."""
    def run(*words, **env):
        done = front(*words, **env)
        assert done.returncode == 0, done.stderr
        return (tmp_path / 'said').read_text(), set((tmp_path / 'env').read_text().splitlines())
    return run


@pytest.mark.parametrize('target, name', [(target, name) for target, names in TARGETS.items()
                                          for name in sorted(names)])
@pytest.mark.parametrize('way', ['make', 'environment'])
def test_named_variable_arrives(spoken, target, name, way):
    command, env = spoken(target, f'{name}=x1y') if way == 'make' else spoken(target, **{name: 'x1y'})
    if name in BY_ENVIRONMENT.get(target, FOR_KERNELS if target in ('tree', 'kernel', 'deb', 'series') else ()):
        assert f'{name}=x1y' in env
    else:
        assert 'x1y' in command


@pytest.mark.parametrize('target', TARGETS)
@pytest.mark.parametrize('name', ['CPU', 'ENGINE', 'CPUS', 'SEED', 'KDIR'])
def test_other_variable_is_refused(front, target, name):
    if name in TARGETS[target]:
        return
    done = front(target, f'{name}=8')
    assert done.returncode and f'make {target} does not take {name}=' in done.stderr and not done.stdout


def test_bench_as_asked(spoken):
    assert spoken('bench')[0] == 'run-bench.sh \n'
    command, _ = spoken('bench', 'ENGINE=qemu', 'CPUS=8', 'MEM=2G', 'ARGS=--pairs 3')
    assert 'run-bench.sh --engine=qemu --cpus=8 --mem=2G --pairs 3\n' in command


def test_advise_as_asked(spoken):
    """Without ENGINE it is for this machine."""
    assert spoken('advise')[0] == 'advise.sh \n'
    command, _ = spoken('advise', 'ENGINE=qemu', 'TOPOLOGY=cores=4,nodes=2', 'ARGS=--minutes 3')
    assert 'advise.sh --engine=qemu --topology=cores=4,nodes=2 --minutes 3\n' in command


@pytest.mark.parametrize('value', ['a b', "it's", 'say "no"', '$HOME', '$(date)', '`date`', 'a=b;c'])
@pytest.mark.parametrize('way', ['make', 'environment'])
def test_quoting_survives(spoken, value, way):
    given = {'CMD': value, 'APPEND': value}
    words = [f'{name}={text}' for name, text in given.items()]
    command, _ = spoken('boot', *words) if way == 'make' else spoken('boot', **given)
    assert f'--append={value} --command={value}' in command


def test_two_targets_take_what_either_takes(front):
    assert front('kernel', 'bench', 'CPUS=2').returncode == 0 and front('kernel', 'CPUS=2').returncode

# SPDX-License-Identifier: GPL-2.0
"""make: the variables that its help names work, and all others are refused."""
import re
import shutil

import pytest

from calls import MAKEFILE, TREE, VALUES, call, stub
from wqlab.paths import ROOT

NAMED = {target: set(re.findall(r'\b([A-Z0-9_]+)=', re.sub(r'\bTREE\b', TREE.replace(' ', '= ') + '=', words)))
         for target, words in re.findall(r'^([a-z0-9-]+):.*?## (.*)$', MAKEFILE, re.M)}
TARGETS = {target: names for target, names in NAMED.items() if target != 'help'}
# Variables that the programs read from the environment.
BY_ENVIRONMENT = {**dict.fromkeys(TARGETS, {*TREE.split(), 'KDIR'}), 'deps': {'ENGINE', 'CONFIG'}, 'arm64': {'VARIANT'},
                  **dict.fromkeys(('test', 'test-quick', 'test-more', 'test-all', 'deb'), {'VARIANT', *TREE.split()}),
                  **dict.fromkeys(('kernel', 'boot', 'check'), {'ENGINE', 'VARIANT', 'CONFIG', *TREE.split()}),
                  'basebugs': {'FIXED', 'KDIR', *TREE.split()}}
SAY = 'printf "%s\\n" "$(basename "$0") $*" >>said; env >>env'


@pytest.fixture
def front(tmp_path):
    """The Makefile with fake scripts that only print how they were called."""
    shutil.copy(ROOT / 'Makefile', tmp_path)
    for name in ('scripts/lab', 'scripts/deps.sh', 'scripts/run-bench.sh', 'scripts/run-workload.sh',
                 'scripts/advise.sh', 'scripts/dump-guest.sh', 'scripts/demo.sh', 'tests/run.sh',
                 'build/venv/bin/python3'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        stub((tmp_path / name).parent, name.rsplit('/', 1)[-1], SAY)
    return lambda *words, **env: call('make', *words, cwd=tmp_path, **env)


@pytest.fixture
def spoken(front, tmp_path):
    """Return (command lines, environment) of the programs that a call of make runs."""
    def run(*words, **env):
        for name in ('said', 'env'):
            (tmp_path / name).unlink(missing_ok=True)
        done = front(*words, **env)
        assert done.returncode == 0, done.stderr
        return (tmp_path / 'said').read_text(), set((tmp_path / 'env').read_text().splitlines())
    return run


@pytest.mark.parametrize('way', ['make', 'environment'])
def test_named_variables_arrive(spoken, way):
    for target, names in TARGETS.items():
        given = {name: f'x{number}y' for number, name in enumerate(sorted(names))}
        command, env = spoken(target, *[f'{name}={value}' for name, value in given.items()]) if way == 'make' else \
            spoken(target, **given)
        for name, value in given.items():
            assert f'{name}={value}' in env if name in BY_ENVIRONMENT[target] else value in command, (target, name)


@pytest.mark.parametrize('target', ['bench', 'test', 'clean'])
@pytest.mark.parametrize('way', ['make', 'environment'])
def test_all_other_variables_are_refused(front, target, way):
    """Each variable of any target is named by this one, and arrives as above, or is refused."""
    others = {name: '8' for name in VALUES if name not in TARGETS[target]}
    done = front(target, *[f'{name}=8' for name in others]) if way == 'make' else front(target, **others)
    said, = done.stderr.splitlines()
    assert done.returncode and not done.stdout
    assert set(re.search(f'make {target} does not take (.*=)', said)[1].split()) == {f'{name}=' for name in others}
    assert (way == 'environment') == (' in the environment): see make help' in said)


def test_unknown_variable_is_refused(front):
    assert 'make bench does not take CPU=: see make help' in front('bench', 'CPU=8').stderr


def test_what_is_empty_or_for_other_programs_is_not_refused(front):
    assert front('bench', SEED='', EDITOR='vi').returncode == 0 and front('help', LINUX='6.12').returncode == 0


def test_bench_as_asked(spoken):
    assert spoken('bench')[0] == 'run-bench.sh \n'
    command, _ = spoken('bench', 'ENGINE=qemu', 'CPUS=8', 'MEM=2G', 'ARGS=--pairs 3')
    assert 'run-bench.sh --engine=qemu --cpus=8 --mem=2G --pairs 3\n' in command


def test_advise_as_asked(spoken):
    """Without ENGINE it is for this machine."""
    assert spoken('advise')[0] == 'advise.sh \n'
    command, _ = spoken('advise', 'ENGINE=qemu', 'TOPOLOGY=cores=4,nodes=2', 'ARGS=--minutes 3')
    assert 'advise.sh --engine=qemu --topology=cores=4,nodes=2 --minutes 3\n' in command


@pytest.mark.parametrize('way', ['make', 'environment'])
def test_quoting_survives(spoken, way):
    value = 'it\'s  "a b" $HOME $(date) `date` a=b;c'
    given = {'CMD': value, 'APPEND': value}
    words = [f'{name}={text}' for name, text in given.items()]
    command, _ = spoken('boot', *words) if way == 'make' else spoken('boot', **given)
    assert f'--append={value} --command={value}' in command


def test_two_targets_take_what_either_takes(front):
    assert front('kernel', 'bench', 'CPUS=2').returncode == 0 and front('kernel', 'CPUS=2').returncode

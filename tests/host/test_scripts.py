# SPDX-License-Identifier: GPL-2.0
"""What the scripts print and leave behind when a call is wrong, or when something
that they need is missing."""
import os
import re
import shutil
import signal
import subprocess

import pytest

from calls import CLEAN_ENV, HEARS_ALL, call, path_without, refuses, stub, wait_until
from wqlab import procs
from wqlab.kernels import tree
from wqlab.kernels.kinds import LINUX
from wqlab.paths import ROOT

# Calling

PROGRAMS = ('base', 'tree', 'kernel', 'module', 'series', 'clean', 'check')
CALLS = [('scripts/deps.sh',), *(('scripts/lab', name) for name in PROGRAMS)]


@pytest.mark.parametrize('command', CALLS, ids=' '.join)
def test_help(command):
    done = call(*command, '--help')
    assert done.returncode == 0 and ' '.join(command) in done.stdout and not done.stderr


@pytest.mark.parametrize('words', [['--help'], ['kernel', '--help'], ['guest', '--help']], ids=' '.join)
def test_reader_of_the_help_is_gone(words):
    """As in `scripts/lab --help | head -1`: no traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, 'wb') as pipe:
        done = subprocess.run([ROOT / 'scripts/lab', *words], stdin=subprocess.DEVNULL, stdout=pipe,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, '')


def test_help_of_make_lists_every_target():
    makefile = (ROOT / 'Makefile').read_text()
    phony = re.search(r'^\.PHONY: (.*)$', makefile, re.M)[1].split()
    listed = re.findall(r'^  make ([\w-]+)', call('make', 'help').stdout, re.M)
    assert sorted(listed) == sorted(phony)


@pytest.mark.parametrize('env, pattern', [
    ({'ENGINE': 'xen'}, r'ENGINE=xen: .*qemu uml'),
    ({'VARIANT': 'mine'}, r'VARIANT=mine: .*cmwq base'),
    ({'CONFIG': 'fast'}, r'CONFIG=fast: .*release debug kcsan'),
    ({'ENGINE': 'uml', 'CONFIG': 'kcsan'}, r'UML cannot have CONFIG=kcsan'),
])
def test_kernel_of_an_unknown_kind(env, pattern):
    refuses(pattern, 'scripts/lab', 'kernel', **env)


def test_make_passes_the_failure_on():
    done = call('make', 'kernel', 'ENGINE=xen')
    assert done.returncode and 'ENGINE=xen' in done.stderr


def test_tree_for_another_kernel():
    refuses(r'LINUX=9\.9: there is no patches/9\.9', 'scripts/lab', 'tree', LINUX='9.9')


def test_cross_compiler_is_asked_for(tmp_path):
    """Only ENGINE=arm64 needs the cross compiler."""
    path = path_without(tmp_path, 'aarch64-linux-gnu-gcc', 'qemu-system-aarch64')
    done = call('scripts/deps.sh', '--check', PATH=path, ENGINE='arm64')
    assert done.returncode and re.search(r'missing packages: .*gcc-aarch64-linux-gnu.* qemu-system-arm', done.stderr)
    assert 'aarch64' not in call('scripts/deps.sh', '--check', PATH=path).stderr
    refuses(r'aarch64-linux-gnu-gcc is missing: run ENGINE=arm64 scripts/deps.sh', 'scripts/lab', 'kernel',
            PATH=path, ENGINE='arm64')


APT = '''trap 'sleep 0.5; echo "as dpkg has begun" >completed; exit 100' INT
echo $$ >>called
while :; do sleep 0.1; done'''


def test_end_of_an_installation(tmp_path):
    """Ctrl-C also reaches apt-get, which is waited for and not called again."""
    tools, project, called = tmp_path / 'bin', tmp_path / 'project', tmp_path / 'called'
    stub(tools, 'apt-get', APT)
    stub(tools, 'id', 'echo 0')
    others = path_without(tmp_path, 'apt-get', 'id', 'bison')
    (project / 'scripts').mkdir(parents=True)
    shutil.copy(ROOT / 'scripts/deps.sh', project / 'scripts')
    with procs.kept([*HEARS_ALL, project / 'scripts/deps.sh'], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                    env={**CLEAN_ENV, 'PATH': f'{tools}:{others}'}) as child:
        wait_until(lambda: called.exists() and called.read_text())
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(timeout=30) == 130
        assert (tmp_path / 'completed').exists() and len(called.read_text().split()) == 1
        assert 'deps: interrupted\n' in child.stderr.read()


@pytest.mark.usefixtures('composed')
def test_nothing_changes_when_nothing_changed():
    done = call('scripts/lab', 'tree')
    assert done.returncode == 0 and re.search(r'\b0 changed now', done.stderr), done.stderr


@pytest.mark.usefixtures('composed')
def test_every_listed_file_is_in_the_tree():
    assert len(tree.our_files()) > 10
    for ours, place in tree.our_files():
        path = ROOT / f'build/tree-{LINUX}' / place
        # Headers are copies.
        same = path.read_bytes() == (ROOT / ours).read_bytes() if place.startswith('include/') else \
            path.resolve() == (ROOT / ours).resolve()
        assert same, place


# Guests

GUEST = ('scripts/lab', 'guest')


def test_guest_of_another_architecture(tmp_path):
    """The file shows the architecture. The message names the program that is missing here."""
    image = tmp_path / 'arch/arm64/boot/Image'
    image.parent.mkdir(parents=True)
    image.write_text('')
    for kernel in (tmp_path, image):
        refuses(r'qemu-system-aarch64 is missing: run ENGINE=arm64 scripts/deps.sh', *GUEST, '--kernel',
                kernel, '--', 'true', PATH=str(tmp_path))


@pytest.mark.parametrize('args, pattern', [
    (['--kernel', 'build/no-such'], r'build/no-such has no '),
    (['--kernel', 'build/no-such', '--cpus', 'x'], r'invalid int value'),
    (['--cpus', '0'], r'--cpus: must be at least 1'),
    (['--mem', 'lots'], r"memory 'lots'"),
    (['--append', '"a'], r'parameters .*: No closing quotation'),
    ([], 'standard input is not a terminal'),
])
def test_wrong_call_of_boot(args, pattern):
    """It is refused before a kernel is built."""
    command = ['--command', 'true'] if args else []
    assert refuses(pattern, 'scripts/lab', 'boot', *args, *command, lines=30).returncode == 2


def test_boot_of_an_unknown_kernel():
    refuses(r'^boot: QEMU cannot have CONFIG=up', 'scripts/lab', 'boot', '--command', 'true', CONFIG='up')


@pytest.mark.parametrize('command', [('kernel',), ('boot', '--command', 'true'), ('torture',)], ids=' '.join)
def test_no_kernel_is_built_by_the_tests_of_the_host(command):
    refuses('-7.3 is not built: WQLAB_NO_BUILDS is set', 'scripts/lab', *command)

# SPDX-License-Identifier: GPL-2.0
"""A disk that is full, or read-only, and programs that are missing: no script has a traceback, or loses a package."""
import contextlib
import os
import shutil
import subprocess

import pytest

import copied
from calls import call, path_without, refuses, stub
from test_kernels import DEB, LINUX, copy, fake_tree, package_of, pin  # noqa: F401  (copy is a fixture)
from wqlab.paths import ROOT

MIB = 1 << 20


def mount(*words):
    done = subprocess.run(['mount', *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f'cannot mount a small file system: {done.stderr.strip()}')


@pytest.fixture
def project(copy):  # noqa: F811
    """A copy of the repository whose build/ is a file system of 4 MiB."""
    if os.geteuid():
        pytest.skip('only root can mount a small file system')
    build = copy / 'build'
    mount('-t', 'tmpfs', '-o', f'size={4 * MIB}', 'small', build)
    try:
        (build / 'venv').symlink_to(ROOT / 'build/venv')
        yield copy
    finally:
        subprocess.run(['umount', build], check=True)


def test_package_survives_a_full_disk(project, tmp_path):
    deb = package_of(tmp_path / 'package', project / f'build/apt/dl/{DEB}', 'x' * (8 * MIB))
    pin(project, deb)
    refuses('the disk of build/log is full', project / 'scripts/lab', 'base', cwd=project, lines=3)
    assert deb.exists()
    assert not list((project / 'build').glob(f'linux-{LINUX}*'))


@pytest.mark.parametrize('tool', ['xz', 'tar', 'dpkg-deb'])
def test_package_survives_a_missing_program(copy, tmp_path, tool):  # noqa: F811
    deb = package_of(tmp_path / 'package', copy / f'build/apt/dl/{DEB}')
    pin(copy, deb)
    path = path_without(tmp_path, tool)
    refuses(rf'^base: {tool} is missing: run scripts/deps.sh', copy / 'scripts/lab', 'base', cwd=copy, PATH=path)
    assert deb.exists()
    done = call(copy / 'scripts/lab', 'base', cwd=copy)
    assert done.returncode == 0 and (copy / f'build/linux-{LINUX}/kernel/large.c').exists(), done.stderr


class Prepared:
    """What the scripts need before they write anything."""

    def __init__(self, project, place):
        self.project, self.place = project, place
        for variant in ('cmwq', 'base'):
            for config in ('release', 'workload'):
                copied.empty_kernel(project, 'uml', variant, config)
        shutil.copytree(ROOT / 'Documentation', project / 'Documentation')     # for dkms
        shutil.copy(ROOT / 'CHANGELOG.md', project)
        kdir = place / 'kdir'
        for name, text in {'include/config/kernel.release': f'{LINUX}.4\n', '.config': 'CONFIG_MODULES=y\n',
                           'Module.symvers': ''}.items():
            (kdir / name).parent.mkdir(parents=True, exist_ok=True)
            (kdir / name).write_text(text)
        (place / 'given.config').write_text('CONFIG_X=y\n')
        for name in ('dh', 'rsync', 'dpkg-buildpackage'):
            path = stub(place / 'bin', name)
        git = ['git', '-C', project, '-c', 'user.name=A', '-c', 'user.email=a@example']
        for words in (['init', '-q'], ['commit', '-q', '--allow-empty', '-m', 'one']):
            subprocess.run([*git, *words], check=True)
        self.env = {'PATH': path, 'KERNEL_SRC': str(fake_tree(place / 'given')), 'ENGINE': 'uml',
                    'WQLAB_NO_BUILDS': ''}      # they end before they build anything
        self.more = {'module': {'KDIR': str(kdir)}, 'deb': {'VARIANT': 'cmwq', 'ENGINE': 'qemu'}}

    def fill(self):
        """Write until the disk is full."""
        with contextlib.suppress(OSError), open(self.project / 'build/rest', 'wb', buffering=0) as file:
            while file.write(bytes(1 << 12)):
                pass


SCRIPTS = (['base'], ['tree'], ['kernel'], ['series'], ['deb', '--config', 'PLACE/given.config'], ['dkms'], ['module'],
           ['bench', '--engine', 'uml', '--no-build'], ['workload', '--engine', 'uml', '--no-build'],
           ['advise', '--engine', 'uml', '--no-build'], ['torture', '--engine', 'uml'],
           ['matrix', 'uml'], ['basebugs', 'stall'],
           ['guest', '--kernel', 'build/uml-cmwq-release-7.3', '--', 'true'])


@pytest.mark.parametrize('words', SCRIPTS, ids=lambda words: ' '.join(words[:2]))
def test_no_traceback_on_a_full_disk(project, tmp_path, words):
    prepared = Prepared(project, tmp_path)
    prepared.fill()
    env = {**prepared.env, **prepared.more.get(words[0], {})}
    done = call(project / 'scripts/lab', *(word.replace('PLACE', str(tmp_path)) for word in words), cwd=project, **env)
    assert done.returncode in (1, 2) and 'Traceback' not in done.stderr, done.stderr


def test_read_only_disk(project):
    mount('-o', 'remount,ro', project / 'build')
    refuses('Read-only file system: mount it for writing', project / 'scripts/lab', 'base', cwd=project)


def test_full_output():
    """As in `scripts/lab kernel --print-dir >/full/file`."""
    with open('/dev/full', 'wb') as full:
        done = subprocess.run([ROOT / 'scripts/lab', 'kernel', '--print-dir'], stdout=full, stderr=subprocess.PIPE,
                              text=True, check=False)
    assert done.returncode == 1 and 'kernel: No space left on device: free some space' in done.stderr


@pytest.mark.parametrize('words, env, says', [
    (['bench', '--resume', 'PLACE'], {}, r'PLACE/results\.json cannot be read: '),
    (['deb', '--config', 'PLACE/.config'], {}, r'PLACE/\.config is not a text: name another file$'),
    (['module'], {'KDIR': 'PLACE'}, r'PLACE/include/config/kernel\.release is not a text: name another file$'),
    (['boot', '--kernel', 'PLACE', '--command', 'true'], {}, r'PLACE/\.config is not a text: name another file$'),
    (['bench', '--resume', '/etc/passwd'], {}, r'/etc/passwd/results\.json: Not a directory: check the path$'),
    (['series', '--changes', '/no/such'], {}, r'/no/such: No such file or directory: check the path$'),
])
def test_file_that_is_no_text(tmp_path, words, env, says):
    for name in ('results.json', '.config', 'include/config/kernel.release', 'Module.symvers', 'linux',
                 'arch/x86/boot/bzImage'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b'\x7fELF\xd0\n')
    words, env = ([word.replace('PLACE', str(tmp_path)) for word in words],
                  {name: value.replace('PLACE', str(tmp_path)) for name, value in env.items()})
    refuses(says.replace('PLACE', str(tmp_path)), 'scripts/lab', *words, **env, lines=2)


def test_bug_in_a_script_keeps_its_traceback(copy):  # noqa: F811
    (copy / 'scripts/wqlab/kernels/clean.py').write_text('def main(argv):\n    return {}["no such key"]\n')
    done = call(copy / 'scripts/lab', 'clean', cwd=copy)
    assert done.returncode == 1 and 'Traceback' in done.stderr and 'KeyError' in done.stderr

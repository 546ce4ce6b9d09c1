# SPDX-License-Identifier: GPL-2.0
"""Preparing and building kernels: the base tree, the composed tree, builds, modules, the series."""
import contextlib
import fcntl
import functools
import hashlib
import http.server
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import types
from pathlib import Path

import pytest

import copied
import debs
from builds import OLD
from calls import CLEAN_ENV, HEARS_ALL, call, in_use, refuses, stub
from wqlab.kernels import base, build, check, debian, kinds, module, tree
from wqlab.kernels.kinds import Kind
from wqlab.kernels.module import sources as module_sources
from wqlab.paths import ROOT
from wqlab.steps import Failure

LINUX = kinds.LINUX
PARTS = ('scripts', 'patches', 'configs', 'kernel', 'include', 'lib', 'Makefile', 'Kconfig.debug',
         'requirements.txt')


@pytest.fixture
def copy(tmp_path):
    """A copy of the repository without its build folder, for tests that damage files."""
    copied.parts(tmp_path, *PARTS)
    change(tmp_path / 'scripts/wqlab/kernels/base.py', base.SNAPSHOT, 'http://127.0.0.1:1/none/')     # not the network
    return tmp_path


def change(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def fake_tree(folder, version=f'{LINUX}.0', **files):
    """A folder with just enough files to pass as a kernel tree."""
    names = ('VERSION', 'PATCHLEVEL', 'SUBLEVEL')
    makefile = ''.join(f'{name} = {number}\n' for name, number in zip(names, version.split('.'), strict=True))
    for name, text in {'Makefile': makefile, **dict.fromkeys(base.PARTS, '/* nothing */\n'), **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def get_base(copy, **env):
    return call(copy / 'scripts/lab', 'base', cwd=copy, **env)


def version_there(copy):
    return base.version_of(copy / f'build/linux-{LINUX}')


def nothing_left(folder):
    left = [path for path in (folder / 'build').glob('*') if path.name.startswith(f'linux-{LINUX}')]
    assert not left, left


# The composed tree

def test_make_notices_that_a_patch_has_left_the_tree(tmp_path, monkeypatch):
    """With the time of the base tree, make would keep the object of the patched file."""
    monkeypatch.setattr(tree, 'BUILD', tmp_path)
    original = fake_tree(tmp_path / 'base', **{'kernel/some.c': 'original'}) / 'kernel/some.c'
    os.utime(original, (1, 1))
    composer = tree.Composer(types.SimpleNamespace(linux=LINUX, tree=tmp_path / 'base'))
    fake_tree(composer.tree, **{'kernel/some.c': 'patched', 'kernel/new.c': ''})
    composer.manifest.write_text('kernel/some.c kernel/new.c')
    composer.take_away([])
    path = composer.tree / 'kernel/some.c'
    assert path.read_text() == 'original' and path.stat().st_mtime > 1 == original.stat().st_mtime
    assert not (composer.tree / 'kernel/new.c').exists() and composer.changed == 2


# The base tree from a folder

@pytest.mark.parametrize('linux', ['foo', '7', '7.3-rc1', '..', '7.3/../7.2'])
@pytest.mark.parametrize('program', ['base', 'hooks'])
def test_wrong_release(copy, linux, program):
    """The network is not asked, and not blamed."""
    refuses(rf'^{program}: LINUX={re.escape(linux)} is no release of Linux: give one, such as LINUX=',
            copy / 'scripts/lab', program, cwd=copy, LINUX=linux, VARIANT='base')


@pytest.mark.parametrize('name, pattern', [
    ('absent', r'KERNEL_SRC=\S*absent is not a directory'),
    ('older', rf'KERNEL_SRC=\S*older is not a Linux {re.escape(LINUX)} tree'),
    ('built', r'KERNEL_SRC=\S*built contains build output: .*mrproper'),
])
def test_wrong_kernel_src(copy, tmp_path, name, pattern):
    fake_tree(tmp_path / 'older', '6.12.0')
    fake_tree(tmp_path / 'built', **{'.config': ''})
    refuses(pattern, copy / 'scripts/lab', 'base', cwd=copy, KERNEL_SRC=str(tmp_path / name))
    nothing_left(copy)


def test_kernel_src(copy, tmp_path):
    source = fake_tree(tmp_path / 'given', f'{LINUX}.7')
    done = get_base(copy, KERNEL_SRC=str(source))
    assert done.returncode == 0 and f'directory {source}, {LINUX}.7, ' in done.stderr
    (source / 'Makefile').unlink()      # a tree that exists is not copied again
    assert get_base(copy, KERNEL_SRC=str(source)).returncode == 0 and version_there(copy) == f'{LINUX}.7'


# ... from Debian

PACKAGE = f'linux-source-{LINUX}'
TESTED = kinds.tested(LINUX)['version']
DEB = f'{PACKAGE}_{TESTED}_all.deb'


def packed(root, deb, name, version):
    """Pack a folder."""
    (root / 'DEBIAN').mkdir()
    (root / 'DEBIAN/control').write_text(f'Package: {name}\nVersion: {version}\nArchitecture: all\n'
                                         'Maintainer: nobody <n@example>\nDescription: a test\n')
    subprocess.run(['dpkg-deb', '-b', root, deb], check=True, stdout=subprocess.DEVNULL)
    return deb


def package_of(folder, deb, text=''):
    """Make a package of the kernel's sources, with this text in them, like Debian's."""
    fake_tree(folder / 'linux', f'{LINUX}.4', **{'kernel/large.c': text})
    (folder / 'all/usr/src').mkdir(parents=True)
    subprocess.run(['tar', '-C', folder, '-cJf', folder / f'all/usr/src/{PACKAGE}.tar.xz', 'linux'], check=True)
    deb.parent.mkdir(parents=True, exist_ok=True)
    return packed(folder / 'all', deb, PACKAGE, TESTED)


def pin(copy, deb):
    """Take this package for the one that the project was tested with."""
    change(copy / f'patches/{LINUX}.toml', kinds.tested(LINUX)['sha256'], hashlib.sha256(deb.read_bytes()).hexdigest())


@pytest.fixture
def archive(copy, tmp_path, server):
    """A mirror of Debian and its archive of all packages. Return their folders, and a PATH that uses the mirror."""
    url = server[1]
    change(copy / 'scripts/wqlab/kernels/base.py', 'http://127.0.0.1:1/none/', f'{url}/old/')
    path = stub(tmp_path / 'bin', 'apt-get', f'echo "http://security.example/debian-security/ main"\n'
                                             f'echo "{url}/debian/ main"')
    return {name: tmp_path / f'served/{name}/{base.POOL}' for name in ('debian', 'old')}, path


@pytest.mark.parametrize('where', ['debian', 'old'])
def test_package(copy, tmp_path, archive, server, where):
    """It comes from the mirror, or else from the archive, once."""
    folders, path = archive
    pin(copy, package_of(tmp_path / 'package', folders[where] / DEB))
    for _ in range(2):
        done = get_base(copy, PATH=path)
        assert done.returncode == 0 and version_there(copy) == f'{LINUX}.4', done.stderr
        shutil.rmtree(copy / f'build/linux-{LINUX}')
    assert server[0].asked == (1 if where == 'debian' else 3)       # with the error that is logged


def test_package_with_another_content(copy, tmp_path, archive):
    """It is not used, wherever it comes from."""
    folders, path = archive
    for name in ('debian', 'old'):
        package_of(tmp_path / name, folders[name] / DEB, name)
    package_of(tmp_path / 'kept', copy / f'build/apt/dl/{DEB}')
    done = refuses(rf' have no {re.escape(PACKAGE)}', copy / 'scripts/lab', 'base', cwd=copy, PATH=path, lines=10)
    assert done.stderr.count(f'not {kinds.tested(LINUX)["sha256"]}') == 2
    assert not (copy / f'build/apt/dl/{DEB}').exists()
    nothing_left(copy)


def test_package_of_another_version(copy, tmp_path, archive):
    """If nobody has the tested one any more, the newest one does."""
    folders, _ = archive
    newer = package_of(tmp_path / 'newer', tmp_path / DEB.replace(TESTED, f'{LINUX}.9-1'))
    stub(tmp_path / 'bin', 'apt-cache', f'echo "{PACKAGE} | {LINUX}.9-1 | http://deb.example/debian main"')
    path = stub(tmp_path / 'bin', 'apt-get', f'case "$*" in\n*indextargets*) echo "http://127.0.0.1:1/debian/ main";;\n'
                                             f'*" download {PACKAGE}={LINUX}.9-1") cp {newer} .;;\nesac')
    done = get_base(copy, PATH=path)
    assert done.returncode == 0 and version_there(copy) == f'{LINUX}.4', done.stderr
    assert f'{DEB}, with which the project was tested, cannot be had: taking another version' in done.stderr


def test_no_network(copy, tmp_path):
    refuses("no Debian mirror in this machine's apt sources", copy / 'scripts/lab', 'base', cwd=copy, lines=10,
            PATH=stub(tmp_path / 'bin', 'apt-get'))
    nothing_left(copy)


def test_each_base():
    """It has patches, and a package that is known. make help names it, the default first."""
    others = [linux for linux in kinds.releases() if linux != LINUX]
    assert f'LINUX={"|".join([LINUX, *others])} ' in (ROOT / 'Makefile').read_text()
    for linux in kinds.releases():
        one = kinds.tested(linux)
        assert tree.patches(linux) and set(one) == {'version', 'sha256', 'suites'} and one['suites']
        assert re.fullmatch('[0-9a-f]{64}', one['sha256']) and one['version'].startswith(f'{linux}.')


def tool_in_debian(tmp_path, monkeypatch, get):
    """A fake archive with the package `tool`. @get is what apt-get does to download it and what it needs."""
    monkeypatch.setattr(debian, 'APT', tmp_path / 'apt')
    stub(tmp_path / 'bin', 'apt-cache', 'echo " tool | 1.0-1 | http://deb.example/debian main"')
    monkeypatch.setenv('PATH', stub(tmp_path / 'bin', 'apt-get', f'case "$*" in\n'
                                    f'*indextargets*) echo "http://deb.example/debian/ main";;\n'
                                    f'*--download-only*) {get};;\nesac'))


def test_program_of_another_release(tmp_path, monkeypatch):
    """It is unpacked with its libraries, is not fetched again, and runs with the loader beside it."""
    libraries = 'usr/lib/x86_64-linux-gnu'
    for name, path, text in (('tool', 'usr/bin/tool', 'tool\n'), ('libc6', f'{libraries}/ld-linux-x86-64.so.2', '')):
        root = tmp_path / 'package' / name
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
        packed(root, tmp_path / f'{name}.deb', name, '1.0-1')
    place = tmp_path / 'apt/roots/.tool.tmp/cache/archives'
    tool_in_debian(tmp_path, monkeypatch, f'cp {tmp_path}/*.deb {place}')
    folder = debs.unpacked('tool', ['sid'])
    assert folder == tmp_path / 'apt/roots/tool_1.0-1' and (folder / 'usr/bin/tool').read_text() == 'tool\n'
    assert debs.in_root(folder, 'usr/bin/tool') == [
        f'{folder}/{libraries}/ld-linux-x86-64.so.2', '--library-path', f'{folder}/{libraries}',
        f'{folder}/usr/bin/tool']
    tool_in_debian(tmp_path, monkeypatch, 'exit 100')
    assert debs.unpacked('tool', ['sid']) == folder


def test_program_that_cannot_be_fetched(tmp_path, monkeypatch):
    tool_in_debian(tmp_path, monkeypatch, 'exit 100')
    with pytest.raises(Failure, match='could not download tool from http://deb.example/debian/'):
        debs.unpacked('tool', ['sid'])
    stub(tmp_path / 'bin', 'apt-cache', 'exit 0')
    with pytest.raises(Failure, match='sid and trixie of .* have no tool'):
        debs.unpacked('tool', ['sid', 'trixie'])
    assert not list((tmp_path / 'apt/roots').glob('tool*'))


def test_damaged_package(tmp_path):
    deb = tmp_path / 'busybox-static_1.0-1_arm64.deb'
    deb.write_bytes(b'!<arch>\nnonsense')
    with pytest.raises(Failure, match=r'arm64\.deb has no \*/bin/busybox, or is damaged: delete it'):
        debian.unpack(deb, '*/bin/busybox')


# ... from a tarball

class Server(http.server.ThreadingHTTPServer):
    asked = 0


class Quiet(http.server.SimpleHTTPRequestHandler):
    server: Server
    cut = False

    def log_message(self, *_):
        self.server.asked += 1

    def send_header(self, name, value):
        """A server that announces more bytes than it sends, like a broken connection."""
        super().send_header(name, str(int(value) + 1000) if self.cut and name == 'Content-Length' else value)


@pytest.fixture
def tarball(tmp_path):
    def make(version=f'{LINUX}.2', suffix='xz'):
        fake_tree(tmp_path / f'linux-{version}', version)
        path = tmp_path / f'served/linux-{version}.tar.{suffix}'
        path.parent.mkdir(exist_ok=True)
        subprocess.run(['tar', '-C', tmp_path, '-caf', path, f'linux-{version}'], check=True)
        return path, hashlib.sha256(path.read_bytes()).hexdigest()
    return make


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / 'served').mkdir(exist_ok=True)
    handler = functools.partial(Quiet, directory=tmp_path / 'served')
    with Server(('127.0.0.1', 0), handler) as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield one, f'http://127.0.0.1:{one.server_port}'
        one.shutdown()
        thread.join()


@pytest.mark.parametrize('suffix', ['xz', 'gz'])
def test_tarball_file(copy, tarball, suffix):
    path, checksum = tarball(suffix=suffix)
    done = get_base(copy, LINUX_TARBALL=str(path))
    assert done.returncode == 0 and version_there(copy) == f'{LINUX}.2', done.stderr
    assert f'tarball sha256:{checksum}' in done.stderr
    again = get_base(copy, LINUX_TARBALL=str(path), LINUX_TARBALL_SHA256=checksum)
    assert again.returncode == 0 and 'unpacking' not in again.stderr


@pytest.mark.parametrize('change, pattern', [
    ({'LINUX_TARBALL_SHA256': 'f' * 64}, r'has the checksum [0-9a-f]{64}, not f{64}'),
    ({'LINUX_TARBALL_SHA256': '12ab'}, r'LINUX_TARBALL_SHA256=12ab is not a SHA-256 checksum'),
    ({'LINUX_TARBALL': '/no/such.tar.xz'}, r'LINUX_TARBALL=/no/such.tar.xz is not a file'),
    ({'KERNEL_SRC': '/'}, r'both name a base tree: give one'),
    ({'LINUX_TARBALL': 'http://127.0.0.1:1/linux.tar.xz'}, r'LINUX_TARBALL_SHA256= is missing'),
    ({'LINUX_TARBALL': 'http://127.0.0.1:1/x.tar.xz', 'LINUX_TARBALL_SHA256': 'f' * 64}, r'could not download http:'),
])
def test_wrong_tarball(copy, tarball, change, pattern):
    path, _ = tarball()
    refuses(pattern, copy / 'scripts/lab', 'base', cwd=copy, lines=2, **{'LINUX_TARBALL': str(path), **change})
    nothing_left(copy)


def test_tarball_of_another_release(copy, tarball):
    path, _ = tarball('6.12.3')
    refuses(rf'is not a Linux {re.escape(LINUX)} tree: it is 6\.12\.3', copy / 'scripts/lab', 'base', cwd=copy, lines=4,
            LINUX_TARBALL=str(path))
    nothing_left(copy)


def test_tarball_that_is_none(copy, tmp_path):
    (tmp_path / 'x.tar.xz').write_text('nonsense')
    refuses(r'x\.tar\.xz could not be unpacked', copy / 'scripts/lab', 'base', cwd=copy, lines=4,
            LINUX_TARBALL=str(tmp_path / 'x.tar.xz'))
    nothing_left(copy)


def test_tarball_from_a_server(copy, tarball, server):
    path, checksum = tarball()
    one, url = server
    env = {'LINUX_TARBALL': f'{url}/{path.name}', 'LINUX_TARBALL_SHA256': checksum}
    assert get_base(copy, **env).returncode == 0 and version_there(copy) == f'{LINUX}.2' and one.asked == 1
    shutil.rmtree(copy / f'build/linux-{LINUX}')
    assert get_base(copy, **env).returncode == 0 and one.asked == 1      # kept
    shutil.rmtree(copy / f'build/linux-{LINUX}')
    kept, = (copy / 'build/dl').iterdir()
    kept.write_bytes(path.read_bytes()[:-9])        # and damaged
    assert get_base(copy, **env).returncode == 0 and one.asked == 2


def test_wrong_answers_of_a_server(copy, tarball, server, monkeypatch):
    path, checksum = tarball()
    _, url = server
    lab = (copy / 'scripts/lab', 'base')
    refuses(r'could not download .*404', *lab, cwd=copy, lines=3, LINUX_TARBALL=f'{url}/none.tar.xz',
            LINUX_TARBALL_SHA256=checksum)
    refuses(r'has the checksum .* deleted', *lab, cwd=copy, lines=3, LINUX_TARBALL=f'{url}/{path.name}',
            LINUX_TARBALL_SHA256='f' * 64)
    monkeypatch.setattr(Quiet, 'cut', True)
    refuses(r'(ended after|could not download)', *lab, cwd=copy, lines=3, LINUX_TARBALL=f'{url}/{path.name}',
            LINUX_TARBALL_SHA256=checksum)
    assert not list((copy / 'build/dl').iterdir())
    nothing_left(copy)


# Builds

@pytest.mark.parametrize('engine', kinds.ENGINES)
def test_kinds(engine):
    for config in kinds.ENGINES[engine].configs:
        for variant in kinds.VARIANTS:
            kind = Kind.of(engine, variant, config)
            assert all(path.is_file() for path in kind.fragments) and kind.image.is_relative_to(kind.folder)
            assert kind.folder.name == f'{engine}-{variant}-{config}-{LINUX}'


def test_kinds_of_an_older_release():
    for engine, config in (('qemu', 'release'), ('qemu', 'debug'), ('uml', 'up')):
        for variant in kinds.VARIANTS:
            names = [path.stem for path in Kind.of(engine, variant, config, OLD).fragments]
            assert '6.12' in names and 'torture' in names and ('base-6.12' in names) == (variant == 'base')
            assert ('qemu-6.12' in names) == (engine == 'qemu')
    assert Kind.of('qemu', 'base', 'release', OLD).tree.name == 'tree-6.12'
    for config in ('release', 'debug', 'workload'):
        with pytest.raises(Failure, match=r'LINUX=6\.12: UML has one CPU before 6\.19: use CONFIG=up or ENGINE=qemu'):
            Kind.of('uml', 'cmwq', config, OLD)
    Kind.of('uml', 'cmwq', 'release', LINUX)
    with pytest.raises(Failure, match=r'there is no patches/6\.5'):
        Kind.of('qemu', 'cmwq', 'release', '6.5')


def test_options_that_did_not_take(tmp_path):
    wanted, got = tmp_path / 'wanted', tmp_path / 'got'
    wanted.write_text('CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n# CONFIG_D is not set\nCONFIG_E="x"\n')
    got.write_text('CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=y\nCONFIG_E="x"\n# a comment\n')
    assert build.not_taken(build.options(wanted), build.options(got)) == ['CONFIG_B=m', 'CONFIG_C=n']


CONFIGURING_MAKE = '''case "$*" in
*allnoconfig*) for word; do case $word in
	KCONFIG_CONFIG=*) to=${word#*=};; KCONFIG_ALLCONFIG=*) from=${word#*=};; esac; done; cp "$from" "$to"; exit;;
esac
'''
HANGING_MAKE = CONFIGURING_MAKE + '''touch "$PIDS.half"; trap 'rm "$PIDS.half"; exit 2' TERM
echo "$$" >"$PIDS"; sh -c 'trap "" TERM; echo $$ >>"$0"; exec sleep 300' "$PIDS" & wait'''


def is_running(pid):
    try:
        return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] != 'Z'
    except FileNotFoundError:
        return False


class HangingBuilds:
    """Builds of one kernel. Their make does not end by itself."""

    def __init__(self, copy, place):
        for patch in (copy / f'patches/{LINUX}').iterdir():
            patch.unlink()
        tree = fake_tree(place / 'given', **{'scripts/kconfig/merge_config.sh': 'shift 5; cat "$@" >.config\n'})
        self.copy, self.pids = copy, place / 'pids'
        self.env = {**CLEAN_ENV, 'WQLAB_NO_BUILDS': '', 'PATH': stub(place / 'bin', 'make', HANGING_MAKE),
                    'PIDS': str(self.pids), 'ENGINE': 'uml', 'KERNEL_SRC': str(tree)}

    @contextlib.contextmanager
    def start(self):
        with subprocess.Popen([*HEARS_ALL, self.copy / 'scripts/lab', 'kernel'], cwd=self.copy, env=self.env,
                              stderr=subprocess.PIPE, text=True) as child:
            try:
                yield child
            finally:
                if child.poll() is None:
                    child.terminate()
                    child.wait(timeout=60)

    def made(self, child, before=()):
        """Wait until a make runs that was not there before. Return its processes."""
        end = time.monotonic() + 60
        while True:
            found = [int(pid) for pid in self.pids.read_text().split()] if self.pids.exists() else []
            if len(found) == 2 and not set(found) & set(before):
                return found
            assert child.poll() is None and time.monotonic() < end, child.stderr.read()
            time.sleep(0.1)


@pytest.fixture
def builds(copy, tmp_path):
    return HangingBuilds(copy, tmp_path)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_end_of_a_build(builds, number):
    """make deletes its unfinished file. It and its children, also one that hears nothing, end before the lock does."""
    with builds.start() as child:
        started = builds.made(child)
        assert all(map(is_running, started))
        child.send_signal(number)
        assert child.wait(timeout=60) in (129, 130, 143)
    assert not any(map(is_running, started)) and not Path(f'{builds.pids}.half').exists()


def test_two_builds_take_turns(builds):
    with builds.start() as first:
        started = builds.made(first)
        with builds.start() as second:
            late = threading.Timer(60, second.terminate)
            late.start()
            waits = rf'uml-cmwq-release-\S+ is in use by process {first.pid} \(.*lab kernel\): waiting for its end'
            assert any(re.search(waits, line)
                       for line in iter(second.stderr.readline, ''))
            late.cancel()
            assert builds.made(first) == started
            first.terminate()
            assert first.wait(timeout=60) == 143
            builds.made(second, before=started)


# ... of a kernel that is in use

FINISHING_MAKE = CONFIGURING_MAKE + '''for word; do case $word in O=*) to=${word#*=};; esac; done
mkdir -p "$to/include/config"; echo 7.3.0 >"$to/include/config/kernel.release"; echo >"$to/linux"
echo built >>"$PIDS"'''
KERNEL = f'uml-cmwq-release-{LINUX}'


def used(copy, name=KERNEL):
    return in_use(copy / f'build/.lock-{name}', '-s')


@pytest.fixture
def built(builds, tmp_path):
    """Builds that end, and a kernel that has been built."""
    stub(tmp_path / 'bin', 'make', FINISHING_MAKE)
    builds.make = lambda: subprocess.run([builds.copy / 'scripts/lab', 'kernel'], cwd=builds.copy, env=builds.env,
                                         capture_output=True, text=True, timeout=60, check=False)
    assert builds.make().returncode == 0
    return builds


def times_built(built):
    return built.pids.read_text().count('built')


def test_a_kernel_in_use_is_not_built_again(built):
    assert built.make().returncode == 0 and times_built(built) == 2
    with used(built.copy):
        done = built.make()
    assert done.returncode == 0 and f'{KERNEL} is in use, and its sources have not changed' in done.stderr
    assert times_built(built) == 2


@pytest.mark.parametrize('name', ['kernel/workqueue/queue.c', 'include/linux/workqueue.h', 'configs/uml.config'])
def test_a_build_of_other_sources_waits(built, name):
    with open(built.copy / name, 'a') as file:
        file.write('\n')
    with used(built.copy) as holder, built.start() as child:
        assert any(f'{KERNEL} is in use by process {holder.pid} (flock -s ' in line
                   for line in iter(child.stderr.readline, ''))
        assert child.poll() is None and times_built(built) == 1
    assert times_built(built) == 1      # the build was ended while it waited
    assert built.make().returncode == 0 and times_built(built) == 2


def test_a_failed_build_is_not_current(built, tmp_path):
    """The next build does not take the kernel for built."""
    stub(tmp_path / 'bin', 'make', f'case "$*" in *-j*) exit 2;; esac\n{FINISHING_MAKE}')
    assert built.make().returncode == 1
    with used(built.copy), built.start() as child:
        assert any('waiting for its end' in line for line in iter(child.stderr.readline, ''))


def test_a_run_does_not_wait_for_itself(built):
    """This process uses the kernel, and waits for a build of other sources."""
    (built.copy / 'kernel/workqueue/queue.c').write_text('')
    with open(built.copy / f'build/.lock-{KERNEL}') as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        done = built.make()
    assert done.returncode == 1 and times_built(built) == 1
    assert re.fullmatch(rf'kernel: {KERNEL} is in use by process {os.getpid()} .*: run this again after its end',
                        done.stderr.splitlines()[-1])


@pytest.mark.parametrize('name', [KERNEL, 'tree', 'measurement'])
def test_clean_of_what_is_in_use(copy, name):
    (copy / f'build/{KERNEL}').mkdir()
    with used(copy, name) as holder:
        refuses(rf'^clean: {name} is in use by process {holder.pid} ', copy / 'scripts/lab', 'clean', cwd=copy)
    assert (copy / f'build/{KERNEL}').exists()
    assert call(copy / 'scripts/lab', 'clean', cwd=copy).returncode == 0
    assert not (copy / f'build/{KERNEL}').exists()


# The module against other kernels

def fake_kdir(folder, release=None, config='CONFIG_MODULES=y\n', symvers=True):
    folder.mkdir()
    if release:
        (folder / 'include/config').mkdir(parents=True)
        (folder / 'include/config/kernel.release').write_text(release + '\n')
        (folder / '.config').write_text(config)
    if symvers:
        (folder / 'Module.symvers').write_text('')
    return str(folder)


@pytest.mark.parametrize('args, pattern', [
    ({}, r'is not configured and built'),
    ({'release': '6.12.1', 'symvers': False}, r'has no Module\.symvers'),
    ({'release': '6.4.9-generic'}, r'is Linux 6\.4\.9-generic: .* 6\.5'),
    ({'release': '6.12.1', 'config': ''}, r'was configured without CONFIG_MODULES'),
])
def test_module_against_an_unfit_kernel(tmp_path, args, pattern):
    refuses(pattern, 'scripts/lab', 'module', KDIR=fake_kdir(tmp_path / 'kdir', **args))


def test_module_against_nothing():
    refuses(r'KDIR=/no/such is not a directory', 'scripts/lab', 'module', KDIR='/no/such')


@pytest.mark.parametrize('config, arch', [('', []), ('CONFIG_UML=y\n', ['ARCH=um'])])
def test_arch_of_the_module(copy, tmp_path, config, arch):
    said = tmp_path / 'said'
    path = stub(tmp_path / 'bin', 'make', f'echo "$@" >{said}')
    kdir = fake_kdir(tmp_path / 'kdir', '6.12.1', f'CONFIG_MODULES=y\n{config}')
    done = call(copy / 'scripts/lab', 'module', cwd=copy, PATH=path, KDIR=kdir)
    assert done.returncode == 0, done.stderr
    words = said.read_text().split()
    assert words[3:] == [*arch, 'modules']
    place = copy / 'build/module-6.12.1'
    for name in ('Kbuild', 'test_workqueue.c', 'wqbench.h', 'wq_hist.h', 'wq_compat.h', 'wq_probe.c',
                 'wqtorture_main.c'):
        lies_in = copy / ('lib' if name == 'test_workqueue.c' else 'lib/cmwq')
        assert (place / name).read_bytes() == (lies_in / name).read_bytes()


def test_entry_of_the_benchmark_has_its_name():
    entries = [path.name for path in ROOT.glob('lib/**/*.c') if '(bench_init);' in path.read_text()]
    assert entries == ['test_workqueue.c']


def test_removed_source_leaves_the_module(copy, tmp_path):
    kdir, gone = fake_kdir(tmp_path / 'kdir', '6.12.1'), copy / 'lib/cmwq/wqbench_more.c'
    path, place = stub(tmp_path / 'bin', 'make', ''), copy / 'build/module-6.12.1'

    def built_from():
        assert call(copy / 'scripts/lab', 'module', cwd=copy, PATH=path, KDIR=kdir).returncode == 0
        return {path.name for path in (*place.glob('wq*'), *place.glob('*.c'))}
    gone.touch()
    assert gone.name in built_from()
    (place / 'wq_probe.mod.c').touch()
    gone.unlink()
    assert built_from() == {path.name for path in module_sources() if path.name != 'Kbuild'} | {'wq_probe.mod.c'}


# All that newer kernels have: what of each header is searched, and the flag if it is missing
HEADERS = {'WQ_PERCPU': ('workqueue.h', 'PERCPU'), 'WQ_BH': ('workqueue.h', 'BH'),
           'hrtimer_setup': ('hrtimer.h', 'HRTIMER_SETUP')}


@pytest.mark.parametrize('version, has', [
    ('6.5', ()), ('6.11', HEADERS), ('6.12', ('WQ_BH', 'WQ_PERCPU')), ('6.100', HEADERS), ('10.0', HEADERS),
])
def test_what_kbuild_asks_for(tmp_path, version, has):
    include = tmp_path / 'include/linux'
    include.mkdir(parents=True)
    for name in ('workqueue.h', 'hrtimer.h'):
        lines = [word for word in has if HEADERS[word][0] == name]
        (include / name).write_text('\n'.join(['__WQ_BH_ALLOWS hrtimer_setup_on_stack', *lines, '']))
    (tmp_path / 'Makefile').write_text(f'include {ROOT}/lib/cmwq/Kbuild\nall: ; @echo $(obj-m) $(ccflags-y)\n')
    major, minor = version.split('.')
    done = call('make', '-s', '-C', tmp_path, f'VERSION={major}', f'PATCHLEVEL={minor}', f'srctree={tmp_path}',
                f'src={ROOT}/lib')
    assert done.returncode == 0, done.stderr
    modules = module.modules_for((int(major), int(minor)))
    assert set(done.stdout.split()) == {f'{name}.o' for name in modules} | {
        f'-DWQ_COMPAT_NO_{HEADERS[word][1]}' for word in HEADERS if word not in has}
    assert ('wqtorture' in modules) == (version not in ('6.5', '6.11'))


def test_modules_have_all_that_they_include():
    given = {path.name: path.read_text() for path in module_sources()}
    for name, text in given.items():
        assert set(re.findall(r'^#include "(.*)"', text, re.M)) <= set(given), name
    flags = set(re.findall(r'WQ_COMPAT_NO_(\w+)', given['wq_compat.h']))
    assert flags == {flag for _, flag in HEADERS.values()}


# make clean

def test_clean(copy):
    stays = ('bench', 'apt', f'linux-{LINUX}', 'dl', 'venv', 'test')
    goes = (f'uml-cmwq-release-{LINUX}', f'qemu-base-debug-{LINUX}', f'arm64-cmwq-release-{LINUX}', 'module-6.12.1',
            'dkms', 'deb', f'deb-cmwq-{LINUX}-few', f'headers-base-{LINUX}', 'others', f'series-{LINUX}',
            f'tree-{LINUX}', f'mutant-{LINUX}', '.guest', 'log')
    for name in (*stays, *goes):
        (copy / 'build' / name).mkdir(exist_ok=True)
        (copy / 'build' / name / '.file').touch() if name != 'venv' else None
    done = call(copy / 'scripts/lab', 'clean', cwd=copy)
    assert done.returncode == 0
    assert {path.name for path in (copy / 'build').iterdir()} == set(stays)


PROTOTYPE = '''
/**
 * one - says it here
 * @n: a number
 */
int one(int n);

/**
 * two - is defined here
 */
static inline int two(void)
{
	return 2;
}
'''


def test_kernel_doc_at_a_prototype_is_found():
    assert check.documented_prototypes(PROTOTYPE) == [2]

# SPDX-License-Identifier: GPL-2.0
"""The DKMS package: what is in it, for which kernels, and that the same commit gives the same bytes."""
import os
import re
import shutil
import subprocess

import pytest

import copied
from calls import call, refuses, stub
from wqlab.dkms import package
from wqlab.kernels import module
from wqlab.release import release

WHEN = '2026-11-22T10:20:30+0000'
WHO = {f'GIT_{who}_{what}': value for who in ('AUTHOR', 'COMMITTER')
       for what, value in (('NAME', 'A. Packager'), ('EMAIL', 'a@packager.example'), ('DATE', WHEN))}


def git(folder, *words):
    done = call('git', '-C', folder, *words, GIT_CONFIG_GLOBAL='/dev/null', GIT_CONFIG_NOSYSTEM='1', **WHO)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(folder):
    """Commit what the package is made from. Return the folder."""
    copied.parts(folder, 'scripts', 'lib', 'Documentation/core-api', 'requirements.txt', 'CHANGELOG.md')
    (folder / '.gitignore').write_text('build/\n__pycache__/\n')
    git(folder, 'init', '-q', '-b', 'main')
    git(folder, 'add', '-A')
    git(folder, 'commit', '-q', '-m', 'all')
    return folder


@pytest.fixture
def copy(tmp_path):
    return repository(tmp_path)


def make(copy, umask=0o022, **env):
    """Run the program. Return the only package that is there then."""
    done = call('sh', '-c', f'umask {umask:o}; exec scripts/lab dkms', cwd=copy, **env)
    assert done.returncode == 0, done.stderr
    path, = (copy / 'build/dkms').iterdir()
    assert str(path.relative_to(copy)) in done.stderr
    assert not list((copy / 'build').glob('.dkms-*'))
    return path


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """Return (package, where it was unpacked, folder of the source in there)."""
    folder = tmp_path_factory.mktemp('made')
    deb, root = make(repository(folder)), folder / 'root'
    assert call('dpkg-deb', '-R', deb, root).returncode == 0
    source, = (root / 'usr/src').iterdir()
    return deb, root, source


def field(deb, name):
    return call('dpkg-deb', '-f', deb, name).stdout.strip()


def test_name_and_version(made):
    deb, root, source = made
    assert f'#define WQ_RELEASE\t"{release()}"' in (source / 'wq_compat.h').read_text()
    version = field(deb, 'Version')
    assert re.fullmatch(rf'{re.escape(release())}\.20261122\.102030\.g[0-9a-f]{{12}}', version)
    assert deb.name == f'workqueue-test-dkms_{version}_all.deb' and source.name == f'workqueue-test-{version}'
    assert field(deb, 'Maintainer') == 'A. Packager <a@packager.example>'
    assert field(deb, 'Depends').startswith('dkms')
    for path in root.rglob('*'):
        assert not path.is_file() or path.suffix == '.gz' or not re.search(r'@[A-Z]+@', path.read_text()), path


def test_files(made):
    _, root, source = made
    assert {path.name for path in source.iterdir()} == {'dkms.conf', *(path.name for path in module.sources())}
    for path in module.sources():
        assert (source / path.name).read_bytes() == path.read_bytes()
    assert {path.name for path in (root / 'usr/share/doc/workqueue-test-dkms').iterdir()} == {
        'changelog.gz', 'copyright', 'workqueue-benchmark.rst.gz', 'workqueue-torture.rst.gz'}
    for name in ('postinst', 'prerm'):      # debhelper's; they build and remove the modules
        assert f'DKMS_VERSION={field(made[0], "Version")}' in (root / 'DEBIAN' / name).read_text()


def test_same_commit_same_bytes(copy):
    first = make(copy).read_bytes()
    # this file is not in the package
    (copy / 'lib/cmwq/wq_api.h').write_text('/* other */\n')
    assert make(copy, umask=0o077, TZ='Asia/Tokyo', LANG='C').read_bytes() == first


@pytest.mark.parametrize('name', ['lib/cmwq/wqbench_item.c', 'lib/cmwq/wqbench_new.c',
                                  'scripts/wqlab/dkms/debian/rules', 'Documentation/core-api/workqueue-torture.rst'])
def test_changed_files_are_told(copy, monkeypatch, name):
    monkeypatch.setattr(package, 'ROOT', copy)
    before = package.origin()['VERSION']
    with open(copy / name, 'a') as file:
        file.write('\n')
    assert package.origin()['VERSION'] == f'{before}.changed'


def test_later_commit_is_newer(copy, monkeypatch):
    monkeypatch.setattr(package, 'ROOT', copy)
    first = package.origin()['VERSION']
    later = {name: '2026-11-22T10:20:31+0000' for name in WHO if name.endswith('DATE')}
    subprocess.run(['git', '-C', copy, 'commit', '-q', '--allow-empty', '-m', 'later'], check=True,
                   env={**os.environ, **WHO, **later})
    newer = ('dpkg', '--compare-versions', package.origin()['VERSION'], 'gt', f'{first}.changed')
    assert call(*newer).returncode == 0


def test_no_repository(copy):
    shutil.rmtree(copy / '.git')
    refuses('this is no git repository, .*: make it in a clone', 'scripts/lab', 'dkms', cwd=copy)


def test_failing_tool_leaves_nothing(copy, tmp_path):
    path = stub(tmp_path / 'bin', 'dpkg-buildpackage', 'exit 2')
    refuses('dpkg-buildpackage failed: see build/log/dkms.log', 'scripts/lab', 'dkms', cwd=copy, PATH=path, lines=2)
    assert not (copy / 'build/dkms').exists() and not list((copy / 'build').glob('.dkms-*'))


# dkms.conf

def told(source, kernel):
    """Read dkms.conf as DKMS does. Return (names of the modules, the pattern of kernels)."""
    script = ('. "$0" && printf "%s\\n" "$BUILD_EXCLUSIVE_KERNEL" "$PACKAGE_NAME-$PACKAGE_VERSION" '
              '"${BUILT_MODULE_NAME[*]}" "${DEST_MODULE_LOCATION[*]}"')
    done = call('bash', '-uc', script, source / 'dkms.conf', **({'kernelver': kernel} if kernel else {}))
    assert done.returncode == 0, done.stderr
    pattern, name, modules, places = done.stdout.splitlines()
    assert name == source.name and set(places.split()) == {'/updates/dkms'}
    assert len(places.split()) == len(modules.split())
    return modules.split(), pattern


@pytest.mark.parametrize('kernel', [
    '6.5.0-5-amd64', '6.9.7', '6.11.0-29-generic', '6.12.107+deb13-amd64', '6.12.0', '6.18.44', '6.100.1', '7.3.4',
    '10.0.0'])
def test_built_for(made, kernel):
    modules, pattern = told(made[2], kernel)
    major, minor = kernel.split('.')[:2]
    assert modules == module.modules_for((int(major), int(minor)))
    assert call('bash', '-c', '[[ $0 =~ $1 ]]', kernel, pattern).returncode == 0


@pytest.mark.parametrize('kernel', ['6.4.16-1', '6.1.0-41-amd64', '5.15.0-99', '5.6.5', '4.19.300', '6.50'])
def test_not_built_for(made, kernel):
    _, pattern = told(made[2], kernel)
    assert call('bash', '-c', '[[ $0 =~ $1 ]]', kernel, pattern).returncode == 1


def test_read_without_a_kernel(made):
    assert told(made[2], '')[0] == ['test_workqueue', 'wq_probe', 'wqtorture']

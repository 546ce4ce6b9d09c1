# SPDX-License-Identifier: GPL-2.0
"""make deb: the configuration of a packaged kernel, what becomes of the packages, and wrong calls."""
import re

import pytest

import guests
from calls import call, refuses
from wqlab.kernels import deb, tree
from wqlab.kernels.build import options, options_in
from wqlab.kernels.kinds import LINUX, Kind
from wqlab.paths import ROOT
from wqlab.steps import Failure

GIVEN = '''
CONFIG_64BIT=y
CONFIG_SMP=y
CONFIG_MODULES=y
CONFIG_PCI=y
CONFIG_NET=y
CONFIG_BLOCK=y
CONFIG_VIRTIO_MENU=y
CONFIG_VIRTIO_PCI=m
CONFIG_BLK_DEV=y
CONFIG_VIRTIO_BLK=m
CONFIG_BLK_DEV_LOOP=m
CONFIG_DEBUG_KERNEL=y
CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y
CONFIG_GONE_IN_THIS_RELEASE=y
'''
FRAGMENTS = [deb.CONFIGS / f'{name}.config' for name in ('deb', 'cmwq', 'no-debug-info')]


@pytest.fixture
def kind(tmp_path, monkeypatch):
    tree.compose(LINUX)
    monkeypatch.setattr(deb, 'BUILD', tmp_path)
    return deb.Packaged(Kind.of().engine)


def configured(kind, tmp_path, *, modules=None, fragments=FRAGMENTS):
    deb.configure(kind, GIVEN, modules, fragments, tmp_path / 'log')
    return options(kind.folder / '.config')


@pytest.mark.tier('more')
def test_configuration(kind, tmp_path, capfd):
    got = configured(kind, tmp_path)
    assert got['CONFIG_VIRTIO_BLK'] == got['CONFIG_BLK_DEV_LOOP'] == got['CONFIG_TEST_WORKQUEUE'] == 'm'
    assert got['CONFIG_WORKQUEUE_CMWQ'] == got['CONFIG_DEBUG_INFO_NONE'] == 'y'
    differ = (tmp_path / kind.name / 'differences').read_text().splitlines()
    assert differ == ['CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y', 'CONFIG_GONE_IN_THIS_RELEASE=y']
    assert 'deb: 2 options differ from the given configuration' in capfd.readouterr().err
    assert (kind.folder / 'localversion-variant').read_text() == '-cmwq\n'
    # What did not change is not written, for make to build nothing.
    before = (kind.folder / '.config').stat().st_mtime_ns
    configured(kind, tmp_path)
    assert (kind.folder / '.config').stat().st_mtime_ns == before


@pytest.mark.tier('all')
def test_the_base_variant_differs_in_nothing_else(kind, tmp_path):
    base = deb.Packaged(kind.engine, 'base')
    ours, theirs = configured(kind, tmp_path), configured(base, tmp_path, fragments=[
        deb.CONFIGS / f'{name}.config' for name in ('deb', 'base', 'no-debug-info')])
    assert {name for name in ours.keys() | theirs if ours.get(name) != theirs.get(name)} == {
        'CONFIG_WORKQUEUE_CMWQ', 'CONFIG_WORKQUEUE_BASE'}
    assert (base.folder / 'localversion-variant').read_text() == '-base\n'
    assert base.folder != kind.folder


@pytest.mark.tier('more')
def test_few_modules(kind, tmp_path):
    listed = tmp_path / 'lsmod'
    listed.write_text('Module                  Size  Used by\nvirtio_blk             28672  2\n')
    got = configured(kind, tmp_path, modules=listed)
    assert got['CONFIG_VIRTIO_BLK'] == got['CONFIG_TEST_WORKQUEUE'] == 'm'
    assert got.get('CONFIG_BLK_DEV_LOOP', 'n') == 'n'


@pytest.mark.tier('all')
def test_an_option_is_lost(kind, tmp_path):
    more = tmp_path / 'more.config'
    more.write_text('CONFIG_NO_SUCH_THING=y\n')
    with pytest.raises(Failure, match=r'these options were lost .*: CONFIG_NO_SUCH_THING=y$'):
        configured(kind, tmp_path, fragments=[*FRAGMENTS, more])
    assert not (kind.folder / '.config').exists()


def test_what_the_build_needs_is_installed():
    """dpkg-buildpackage refuses to begin without all that the kernel's own packages say they need."""
    text = (tree.compose(LINUX) / 'scripts/package/mkdebian').read_text()
    field, = re.findall(r'^Build-Depends-Arch: ((?:.*\n )*.*)$', text, re.M)
    # The compiler's name has the host's architecture in it. gcc provides it.
    needed = {re.match(r'[a-z0-9+.-]+', word.strip())[0] for word in field.split(',') if 'gcc-' not in word}
    assert len(needed) >= 8 and 'libelf-dev' in needed
    assert needed <= set(re.findall(r'\S:([a-z0-9+.-]+)', (guests.ROOT / 'scripts/deps.sh').read_text()))


def test_packages_replace_older_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(deb, 'BUILD', tmp_path)
    monkeypatch.setattr(deb, 'PLACE', tmp_path / 'deb')
    kind = deb.Packaged(Kind.of().engine)
    (kind.folder / 'debian').mkdir(parents=True)
    made = [f'{name}_7.3.4-2_amd64.{end}' for name, end in (
        ('linux-image-7.3.4-cmwq', 'deb'), ('linux-headers-7.3.4-cmwq', 'deb'), ('linux-libc-dev', 'deb'),
        ('linux-upstream', 'buildinfo'))]
    (kind.folder / 'debian/files').write_text(''.join(f'{name} kernel optional\n' for name in made))
    for name in made:
        (kind.folder.parent / name).touch()
    deb.PLACE.mkdir()
    for name in ('linux-image-7.3.4-cmwq_7.3.4-1_amd64.deb', 'linux-image-7.3.4-base_7.3.4-1_amd64.deb'):
        (deb.PLACE / name).touch()
    assert [path.name for path in deb.collect(kind)] == made[:2]
    assert {path.name for path in deb.PLACE.iterdir()} == {*made[:2], 'linux-image-7.3.4-base_7.3.4-1_amd64.deb'}
    assert [path.name for path in kind.folder.parent.iterdir()] == ['kernel']


@pytest.mark.tier('all')
def test_debians_configuration():
    """It is downloaded. The other tests need no mirror of Debian."""
    got = options_in(deb.debian_config(LINUX))
    assert got['CONFIG_EXT4_FS'] == 'y' and got['CONFIG_VIRTIO_BLK'] == 'm' and len(got) > 2500


def test_wrong_calls():
    for option in ('--config', '--modules', '--add'):
        done = call('scripts/lab', 'deb', option, '/nonexistent')
        assert done.returncode == 2 and '/nonexistent is not a file' in done.stderr
    refuses('LINUX=5.1: there is no patches/5.1', 'scripts/lab', 'deb', LINUX='5.1')


def test_without_the_tools(kind, monkeypatch):
    monkeypatch.setattr('shutil.which', lambda tool: None if tool == 'dh' else f'/bin/{tool}')
    with pytest.raises(Failure, match=r'^dh is missing: run CONFIG=packages scripts/deps.sh \(as root\) first$'):
        deb.write(kind, GIVEN)


def test_headers_stay_in_the_package():
    """A package of headers takes links as they are. One that leads out of the tree ends nowhere on another machine."""
    place = tree.compose()
    assert (place / 'include/linux/cmwq/workqueue.h').read_text() == (ROOT / 'include/linux/workqueue.h').read_text()
    links = [path for path in (place / 'include').rglob('*') if path.is_symlink()]
    assert all(path.resolve().is_relative_to(place.resolve()) for path in links), links

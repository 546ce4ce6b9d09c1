# SPDX-License-Identifier: GPL-2.0
"""
Modules that others have written compile with our headers as they do with the base's.

They are those that Debian packs for DKMS, and its dkms(8) builds them. No kernel is built, only what modules need to
be compiled: they are not linked to the kernel's symbols, so the names of those are compared here. What does not build
with the base either is skipped with its reason.
"""
import dataclasses
import functools
import os
import re
import shutil
import subprocess

import pytest

import builds
import debian_root
import debs
from builds import OLD
from once import once
from progress import say
from wqlab import files
from wqlab.kernels import deb, debian, kinds, tree
from wqlab.kernels.build import release_of, run_make
from wqlab.paths import BUILD, ROOT
from wqlab.steps import plain_environment
from wqlab.tap import Point

pytestmark = pytest.mark.tier('all')
FLAVOUR = 'amd64'       # Debian's kernel for clouds has no USB, HID or DRM, which many of these modules need
# Packages that show nothing here, and why
LEFT_OUT = {
    'dh-dkms': 'has no module', 'dkms-test-dkms': 'has no code', 'dkms-replace-test-dkms': 'has no code',
    'dkms-noautoinstall-test-dkms': 'has no code',
    'openafs-modules-dkms': 'its configure looks for symbols of the kernel, which is not built',
    'osmocom-dahdi-dkms': 'is dahdi-dkms with few changes', 'ezurio-qcacld-2.0-dkms': 'takes too long',
}
# In a namespace of its own, /lib/modules has a folder for the kernel. Nothing is written there.
AS_INSTALLED = 'mount -t overlay overlay -o "lowerdir=$0:/usr/lib" /usr/lib && exec "$@"'
ALONE = debian_root.ALONE or ('unshare', '--map-root-user', '--mount')


@dataclasses.dataclass(frozen=True)
class Release:
    linux: str
    suite: str          # whose packages are for this kernel
    packages: int       # that build, at least
    users: int          # of them, that use workqueues
    # Symbols that callers of the same functions use: of the base, ours
    renamed: dict = dataclasses.field(default_factory=dict, hash=False)


RELEASES = (
    Release(kinds.LINUX, 'sid', 25, 10),
    # alloc_workqueue() is a macro here, as in later releases, and schedule_work() uses the new name of system_wq.
    Release(OLD, 'trixie', 25, 8, {'alloc_workqueue': 'alloc_workqueue_noprof', 'system_wq': 'system_percpu_wq'}),
)
each_release = pytest.mark.parametrize('release', RELEASES, ids=lambda release: release.linux)


class Headers(deb.Packaged):
    """A kernel of which only what modules need is made."""
    @property
    def name(self):
        return f'headers-{self.variant}-{self.linux}'

    @property
    def place(self):
        return BUILD / 'others' / self.name


@dataclasses.dataclass
class Built:
    """What became of one package."""
    why: str = ''               # it did not build
    warnings: frozenset = frozenset()
    symbols: dict = dataclasses.field(default_factory=dict)     # module -> its undefined symbols

    @property
    def undefined(self):
        return set().union(*self.symbols.values())


# Build

def prepared(release, variant):
    """Make what modules need. Return the kernel."""
    kind, log = Headers(kinds.ENGINES['qemu'], variant, linux=release.linux), BUILD / 'log/headers.log'
    log.parent.mkdir(exist_ok=True)
    with builds.without_unfit(release.linux):
        tree.compose(release.linux)
    deb.configure(kind, deb.debian_config(release.linux, FLAVOUR), None, deb.fragments_of(variant), log)
    run_make(kind, log, 'modules_prepare')
    for name in ('lib', 'src', 'tree'):
        shutil.rmtree(kind.place / name, ignore_errors=True)
    (kind.place / 'tree').mkdir(parents=True)
    modules = kind.place / 'lib/modules' / release_of(kind.folder)
    modules.mkdir(parents=True)
    (modules / 'build').symlink_to(kind.folder)
    (modules / 'source').symlink_to(kind.tree)
    return kind


def plain(kind, line):
    """Return a warning without what differs between kernels that differ in nothing but our headers."""
    line = line.replace('linux/cmwq/', 'linux/')
    line = re.sub(rf'-{kind.variant}\b', '', line)
    line = re.sub(r'(__warn_flushing_systemwide_wq. declared with attribute warning).*', r'\1', line)
    return re.sub(r'(linux/workqueue\.h):[\d:]+|(?<=\w)\+0x[0-9a-f]+', r'\1', line)


def undefined(module):
    done = subprocess.run(['nm', '-u', '-j', module], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


def build(kind, dkms, package):
    """Build the modules of one unpacked package."""
    conf, = package.glob('usr/src/*/dkms.conf')
    name = subprocess.run(['bash', '-c', '. "$0" >/dev/null; echo "$PACKAGE_NAME"', conf], capture_output=True,
                          text=True, check=True).stdout.strip()
    version = conf.parent.name.removeprefix(f'{name}-')
    environment = plain_environment(PATH=f'/usr/lib/ccache:{os.environ["PATH"]}', CCACHE_BASEDIR=ROOT,
                                    CCACHE_NOHASHDIR='1', KBUILD_MODPOST_WARN='1', sign_file='none')
    release, made = release_of(kind.folder), kind.place / 'tree'
    done = subprocess.run([*ALONE, 'sh', '-c', AS_INSTALLED, kind.place / 'lib', dkms, 'build', '-m', name,
                           '-v', version, '-k', release, '--sourcetree', conf.parent.parent, '--dkmstree', made],
                          env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors='replace', check=False)
    logs = list((made / name).glob('*/**/make.log'))
    log = logs[0].read_text(errors='replace') if logs else ''
    if done.returncode:
        return Built(why=reason(log or done.stdout))
    modules = (made / name / version).glob('*/*/module/*.ko')
    return Built(warnings=frozenset(plain(kind, line) for line in log.splitlines() if 'warning:' in line),
                 symbols={module.name: undefined(module) for module in modules})


def reason(log):
    """Return the first error in a log, or its end."""
    found = re.search(r'^.*(?:error[:!] |\*\*\*|BUILD_EXCLUSIVE).*$', log, re.M | re.I)
    return found[0].strip() if found else f'...{log.strip()[-200:]}'


@once
def packages(suite):
    """Download them, and dkms. Return {name: file}."""
    found = debs.matching(suite, '^dkms$|-dkms$')
    named = {path.name.partition('_')[0]: path for path in found}
    return {name: path for name, path in named.items() if name not in LEFT_OUT}


@once
def built(release, variant):
    """Return {package: what became of it}."""
    kind, result = prepared(release, variant), {}
    debs = dict(packages(release.suite))
    dkms = kind.place / 'src/dkms'
    files.write(dkms, debian.unpack(debs.pop('dkms'), './usr/sbin/dkms'), 0o755)
    for name, path in debs.items():
        say(f'{kind.name}: building {name}')
        subprocess.run(['dpkg-deb', '-x', path, kind.place / 'src' / name], check=True)
        result[name] = build(kind, dkms, kind.place / 'src' / name)
    return result


# Compare

@functools.cache
def exported(release, variant):
    """Return the symbols that the workqueue exports to modules, and how: {name: macro}."""
    paths = list((ROOT / 'kernel/workqueue').glob('*.c'))
    if variant == 'base':
        paths = [BUILD / f'linux-{release.linux}/kernel/workqueue.c']
    found = [re.findall(r'^(EXPORT_SYMBOL\w*)\((\w+)\)', path.read_text(), re.M) for path in paths]
    return {name: macro for pairs in found for macro, name in pairs}


def used(release, one):
    """Return the symbols of the base's workqueue that the modules of a package use."""
    return one.undefined & set(exported(release, 'base'))


def problem(release, base, ours):
    """Return what differs between two builds of a package, of which the first succeeded."""
    def same(symbols):
        return {release.renamed.get(symbol, symbol) for symbol in symbols}

    if ours.why:
        return f'does not build with our headers: {ours.why}'
    if base.symbols.keys() != ours.symbols.keys():
        return f'other modules: {" ".join(base.symbols.keys() ^ ours.symbols.keys())}'
    differ = {symbol for module in base.symbols for symbol in same(base.symbols[module]) ^ same(ours.symbols[module])}
    if differ:
        return f'other symbols: {" ".join(sorted(differ))}'
    if base.warnings != ours.warnings:
        return 'other warnings:\n' + '\n'.join(sorted(base.warnings ^ ours.warnings))
    theirs, mine = exported(release, 'base'), exported(release, 'cmwq')
    theirs = {new: theirs[old] for old, new in release.renamed.items()} | theirs
    lost = [symbol for symbol in ours.undefined & theirs.keys() if mine.get(symbol) != theirs[symbol]]
    return f'not exported as by the base: {" ".join(sorted(lost))}' if lost else ''


@each_release
def test_they_compile_as_with_the_base(release, report_points):
    base, ours = (built(release, variant) for variant in ('base', 'cmwq'))
    points = []
    for name, one in base.items():
        wrong = '' if one.why else problem(release, one, ours[name])
        points.append(Point(name, not wrong, wrong or one.why and f'not with the base either: {one.why}',
                            skipped=bool(one.why)))
    report_points(points)


@each_release
def test_enough_of_them_compile(release):
    """Or else the other test shows nothing."""
    base = {name: one for name, one in built(release, 'base').items() if not one.why}
    users = {name: used(release, one) for name, one in base.items() if used(release, one)}
    symbols = set().union(*users.values())
    say(f'{release.linux}: {len(base)} packages with {sum(len(one.symbols) for one in base.values())} modules')
    for name, names in users.items():
        say(f'{release.linux}: {name}: {" ".join(sorted(names))}')
    say(f'{release.linux}: {len(users)} packages use {len(symbols)} of {len(exported(release, "base"))} symbols')
    assert len(base) >= release.packages
    assert len(users) >= release.users


# Does it find a difference?

GOOD = {'a.ko': frozenset({'alloc_workqueue', 'flush_work', 'kfree'})}
NEWER = {'a.ko': frozenset({'alloc_workqueue_noprof', 'flush_work', 'kfree'})}
WARNING = frozenset({'a.c:1:2: warning: unused variable'})


@pytest.mark.tier('quick')
@pytest.mark.parametrize('release, ours, says', [
    (RELEASES[0], Built(symbols=GOOD), ''),
    (RELEASES[1], Built(symbols=NEWER), ''),
    (RELEASES[0], Built(symbols=NEWER), 'other symbols: alloc_workqueue alloc_workqueue_noprof'),
    (RELEASES[0], Built(symbols={'a.ko': GOOD['a.ko'] - {'kfree'}}), 'other symbols: kfree'),
    (RELEASES[0], Built(symbols={**GOOD, 'b.ko': frozenset()}), 'other modules: b.ko'),
    (RELEASES[0], Built(symbols=GOOD, warnings=WARNING), f'other warnings:\n{min(WARNING)}'),
    (RELEASES[0], Built(why='a.c:3:4: error: no'), 'does not build with our headers: a.c:3:4: error: no'),
])
def test_a_difference_is_found(monkeypatch, release, ours, says):
    same = {'alloc_workqueue': 'EXPORT_SYMBOL_GPL', 'system_wq': 'EXPORT_SYMBOL', 'flush_work': 'EXPORT_SYMBOL_GPL'}
    mine = {**same, 'alloc_workqueue_noprof': 'EXPORT_SYMBOL_GPL'}
    monkeypatch.setattr(f'{__name__}.exported', lambda _, variant: same if variant == 'base' else mine)
    assert problem(release, Built(symbols=GOOD), ours) == says
    if not says:
        mine['flush_work'] = 'EXPORT_SYMBOL'
        assert problem(release, Built(symbols=GOOD), ours) == 'not exported as by the base: flush_work'


@pytest.mark.tier('quick')
def test_what_differs_between_any_two_kernels_is_left_out():
    flush = "call to '__warn_flushing_systemwide_wq' declared with attribute warning"
    seen = [('base', f'../headers-base-7.3/linux/workqueue.h:12:2: x+0x1: {flush}: avoid: it'),
            ('cmwq', f'../headers-cmwq-7.3/linux/cmwq/workqueue.h:3:45: x+0x23: {flush}: do not')]
    assert {plain(Headers(kinds.ENGINES['qemu'], variant), line) for variant, line in seen} == {
        f'../headers-7.3/linux/workqueue.h x: {flush}'}

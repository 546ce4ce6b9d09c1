# SPDX-License-Identifier: GPL-2.0
"""Make Debian packages of a kernel with our workqueue, to install like any other kernel.

usage: [VARIANT=cmwq|base] [LINUX=RELEASE] scripts/lab deb [OPTIONS]

The configuration is that of Debian's kernel for clouds (cloud-amd64) of the same release.
configs/deb.config says what is changed. The packages linux-image-* and linux-headers-* are
made by the kernel's own target bindeb-pkg and put into build/deb. VARIANT=base makes a
kernel that differs in nothing but the workqueue, to compare the two.
"""
import argparse
import dataclasses
import lzma
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from wqlab import files
from wqlab.kernels import debian, tree
from wqlab.kernels.build import not_taken, options_in, release_of, run_make
from wqlab.kernels.kinds import Kind, tested
from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure, first_match, locked, need, sayer, shown

say = sayer('deb')
PLACE = BUILD / 'deb'
CONFIGS = ROOT / 'configs'
KEPT = ('linux-image-', 'linux-headers-')       # bindeb-pkg also makes linux-libc-dev, which Debian has


@dataclasses.dataclass(frozen=True)
class Packaged(Kind):
    """A kernel to be packed. bindeb-pkg puts the packages beside its folder, so that has a parent of its own."""
    few: bool = False       # modules

    @property
    def name(self) -> str:
        return f'deb-{self.variant}-{self.linux}{"-few" if self.few else ""}'

    @property
    def folder(self) -> Path:
        return BUILD / self.name / 'kernel'


# The configuration

def debian_config(linux: str, flavour: str = 'cloud-amd64') -> str:
    """Return the configuration of one of Debian's kernels, by default that for clouds."""
    deb = debian.fetched(f'linux-config-{linux}', tested(linux)['suites'], 'amd64')
    packed = debian.unpack(deb, f'*/config.amd64_none_{flavour}.xz')
    return lzma.decompress(packed).decode()


def settled(kind: Packaged, text: str, target: str, log: Path, **environment: Path) -> str:
    """Return a configuration after a target of kconfig. It runs in another folder, for .config to stay as it is."""
    scratch = kind.folder.with_name('configure')
    files.write(scratch / '.config', text)
    with open(log, 'wb') as out:
        done = subprocess.run([*kind.make('-s', target), f'O={scratch}'], stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.STDOUT, check=False,
                              env=kind.environment() | {name: str(path) for name, path in environment.items()})
    if done.returncode:
        raise Failure(f'{target} failed: {first_match(log.read_text(errors="replace"), "error", "***")}')
    return (scratch / '.config').read_text()


def configure(kind: Packaged, given: str, modules: Path | None, fragments: Sequence[Path], log: Path) -> None:
    """Write .config, and beside the folder which options of the given configuration are not as they were."""
    text = settled(kind, given, 'olddefconfig', log)
    if modules:
        text = settled(kind, text, 'localmodconfig', log, LSMOD=modules.resolve())
    wanted = '\n'.join(files.read(fragment) for fragment in fragments)
    text = settled(kind, f'{text}\n{wanted}', 'olddefconfig', log)
    got = options_in(text)
    # An option that an empty string disables may as well not exist.
    if lost := [option for option in not_taken(options_in(wanted), got) if not option.endswith('=""')]:
        raise Failure(f'{kind.name}: these options were lost (check their dependencies): {" ".join(lost)}')
    place = kind.folder / '.config'
    if not place.exists() or place.read_text() != text:
        files.write(place, text)
    files.write(kind.folder / 'localversion-variant', f'-{kind.variant}\n')
    differ = not_taken(options_in(given), got)
    report = kind.folder.with_name('differences')
    files.write(report, ''.join(f'{option}\n' for option in differ))
    say(f'{len(differ)} options differ from the given configuration: see {shown(report)}')


def fragments_of(variant: str, debug_info: bool = False) -> list[Path]:
    return [CONFIGS / f'{name}.config' for name in ('deb', variant, *(() if debug_info else ('no-debug-info',)))]


# The packages

def collect(kind: Packaged) -> list[Path]:
    """Move the packages that were just made to build/deb, and delete their older versions."""
    made = [line.split()[0] for line in (kind.folder / 'debian/files').read_text().splitlines()]
    PLACE.mkdir(exist_ok=True)
    found = []
    for name in made:
        path = kind.folder.parent / name
        if name.startswith(KEPT) and name.endswith('.deb'):
            for old in PLACE.glob(f'{name.partition("_")[0]}_*.deb'):
                old.unlink()
            found.append(path.replace(PLACE / name))
        else:
            path.unlink(missing_ok=True)
    return found


def write(kind: Packaged, given: str, modules: Path | None = None, fragments: Sequence[Path] = ()) -> list[Path]:
    """Build the kernel and its packages. Return their paths."""
    need('make', 'gcc', 'flex', 'bison', 'bc')
    need('dpkg-buildpackage', 'dh', 'rsync', config='packages')
    tree.compose(kind.linux)
    log = BUILD / f'log/{kind.name}.log'
    log.parent.mkdir(parents=True, exist_ok=True)
    with locked(kind.name):
        configure(kind, given, modules, fragments, log)
        run_make(kind, log, 'KDEB_CHANGELOG_DIST=unstable', 'bindeb-pkg')
        return collect(kind)


def parse_args(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--config', metavar='FILE', type=Path,
                        help='start from this configuration, such as /boot/config-...')
    parser.add_argument('--modules', metavar='FILE', type=Path,
                        help='build only the modules that this output of lsmod names, which takes a third of the time')
    parser.add_argument('--add', metavar='FILE', type=Path, action='append', default=[],
                        help='also set the options in this file')
    parser.add_argument('--debug-info', action='store_true',
                        help='keep debug information, which drgn needs, in a package linux-image-*-dbg; takes 20 GB')
    args = parser.parse_args(argv)
    for path in [args.config, args.modules, *args.add]:
        if path and not path.is_file():
            parser.error(f'{path} is not a file')
    return args


def main(argv: list[str]) -> int:
    args = parse_args(argv)
    asked = Kind.asked({name: os.environ.get(name, '') for name in ('VARIANT', 'LINUX')})
    kind = Packaged(asked.engine, asked.variant, asked.config, asked.linux, few=bool(args.modules))
    fragments = [*fragments_of(kind.variant, args.debug_info), *args.add]
    given = files.read(args.config) if args.config else debian_config(kind.linux)
    for path in write(kind, given, args.modules, fragments):
        say(f'{shown(path)}: install it by apt')
    say(f'the kernel is Linux {release_of(kind.folder)}')
    return 0

# SPDX-License-Identifier: GPL-2.0
"""The kernels that can be built. For each: its folder, its make command, and its fragments from configs/."""
import dataclasses
import os
import re
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure, plain_environment

LINUX = '7.3'     # the base of make without LINUX=; patches/RELEASE.toml describes each
TREE = ('LINUX', 'KERNEL_SRC', 'LINUX_TARBALL', 'LINUX_TARBALL_SHA256')       # variables that choose the base tree
VARIANTS = ('cmwq', 'base')
CONFIGS = ('release', 'debug', 'kcsan', 'preempt', 'rt', 'up', 'workload')
COMMON = ('common', 'workqueue', 'cgroup', 'tracing', 'hang', 'kunit', 'bench', 'selftest', 'torture')
UML_SMP = (6, 19)      # the first release in which UML can have several CPUs
LIKE_RELEASE = ('preempt', 'rt', 'up', 'workload')      # the release configuration and more


@dataclasses.dataclass(frozen=True)
class Engine:
    name: str
    arch: str
    image: str              # path of the kernel in its build folder
    fragments: tuple[str, ...]
    configs: tuple[str, ...]
    cross: str = ''


ENGINES = {engine.name: engine for engine in (
    Engine('qemu', 'x86_64', 'arch/x86/boot/bzImage', (*COMMON, 'qemu', 'pm', 'virtme', 'crashdump'),
           ('release', 'debug', 'kcsan', 'preempt', 'rt', 'workload')),
    Engine('uml', 'um', 'linux', (*COMMON, 'uml'), ('release', 'debug', 'up', 'workload')),
    Engine('arm64', 'arm64', 'arch/arm64/boot/Image', (*COMMON, 'arm64', 'pm', 'crashdump'),
           ('release', 'debug', 'kcsan', 'preempt', 'rt', 'workload'), cross='aarch64-linux-gnu-'),
)}


def release(linux: str) -> str:
    if not re.fullmatch(r'[0-9]+\.[0-9]+', linux):
        raise Failure(f'LINUX={linux} is no release of Linux: give one, such as LINUX={LINUX}')
    return linux


def asked_linux() -> str:
    return release(os.environ.get('LINUX') or LINUX)


def one_of(name: str, value: str, allowed) -> str:
    if value not in allowed:
        raise Failure(f'{name}={value}: must be one of: {" ".join(allowed)}')
    return value


def releases() -> list[str]:
    """Return the bases, newest first."""
    return sorted((path.stem for path in (ROOT / 'patches').glob('*.toml')), key=numbers, reverse=True)


def numbers(linux: str) -> tuple[int, ...]:
    """Return a release as numbers, to compare it."""
    return tuple(map(int, linux.split('.')))


def tested(linux: str) -> dict[str, Any]:
    """Return what patches/ says of a base. Raise Failure if it is none."""
    if linux not in releases():
        raise Failure(f'LINUX={linux}: there is no patches/{linux}.toml: choose one of {" ".join(releases())}')
    return tomllib.loads((ROOT / f'patches/{linux}.toml').read_text())


def uml_is_smp(linux: str) -> bool:
    return numbers(linux) >= UML_SMP


def compiler(cross: str = '') -> str:
    return ('ccache ' if shutil.which('ccache') else '') + f'{cross}gcc'


@dataclasses.dataclass(frozen=True)
class Kind:
    engine: Engine
    variant: str = 'cmwq'
    config: str = 'release'
    linux: str = LINUX

    @classmethod
    def of(cls, engine='qemu', variant='cmwq', config='release', linux=LINUX) -> 'Kind':
        """Return a kind that can be built, or raise Failure."""
        kind = cls(ENGINES[one_of('ENGINE', engine, ENGINES)], one_of('VARIANT', variant, VARIANTS),
                   one_of('CONFIG', config, CONFIGS), release(linux))
        tested(linux)
        if engine == 'uml' and config != 'up' and not uml_is_smp(linux):
            raise Failure(f'LINUX={linux}: UML has one CPU before {UML_SMP[0]}.{UML_SMP[1]}: '
                          'use CONFIG=up or ENGINE=qemu')
        if config not in kind.engine.configs:
            other = 'uml' if config == 'up' else 'qemu'
            raise Failure(f'{engine.upper()} cannot have CONFIG={config}: use ENGINE={other}')
        return kind

    @classmethod
    def asked(cls, environ: Mapping[str, str] = os.environ) -> 'Kind':
        """Return the kind that the environment names. make passes its variables there."""
        return cls.of(*(environ.get(name) or default for name, default in (
            ('ENGINE', 'qemu'), ('VARIANT', 'cmwq'), ('CONFIG', 'release'), ('LINUX', LINUX))))

    @property
    def name(self) -> str:
        return f'{self.engine.name}-{self.variant}-{self.config}-{self.linux}'

    @property
    def folder(self) -> Path:
        return BUILD / self.name

    @property
    def image(self) -> Path:
        return self.folder / self.engine.image

    @property
    def tree(self) -> Path:
        return BUILD / f'tree-{self.linux}'

    @property
    def fragments(self) -> list[Path]:
        names = [*self.engine.fragments]
        names += [name for name in (self.linux, f'{self.engine.name}-{self.linux}', f'{self.variant}-{self.linux}')
                  if (ROOT / f'configs/{name}.config').is_file()]
        if self.config in LIKE_RELEASE:
            names.append('release')
        names.append(self.config)
        if (ROOT / f'configs/{self.config}-{self.engine.name}.config').is_file():
            names.append(f'{self.config}-{self.engine.name}')
        paths = [ROOT / f'configs/{name}.config' for name in (*names, self.variant)]
        for path in paths:
            if not path.is_file():
                raise Failure(f'configs/{path.name} is missing')
        return paths

    def make(self, *words: str) -> list[str]:
        """Return the make command for this kernel.

        ccache sees paths relative to the checkout, so that all clones share one cache. The
        last option keeps the name of the tree out of the file names in WARN().
        """
        return ['nice', 'make', '-C', str(self.tree), f'O={self.folder}', f'ARCH={self.engine.arch}',
                f'CROSS_COMPILE={self.engine.cross}', f'CC={compiler(self.engine.cross)}', f'HOSTCC={compiler()}',
                f'KCFLAGS=-fmacro-prefix-map=../{self.tree.name}/=', *words]

    def environment(self) -> dict[str, str]:
        return plain_environment(CCACHE_BASEDIR=ROOT, CCACHE_NOHASHDIR='1')

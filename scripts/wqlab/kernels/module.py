# SPDX-License-Identifier: GPL-2.0
"""Build the benchmark modules for a kernel 6.5 or later, and the torture test for 6.12 or later.

usage: KDIR=DIR scripts/lab module

KDIR is a kernel's build folder; the default is that of the running kernel. The results are
test_workqueue.ko, wq_probe.ko and wqtorture.ko in build/module-<kernel release>/.
"""
import argparse
import os
import platform
import re
import shutil
import sys
from pathlib import Path

from wqlab import files
from wqlab.kernels.build import ERRORS, need, options, release_of
from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure, locked, logged, sayer, shown

say = sayer('module')
OLDEST, OLDEST_TORTURE = (6, 5), (6, 12)
# uname -m -> ARCH=, if the kernel's arch/ uses another name.
ARCHES = {'aarch64': 'arm64', 'i386': 'x86', 'i686': 'x86', 'ppc64le': 'powerpc', 'ppc64': 'powerpc',
          'riscv64': 'riscv', 's390x': 's390', 'loongarch64': 'loongarch', 'armv7l': 'arm', 'armv6l': 'arm'}
# The headers tell what a kernel lacks. Its version would not, since distributions backport
# features to old releases.
BENCH = r'''
obj-m += test_workqueue.o wq_probe.o
test_workqueue-y := $(patsubst $(src)/%.c,%.o,$(wildcard $(src)/wqbench_*.c))
without = $(if $(shell grep -w $(1) $(srctree)/include/linux/$(2)),,-D$(3))
ccflags-y += $(call without,WQ_PERCPU,workqueue.h,WQBENCH_NO_PERCPU_FLAG)
ccflags-y += $(call without,WQ_BH,workqueue.h,WQBENCH_NO_BH)
ccflags-y += $(call without,hrtimer_setup,hrtimer.h,WQBENCH_NO_HRTIMER_SETUP)
'''
TORTURE = r'''
obj-m += wqtorture.o
wqtorture-y := $(patsubst $(src)/%.c,%.o,$(wildcard $(src)/wqtorture_*.c))
ccflags-y += $(call without,WQ_PERCPU,workqueue.h,WQT_NO_PERCPU_FLAG)
ccflags-y += $(call without,hrtimer_setup,hrtimer.h,WQT_NO_HRTIMER_SETUP)
'''


def kernel_folder(given: str) -> Path:
    """Return the build folder if modules can be built against it. Raise Failure if not."""
    folder = Path(given).resolve()
    if not folder.is_dir():
        raise Failure(f"KDIR={given} is not a directory: name a kernel's build folder")
    if not (folder / 'include/config/kernel.release').is_file() or not (folder / '.config').is_file():
        raise Failure(f"KDIR={given} is not configured and built: run 'make' or at least 'make modules_prepare' there")
    if not (folder / 'Module.symvers').is_file():
        raise Failure(f'KDIR={given} has no Module.symvers: build that kernel first')
    if version_of(folder) < OLDEST:
        raise Failure(f'KDIR={given} is Linux {release_of(folder)}: affinity scopes need 6.5 or later')
    if options(folder / '.config').get('CONFIG_MODULES') != 'y':
        raise Failure(f'KDIR={given} was configured without CONFIG_MODULES: enable it and build that kernel')
    return folder


def version_of(folder: Path) -> tuple[int, int]:
    match = re.match(r'(\d+)\.(\d+)', release_of(folder))
    if not match:
        raise Failure(f'{folder}/include/config/kernel.release does not contain a release: {release_of(folder)!r}')
    return int(match[1]), int(match[2])


def arch_of(folder: Path) -> str:
    if options(folder / '.config').get('CONFIG_UML') == 'y':
        return 'um'
    machine = platform.machine()
    return ARCHES.get(machine, machine)


def build(folder: Path) -> list[Path]:
    release = release_of(folder)
    place, log = BUILD / f'module-{release}', BUILD / f'log/module-{release}.log'
    modules, sources = ['test_workqueue', 'wq_probe'], ['wqbench*.[ch]', 'wq_probe.c', 'wq_hist.h']
    torture = version_of(folder) >= OLDEST_TORTURE
    if torture:
        modules.append('wqtorture')
        sources.append('wqtorture*.[ch]')
    need('make', 'gcc')
    with locked(place.name):
        place.mkdir(parents=True, exist_ok=True)
        for pattern in sources:
            for source in (ROOT / 'lib').glob(pattern):
                copy = place / source.name
                if not copy.exists() or copy.read_bytes() != source.read_bytes():
                    shutil.copy(source, copy)
        files.write(place / 'Kbuild', BENCH + (TORTURE if torture else ''))
        if logged(log, f'building {" ".join(modules)} for {release}',
                  ['make', '-C', folder, f'M={place}', f'ARCH={arch_of(folder)}', 'modules'], say=say):
            lines = log.read_text(errors='replace').splitlines()
            print('\n'.join([line for line in lines if ERRORS.search(line)][:10]), file=sys.stderr)
            raise Failure(f'the modules do not build against {release}: see {shown(log)}')
    return [place / f'{module}.ko' for module in modules]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    given = os.environ.get('KDIR') or f'/lib/modules/{platform.release()}/build'
    for path in build(kernel_folder(given)):
        say(shown(path))
    return 0

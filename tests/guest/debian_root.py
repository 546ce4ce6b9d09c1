# SPDX-License-Identifier: GPL-2.0
"""Run a script in a root of Debian, which mmdebstrap makes. Keep the files that the script saves, or an image."""
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import guests
from wqlab import procs
from wqlab.kernels import debian
from wqlab.paths import BUILD

CACHE = BUILD / 'apt/debs'      # packages of earlier runs
SUITE = 'trixie'
LIMIT_S = 3600
# A mount that is left over goes with the namespace. Without root, mmdebstrap makes one itself.
ALONE = ('unshare', '--mount') if os.geteuid() == 0 else ()
# Neither manuals nor other languages are of use here.
OPTIONS = ('--aptopt=Acquire::Languages none', '--aptopt=Dpkg::Use-Pty 0', '--aptopt=Apt::Install-Recommends 0',
           '--dpkgopt=path-exclude=/usr/share/man/*', '--dpkgopt=path-exclude=/usr/share/locale/*')


@functools.cache
def place():
    """Make a folder for this run. It is deleted at the end, or by the next run if this one is killed."""
    guests.RESULTS.mkdir(parents=True, exist_ok=True)
    procs.remove_leftovers(guests.RESULTS, 'root-*')
    return tempfile.TemporaryDirectory(prefix=f'root-{os.getpid()}-', dir=guests.RESULTS)


def run(script, name, given=(), suite=SUITE, more=(), image=False):
    """
    Make a root of the suite, in which apt also knows more suites. Run the script there with sh -e, in a folder with
    the given files. Return a folder with the files that the script has put into `out` there. The root is gone then,
    or with image, it is the file system `root.ext4` in this folder.
    """
    if not shutil.which('mmdebstrap'):
        raise AssertionError('mmdebstrap is missing: run CONFIG=packages scripts/deps.sh (as root) first')
    work, log = Path(place().name) / name, guests.RESULTS / f'{name}.log'
    for folder in (work / 'in', work / 'tmp'):
        folder.mkdir(parents=True)
    for path in given:
        shutil.copy(path, work / 'in')
    (work / 'in/script').write_text(script)
    CACHE.mkdir(parents=True, exist_ok=True)
    mirror = debian.mirror()
    hooks = [f'--setup-hook={hook}' for hook in ('mkdir -p "$1"/var/cache/apt/archives/',
                                                 f'sync-in {CACHE} /var/cache/apt/archives/')]
    hooks += [f'--customize-hook={hook}' for hook in (
        f'copy-in {work}/in /root', 'chroot "$1" sh -ec "mkdir /root/in/out; cd /root/in; . ./script"',
        f'tar-out /root/in/out {work}/out.tar', f'sync-out /var/cache/apt/archives {CACHE}')]
    if image:
        hooks.append('--customize-hook=rm -r "$1"/root/in')
    target = work / 'root.ext2' if image else '/dev/null'
    guests.say(f'{name}: making a root of {suite} (log: {log.relative_to(BUILD.parent)})')
    with open(log, 'wb') as out, procs.kept(
            [*ALONE, 'mmdebstrap', '--variant=apt', '--skip=essential/unlink', *OPTIONS, *hooks, suite, target,
             *(f'deb [signed-by={debian.KEYRING}] {mirror} {one} main' for one in (suite, *more))],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            # Debian's kernel gets another initrd.
            env={**os.environ, 'TMPDIR': str(work / 'tmp'), 'INITRD': 'No', 'LC_ALL': 'C'}) as child:
        assert child.wait(timeout=LIMIT_S) == 0, log.read_text(errors='replace')[-3000:]
    subprocess.run(['tar', '-xf', work / 'out.tar', '-C', work, '--no-same-owner'], check=True)
    if image:
        # mmdebstrap's own format has no long files.
        subprocess.run(['tune2fs', '-O', 'extents,dir_index,has_journal', target], check=True, capture_output=True)
        target.rename(work / 'out/root.ext4')
    return work / 'out'

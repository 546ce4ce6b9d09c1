# SPDX-License-Identifier: GPL-2.0
"""Call the project's programs as a user does."""
import contextlib
import itertools
import os
import re
import subprocess
import time
from pathlib import Path

from wqlab import procs
from wqlab.paths import ROOT

MAKEFILE = (ROOT / 'Makefile').read_text()
TREE, = re.findall('^TREE = (.*)$', MAKEFILE, re.M)
VALUES = (*re.findall('^VALUES = (.*)$', MAKEFILE, re.M)[0].replace('$(TREE)', TREE).split(), 'ARGS', 'ONLY')
FOR_MAKE = (*VALUES, 'MAKEFLAGS', 'MFLAGS', 'MAKELEVEL')
# If a shell starts a program in the background, as a CI may do, the program ignores Ctrl-C. If nohup starts it, it
# ignores the end of its terminal. With this command it ignores neither.
HEARS_ALL = ('env', '--default-signal=INT', '--default-signal=HUP')
CLEAN_ENV = {name: value for name, value in os.environ.items() if name not in FOR_MAKE}


def call(*command, cwd=ROOT, timeout=60, **env):
    return subprocess.run([str(word) for word in command], cwd=cwd, env={**CLEAN_ENV, **env}, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout, check=False)


def refuses(pattern, *command, lines=1, **kwargs):
    """Assert that the call fails with a one-line message that matches."""
    done = call(*command, **kwargs)
    said = done.stderr.strip().splitlines()
    assert done.returncode, f'succeeded and said {done.stdout + done.stderr}'
    assert said and re.search(pattern, said[-1]), done.stderr
    assert len(said) <= lines, done.stderr
    assert 'Traceback' not in done.stderr
    return done


def wait_until(condition, seconds=30):
    """Wait until the condition holds. Fail if it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f'it did not happen in {seconds} s'
        time.sleep(0.02)


def stub(folder, name, script='exit 100'):
    """Make a program of this name that only runs @script. Return a PATH that starts with its folder."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'#!/bin/sh\n{script}\n')
    (folder / name).chmod(0o755)
    return f'{folder}:{os.environ["PATH"]}'


def path_without(folder, *names):
    """Return a PATH that has all programs but these."""
    place = folder / 'tools'
    place.mkdir()
    for tool in itertools.chain.from_iterable(Path(found).iterdir() for found in ('/usr/sbin', '/usr/bin')):
        link = place / tool.name
        if tool.name not in names and not link.is_symlink():
            link.symlink_to(tool)
    return str(place)


@contextlib.contextmanager
def in_use(lock, *how):
    """Hold a lock, as a guest or a measurement does. Yield the process that holds it."""
    with procs.kept(['flock', *how, lock, 'sh', '-c', 'echo; exec sleep 100'], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        yield holder
    holder.stdout.close()

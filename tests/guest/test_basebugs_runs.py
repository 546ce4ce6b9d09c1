# SPDX-License-Identifier: GPL-2.0
"""`make basebugs` in guests: the base kernel has each of the bugs that README.md lists, and ours has none."""
import functools
import subprocess

import pytest

import background
import builds
import guests
from wqlab import basebugs, procs
from wqlab.kernels import kinds

pytestmark = pytest.mark.tier('all')


def run(name, _):
    """Run the command, which builds both kernels if they are not up to date. Return its status and what it printed."""
    lines = []
    with builds.without_unfit(kinds.LINUX), procs.kept(
            ['scripts/lab', 'basebugs', name], cwd=guests.ROOT, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        for line in child.stdout:
            guests.say(f'{name}: {line.rstrip()}')
            lines.append(line)
        return child.wait(), ''.join(lines)


def case(bug):
    job = background.Job(f'basebugs {bug.name}', builds.Kernel(bug.engine, variant='base', linux=kinds.LINUX),
                         functools.partial(run, bug.name))
    return pytest.param(job, id=bug.name, marks=[pytest.mark.kernel(job.kernel), pytest.mark.job(job)])


@pytest.mark.parametrize('job', [case(bug) for bug in basebugs.BUGS])
def test_only_the_base_kernel_has_it(job):
    """The tests have time limits, so they run in turn with the guests in the background, which come first."""
    status, said = background.RUN.get(job)
    assert (status, said.splitlines()[-1:]) == (0, ['1 of 1 tests fail on the base kernel and pass on ours']), said

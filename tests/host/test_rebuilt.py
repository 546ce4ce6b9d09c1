# SPDX-License-Identifier: GPL-2.0
"""A test run reports that a kernel was built again during the run."""
import pytest

import progress
import resume
from suites import Suite

CASES = '''import pathlib
from rebuilt import KERNELS
FOLDER = pathlib.Path({folder!r})
def test_before():
    KERNELS.use(FOLDER)
    assert not {fails}
def test_meanwhile():
    if {again}:
        (FOLDER / 'vmlinux').write_text('new kernel')
def test_after():
    KERNELS.use(FOLDER)
    assert not {fails}
'''


def files_of_this_run():
    """A file that is replaced gets another number."""
    return [path.stat().st_ino for path in (resume.NOTES, progress.LATEST) if path.exists()]


@pytest.mark.parametrize('again', [True, False])
@pytest.mark.parametrize('fails', [True, False])
def test_said_of_failures(tmp_path, again, fails):
    before = files_of_this_run()
    suite = Suite(tmp_path)
    suite.write('uml-cmwq-release-7.3/vmlinux', 'kernel')
    folder = tmp_path / 'uml-cmwq-release-7.3'
    suite.write('tests/test_it.py', CASES.format(folder=str(folder), again=again, fails=fails))
    done = suite.run()
    assert done.returncode == fails, done.out
    said = 'built again while the tests used it: uml-cmwq-release-7.3'
    assert done.out.count(said) == again * (1 + fails)      # in the last line, and with what failed afterwards
    assert files_of_this_run() == before


def test_said_of_a_kernel_that_a_case_needs(tmp_path):
    """A kernel is in use as soon as it is built for a case."""
    suite = Suite(tmp_path)
    suite.write('tests/test_it.py', '''import builds, pytest
KERNEL = builds.Kernel('uml')
@pytest.mark.kernel(KERNEL)
def test_a():
    (KERNEL.folder / 'vmlinux').write_text('new kernel')
''')
    assert 'built again while the tests used it: uml-cmwq-release-7.3' in suite.run().out

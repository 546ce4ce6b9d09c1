# SPDX-License-Identifier: GPL-2.0
"""A test run reports that a kernel was built again during the run."""
import pytest

from calls import call
from wqlab.paths import ROOT

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


@pytest.mark.parametrize('again', [True, False])
@pytest.mark.parametrize('fails', [True, False])
def test_said_of_failures(tmp_path, again, fails):
    folder = tmp_path / 'uml-cmwq-release-7.3'
    folder.mkdir()
    (folder / 'vmlinux').write_text('kernel')
    (tmp_path / 'conftest.py').write_text('pytest_plugins = ["conftest_of_ours"]\n')
    (tmp_path / 'conftest_of_ours.py').write_text((ROOT / 'tests/conftest.py').read_text())
    (tmp_path / 'test_it.py').write_text(CASES.format(folder=str(folder), again=again, fails=fails))
    path = ':'.join(map(str, (tmp_path, ROOT / 'tests', ROOT / 'scripts')))
    done = call(ROOT / 'build/venv/bin/pytest', '-q', '-p', 'no:cacheprovider', '--rootdir', tmp_path, tmp_path,
                cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == fails, done.stdout
    said = 'built again while the tests used it: uml-cmwq-release-7.3'
    assert done.stdout.count(said) == again * (1 + fails)       # in the last line, and with what failed afterwards

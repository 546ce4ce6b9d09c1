# SPDX-License-Identifier: GPL-2.0
"""`scripts/lab hooks`: what it says of trees that do not fit. The trees have a few files each."""
import pytest

from wqlab.kernels import hooks
from wqlab.steps import Failure

PATCH = '''Subject

Why.
---
--- a/kernel/Makefile
+++ b/kernel/Makefile
@@ -1,4 +1,4 @@
 first
 second
-obj-y = workqueue.o
+obj-y = workqueue/
 fourth
--- a/lib/Kconfig.debug
+++ b/lib/Kconfig.debug
@@ -1,3 +1,4 @@
 one
+source "lib/cmwq/Kconfig.debug"
 two
 three
'''
FILES = {
    'Makefile': 'VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 0\n',
    'kernel/Makefile': 'first\nsecond\nobj-y = workqueue.o\nfourth\n',
    'lib/Kconfig.debug': 'one\ntwo\nthree\n',
    'include/linux/workqueue.h': 'bool queue_it(int cpu);\n',
}


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Our repository and a tree, each with a few files."""
    for place, text in FILES.items():
        write(tmp_path / 'other' / place, text)
    write(tmp_path / 'patches/7.3/0001-hook.patch', PATCH)
    monkeypatch.setattr(hooks, 'BUILD', tmp_path / 'build')
    monkeypatch.setattr(hooks, 'shown', lambda path: str(path.relative_to(tmp_path)))
    monkeypatch.setattr(hooks.tree, 'ROOT', tmp_path)
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(world):
    return hooks.check('7.3', str(world / 'other'))


def test_tree_that_fits(world, capsys):
    assert found(world) == []
    assert hooks.main([str(world / 'other')]) == 0
    said = capsys.readouterr()
    assert not said.out and said.err == 'hooks: other is Linux 7.3.0: patches/7.3 fit\n'


def test_line_that_has_changed(world, capsys):
    write(world / 'other/kernel/Makefile', 'first\nsecond\nobj-y = workqueue.o more.o\nfourth\n')
    line = 'patches/7.3/0001-hook.patch: kernel/Makefile: Hunk #1 FAILED at 1.'
    assert found(world) == [line]
    assert hooks.main([str(world / 'other')]) == 1
    said = capsys.readouterr()
    assert said.out == f'{line}\n' and 'need work in 1 places' in said.err
    assert (world / 'other/kernel/Makefile').read_text().count('more.o') == 1, 'the tree was changed'


def test_line_that_has_moved(world):
    write(world / 'other/kernel/Makefile', 'new\n' * 5 + FILES['kernel/Makefile'])
    assert found(world) == []


def test_file_that_is_gone(world):
    (world / 'other/lib/Kconfig.debug').unlink()
    assert found(world) == ['patches/7.3/0001-hook.patch: lib/Kconfig.debug does not exist']


def test_added_line_without_its_neighbours(world):
    write(world / 'other/lib/Kconfig.debug', 'all\nis\nnew\n')
    assert found(world) == ['patches/7.3/0001-hook.patch: lib/Kconfig.debug: Hunk #1 succeeded at 1 with fuzz 2.']


@pytest.mark.parametrize('place, given, why', [
    ('', 'empty', 'empty is not a kernel tree'),
    ('composed/.cmwq-overlay', 'composed', 'composed has our files in it: name a pristine tree'),
    ('applied/kernel/workqueue/data.c', 'applied', 'applied has our files in it'),
])
def test_no_pristine_tree(world, place, given, why):
    (world / given).mkdir()
    if place:
        for name, text in FILES.items():
            write(world / given / name, text)
        write(world / place, '')
    with pytest.raises(Failure, match=why):
        hooks.check('7.3', str(world / given))


def test_release_without_patches(world):
    with pytest.raises(Failure, match=r'LINUX=6\.5: there is no patches/6\.5'):
        hooks.check('6.5', str(world / 'other'))

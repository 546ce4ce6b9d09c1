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
    'include/linux/timer.h': '#define timer_container_of(var, timer, field) container_of(timer)\n',
    'include/linux/old.h': 'void lend_hand(void);\n',
    'kernel/softirq.c': 'void f(void)\n{\n\tworkqueue_softirq_action(true);\n}\n',
}
HEADER = '''bool queue_it(int cpu);
/* ==== The rest of the kernel ==== */
void workqueue_softirq_action(bool highpri);
'''
SOURCE = '''#ifdef arch_llc_mask
/* absent_in_comment() */
#endif
static void mine(void)
{
	timer_container_of(a, "absent_in_string()", c);
	lend_hand();
	mine();
	arch_llc_mask();
}
'''


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Our repository, the base 7.3, and another tree like it, each with a few files."""
    for name in ('build/linux-7.3', 'other'):
        for place, text in FILES.items():
            write(tmp_path / name / place, text)
    write(tmp_path / 'patches/7.3/0001-hook.patch', PATCH)
    write(tmp_path / 'include/linux/workqueue.h', HEADER)
    write(tmp_path / 'kernel/workqueue_internal.h', '')
    write(tmp_path / 'kernel/workqueue/compat.h', '')
    write(tmp_path / 'kernel/workqueue/old_callers.c', '')
    write(tmp_path / 'kernel/workqueue/source.c', SOURCE)
    monkeypatch.setattr(hooks, 'ROOT', tmp_path)
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
    assert not said.out and said.err == 'hooks: other is Linux 7.3.0: patches/7.3 and our sources fit\n'


def test_line_that_has_changed(world, capsys):
    write(world / 'other/kernel/Makefile', 'first\nsecond\nobj-y = workqueue.o more.o\nfourth\n')
    line = 'patches/7.3/0001-hook.patch: kernel/Makefile:1: hunk 1 does not fit, at "obj-y = workqueue.o"'
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
    assert found(world) == ['patches/7.3/0001-hook.patch: lib/Kconfig.debug:1: '
                            'hunk 1 may land in the wrong place, at "one"']


def test_name_that_headers_lack(world):
    write(world / 'other/include/linux/timer.h', '#define from_timer(var, timer, field)\n')
    assert found(world) == ['kernel/workqueue/source.c: the headers lack timer_container_of']
    write(world / 'kernel/workqueue/compat.h', '#define timer_container_of from_timer\n')
    assert found(world) == []


def test_name_that_only_a_comment_supplies(world):
    write(world / 'other/include/linux/timer.h', '')
    write(world / 'kernel/workqueue/compat.h', '/* timer_container_of is missing */\n')
    assert found(world) == ['kernel/workqueue/source.c: the headers lack timer_container_of']


def test_function_that_only_the_tree_has(world):
    write(world / 'other/include/linux/workqueue.h', FILES['include/linux/workqueue.h'] + '''
#define INIT_OTHER(x)	\\
	inner_call(x);
extern int queue_elsewhere(cpumask_var_t mask);
''')
    write(world / 'other/drivers/a.c', 'x = queue_elsewhere(a);\ny = queue_elsewhere(b);\nINIT_OTHER(z);\n')
    assert found(world) == ['include/linux/workqueue.h: ours lacks INIT_OTHER, which the tree uses in 1 places',
                            'include/linux/workqueue.h: ours lacks queue_elsewhere, which the tree uses in 2 places']
    write(world / 'patches/7.3/0001-hook.patch', PATCH.replace('+source', '+queue_elsewhere INIT_OTHER\n+source')
          .replace('1,3 +1,4', '1,3 +1,5'))
    assert found(world) == []


def test_function_that_nobody_calls(world):
    write(world / 'other/kernel/softirq.c', 'void f(void)\n{\n\tworkqueue_bottom_half(true);\n}\n')
    assert found(world) == ['nobody calls workqueue_softirq_action()']
    # compat.c may call it, but the kernel has that file only if the patches say so
    write(world / 'kernel/workqueue/old_callers.c', 'void g(void)\n{\n\tworkqueue_softirq_action(false);\n}\n')
    assert found(world) == ['nobody calls workqueue_softirq_action()']
    write(world / 'patches/7.3/0001-hook.patch', PATCH.replace('Why.', 'WORKQUEUE_OLD_CALLERS'))
    assert found(world) == []


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


def test_nothing_to_compare_with(world):
    (world / 'build/linux-7.3/Makefile').unlink()
    with pytest.raises(Failure, match='no build/linux-7.3 to compare with: run scripts/lab base first'):
        found(world)

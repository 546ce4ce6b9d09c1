# SPDX-License-Identifier: GPL-2.0
"""make series writes patches and a cover letter that a maintainer can read and apply."""
import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kernlog
from calls import call, stub
from wqlab import basebugs
from wqlab.kernels import base, kinds, tree
from wqlab.kernels.build import options
from wqlab.kernels.kinds import LINUX, Kind
from wqlab.paths import BUILD, ROOT
from wqlab.series import maintainers, steps, stock
from wqlab.series import write as series
from wqlab.steps import Failure

BASE = BUILD / f'linux-{LINUX}'
ALL = tree.our_files()


@pytest.fixture(scope='module')
def mails():
    return series.write(LINUX)


@pytest.fixture(scope='module')
def letter(mails):
    return mails[0].read_text()


@pytest.fixture(scope='module')
def patches(mails):
    return mails[1:]


@pytest.fixture(scope='module')
def fixes():
    """The series of the base's own repairs."""
    return series.write(LINUX, whom='base')


@pytest.fixture(scope='module')
def tests():
    """The series of the tests for a tree without our workqueue."""
    return series.write(LINUX, whom='tests')


@pytest.fixture(scope='module')
def applied(mails, tmp_path_factory):
    """A git tree of the files that the series changes, in which somebody has followed the letter's instructions."""
    names = {'MAINTAINERS', *tree.touched_by(tree.patches(LINUX), '--- a')}
    return apply(mails, names, tmp_path_factory.mktemp('applied'))


@pytest.fixture(scope='module')
def applied_tests(tests, tmp_path_factory):
    names = {'MAINTAINERS', *tree.touched_by(stock.patches(LINUX), '--- a')}
    return apply(tests, names, tmp_path_factory.mktemp('applied-tests'))


def apply(mails, names, folder):
    """Apply mails with git to these files of the base tree, in a folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(BASE / name, folder / name)
    for words in (('init', '-q'), ('add', '-A'), ('commit', '-q', '-m', 'base'), ('am', '-q', '--empty=drop', *mails)):
        subprocess.run(['git', '-C', folder, *words], check=True, capture_output=True, env=series.git_environment())
    return folder


def header(mail, name):
    """A header of a mail, unfolded."""
    found = re.search(rf'^{name}: ((?:.*\n )*.*)$', mail.read_text(), re.M)
    return found[1].replace('\n ', ' ')


def added(patch):
    return re.findall(r'^diff --git a/\S+ b/(\S+)\nnew file', patch.read_text(), re.M)


# Patches

def test_series(mails):
    """There is a letter and a patch for each step, with an author, for git am. It replaces the old series."""
    assert mails == sorted((BUILD / f'series-{LINUX}').iterdir()) and len(mails) >= 30
    assert mails[0].name == '0000-cover-letter.patch'
    for number, mail in enumerate(mails):
        assert re.match(rf'\[PATCH 0?{number}/{len(mails) - 1}\] \S', header(mail, 'Subject')), mail.name
        assert not number or re.search(r'^Signed-off-by: .+ <\S+>$', mail.read_text(), re.M), mail.name
    assert series.write(LINUX) == mails and not list(BUILD.glob('.series-*'))


@pytest.mark.parametrize('change, wrong', [
    ('', ''),
    ('applied/lib/a.c', 'git am does not reproduce .*: lib/a.c differs'),
    ('made/lib/b.c', 'git am does not reproduce .*: lib/b.c differs'),
    ('applied/lib/b.c', 'git am does not reproduce .*: lib/b.c differs'),
    ('composed/lib/a.c', 'the series and .* differ in lib/a.c'),
    ('composed/lib/other.c', ''),       # of the base tree
])
def test_what_the_patches_do_not_make(tmp_path, change, wrong):
    for name in ('made', 'applied', 'composed'):
        (tmp_path / name / 'lib').mkdir(parents=True)
        (tmp_path / name / 'lib/a.c').write_text('int a;\n')
    (tmp_path / 'composed/.cmwq-overlay').write_text('lib/a.c\n')
    if change:
        (tmp_path / change).write_text('int b;\n')
    folders = [tmp_path / name for name in ('made', 'applied', 'composed')]
    if wrong:
        with pytest.raises(Failure, match=wrong):
            series.compare(*folders)
    else:
        series.compare(*folders)


def test_each_file_is_in_one_patch(patches):
    found = [name for patch in patches for name in added(patch)]
    assert sorted(found) == sorted(series.laid())
    assert {name for name in found if name.startswith('kernel/workqueue/')} >= \
        {f'kernel/workqueue/{path.name}' for path in (ROOT / 'kernel/workqueue').iterdir()}


def test_file_without_a_patch():
    with pytest.raises(Failure, match='new.c is in no patch of the series: name it in a file of scripts/wqlab/series/'):
        steps.files_of(steps.all_steps(), [*series.laid(), 'kernel/workqueue/new.c'])


def step(name, text, folder):
    (folder / name).write_text(text)
    return steps.read(folder / name)


def test_file_in_two_patches(tmp_path):
    plan = [step('1.txt', 'files: a/*\n\nadd a\n', tmp_path), step('2.txt', 'files: a/x.c\n\nadd x\n', tmp_path)]
    with pytest.raises(Failure, match=r'a/x\.c is in two patches of the series: .*1\.txt and .*2\.txt'):
        steps.files_of(plan, ['a/x.c', 'a/y.c'])


def test_pattern_may_match_nothing_but_a_name_must_exist(tmp_path):
    plan = [step('1.txt', 'files: a/*.h a/x.c\n\nadd a\n', tmp_path)]
    assert steps.files_of(plan, ['a/x.c']) == [['a/x.c']]
    with pytest.raises(Failure, match=r'1\.txt names a/x\.c, which does not exist'):
        steps.files_of(plan, [])


@pytest.mark.parametrize('text, says', [
    ('file: a\n\nadd a\n', r'should begin with files:, patches: or maintainers:: file: a'),
    ('files: a\npatches: b\n\nadd a\n', 'give either patches: or a message'),
])
def test_bad_step(tmp_path, text, says):
    with pytest.raises(Failure, match=says):
        step('1.txt', text, tmp_path)


def test_hooks_of_another_base(tmp_path):
    """A patch that no step names is in the step for the rest. None is in two."""
    plan = steps.all_steps()
    names = [Path(name) for name in ('0001-headers.patch', '0002-choice.patch', '0003-tests.patch', '0009-more.patch')]
    found = {Path(one.name).name: patches for one, patches in zip(plan, steps.patches_of(plan, names)) if patches}
    assert found.pop('015-hooks.txt') == [Path('0009-more.patch')]
    assert sorted(patch for patches in found.values() for patch in patches) == names[:3]
    twice = [step(name, 'patches: *-a.patch\n', tmp_path) for name in ('1.txt', '2.txt')]
    with pytest.raises(Failure, match=r'0001-a\.patch is in two steps'):
        steps.patches_of(twice, [Path('0001-a.patch')])


def test_series_that_does_not_fit(monkeypatch, mails):
    """A missing file is noticed, and the old series stays."""
    monkeypatch.setattr(tree, 'our_files', lambda: [pair for pair in ALL if not pair[0].endswith('cancel.c')])
    before = [mail.read_bytes() for mail in mails]
    monkeypatch.setattr(tree, 'compose', lambda linux: BUILD / f'tree-{linux}')
    with pytest.raises(Failure, match=r'cancel\.c, which does not exist'):
        series.write(LINUX)
    assert [mail.read_bytes() for mail in mails] == before


def test_series_that_differs_from_what_was_tested(monkeypatch, mails, tmp_path):
    """A file that the composed tree has otherwise is noticed."""
    other = tmp_path / 'queue.c'
    other.write_text('int other;\n')
    real = series.laid
    monkeypatch.setattr(series, 'laid', lambda: {**real(), 'kernel/workqueue/queue.c': other})
    with pytest.raises(Failure, match=rf'the series and build/tree-{LINUX} differ in kernel/workqueue/queue\.c'):
        series.write(LINUX)


def test_file_that_the_base_has(monkeypatch, tmp_path):
    """git am would refuse it, but only in a complete tree."""
    (tmp_path / 'fork.c').write_text('int other;\n')
    real = series.laid
    monkeypatch.setattr(series, 'laid', lambda: {**real(), 'kernel/fork.c': tmp_path / 'fork.c'})
    with pytest.raises(Failure, match=r'the base tree has a file kernel/fork\.c, too'):
        series.write(LINUX)


CHECKPATCH = BASE / 'scripts/checkpatch.pl'


def findings(patch, ignored=('FILE_PATH_CHANGES', 'UNDOCUMENTED_SETUP')):
    """Run checkpatch --strict on a patch. One that was clean is checked again only if it or checkpatch has changed."""
    mail = re.sub(r'^(From [0-9a-f]{40} |Date: ).*\n', '', patch.read_text(), flags=re.M)
    parts = [CHECKPATCH.read_text(), CHECKPATCH.with_name('spelling.txt').read_text(), *ignored, mail]
    clean = BUILD / 'test/checkpatch' / hashlib.sha256('\0'.join(parts).encode()).hexdigest()
    if clean.exists():
        return []
    done = subprocess.run(['perl', CHECKPATCH, '--strict', '--no-tree', '--terse', '--no-summary', '--show-types',
                           '--ignore', ','.join(ignored), patch], capture_output=True, text=True, check=False)
    found = (done.stdout + done.stderr).splitlines()
    if not found and done.returncode == 0:
        clean.parent.mkdir(parents=True, exist_ok=True)
        clean.touch()
    return found


@pytest.mark.tier('test')
def test_checkpatch(patches):
    """checkpatch --strict finds nothing but what wqlab.kernels.check explains, and that MAINTAINERS may be outdated.

    The last patch has the entry for all new files.
    """
    first = findings(patches[0], ('FILE_PATH_CHANGES', 'UNDOCUMENTED_SETUP', 'MACRO_ARG_REUSE'))
    assert [*first, *(line for patch in patches[1:] for line in findings(patch))] == []


# Repairs of the base's own workqueue

def test_each_bug_has_one_fix(fixes):
    """It names the test that shows the bug. The letter has a row for each, in the order of the patches."""
    found = [re.fullmatch(r'(\d{4})-(\w+)\.patch', patch.name) for patch in tree.fixes(LINUX)]
    names = [match[2] for match in found]
    assert [int(match[1]) for match in found] == list(range(1, len(found) + 1))
    assert sorted(names) == sorted(bug.name for bug in basebugs.BUGS)
    tests = {bug.name: bug.test.split('.')[-1].partition(':')[0] for bug in basebugs.BUGS}
    for name, patch in zip(names, tree.fixes(LINUX)):
        assert tests[name] in series.message_of(patch) and re.search(r'fails\s+without\s+this', patch.read_text()), name
    assert re.findall(r'^  (\w+) +\S', fixes[0].read_text().partition('\nHow to try it')[0], re.M) == names


def test_fixes_apply_as_they_are(fixes, tmp_path):
    """git am takes them in order, and makes of the base tree what the series makes of it."""
    names = tree.touched_by(tree.fixes(LINUX))
    for folder, patches in (('stored', tree.fixes(LINUX)), ('series', fixes)):
        apply(patches, names, tmp_path / folder)
    for name in names:
        assert (tmp_path / 'stored' / name).read_bytes() == (tmp_path / 'series' / name).read_bytes()
    assert len(fixes) == len(tree.fixes(LINUX)) + 1 and names == ['kernel/workqueue.c']


@pytest.mark.tier('more')
def test_fixes_of_the_long_term_release(fixes):
    """Where the same patch does not fit, this release has one of its own, with the same subject and Fixes: tag."""
    mails = series.write('6.12', whom='base')
    assert len(mails) == len(fixes)
    for mail, other in zip(mails[1:], fixes[1:]):
        assert header(mail, 'Subject') == header(other, 'Subject')
        tags = [re.findall('^Fixes: .*$', each.read_text(), re.M) for each in (mail, other)]
        assert tags[0] == tags[1]
    own = [path.name for path in tree.fixes('6.12') if path.parent.name == '6.12']
    assert own == sorted(path.name for path in (ROOT / 'patches/base-fixes/6.12').iterdir())
    for name in own:
        assert (ROOT / 'patches/base-fixes' / name).read_text() != (ROOT / 'patches/base-fixes/6.12' / name).read_text()


@pytest.mark.tier('test')
def test_checkpatch_on_fixes(fixes):
    # The commits that Fixes: names are not in this repository.
    assert [line for mail in fixes[1:] for line in findings(mail, ('UNKNOWN_COMMIT_ID',))] == []


def test_fix_that_does_not_fit(monkeypatch, tmp_path, fixes):
    """The old series stays."""
    wrong = tmp_path / '0015-pause.patch'
    wrong.write_text(next(patch.read_text() for patch in tree.fixes(LINUX) if patch.name == wrong.name).replace(
        '-\tunsigned long now = jiffies;', '-\tunsigned long then = jiffies;'))
    monkeypatch.setattr(tree, 'fixes', lambda linux: [wrong])
    with pytest.raises(Failure, match=r'0015-pause\.patch does not apply: '):
        series.write(LINUX, whom='base')
    assert len(list(fixes[0].parent.iterdir())) == len(fixes)


# Parts of ours for the base's own workqueue

PARTS = sorted((ROOT / f'patches/base-parts/{LINUX}').glob('*.patch'))


@pytest.mark.parametrize('part', PARTS, ids=[part.stem for part in PARTS])
def test_part_stands_alone(part, tmp_path):
    """It applies to the base tree without the others."""
    applied = apply([part], ['kernel/workqueue.c'], tmp_path)
    assert (applied / 'kernel/workqueue.c').read_bytes() != (BASE / 'kernel/workqueue.c').read_bytes()


@pytest.mark.tier('test')
@pytest.mark.parametrize('part', PARTS, ids=[part.stem for part in PARTS])
def test_checkpatch_on_parts(part):
    # Whoever sends it signs it.
    assert findings(part, ('MISSING_SIGN_OFF',)) == []


# The tests for a tree without our workqueue

def test_tests_are_for_any_tree(tests, applied_tests):
    """They apply, add files of tests and tools only, build each, and nothing in them depends on ours."""
    new = [name for patch in tests[1:] for name in added(patch)]
    assert all(name.startswith(('lib/workqueue/', f'{series.SELFTESTS}/', 'tools/workqueue/inspect/')) for name in new)
    assert not [name for name in new if 'cmwq' in name] and len(new) == len(set(new)) > 70
    changed = set(re.findall(r'^\+\+\+ b/(.*)$', ''.join(mail.read_text() for mail in tests), re.M)) - set(new)
    assert changed == {'MAINTAINERS', 'lib/Kconfig.debug', 'lib/Makefile', 'tools/testing/selftests/Makefile'}
    for name in new:
        text = (applied_tests / name).read_text()
        assert not re.search(r'WORKQUEUE_CMWQ|WORKQUEUE_OLD|WQ_COMPAT|make basebugs|[Bb]ase kernel|cmwq/', text), name
        for header in re.findall(r'^#include "(.*)"', text, re.M):
            assert any((folder / name).parent.joinpath(header).resolve().is_file() for folder in (applied_tests, BASE))


def test_tests_have_all_options_that_they_name(applied_tests):
    text = (applied_tests / 'lib/workqueue/Kconfig.debug').read_text()
    options_of_it = set(re.findall(r'^config (\w+)$', text, re.M))
    made = re.findall(r'CONFIG_(\w+)', (applied_tests / 'lib/workqueue/Makefile').read_text())
    assert made and set(made) == options_of_it
    assert 'source "lib/workqueue/Kconfig.debug"' in (applied_tests / 'lib/Kconfig.debug').read_text()
    scripts = applied_tests / 'tools/testing/selftests/workqueue'
    listed = re.findall(r'[\w-]+\.sh', (scripts / 'Makefile').read_text())
    assert sorted(listed) == sorted(path.name for path in scripts.glob('*.sh'))


def test_tests_name_what_each_has_found(tests, applied_tests):
    """The letter has a row for each bug, in the order of its repairs. The test that it names is there."""
    part = tests[0].read_text().split('What they have found')[1].split('\nThe torture test')[0]
    rows = dict(re.findall(r'^  (\w+) +(?:KUnit|[a-z]+\.sh), ([\w.]+):\s', part, re.M))
    names = [patch.stem.partition('-')[2] for patch in tree.fixes(LINUX)]
    assert list(rows) == names
    for bug in basebugs.BUGS:
        place, _, test = bug.test.partition('.')
        name = test.partition(':')[0]
        assert rows[bug.name] == name
        case = rf'^static void {name.partition(".")[2]}\(' if place == 'kunit' else rf'^test_{name}\(\)'
        path = f'lib/workqueue/{name.partition(".")[0]}.c' if place == 'kunit' else f'{series.SELFTESTS}/{place}.sh'
        assert re.search(case, (applied_tests / path).read_text(), re.M), bug.name


def test_letter_of_tests(tests):
    text = tests[0].read_text().split('\n\n', 1)[1]
    assert '*** ' not in text and not re.search(r'@[\w-]+@', text)
    assert max(len(line) for line in text.split('\n-- \n')[0].splitlines()) <= 80
    assert rows_of(tests[0])[-1][1:] == (len(tests) - 1, 'the entry in MAINTAINERS')


def test_tools_are_beside_the_base_kernels(applied_tests):
    """They are ours as they are, both start there, and nothing of the other scripts is changed."""
    folder = applied_tests / 'tools/workqueue'
    assert [path.name for path in folder.iterdir()] == ['inspect']
    for path in (ROOT / 'tools/workqueue').rglob('*.py'):
        copy = folder / 'inspect' / path.relative_to(ROOT / 'tools/workqueue')
        assert copy.read_bytes() == path.read_bytes() and copy.stat().st_mode == path.stat().st_mode, copy
    for name, option in (('wq_dump', '--stalls'), ('wq_monitor', '--screen')):
        done = call(sys.executable, folder / f'inspect/{name}.py', '--help')
        assert done.returncode == 0 and option in done.stdout, done.stderr


@pytest.mark.tier('test')
def test_checkpatch_on_tests(tests):
    assert [line for mail in tests[1:] for line in findings(mail)] == []


@pytest.mark.parametrize('text, left', [
    ('a\n#ifdef CONFIG_WORKQUEUE_CMWQ\nb\n#else\nc\n#endif\nd\n', 'a\nc\nd\n'),
    ('#ifndef CONFIG_WORKQUEUE_CMWQ\nb\n#endif\nd\n', 'b\nd\n'),
    ('#ifdef CONFIG_WORKQUEUE_CMWQ\n#ifdef A\nb\n#else\nc\n#endif\n#endif\nd\n', 'd\n'),
    ('#ifdef A\n#ifdef KUNIT_CASE_PARAM_WITH_INIT\nb\n#else\nc\n#endif\n#else\nd\n#endif\n',
     '#ifdef A\nb\n#else\nd\n#endif\n'),
    ('#if defined(A)\nb\n#elif B\nc\n#endif\n', '#if defined(A)\nb\n#elif B\nc\n#endif\n'),
])
def test_conditions_that_are_known(text, left):
    assert stock.unconditional(text) == left


def test_elif_after_a_known_condition():
    with pytest.raises(Failure, match='#elif B: .* does not know #elif after a known condition'):
        stock.unconditional('#ifdef CONFIG_WORKQUEUE_CMWQ\na\n#elif B\nb\n#endif\n')


def test_edit_that_finds_nothing():
    with pytest.raises(Failure, match=r"lib/workqueue/Makefile has no .*SHARD_KUNIT"):
        stock.text_for('lib/workqueue/Makefile', 'obj-y += all.o\n')


def test_tests_for_a_release_without_patches_for_them():
    with pytest.raises(Failure, match=r'LINUX=6\.12: its own workqueue lacks parts of the interface'):
        series.write('6.12', whom='tests')


# The tree that it makes

def test_maintainers(applied, patches):
    """get_maintainer.pl of the base tree finds the owner of the project, in an entry that covers all new files."""
    who = re.search(r'^M:\t(.*)$', maintainers.OWN.read_text(), re.M)[1]
    text = (applied / 'MAINTAINERS').read_text()
    entry = text.split('WORKQUEUE IN SMALL FILES (CMWQ)\n')[1].split('\n\n')[0]
    patterns = re.findall(r'^F:\t(.*)$', entry, re.M)
    assert patterns == sorted(patterns)
    for place in series.laid():
        assert any(place.startswith(pattern.rstrip('*')) for pattern in patterns), place
    for number, others in ((0, 'Tejun Heo'), (7, ''), (-1, '')):
        done = subprocess.run(['perl', 'scripts/get_maintainer.pl', '--nogit', '--nogit-fallback',
                               f'--mpath={applied}/MAINTAINERS', patches[number]], cwd=BASE, capture_output=True,
                              text=True, check=True)
        assert others in done.stdout and (number == -1 or f'{who} (maintainer:' in done.stdout), done.stdout
    # where the kernel's own sorter puts it, and the fields in its order
    subprocess.run(['perl', BASE / 'scripts/parse-maintainers.pl', '--order', f'--input={applied}/MAINTAINERS',
                    f'--output={applied}/.sorted'], cwd=applied, check=True, capture_output=True)
    whole = (applied / '.sorted').read_text()
    assert whole.count(f'\n{maintainers.OWN.read_text()}\nWWAN DRIVERS\n') == 1


def test_maintainers_of_another_tree():
    with pytest.raises(Failure, match='has no entry WORKQUEUE'):
        maintainers.with_entry('XFS FILESYSTEM\nS:\tSupported\n', maintainers.OWN.read_text())


def test_selftests_are_a_target(applied, tmp_path):
    """`make kselftest` runs them, and `make install` takes them along."""
    lines = re.findall(r'^TARGETS \+= (\S+)$', (applied / 'tools/testing/selftests/Makefile').read_text(), re.M)
    assert lines.count('workqueue') == 1 and lines[lines.index('workqueue') - 1] == 'vfio'
    work = tmp_path / 'tools/testing'
    shutil.copytree(BASE / 'tools/testing/selftests/kselftest', work / 'selftests/kselftest')
    for name in ('run_kselftest.sh', 'gen_kselftest_tar.sh', 'lib.mk', 'kselftest_deps.sh'):
        shutil.copy(BASE / 'tools/testing/selftests' / name, work / 'selftests')
    for name in ('scripts/Makefile.arch', 'scripts/subarch.include', 'tools/scripts/Makefile.include',
                 'tools/scripts/Makefile.arch', 'tools/scripts/utilities.mak'):
        if (BASE / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(BASE / name, tmp_path / name)
    shutil.copy(applied / 'tools/testing/selftests/Makefile', work / 'selftests')
    shutil.copytree(applied / 'tools/testing/selftests/workqueue', work / 'selftests/workqueue')
    done = call('make', '-C', work / 'selftests', 'install', f'INSTALL_PATH={tmp_path}/out', 'TARGETS=workqueue',
                f'top_srcdir={tmp_path}', timeout=120,
                PATH=stub(tmp_path / 'bin', 'rsync', 'while [ "${1#-}" != "$1" ]; do shift; done; exec cp "$@"'))
    assert done.returncode == 0, done.stdout + done.stderr
    listed = (tmp_path / 'out/kselftest-list.txt').read_text().split()
    assert 'workqueue:sysfs.sh' in listed and 'workqueue:boot.sh' not in listed
    assert (tmp_path / 'out/workqueue/lib.sh').exists() and (tmp_path / 'out/workqueue/boot.sh').exists()


def test_documents_are_in_the_index(applied):
    index = (applied / 'Documentation/core-api/index.rst').read_text()
    for place in series.laid():
        if place.startswith('Documentation/') and place.endswith('.rst'):
            assert f'   {Path(place).stem}\n' in index, f'{place}: add it to patches/{LINUX}/*-documents.patch'
            assert ':orphan:' not in (applied / place).read_text(), place


def test_the_default_is_the_base(applied):
    """With the series applied, the default configuration still builds kernel/workqueue.c."""
    assert re.search(r'^\tdefault (\w+)$', (applied / 'kernel/workqueue/Kconfig').read_text(), re.M)[1] == \
        'WORKQUEUE_BASE'


# The letter

def test_letter(letter, patches):
    """It has all that a maintainer looks for, and nothing was left to fill in."""
    text = letter.split('\n\n', 1)[1]
    assert '*** ' not in letter and not re.search(r'@\w+@', text)
    for patch in patches:       # the shortlog
        assert header(patch, 'Subject').split('] ', 1)[1].replace('  ', ' ') in re.sub(r'\s+', ' ', text)
    assert re.search(r'^ \d+ files changed, \d+ insertions', text, re.M)
    assert re.search(r'^ kernel/workqueue/queue\.c +\|', text, re.M)
    assert max(len(line) for line in text.split('\n-- \n')[0].splitlines()) <= 80


def rows_of(letter):
    """Return (first, last, what) of the rows that tell the numbers of patches. They follow each other."""
    part = letter.read_text().split('How to read it')[1].split('How to apply')[0]
    rows = [(int(first), int(last or first), what)
            for first, last, what in re.findall(r'^  (\d+)(?:-(\d+))? +([a-z].*)$', part, re.M)]
    assert [first for first, _, _ in rows] == [1, *(last + 1 for _, last, _ in rows[:-1])]
    return rows


def test_order_in_the_letter(mails, patches):
    """What it says about the numbers of patches is right."""
    rows = rows_of(mails[0])
    assert rows[-1][1:] == (len(patches), 'the entry in MAINTAINERS')
    choice = next(first for first, _, what in rows if what == 'the choice in Kconfig')
    assert 'kernel/workqueue/Kconfig' in added(patches[choice - 1])


# Versions, and what it applies to

def test_version(monkeypatch, tmp_path):
    monkeypatch.setattr(series, 'BUILD', tmp_path)
    monkeypatch.setattr(tree, 'compose', lambda linux: BUILD / f'tree-{linux}')
    monkeypatch.setattr(series, 'commit_of', lambda source, names: 'f' * 40)
    changes = tmp_path / 'changes'
    changes.write_text('Changes since v1:\n- less noise\n')
    monkeypatch.setenv('LINUX', LINUX)
    assert series.main(['-v2', '--changes', str(changes)]) == 0
    mails = sorted((tmp_path / f'series-{LINUX}').iterdir())
    assert all(re.match(r'v2-\d{4}-', mail.name) for mail in mails)
    assert all(header(mail, 'Subject').startswith('[PATCH v2 ') for mail in mails)
    text = mails[0].read_text()
    assert '\n\nChanges since v1:\n- less noise\n' in text
    # as git wants it, in the letter, once
    assert re.findall(r'^base-commit: (\w+)$', ''.join(mail.read_text() for mail in mails), re.M) == ['f' * 40]
    assert 'Commit ffffffffffff, which is Linux' in text


@pytest.mark.parametrize('words, says', [
    (['-v0'], 'is no version of a series'), (['--changes', '/no/such'], '--changes /no/such cannot be read'),
])
def test_bad_options(words, says):
    done = call('scripts/lab', 'series', *words)
    assert done.returncode and says in done.stderr and 'Traceback' not in done.stderr


def test_base_that_is_no_git_tree(letter):
    """Then the letter says so, and lists the blobs of the files that the series changes."""
    source = base.Base(LINUX)
    if series.commit_of(source, ['MAINTAINERS']):
        pytest.fail('the base tree of this test run comes from git')
    assert 'base-commit: ' not in letter and 'has no base-commit' in re.sub(r'\s+', ' ', letter)
    for name in ('MAINTAINERS', 'init/Kconfig', 'include/linux/workqueue.h'):
        blob = call('git', 'hash-object', BASE / name).stdout.strip()
        assert f'  {blob[:12]}  {name}\n' in letter


def test_base_that_is_a_git_tree(tmp_path, capsys):
    """The commit that was copied is named, unless the tree has another one by now."""
    given, copied = tmp_path / 'given', base.Base(LINUX)
    env = series.git_environment()

    def git(*words):
        return subprocess.run(['git', '-C', given, *words], check=True, capture_output=True, text=True,
                              env=env).stdout.strip()

    for folder in (given, tmp_path / 'copy'):
        (folder / 'init').mkdir(parents=True)
        (folder / 'init/Kconfig').write_text('# Kconfig\n')
    copied.tree, copied.origin = tmp_path / 'copy', tmp_path / 'origin'
    copied.origin.write_text(f'directory {given}, 7.3.4, 2026-11-22T00:00:00Z\n')
    assert series.commit_of(copied, ['init/Kconfig']) == ''
    git('init', '-q')
    git('add', '-A')
    git('commit', '-q', '-m', 'Linux 7.3.4')
    assert series.commit_of(copied, ['init/Kconfig']) == git('rev-parse', 'HEAD')
    (given / 'init/Kconfig').write_text('# another\n')
    git('commit', '-q', '-a', '-m', 'next')
    assert series.commit_of(copied, ['init/Kconfig']) == ''
    assert 'is not what was copied' in capsys.readouterr().err
    copied.origin.write_text('package linux-source-7.3_7.3.4-1_all.deb, 7.3.4, 2026-11-22T00:00:00Z\n')
    assert series.commit_of(copied, ['init/Kconfig']) == ''


# Building

def numbered(patches):
    """The number of the patch that adds each file."""
    return {name: number for number, patch in enumerate(patches, 1) for name in added(patch)}


def test_a_file_includes_only_what_is_there(patches, applied):
    """So each file of kernel/workqueue/ compiles in the patch that adds it, although nothing builds it yet."""
    number = numbered(patches)
    own = {name for name in number if name.startswith('kernel/workqueue/') and name.endswith(('.c', '.h'))}
    for name in own:
        for header in re.findall(r'^#include "([^"]+)"', (applied / name).read_text(), re.M):
            place = (Path(name).parent / header).as_posix()
            if '..' not in header:
                assert number[place] <= number[name], f'{name} includes {header}, which a later patch adds'
    assert len(own) > 35


# Functions of a later patch that a file calls: see the message of its patch.
UPWARD = {('debugobjects', 'cancel_work_sync')}


class Steps:
    """The base tree, to which the patches are applied one by one, and the UML kernel that is built from it.

    Its folders have the names and the relative place of those of `make kernel`, so ccache knows most objects.
    """

    def __init__(self, monkeypatch):
        self.place = BUILD / f'series-steps-{LINUX}'
        monkeypatch.setattr(kinds, 'BUILD', self.place)
        self.kind = Kind.of('uml')
        self.tree, self.out = self.kind.tree, self.kind.folder

    def begin(self):
        self.remove()
        self.out.mkdir(parents=True)
        subprocess.run(['cp', '-al', BASE, self.tree], check=True)

    def remove(self):
        shutil.rmtree(self.place, ignore_errors=True)

    def make(self, what, *words):
        done = subprocess.run(self.kind.make('-s', '-j2', *words), capture_output=True, text=True, check=False,
                              env=self.kind.environment())
        assert done.returncode == 0, f'{what}: {done.stderr[-2000:]}'

    def configure(self, what, variant='cmwq', more=''):
        """Configure as `make kernel` does, but without the options that are not there yet."""
        wanted = self.out / 'wanted'
        fragments = replace(self.kind, variant=variant).fragments
        wanted.write_text(''.join(path.read_text() for path in fragments) + more)
        self.make(what, f'KCONFIG_ALLCONFIG={wanted}', 'allnoconfig')

    def symbols(self):
        """Return the names that each object of kernel/workqueue/ takes from others, and who has which function."""
        defined, taken = {}, {}
        for path in (self.out / 'kernel/workqueue').glob('*.o'):
            if path.name in ('workqueue.o', 'built-in.o'):
                continue
            for line in subprocess.run(['nm', path], capture_output=True, text=True, check=True).stdout.splitlines():
                kind, name = line.split()[-2:]
                if kind == 'T':
                    defined[name] = path.stem
                elif kind == 'U':
                    taken.setdefault(path.stem, set()).add(name)
        return taken, defined

    def boot(self, what, ours, command=':'):
        """Boot, and return what @command prints. Its kernel parameters let KUnit run, but not at once."""
        done = call('scripts/lab', 'guest', '--engine', 'uml', '--kernel', self.out, '--log', self.out / 'log',
                    '--timeout', '280', '--append', 'kunit.enable=1', '--',
                    f'cat /proc/version; ls /sys/module/workqueue/parameters; {command}; echo end', timeout=300)
        log = (self.out / 'log').read_text()
        assert done.returncode == 0 and done.stdout.endswith('end\n'), f'{what}: {done.stderr}\n{log[-2000:]}'
        assert ('own_pools' in done.stdout) == ours, what
        assert not kernlog.problems(log), what
        return done.stdout


@pytest.mark.tier('all')
def test_each_patch_leaves_a_tree_that_builds(monkeypatch, patches):
    """Only what a patch changes is compiled for it. Both ends boot, the last one with either workqueue.

    A file of kernel/workqueue/ calls only functions of the same or an earlier patch.
    """
    steps_of = Steps(monkeypatch)
    steps_of.begin()
    try:
        steps_of.configure('base')
        seen = set()
        for number, patch in enumerate(patches, 1):
            wrong = tree.apply(patch, steps_of.tree)
            assert not wrong, f'{patch.name}: {wrong}'
            if 'Kconfig' in patch.read_text():
                steps_of.configure(patch.name)
            steps_of.make(patch.name, 'all')
            if number == 1:
                steps_of.boot('the first patch', ours=False)
            seen |= {name for name, value in options(steps_of.out / '.config').items() if value != 'n'}
        assert {f'CONFIG_{name}' for name in ('WORKQUEUE_CMWQ', 'TEST_WORKQUEUE', 'WQ_TORTURE_TEST',
                                              'WQ_TEST_HELPER', 'WQ_API_KUNIT_TEST')} <= seen
        taken, defined = steps_of.symbols()
        at = {Path(name).stem: number for name, number in numbered(patches).items()
              if re.fullmatch(r'kernel/workqueue/\w+\.c', name)}
        upward = {(stem, name) for stem, names in taken.items() for name in names
                  if name in defined and at[defined[name]] > at[stem]}
        assert upward == {one for one in UPWARD if one[0] in taken} and len(taken) > 30
        steps_of.boot('all patches', ours=True)
        steps_of.configure('all patches, kernel/workqueue.c', 'base')
        steps_of.make('all patches, kernel/workqueue.c', 'all')
        steps_of.boot('all patches, kernel/workqueue.c', ours=False)
    finally:
        steps_of.remove()


@pytest.mark.tier('all')
def test_tests_run_on_the_base_alone(monkeypatch, tests):
    """In a tree with nothing else of ours, they build. KUnit passes, and the modules find no fault in a few seconds."""
    steps_of = Steps(monkeypatch)
    steps_of.begin()
    try:
        for mail in tests[1:]:
            wrong = tree.apply(mail, steps_of.tree)
            assert not wrong, f'{mail.name}: {wrong}'
        steps_of.configure('tests', 'base', 'CONFIG_WQ_BENCH=m\n')
        steps_of.make('tests', 'all')
        out = steps_of.boot('tests', False, 'cd /sys/kernel/debug/kunit; for run in wq_api_*/run; do echo 1 >$run; '
                            'done; cat wq_api_*/results; modprobe wq_test_helper && modprobe wqtorture duration=5')
        assert len(re.findall(r'^ +ok \d', out, re.M)) > 500 and not re.search(r'^ *not ok', out, re.M)
        assert re.search('wqtorture: .*End of test: SUCCESS', (steps_of.out / 'log').read_text())
    finally:
        steps_of.remove()

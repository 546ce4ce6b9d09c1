# SPDX-License-Identifier: GPL-2.0
"""Each document builds in Sphinx, with the kernel's own extensions, without a warning. What it names exists."""
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest

from calls import call
from test_make import NAMED
from wqlab.kernels import base
from wqlab.kernels.kinds import LINUX, releases
from wqlab.kernels.tree import compose, place_of
from wqlab.paths import ROOT

FOLDER = ROOT / 'Documentation/core-api'
HOME = ROOT / 'kernel/workqueue'
CONF = '''
import os, sys
os.environ['srctree'] = {tree!r}
sys.path.insert(0, {tree!r} + '/Documentation/sphinx')
extensions = ['kerneldoc', 'automarkup']
kerneldoc_srctree = {tree!r}
root_doc = 'index'
c_id_attributes = ['notrace']      # as in the kernel's own conf.py
'''


@cache
def tree():
    return compose(LINUX)


def test_documents_build_without_a_warning(tmp_path):
    (tmp_path / 'conf.py').write_text(CONF.format(tree=str(tree())))
    for path in [*FOLDER.iterdir(), ROOT / 'tools/workqueue/json.rst']:
        shutil.copy(path, tmp_path)
    shutil.copytree(ROOT / 'results', tmp_path / 'results')
    (tmp_path / 'index.rst').write_text('Index\n=====\n\n.. toctree::\n   :glob:\n\n   workqueue*\n   results/*\n')
    done = subprocess.run([sys.executable, '-m', 'sphinx', '-q', '-W', '--keep-going', '-b', 'html', tmp_path,
                           tmp_path / 'out'], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {path.stem for path in (tmp_path / 'out').glob('*.html')}
    assert found >= {Path(name).stem for name in pages()} | {'json'}
    # from the comment of a function in the sources
    assert 'queue an item, naming the CPU' in (tmp_path / 'out/workqueue.html').read_text()


# What the documents name. Each check takes the pages and returns what is wrong with them.

@cache
def page(name):
    return (ROOT if name == 'README.md' else FOLDER).joinpath(name).read_text(encoding='utf-8')


def pages():
    """Return {name: text} of all documents."""
    return {path.name: page(path.name) for path in sorted(FOLDER.glob('*.rst'))}


def everywhere():
    return {'README.md': page('README.md'), **pages()}


def section(text, title):
    """Return the text below a title, until the next title of the same kind."""
    found = re.search(rf'^{re.escape(title)}\n([=-])\1+\n(.*?)(?=^[^\n]+\n\1{{4,}}\n|\Z)', text, re.M | re.S)
    assert found, title
    return found[2]


def cells(text):
    """Return the literals in the first column of the tables of a text."""
    return re.findall(r'^``([^`]+)``  ', text, re.M)


def source(pattern):
    """Return what a pattern finds in kernel/workqueue/."""
    return {match for path in sorted((ROOT / 'kernel/workqueue').glob('*.c'))
            for match in re.findall(pattern, path.read_text())}


PARAMETERS = source(r'\bmodule_param\w*\(\s*(\w+)') | source(r'\b__setup\("workqueue\.(\w+)=')


def parameters(found):
    """Each parameter is in the administrator's table, and there is a way to turn it off. No other is."""
    table = section(found['workqueue-admin.rst'], 'Files and parameters').split('Parameters are given')[1]
    back = section(found['workqueue-adopt.rst'], 'Go back')
    yield from (f'{name}: in one of sources and workqueue-admin.rst' for name in PARAMETERS ^ set(cells(table)))
    yield from (f'{name}: "Go back" does not say what off means' for name in PARAMETERS
                if not re.search(rf'\b{name}\b', back))


def attributes(found):
    """Each file in sysfs is in the administrator's tables."""
    wanted = source(r'\b(?:(?:DEVICE|UNBOUND)_ATTR\w*\(|__ATTR\()([a-z]\w+)\b')
    assert len(wanted) >= 8
    table = section(found['workqueue-admin.rst'], 'Files and parameters').split('Parameters are given')[0]
    yield from (f'{name}: in one of sysfs.c and workqueue-admin.rst' for name in wanted ^ set(cells(table)))


def files(found):
    """Each .c file of kernel/workqueue/ is on the map for hackers, in the order of Makefile, and so is each header that
    belongs to none of them."""
    text = section(found['workqueue-internals.rst'], 'The files')
    order = re.findall(r'(\w+)\.o\b', ' '.join(re.findall(r'^workqueue-.*', (HOME / 'Makefile').read_text(), re.M)))
    rows = re.findall(r'^``(\w+\.[ch])``', text, re.M)
    lowest_first = [name for line in reversed(re.findall(r'^   [A-Z].{11}(.*)', text, re.M)) for name in line.split()]
    others = {path.name for path in HOME.glob('*.h') if path.stem not in order}
    for named in ([name.removesuffix('.c') for name in rows if name.endswith('.c')], lowest_first):
        yield from (f'{name}.c: not at its place on the map' for name, here in zip_longest(order, named)
                    if name != here)
    yield from (f'{name}: in one of sources and map' for name in others ^ {n for n in rows if n.endswith('.h')})


def place_in_the_tree(name):
    return Path(place_of(f'Documentation/core-api/{name}')).stem


def entry(found):
    """Each document has its name in the kernel tree as its label, and is linked from the first one."""
    for name, text in found.items():
        label = place_in_the_tree(name)
        if not text.startswith(f'.. SPDX-License-Identifier: GPL-2.0\n\n.. _{label}:\n'):
            yield f'{name}: has no label {label}'
        if name != 'workqueue-start.rst' and f':ref:`{label}`' not in found['workqueue-start.rst']:
            yield f'{name}: workqueue-start.rst does not lead there'


def literals(text):
    """Return what may be a command in a document: indented lines that begin with one, and literals in a line."""
    text = re.sub(r'\\\n\s*', '', text)
    yield from re.findall(r'^ +(?:[#$] )?((?:make|scripts/|sudo|LINUX=|tests/).*)', text, re.M)
    yield from re.findall(r'`+([^`]+)`+', text)


def commands(found):
    """Each target of make, and each variable given to it, is in its help."""
    for name, text in found.items():
        for code in literals(text):
            for target, words in re.findall(r'^make ([a-z0-9][a-z0-9-]*)([^#]*)', code):
                given = re.findall(r'\s([A-Z][A-Z0-9_]*)=', re.sub(r"'[^']*'", '', words))
                if target not in NAMED:
                    yield f'{name}: make {target}'
                yield from (f'{name}: make {target} {word}=' for word in set(given) - NAMED.get(target, set(given)))


@cache
def options_of(program):
    done = call(program, '--help')
    assert done.returncode == 0, done.stderr
    more = ''
    if program == 'scripts/dump-guest.sh':      # it hands options on to these
        more = ' '.join(path.read_text() for path in (ROOT / 'tools/workqueue').glob('*.py'))
    return set(re.findall(r'--[a-z][a-z-]+', done.stdout + more))


def options(found):
    """Each option that is given to one of our scripts is in its help, and each program of scripts/lab is there."""
    programs = set(re.findall(r'^  ([a-z-]+)  ', call('scripts/lab', '--help').stdout, re.M))
    by_make = {'bench': 'scripts/run-bench.sh', 'workload': 'scripts/run-workload.sh', 'advise': 'scripts/advise.sh'}
    for name, text in found.items():
        for code in (code.split('  # ')[0] for code in literals(text)):
            calls = re.findall(r'(scripts/(?:run-bench|run-workload|advise|dump-guest)\.sh)([^|;]*)', code)
            calls += [(by_make[target], words) for target, words in
                      re.findall(r"make (bench|workload|advise)\b.*?ARGS='?([^']*)", code)]
            for program, words in calls:
                given = re.findall(r'(?<=[\s=\'])--[a-z][a-z-]+', f' {words}')
                yield from (f'{name}: {program} {word}' for word in given if word not in options_of(program))
            yield from (f'{name}: scripts/lab {word}' for word in re.findall(r'scripts/lab ([a-z][a-z-]+)', code)
                        if word not in programs)


def paths(found):
    """Each file or folder of ours that is named exists here or in the composed tree."""
    place = r'(?<![\w/.<-])((?:scripts|tests|tools|lib|kernel|include|configs|patches|\.ci|Documentation)/[\w.*/-]+)'
    named = {(name, word.rstrip('.,')) for name, text in found.items() for word in re.findall(place, text)}
    yield from (f'{name}: {word}' for name, word in named
                if 'NAME' not in word and not any(next(root.glob(word), None) for root in (ROOT, tree())))


@cache
def configurations():
    done = subprocess.run(['grep', '-rhoE', '--include=Kconfig*', r'^\s*(menu)?config \w+', '.'], cwd=tree(),
                          capture_output=True, text=True, check=True)
    text = ''.join((ROOT / name).read_text() for name in ('Kconfig.debug', 'kernel/workqueue/Kconfig'))
    ours = re.findall(r'^config \w+', text, re.M)      # links, which grep does not follow
    return {f'CONFIG_{line.split()[1]}' for line in [*done.stdout.splitlines(), *ours]}


def symbols(found):
    """Each CONFIG_ is one of the kernel."""
    for name, text in found.items():
        yield from (f'{name}: {word}' for word in set(re.findall(r'\bCONFIG_[A-Z0-9_]*[A-Z0-9]\b', text))
                    - configurations())


CHECKS = [
    # the check, the pages that it needs, and a change that it must find: page, old, new, message
    (parameters, pages, 'workqueue-admin.rst', '``unbound_cpus``', '``unbound_cpu``', 'unbound_cpus: in one of'),
    (attributes, pages, 'workqueue-admin.rst', '``affinity_strict``', '``strict``', 'strict: in one of'),
    (files, pages, 'workqueue-internals.rst', '``kick.c`` ', '``pick.c`` ', 'kick.c: not at its'),
    (files, pages, 'workqueue-internals.rst', 'claim queue', 'queue claim', 'queue.c: not at its place'),
    (entry, pages, 'workqueue-start.rst', ':ref:`workqueue-cmwq-torture`', 'that', 'workqueue-torture.rst: workqueue'),
    (commands, everywhere, 'README.md', '`make bench`', '`make bank`', 'README.md: make bank'),
    (commands, everywhere, 'workqueue-adopt.rst', "make bench ARGS=", "make bench ARG=", 'make bench ARG='),
    (options, everywhere, 'workqueue-admin.rst', 'advise.sh --engine', 'advise.sh --motor', 'advise.sh --motor'),
    (options, everywhere, 'workqueue-distributors.rst', 'lab hooks TREE', 'lab hook TREE', 'scripts/lab hook'),
    (paths, everywhere, 'README.md', 'tools/workqueue/', 'tools/work/', 'README.md: tools/work/'),
    (symbols, everywhere, 'workqueue-distributors.rst', 'CONFIG_WQ_PROBE', 'CONFIG_WQ_PROB', 'CONFIG_WQ_PROB'),
]


@pytest.mark.parametrize('check, needs', dict.fromkeys((check, needs) for check, needs, *_ in CHECKS),
                         ids=lambda value: value.__name__)
def test_what_is_named_exists(check, needs):
    assert not sorted(check(needs()))


@pytest.mark.parametrize('check, needs, name, old, new, says', CHECKS)
def test_what_does_not_exist_is_found(check, needs, name, old, new, says):
    found = needs()
    assert old in found[name]
    assert any(says in problem for problem in check({**found, name: found[name].replace(old, new)}))


def test_each_document_has_a_place():
    """In the index of each base."""
    for release in releases():
        index = (ROOT / f'patches/{release}/0005-documents.patch').read_text()
        named = re.findall(r'^\+   (\S+)$', index, re.M)
        assert sorted(named) == sorted(place_in_the_tree(path.name) for path in FOLDER.glob('*.rst'))


def test_each_parameter_is_in_the_kernels_list():
    """That is Documentation/admin-guide/kernel-parameters.txt, to which patches/ adds what it lacks."""
    text = (tree() / 'Documentation/admin-guide/kernel-parameters.txt').read_text()
    assert sorted(set(re.findall(r'^\s+workqueue\.(\w+)', text, re.M))) == sorted(PARAMETERS)


def test_modules_can_use_the_same_symbols():
    """The page for distributors says so."""
    def exported(*paths):
        return {match for path in paths for match in re.findall(r'^EXPORT_SYMBOL\w*\(\w+\)', path.read_text(), re.M)}

    ours = exported(*(ROOT / 'kernel/workqueue').glob('*.c'))
    assert len(ours) > 40 and ours == exported(base.fetch(LINUX).tree / 'kernel/workqueue.c')

# SPDX-License-Identifier: GPL-2.0
"""Each document builds in Sphinx, with the kernel's own extensions, without a warning."""
import shutil
import subprocess
import sys

from wqlab.paths import BUILD, ROOT

TREE = BUILD / 'tree-7.3'
CONF = '''
import os, sys
os.environ['srctree'] = {tree!r}
sys.path.insert(0, {tree!r} + '/Documentation/sphinx')
extensions = ['kerneldoc', 'automarkup']
kerneldoc_srctree = {tree!r}
root_doc = 'index'
c_id_attributes = ['notrace']      # as in the kernel's own conf.py
'''


def built(folder, text=''):
    """Run Sphinx on our documents, with @text appended to one of them. Return its output."""
    folder.mkdir()
    (folder / 'conf.py').write_text(CONF.format(tree=str(TREE)))
    for path in [*(ROOT / 'Documentation/core-api').iterdir(), ROOT / 'tools/workqueue/json.rst']:
        shutil.copy(path, folder)
    (folder / 'index.rst').write_text('Index\n=====\n\n.. toctree::\n   :glob:\n\n   workqueue*\n')
    with open(folder / 'workqueue.rst', 'a', encoding='utf-8') as page:
        page.write(text)
    return subprocess.run([sys.executable, '-m', 'sphinx', '-q', '-W', '--keep-going', '-b', 'html', folder,
                           folder / 'out'], capture_output=True, text=True, check=False)


def test_documents_build_without_a_warning(tmp_path):
    subprocess.run([ROOT / 'scripts/lab', 'tree'], check=True, capture_output=True)
    done = built(tmp_path / 'good')
    assert done.returncode == 0, done.stderr
    pages = {path.stem for path in (tmp_path / 'good/out').glob('*.html')}
    names = ('tools', 'torture', 'workloads', 'scopes', 'benchmark', 'lines', 'advise', 'bases', 'start', 'adopt', 'admin',
             'distributors', 'internals')
    wanted = {f'workqueue-{name}' for name in names}
    assert pages >= wanted | {'workqueue', 'json'}
    # from the comment of a function in the sources
    assert 'pool_kick' in (tmp_path / 'good/out/workqueue-internals.html').read_text()


def test_a_warning_is_a_failure(tmp_path):
    done = built(tmp_path / 'bad', '\n.. kernel-doc:: kernel/workqueue/no_such_file.c\n')
    assert done.returncode
    assert 'no_such_file.c' in done.stderr

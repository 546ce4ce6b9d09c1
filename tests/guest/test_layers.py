# SPDX-License-Identifier: GPL-2.0
"""The files of the workqueue only look down: what they call, read or include is not above them.

kernel/workqueue/Makefile lists them from the bottom up. The symbols come from the objects of a kernel, so what a file
gets from inline functions of headers counts as its own. A header belongs to the .c file of its name, or, if there is
none, to the lowest file.
"""
import re
import subprocess
from pathlib import Path

import pytest

import guests
from wqlab.paths import ROOT

pytestmark = pytest.mark.tier('quick')
HOME = ROOT / 'kernel/workqueue'
LISTED = re.compile(r'^workqueue-(y|\$\(\w+\))\s*[:+]=(.*)$', re.M)
INCLUDED = re.compile(r'^#include "(.*)"', re.M)
OUTSIDE = {'../workqueue_internal.h'}       # what other code includes, too
NEEDED = 'Uwv'                              # the letters of nm for symbols that an object does not define


def order(makefile):
    """Return the names of the files from the bottom up, and of those that some kernels lack."""
    found = [(name, kind != 'y') for kind, names in LISTED.findall(makefile)
             for name in re.findall(r'(\w+)\.o\b', names)]
    return [name for name, _ in found], {name for name, optional in found if optional}


def built(kernel):
    """Return the objects that a kernel consists of. Others may lie there, of files that are gone."""
    folder = guests.kernel(*kernel) / 'kernel/workqueue'
    listed = subprocess.run(['ar', 't', folder / 'built-in.a'], capture_output=True, text=True, check=True).stdout
    return [folder / Path(name).name for name in listed.split()]


def symbols(objects):
    """Return {file: (symbols that others can see, symbols that it needs)}."""
    found = {}
    for path in objects:
        listed = subprocess.run(['nm', '--extern-only', '--format=posix', path], capture_output=True, text=True,
                                check=True).stdout
        rows = [line.split()[:2] for line in listed.splitlines()]
        found[path.stem] = ({name for name, kind in rows if kind not in NEEDED},
                            {name for name, kind in rows if kind in NEEDED})
    return found


def looks_up(files, objects):
    """Return a line for each symbol that is defined above a file that needs it."""
    homes = {name: file for file in objects for name in objects[file][0]}
    return [f'{file}.c uses {name} of {homes[name]}.c' for file in files if file in objects
            for name in sorted(objects[file][1])
            if name in homes and files.index(homes[name]) > files.index(file)]


def includes_up(files, folder):
    """Return a line for each header that is above a file that includes it."""
    def place(path):
        return files.index(path.stem) if path.stem in files else 0

    return [f'{path.name} includes {name}' for path in sorted(folder.glob('*.[ch]'))
            for name in INCLUDED.findall(path.read_text(encoding='utf-8'))
            if name not in OUTSIDE and place(folder / name) > place(path)]


def test_all_files_have_a_place():
    files, _ = order((HOME / 'Makefile').read_text(encoding='utf-8'))
    assert sorted(files) == sorted(path.stem for path in HOME.glob('*.c'))
    assert {(HOME / name).resolve() for path in HOME.glob('*.[ch]') for name in INCLUDED.findall(path.read_text())} <= \
        {*HOME.glob('*.h'), *((HOME / name).resolve() for name in OUTSIDE)}


@pytest.mark.parametrize('kernel', [
    pytest.param(('uml', 'release'), marks=guests.needs('uml')),
    pytest.param(('uml', 'debug'), marks=[guests.needs('uml', 'debug'), pytest.mark.tier('more')]),
    pytest.param(('qemu', 'rt'), marks=[guests.needs('qemu', 'rt'), pytest.mark.tier('all')]),
], ids='-'.join)
def test_files_only_look_down(kernel):
    files, optional = order((HOME / 'Makefile').read_text(encoding='utf-8'))
    objects = symbols(built(kernel))
    assert {*files} - optional <= {*objects} <= {*files}
    assert not looks_up(files, objects)


def test_no_header_is_above_who_includes_it():
    files, _ = order((HOME / 'Makefile').read_text(encoding='utf-8'))
    assert not includes_up(files, HOME)


# The check finds what goes up: the real objects in a wrong order, and a call, data and headers of a made-up folder.

@guests.needs('uml')
def test_a_wrong_order_is_found():
    files, _ = order((HOME / 'Makefile').read_text(encoding='utf-8'))
    objects = symbols(built(('uml',)))
    files.remove('data')
    assert 'queue.c uses get_work_pool of data.c' in looks_up([*files, 'data'], objects)


MAKEFILE = 'obj-y += workqueue.o\n# two lines\nworkqueue-y := low.o\nworkqueue-$(CONFIG_X) += middle.o\n' \
           'workqueue-y += high.o\n'
INLINE = 'extern int state;\nint high(void);\nstatic inline int both(void) { return high() + state; }\n'


@pytest.mark.parametrize('low, found', [
    ('int high(void);\nint low(void) { return high(); }', ['low.c uses high of high.c']),
    ('extern int state;\nint low(void) { return state; }', ['low.c uses state of high.c']),
    ('int high(void);\nint (*low)(void) = high;', ['low.c uses high of high.c']),
    ('#include "inline.h"\nint low(void) { return both(); }',
     ['low.c uses high of high.c', 'low.c uses state of high.c']),
    ('#include "inline.h"\nint low(void) { return 0; }', []),
    ('int (*low)(void);', []),
])
def test_what_looks_up_is_found(tmp_path, low, found):
    sources = {'low': low, 'middle': '', 'high': 'extern int low();\nint state;\nint high(void) { return low(); }'}
    (tmp_path / 'inline.h').write_text(INLINE)
    for name, text in sources.items():
        (tmp_path / f'{name}.c').write_text(f'{text}\n')
        subprocess.run(['gcc', '-w', '-O1', '-c', f'{name}.c'], cwd=tmp_path, check=True)
    assert looks_up(order(MAKEFILE)[0], symbols(tmp_path.glob('*.o'))) == found


def test_includes_that_look_up_are_found(tmp_path):
    files = {'low.c': ['low.h', 'types.h', 'high.h'], 'types.h': ['low.h', 'middle.h'], 'high.h': ['middle.h'],
             'middle.h': ['../workqueue_internal.h'], 'middle.c': ['high.h', 'low.h'], 'high.c': ['high.h']}
    for name, includes in files.items():
        (tmp_path / name).write_text(''.join(f'#include "{other}"\n' for other in includes))
    assert includes_up(order(MAKEFILE)[0], tmp_path) == \
        ['low.c includes high.h', 'middle.c includes high.h', 'types.h includes middle.h']

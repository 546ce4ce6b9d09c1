# SPDX-License-Identifier: GPL-2.0
"""The files of the workqueue call only downwards.

kernel/workqueue/Makefile lists them from the bottom up. All may call the optional ones. A function that is only passed
on is not called: timers and items may have functions of higher files. An inline function or a macro of a header has
no place of its own: who uses it calls what it calls.
"""
import re
from collections import defaultdict

import pytest

from csource import functions
from wqlab.paths import ROOT

HOME = ROOT / 'kernel/workqueue'
# The headers that other code includes, too
PUBLIC = (ROOT / 'include/linux/workqueue.h', ROOT / 'kernel/workqueue_internal.h')
LISTED = re.compile(r'^workqueue-(y|\$\(\w+\))\s*[:+]=(.*)$', re.M)
INCLUDED = re.compile(r'^#include "(.*)"', re.M)
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
MACRO = re.compile(r'^#define (\w+)\(((?:.*\\\n)*.*)$', re.M)
CALL = re.compile(r'(?<!->)(?<!\.)\b(\w+)\(')       # not of a pointer in a struct


def code_of(path):
    return NO_CODE.sub('', path.read_text(encoding='utf-8'))


def order(makefile):
    """Return the files from the bottom up, and the optional ones."""
    listed = [(f'{name}.c', kind != 'y') for kind, names in LISTED.findall(makefile.read_text(encoding='utf-8'))
              for name in re.findall(r'(\w+)\.o\b', names)]
    return [file for file, _ in listed], {file for file, optional in listed if optional}


def owners(codes):
    """Return {function that is not static: its file}."""
    return {name: file for file, code in codes.items() for name, head, _ in functions(code)
            if not re.search(r'\bstatic\b', head)}


def in_headers(paths):
    """Return {inline function or macro: what it calls}."""
    found = defaultdict(set)
    for code in map(code_of, paths):
        for name, body in [*((name, body) for name, _, body in functions(code)), *MACRO.findall(code)]:
            found[name] |= set(CALL.findall(body))
    return found


def calls(code, inline):
    """Return {what the code calls: the function of a header through which it does, or None}."""
    found, new = {}, dict.fromkeys(CALL.findall(code))
    while new:
        found |= new
        new = {inner: found[outer] or outer for outer in new for inner in inline.get(outer, ()) if inner not in found}
    return found


def upward(home, *headers):
    """Return a line for each call that goes up."""
    files, optional = order(home / 'Makefile')
    codes = {file: code_of(home / file) for file in files}
    owner, inline = owners(codes), in_headers([*home.glob('*.h'), *headers])
    lines = []
    for file, code in codes.items():
        own = {name for name, *_ in functions(code)}
        higher = set(files[files.index(file) + 1:]) - optional
        lines += [f'{file} calls {name}() of {owner[name]} above it' + (f', through {through}()' if through else '')
                  for name, through in calls(code, inline).items() if name not in own and owner.get(name) in higher]
    return lines


def test_all_files_are_read():
    files, optional = order(HOME / 'Makefile')
    assert sorted(files) == sorted(path.name for path in HOME.glob('*.c'))
    assert {'debugobjects.c', 'sysfs.c', 'watchdog.c'} <= optional
    assert set(owners({file: code_of(HOME / file) for file in files}).values()) == set(files)
    included = {(HOME / name).resolve() for path in HOME.glob('*.[ch]') for name in INCLUDED.findall(path.read_text())}
    assert included <= {*HOME.glob('*.h'), *PUBLIC}


def test_files_call_only_downwards():
    found = upward(HOME, *PUBLIC)
    assert not found, '\n'.join(found)


MAKEFILE = 'obj-y += workqueue.o\n# two lines\nworkqueue-y := low.o\nworkqueue-y += high.o\n' \
           'workqueue-$(CONFIG_X) += extra.o\n'
HEADER = '''
#define RAISE(n)	\\
	high(n)
static inline int raised(int n)
{
	return RAISE(n);
}
static inline int as_text(void) { return say("high()"); }
'''
SOURCES = {'high.c': 'int high(int n)\n{\n\treturn low(n);\n}\n\nstatic int same(void)\n{\n\treturn 0;\n}\n',
           'extra.c': 'int extra(void)\n{\n\treturn high(0);\n}\n'}


@pytest.mark.parametrize('body, found', [
    ('return high(n);', ['low.c calls high() of high.c above it']),
    ('return n +\n\t\thigh(n) + high(1);', ['low.c calls high() of high.c above it']),
    ('return RAISE(n);', ['low.c calls high() of high.c above it, through RAISE()']),
    ('return raised(n);', ['low.c calls high() of high.c above it, through raised()']),
    ('return extra() + other(n) + same() + as_text();', []),
    ('timer_setup(&timer, high, 0);\n\treturn ops->high(n) + ops.high(n);', []),
    ('/* high() */\n\treturn say("high()");', []),
])
def test_calls_that_go_up(tmp_path, body, found):
    low = f'static int other(int n)\n{{\n\treturn n;\n}}\n\nint low(int n)\n{{\n\t{body}\n}}\n'
    for name, text in {'Makefile': MAKEFILE, 'low.h': HEADER, 'low.c': low, **SOURCES}.items():
        (tmp_path / name).write_text(text, encoding='utf-8')
    assert upward(tmp_path) == found

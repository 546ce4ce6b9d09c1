# SPDX-License-Identifier: GPL-2.0
"""Each script of the selftests runs all of its tests, whatever the kernel: only skip() may leave one out.

Outside its functions a script makes its list by `set --` and ends with `run_tests`, both in the first column. A loop
over words that are the same everywhere may lengthen the list.
"""
import re
import shlex

import pytest

import guests

LIB = guests.SELFTESTS / 'lib.sh'
SCRIPTS = sorted(path for path in guests.SELFTESTS.glob('*.sh') if path != LIB)
FUNCTION = re.compile(r'^\w+\(\)[^\n]*\n\{\n.*?^\}\n', re.M | re.S)
BLOCK = re.compile(r'^(?:if|case|while|until)\b.*?^(?:fi|esac|done)$', re.M | re.S)
UNFINISHED = re.compile(r'(\|\||&&|[|{(])\n\s*')
LIST = re.compile(r'^(for \w+ in (?P<values>.*); do\n\t)?(?P<kind>set --|run_tests)(?P<words>| .*)(?(1)\ndone)$', re.M)
CHANGES = re.compile(r'\b(?:set --|run_tests|exit|exec|return|shift|unset|eval|alias|WQT_ONLY|test_\w+\(\))')
# The host names sizes of shards to compare, and which of its two lists boot.sh runs.
SHARDS = re.compile(r'^\[ -z "\$\{WQT_SHARDS:-\}" \] \|\| (?=set -- )', re.M)
REJECTED = re.compile(r'^if \[ "\$\{WQT_REJECTED:-0\}" = 1 \]; then\n(.*?)^else\n(.*?)^fi\n', re.M | re.S)


def are_fixed(values, text):
    """Are these words, or a variable that is set once, to words?"""
    if not values.startswith('$'):
        return re.fullmatch(r'[\w "]+', values)
    text += LIB.read_text()
    return re.search(rf'^{values[1:]}="[\w ]+"$', text, re.M) and len(re.findall(rf'\b{values[1:]}=', text)) == 1


def run_by(main, text):
    """Return the names of the tests that the commands outside functions run."""
    main = UNFINISHED.sub(r'\1 ', re.sub(r"'[^']*'", "''", re.sub(r'(?<!\S)#.*', '', main)))
    plain, names, run = BLOCK.sub('', main), [], set()
    elsewhere = CHANGES.search('\n'.join([*BLOCK.findall(main), LIST.sub('', plain)]))
    assert not elsewhere, f'"{elsewhere[0]}" may change which tests run'
    for command in LIST.finditer(plain):
        assert not command['values'] or are_fixed(command['values'], text), f'not the same everywhere: {command[0]}'
        words = shlex.split(command['words'])
        assert all(re.match(r'\w+(:|$)', word) for word in words if word != '$@'), f'no names: {command[0]}'
        names = [*(names if '$@' in words else []), *(word.partition(':')[0] for word in words if word != '$@')]
        if command['kind'] == 'run_tests':
            assert not plain[command.end():].strip(), 'something follows run_tests'
            run = set(names)
    return run


def check(text):
    text = SHARDS.sub('', text.replace('\\\n', ' '))
    main, tests = FUNCTION.sub('', text), re.findall(r'^test_(\w+)\(\)', text, re.M)
    ways, choice = [main], REJECTED.search(main)
    if choice:
        ways = [main.replace(choice[0], re.sub('^\t', '', part, flags=re.M)) for part in choice.groups()]
    assert sorted(tests) == sorted(set().union(*(run_by(way, text) for way in ways)))


def test_all_scripts_run():
    booted = {script for boot in guests.BOOTS for script in boot.scripts}
    listed = re.findall(r'\w+\.sh', (LIB.parent / 'Makefile').read_text())
    assert {path.stem for path in SCRIPTS} == booted
    assert sorted(path.name for path in (*SCRIPTS, LIB)) == sorted(listed)


@pytest.mark.parametrize('path', SCRIPTS, ids=lambda path: path.stem)
def test_all_tests_run(path):
    check(path.read_text())


BODY = '\n{\n\ttrue || return 1\n}\n\n'
FUNCTIONS = ''.join(f'test_{name}(){BODY}' for name in ('one', 'two')) + f'test_each()\t# SIZE{BODY}'
MAIN = '''\
create wqt_u unbound
[ -n "$FIRST" ] ||
	bail "no CPU can be taken offline"
trap 'echo "$level" >/proc/sys/kernel/printk' EXIT

set -- one \\
	two
for size in 1 2; do
	set -- "$@" each:"$size"
done
[ "$VARIANT" != base ] || skip "the base kernel fails it" two	# a note
run_tests "$@"
'''
LOOP = MAIN[MAIN.index('for'):MAIN.index('[ "$V')]
END = 'run_tests "$@"\n'


def test_a_script_that_runs_all():
    check(FUNCTIONS + MAIN)
    check(f'SIZES="1 2"\n{FUNCTIONS}{MAIN.replace("1 2", "$SIZES")}')


@pytest.mark.parametrize('old, new', [
    ('one \\\n\ttwo', 'one'),                                           # in no list
    (LOOP, ''),
    ('"$@" each', 'each'),                                              # the list begins anew
    ('two\nfor', 'two three\nfor'),                                     # no such test
    (END, f'[ -d /sys/x ] && exit\n{END}'),                             # an early end
    (END, f'[ -d /sys/x ] || exit 0\n{END}'),
    (END, f'if [ -d /sys/x ]; then\n\trun_tests one\n\texit\nfi\n{END}'),
    (END, f'{END}exit 0\n'),
    (END, f'{END}{END}'),
    (END, ''),
    (END, f'[ "$VARIANT" = base ] || {END}'),                           # under a condition
    ('for', 'if [ -d /sys/x ]; then\n\tset -- one\nfi\nfor'),
    ('for', 'if [ -d /sys/x ]; then\nset -- one\nfi\nfor'),
    ('for', '[ -d /sys/x ] || set -- one\nfor'),
    ('for', '[ -d /sys/x ] ||\nset -- one\nfor'),
    ('for', 'case $VARIANT in\nbase)\n\tset -- one ;;\nesac\nfor'),
    ('\tset -- "$@" each', '\t[ $size = 1 ] || set -- "$@" each'),
    (END, f'shift\n{END}'),
    ('run_tests "$@"', 'tests="one two"; [ -d /sys/x ] && tests="$tests each"\nrun_tests $tests'),     # another list
    ('run_tests "$@"', 'run_tests $(tests_of_this_kernel) "$@"'),
    ('set -- one', 'set -- ${FIRST:+each:1} one'),
    (END, f'WQT_ONLY=one\n{END}'),
    ('1 2', '$(seq 2 "$(nr_online)")'),                                 # a loop that may not run
    ('1 2', '$SIZES'),
    (END, f'[ -d /sys/x ] || test_two() {{ :; }}\n{END}'),              # another test of that name
])
def test_a_script_that_may_leave_one_out(old, new):
    text = MAIN.replace(old, new)
    assert text != MAIN
    with pytest.raises(AssertionError):
        check(FUNCTIONS + text)


def test_a_test_that_replaces_another():
    with pytest.raises(AssertionError):
        check(f'{FUNCTIONS}test_two(){BODY}{MAIN}')

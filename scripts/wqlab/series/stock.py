# SPDX-License-Identifier: GPL-2.0
"""Our tests and tools as files for a tree that has only its own workqueue: make series FOR=tests.

Nothing of ours is compiled there, so what depends on it is left out: files by their names,
and the rest by conditions that are known. The folders and the benchmark get names that say
nothing of our workqueue and are not taken: the base has a benchmark test_workqueue, too, and
two scripts in tools/workqueue/ that are called as ours.
"""
import re
from fnmatch import fnmatchcase
from pathlib import Path

from wqlab.paths import ROOT
from wqlab.series import maintainers
from wqlab.steps import Failure

STEPS = Path(__file__).parent / 'steps-tests'
FOLDERS = ('lib/cmwq/', 'tools/testing/selftests/workqueue/', 'tools/workqueue/cmwq/')
# They test our files or features, or are for modules of another kernel.
LEFT_OUT = ('lib/cmwq/wq_*_kunit.c', 'lib/cmwq/wq_probe.c', 'lib/cmwq/wq_compat.h', 'lib/cmwq/Kbuild',
            *(f'tools/testing/selftests/workqueue/{name}.sh' for name in ('resize', 'own', 'console', 'stats')))
KNOWN = {'CONFIG_WORKQUEUE_CMWQ': False, 'WQ_COMPAT_NO_BH': False, 'KUNIT_CASE_PARAM_WITH_INIT': True}
CONDITION = re.compile(r'#(ifdef|ifndef|if|else|elif|endif)\b\s*(\w*)')
PLACES = {'lib/cmwq/': 'lib/workqueue/', 'lib/workqueue/test_workqueue.c': 'lib/workqueue/wqbench.c',
          'tools/workqueue/cmwq/': 'tools/workqueue/inspect/'}
# Patterns, and what they become in every file
WORDS = {
    r'lib/cmwq\b': 'lib/workqueue',
    r'\btest_workqueue\b': 'wqbench',
    r'(?<![A-Z])TEST_WORKQUEUE\b': 'WQ_BENCH',
    r'^#include "wq_compat\.h"\n': '',
    r'\bWQ_COMPAT_BH\b': 'WQ_PERCPU | WQ_BH',
    r'^MODULE_VERSION\(WQ_RELEASE\);\n': '',
    r'\bwq_api_skip_on_base\b': 'wq_api_known_bug',
    r'\bbase_bugs\b': 'known_bugs',
    r'default: off on the base kernel': 'default N',
    r'fails it, as \\`make basebugs\\` shows': 'fails it, as WQT_ONLY=NAME shows',
    r'\b[Tt]he base kernel\b': 'kernel/workqueue.c',
}
# The same for single files. Each pattern must be found.
EDITS = {
    'lib/workqueue/Kconfig.debug': {
        r'^config WQ_(SHARD_KUNIT_TEST|PROBE)\n(\t.*\n|\n(?=\t))*\n': '',
        r'^\tdepends on WORKQUEUE_CMWQ .*\n': '',
        r' Both workqueue implementations have to pass\. Cases\n.*\n':
            ' Cases that fail for a known reason are\n\t  skipped, unless the parameter known_bugs is set.\n',
    },
    'lib/workqueue/Makefile': {
        r'^obj-\S*(SHARD_KUNIT|PROBE).*\n': '',
        r'\n# What wq_compat\.h has to supply(.*\n)*': '',
    },
    'lib/workqueue/wqbench.h': {r'^ \* wqbench\.c\t': ' * wqbench.c\t\t'},
    'lib/workqueue/wqhelp_main.c': {
        r'\|busy\b': '',
        r', (queues the item of the console), or\n.*$': r', or \1',
    },
    'tools/testing/selftests/workqueue/Makefile': {r' (resize|own|stats|console)\.sh': ''},
    'tools/testing/selftests/workqueue/lib.sh': {r'(?<=VARIANT:-)cmwq': 'base'},
}


def patches(linux: str) -> list[Path]:
    """Return the patches that hook these files into the base tree."""
    found = sorted((ROOT / 'patches/base-tests' / linux).glob('*.patch'))
    if not found:
        raise Failure(f'LINUX={linux}: its own workqueue lacks parts of the interface that the tests use')
    return found


def place_of(place: str) -> str:
    for begin, instead in PLACES.items():
        if place.startswith(begin):
            place = place.replace(begin, instead, 1)
    return place


def unconditional(text: str) -> str:
    """Return C code without the conditions of KNOWN, and without what they exclude."""
    kept, nested = [], []       # for each #if: the value that is known, or None
    for line in text.splitlines(True):
        match = CONDITION.match(line)
        word = match[1] if match else ''
        if word.startswith('if'):
            value = KNOWN.get(match[2]) if match and word != 'if' else None
            nested.append(value if value is None or word == 'ifdef' else not value)
        known = nested[-1] if nested else None
        if word == 'elif' and known is not None:
            raise Failure(f'{line.strip()}: scripts/wqlab/series/stock.py does not know #elif after a known condition')
        if word == 'else' and known is not None:
            nested[-1] = not known
        if word == 'endif':
            nested.pop()
        if False not in nested and not (word and known is not None):
            kept.append(line)
    return ''.join(kept)


def replaced(text: str, pairs: dict[str, str], where: str = '') -> str:
    for pattern, instead in pairs.items():
        text, times = re.subn(pattern, instead, text, flags=re.M)
        if where and not times:
            raise Failure(f'{where} has no {pattern!r}, which scripts/wqlab/series/stock.py wants to replace')
    return text


def text_for(place: str, text: str) -> str:
    """Return the text of a file of ours as it is in that tree, where it is at @place."""
    if place.endswith(('.c', '.h')):
        text = unconditional(text)
    text = replaced(replaced(text, WORDS), EDITS.get(place, {}), place)
    # Where something was left out, empty lines meet. In Python, two of them belong between functions.
    return text if place.endswith('.py') else re.sub('\n{3,}', '\n\n', text).rstrip('\n') + '\n'


def laid(files: dict[str, Path], folder: Path) -> dict[str, Path]:
    """Write those of our files that test or show any workqueue to @folder. Return them by their places in the tree."""
    made: dict[str, Path] = {}
    for place, path in files.items():
        if place.startswith(FOLDERS) and not any(fnmatchcase(place, pattern) for pattern in LEFT_OUT):
            new = place_of(place)
            made[new] = folder / new
            made[new].parent.mkdir(parents=True, exist_ok=True)
            made[new].write_text(text_for(new, path.read_text()))
            made[new].chmod(path.stat().st_mode)
    return made


def entry() -> str:
    """Return our entry for MAINTAINERS with only the folders of the tests and tools."""
    text = re.sub(r'^.*\n', 'WORKQUEUE TESTS AND TOOLS\n', maintainers.OWN.read_text(), count=1)
    return replaced(re.sub(rf'^F:\t(?!{"|".join(FOLDERS)}).*\n', '', text, flags=re.M), PLACES)

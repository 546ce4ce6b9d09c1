# SPDX-License-Identifier: GPL-2.0
"""Run checkpatch, kernel-doc, compiler warnings, sparse, ruff, mypy, shellcheck and codespell on our files.

usage: [ENGINE=qemu|uml|arm64] [CONFIG=release] scripts/lab check [--no-kernel]

The exit status is 1 if any checker reports something about our files.
"""
import argparse
import os
import re
import subprocess
import sys

from wqlab.kernels import base, build
from wqlab.kernels.kinds import Kind, numbers, one_of
from wqlab.paths import BUILD, ROOT
from wqlab.steps import Failure, locked, logged, need, plain_environment, sayer, shown

say = sayer('check')
VENV = ROOT / 'build/venv/bin'
# Debian 12's sparse 0.6.4 does not know some features that the kernel's headers use.
SPARSE = ("sparse -D__typeof_unqual__=__typeof__ '-D__builtin_strlen(s)=(sizeof(s)-1)' "
          "'-D__builtin_ia32_rdtsc()=0ull'")
# Until then, the kernel lets sparse count locks. Sparse does not understand guard().
NO_CONTEXT = (7, 0)
OURS = re.compile(r'(kernel/workqueue|lib/cmwq|linux/cmwq)/[^ ]*: (warning|error)')
HEADER = 'include/linux/workqueue.h'


def report(what: str, findings: list[str]) -> bool:
    """Print the findings. Return True if there are none."""
    if findings:
        print('\n'.join(findings), file=sys.stderr)
    say(f'{what}: {f"{len(findings)} lines to look at" if findings else "clean"}')
    return not findings


def called(*command) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, env=plain_environment())


def findings_of(*command) -> list[str]:
    """Run a checker. Return its output lines if its status is not 0."""
    done = called(*command)
    return (done.stdout.splitlines() or ['the checker failed without a message']) if done.returncode else []


def tracked(*patterns: str) -> list[str]:
    """Our files, relative to the repository. New files that git does not track yet are included."""
    listed = subprocess.run(['git', '-C', ROOT, 'ls-files', '-co', '--exclude-standard', '--', *patterns],
                            capture_output=True, text=True, check=False).stdout.split('\n')
    return sorted(name for name in listed if name and (ROOT / name).is_file())


def shell_files() -> list[str]:
    first = re.compile(rb'#! ?/bin/(ba)?sh')
    return [name for name in tracked('scripts', 'tests', 'tools', '.ci')
            if first.match((ROOT / name).read_bytes()[:16])]


# A test may pass a fake, and replace a function. If re.search() finds nothing, it fails.
LEFT_TO_TESTS = ('arg-type', 'func-returns-value', 'index', 'method-assign', 'union-attr')


def check_scripts() -> bool:
    shell = shell_files()
    return all([
        report('ruff', findings_of(VENV / 'ruff', 'check', '--quiet', '--output-format=concise', '.')),
        report('mypy', findings_of(VENV / 'mypy', '--no-error-summary')),
        report('mypy, tests', findings_of(VENV / 'mypy', '--no-error-summary',
                                          *(f'--disable-error-code={code}' for code in LEFT_TO_TESTS), 'tests')),
        report(f'shellcheck, {len(shell)} files',
               findings_of(VENV / 'shellcheck', '--severity=warning', '-f', 'gcc', *shell)),
        report('codespell', findings_of(VENV / 'codespell', *tracked())),
    ])


def checkpatch(*words: str) -> list[str]:
    return called('perl', base.Base(Kind.asked().linux).tree / 'scripts/checkpatch.pl', '--strict', '--no-tree',
                  '--no-summary', '--terse', *words).stdout.splitlines()


def check_style() -> bool:
    """Run checkpatch. Two of its checks are left out.

    One is whether a __setup() is documented. kernel-parameters.txt documents
    workqueue.unbound_cpus=, but checkpatch cannot see that without a tree. The other, for
    the public header only, is whether a macro uses an argument twice. A static initialiser
    has to name its own variable, and INIT_WORK() names the item for lockdep.
    """
    names = sorted(name for name in tracked('kernel', 'include', 'lib') if name.endswith(('.c', '.h')))
    private = [name for name in names if name != HEADER]
    return report(f'checkpatch --strict, {len(names)} files',
                  checkpatch('--ignore', 'UNDOCUMENTED_SETUP', '-f', *private)
                  + checkpatch('--ignore', 'MACRO_ARG_REUSE', '-f', HEADER))


def documented_prototypes(text: str) -> list[int]:
    """Return the lines of a header where kernel-doc describes a function that is defined elsewhere."""
    comment = r'/\*\*\n(?: \*[^\n]*\n)*? \*/\n'
    found = re.finditer(comment + r'(?!#|static|struct|enum|typedef|extern)[^;{#]*;', text)
    return [text.count('\n', 0, one.start()) + 1 for one in found]


def check_kernel_doc() -> bool:
    """Check that kernel-doc is correct, and that it describes each function only where that is defined."""
    names = sorted(name for name in tracked('kernel', 'include', 'lib') if name.endswith(('.c', '.h')))
    done = called(sys.executable, base.Base(Kind.asked().linux).tree / 'scripts/kernel-doc', '-none', '-Wall', *names)
    lines = done.stdout.splitlines() or ['kernel-doc failed without a message'] * bool(done.returncode)
    lines += [f'{name}:{line}: describe the function where it is defined, not at its prototype'
              for name in names if name.endswith('.h')
              for line in documented_prototypes((ROOT / name).read_text())]
    return report(f'kernel-doc, {len(names)} files', lines)


def check_folder(kind: Kind, name: str) -> bool:
    """Compile our own objects again, with W=1 and sparse."""
    for path in (kind.folder / name).rglob('*.o'):
        path.unlink()
    log = BUILD / 'log/check.log'
    sparse = SPARSE + ' -Wno-context' * (numbers(kind.linux) < NO_CONTEXT)
    if logged(log, f'W=1 and sparse in {name}',
              kind.make(f'CHECK={sparse}', 'W=1', 'C=2', 'CF=-D__CHECK_ENDIAN__',
                        f'-j{len(os.sched_getaffinity(0))}', f'{name}/'), say=say, env=kind.environment()):
        print('\n'.join(log.read_text(errors='replace').splitlines()[-5:]), file=sys.stderr)
        raise Failure(f'{name} does not compile: see {shown(log)}')
    lines = log.read_text(errors='replace').splitlines()
    if not any(line.startswith('  CHECK ') for line in lines):
        raise Failure(f'sparse did not run in {name}: see {shown(log)}')
    return report(f'W=1 and sparse, {name}', [line for line in lines if OURS.search(line)])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--no-kernel', action='store_true', help='run only the checkers that need no kernel')
    args = parser.parse_args(argv)
    kind = Kind.asked()
    one_of('VARIANT', kind.variant, ('cmwq',))
    need('perl', 'sparse', 'git')
    good = check_scripts()
    if not args.no_kernel:
        build.build(kind)
        with locked(kind.name):
            compiled = [check_folder(kind, name) for name in ('kernel/workqueue', 'lib/cmwq')]
        good = all([check_style(), check_kernel_doc(), *compiled, good])
    return 0 if good else 1

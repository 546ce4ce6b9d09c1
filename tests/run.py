#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Run the tests on the host and in guests. Build the kernels that they need.

  tests/run.sh                 what `make test` runs
  tests/run.sh --tier quick    what `make test-quick` runs
  tests/run.sh --tier all      what `make test-all` runs (it installs packages first)
  tests/run.sh -k uml          the tests of `make test` with "uml" in their names
  tests/run.sh tests/host      the tests of `make test` in this folder or file
  tests/run.sh --resume        leave out the tests that passed in the last run. It must have had the
                               same sources and settings. The closing line counts both runs.

All other arguments go to pytest. VARIANT=base runs them on the base kernel's workqueue.

The last line is "N passed, N failed". If tests cannot run on the given kernel or machine,
", N skipped" follows, and each such test prints the reason. The exit status is 1 if a test
failed. The kernel logs, and junit.xml for a CI system, are in build/test/.
"""
import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / 'build/test'
PYTEST = ROOT / 'build/venv/bin/pytest'
TIERS = {'quick': 'make test-quick', 'test': 'make test', 'all': 'make test-all'}
VARIANTS = ('cmwq', 'base')


def say(text):
    print(f'run: {text}', file=sys.stderr, flush=True)


def parse_args(argv):
    parser = argparse.ArgumentParser(prog='tests/run.sh', description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage='[VARIANT=cmwq|base] %(prog)s [--tier TIER] [PYTEST ARGUMENT...]')
    parser.add_argument('--tier', choices=TIERS, help='tests to run; default: test, or all if FILE::CASE names a case')
    args, others = parser.parse_known_args(argv)
    if os.environ.get('VARIANT', 'cmwq') not in VARIANTS:
        parser.exit(1, f'run: VARIANT={os.environ["VARIANT"]}: must be one of: {" ".join(VARIANTS)}\n')
    if not PYTEST.exists():
        parser.exit(1, 'run: build/venv has no pytest: run scripts/deps.sh first\n')
    return args.tier, others


def lock():
    """
    Wait until no other run is active: runs share files, sockets and kernels. The lock is held until this process and
    pytest have closed the file.
    """
    file = open(PLACE / '.lock', 'a')
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f'waiting for another run of the tests in {ROOT} to end')
        fcntl.flock(file, fcntl.LOCK_EX)
    return file


def run_pytest(command, held):
    """Run pytest. Pass signals on to it and wait for it, since it has to end its guests."""
    env = {key: value for key, value in os.environ.items() if key not in ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL')}
    # Pytest inherits the lock: if this process is killed, pytest goes on.
    child = subprocess.Popen(command, env=env, cwd=ROOT, pass_fds=[held.fileno()])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: child.send_signal(signal.SIGTERM))
    # The terminal sends Ctrl-C to both processes.
    signal.signal(signal.SIGINT, lambda *_: None)
    return child.wait()


def closing_line(tally, status):
    """Return the last line of the output, and True if nothing failed."""
    passed, failed, skipped = (tally[key] for key in ('passed', 'failed', 'skipped'))
    # Count a failure if nothing ran, if pytest was interrupted, or if pytest itself failed.
    # Status 5 means that no case was left to run: --resume after a run in which all passed.
    if not passed + failed or (status not in (0, 1, 5) and not failed):
        failed += 1
    return f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''), not failed


def main(argv):
    tier, others = parse_args(argv)
    PLACE.mkdir(parents=True, exist_ok=True)
    with lock() as held:
        tally, results = PLACE / 'tally.json', PLACE / 'junit.xml'
        for path in (tally, results):
            path.unlink(missing_ok=True)
        status = run_pytest([str(PYTEST), '-q', '-s', '--tb=short', f'--tally={tally}',
                             f'--junitxml={results}', *([f'--tier={tier}'] if tier else []), *others], held)
        if not tally.exists():
            say(f'pytest ended early with status {status}: see the lines above')
            return 1
        sums = json.loads(tally.read_text())
    for name, cases in sums['left'].items():
        say(f'{cases} cases were left to `{TIERS[name]}`')
    line, good = closing_line(sums, status)
    print(line, flush=True)
    return 0 if good else 1


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Run the tests on the host and in guests. Build the kernels that they need.
#
# usage: [VARIANT=cmwq|base] tests/run.sh [--tier quick|test|more|all] [PYTEST ARGUMENT...]
#
#   tests/run.sh                 what `make test` runs
#   tests/run.sh --tier quick    what `make test-quick` runs
#   tests/run.sh --tier more     what `make test` and `make test-more` run
#   tests/run.sh --tier all      what `make test-all` runs (it installs packages first)
#   tests/run.sh -k uml          the tests of `make test` with "uml" in their names
#   tests/run.sh tests/host      the tests of `make test` in this folder or file
#   tests/run.sh --lf            the tests that failed in the last run, and those that an
#                                interruption left out
#
# A test that is named as FILE::CASE runs in any tier. VARIANT=base runs the tests on the base
# kernel's workqueue.
#
# The last line is "N passed, N failed". If tests cannot run on the given kernel or machine,
# ", N skipped" follows, and each such test prints the reason. The exit status is 1 if a test
# failed. The kernel logs, and junit.xml for a CI system, are in build/test/.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'run: %s\n' "$*" >&2; }

case " $* " in
*' --help '* | *' -h '*)
	sed -n '3,/^[^#]/{/^#/s/^# \{0,1\}//p}' tests/run.sh
	exit ;;
esac
case ${VARIANT:=cmwq} in
cmwq | base) ;;
*) say "VARIANT=$VARIANT: must be one of: cmwq base"; exit 1 ;;
esac
[ -x build/venv/bin/pytest ] || { say "build/venv has no pytest: run scripts/deps.sh first"; exit 1; }
# Runs share files, sockets and kernels. Pytest inherits the lock, and its children do not.
mkdir -p build/test
exec 9>>build/test/.lock
flock -n 9 || { say "waiting for another run of the tests in $PWD to end"; flock 9; }
rm -f build/test/junit.xml
unset MAKEFLAGS MFLAGS MAKELEVEL
exec build/venv/bin/pytest -q -s --tb=short --junitxml=build/test/junit.xml "$@"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Run the tests: on the host, and in the kernels that they build and boot.
#
# usage: [VARIANT=cmwq|base] tests/run.sh [PYTEST ARGUMENT...]
#
#   tests/run.sh                 everything but tests/guest/test_arm64.py, which
#                                needs a cross compiler (see `make arm64`)
#   tests/run.sh -k uml          what has "uml" in its name
#   tests/run.sh tests/host      what needs no guest
#   tests/run.sh tests/host/test_kernlog.py  one file
#
# The last line is "N passed, N failed"; the exit status is 1 when any failed.
# Kernel logs are kept in build/test/.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

case ${1:-} in
--help | -h)
	sed -n '3,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
	exit ;;
esac
case ${VARIANT:-cmwq} in
cmwq | base) ;;
*)
	echo "run: VARIANT=$VARIANT: must be one of: cmwq base" >&2
	exit 1 ;;
esac
pytest=build/venv/bin/pytest
[ -x $pytest ] || {
	echo "run: build/venv has no pytest: run scripts/deps.sh first" >&2
	exit 1
}

mkdir -p build/test
tally=build/test/tally
rm -f $tally
paths=()
[[ " $*" =~ \ tests/ ]] || paths=(tests --ignore=tests/guest/test_arm64.py)
unset MAKEFLAGS MFLAGS MAKELEVEL
$pytest -q -s -p no:cacheprovider --tb=short --tally=$tally "$@" "${paths[@]}"
rc=$?
if ! [ -s $tally ]; then
	echo "run: pytest did not come to its end (status $rc)" >&2
	exit 1
fi
read -r passed failed <$tally
[ $((passed + failed)) -gt 0 ] || failed=1
# Interrupted, or an error of pytest itself.
[ $rc -le 1 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

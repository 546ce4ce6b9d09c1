#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Remove what was built.
#
# usage: scripts/clean.sh
#
# The base tree, downloads, build/venv and measured results (build/bench) stay:
# remove build/ yourself to be rid of them, too.
. "$(dirname "$0")/lib.sh"
[ $# = 0 ] || usage "$([ "$1" = --help ] || echo 1)"

cd "$BUILD" 2>/dev/null || exit 0
for dir in qemu-*-[0-9]* uml-*-[0-9]* arm64-*-[0-9]* module-* series-* tree-* .stage-* .guest log; do
	[ ! -e "$dir" ] || { say "removing build/$dir"; rm -rf "$dir"; }
done

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Build the benchmark module against any kernel from 6.5 on.
#
# usage: KDIR=DIR scripts/module.sh
#
# KDIR is a kernel's build folder (default: the running kernel's). The result is
# build/module-<kernel release>/test_workqueue.ko.
. "$(dirname "$0")/lib.sh"
[ $# = 0 ] || usage "$([ "$1" = --help ] || echo 1)"

KDIR=${KDIR:-/lib/modules/$(uname -r)/build}
[ -d "$KDIR" ] || die "KDIR=$KDIR is not a directory: name a kernel's build folder"
KDIR=$(cd "$KDIR" && pwd -P)
if [ ! -f "$KDIR/include/config/kernel.release" ] || [ ! -f "$KDIR/.config" ]; then
	die "KDIR=$KDIR is not configured and built: run 'make' or at least 'make modules_prepare' there"
fi
[ -f "$KDIR/Module.symvers" ] || die "KDIR=$KDIR has no Module.symvers: build that kernel first"
release=$(cat "$KDIR/include/config/kernel.release")
IFS=. read -r major minor _ <<<"${release%%-*}"
[ $((major * 1000 + minor)) -ge 6005 ] ||
	die "KDIR=$KDIR is Linux $release: affinity scopes came with 6.5"
grep -q '^CONFIG_MODULES=y' "$KDIR/.config" || die "KDIR=$KDIR has no CONFIG_MODULES"
arch=$(uname -m)
! grep -q '^CONFIG_UML=y' "$KDIR/.config" || arch=um

out=$BUILD/module-$release
log=$BUILD/log/module-$release.log
mkdir -p "$out"
cp -u "$ROOT"/lib/test_workqueue*.[ch] "$out/" 2>/dev/null || [ -f "$out/test_workqueue.c" ]
echo 'obj-m := test_workqueue.o' >"$out/Kbuild"
logged "$log" "building test_workqueue.ko for $release" \
	make -C "$KDIR" M="$out" ARCH="$arch" modules || {
	grep -nE 'error:|\*\*\*|undefined!' "$log" | head >&2
	die "the module does not build against $release: see ${log#"$ROOT"/}"
}
say "${out#"$ROOT"/}/test_workqueue.ko"

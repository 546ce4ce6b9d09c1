#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Build the benchmark module against any kernel from 6.5 on, and from 6.12 on the
# torture test.
#
# usage: KDIR=DIR scripts/module.sh
#
# KDIR is a kernel's build folder (default: the running kernel's). The result is
# build/module-<kernel release>/test_workqueue.ko, and wqtorture.ko.
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
modules=(test_workqueue)
if [ $((major * 1000 + minor)) -ge 6012 ]; then
	cp -u "$ROOT"/lib/wqtorture*.[ch] "$out/"
	# What a kernel lacks is looked up in its headers: distributions bring
	# features back into old releases.
	cat >>"$out/Kbuild" <<-'EOF'
		obj-m += wqtorture.o
		wqtorture-y := $(patsubst $(src)/%.c,%.o,$(wildcard $(src)/wqtorture_*.c))
		without = $(if $(shell grep -w $(1) $(srctree)/include/linux/$(2)),,-D$(3))
		ccflags-y += $(call without,WQ_PERCPU,workqueue.h,WQT_NO_PERCPU_FLAG)
		ccflags-y += $(call without,hrtimer_setup,hrtimer.h,WQT_NO_HRTIMER_SETUP)
	EOF
	modules+=(wqtorture)
fi
logged "$log" "building ${modules[*]} for $release" \
	make -C "$KDIR" M="$out" ARCH="$arch" modules || {
	grep -nE 'error:|\*\*\*|undefined!' "$log" | head >&2
	die "the modules do not build against $release: see ${log#"$ROOT"/}"
}
for module in "${modules[@]}"; do say "${out#"$ROOT"/}/$module.ko"; done

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Check our sources: checkpatch, compiler warnings and sparse, originality.
#
# usage: [ENGINE=uml|arm64] [CONFIG=release] scripts/check.sh
#
# Exit status 1 when any of them has something to say about our files.
. "$(dirname "$0")/lib.sh"
[ $# = 0 ] || usage "$([ "$1" = --help ] || echo 1)"
ENGINE=${ENGINE:-qemu} CONFIG=${CONFIG:-release} VARIANT=cmwq
export ENGINE CONFIG VARIANT
failed=0

report() # WHAT FINDINGS
{
	if [ -z "$2" ]; then
		say "$1: clean"
	else
		printf '%s\n' "$2" >&2
		say "$1: $(wc -l <<<"$2") lines to look at"
		failed=1
	fi
}

need perl sparse
"$ROOT/scripts/kernel.sh"

cd "$ROOT"
mapfile -t files < <(find kernel include lib -name '*.[ch]' | sort)
# Not asked: whether a __setup() is documented (without a tree checkpatch cannot see
# that workqueue.unbound_cpus= is, in kernel-parameters.txt), and, of the public header
# alone, whether a macro uses an argument twice: a static initialiser has to name its
# own variable, and INIT_WORK() names the item for lockdep.
checkpatch() # FILE... [--ignore TYPES]
{
	perl "$BASE_TREE/scripts/checkpatch.pl" --strict --no-tree --no-summary --terse "$@" 2>&1 || true
}
private=()
for file in "${files[@]}"; do
	[ "$file" = include/linux/workqueue.h ] || private+=("$file")
done
report "checkpatch --strict, ${#files[@]} files" "$(
	checkpatch --ignore UNDOCUMENTED_SETUP -f "${private[@]}"
	checkpatch --ignore MACRO_ARG_REUSE -f include/linux/workqueue.h)"

# Our objects alone, again: W=1 and sparse look at what is compiled.
out=$("$ROOT/scripts/kernel.sh" --print-dir)
cross=
case $ENGINE in
uml) arch=um ;;
arm64) arch=arm64 cross=aarch64-linux-gnu- ;;
*) arch=x86_64 ;;
esac
log=$BUILD/log/check.log
# Debian 12's sparse 0.6.4 is older than some of what the kernel's headers use.
sparse="sparse -D__typeof_unqual__=__typeof__ '-D__builtin_strlen(s)=(sizeof(s)-1)' '-D__builtin_ia32_rdtsc()=0ull'"
CC=${cross}gcc
! command -v ccache >/dev/null || CC="ccache $CC"
kmake()
{
	nice make -C "$TREE" O="$out" ARCH="$arch" CROSS_COMPILE="$cross" CC="$CC" CHECK="$sparse" \
		W=1 C=2 CF=-D__CHECK_ENDIAN__ -j"$NPROC" "$@"
}
for dir in kernel/workqueue lib/cmwq; do
	find "$out/$dir" -name '*.o' -delete
	logged "$log" "W=1 and sparse in $dir" kmake "$dir/" || {
		tail -n 5 "$log" >&2
		die "$dir does not compile: see build/log/check.log"
	}
	[ "$(grep -c '^  CHECK ' "$log")" -gt 0 ] || die "sparse did not run in $dir: see build/log/check.log"
	report "W=1 and sparse, $dir" "$(grep -E '(kernel/workqueue|lib/cmwq|linux/cmwq)/[^ ]*: (warning|error)' "$log" || true)"
done

originality=$ROOT/../shared/bin/originality
if [ -x "$originality" ]; then
	found=$("$originality" "$BASE_TREE" "$ROOT" 2>&1) && found=
	report originality "$found"
fi
exit $failed

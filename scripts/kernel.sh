#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Configure and build one kernel with its modules.
#
# usage: [ENGINE=qemu|uml|arm64] [VARIANT=cmwq|base]
#        [CONFIG=release|debug|kcsan|preempt|rt|up] [LINUX=7.3] [KERNEL_SRC=DIR] scripts/kernel.sh [--config-only|--print-dir]
#
# Output: build/<engine>-<variant>-<config>-<linux>/, with arch/x86/boot/bzImage,
# arch/arm64/boot/Image or the UML binary `linux`. The configuration is
# `allnoconfig` and the fragments of configs/ that this script names; an option
# that did not take is an error.
. "$(dirname "$0")/lib.sh"

ENGINE=${ENGINE:-qemu} VARIANT=${VARIANT:-cmwq} CONFIG=${CONFIG:-release}
one_of ENGINE "$ENGINE" qemu uml arm64
one_of VARIANT "$VARIANT" cmwq base
one_of CONFIG "$CONFIG" release debug kcsan preempt rt up
OURS=1
if [ ! -d "$ROOT/patches/$LINUX" ]; then
	OURS=
	[ "$ENGINE-$VARIANT-$CONFIG" = qemu-base-release ] ||
		die "LINUX=$LINUX: there is no patches/$LINUX (have: $(cd "$ROOT/patches" && echo *)):" \
			"only ENGINE=qemu VARIANT=base CONFIG=release can be built"
	TREE=$BASE_TREE
fi
case $ENGINE-$CONFIG in
uml-kcsan | uml-preempt | uml-rt) die "UML cannot have CONFIG=$CONFIG: use ENGINE=qemu" ;;
qemu-up | arm64-up) die "CONFIG=up is for ENGINE=uml" ;;
esac
NAME=$ENGINE-$VARIANT-$CONFIG-$LINUX
OUT=$BUILD/$NAME
LOG=$BUILD/log/$NAME.log

CROSS=
case $ENGINE in
qemu)
	ARCH=x86_64 PRODUCT=arch/x86/boot/bzImage
	PARTS="common workqueue cgroup tracing hang kunit bench selftest torture qemu pm virtme storage crashdump"
	;;
uml)
	ARCH=um PRODUCT=linux
	PARTS="common workqueue cgroup tracing hang kunit bench selftest torture uml"
	;;
arm64)
	ARCH=arm64 PRODUCT=arch/arm64/boot/Image
	PARTS="common workqueue cgroup tracing hang kunit bench selftest torture arm64 pm crashdump"
	CROSS=aarch64-linux-gnu-
	;;
esac
[ -n "$OURS" ] || PARTS="common workqueue qemu crashdump"

what=build
case ${1:-} in
'') ;;
--config-only) what=config ;;
--print-dir) echo "$OUT"; exit ;;
*) usage "$([ "$1" = --help ] || echo 1)" ;;
esac

CCACHE=
! command -v ccache >/dev/null || CCACHE="ccache "
CC=$CCACHE${CROSS}gcc
# ccache sees paths relative to the checkout, so that one clone fills the cache for the
# next; what it takes from the file names in WARN() the last option takes away again.
export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1
kmake()
{
	nice make -C "$TREE" O="$OUT" ARCH="$ARCH" CROSS_COMPILE="$CROSS" CC="$CC" HOSTCC="${CCACHE}gcc" \
		KCFLAGS="-fmacro-prefix-map=../${TREE##*/}/=" "$@"
}

# The options that were asked for in WANTED and are otherwise in GOT.
not_taken() # WANTED GOT
{
	awk '
		FNR == NR { if (/^CONFIG_/) got[substr($0, 1, index($0, "=") - 1)] = $0; next }
		/^CONFIG_/ { sym = substr($0, 1, index($0, "=") - 1); if (got[sym] != $0) print $0 }
		/^# CONFIG_.* is not set/ { if ($2 in got) print $2 "=n" }' "$2" "$1"
}

# Those of the options on standard input that this release has at all.
known_here()
{
	local option sym
	while read -r option; do
		sym=${option#CONFIG_}
		! grep -qrE --include='Kconfig*' "^[[:space:]]*(menu)?config ${sym%%=*}\$" "$TREE" || echo "$option"
	done
}

configure()
{
	local frag fragments=() part new=$OUT/.config.new missing
	[ ! -f "$ROOT/configs/$LINUX.config" ] || PARTS="$PARTS $LINUX"
	case $CONFIG in
	preempt | rt | up) PARTS="$PARTS release" ;;
	esac
	for part in $PARTS "$CONFIG" "$VARIANT"; do
		frag=$ROOT/configs/$part.config
		[ -f "$frag" ] || die "configs/$part.config is missing"
		fragments+=("$frag")
	done
	mkdir -p "$OUT/.merge"
	(cd "$OUT/.merge" && sh "$TREE/scripts/kconfig/merge_config.sh" -m -Q -O . /dev/null "${fragments[@]}") \
		>"$LOG" 2>&1 || die "merging the fragments failed: see ${LOG#"$ROOT"/}"
	printf -- '-%s\n' "$VARIANT" | cmp -s - "$OUT/localversion-variant" ||
		printf -- '-%s\n' "$VARIANT" >"$OUT/localversion-variant"
	kmake -s KCONFIG_CONFIG="$new" KCONFIG_ALLCONFIG="$OUT/.merge/.config" allnoconfig >>"$LOG" 2>&1 ||
		die "allnoconfig failed: $(grep -m 1 -iE 'error|:[0-9]+:' "$LOG" || tail -n 1 "$LOG")"
	missing=$(not_taken "$OUT/.merge/.config" "$new")
	[ -n "$OURS" ] || missing=$(known_here <<<"$missing")
	[ -z "$missing" ] || die "$NAME: these options did not take (dependencies?): $(xargs <<<"$missing")"
	cmp -s "$new" "$OUT/.config" || cp "$new" "$OUT/.config"
	rm -f "$new" "$new.old"
	same_but_choice
}

# The two variants are compared with each other: nothing else may differ.
same_but_choice()
{
	local other=$BUILD/$ENGINE-base-$CONFIG-$LINUX differ
	[ "$VARIANT" = cmwq ] || other=$BUILD/$ENGINE-cmwq-$CONFIG-$LINUX
	[ -f "$other/.config" ] || return 0
	differ=$(diff "$OUT/.config" "$other/.config" | grep '^[<>]' | grep -vE 'CONFIG_WORKQUEUE_(CMWQ|BASE)[ =]' || true)
	[ -z "$differ" ] || say "note: ${other##*/} was configured otherwise; build it again before comparing: $(head -n 3 <<<"$differ" | tr '\n' ' ')"
}

need make gcc flex bison bc flock
command -v "${CROSS}gcc" >/dev/null ||
	die "${CROSS}gcc is missing: run ENGINE=$ENGINE scripts/deps.sh (as root) first"
if [ -n "$OURS" ]; then "$ROOT/scripts/tree.sh"; else "$ROOT/scripts/fetch-base.sh"; fi
mkdir -p "$OUT" "$BUILD/log"
lock "$NAME"
configure
[ "$what" = build ] || { say "configured build/$NAME"; exit 0; }

if ! logged "$LOG" "building $NAME" kmake -j"$NPROC" all; then
	grep -nE 'error:|\*\*\*|undefined (reference|!)|No rule to make' "$LOG" | head -n 20 >&2 || tail -n 20 "$LOG" >&2
	die "building $NAME failed: see ${LOG#"$ROOT"/}"
fi
ours=$(grep -E '^[^ ]*(kernel/workqueue/|lib/cmwq/|linux/cmwq/)[^ ]*: warning:' "$LOG" || true)
[ -z "$ours" ] || { printf '%s\n' "$ours" >&2; say "the project's files have warnings"; }
[ -s "$OUT/$PRODUCT" ] || die "the build left no $PRODUCT: see ${LOG#"$ROOT"/}"
say "build/$NAME/$PRODUCT is Linux $(cat "$OUT/include/config/kernel.release")"

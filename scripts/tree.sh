#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Compose build/tree-$LINUX: the base tree with this project laid over it.
#
# usage: [LINUX=7.3] [KERNEL_SRC=DIR] scripts/tree.sh [--list]
#
# The tree is hard links to the base tree, except for the files that
# patches/$LINUX/ change (files of their own) and ours (symbolic links into the
# repository, so that an edit is seen by the next build). Run again, it touches
# only what differs. --list prints "FILE PLACE-IN-THE-TREE" for our files.
. "$(dirname "$0")/lib.sh"

MANIFEST=$TREE/.cmwq-overlay
PATCHES=$ROOT/patches/$LINUX

our_files() # prints "FILE PLACE"
{
	local f
	cd "$ROOT"
	for f in kernel/workqueue/* ; do echo "$f $f"; done
	for f in include/linux/*.h; do echo "$f include/linux/cmwq/${f##*/}"; done
	for f in lib/*.c lib/*.h lib/Makefile; do echo "$f lib/cmwq/${f##*/}"; done
	echo "Kconfig.debug lib/cmwq/Kconfig.debug"
	echo "kernel/workqueue_internal.h kernel/workqueue/workqueue_internal.h"
	# beside the base's own two scripts, which work on either variant
	find tools/workqueue -name '*.py' -o -path 'tools/workqueue/*.rst' | sort |
		sed 's,^tools/workqueue/\(.*\),& tools/workqueue/cmwq/\1,'
	echo "Documentation/core-api/workqueue.rst Documentation/core-api/workqueue-cmwq.rst"
	echo "Documentation/core-api/workqueue-tools.rst Documentation/core-api/workqueue-cmwq-tools.rst"
	echo "Documentation/core-api/workqueue-torture.rst Documentation/core-api/workqueue-cmwq-torture.rst"
	echo "Documentation/core-api/workqueue-36-cores.svg Documentation/core-api/workqueue-36-cores.svg"
}

existing() { while read -r f place; do [ ! -f "$ROOT/$f" ] || echo "$f $place"; done; }

case ${1:-} in
'') ;;
--list) our_files | existing; exit ;;
*) usage "$([ "$1" = --help ] || echo 1)" ;;
esac

need patch flock
[ -d "$PATCHES" ] || die "LINUX=$LINUX: there is no patches/$LINUX (have: $(cd "$ROOT/patches" && echo *))"
"$(dirname "$0")/fetch-base.sh"
lock tree

# A new base makes the whole tree new.
origin=$BUILD/.linux-$LINUX.origin
if ! cmp -s "$origin" "$TREE/.cmwq-origin"; then
	say "composing ${TREE#"$ROOT"/} from $(cat "$origin")"
	rm -rf "$TREE.tmp" "$TREE"
	cp -al "$BASE_TREE" "$TREE.tmp"
	cp "$origin" "$TREE.tmp/.cmwq-origin"
	mv "$TREE.tmp" "$TREE"
fi

# What the patches touch, patched in a place of its own.
stage=$BUILD/.stage-$LINUX
rm -rf "$stage" && mkdir -p "$stage"
trap 'rm -rf "$stage" "$stage".patched "$stage".manifest' EXIT
sed -n 's,^+++ b/\([^[:space:]]*\).*,\1,p' "$PATCHES"/*.patch | sort -u >"$stage.patched"
while read -r f; do
	mkdir -p "$stage/$(dirname "$f")"
	[ ! -f "$BASE_TREE/$f" ] || cp -p "$BASE_TREE/$f" "$stage/$f"
done <"$stage.patched"
for p in "$PATCHES"/*.patch; do
	out=$(patch -d "$stage" -p1 -s -f --no-backup-if-mismatch <"$p" 2>&1) ||
		die "${p#"$ROOT"/} does not apply to $(tree_version "$BASE_TREE"): $(head -n 1 <<<"$out")"
done

changed=0
put() # COMMAND... PLACE: make PLACE anew, never through the old one (a hard link)
{
	local place=${*: -1}
	mkdir -p "$(dirname "$place")"
	"${@:1:$#-1}" "$place.cmwq-tmp"
	mv -f "$place.cmwq-tmp" "$place"
	changed=$((changed + 1))
}

while read -r f; do
	cmp -s "$stage/$f" "$TREE/$f" || { touch "$stage/$f"; put cp "$stage/$f" "$TREE/$f"; }
	echo "$f"
done <"$stage.patched" >"$stage.manifest"

while read -r f place; do
	target=$(realpath -m --relative-to="$TREE/$(dirname "$place")" "$ROOT/$f")
	[ "$(readlink "$TREE/$place" || true)" = "$target" ] || put ln -s "$target" "$TREE/$place"
	echo "$place"
done < <(our_files | existing) >>"$stage.manifest"

# What was ours at the last run and is no more.
[ ! -f "$MANIFEST" ] || while read -r f; do
	rm -f "$TREE/$f"
	[ ! -f "$BASE_TREE/$f" ] || ln "$BASE_TREE/$f" "$TREE/$f"
	changed=$((changed + 1))
done < <(sort "$MANIFEST" | comm -23 - <(sort "$stage.manifest"))

mv "$stage.manifest" "$MANIFEST"
say "${TREE#"$ROOT"/} is $(tree_version "$TREE") with $(wc -l <"$MANIFEST") files of ours or patched, $changed changed now"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Get the base kernel tree to build/linux-$LINUX.
#
# usage: [LINUX=7.3] [KERNEL_SRC=DIR] scripts/fetch-base.sh
#
# Without KERNEL_SRC it is Debian's package linux-source-$LINUX, which needs no root
# and changes nothing outside build/ (see apt.sh). With KERNEL_SRC=DIR it is a copy
# of that (clean) tree.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/apt.sh"
[ $# = 0 ] || usage "$([ "$1" = --help ] || echo 1)"

PKG=linux-source-$LINUX
# A release is in one suite or two; of one that is not known here, all are asked.
case $LINUX in
7.3) SUITES="trixie-backports sid" ;;
6.12) SUITES="trixie bookworm-backports" ;;
*) SUITES="sid trixie-backports trixie bookworm-backports" ;;
esac
ORIGIN=$BUILD/.linux-$LINUX.origin
HELP="or give KERNEL_SRC=DIR, a Linux $LINUX tree"

unpack() # DEB DIR
{
	dpkg-deb --fsys-tarfile "$1" | tar -xO "./usr/src/$PKG.tar.xz" | xz -dc -T0 |
		tar -x -C "$2" --strip-components=1 --checkpoint=100000 --checkpoint-action=echo="%{}T"
}

from_package()
{
	local deb tmp=$BASE_TREE.tmp
	deb=$(newest_deb "$PKG")
	if [ -z "$deb" ]; then
		# shellcheck disable=SC2086
		download "$PKG" "$HELP" $SUITES
		deb=$(newest_deb "$PKG")
	fi
	rm -rf "$tmp" && mkdir -p "$tmp"
	logged "$APT/unpack.log" "unpacking $(basename "$deb")" unpack "$deb" "$tmp" || {
		rm -rf "$tmp" "$deb"
		die "$(basename "$deb") was damaged and is deleted: run this again"
	}
	finish "$tmp" "package $(basename "$deb")"
}

copy_tree() { tar -C "$1" --exclude=./.git -cf - . | tar -C "$2" -xf -; } # FROM TO

from_dir() # DIR
{
	local src=$1 tmp=$BASE_TREE.tmp
	is_base_tree "$src" || die "KERNEL_SRC=$src is not a Linux $LINUX tree"
	if [ -e "$src/.config" ] || [ -e "$src/include/config" ] || [ -e "$src/arch/x86/include/generated" ]; then
		die "KERNEL_SRC=$src has been built in: run 'make mrproper' there or name a clean tree"
	fi
	rm -rf "$tmp" && mkdir -p "$tmp"
	logged "$BUILD/copy-base.log" "copying $src" \
		copy_tree "$src" "$tmp" ||
		die "could not copy $src (see build/copy-base.log)"
	finish "$tmp" "directory $src"
}

finish() # TMP WORDS
{
	is_base_tree "$1" || die "$2 is not a Linux $LINUX tree: is $1"
	rm -rf "$BASE_TREE.old"
	[ ! -e "$BASE_TREE" ] || mv "$BASE_TREE" "$BASE_TREE.old"
	mv "$1" "$BASE_TREE"
	echo "$2, $(tree_version "$BASE_TREE"), $(date -u +%FT%TZ)" >"$ORIGIN"
	rm -rf "$BASE_TREE.old"
	say "base tree: $(cat "$ORIGIN")"
}

lock base
src=${KERNEL_SRC:-}
if [ -n "$src" ]; then
	[ -d "$src" ] || die "KERNEL_SRC=$src is not a directory"
	src=$(cd "$src" && pwd)
	case $src in
	"$BASE_TREE" | "$TREE") die "KERNEL_SRC=$src is where the tree goes to" ;;
	esac
	if ! grep -qsF "directory $src," "$ORIGIN" || ! is_base_tree "$BASE_TREE"; then
		from_dir "$src"
	fi
elif ! is_base_tree "$BASE_TREE"; then
	from_package
elif [ ! -e "$ORIGIN" ]; then
	echo "found in place, $(tree_version "$BASE_TREE"), $(date -u +%FT%TZ)" >"$ORIGIN"
fi

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Get the base kernel tree to build/linux-$LINUX.
#
# usage: [LINUX=7.3] [KERNEL_SRC=DIR] scripts/fetch-base.sh
#
# Without KERNEL_SRC it is Debian's package linux-source-$LINUX. apt gets lists,
# cache and sources of its own under build/apt, with mirror and keyring read from
# this machine's sources; that needs no root and changes nothing outside build/.
# With KERNEL_SRC=DIR it is a copy of that (clean) tree.
. "$(dirname "$0")/lib.sh"
[ $# = 0 ] || usage "$([ "$1" = --help ] || echo 1)"

PKG=linux-source-$LINUX
# A release is in one suite or two; of one that is not known here, all are asked.
case $LINUX in
7.3) SUITES="trixie-backports sid" ;;
6.12) SUITES="trixie bookworm-backports" ;;
*) SUITES="sid trixie-backports trixie bookworm-backports" ;;
esac
APT=$BUILD/apt
ORIGIN=$BUILD/.linux-$LINUX.origin
HELP="or give KERNEL_SRC=DIR, a Linux $LINUX tree"

# "MIRROR KEYRING" of the Debian archive, as this machine's own apt has it.
machine_mirror()
{
	local key='/usr/share/keyrings/debian-archive-keyring.gpg'

	cat /etc/apt/sources.list.d/*.sources /dev/null 2>/dev/null |
	awk -v key="$key" '
		function flush() {
			if (types ~ /deb/ && comps ~ /main/ && uri != "" && uri !~ /security/ && uri ~ /debian/)
				print uri, (sign ~ /^\// ? sign : key)
			types = comps = uri = sign = ""
		}
		/^#/ { next }
		/^[ \t]*$/ { flush(); next }
		tolower($1) == "types:" { types = $2 }
		tolower($1) == "uris:" { uri = $2 }
		tolower($1) == "components:" { comps = $0 }
		tolower($1) == "signed-by:" { sign = $2 }
		END { flush() }'
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
	awk -v key="$key" '
		$1 == "deb" {
			sign = key
			if (match($0, /signed-by=[^] ,]+/))
				sign = substr($0, RSTART + 10, RLENGTH - 10)
			sub(/\[[^]]*\] */, "")
			if ($2 !~ /security/ && $2 ~ /debian/ && / main/)
				print $2, sign
		}'
}

apt_own() # SUITE APT-COMMAND...
{
	local suite=$1
	shift
	"$1" -o Dir::Etc::sourcelist="$APT/$suite.list" -o Dir::Etc::sourceparts="$APT/parts" \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$APT/parts" \
		-o Dir::State::lists="$APT/lists/$suite" -o Dir::Cache="$APT/cache" \
		-o APT::Update::Error-Mode=any -o Acquire::Languages=none \
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o APT::Sandbox::User="$(id -un)" \
		"${@:2}"
}

download()
{
	local mirror keyring suite
	need apt-get dpkg-deb xz
	read -r mirror keyring < <(machine_mirror) ||
		die "no Debian mirror in this machine's apt sources: add one, $HELP"
	mkdir -p "$APT/parts" "$APT/cache/archives/partial" "$APT/dl"
	for suite in $SUITES; do
		mkdir -p "$APT/lists/$suite/partial"
		echo "deb [signed-by=$keyring] $mirror $suite main" >"$APT/$suite.list"
		if ! logged "$APT/$suite-update.log" "reading the package list of $suite" \
			apt_own "$suite" apt-get -q update; then
			say "could not read $suite from $mirror (see ${APT#"$ROOT"/}/$suite-update.log)"
			continue
		fi
		if ! apt_own "$suite" apt-cache show "$PKG" >"$APT/$PKG.txt" 2>/dev/null; then
			say "$suite has no $PKG"
			continue
		fi
		rm -rf "$APT/dl.tmp" && mkdir "$APT/dl.tmp"
		if (cd "$APT/dl.tmp" && logged "$APT/$suite-download.log" \
			"downloading $PKG ($(awk '/^Size:/ { print int($2 / 1e6) " MB"; exit }' "$APT/$PKG.txt"))" \
			apt_own "$suite" apt-get -q download "$PKG"); then
			mv "$APT"/dl.tmp/*.deb "$APT/dl/" && rmdir "$APT/dl.tmp"
			return
		fi
	done
	die "could not get $PKG from $mirror: connect this machine to it, $HELP"
}

newest_deb() { find "$APT/dl" -name "${PKG}_*.deb" 2>/dev/null | sort -V | tail -n 1 || true; }

unpack() # DEB DIR
{
	dpkg-deb --fsys-tarfile "$1" | tar -xO "./usr/src/$PKG.tar.xz" | xz -dc -T0 |
		tar -x -C "$2" --strip-components=1 --checkpoint=100000 --checkpoint-action=echo="%{}T"
}

from_package()
{
	local deb tmp=$BASE_TREE.tmp
	deb=$(newest_deb)
	if [ -z "$deb" ]; then
		download
		deb=$(newest_deb)
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

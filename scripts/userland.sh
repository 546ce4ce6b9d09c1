#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Get the programs of an arm64 guest to build/apt/busybox-arm64.
#
# usage: scripts/userland.sh
#
# It is one static program, from Debian's package busybox-static for arm64: shell,
# tools and modprobe. This machine's own package system is not touched.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/apt.sh"
[ $# = 0 ] || usage "$([ "$1" = --help ] || echo 1)"

PKG=busybox-static
SUITES="trixie bookworm"
APT_ARCH=arm64
PLACE=$APT/busybox-$APT_ARCH

lock userland
[ ! -x "$PLACE" ] || exit 0
deb=$(newest_deb "$PKG")
if [ -z "$deb" ]; then
	# shellcheck disable=SC2086
	download "$PKG" "or use ENGINE=qemu" $SUITES
	deb=$(newest_deb "$PKG")
fi
# The program moved from /bin to /usr/bin between releases.
if ! dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards '*/bin/busybox' >"$PLACE.tmp" || ! [ -s "$PLACE.tmp" ]; then
	rm -f "$PLACE.tmp" "$deb"
	die "$(basename "$deb") was damaged and is deleted: run this again"
fi
chmod 755 "$PLACE.tmp"
mv "$PLACE.tmp" "$PLACE"
say "${PLACE#"$ROOT"/} is from $(basename "$deb")"

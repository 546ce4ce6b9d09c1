#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Install what the project needs: Debian packages (as root) and build/venv.
#
# usage: [ENGINE=qemu|uml|arm64] [CONFIG=workload|packages|demo] scripts/deps.sh [--check]
#
# ENGINE=arm64 adds packages that only arm64 guests need (a cross compiler, another QEMU).
# CONFIG=workload adds those that only run-workload.sh needs (tools of file systems, loads).
# CONFIG=packages adds those that only make deb and make test-all need, CONFIG=demo those of make demo.
# What is already installed is left alone. Without root, or with --check, this only names
# the packages that are missing.
set -euo pipefail

ROOT=$(cd "$(dirname "$0")/.." && pwd)
BUILD=$ROOT/build
export LC_ALL=C

say() { printf 'deps: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# Print the comment block above. Status 0: the user asked for help; 1: the call was wrong.
usage() # [STATUS]
{
	local text
	text=$(sed -n '3,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0")
	if [ "${1:-0}" = 0 ]; then echo "$text"; else echo "$text" >&2; fi
	exit "${1:-0}"
}

# TOOL-OR-FILE:PACKAGE that provides it
NEEDS="
gcc:gcc /usr/include/stdio.h:libc6-dev make:make flex:flex bison:bison bc:bc ccache:ccache sparse:sparse
patch:patch xz:xz-utils cpio:cpio kmod:kmod git:git perl:perl ldd:libc-bin
strip:binutils flock:util-linux script:bsdutils dpkg-buildpackage:dpkg-dev dh:debhelper dh_dkms:dh-dkms
busybox:busybox-static qemu-system-x86_64:qemu-system-x86
/lib/systemd/systemd-udevd:udev
fio:fio cryptsetup:cryptsetup-bin spin:spin
/usr/include/gelf.h:libelf-dev /usr/include/openssl/ssl.h:libssl-dev
/usr/lib/python3:python3 @venv:python3-venv
"

[ "${ENGINE:-}" != arm64 ] || NEEDS="$NEEDS
aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-system-aarch64:qemu-system-arm
/usr/share/qemu-efi-aarch64/QEMU_EFI.fd:qemu-efi-aarch64 iasl:acpica-tools
"

[ "${CONFIG:-}" != workload ] || NEEDS="$NEEDS
dmsetup:dmsetup mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs mount:mount
ip:iproute2
"

have()
{
	case $1 in
	@venv) /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null ;;
	/*) [ -e "$1" ] ;;
	*) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
	esac
}

[ "${CONFIG:-}" != packages ] || NEEDS="$NEEDS
mmdebstrap:mmdebstrap newuidmap:uidmap perf:linux-perf
rsync:rsync /usr/include/elfutils/libdw.h:libdw-dev
tune2fs:e2fsprogs genext2fs:genext2fs qemu-img:qemu-utils
"

[ "${CONFIG:-}" != demo ] || NEEDS="$NEEDS
asciinema:asciinema termtosvg:termtosvg
"

missing_packages()
{
	local entry
	for entry in $NEEDS; do
		have "${entry%%:*}" || echo "${entry#*:}"
	done
}

install_packages()
{
	local packages=$1
	[ -n "$packages" ] || return 0
	[ "$(id -u)" = 0 ] || die "packages are missing; run this as root: apt-get install $packages"
	command -v apt-get >/dev/null || die "this system has no apt-get: install by hand what these Debian packages provide: $packages"
	export DEBIAN_FRONTEND=noninteractive
	say "installing $packages"
	set -- apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends $packages
	"$@" || { apt-get -qq update && "$@"; } || die "apt-get could not install: $packages"
}

# A venv cannot be renamed, since its scripts contain the path of their interpreter. So a
# stamp file is written last, and shows that the venv is complete.
make_venv()
{
	local venv=$BUILD/venv
	cmp -s "$ROOT/requirements.txt" "$venv/.complete" && [ -x "$venv/bin/python3" ] && return
	rm -rf "$venv"
	say "making build/venv"
	/usr/bin/python3 -m venv "$venv" || die "python3 -m venv failed: install python3-venv if it is missing"
	"$venv/bin/pip" install -q --disable-pip-version-check --no-deps -r "$ROOT/requirements.txt" &&
		"$venv/bin/pip" -q check || die "pip failed: see above"
	cp "$ROOT/requirements.txt" "$venv/.complete"
}

missing=$(missing_packages | sort -u | xargs)
case ${1:-} in
'') ;;
--check)
	[ -z "$missing" ] || die "missing packages: apt-get install $missing"
	exit ;;
*) usage "$([ "$1" = --help ] || echo 1)" ;;
esac
mkdir -p "$BUILD"
exec 9>"$BUILD/.lock-deps"
flock -n 9 || { say "waiting for another run of deps.sh to finish"; flock 9; }
# apt-get completes what dpkg has begun. Wait for that, and do not call it again.
trap 'say interrupted; exit 130' HUP INT TERM
{ install_packages "$missing"; } >&2 9>&-
missing=$(missing_packages | sort -u | xargs)
[ -z "$missing" ] || die "these packages are still missing after the installation: $missing"
make_venv >&2 9>&-

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Fetch Debian packages without installing them: `. "$(dirname "$0")/apt.sh"` after lib.sh.
#
# apt gets lists, cache and sources of its own under build/apt, with mirror and
# keyring read from this machine's sources; that needs no root and changes nothing
# outside build/. Packages stay in build/apt/dl.

APT=$BUILD/apt
APT_ARCH=${APT_ARCH:-}		# another architecture than this machine's

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
	local suite=$1 arch=()
	shift
	[ -z "$APT_ARCH" ] || arch=(-o "APT::Architecture=$APT_ARCH" -o "APT::Architectures=$APT_ARCH")
	"$1" "${arch[@]}" -o Dir::Etc::sourcelist="$APT/$suite.list" -o Dir::Etc::sourceparts="$APT/parts" \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$APT/parts" \
		-o Dir::State::lists="$APT/lists/$suite$APT_ARCH" -o Dir::Cache="$APT/cache" \
		-o APT::Update::Error-Mode=any -o Acquire::Languages=none \
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o APT::Sandbox::User="$(id -un)" \
		"${@:2}"
}

# Download a package from the first of the suites that has it.
download() # PACKAGE HELP SUITE...
{
	local pkg=$1 help=$2 mirror keyring suite
	shift 2
	need apt-get dpkg-deb xz
	read -r mirror keyring < <(machine_mirror) ||
		die "no Debian mirror in this machine's apt sources: add one, $help"
	mkdir -p "$APT/parts" "$APT/cache/archives/partial" "$APT/dl"
	for suite; do
		mkdir -p "$APT/lists/$suite$APT_ARCH/partial"
		echo "deb [signed-by=$keyring] $mirror $suite main" >"$APT/$suite.list"
		if ! logged "$APT/$suite-update.log" "reading the package list of $suite" \
			apt_own "$suite" apt-get -q update; then
			say "could not read $suite from $mirror (see ${APT#"$ROOT"/}/$suite-update.log)"
			continue
		fi
		if ! apt_own "$suite" apt-cache show "$pkg" >"$APT/$pkg.txt" 2>/dev/null; then
			say "$suite has no $pkg"
			continue
		fi
		rm -rf "$APT/dl.tmp" && mkdir "$APT/dl.tmp"
		if (cd "$APT/dl.tmp" && logged "$APT/$suite-download.log" \
			"downloading $pkg ($(awk '/^Size:/ { print int($2 / 1e6) " MB"; exit }' "$APT/$pkg.txt"))" \
			apt_own "$suite" apt-get -q download "$pkg"); then
			mv "$APT"/dl.tmp/*.deb "$APT/dl/" && rmdir "$APT/dl.tmp"
			return
		fi
	done
	die "could not get $pkg from $mirror: connect this machine to it, $help"
}

# The newest version of a package that is there already; "" if none is.
newest_deb() # PACKAGE
{
	find "$APT/dl" -name "$1_*${APT_ARCH:+_$APT_ARCH}.deb" 2>/dev/null | sort -V | tail -n 1 || true
}

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Common to the project's scripts: `. "$(dirname "$0")/lib.sh"`.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$ROOT/build
LINUX=${LINUX:-7.3}
BASE_TREE=$BUILD/linux-$LINUX
TREE=$BUILD/tree-$LINUX
PROG=$(basename "$0" .sh)
NPROC=$(nproc)
export LC_ALL=C
# The names that were given to the front door are not for kbuild.
unset MAKEFLAGS MFLAGS MAKELEVEL

say() { printf '%s: %s\n' "$PROG" "$*" >&2; }
die() { printf '%s: %s\n' "$PROG" "$*" >&2; exit 1; }

# Print the comment block that opens the calling script: as help, or as the
# answer to a wrong call (status 1).
usage() # [STATUS]
{
	local text
	text=$(sed -n '3,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0")
	[ "${1:-0}" = 0 ] && echo "$text" || echo "$text" >&2
	exit "${1:-0}"
}

need()
{
	local tool
	for tool; do
		command -v "$tool" >/dev/null ||
			die "$tool is missing: run scripts/deps.sh (as root) first"
	done
}

one_of() # NAME VALUE ALLOWED...
{
	local name=$1 value=$2 ok
	shift 2
	for ok; do [ "$value" = "$ok" ] && return; done
	die "$name=$value: must be one of: $*"
}

# One at a time: two makes in two terminals must not compose one tree at once.
lock() # NAME
{
	mkdir -p "$BUILD"
	exec 9>"$BUILD/.lock-$1"
	flock -n 9 && return
	say "waiting for another run that holds $1"
	flock 9
}

# Run a long command with its output in a log; say every 10 seconds how far it is.
logged() # LOG WHAT COMMAND...
{
	local log=$1 what=$2 start=$SECONDS pid watcher rc=0
	shift 2
	mkdir -p "$(dirname "$log")"
	say "$what (log: ${log#"$ROOT"/})"
	"$@" >"$log" 2>&1 9>&- &
	pid=$!
	(
		while sleep 10; do
			say "$what: $((SECONDS - start)) s, $(wc -l <"$log") lines, last: $(tail -n 1 "$log" | cut -c 1-80)"
		done
	) 9>&- &
	watcher=$!
	# shellcheck disable=SC2064
	trap "kill $pid $watcher 2>/dev/null" INT TERM
	wait "$pid" || rc=$?
	kill "$watcher" 2>/dev/null || true
	wait "$watcher" 2>/dev/null || true
	trap - INT TERM
	[ "$rc" = 0 ] && say "$what: done in $((SECONDS - start)) s"
	return "$rc"
}

# "7.3.4" of a kernel tree, from its Makefile.
tree_version() # DIR
{
	awk -F' *= *' '/^VERSION =/ { v = $2 } /^PATCHLEVEL =/ { p = $2 }
		/^SUBLEVEL =/ { s = $2; print v "." p "." s; exit }' "$1/Makefile" 2>/dev/null
}

is_base_tree() # DIR: a clean source tree of $LINUX?
{
	case $(tree_version "$1") in
	"$LINUX".*) ;;
	*) return 1 ;;
	esac
	[ -f "$1/kernel/workqueue.c" ] && [ -f "$1/include/linux/workqueue.h" ] &&
		[ -f "$1/lib/Kconfig.debug" ] && [ -f "$1/scripts/kconfig/merge_config.sh" ]
}

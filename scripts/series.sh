#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Write the project as patches for the base tree: build/series-$LINUX/*.patch.
#
# usage: [LINUX=7.3] scripts/series.sh
#
# `git am build/series-7.3/*.patch` in a git tree of Linux 7.3 applies them. Each
# leaves a tree that builds. They are tried here, on the base tree's files, and
# compared with the composed tree before they are put in place.
. "$(dirname "$0")/lib.sh"
[ $# = 0 ] || usage "$([ "$1" = --help ] || echo 1)"

need git
"$ROOT/scripts/tree.sh"

OUT=$BUILD/series-$LINUX
WORK=$BUILD/.series-$LINUX
rm -rf "$WORK" && mkdir -p "$WORK/make" "$WORK/am"
trap 'rm -rf "$WORK"' EXIT

NAME=$(git -C "$ROOT" config user.name || git -C "$ROOT" log -1 --format=%an 2>/dev/null || id -un)
EMAIL=$(git -C "$ROOT" config user.email || git -C "$ROOT" log -1 --format=%ae 2>/dev/null || echo "$(id -un)@localhost")
export GIT_AUTHOR_NAME=$NAME GIT_AUTHOR_EMAIL=$EMAIL GIT_COMMITTER_NAME=$NAME GIT_COMMITTER_EMAIL=$EMAIL
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

# A repository with those files of the base tree that the series touches.
start_repo() # DIR
{
	git -C "$1" init -q -b series
	sed -n 's,^--- a/\([^[:space:]]*\).*,\1,p' "$ROOT/patches/$LINUX"/*.patch | sort -u |
	while read -r f; do
		mkdir -p "$1/$(dirname "$f")"
		cp "$BASE_TREE/$f" "$1/$f"
	done
	git -C "$1" add -A
	git -C "$1" commit -q -m "Linux $(tree_version "$BASE_TREE")"
	git -C "$1" tag base
}

# Lay our files whose place matches PATTERN into the repository.
lay() # PATTERN
{
	local f place
	{
		"$ROOT/scripts/tree.sh" --list
		find "$ROOT/tools/testing/selftests/workqueue" -type f -printf '%P\n' 2>/dev/null |
			sed 's,.*,tools/testing/selftests/workqueue/& tools/testing/selftests/workqueue/&,'
	} | grep -E "^[^ ]* ($1)" | while read -r f place; do
		mkdir -p "$WORK/make/$(dirname "$place")"
		cp "$ROOT/$f" "$WORK/make/$place"
	done
}

hook() { patch -d "$WORK/make" -p1 -s -f --no-backup-if-mismatch <"$1"; }

commit() # MESSAGE ON STDIN
{
	git -C "$WORK/make" add -A
	git -C "$WORK/make" diff --cached --quiet && return
	git -C "$WORK/make" commit -q -s -F -
}

# Subject and description of a patches/ file: what stands above its first hunk.
message() { sed '/^---$/,$d' "$1"; }

start_repo "$WORK/make"

lay 'kernel/workqueue/|include/linux/cmwq/'
commit <<'M'
workqueue: add an implementation in files by concept

kernel/workqueue/ does what kernel/workqueue.c does, behind the same
interface, with one concept to a file and the hot paths arranged so that
they scale with the number of CPUs: wakeups happen outside of the pool's
lock, and an LLC is divided into shards.

Nothing is built from it yet.
M
for p in "$ROOT/patches/$LINUX"/*.patch; do
	case $p in *-tests.patch) lay 'lib/cmwq/' ;; esac
	hook "$p"
	message "$p" | commit
done
lay 'tools/workqueue/'
commit <<'M'
tools/workqueue: show pods, pools and workqueues, live or from a dump

Two drgn scripts: wq_dump.py prints how a machine is divided, what each
pool runs and what waits there, the state of one item, what stalls and
why, and draws a picture; wq_monitor.py shows totals and rates. They
know either workqueue, and Linux 6.12.
M
lay 'tools/testing/'
commit <<'M'
selftests/workqueue: test a running kernel from user space

Shell scripts that speak TAP: affinity scopes and masks through sysfs,
resharding, CPU hotplug and freezing under load, forward progress through
a rescuer, the stall report.
M
lay 'Documentation/'
commit <<'M'
Documentation: core-api: describe the workqueue in kernel/workqueue/

What a caller may rely on, how work finds a CPU, what can be tuned, and
which test or tool to reach for.
M

git -C "$WORK/make" format-patch -q -o "$WORK/patches" base
start_repo "$WORK/am"
git -C "$WORK/am" am -q "$WORK"/patches/*.patch 2>"$WORK/am.log" ||
	die "git am refuses the series: $(head -n 1 "$WORK/am.log")"
differ=$(diff -r -x .git "$WORK/make" "$WORK/am" || true)
[ -z "$differ" ] || die "the series does not give what it was made from: $(head -n 1 <<<"$differ")"
while read -r f; do
	[ ! -f "$TREE/$f" ] || cmp -s "$TREE/$f" "$WORK/am/$f" || die "the series and build/tree-$LINUX differ in $f"
done <"$TREE/.cmwq-overlay"

rm -rf "$OUT.old"
[ ! -e "$OUT" ] || mv "$OUT" "$OUT.old"
mv "$WORK/patches" "$OUT"
rm -rf "$OUT.old"
say "${OUT#"$ROOT"/}: $(find "$OUT" -name '*.patch' | wc -l) patches, tried with git am on Linux $(tree_version "$BASE_TREE")"

# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel, use the whole workqueue interface at random, and report violations.

The kernel is built if necessary. The module's lines are printed at once, with the time.
The last line on stdout is the verdict. Give the printed seed to make the
same random choices again; the timing still differs. If the test fails, the log stays in
build/torture/. Beside it is the guest's memory at that time, for wq_dump.py. UML prints all
tasks and workqueues to the log instead. Each run is recorded in build/torture/runs.json.

Kernels with checks (KASAN, KCSAN, lockdep) get more memory and more time to boot and end.

exit status: 0 if nothing broke; 1 after a violation, a problem in the kernel's log, no
verdict, or a run that could not be recorded; 2 if the command line is wrong or the kernel
does not build.
"""
import argparse
import dataclasses
import os
import random
import re
import sys
import time
from functools import partial
from pathlib import Path

from wqlab import files
from wqlab.guest import post_mortem, running
from wqlab.guest import run as guest
from wqlab.guest.topology import complete, megabytes, parse
from wqlab.kernels.build import build as build_kernel
from wqlab.kernels.kinds import CONFIGS, VARIANTS, Kind, asked_linux
from wqlab.logs import check, races
from wqlab.measure.options import number
from wqlab.paths import ROOT
from wqlab.steps import Failure, shown, told
from wqlab.torture import runs as torture_runs

KEPT = ROOT / 'build' / 'torture'
BOOT_S = {'uml': 30, 'qemu': 120, 'arm64': 300}
ENDING_S = 150          # stuck items are reported after 30 s; then the test waits for its threads
STALL_S = 30
TAINTED = 7             # exit status of the command if a warning or an oops is the only failure
ENDS = {guest.DIED: 'the kernel died', 3: 'the module could not be loaded: see the log',
        4: 'the module could not be unloaded: see the log', TAINTED: 'the kernel is tainted: see the log'}
SHOWN = 20              # how many complaints are printed
SEEDS = range(1, 1 << 32)
# A violation prints all tasks. If that overwrote lines of the kernel's log before the guest's script has read them,
# `cat` would end with an error, and the script would take this for the end of the test.
LOG_BUFFER = '2M'
LEAST_MEMORY = '384M'
# Options that make a kernel slow: by which factor, and how much memory it then needs.
CHECKS = {'CONFIG_KASAN': (4, '1G'), 'CONFIG_KCSAN': (4, '1G'), 'CONFIG_PROVE_LOCKING': (2, '640M')}
WQ_DUMP = 'build/venv/bin/python3 tools/workqueue/wq_dump.py'
VERDICT = re.compile(r'wqtorture: (--- End of test: (SUCCESS|FAILURE): .*)')
SAFE_PARAMETER = re.compile(r'[a-z_]+=[A-Za-z0-9_,.-]*')

# The test makes some forks fail, so this script does not fork while the test runs.
IN_GUEST = r'''
for fault in /sys/kernel/debug/failslab /sys/kernel/debug/fail_page_alloc; do
	[ -d $fault ] || continue
	echo Y >$fault/task-filter; echo 20 >$fault/probability; echo -1 >$fault/times
	echo 0 >$fault/verbose
	# let allocations that may sleep, or may use high memory, fail, too
	echo N >$fault/ignore-gfp-wait
	[ ! -e $fault/ignore-gfp-highmem ] || echo N >$fault/ignore-gfp-highmem
done
mkfifo /tmp/kmsg
cat /dev/kmsg >/tmp/kmsg &
cat=$!
exec 9</tmp/kmsg
modprobe wqtorture PARAMETERS || exit 3
rc=1
while read -r line <&9; do
	case $line in *'wqtorture: '*) echo "${line#*;}" ;; esac
	case $line in
	*'wqtorture: --- End of test: SUCCESS'*) rc=0; break ;;
	*'wqtorture: --- End of test: '*) break ;;
	esac
done
kill $cat
# after a failure, unloading may hang: do not try it
[ $rc -ne 0 ] || rmmod wqtorture || rc=4
# WARN, oops, soft lockup, bad page
[ $rc -ne 0 ] || [ $(($(cat /proc/sys/kernel/tainted) & (512 | 128 | 16384 | 32))) -eq 0 ] || rc=7
[ $rc -eq 0 ] || echo t >/proc/sysrq-trigger
exit $rc
'''


@dataclasses.dataclass
class Outcome:
    verdict: str            # the module's last line, '' if there was none
    complaints: list        # other problems, one line each
    seed: int
    log: Path
    source: str             # torture_runs.source() before the run
    core: Path | None = None       # file with the guest's memory

    @property
    def ok(self):
        return 'SUCCESS' in self.verdict and not self.complaints


def with_time(say, every_s=0.0):
    """Return a function that says the module's lines: each violation, and another line after so many seconds."""
    begin = last = time.monotonic()

    def show(line):
        nonlocal last
        now = time.monotonic()
        if 'wqtorture: ' in line and ('!!!' in line or now - last >= every_s):
            say(f'{now - begin:.0f} s: {line.strip()}')
            last = now
    return show


def needs_of(folder):
    """Return how many times slower a kernel is because of its configuration, and how much memory it needs."""
    try:
        options = files.read(Path(folder, '.config')).splitlines()
    except OSError:
        options = []
    found = [(1, LEAST_MEMORY), *(need for option, need in CHECKS.items() if f'{option}=y' in options)]
    return max(slow for slow, _ in found), max((mem for _, mem in found), key=megabytes)


def parameters(engine, duration, seed, more, slowness=1):
    """Return the module's parameters. Those in `more` override the others."""
    chosen = {'duration': duration, 'seed': seed, 'squeeze_ms': 2000}
    if slowness > 1:
        chosen['stall'] = STALL_S * slowness
    if engine != 'uml':
        chosen['freeze_ms'] = 8000
    for word in more.split():
        if not SAFE_PARAMETER.fullmatch(word):
            raise Failure(f'{word!r} is not a parameter: write it as NAME=VALUE, like nwriters=8')
        name, _, value = word.partition('=')
        chosen[name] = value
    return ' '.join(f'{name}={value}' for name, value in chosen.items())


def complaints_of(result, seconds, folder):
    """Return the problems other than the verdict."""
    found = []
    theirs = races.elsewhere(result.kernel, folder)
    for line in check.bad_lines(result.kernel):
        if line in theirs:
            print(f'torture: a race that does not concern the workqueue: {line}', file=sys.stderr, flush=True)
        else:
            found.append(line)
    if result.unlogged:
        print(f'torture: the log file is not complete: {result.unlogged}', file=sys.stderr, flush=True)
    if result.flooded:
        found.append(f'the guest printed more than {guest.MOST_KEPT >> 20} MiB and was killed')
    elif result.rc == guest.TIMED_OUT:
        found.append(f'the guest did not end within {seconds} s')
    elif result.rc in ENDS and not (found and result.rc == TAINTED):
        found.append(ENDS[result.rc])
    return found


def torture(folder, *, engine, duration, seed=None, cpus=None, topology=None, mem=None,
            append='', timeout=None, more='', log=None, show=None, dump=False):
    """Make one run. Return an Outcome, or raise Failure for wrong arguments.

    With `dump`, save the memory of a guest that failed beside the log.
    """
    seed = seed or random.choice(SEEDS)
    source = torture_runs.source()
    KEPT.mkdir(parents=True, exist_ok=True)
    log = Path(log) if log else KEPT / f'running-{os.getpid()}.log'
    slowness, least = needs_of(folder)
    limit = timeout or duration + slowness * (BOOT_S[engine] + ENDING_S)
    command = IN_GUEST.replace('PARAMETERS', parameters(engine, duration, seed, more, slowness))
    last = post_mortem.PostMortem(engine, log.with_suffix('.core')) if dump else None
    try:
        result = guest.run(folder, command, engine=engine, cpus=cpus, topology=topology, mem=mem or least,
                           append=f'log_buf_len={LOG_BUFFER} {append}'.strip(), timeout=limit, log=log, show=show,
                           qmp=running.socket_path() if engine != 'uml' and dump else None, post_mortem=last)
    except BaseException:   # also an interrupt: an incomplete run leaves no log
        log.unlink(missing_ok=True)
        raise
    verdict = VERDICT.search(result.kernel)
    complaints = complaints_of(result, limit, folder)
    if last and last.trouble:
        complaints.append(f'the guest\'s memory could not be saved: {last.trouble}')
    return Outcome(verdict[1] if verdict else '', complaints, seed, log, source, last.core if last else None)


def build(engine, variant, config):
    """Build the kernel of the release that LINUX= names. Return its folder."""
    return build_kernel(Kind.of(engine, variant, config, asked_linux()))


def keep_or_drop(outcome, name):
    """After a failure, give the log and the memory names of their own. After a success, delete the log."""
    if outcome.ok:
        outcome.log.unlink(missing_ok=True)
        return None
    kept = KEPT / f'{name}-seed{outcome.seed}.log'
    os.replace(outcome.log, kept)
    if outcome.core:
        outcome.core = outcome.core.replace(kept.with_suffix('.core'))
    return kept


def report(outcome, folder):
    """Print the complaints and where to look further. The verdict is the last line."""
    folder = Path(folder).absolute()
    lines = outcome.complaints[:SHOWN]
    if len(outcome.complaints) > SHOWN:
        lines.append(f'{len(outcome.complaints) - SHOWN} more such lines: see the log')
    kept = keep_or_drop(outcome, folder.name)
    if kept:
        lines.append(f'the log is {shown(kept)}; SEED={outcome.seed} makes the same choices again')
    if outcome.core:
        lines.append(f'to inspect its memory: {WQ_DUMP} --core {shown(outcome.core)} --symbols {shown(folder)}/vmlinux '
                     '--stalls')
    verdict = 'passed' if outcome.ok else 'FAILED'
    for line in (*lines, f'{verdict}: {folder.name}: {outcome.verdict or "no verdict"}'):
        print(f'torture: {line}', flush=True)


def parse_args(argv):
    positive = number(1, SEEDS[-1])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--engine', choices=tuple(BOOT_S), default='uml', help='default: %(default)s')
    parser.add_argument('--variant', choices=VARIANTS, default='cmwq', help='default: %(default)s')
    parser.add_argument('--config', choices=CONFIGS, default='release', help='default: %(default)s')
    parser.add_argument('--duration', type=positive, default=60, metavar='S', help='seconds; default: %(default)s')
    parser.add_argument('--seed', type=positive, metavar='N', help='seed of random choices; default: a random one')
    parser.add_argument('--cpus', type=positive, metavar='N', help='CPUs; default: that of the topology, or 2')
    parser.add_argument('--topology', metavar='KEY=N,...', help='QEMU, arm64: see `scripts/lab guest`')
    parser.add_argument('--mem', metavar='N', help='guest memory; default: what the kernel needs, at least 384M')
    parser.add_argument('--append', default='', metavar='ARGS', help='more kernel parameters')
    parser.add_argument('--params', default='', metavar="'NAME=N...'", help='more module parameters')
    return parser.parse_args(argv)


def check_call(args):
    """Raise Failure for arguments that the guest would refuse, before a kernel is built for minutes."""
    if args.engine == 'uml' and args.topology:
        raise Failure('UML has no topology: leave --topology out, or use --engine qemu')
    complete(parse(args.topology), args.cpus)
    if args.mem:
        megabytes(args.mem)
    parameters(args.engine, args.duration, args.seed, args.params)


def main(argv=None):
    args = parse_args(argv)
    try:
        check_call(args)
        folder = build(args.engine, args.variant, args.config)
        outcome = torture(folder, engine=args.engine, duration=args.duration, seed=args.seed, cpus=args.cpus,
                          topology=args.topology, mem=args.mem, append=args.append, more=args.params,
                          show=with_time(partial(print, flush=True)), dump=True)
    except (Failure, OSError) as error:
        print(f'torture: {told(error)}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('torture: interrupted: no verdict', file=sys.stderr)
        return 130
    report(outcome, folder)
    words = torture_runs.words(folder, args.cpus, args.topology, args.append, args.params)
    torture_runs.add(KEPT, torture_runs.Run.made(words, folder.name, args.duration, outcome))
    return 0 if outcome.ok else 1

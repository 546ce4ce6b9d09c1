#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel, torture its workqueues for a while, and say whether they broke.

The kernel is built if need be. The module's lines are passed on as they come; the
last line is the verdict. The seed that is printed repeats the same choices, though
not the same timing. When something broke, the log stays in build/torture/.

exit status: 0 nothing broke; 1 a violation, a complaint in the kernel's log, or no
verdict at all; 2 for a wrong call or a kernel that does not build.
"""
import argparse
import dataclasses
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import bench_parse
import guest

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / 'build' / 'torture'
BOOT_S = {'uml': 30, 'qemu': 120}
ENDING_S = 150          # what is stuck is reported after 30 s; then threads are waited for
VERDICT = re.compile(r'wqtorture: (--- End of test: (SUCCESS|FAILURE): .*)')
SAFE_PARAMETER = re.compile(r'[a-z_]+=[A-Za-z0-9_,.-]*')

# Nothing here forks while the test runs: it makes forks fail, among others.
IN_GUEST = r'''
fault=/sys/kernel/debug/failslab
if [ -d $fault ]; then
	echo Y >$fault/task-filter; echo 20 >$fault/probability; echo -1 >$fault/times
	echo 0 >$fault/verbose
	# allocations that may sleep fail, too
	echo N >$fault/ignore-gfp-wait
fi
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
# what broke may well be stuck for good
[ $rc -ne 0 ] || rmmod wqtorture || rc=4
exit $rc
'''


@dataclasses.dataclass
class Outcome:
    verdict: str            # the module's last line, '' if it never came
    complaints: list        # what else is wrong, a line each
    seed: int
    log: Path
    seconds: float

    @property
    def ok(self):
        return 'SUCCESS' in self.verdict and not self.complaints


class Lines:
    """Passes the module's lines on, without those of the shell around it."""

    def write(self, line):
        if 'wqtorture: ' in line:
            print(line.rstrip(), flush=True)

    def flush(self):
        pass


def parameters(engine, duration, seed, more):
    """The module's parameters; those in `more` have the last word."""
    chosen = {'duration': duration, 'seed': seed, 'squeeze_ms': 2000}
    if engine == 'qemu':
        chosen['freeze_ms'] = 8000
    for word in more.split():
        if not SAFE_PARAMETER.fullmatch(word):
            raise guest.GuestError(f'{word!r} is not a parameter like nwriters=8')
        name, _, value = word.partition('=')
        chosen[name] = value
    return ' '.join(f'{name}={value}' for name, value in chosen.items())


def complaints_of(result, seconds):
    """What is wrong besides the verdict."""
    found = bench_parse.find_trouble(result.kernel)
    if result.rc == guest.TIMED_OUT:
        found.append(f'no end after {seconds} s')
    elif result.rc == guest.DIED:
        found.append('the kernel died')
    elif result.rc == 3:
        found.append('the module does not load: see the log')
    elif result.rc == 4:
        found.append('the module does not unload')
    return found


def torture(folder, *, engine, duration, seed=None, cpus=None, topology=None, mem='384M',
            more='', log=None, stream=None):
    """One run. Returns an Outcome; raises guest.GuestError for a wrong call."""
    seed = seed or random.randrange(1, 1 << 32)
    KEPT.mkdir(parents=True, exist_ok=True)
    log = Path(log) if log else KEPT / f'running-{os.getpid()}.log'
    limit = BOOT_S[engine] + duration + ENDING_S
    command = IN_GUEST.replace('PARAMETERS', parameters(engine, duration, seed, more))
    result = guest.run(folder, command, engine=engine, cpus=cpus, topology=topology, mem=mem,
                       timeout=limit, log=log, stream=stream)
    verdict = VERDICT.search(result.kernel)
    return Outcome(verdict[1] if verdict else '', complaints_of(result, limit), seed, log, result.seconds)


def build(engine, variant, config):
    """Returns the kernel's folder."""
    env = {**os.environ, 'ENGINE': engine, 'VARIANT': variant, 'CONFIG': config}
    if subprocess.run([ROOT / 'scripts/kernel.sh'], env=env, check=False).returncode:
        raise guest.GuestError('the kernel does not build')
    shown = subprocess.run([ROOT / 'scripts/kernel.sh', '--print-dir'], env=env, check=True,
                           capture_output=True, text=True)
    return Path(shown.stdout.strip())


def keep_or_drop(outcome, name):
    """The log of a failure gets a name of its own, that of a success goes."""
    if outcome.ok:
        outcome.log.unlink(missing_ok=True)
        return None
    kept = KEPT / f'{name}-seed{outcome.seed}.log'
    os.replace(outcome.log, kept)
    return kept


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f'{text}: must be at least 1')
    return value


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--engine', choices=('uml', 'qemu'), default='uml', help='default: %(default)s')
    parser.add_argument('--variant', choices=('cmwq', 'base'), default='cmwq', help='default: %(default)s')
    parser.add_argument('--config', choices=('release', 'debug', 'kcsan'), default='release', help='default: %(default)s')
    parser.add_argument('--kernel', metavar='DIR', help='a build folder, instead of the above: not built')
    parser.add_argument('--duration', type=positive, default=60, metavar='S', help='default: %(default)s')
    parser.add_argument('--seed', type=positive, help='default: a random one')
    parser.add_argument('--cpus', type=positive, help='default: 2')
    parser.add_argument('--topology', metavar='KEY=N,...', help='QEMU: see guest.py')
    parser.add_argument('--mem', default='384M', help='default: %(default)s')
    parser.add_argument('--params', default='', metavar="'NAME=N...'", help='more parameters of the module')
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_args(argv)
    try:
        folder = Path(args.kernel) if args.kernel else build(args.engine, args.variant, args.config)
        outcome = torture(folder, engine=args.engine, duration=args.duration, seed=args.seed,
                          cpus=args.cpus, topology=args.topology, mem=args.mem, more=args.params,
                          stream=Lines())
    except (guest.GuestError, OSError) as error:
        print(f'torture: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    kept = keep_or_drop(outcome, folder.name)
    for line in outcome.complaints:
        print(f'torture: {line}')
    if kept:
        print(f'torture: the log is {kept.relative_to(ROOT)}; SEED={outcome.seed} makes the same choices')
    print(f'torture: {"passed" if outcome.ok else "FAILED"}: {folder.name}: {outcome.verdict or "no verdict"}')
    return 0 if outcome.ok else 1


if __name__ == '__main__':
    sys.exit(main())

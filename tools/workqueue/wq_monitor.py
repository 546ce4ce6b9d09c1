#!/usr/bin/env drgn
# SPDX-License-Identifier: GPL-2.0
"""Shows repeatedly what the workqueues of a Linux kernel are doing."""
import argparse
import json
import math
import os
import re
import signal
import sys
import time

from wqtools import asbase, debugfs, program, stats

DESCRIPTION = __doc__ + '''
Run it by drgn (drgn [-c FILE -s VMLINUX] wq_monitor.py ...) or by a python that has drgn.
Ctrl-C ends it. A dump does not change, so it is shown once, without rates.

If drgn cannot read the running kernel, it reads /sys/kernel/debug/workqueue, which cmwq has.
There, flush barriers are not counted as items, and no counts are lost.

Unless told otherwise it prints the table that the script of this name in a kernel tree prints:
  total    items that began to run
  infl     items that run now
  CPUtime  CPU time of items by the scheduler's tick, in seconds
  CPUitsv  cpu_intensive, see below
  CMW/RPR  wakeups, see below
  mayday   maydays, see below
  rescued  items that the rescuer took
--screen and --plain have more columns, and rates.

their columns, as a total since the workqueue was created and, with "_rate", per second:
  in_flight      items that run now (no total and no rate)
  started        items that began to run
  completed      items whose function returned
  cpu_time       CPU time of items by the scheduler's tick: seconds, and % of one CPU
  cpu_intensive  times an item of a per-CPU workqueue hogged its CPU
  wakeups        per-CPU: workers woken because another one slept;
                 unbound: workers brought back to their pod
  maydays        times the rescuer was called
  rescued        items that the rescuer took
  wait_p50, wait_p99
                 us that half of the items, and 99 of 100, did not wait longer for, since the last
                 sample: the next power of two. Only from debugfs, while its latency_enable is 1.
"-" means that a workqueue of this kind does not have the count. Counts are lost when the
attributes of a workqueue change. Its total may then drop, and * is shown behind its name.
A rate is never below 0.

keys on the screen:
  q  quit   s  sort by the next column    r  reverse the order      p  pause, continue
  a  show all workqueues, or only those with something to do

--json prints a line for each workqueue and sample. It is JSON and a literal of Python:
  timestamp    seconds since 1970
  name, unbound (0 or 1), mem_reclaim (0 or 1)
  started, completed, cpu_time (us), cpu_intensive, cm_wakeup, repatriated, mayday, rescued
               totals; 0 if a workqueue of this kind does not have the count
  address, type ("percpu", "unbound", "ordered" or "bh"); debugfs has no address
  in_flight    as above
  reset        1 if counts were lost since the last sample
  wait_us      an object with p50 and p99, see above; absent if there are none
  interval     seconds since the last sample
  rate         an object with the counts that this workqueue has, per second; this and
               interval are absent in the first sample of a workqueue
'''
DEFAULT_INTERVAL = 1.0
HEADER_EVERY = 40           # lines, when there is no screen


def number_from(least):
    def parse(value):
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not least <= number < 1e6:
            raise argparse.ArgumentTypeError(f'{value!r}: give a number of at least {least}')
        return number
    return parse


def positive(value):
    if not value.isdecimal() or not int(value):
        raise argparse.ArgumentTypeError(f'{value!r}: give a whole number of at least 1')
    return int(value)


def regex(value):
    try:
        return re.compile(value)
    except re.error as error:
        raise argparse.ArgumentTypeError(f'{value!r} is not a regular expression: {error}') from None


def options(argv=None):
    parser = argparse.ArgumentParser(description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', metavar='REGEX', nargs='*', type=regex,
                        help='only workqueues whose name matches one of these')
    parser.add_argument('-i', '--interval', metavar='SECONDS', type=number_from(0),
                        help='time between samples; 0: print once and end; default: 1')
    parser.add_argument('-n', '--count', metavar='N', type=positive, help='end after N samples')
    parser.add_argument('--sort', metavar='COLUMN', choices=stats.SORT_KEYS,
                        help=f'one of: {", ".join(stats.SORT_KEYS)}; default: started_rate on a screen, '
                             "else the kernel's order")
    parser.add_argument('-r', '--reverse', action='store_true', help='reverse the order')
    parser.add_argument('--top', metavar='N', type=positive, help='only the first N workqueues')
    parser.add_argument('-a', '--active', action='store_true', help='only workqueues with something to do')
    how = parser.add_mutually_exclusive_group()
    how.add_argument('-j', '--json', action='store_true', help='print JSON, see above')
    how.add_argument('--screen', action='store_true', help='draw a screen')
    how.add_argument('--plain', action='store_true', help='print a line for each workqueue, with the time')
    what = parser.add_mutually_exclusive_group()
    what.add_argument('--total', dest='kinds', action='store_const', const=('total',),
                      help='with --screen or --plain: no rates')
    what.add_argument('--rate', dest='kinds', action='store_const', const=('rate',),
                      help='with --screen or --plain: no totals')
    program.add_options(parser)
    parser.add_argument('--debugfs', action='store_true', help=f'read {debugfs.FOLDER}, even if drgn could be used')
    args = parser.parse_args(argv)
    if args.debugfs and (args.core or args.symbols):
        parser.error('--debugfs is about the running kernel: leave --core and --symbols out')
    if args.kinds and not (args.screen or args.plain):
        parser.error('--total and --rate select columns of --screen or --plain: give one of these, too')
    args.kinds = args.kinds or ('total', 'rate')
    return args


class Monitor:
    """Takes samples and keeps the last one, to compute differences."""

    def __init__(self, prog, args):
        self.read = self.reader(prog)
        self.args = args
        self.sort, self.reverse, self.active = args.sort, args.reverse, args.active
        self.last, self.last_time = None, None
        self.rows, self.seconds, self.time = [], None, None

    def reader(self, prog):
        if prog is None:
            return lambda: debugfs.read(self.wanted)
        from wqtools import counters
        return lambda: counters.read(prog, self.wanted)

    def wanted(self, name):
        return not self.args.names or any(one.search(name) for one in self.args.names)

    def sample(self):
        now, readings = time.monotonic(), self.read()
        if not readings and self.last is None and self.args.names:
            self.nothing_found()
        self.seconds = None if self.last_time is None else now - self.last_time
        self.rows = stats.rows(self.last, readings, self.seconds or 0)
        self.last, self.last_time, self.time = readings, now, time.time()

    def nothing_found(self):
        """The script in a kernel tree waits until such a workqueue exists. So the table and --json wait, too."""
        text = 'no workqueue has such a name: `wq_dump.py --section map` lists the names'
        if self.args.screen or self.args.plain:
            raise program.Trouble(text)
        print(f'wq_monitor: {text}', file=sys.stderr)

    def shown(self):
        rows = self.rows
        if self.active:
            rows = [row for row in rows if row.active]
        if self.sort:
            rows = stats.sort(rows, self.sort, self.reverse)
        elif self.reverse:
            rows = rows[::-1]
        return rows[:self.args.top]


def print_json(monitor):
    for row in monitor.shown():
        print(json.dumps(asbase.as_json(row, monitor.time, monitor.seconds)))


def print_table(monitor):
    print('\n'.join(asbase.table(monitor.shown())))


class Lines:
    """Prints a line for each row, with the time in front."""

    def __init__(self, kinds):
        self.columns, self.printed = stats.choose(kinds), 0

    def __call__(self, monitor):
        stamp = time.strftime('%H:%M:%S', time.localtime(monitor.time))
        for row in monitor.shown():
            if not self.printed % HEADER_EVERY:
                print(f'{"time":8} {stats.header(self.columns)}')
            self.printed += 1
            print(f'{stamp} {stats.line(row, self.columns)}')


def print_samples(monitor, count, show):
    """Sleeps until fixed times, so that the time for reading does not lengthen the interval."""
    due = time.monotonic()
    while True:
        monitor.sample()
        show(monitor)
        sys.stdout.flush()
        count = count and count - 1
        if count == 0:
            return
        due = max(due + monitor.args.interval, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0))


def screen_lines(monitor, release, width, note):
    columns = stats.choose(monitor.args.kinds, width)
    rows = monitor.shown()
    clock = time.strftime('%H:%M:%S', time.localtime(monitor.time))
    hidden = len(monitor.rows) - len(rows)
    head = f'{clock}  {release}  {len(monitor.rows)} workqueues' + (f', {hidden} not shown' if hidden else '')
    order = f'sorted by {monitor.sort}{", reversed" if monitor.reverse else ""}  {note}'.rstrip()
    return [head, order, '', stats.header(columns), *(stats.line(row, columns) for row in rows)]


def next_column(monitor):
    keys = [key for key in stats.SORT_KEYS if not key.endswith('_rate') or 'rate' in monitor.args.kinds]
    monitor.sort = keys[(keys.index(monitor.sort) + 1) % len(keys)] if monitor.sort in keys else keys[0]


def handle(monitor, key):
    if key == 's':
        next_column(monitor)
    elif key == 'r':
        monitor.reverse = not monitor.reverse
    elif key == 'a':
        monitor.active = not monitor.active


def run_screen(monitor, count, release):
    from wqtools.screen import Screen
    monitor.sort = monitor.sort or 'started_rate'
    paused = False
    with Screen() as screen:
        while True:
            if not paused:
                monitor.sample()
                count = count and count - 1
            due = time.monotonic() + monitor.args.interval
            while True:
                note = '[paused: p continues]' if paused else ''
                screen.draw(screen_lines(monitor, release, screen.size().columns, note))
                key = screen.key(max(due - time.monotonic(), 0))
                if key == 'q':
                    return
                if key == 'p':
                    paused = not paused
                    if not paused:
                        break
                if key is None:
                    break
                handle(monitor, key)
            if count == 0:
                return


def end_quietly(*unused):
    raise KeyboardInterrupt


def main():
    signal.signal(signal.SIGTERM, end_quietly)
    try:
        watch(options())
    except KeyboardInterrupt:
        pass
    return 0


def opened(args):
    """Return drgn's Program and its source, or None and "debugfs"."""
    if args.debugfs:
        return None, 'debugfs'
    try:
        prog = program.get(args)
        return prog, program.source(prog)
    except program.Trouble as why:
        if args.core or args.symbols or not debugfs.present():
            raise
        print(f'wq_monitor: {debugfs.FOLDER} is read: {why}', file=sys.stderr)
        return None, 'debugfs'


def watch(args):
    prog, source = opened(args)
    monitor, count = Monitor(prog, args), args.count
    waits = ('wait',) if source == 'debugfs' else ()
    args.kinds += waits
    if source == 'core':
        if args.interval or (args.count or 1) > 1:
            print('wq_monitor: a dump does not change: it is shown once', file=sys.stderr)
        count = 1
    elif args.interval == 0:
        count = 1
    if args.interval is None:
        args.interval = DEFAULT_INTERVAL
    if args.json:
        print_samples(monitor, count, print_json)
    elif args.plain or args.screen and count == 1:
        print_samples(monitor, count, Lines(args.kinds if count != 1 else ('total', *waits)))
    elif not args.screen:
        print_samples(monitor, count, print_table)
    elif sys.stdout.isatty():
        run_screen(monitor, count, os.uname().release if source == 'debugfs' else program.release(prog))
    else:
        raise program.Trouble('--screen needs a terminal: use --plain to print lines')


if __name__ == '__main__':
    program.run(main)

#!/usr/bin/env drgn
# SPDX-License-Identifier: GPL-2.0
"""Shows the workqueues of a Linux kernel: of the running one, a crash dump or a guest's memory."""
import argparse
import json
import os
import re
import shutil
import sys
import tempfile

from wqtools import asbase, filters, program, stalls, text

DESCRIPTION = __doc__ + '''
Run it by drgn (drgn [-c FILE -s VMLINUX] wq_dump.py ...) or by a python that has drgn.

Without options it prints what the script of this name in a kernel tree prints. With any option but
--core and --symbols it prints sections of its own.

sections:
  scopes    affinity scopes: pods, their CPUs and nodes, and the pod of each CPU
  pools     worker pools: CPUs, nice value, references, number of idle and of all workers
  map       workqueues: type, scope and flags, and which pool serves which CPU
  rescuers  the rescuers, their CPUs and what they do
  active    unbound workqueues: active items on each node, min_active and max_active
  now       what each pool runs, what waits, what is held back
"config" stands for all of them except "now", "all" for all of them.
'''
GROUPS = {'config': text.CONFIGURATION, 'all': tuple(text.SECTIONS)}


def options(argv=None):
    parser = argparse.ArgumentParser(description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', metavar='NAME', nargs='*',
                        help='only these workqueues and their pools; or shell patterns such as "ext4*"')
    parser.add_argument('-e', '--regex', action='store_true', help='NAMEs are regular expressions')
    parser.add_argument('--section', metavar='LIST', action='append', type=section_list, default=[],
                        help='sections to show, comma separated; default: config')
    parser.add_argument('--cpu', metavar='N', type=int, help='only what belongs to this CPU')
    parser.add_argument('-f', '--full', action='store_true',
                        help='print a line for each pool and each item, even if there are many')
    parser.add_argument('--width', metavar='COLUMNS', type=positive, help='default: width of the terminal')
    parser.add_argument('--json', action='store_true', help='print the same facts as JSON')
    other = parser.add_argument_group('in place of sections')
    other.add_argument('--work', metavar='ADDRESS',
                       help='show the state of one work item, given as 0x..., a symbol or SYMBOL+0x...')
    other.add_argument('--stalls', metavar='SECONDS', type=float, nargs='?',
                       const=True,
                       help='show pools that made no progress for SECONDS, and why; default: the threshold of the '
                            "kernel's watchdog (workqueue.watchdog_thresh), or "
                            f'{stalls.DEFAULT_THRESHOLD}')
    other.add_argument('--picture', action='store_true', help='draw the machine and its load in characters')
    other.add_argument('--svg', metavar='FILE', help='draw the machine and its load into an SVG file')
    program.add_options(parser)
    args = parser.parse_args(argv)
    check(parser, args)
    return args


def check(parser, args):
    """Checks what argparse cannot check, and reports usage errors."""
    if args.regex:
        for name in args.names:
            try:
                re.compile(name)
            except re.error as error:
                parser.error(f'{name} is not a regular expression: {error}')
    if args.json and (args.stalls is not None or args.picture or args.svg):
        parser.error('--json can be used with sections or with --work only')
    if args.stalls is not None and not args.stalls >= 0:
        parser.error('--stalls takes a number of seconds, 0 or more')


def section_list(value):
    names = [name for name in value.split(',') if name]
    for name in names:
        if name not in text.SECTIONS and name not in GROUPS:
            known = ', '.join([*text.SECTIONS, *GROUPS])
            raise argparse.ArgumentTypeError(f'no section {name!r}: there are {known}')
    return [section for name in names for section in GROUPS.get(name, (name,))]


def positive(value):
    if not value.isdecimal() or not int(value):
        raise argparse.ArgumentTypeError(f'{value!r} is not a number of columns')
    return int(value)


def width_of(args):
    """None if the output is not a terminal: programs that read it want whole lines."""
    if args.width:
        return args.width
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def main():
    args = options()
    prog = program.get(args)
    sections = list(dict.fromkeys(name for names in args.section for name in names))
    others = args.work is not None or args.stalls is not None or args.picture or args.svg
    if args.work is not None:
        show_work(prog, args)
    if args.stalls is not None or args.picture or args.svg:
        show_machine(prog, args)
    if sections or not others and shapes_sections(args):
        show_sections(prog, args, sections)
    elif not others:
        show_as_base(prog)


def shapes_sections(args):
    return bool(args.names or args.cpu is not None or args.json or args.full or args.width)


def show_as_base(prog):
    from wqtools import read, structs
    snapshot = read.snapshot(prog)
    print('\n'.join(asbase.dump(snapshot, structs.constant(prog, 'WQ_NAME_LEN'))))
    if snapshot.kernel.node_cpus is None:
        print('wq_dump: the last section is empty, since this kernel has no NUMA nodes', file=sys.stderr)
    for line in snapshot.warnings:
        print(f'wq_dump: not readable: {line}', file=sys.stderr)


def show_sections(prog, args, sections):
    from wqtools import jsonout, read
    parts = {part for name in sections or text.CONFIGURATION for part in text.PARTS[name]}
    if args.json and not sections:
        parts = set(read.PARTS)
    read_parts = parts | ({'workqueues'} if args.names else set())
    snapshot = read.snapshot(prog, read_parts, filters.matcher(args.names, args.regex))
    check_found(args, snapshot)
    snapshot = filters.select(snapshot, bool(args.names), args.cpu)
    if args.json:
        print(jsonout.dumps(snapshot, parts))
    else:
        print('\n'.join(text.lines(snapshot, sections or text.CONFIGURATION, width_of(args), args.full)))


def check_found(args, snapshot):
    """A name that no workqueue has is a mistake of the user, not an empty result."""
    for name in args.names:
        wanted = filters.matcher([name], args.regex)
        if not any(wanted(wq.name) for wq in snapshot.workqueues):
            raise program.Trouble(f'no workqueue is called {name}: see the names in --section map')
    possible = snapshot.kernel.possible_cpus
    if args.cpu is not None and args.cpu not in possible:
        raise program.Trouble(f'there is no CPU {args.cpu}: give one of {text.cpulist(possible)}')


def show_work(prog, args):
    from wqtools import item
    if args.json:
        print(json.dumps(item.state(prog, args.work), indent=1))
    else:
        print('\n'.join(item.describe(prog, args.work)))


def show_machine(prog, args):
    from wqtools import read
    snapshot = read.snapshot(prog)
    if args.stalls is not None:
        print('\n'.join(stalls.report(prog, snapshot, None if args.stalls is True else args.stalls)))
    if args.picture:
        from wqtools import textpicture
        encoding = (sys.stdout.encoding or '').lower()
        print(textpicture.draw(snapshot, width_of(args) or 80, encoding.startswith('utf')), end='')
    if args.svg:
        from wqtools import svg
        write_file(args.svg, svg.draw(snapshot))


def write_file(name, content):
    """Writes all or nothing: replaces an existing file once the new one is complete."""
    folder = os.path.dirname(os.path.abspath(name))
    try:
        with tempfile.NamedTemporaryFile('w', dir=folder, prefix='.wq_dump', suffix='.svg', delete=False,
                                         encoding='utf-8') as file:
            try:
                file.write(content)
                file.close()
                os.chmod(file.name, 0o666 & ~_umask())
                os.replace(file.name, name)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise program.Trouble(f'cannot write {name}: {error.strerror}') from None


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


if __name__ == '__main__':
    program.run(main)

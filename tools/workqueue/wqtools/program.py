# SPDX-License-Identifier: GPL-2.0
"""Opens the kernel that a tool looks at, and reports errors that the user can mend.

    program.add_options(parser)     --core and --symbols
    prog = program.get(args)        the drgn.Program: drgn's own when it runs the script,
                                    else opened as the options say; checked to be a kernel
                                    with debug information for its workqueues
    program.source(prog)            "live" or "core"
    program.release(prog)           as uname -r
    program.run(main)               calls main(), exits with what it returns (None is 0);
                                    an expected error becomes one line on stderr and exit
                                    status 1
    raise program.Trouble(text)     prints such a line: what is wrong and what to do

drgn is imported only when it is needed, so --help and drawing a hand-made Snapshot work
without it. Scripts import read, structs and so on inside their main().
"""
import logging
import os
import re
import sys

FINDER = 'wqtools modules'      # name of our symbol finder within the Program
NO_DRGN = 'python finds no drgn: pip install drgn, or run this with the python that has it'


class Trouble(Exception):
    """An error that the user can mend, described in one line."""


class _Log(logging.Handler):
    """Keeps drgn's log, which says more than the exception that follows."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def add_options(parser):
    tool = os.path.basename(sys.argv[0])
    group = parser.add_argument_group('which kernel', 'The running one unless told. When drgn runs the script give '
                                      f'these to drgn: drgn -c FILE -s VMLINUX {tool} ...')
    group.add_argument('--core', metavar='FILE', help="a kernel's memory: a vmcore, or a dump of a guest by QEMU")
    group.add_argument('-s', '--symbols', metavar='VMLINUX', action='append', default=[],
                       help='file with the debug information of that very kernel (or of a module; may be repeated)')


def get(args):
    """The Program to look at; raises Trouble if it cannot be opened."""
    drgn = _drgn()
    try:
        prog = drgn.get_default_prog()
    except drgn.NoDefaultProgramError:
        prog = _open(drgn, args.core, args.symbols)
        drgn.set_default_prog(prog)
    else:
        if args.core or args.symbols:
            raise Trouble('drgn has already opened a kernel: give -c FILE and -s VMLINUX to drgn, before the script')
    _check(drgn, prog)
    _add_module_symbols(prog)
    return prog


def source(prog):
    from drgn import ProgramFlags
    return 'live' if prog.flags & ProgramFlags.IS_LIVE else 'core'


def release(prog):
    """The kernel's release, even if there is no debug information."""
    try:
        found = re.search(rb'^OSRELEASE=(.*)$', prog['VMCOREINFO'].string_(), re.MULTILINE)
        if found:
            return found[1].decode()
    except LookupError:
        pass
    return os.uname().release if source(prog) == 'live' else 'unknown'


def _drgn():
    try:
        import drgn
    except ModuleNotFoundError as error:
        if error.name != 'drgn':
            raise
        raise Trouble(NO_DRGN) from None
    return drgn


def _open(drgn, core, symbols):
    for name in symbols:
        if not os.path.isfile(name):
            raise Trouble(f'no such file: {name} (--symbols)')
        if not os.access(name, os.R_OK):
            raise Trouble(f'no permission to read {name} (--symbols)')
    logger, log = logging.getLogger('drgn'), _Log()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(log)
    try:
        prog = drgn.Program()
        _set_target(prog, core)
        _check_for_kernel(drgn, prog)
        try:
            prog.load_debug_info(symbols, main=True)
        except drgn.MissingDebugInfoError:
            raise Trouble(_no_debug_info(prog, symbols, log.lines)) from None
    finally:
        logger.removeHandler(log)
        logger.propagate = propagate
    return prog


def _set_target(prog, core):
    name = core or '/proc/kcore'
    try:
        if core:
            prog.set_core_dump(core)
        else:
            prog.set_kernel()
    except PermissionError:
        hint = '' if core else ': run this as root, or give a dump with --core FILE'
        raise Trouble(f'no permission to read {name}{hint}') from None
    except FileNotFoundError:
        hint = '' if core else ': this kernel does not show its memory (CONFIG_PROC_KCORE); ' \
                               'give a dump with --core FILE'
        raise Trouble(f'no such file: {name}{hint}') from None
    except Exception as error:      # errors of libelf have no class of their own
        text = getattr(error, 'strerror', None) or str(error)
        raise Trouble(f'{name} is not the memory of a kernel: {text}') from None


def _no_debug_info(prog, symbols, said):
    """Says in one line why the given debug information cannot be used."""
    name = release(prog)
    wanted = f'give the vmlinux of {name}, built with CONFIG_DEBUG_INFO, by --symbols'
    if any('did not match' in line for line in said):
        return f'{", ".join(symbols)} does not belong to kernel {name}, whose memory this is: {wanted}'
    if any('not an ELF file' in line for line in said):
        return f'{", ".join(symbols)} is not a vmlinux: {wanted}'
    if symbols:
        return f'no debug information in {", ".join(symbols)}: {wanted}'
    return f'no debug information found for kernel {name}: {wanted}'


def _check_for_kernel(drgn, prog):
    if not prog.flags & drgn.ProgramFlags.IS_LINUX_KERNEL:
        raise Trouble("this is not a kernel's memory (a dump by QEMU needs -device vmcoreinfo and a guest with "
                      'CONFIG_FW_CFG_SYSFS)')


def _check(drgn, prog):
    """Raises Trouble unless it is a kernel whose workqueues can be read."""
    _check_for_kernel(drgn, prog)
    try:
        prog['init_uts_ns'].name.release.string_()
    except drgn.ObjectNotFoundError:
        raise Trouble(f'no debug information for kernel {release(prog)}: '
                      'give its vmlinux with -s (to drgn, or to this tool when python runs it)') from None
    for name in 'workqueues', 'worker_pool_idr', 'wq_pod_types':
        try:
            prog[name].address_of_()
        except drgn.ObjectNotFoundError:
            raise Trouble(f'kernel {release(prog)} has no {name}: it is older than 6.6, which these tools '
                          'do not know') from None


def _add_module_symbols(prog):
    """Also name functions of modules, by the kernel's own tables: their files may not be at hand."""
    from drgn import FaultError
    from drgn.helpers.linux.kallsyms import load_module_kallsyms
    if FINDER in prog.registered_symbol_finders():
        return
    try:
        prog.register_symbol_finder(FINDER, load_module_kallsyms(prog), enable_index=-1)
    except (LookupError, AttributeError, FaultError, ValueError):
        pass    # no CONFIG_KALLSYMS or no modules: such functions are shown as addresses


def describe(error):
    """One line for an error that drgn raised, None if the error is not expected."""
    name, text = type(error).__name__, ' '.join(str(error).split())
    if isinstance(error, Trouble):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name == 'drgn':
        return NO_DRGN
    if name == 'FaultError':
        return f'memory that should be there cannot be read ({text}): the dump is incomplete or damaged, or ' \
               'the kernel changed meanwhile; try again or take another dump'
    if name == 'BadDataError':
        return f'the dump or the debug information is damaged ({text}): take another'
    if name in ('ObjectNotFoundError', 'MissingDebugInfoError'):
        return f'{text.strip(chr(34))}: this kernel does not have it, or its debug information is incomplete'
    if type(error) is LookupError or isinstance(error, AttributeError) and 'has no member' in text:
        return f'{text}: these tools do not know this kind of kernel'
    if isinstance(error, OSError):
        return f'{error.filename or "output"}: {error.strerror or text}'
    return None


def run(main):
    """Call main() and exit as a command does."""
    tool = os.path.splitext(os.path.basename(sys.argv[0] or 'wq'))[0]
    if hasattr(sys.stdout, 'reconfigure'):
        sys.stdout.reconfigure(errors='replace')    # the terminal may not be able to show all names
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader has gone; keep python's own flush at exit from complaining again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        line = describe(error)
        if line is None:
            raise
        sys.exit(f'{tool}: {line}')
    sys.exit(status)

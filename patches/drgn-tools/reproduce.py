#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Show which pool_workqueue drgn-tools finds for each item that waits, and whether it exists:

    reproduce.py DRGN_TOOLS CORE VMLINUX

DRGN_TOOLS is a checkout. The exit status is 1 if one does not exist, and 2 if no item waits whose colour is not 0.
README.md says how to get a dump with such items.
"""
import sys

import drgn

sys.path.insert(0, sys.argv[1])
from drgn_tools import workqueue


def main() -> int:
    prog = drgn.Program()
    prog.set_core_dump(sys.argv[2])
    prog.load_debug_info([sys.argv[3]], main=True)
    pwqs = {pwq.value_(): wq for wq in workqueue.for_each_workqueue(prog) for pwq in workqueue.for_each_pwq(wq)}
    shift, bits = (prog[f'WORK_STRUCT_COLOR_{name}'].value_() for name in ('SHIFT', 'BITS'))
    coloured, wrong = 0, 0
    for work in workqueue.for_each_pending_work(prog):
        pwq = workqueue.get_work_pwq(work).value_()
        colour = work.data.counter.value_() >> shift & (1 << bits) - 1
        name = pwqs[pwq].name.string_().decode() if pwq in pwqs else 'no such pool_workqueue'
        print(f'item 0x{work.value_():x}, colour {colour}: 0x{pwq:x}, {name}')
        coloured += colour != 0
        wrong += pwq not in pwqs
    return 1 if wrong else 0 if coloured else 2


if __name__ == '__main__':
    sys.exit(main())

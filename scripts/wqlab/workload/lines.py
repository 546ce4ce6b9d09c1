# SPDX-License-Identifier: GPL-2.0
"""The lines by which inside.py reports to run.py. Each is a mark and a JSON object.

kind      other fields
begin     release, cpus, cases: the names in their order
case      name, unit, figures
skip      name, why: this kernel cannot run the case
wrong     name, why: data was lost or changed
trouble   lines: complaints in the kernel's log
end       cases: how many lines of kind "case" there are
"""
import json

from wqlab.steps import Failure

MARK = '@workload '


def emit(kind: str, **fields) -> None:
    print(MARK + json.dumps({'kind': kind, **fields}), flush=True)


def read(text: str) -> list[dict]:
    """Return the objects in an output, which may end in the middle of a line."""
    found = []
    for line in text.splitlines():
        _, mark, rest = line.partition(MARK)
        if mark:
            try:
                found.append(json.loads(rest))
            except ValueError:
                continue        # the caller notices that a result is missing
    return found


def others(text: str) -> str:
    """Return the output without these lines: the kernel's log and messages of programs."""
    return '\n'.join(line for line in text.splitlines() if MARK not in line)


def parse(found: list[dict]) -> dict:
    """Return the entries of a complete run, or raise Failure."""
    def of(kind: str) -> list[dict]:
        return [{key: value for key, value in one.items() if key != 'kind'} for one in found if one['kind'] == kind]
    begin, end, runs = of('begin'), of('end'), of('case')
    if not begin:
        raise Failure('the workload did not start')
    if not end:
        last = f' after {runs[-1]["name"]}' if runs else ''
        raise Failure(f'the workload ended early{last}')
    if end[0]['cases'] != len(runs):
        raise Failure(f"{end[0]['cases']} cases were run, but only {len(runs)} can be read")
    return {'release': begin[0]['release'], 'cpus': begin[0]['cpus'], 'runs': runs, 'skipped': of('skip'),
            'wrong': of('wrong'), 'trouble': [line for one in of('trouble') for line in one['lines']]}

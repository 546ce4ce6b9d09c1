# SPDX-License-Identifier: GPL-2.0
"""Parse the output of the benchmark module, lib/cmwq/wqbench_report.c."""

import re

from wqlab.steps import Failure

PREFIX = 'test_workqueue: '
QUANTILES = ('p50_ns', 'p90_ns', 'p95_ns', 'p99_ns', 'p999_ns', 'max_ns')
VIOLATIONS = ('lost', 'twice', 'outside', 'refused', 'bad_pods')
NUMBERS = (('repeat', 'strict', 'threads', 'in_flight', 'max_active', 'burn_us', 'items', 'elapsed_ns', 'items_per_s',
            'mean_ns') + QUANTILES + ('kworkers',) + VIOLATIONS + ('hotplug',))
WORDS = ('scope', 'actual', 'wq', 'mode', 'judged', 'clock')
# From queueing to the start of an item, and from there until its submitter knows that it ran.
WAITS = tuple(f'{figure}_{key}' for figure in ('start', 'done') for key in QUANTILES)
WAIT_NUMBERS = ('repeat', 'sample', 'waits', *WAITS)
# What only some modes measure: how long a round takes and where it runs; how long a probe of high priority waits.
MAKESPAN = tuple(f'makespan_{key}' for key in QUANTILES)
PROBE = tuple(f'probe_{key}' for key in QUANTILES)
IN_ROUNDS = ('rounds', 'cpus', 'cpus_mean', *MAKESPAN)
MODES = {'latency': (), 'batch': (), 'burst': IN_ROUNDS, 'spread': IN_ROUNDS, 'mixed': ('probes', 'late', *PROBE),
         'roam': ('moves',), 'limit': ()}
# The floor: how a thread and its partner exchange items without a workqueue, and what tables call that.
FLOOR = {'same': 'floor: same CPU', 'other': 'floor: other CPU', 'line': 'floor: one line'}
KINDS = ('unbound', 'unbound_highpri', 'percpu', 'reclaim', 'highpri', 'bh', 'ordered')
LACKING = re.compile(r'(?:this kernel has no scope|there is only one CPU, so no floor) (\w+): passed over')
FOR_PEOPLE = re.compile(r'\w+ +(\d+ items/s; queueing |wait: |also: )')


def parse_fields(text):
    """Convert 'a=1 b=x' to a dict of strings. Raise ValueError if a word is no pair, or comes twice."""
    pairs = [word.split('=') for word in text.split()]
    fields = dict(pairs)
    if len(fields) != len(pairs) or '' in fields:
        raise ValueError('a key is empty, or comes twice')
    return fields


def parse_line(text, numbers, words):
    """Convert a line to a dict with numbers. Raise Failure if anything is missing."""
    try:
        fields = parse_fields(text)
        for key in numbers:
            fields[key] = float(fields[key]) if key == 'cpus_mean' else int(fields[key])
        return {**fields, **{key: fields[key] for key in words}}
    except (ValueError, KeyError) as error:
        raise Failure(f'the benchmark wrote a line that makes no sense ({error!r}): {text[:60]}') from None


def parse_result(text):
    """Convert the first line of a result."""
    return parse_line(text, NUMBERS, WORDS)


def parse_wait(text):
    """Convert the second line of a result. What it has depends on the mode."""
    mode = parse_line(text, (), ('mode',))['mode']
    return parse_line(text, (*WAIT_NUMBERS, *MODES.get(mode, ())), ('scope', 'mode'))


PARSERS = {'result': parse_result, 'wait': parse_wait}


def tagged_lines(output):
    """Yield the text after 'test_workqueue: ' from each line that contains it."""
    for line in output.splitlines():
        _, found, text = line.partition(PREFIX)
        if found:
            yield text.strip()


def parse_output(output):
    """Parse the output of one boot.

    Return a dict: 'runs' in their order, 'passed_over' scopes, 'status', 'violations', and
    'notes', which are the other lines of the module. Raise Failure if the
    benchmark did not finish.
    """
    lines, passed_over, notes, done = {kind: {} for kind in PARSERS}, [], [], None
    for text in tagged_lines(output):
        kind, _, rest = text.partition(' ')
        lacking = LACKING.fullmatch(text)
        if kind in lines:
            found = PARSERS[kind](rest)
            lines[kind][found['repeat'], found['scope']] = found
        elif kind == 'done':
            done = parse_line(rest, ('runs',), ('status',))
        elif lacking:
            passed_over += [lacking[1]] * (lacking[1] not in passed_over)
        elif not FOR_PEOPLE.match(text) and text not in notes:
            notes.append(text)

    if done is None:
        said = f': {notes[-1]}' if notes else ''
        raise Failure(f'the benchmark did not finish{said}')
    if done['status'] not in ('ok', 'violated'):
        said = notes[-1] if notes else f"error {done.get('error')}"
        raise Failure(f"the benchmark ended as \"{done['status']}\": {said}")
    runs = [{**result, **lines['wait'][key]} for key, result in lines['result'].items() if key in lines['wait']]
    if len(runs) != done['runs']:
        raise Failure(f"{done['runs']} runs were made, but only {len(runs)} can be read")
    return {
        'runs': runs,
        'passed_over': passed_over,
        'status': done['status'],
        'violations': sum(run[key] for run in runs for key in VIOLATIONS),
        'notes': notes,
    }

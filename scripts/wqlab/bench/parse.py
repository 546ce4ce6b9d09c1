# SPDX-License-Identifier: GPL-2.0
"""Parse the output of the benchmark module, lib/wqbench_report.c."""

import re

PREFIX = 'test_workqueue: '
PERCENTILES = ('p50_ns', 'p90_ns', 'p95_ns', 'p99_ns')
VIOLATIONS = ('lost', 'twice', 'outside', 'refused', 'bad_pods')
NUMBERS = (('repeat', 'strict', 'threads', 'in_flight', 'items', 'elapsed_ns', 'items_per_s',
            'mean_ns') + PERCENTILES + ('max_ns', 'kworkers') + VIOLATIONS + ('hotplug',))
WORDS = ('scope', 'actual', 'mode', 'judged', 'clock')


class BenchOutputError(Exception):
    """The output does not contain a complete run of the benchmark."""


def parse_fields(text):
    """Convert 'a=1 b=x' to a dict of strings. Return None if a word is not a pair."""
    fields = {}
    for word in text.split():
        key, sign, value = word.partition('=')
        if not sign or not key or key in fields:
            return None
        fields[key] = value
    return fields


def parse_result(text):
    """Convert a result line to a dict with numbers. Return None if anything is missing.

    Other output on the console may interrupt a line, so damaged lines are normal. The
    caller finds a second copy of the line, or notices that a result is missing.
    """
    fields = parse_fields(text)
    if fields is None or any(key not in fields for key in NUMBERS + WORDS):
        return None
    try:
        for key in NUMBERS:
            fields[key] = int(fields[key])
    except ValueError:
        return None
    return fields


def tagged_lines(output):
    """Yield the text after 'test_workqueue: ' from each line that contains it."""
    for line in output.splitlines():
        _, found, text = line.partition(PREFIX)
        if found:
            yield text.strip()


def parse_output(output):
    """Parse the output of one boot.

    Return a dict: 'runs' in their order, 'passed_over' scopes, 'status', 'violations', and
    'notes', which are the other lines of the module. Raise BenchOutputError if the
    benchmark did not finish. A line may appear twice, once from the console and once from
    dmesg.
    """
    runs, passed_over, notes, done = {}, [], [], None
    for text in tagged_lines(output):
        kind, _, rest = text.partition(' ')
        lacking = re.fullmatch(r'this kernel has no scope (\w+): passed over', text)
        if kind == 'result':
            run = parse_result(rest)
            if run:
                runs[(run['repeat'], run['scope'])] = run
        elif kind == 'done':
            done = parse_fields(rest) or done
        elif lacking:
            if lacking[1] not in passed_over:
                passed_over.append(lacking[1])
        elif ' items/s; queueing ' not in text and text not in notes:
            notes.append(text)

    if done is None:
        said = f': {notes[-1]}' if notes else ''
        raise BenchOutputError(f'the benchmark did not finish{said}')
    if done.get('status') not in ('ok', 'violated'):
        said = notes[-1] if notes else f"error {done.get('error')}"
        raise BenchOutputError(f"the benchmark ended as \"{done.get('status')}\": {said}")
    if len(runs) != int(done['runs']):
        raise BenchOutputError(f"{done['runs']} runs were made, but only {len(runs)} can be read")
    return {
        'runs': list(runs.values()),
        'passed_over': passed_over,
        'status': done['status'],
        'violations': sum(run[key] for run in runs.values() for key in VIOLATIONS),
        'notes': notes,
    }

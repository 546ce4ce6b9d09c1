# SPDX-License-Identifier: GPL-2.0
"""The benchmark that scripts/run-bench.sh runs: see --help.

options.py  the command line          parse.py      the output of a boot
seat.py     guests in turn            by_scope.py   rows of figures, the first table
machine.py  --machine, its options    waits.py      the table of waits
floor.py    the table of what is above the floor
why.py      what CPUs waited for      summary.py    all tables, and what they mean
simulated.py  guests of --machine     plot.py       the plots
sweep.py    the plots over numbers of CPUs

../measure/ has what it shares with run-workload.sh.
"""

from wqlab.bench import by_scope, options, parse, plot, seat, simulated, summary, why
from wqlab.measure import turns
from wqlab.measure.boot import install, kernel
from wqlab.measure.options import warnings


def kernels(params, build):
    if build:
        install('the benchmark', ENGINE=params['engine'])
    return {place: kernel(params['engine'], variant) for place, variant in options.places(params).items()}


def boots_to_make(params):
    """Return all boots in their order: A B A B ..., and in each pair every number of CPUs."""
    return [{'pair': pair, 'variant': variant, **({'cpus': cpus} if cpus else {})}
            for pair in range(1, params['pairs'] + 1)
            for cpus in params.get('sweep') or [None]
            for variant in options.places(params)]


def boot_key(boot):
    return boot['pair'], boot['variant'], boot.get('cpus')


def boots_left(record):
    made = {boot_key(boot) for boot in record['boots']}
    return [boot for boot in boots_to_make(record['parameters']) if boot_key(boot) not in made]


def describe_boot(boot, params):
    size = f", {boot['cpus']} CPUs" if boot.get('cpus') else ''
    return f"pair {boot['pair']} of {params['pairs']}, {boot['variant']}{size}"


def stem(boot):
    size = f"-cpus{boot['cpus']}" if boot.get('cpus') else ''
    return f"{boot['pair']:03d}-{boot['variant']}{size}"


def outline(entry):
    return seat.outline([run for run in entry['runs'] if run['repeat'] == 1])


def group(boot):
    return boot['pair'], boot.get('cpus')


def once(params, kernels):
    """Return the function that makes the boots of a group."""
    def make(boots, logs, tick):
        if params.get('machine'):
            return simulated.play(kernels, params, boots, logs, tick)
        if not params['icount']:
            return seat.play(kernels, params, boots, logs, tick)
        # With icount, a guest that waits for orders does not sleep but uses a whole CPU. So boot them one by one.
        return [entry for boot, log in zip(boots, logs, strict=True)
                for entry in seat.play(kernels, params, [boot], [log], tick)]
    return make


def lacking_scopes(record):
    """Return a line for each scope that a kernel does not have."""
    lacking = {(boot['variant'], scope) for boot in record['boots']
               for scope in boot['passed_over']}
    return [f'the {variant} kernel has no scope {scope}: it was skipped'
            for variant, scope in sorted(lacking)]


def violations(record):
    """Return a line for each boot with violations."""
    lines = []
    for boot in record['boots']:
        if boot['violations']:
            kinds = {key: sum(run[key] for run in boot['runs']) for key in parse.VIOLATIONS}
            text = ', '.join(f'{count} {key}' for key, count in kinds.items() if count)
            lines.append(f"{describe_boot(boot, record['parameters'])}: the contract was broken: {text}")
    return lines


def report(record):
    """Print the tables, and what is not in them."""
    params, names = record['parameters'], options.names(record['parameters'])
    print('\n'.join(summary.lines(record['summary'], params, names) + why.lines(record)), flush=True)
    if params.get('gate') and not params.get('append_cmwq') and all(row.get('ratio') for row in record['summary']):
        PROGRAM.say(by_scope.gate(record['summary'], 'items_per_s'))
    for line in lacking_scopes(record):
        PROGRAM.say(line)


PROGRAM = turns.Program(
    name='run-bench', results='bench', kernels=kernels,
    left=boots_left, possible=boots_left, once=once,
    describe=describe_boot, group=group, stem=stem, outline=outline, notes=warnings,
    summarise=summary.summarise, report=report, wrong=violations, draw=plot.write)


def main(argv):
    return turns.run(PROGRAM, *options.parse_args(argv))

# SPDX-License-Identifier: GPL-2.0
"""What results.json of run-bench.sh contains, and which boots a run makes."""
from wqlab.bench import by_scope, options, parse
from wqlab.measure import stats
from wqlab.measure.record import COMMON, FAILED, PARAMETERS, STAT
from wqlab.shape import NOTHING, NUMBER

ROW = {'scope': str, 'cpus?': (int, NOTHING),
       **{f'{variant}?': {'rows?': list, ...: STAT} for variant in stats.ORDER},
       'ratio?': {...: ({**STAT, 'low': NUMBER, 'high': NUMBER}, NOTHING)}}
BENCH = {
    **COMMON,
    'parameters': {**PARAMETERS, 'engine': {*options.ITEMS}, 'mode': {*parse.MODES}, 'icount': bool,
                   'batch': (int, NOTHING), 'items': (int, NOTHING),
                   'sweep?': ([int], NOTHING), 'wq?': str, 'burn_us?': (int, NOTHING), 'append_cmwq?': str},
    'boots': [{'pair': int, 'variant': {*stats.ORDER}, 'cpus?': (int, NOTHING),
               'violations': int, 'trouble': [str], 'passed_over': [str],
               'runs': [{'scope': str, 'repeat': int, 'items?': int, 'elapsed_ns?': NUMBER,
                         **{f'{metric}?': (*NUMBER, NOTHING) for metric in by_scope.METRICS}}]}],
    'failed_boots?': [FAILED],
    'summary': [ROW]}
# What is needed to go on
RESUMED = {'parameters': {'mem': str, 'scopes': ([str], NOTHING), 'repeats': int, 'boot_timeout': int, 'threads': int,
                          'strict': bool, 'max_active': (int, NOTHING)}}


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

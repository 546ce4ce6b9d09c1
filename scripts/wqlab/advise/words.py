# SPDX-License-Identifier: GPL-2.0
"""The table of gains, and the advice as one paragraph."""
import textwrap
from typing import Any

from wqlab import tables
from wqlab.advise import loads, pods, verdict
from wqlab.advise.verdict import PROVE, Row
from wqlab.measure import stats
from wqlab.scopes import SHARD

WIDTH = 100
NOISY_MARK = ' !'
MARKS = {verdict.BETTER: ' +', verdict.WORSE: ' -', verdict.SAME: ' =', verdict.UNCLEAR: ' ?'}
ONE_PERCENT = 0.01
# Scopes that have the same pods as the smallest and the largest shards.
ENDS = {'smt': ('smallest', 'smaller'), 'cache': ('largest', 'larger')}
SCOPES_PAGE = 'Documentation/core-api/workqueue-admin.rst'


def joined(texts: list[str]) -> str:
    return ' and '.join(filter(None, [', '.join(texts[:-1]), texts[-1]])) if texts else ''


def named(setting: str) -> str:
    scope, _, size = setting.partition('/')
    return f'{scope} with shards of {size} {"core" if size == "1" else "cores"}' if size else scope


def percent(share: float) -> str:
    return f'{100 * share:.0f}%'


def mark(row: Row) -> str:
    if row['margin'] > verdict.TOO_NOISY:
        return NOISY_MARK
    return '' if row['setting'] == pods.AGAIN else MARKS[row[f'{PROVE}_class']]


def table(record: dict[str, Any], rows: list[Row]) -> list[str]:
    """Return the table: a line for each setting, a column for each figure."""
    keys = list(dict.fromkeys(row['key'] for row in rows))
    head = ['setting', *(key.replace(' ', '\n', 1) for key in keys), f"kworkers\n{rows[0]['load']}"]
    lines = []
    for name in dict.fromkeys(row['setting'] for row in rows):
        mine = {row['key']: row for row in rows if row['setting'] == name}
        cells = [stats.ratio_text(mine[key][PROVE]) + mark(mine[key]) for key in keys]
        workers = mine[keys[0]]['kworkers']
        lines.append([name, *cells, '-' if workers is None else f'{workers:.0f}'])
    return tables.lines(head, lines, range(1, len(head)))


def legend(record: dict[str, Any], rows: list[Row]) -> list[str]:
    used = dict.fromkeys(row['load'] for row in rows)
    threshold = record['parameters']['threshold']
    return [f"gain over the present default, {present(record)}: more than 1 is better; 95% confidence interval",
            '+ better, - worse, = the same, ? not settled, ! too noisy to judge; '
            f'a difference below {threshold:g}% does not count',
            f'{pods.AGAIN}: the default setting against itself, which should be 1',
            *(f'{name}: {loads.LOADS[name].what}' for name in used)]


def present(record: dict[str, Any]) -> str:
    size = record['present']['shard_size']
    scope = record['present']['scope']
    return named(f'{scope}/{size}') if scope == SHARD and size else scope


def gain_text(row: Row) -> str:
    figure = next(figure for load, figure in loads.figures_of([row['load']]) if figure.name == row['figure'])
    return f"{stats.ratio_text(row[PROVE])} times {figure.gain} in {row['load']}"


def price_text(row: Row) -> str:
    half = PROVE if verdict.may_harm(row, PROVE) else verdict.PICK
    sure = row[f'{half}_class'] == verdict.WORSE
    return f"{row['key']} {stats.ratio_text(row[half])}{'' if sure else ' (not settled)'}"


def open_text(row: Row) -> str:
    return f"{row['key']} {stats.ratio_text(row[PROVE])}"


def worth(saved: dict[str, float | None]) -> str:
    """Say from which rate on the gain matters."""
    known = {load: ns for load, ns in saved.items() if ns and ns > 0}
    if not known:
        return ''
    load, ns = max(known.items(), key=lambda pair: pair[1])
    rate = ONE_PERCENT * 1e9 / ns
    return (f'An item of {load} takes {ns / 1000:.2f} us less, so a CPU that queues fewer than '
            f'{rate:,.0f} items/s saves less than 1% of its time.')


def how(setting: str) -> str:
    scope, _, size = setting.partition('/')
    place = '/sys/module/workqueue/parameters'
    words = [f'echo {size} >{place}/cache_shard_size' if size else f'echo {scope} >{place}/default_affinity_scope']
    boot = f'workqueue.cache_shard_size={size}' if size else f'workqueue.default_affinity_scope={scope}'
    if size:
        words.append(f'echo {scope} >{place}/default_affinity_scope')
    return f"To try it: {'; '.join(words)}. To keep it, boot with {boot}."


def chosen(record: dict[str, Any], advice: dict[str, Any]) -> list[str]:
    text = [f"Choose {named(advice['setting'])} instead of {present(record)}: "
            f"{joined([gain_text(row) for row in advice['gains']])}, and no figure that can be judged got worse."]
    if advice['open']:
        text.append(f"Not settled: {joined([open_text(row) for row in advice['open']])}.")
    return [*text, worth(advice['saved_ns']), how(advice['setting'])]


def trade_text(trade: dict[str, Any]) -> str:
    row, prices = trade['gain'], trade['prices']
    cost = f", but costs: {joined([price_text(price) for price in prices])}" if prices else ''
    return f"{named(row['setting'])} gives {gain_text(row)}{cost}."


def traded(advice: dict[str, Any]) -> list[str]:
    return [trade_text(trade) for trade in advice.get('trades', [])]


def left(record: dict[str, Any], advice: dict[str, Any]) -> list[str]:
    text = [f"Leave it at {present(record)}: no other setting was shown to be better by "
            f"{record['parameters']['threshold']:g}% or more in any figure."]
    if advice.get('unconfirmed'):
        text.append(f"{named(advice['unconfirmed'])} looked better in one half of the turns, and the other half did "
                    'not confirm that.')
    return [*text, f"Half of the intervals are wider than ±{percent(advice['resolution'])}: a smaller gain may exist."]


def ends_of_sizes(record: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return {setting: words for its shards} of the settings that were measured."""
    names = {record['same'].get(scope, scope): words for scope, words in ENDS.items()}
    measured = {row['setting'] for row in record['rows']}
    return {name: words for name, words in names.items() if name in measured}


def between(record: dict[str, Any]) -> str:
    """Say what the settings at both ends, which are shards of one core and whole caches, tell about sizes."""
    ends = ends_of_sizes(record)
    if record['present']['scope'] != SHARD or not ends or record['advice']['verdict'] not in verdict.DECIDED:
        return ''
    better = {row['setting'] for row in record['rows'] if row[f'{PROVE}_class'] == verdict.BETTER}
    found = [f'The scope {name} was better in a load, so {words[1]} shards may be.' for name, words in ends.items()
             if name in better]
    extremes = joined([f'the {words[0]} ({name})' for name, words in ends.items()])
    return ' '.join(found) or \
        f'Of all shards, {extremes} were not better in any load, so a size between is not likely to be.'


def of_shards(record: dict[str, Any]) -> str:
    """Say what was not tried of the size of shards, and why."""
    present, asked = record['present'], record['parameters']['shard_sizes']
    if present['shard_size'] is None:
        return 'This kernel has no cache_shard, so there is no size to choose.'
    if any(one['shard_size'] for one in record['settings']) or record['advice']['verdict'] == verdict.ALIKE:
        return ''
    if asked:
        return 'Shards of the sizes asked for are the same as those of settings that were measured.'
    why = 'Other sizes of shards were not tried: --shard-sizes does that.' if present['can_resize'] else \
        'Other sizes of shards were not tried: this kernel can change them only at boot.'
    return f'{why} {between(record)}'.rstrip()


def paragraph(record: dict[str, Any]) -> str:
    """Return the advice."""
    advice = record['advice']
    kind = advice['verdict']
    if kind == verdict.ALIKE:
        text = [f'Leave it at {present(record)}. All scopes have the same pods on this machine, so there is nothing to '
                'choose.']
    elif kind == verdict.SHORT:
        text = [f"No advice: {advice['turns']} turns were made, and {advice['needed']} are needed. Give it more "
                '--minutes, or fewer --loads or --scopes.']
    elif kind == verdict.NOISY:
        text = [f'Leave it at {present(record)}, since nothing can be said: in {len(advice["noisy"])} of '
                f'{advice["figures"]} figures, this setting may differ from itself by more than '
                f'{percent(verdict.TOO_NOISY)}. Something else uses this machine: try again when it is quiet, or give '
                'it more --minutes.']
    elif kind == verdict.CHOOSE:
        text = chosen(record, advice) + (['For one load alone:', *traded(advice)] if advice['trades'] else [])
    elif kind == verdict.TRADE:
        text = [f'Leave the default at {present(record)}: there is a trade, and no setting is better without a price. '
                'For a workqueue of which you know the load:', *traded(advice)]
    else:
        text = left(record, advice)
    if advice.get('noisy') and kind != verdict.NOISY:
        text.append(f"Too noisy to judge: {joined(advice['noisy'])}.")
    text.append(of_shards(record))
    if kind in (verdict.CHOOSE, verdict.TRADE):
        text.append(f'These are small loads on one boot: confirm with your own, see {SCOPES_PAGE}.')
    return ' '.join(filter(None, text))


def lines(record: dict[str, Any]) -> list[str]:
    """Return the whole report."""
    rows, text = record['rows'], []
    if rows:
        text = [*table(record, rows), '', *legend(record, rows)]
    text += [f'{name}: the same pods as {twin}, not measured' for name, twin in record['same'].items()]
    text += [f'{name}: this kernel does not have it' for name in record['lacking']]
    return [*text, '', *textwrap.wrap(paragraph(record), WIDTH, break_long_words=False, break_on_hyphens=False)]

# SPDX-License-Identifier: GPL-2.0
"""The table of gains, and the advice as one paragraph."""
import textwrap
from typing import Any

from wqlab import tables
from wqlab.advise import pods, verdict
from wqlab.advise.measure import LOADS
from wqlab.advise.verdict import PICK, PROVE, Row
from wqlab.measure import stats
from wqlab.scopes import SHARD

WIDTH = 100
MARKS = {verdict.BETTER: ' +', verdict.WORSE: ' -', verdict.SAME: ' =', verdict.UNCLEAR: ' ?'}
SIZE, SCOPE = 'cache_shard_size', 'default_affinity_scope'
SCOPES_PAGE = 'Documentation/core-api/workqueue-admin.rst'


def joined(texts: list[str]) -> str:
    return ' and '.join(filter(None, [', '.join(texts[:-1]), texts[-1]]))


def named(setting: str) -> str:
    scope, size = pods.parts(setting)
    return f'{scope} with shards of {size}' if size else scope


def present(record: dict[str, Any]) -> str:
    scope, size = record['present']['scope'], record['present']['shard_size']
    return named(f'{scope}/{size}') if scope == SHARD and size else scope


def cell(row: Row) -> str:
    mark = ' !' if row['margin'] > verdict.TOO_NOISY else \
        '' if row['setting'] == pods.AGAIN else MARKS[row[f'{PROVE}_class']]
    return stats.ratio_text(row[PROVE]) + mark


def table(record: dict[str, Any]) -> list[str]:
    """Return the table, a line for each setting and a column for each figure, and what its parts mean."""
    cells: dict[str, list[str]] = {}
    for row in record['rows']:
        cells.setdefault(row['setting'], []).append(cell(row))
    keys = dict.fromkeys(row['key'] for row in record['rows'])
    head = ['setting', *(key.replace(' ', '\n', 1) for key in keys)]
    lines = tables.lines(head, [[name, *mine] for name, mine in cells.items()], range(1, len(head)))
    return [*lines, '',
            f'gain over the present default, {present(record)}: more than 1 is better; 95% confidence interval',
            '+ better, - worse, = the same, ? not settled, ! too noisy to judge; '
            f'a difference below {verdict.THRESHOLD:.0%} does not count',
            f'{pods.AGAIN}: the default setting against itself, which should be 1',
            *(f'{name}: {LOADS[name].what}' for name in record['items'])]


def gain_text(row: Row) -> str:
    return f"{stats.ratio_text(row[PROVE])} times {row['gain']} in {row['load']}"


def price_text(row: Row) -> str:
    return f"{row['key']} {stats.ratio_text(row[PROVE if verdict.may_harm(row, PROVE) else PICK])}"


def trade_text(trade: dict[str, Any]) -> str:
    row, prices = trade['gain'], trade['prices']
    cost = f', but costs: {joined([price_text(price) for price in prices])}' if prices else ''
    return f"{named(row['setting'])} gives {gain_text(row)}{cost}."


def written(values: dict[str, Any]) -> str:
    return '; '.join(f'echo {value} >/sys/module/workqueue/parameters/{name}' for name, value in values.items())


def how(record: dict[str, Any], setting: str) -> str:
    """Return the commands that set what is advised, and that undo it."""
    now = {SCOPE: record['present']['scope'], SIZE: record['present']['shard_size']}
    scope, size = pods.parts(setting)
    wanted = {name: value for name, value in ((SIZE, size), (SCOPE, scope)) if value and value != now[name]}
    boot = ' '.join(f'workqueue.{name}={value}' for name, value in wanted.items())
    return f'To try it: {written(wanted)}. To undo it: {written({name: now[name] for name in wanted})}. ' \
           f'To keep it, boot with {boot}.'


def worth(saved_ns: float) -> str:
    """Say from which rate on the gain matters."""
    return f'A short item takes {saved_ns / 1000:.2f} us less, so a CPU that queues fewer than ' \
           f'{1e7 / saved_ns:,.0f} items/s saves less than 1% of its time.' if saved_ns > 0 else ''


def of_verdict(record: dict[str, Any]) -> list[str]:
    advice, now = record['advice'], present(record)
    kind = advice['verdict']
    confirm = f'These are small loads on one boot: confirm with your own, see {SCOPES_PAGE}.'
    if kind == verdict.ALIKE:
        return [f'Leave it at {now}. All scopes have the same pods on this machine, so there is nothing to choose.']
    if kind == verdict.SHORT:
        return [f"No advice: {len(record['turns'])} turns were made, and {2 * verdict.FEWEST} are needed. Give it more "
                '--minutes, or fewer --loads or --scopes.']
    if kind == verdict.NOISY:
        return [f"Leave it at {now}, since nothing can be said: in {advice['noisy']} of {advice['figures']} figures, "
                f'this setting may differ from itself by more than {verdict.TOO_NOISY:.0%}. Something else uses this '
                'machine: try again when it is quiet, or give it more --minutes.']
    if kind == verdict.CHOOSE:
        return [f"Choose {named(advice['setting'])} instead of {now}: "
                f"{joined([gain_text(row) for row in advice['gains']])}, and no figure that can be judged got worse.",
                worth(advice['saved_ns']), how(record, advice['setting']), confirm]
    if kind == verdict.TRADE:
        return [f'Leave the default at {now}: there is a trade, and no setting is better without a price. For a '
                'workqueue of which you know the load:', *map(trade_text, advice['trades']), confirm]
    return [f'Leave it at {now}: no other setting was shown to be better by {verdict.THRESHOLD:.0%} or more in any '
            'figure.']


def paragraph(record: dict[str, Any]) -> str:
    """Return the advice."""
    text = of_verdict(record)
    if record['present']['can_resize'] and record['settings'] and not record['parameters']['shard_sizes']:
        text.append('Other sizes of shards were not tried: --shard-sizes does that.')
    return ' '.join(filter(None, text))


def lines(record: dict[str, Any]) -> list[str]:
    """Return the whole report."""
    text = table(record) if record['rows'] else []
    text += [f'{name}: the same pods as {twin}, not measured' for name, twin in record['same'].items()]
    text += [f'{name}: this kernel does not have it' for name in record['lacking']]
    return [*text, '', *textwrap.wrap(record['advice']['text'], WIDTH, break_long_words=False,
                                      break_on_hyphens=False)]

# SPDX-License-Identifier: GPL-2.0
"""Write the tables of figures in README.md and the documents, so that nobody types a number.

usage: scripts/lab figures                          rewrite the tables and the picture
       scripts/lab figures --check                  say which of them are not what they would be
       scripts/lab figures add NAME FOLDER COMMAND  keep what run-bench.sh wrote to FOLDER as results/NAME.json

results/NAME.json has the medians of one run, the command that repeats it, and what was measured: the machine and the
sources of the workqueue in its commit. results/tables.toml says what each table shows. A table stands between two
marks, in README.md

    <!-- figures: TABLE -->
    <!-- end of figures -->

and in a document these lines, each followed by an empty one:

    .. figures: TABLE
    .. end of figures

If the code of the workqueue has changed since a run, its figures get a mark. results/rate.svg is the picture of README.
"""

import hashlib
import io
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from wqlab import files, tables
from wqlab.bench import machine, parse
from wqlab.measure import plot, stats
from wqlab.measure import record as records
from wqlab.measure.stats import short
from wqlab.paths import ROOT
from wqlab.steps import Failure

RESULTS = ROOT / 'results'
HEADER = 'include/linux/workqueue.h'
BLOCK = re.compile(r'^((?:<!-- |\.\. )figures: ([\w-]+)(?: -->)?\n)(.*?)^((?:<!-- |\.\. )end of figures(?: -->)?\n)',
                   re.M | re.S)
COMMENT = re.compile(r'(?:/\*.*?\*/|\s)+', re.S)
OLD = '†'
METRICS = ('items_per_s', 'p50_ns', 'p99_ns', 'start_p50_ns', 'start_p99_ns', 'start_p999_ns', 'makespan_p50_ns',
           'kworkers')
# What a table can show of a row: the head, the metric, and by what it is divided.
COLUMNS = {'rate': ('items/s, millions', 'items_per_s', 1e6), 'call': ('call p50, µs', 'p50_ns', 1e3),
           'start': ('start p50, µs', 'start_p50_ns', 1e3),
           'start99': ('start p99, µs', 'start_p99_ns', 1e3), 'start999': ('start p99.9, µs', 'start_p999_ns', 1e3),
           'makespan': ('makespan, µs', 'makespan_p50_ns', 1e3), 'kworkers': ('kworkers', 'kworkers', 1)}


def digest(texts):
    """Return a digest of code. Comments and white space are no code."""
    return hashlib.sha256(''.join(COMMENT.sub(' ', text).strip() for text in texts).encode()).hexdigest()


def sources(root=ROOT):
    """Return a digest of the workqueue's code."""
    paths = [*sorted((root / 'kernel/workqueue').glob('*.[ch]')), root / HEADER]
    return digest(path.read_text(encoding='utf-8') for path in paths)


def git(*argv):
    done = subprocess.run(['git', '-C', ROOT, *argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(done.stderr.strip())
    return done.stdout


def sources_of(commit):
    """Return the same digest of the sources of a commit."""
    names = git('ls-tree', '--name-only', commit, 'kernel/workqueue/').split()
    paths = [*sorted(name for name in names if name.endswith(('.c', '.h'))), HEADER]
    return digest(git('show', f'{commit}:{path}') for path in paths)


def kept(record, command):
    """Return what results/ keeps of a record of run-bench.sh."""
    if not record['complete']:
        raise Failure('the run is not complete: finish it by run-bench.sh --resume')
    if not record['git'] or record['git']['modified']:
        raise Failure('files differed from the commit when it ran: commit them, and run it again')
    rows = [{'scope': row['scope'], 'cpus': row.get('cpus'),
             **{variant: {metric: row[variant][metric]['median'] for metric in METRICS if row[variant].get(metric)}
                for variant in stats.ORDER if variant in row},
             **({'ratio': [row['ratio']['items_per_s'][key] for key in ('median', 'low', 'high')]}
                if (row.get('ratio') or {}).get('items_per_s') else {})}
            for row in record['summary']]
    where = machine.heading(record['parameters']) or [f"{record['engine']}, {record['topology']['cpus']} CPUs of "
                                                      f"{record['machine']['cpu']}, a virtual machine"]
    return {'command': command, 'where': where[0], 'date': record['started'][:10],
            'commit': record['git']['commit'][:7], 'linux': next(iter(record['kernels'].values()))['release'],
            'sources': sources_of(record['git']['commit']), 'rows': rows}


def load(name):
    path = RESULTS / f'{name}.json'
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        raise Failure(f'{path} does not exist: make it by scripts/lab figures add {name} FOLDER COMMAND') from None


def row_of(result, name, scope):
    for row in result['rows']:
        if row['scope'] == scope:
            return row
    raise Failure(f'results/{name}.json has no scope {scope}')


def pair(row, column):
    """Return 'ours / base' of a column, bold if ours is worse by more than rounding hides."""
    _, metric, unit = COLUMNS[column]
    found = [short(row[variant][metric] / unit) if row.get(variant, {}).get(metric) is not None else '-'
             for variant in ('cmwq', 'base')]
    text = ' / '.join(found)
    if '-' in found or found[0] == found[1] or column == 'kworkers':
        return text
    worse = row['cmwq'][metric] < row['base'][metric] if column == 'rate' else row['cmwq'][metric] > row['base'][metric]
    return f'**{text}**' if worse else text


def ratio(row):
    if 'ratio' not in row:
        return '-'
    mid, low, high = row['ratio']
    return short(mid) if low == high else f'{mid:.2f} ({low:.2f}-{high:.2f})'


def mark(result):
    return '' if result['sources'] == sources() else f" {OLD}{result['commit']}"


def claims(spec):
    """Return the head and the rows of a table with one figure a line, and its price."""
    cells = []
    for one in spec['row']:
        result = load(one['result'])
        row, (_, metric, unit) = row_of(result, one['result'], one['scope']), COLUMNS[one['column']]
        ours, base = (short(row[variant][metric] / unit) for variant in ('cmwq', 'base'))
        cells.append([one['what'], base, f'**{ours}**{mark(result)}', one['price'], f"`{result['command']}`"])
    return ['', 'base', 'ours', 'its price', 'reproduce'], cells


def scopes(spec):
    """Return the head and the rows of a table of whole runs: ours / base."""
    columns, cells = spec['columns'], []
    for name, what in spec['results'].items():
        result = load(name)
        shown = [row for row in result['rows'] if row['scope'] in spec.get('scopes', [row['scope']])]
        for i, row in enumerate(shown):
            lead = [f'{what}{mark(result)}' if not i else '\\'] + ([str(row['cpus'])] if spec.get('cpus') else [])
            scope = parse.FLOOR.get(row['scope'], f"``{row['scope']}``")
            cells.append([*lead, scope, *(pair(row, column) for column in columns), ratio(row)])
    lead = [spec['head']] + (['CPUs'] if spec.get('cpus') else [])
    return [*lead, 'scope', *(COLUMNS[column][0] for column in columns), 'ours/base'], cells


def notes(spec):
    """Return a line for each run: machine, kernel, date, command."""
    names = list(spec['results']) if 'results' in spec else []
    return [f"``{result['command']}``: {result['where']}, Linux {result['linux']}, commit {result['commit']}, "
            f"{result['date']}" for result in map(load, names)]


def block(spec, markdown):
    head, cells = (claims if 'row' in spec else scopes)(spec)
    if markdown:
        body = tables.lines(head, [[cell.replace('|', '\\|') for cell in row] for row in cells], [], 'github')
    else:
        body = tables.lines(head, cells, [], 'rst')
    listed = [f'- {line}' for line in notes(spec)]
    old = any(OLD in cell for row in cells for cell in row)
    said = [f'{OLD}: run at this commit, and not again since the code changed.'] if old else []
    return '\n'.join(['', *body, *([''] if listed else []), *listed, *([''] if said else []), *said, '', ''])


def specs():
    return tomllib.loads((RESULTS / 'tables.toml').read_text(encoding='utf-8'))


def letter():
    """Return the rates that the letter of the series has, in lines of a mail."""
    spec = specs()['letter']
    lines = ['  ' + ''.join(f'{scope:17}' for scope in spec['scopes']).rstrip()]
    for name, what in spec['results'].items():
        result = load(name)
        shown = (pair(row_of(result, name, scope), 'rate').strip('*') for scope in spec['scopes'])
        lines += [f'{what}:', f"  {re.sub(' --scopes .*', '', result['command'])}{mark(result)}",
                  '  ' + ''.join(f'{cell:17}' for cell in shown).rstrip()]
    return '\n'.join(lines)


def picture(spec):
    """Draw rates over numbers of CPUs, readable on white and on black. Return the file's text."""
    pyplot = plot.plotting()
    inked = ('text.color', 'axes.labelcolor', 'axes.edgecolor', 'xtick.color', 'ytick.color')
    pyplot.rcParams.update({**dict.fromkeys(inked, '#808890'), 'font.size': 13, 'savefig.transparent': True})
    figure, axes = pyplot.subplots(figsize=(7, 4), layout='constrained')
    ticks = set()
    for name, what, style in spec['curves']:
        rows = [row for row in load(name)['rows'] if row['scope'] == spec['scope']]
        for variant, colour in (('cmwq', '#3f8fe0'), ('base', '#e0863f')):
            found = [(row['cpus'], row[variant]['items_per_s'] / 1e6) for row in rows if variant in row]
            ticks |= {cpus for cpus, _ in found}
            axes.plot(*zip(*found, strict=True), style, color=colour, linewidth=2.5, markersize=8,
                      label=f'{stats.NAMES[variant]}, {what}')
    axes.set(xscale='log', yscale='log', xlabel='CPUs behind one cache', ylabel='items/s, millions')
    axes.set_xticks(sorted(ticks), [str(cpus) for cpus in sorted(ticks)])
    axes.set_yticks([1, 10, 100], ['1', '10', '100'])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    text = io.StringIO()
    figure.savefig(text, format='svg', metadata={'Date': None})
    return '\n'.join(line.rstrip() for line in text.getvalue().splitlines()) + '\n'


def rewritten(text, shown, name):
    def fill(found):
        if found[2] not in shown:
            raise Failure(f'{name}: results/tables.toml has no table {found[2]}')
        return found[1] + block(shown[found[2]], name.endswith('.md')) + found[4]
    return BLOCK.sub(fill, text)


def pages():
    return [ROOT / 'README.md', *sorted((ROOT / 'Documentation/core-api').glob('*.rst'))]


def stale():
    """Yield (page, new text) of each page whose tables are not what results/ says."""
    shown, drawn = specs(), RESULTS / 'rate.svg'
    new = {drawn: picture(shown['picture']),
           **{path: rewritten(path.read_text(encoding='utf-8'), shown, path.name) for path in pages()}}
    yield from ((path, text) for path, text in new.items()
                if not path.exists() or path.read_text(encoding='utf-8') != text)


def add(name, folder, command):
    if not re.fullmatch(r'[a-z0-9-]+', name):
        raise Failure(f'{name}: use small letters, digits and "-"')
    record = records.load(Path(folder), 'run-bench')
    RESULTS.mkdir(exist_ok=True)
    files.write(RESULTS / f'{name}.json', json.dumps(kept(record, command), indent=1, ensure_ascii=False) + '\n')


def main(argv):
    if argv == ['--help']:
        print(__doc__.partition('\n\n')[2].rstrip())
    elif argv[:1] == ['add'] and len(argv) == 4:
        add(*argv[1:])
    elif argv == ['--check']:
        wrong = [str(path.relative_to(ROOT)) for path, _ in stale()]
        if wrong:
            raise Failure(f"the tables of {', '.join(wrong)} are not what results/ says: run scripts/lab figures")
    elif not argv:
        for path, new in stale():
            files.write(path, new)
            print(f'{path.relative_to(ROOT)}: rewritten')
    else:
        print(__doc__.partition('\n\n')[2].rstrip(), file=sys.stderr)
        return 2
    return 0

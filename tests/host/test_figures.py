# SPDX-License-Identifier: GPL-2.0
"""The tables of README.md and the documents come from results/."""
import json

import pytest

from wqlab import figures
from wqlab.steps import Failure

TABLES = '''
[picture]
scope = "cpu"
curves = [["one", "measured", "o-"]]
[claims]
[[claims.row]]
what = "a gain"
result = "one"
scope = "cpu"
column = "rate"
price = "a price"
[scopes]
head = "Machine"
columns = ["rate", "start"]
[scopes.results]
one = "mine"
'''
PAGE = 'Before.\n\n<!-- figures: {} -->\n<!-- end of figures -->\n\nAfter.\n'


def stat(value):
    return {'median': value}


RECORD = {'complete': True, 'git': {'commit': '0123456789', 'modified': False}, 'engine': 'uml',
          'topology': {'cpus': 2}, 'machine': {'cpu': 'a CPU'}, 'started': '2026-11-30T08:00:00+00:00',
          'parameters': {'pairs': 5},
          'kernels': {'cmwq': {'release': '7.3.4'}},
          'summary': [{'scope': 'cpu', 'cpus': 2,
                       'cmwq': {'items_per_s': stat(2.5e6), 'start_p50_ns': stat(1800.0)},
                       'base': {'items_per_s': stat(1e6), 'start_p50_ns': stat(1700.0)},
                       'ratio': {'items_per_s': {'median': 2.5, 'low': 2.4, 'high': 2.6}}}]}


@pytest.fixture(name='place')
def a_place(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, 'RESULTS', tmp_path)
    monkeypatch.setattr(figures, 'ROOT', tmp_path)
    monkeypatch.setattr(figures, 'sources', lambda: 'these')
    monkeypatch.setattr(figures, 'sources_of', lambda commit: 'these')
    monkeypatch.setattr(figures, 'pages', lambda: [tmp_path / 'README.md'])
    (tmp_path / 'tables.toml').write_text(TABLES)
    (tmp_path / 'one.json').write_text(json.dumps(figures.kept(RECORD, 'scripts/run-bench.sh')))
    return tmp_path


def filled(place, table):
    (place / 'README.md').write_text(PAGE.format(table))
    assert figures.main([]) == 0
    assert figures.main(['--check']) == 0
    return (place / 'README.md').read_text()


def test_the_tables_of_this_checkout_are_those_of_its_results():
    assert figures.main(['--check']) == 0


def test_a_claim_stands_beside_its_price_and_its_command(place):
    text = filled(place, 'claims')
    assert text.startswith('Before.\n') and text.endswith('After.\n')
    row = next(line for line in text.splitlines() if 'a gain' in line)
    assert [cell.strip() for cell in row.strip('|').split('|')] == [
        'a gain', '1', '**2.5**', 'a price', '`scripts/run-bench.sh`']


def test_a_loss_is_bold_and_a_run_says_where_it_was(place):
    text = filled(place, 'scopes')
    assert '2.5 / 1 ' in text and '**1.8 / 1.7**' in text and '2.50 (2.40-2.60)' in text
    assert '- ``scripts/run-bench.sh``: uml, 2 CPUs of a CPU, a virtual machine, Linux 7.3.4, commit 0123456, ' \
        '2026-11-30\n' in text


def test_figures_of_an_older_kernel_have_a_mark(place, monkeypatch):
    monkeypatch.setattr(figures, 'sources', lambda: 'others')
    assert f'**2.5** {figures.OLD}0123456' in filled(place, 'claims')


def test_a_table_that_somebody_changed_is_found(place):
    text = filled(place, 'claims')
    (place / 'README.md').write_text(text.replace('**2.5**', '**3.5**'))
    with pytest.raises(Failure, match='README.md are not what results/ says'):
        figures.main(['--check'])


def test_only_code_counts_as_a_change(tmp_path):
    for path in ('kernel/workqueue/a.c', 'include/linux/workqueue.h'):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text('int a;\n')
    before = figures.sources(tmp_path)
    (tmp_path / 'kernel/workqueue/a.c').write_text('/* why */\nint  a;\n')
    assert figures.sources(tmp_path) == before
    (tmp_path / 'kernel/workqueue/a.c').write_text('int b;\n')
    assert figures.sources(tmp_path) != before


def test_a_commit_has_the_digest_of_its_files(tmp_path):
    for name in figures.git('ls-tree', '--name-only', 'HEAD', 'kernel/workqueue/', figures.HEADER).split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(figures.git('show', f'HEAD:{name}'))
    assert figures.sources_of('HEAD') == figures.sources(tmp_path)


@pytest.mark.parametrize('change, says', [({'complete': False}, 'not complete'),
                                          ({'git': None}, 'commit them'),
                                          ({'git': {'commit': '01', 'modified': True}}, 'commit them')])
def test_what_is_not_kept(change, says):
    with pytest.raises(Failure, match=says):
        figures.kept({**RECORD, **change}, '')


@pytest.mark.parametrize('name, table, says', [('two', 'claims', 'two.json does not exist'),
                                               ('one', 'none', 'tables.toml has no table none')])
def test_what_is_missing_is_named(place, name, table, says):
    (place / 'tables.toml').write_text(TABLES.replace('result = "one"', f'result = "{name}"'))
    (place / 'README.md').write_text(PAGE.format(table))
    with pytest.raises(Failure, match=says):
        figures.main([])

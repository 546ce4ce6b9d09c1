# SPDX-License-Identifier: GPL-2.0
"""Each machine, workload, base, parameter and scope stands in all its places; `scripts/lab new` begins a new one."""
import importlib.util
import re
import tomllib

import pytest

import copied
from test_documents import tree
from wqlab import new
from wqlab.kernels import kinds
from wqlab.paths import ROOT
from wqlab.scopes import SCOPES
from wqlab.simulated import machines
from wqlab.steps import Failure
from wqlab.workload import workloads

SOURCES = ''.join(path.read_text() for path in sorted((ROOT / 'kernel/workqueue').glob('*.c')))
KNOWN = {
    'machine': machines.known(), 'workload': list(workloads.ALL), 'base': kinds.releases(),
    'parameter': re.findall(r'^module_param\w*\((\w+)', SOURCES, re.M),
    'scope': {*SCOPES, *re.findall(r'^\t\[WQ_AFFN_\w+\]\s+= "(\w+)"', SOURCES, re.M)} - {'default'}}


@pytest.mark.parametrize('kind, name', [(kind, name) for kind, names in KNOWN.items() for name in sorted(names)])
def test_nothing_is_forgotten(kind, name):
    """The base documents its own parameters."""
    text = (tree() / 'Documentation/admin-guide/kernel-parameters.txt').read_text()
    of_base = 'patches/' if kind == 'parameter' and re.search(rf'\bworkqueue\.{name}\b', text) else None
    assert [line for line in new.remaining(kind, name) if not line.startswith(of_base or '?')] == []


@pytest.mark.parametrize('kind', new.PLACES)
def test_each_place_is_asked(kind):
    """Of a name that is nowhere, all remain. All places have the one that serves as the example."""
    example, places = new.PLACES[kind]
    assert example in KNOWN[kind] and len(new.remaining(kind, 'no-such' if kind != 'base' else '9.9')) == len(places)
    assert new.remaining(kind, example) == []


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of what `new` reads and writes."""
    copied.parts(tmp_path, 'patches', 'scripts/wqlab', 'kernel/workqueue', 'Documentation', 'tools', 'lib/cmwq',
                 'Makefile', 'tests/guests.py')
    monkeypatch.setattr(new, 'ROOT', tmp_path)
    return tmp_path


def test_machine(project, capsys):
    """What it begins with can be loaded. Filled in, and named in the document, nothing remains."""
    assert new.main(['machine', 'mine']) == 0
    assert capsys.readouterr().out.count(new.FILL) > 10
    path = project / 'scripts/wqlab/simulated/machines/mine.toml'
    assert machines.load(str(path)).topology == machines.load('vm8').topology
    path.write_text(path.read_text().replace(new.FILL, 'measured'))
    document = project / 'Documentation/core-api/workqueue-simulated.rst'
    document.write_text(f'{document.read_text()}\n``mine``  8\n')
    assert new.main(['machine', 'mine']) == 0 and capsys.readouterr().out == 'nothing remains\n'
    assert machines.load(str(path)).about == 'measured', 'it was written again'


def test_workload(project, capsys):
    assert new.main(['workload', 'my-load']) == 0
    said = capsys.readouterr().out
    assert 'scripts/wqlab/workload/workloads.py: as MODULES' in said and 'what runs, and which' in said
    spec = importlib.util.spec_from_file_location('myload', project / 'scripts/wqlab/workload/myload.py')
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.WORKLOAD.name == 'my-load' and made.WORKLOAD.names(2) == ['one']
    with made.WORKLOAD.opened('one', 2, None) as place:
        unit, figures = place.measure('one', 0.01)
        place.check_again()
    assert unit == 'calls/s' and figures['rate'] > 0


def test_base(project, capsys, monkeypatch):
    monkeypatch.setattr(kinds, 'ROOT', project)
    assert new.main(['base', '7.10']) == 0
    said = capsys.readouterr().out
    assert f'patches/7.10.toml: version = "{new.FILL}"' in said and 'Makefile: as' in said and 'headers' not in said
    assert kinds.releases()[0] == '7.10' and kinds.Kind.of(linux='7.10').tree.name == 'tree-7.10'
    assert set(kinds.tested('7.10')) == set(tomllib.loads((ROOT / f'patches/{kinds.LINUX}.toml').read_text()))
    assert (project / 'patches/7.10/0001-headers.patch').exists()


@pytest.mark.parametrize('kind, name', [('base', 'seven'), ('machine', '../x'), ('parameter', 'Mine')])
def test_no_name(kind, name):
    with pytest.raises(Failure, match='is no name of a'):
        new.main([kind, name])

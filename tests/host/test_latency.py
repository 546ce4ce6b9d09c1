# SPDX-License-Identifier: GPL-2.0
"""The host side of the workload latency: reports of wq_probe, and what runs beside what."""
import contextlib
import platform
import re
import threading
from types import SimpleNamespace

import pytest

from wqlab.paths import ROOT
from wqlab.steps import Failure
from wqlab.workload import cases, fio, latency, machine

SECONDS = 0.05
LINE = 'kind=highpri period_us=1000 queued=99 ran=99 late=1 p50_ns=6000 p99_ns=61000 p999_ns=750500 max_ns=2000000\n'


@pytest.fixture
def parameters(tmp_path, monkeypatch):
    """Return the folder of the parameters of wq_probe."""
    (tmp_path / 'run').write_text('')
    monkeypatch.setattr(latency, 'ITEMS', tmp_path / 'run')
    monkeypatch.setattr(machine, 'load', lambda name: False)
    return tmp_path


def test_figures_of_items():
    assert latency.of_items(LINE) == {'probes': 100, 'p50_us': 6, 'p99_us': 61, 'p999_us': 750.5, 'max_us': 2000}
    assert latency.of_items('queued=0 ran=0 late=0') == {'probes': 0}


def test_items_that_are_lost_fail_the_run():
    with pytest.raises(cases.Wrong, match='99 work items were queued, but 98 ran'):
        latency.of_items(LINE.replace('ran=99', 'ran=98'))


def test_items_are_started_and_stopped(parameters, monkeypatch):
    monkeypatch.setattr(latency, 'of_items', lambda text: {'probes': text})
    with latency.probing('unbound_highpri') as figures:
        assert (parameters / 'run').read_text() == 'unbound_highpri'
        assert (parameters / 'period_us').read_text() == '1000'
    assert figures == {'probes': 'stop'}


def test_items_are_stopped_if_the_load_fails(parameters):
    with pytest.raises(ZeroDivisionError), latency.probing('percpu'):
        raise ZeroDivisionError
    assert (parameters / 'run').read_text() == 'stop'


def test_kernel_without_the_probe(parameters, monkeypatch):
    (parameters / 'run').unlink()
    monkeypatch.setattr(latency, 'BUILD', parameters)
    with pytest.raises(cases.Lacking, match='no wq_probe: build it by `make module`'), latency.probing('percpu'):
        pass


def test_probe_that_was_built_for_this_kernel(parameters, monkeypatch):
    """It is loaded if the kernel has none."""
    (parameters / 'run').unlink()
    ours = parameters / f'module-{platform.release()}/wq_probe.ko'
    ours.parent.mkdir()
    ours.touch()
    monkeypatch.setattr(latency, 'BUILD', parameters)
    monkeypatch.setattr(machine, 'run', lambda *words: (parameters / 'run').write_text(' '.join(map(str, words))))
    latency.load_items()
    assert (parameters / 'run').read_text() == f'insmod {ours}'


def test_kinds_are_those_of_the_kernel():
    text = (ROOT / 'lib/cmwq/wq_probe.c').read_text()
    assert re.findall(r'"(\w+)"', re.search(r'probe_kinds\[\] = \{(.*?)\};', text, re.S)[1]) == \
        list(latency.PROBES.values())


# Beside each other

@pytest.fixture
def beside(monkeypatch):
    """Return a function that measures a load beside a probe, with what the probe finds. The load says when it ran."""
    said, ended = [], threading.Event()

    def measured(found, error=None):
        def run(job, **more):
            said.append('run' if more else 'warm')
            if more and error:
                raise error
            if more:
                ended.wait(10)
                said.append('end')
            return {'job_runtime': 10}

        @contextlib.contextmanager
        def probing(kind):
            said.append(kind)
            figures = {}
            yield figures
            figures.update(found)
            said.append('probed')
            ended.set()
        monkeypatch.setattr(fio, 'run', run)
        monkeypatch.setattr(latency, 'probing', probing)
        place = SimpleNamespace(check_again=lambda: None)
        load = latency.Loaded(place, fio.Job({}), 'things/s', lambda report: 7.0)
        return said, *load.measure('dm-crypt/item-highpri', SECONDS)
    return measured


def test_probe_runs_within_the_load(beside):
    said, unit, figures = beside({'probes': 3, 'p50_us': 1})
    assert said == ['warm', 'run', 'highpri', 'probed', 'end'] and unit == 'things/s'
    assert figures['rate'] == 7 and figures['p50_us'] == 1 and 0 <= figures['cpu_percent'] <= 100


def test_wrong_data_of_the_load_is_not_hidden(beside):
    """The load ends at once, so the probe has measured nothing."""
    with pytest.raises(cases.Wrong, match='bad header'):
        beside({'probes': 0}, cases.Wrong('fio: verify: bad header'))


def test_probe_that_came_too_late(beside):
    with pytest.raises(Failure, match='choose more --seconds'):
        beside({'probes': 0})

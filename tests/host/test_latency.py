# SPDX-License-Identifier: GPL-2.0
"""The host side of the workload latency: reports of cyclictest, wq_probe and stress-ng, and what runs beside what."""
import json
import platform
import re
import signal
import stat
import sys
import threading
import time

import pytest

from wqlab.paths import ROOT
from wqlab.steps import Failure
from wqlab.workload import cases, latency, machine, probes, stress

DATA = ROOT / 'tests/data/workload'
SECONDS = 0.05


def program(folder, name, text):
    """Make a program of this name, which is found before all others."""
    path = folder / name
    path.write_text(f'#!/bin/sh\n{text}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def bin(tmp_path, monkeypatch):
    folder = tmp_path / 'bin'
    folder.mkdir()
    monkeypatch.setattr(machine, 'environment', lambda: {'PATH': f'{folder}:/usr/bin:/bin'})
    return folder


# Quantiles

def test_quantiles_are_reached_by_the_samples():
    counts = {10: 500, 20: 490, 30: 9, 40: 1}
    assert probes.quantiles(counts, 1000, 40) == {
        'probes': 1000, 'p50_us': 10, 'p99_us': 20, 'p999_us': 30, 'max_us': 40}
    assert probes.quantiles({10: 499, 20: 501}, 1000, 20)['p50_us'] == 20


def test_samples_beyond_the_histogram_count():
    """Nothing says how long they were, except the largest. A quantile among them must not look short."""
    found = probes.quantiles({10: 980}, 1000, 900_000)
    assert found['p50_us'] == 10 and found['p99_us'] == found['p999_us'] == found['max_us'] == 900_000


def test_no_samples_no_figures():
    assert probes.quantiles({}, 0, 0) == {'probes': 0}
    assert probes.of_items('kind=percpu queued=0 ran=0 late=0 p50_ns=0 p99_ns=0 p999_ns=0 max_ns=0') == {'probes': 0}


# cyclictest

def recorded_cyclictest():
    return json.loads((DATA / 'cyclictest.json').read_text())


def test_figures_of_a_recorded_cyclictest():
    report = recorded_cyclictest()
    figures = probes.of_cyclictest(report)
    threads = report['thread'].values()
    assert len(threads) == 2 and figures['probes'] >= sum(thread['cycles'] for thread in threads) > 100
    assert figures['max_us'] == max(thread['max'] for thread in threads)
    assert 0 < figures['p50_us'] <= figures['p99_us'] <= figures['p999_us'] <= figures['max_us']


def test_all_threads_count():
    report = recorded_cyclictest()
    del report['thread']['1']
    assert probes.of_cyclictest(report)['probes'] < probes.of_cyclictest(recorded_cyclictest())['probes']


def test_times_that_a_task_has_missed_count():
    """It woke 2.5 ms late, so it missed two more times, and once so late that cyclictest kept no number."""
    thread = {'histogram': {'10': 6, '2500': 1}, 'cycles': 8, 'max': 90_000}
    assert probes.of_cyclictest({'thread': {'0': thread}}) == {
        'probes': 10, 'p50_us': 10, 'p99_us': 90_000, 'p999_us': 90_000, 'max_us': 90_000}
    thread['cycles'] = 7
    assert probes.of_cyclictest({'thread': {'0': thread}})['p99_us'] == 2500


# It takes a while to start. Until then, SIGTERM ends it without a report.
CYCLICTEST = """
import pathlib, shutil, signal, sys, threading, time
data, folder, *words = sys.argv[1:]
report, = (word.partition("=")[2] for word in words if word.startswith("--json="))
def end(*_):
    pathlib.Path(folder, "words").write_text(" ".join(words))
    shutil.copy(data + "/cyclictest.json", report)
    sys.exit()
time.sleep(0.3)
signal.signal(signal.SIGTERM, end)
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
"""


def test_thread_that_has_not_woken(bin, tmp_path):
    """As cyclictest reports it after a short run: without an average."""
    (tmp_path / 'cyclictest.json').write_text(
        '{"thread": {"0": {"histogram": {}, "cycles": 0, "min": 1000000, "max": 0, "avg": -nan}}}')
    program(bin, 'cyclictest', f"""exec {sys.executable} -c '{CYCLICTEST}' {tmp_path} {tmp_path} "$@" """)
    with probes.PROBES['task-other']() as figures:
        pass
    assert figures == {'probes': 0}


def test_cyclictest_is_ended_and_read(bin, tmp_path):
    program(bin, 'cyclictest', f"""exec {sys.executable} -c '{CYCLICTEST}' {DATA} {tmp_path} "$@" """)
    with probes.PROBES['task-other']() as figures:
        assert not figures
    assert figures == probes.of_cyclictest(recorded_cyclictest())
    words = (tmp_path / 'words').read_text()
    assert '--policy=other' in words and '--priority' not in words


@pytest.mark.parametrize('text, why', [
    ('echo "Unable to change scheduling policy!" >&2; exit 1', 'status 1: Unable to change scheduling policy'),
    ('exec sleep 60', f'status {-signal.SIGTERM}: no message'),
    ('exit 0', 'status 0: no message'),
])
def test_cyclictest_that_fails(bin, monkeypatch, text, why):
    monkeypatch.setattr(probes, 'STARTING_S', 0.1)
    program(bin, 'cyclictest', text)
    with pytest.raises(Failure, match=f'cyclictest failed with {why}'), probes.PROBES['task-fifo']():
        time.sleep(0.2)


def test_cyclictest_that_does_not_end(bin, monkeypatch):
    monkeypatch.setattr(probes, 'STARTING_S', 0.1)
    monkeypatch.setattr(probes, 'ENDING_S', 0.3)
    program(bin, 'cyclictest', 'trap "" TERM; exec sleep 60')
    with pytest.raises(Failure, match='cyclictest did not end within 0.3 s'), probes.PROBES['task-fifo']():
        time.sleep(0.2)


def test_cyclictest_that_is_not_installed(bin, monkeypatch):
    monkeypatch.setattr(machine, 'environment', lambda: {'PATH': '/nowhere'})
    with pytest.raises(Failure, match='cyclictest is not installed: run CONFIG=workload scripts/deps.sh'), \
            probes.PROBES['task-fifo']():
        time.sleep(0.2)


# Work items

LINE = 'kind=highpri period_us=1000 queued=99 ran=99 late=1 p50_ns=6000 p99_ns=61000 p999_ns=750500 max_ns=2000000\n'


@pytest.fixture
def parameters(tmp_path, monkeypatch):
    """Return the folder of the parameters of wq_probe."""
    (tmp_path / 'run').write_text('')
    monkeypatch.setattr(probes, 'ITEMS', tmp_path / 'run')
    monkeypatch.setattr(machine, 'load', lambda name: False)
    return tmp_path


def test_figures_of_items():
    assert probes.of_items(LINE) == {'probes': 100, 'p50_us': 6, 'p99_us': 61, 'p999_us': 750.5, 'max_us': 2000}


def test_items_that_are_lost_fail_the_run():
    with pytest.raises(cases.Wrong, match='99 work items were queued, but 98 ran'):
        probes.of_items(LINE.replace('ran=99', 'ran=98'))


def test_items_are_started_and_stopped(parameters, monkeypatch):
    monkeypatch.setattr(probes, 'of_items', lambda text: {'probes': text})
    with probes.PROBES['item-unbound-highpri']() as figures:
        assert (parameters / 'run').read_text() == 'unbound_highpri'
        assert (parameters / 'period_us').read_text() == '1000'
    assert figures == {'probes': 'stop'}


def test_items_are_stopped_if_the_load_fails(parameters):
    with pytest.raises(ZeroDivisionError), probes.PROBES['item-percpu']():
        raise ZeroDivisionError
    assert (parameters / 'run').read_text() == 'stop'


def test_kernel_without_the_probe(parameters, monkeypatch):
    (parameters / 'run').unlink()
    monkeypatch.setattr(probes, 'BUILD', parameters)
    with pytest.raises(cases.Lacking, match='no wq_probe: build it by `make module`'), probes.PROBES['item-percpu']():
        pass


def test_probe_that_was_built_for_this_kernel(parameters, monkeypatch):
    """It is loaded if the kernel has none."""
    (parameters / 'run').unlink()
    ours = parameters / f'module-{platform.release()}/wq_probe.ko'
    ours.parent.mkdir()
    ours.touch()
    monkeypatch.setattr(probes, 'BUILD', parameters)
    monkeypatch.setattr(machine, 'run', lambda *words: (parameters / 'run').write_text(' '.join(map(str, words))))
    probes.load_items()
    assert (parameters / 'run').read_text() == f'insmod {ours}'


def test_kinds_are_those_of_the_kernel():
    text = (ROOT / 'lib/cmwq/wq_probe.c').read_text()
    kinds = re.findall(r'"(\w+)"', re.search(r'probe_kinds\[\] = \{(.*?)\};', text, re.S)[1])
    assert [f'item-{kind.replace("_", "-")}' for kind in kinds] == [name for name in probes.PROBES if 'item' in name]


# stress-ng

def test_rate_of_a_recorded_run():
    text = (DATA / 'stress-ng.yaml').read_text()
    rates = [float(line.split(':')[1]) for line in text.splitlines() if 'bogo-ops-per-second-real-time' in line]
    assert len(rates) == 3 and stress.rate(text) == pytest.approx(sum(rates)) and all(rates)


def test_stressors_get_whole_seconds(bin, tmp_path):
    program(bin, 'stress-ng', f'''echo "$@" >{tmp_path}/words
for word; do case $word in --yaml=*) cp {DATA}/stress-ng.yaml "${{word#--yaml=}}" ;; esac; done''')
    assert stress.run('vm', 2, 1.5, tmp_path) == stress.rate((DATA / 'stress-ng.yaml').read_text())
    words = (tmp_path / 'words').read_text().split()
    assert {'--vm=2', '--mmap=2', '--mremap=2', '--timeout=2s', '--verify', f'--temp-path={tmp_path}'} <= set(words)


@pytest.mark.parametrize('error, said', [
    (cases.Wrong, 'stress-ng: fail:  [12] vm: detected 1 bit errors'),
    (Failure, 'stress-ng: error: [12] vm: cannot fork'),
])
def test_stressors_that_fail(bin, tmp_path, error, said):
    program(bin, 'stress-ng', f'echo "{said}" >&2; exit 2')
    with pytest.raises(error, match=re.escape(said.split('] ')[1])):
        stress.run('vm', 2, 1, tmp_path)


# Beside each other

class Load:
    """A load that says when it ran."""
    unit = 'things/s'

    def __init__(self, error=None):
        self.error, self.said, self.ended = error, [], threading.Event()

    def warm_up(self):
        self.said.append('warm')

    def run(self, seconds):
        self.said.append('run')
        if self.error:
            raise self.error
        self.ended.wait(10)
        self.said.append('end')
        return 7.0


@pytest.fixture
def probe(monkeypatch):
    """Make the probe end the load, as if the time were over, when it has ended itself."""
    def of(load, found):
        @latency.contextlib.contextmanager
        def measuring():
            load.said.append('probe')
            figures = {}
            yield figures
            figures.update(found)
            load.said.append('probed')
            load.ended.set()
        monkeypatch.setitem(probes.PROBES, 'task-fifo', measuring)
    return of


def test_probe_runs_within_the_load(probe):
    load = Load()
    probe(load, {'probes': 3, 'p50_us': 1})
    unit, figures = latency.Loaded(load, lambda: None).measure('dm-crypt/task-fifo', SECONDS)
    assert load.said == ['warm', 'run', 'probe', 'probed', 'end'] and unit == 'things/s'
    assert figures['rate'] == 7 and figures['p50_us'] == 1 and 0 <= figures['cpu_percent'] <= 100


def test_wrong_data_of_the_load_is_not_hidden(probe):
    """The load ends at once, so the probe has measured nothing."""
    load = Load(cases.Wrong('fio: verify: bad header'))
    probe(load, {'probes': 0})
    with pytest.raises(cases.Wrong, match='bad header'):
        latency.Loaded(load, lambda: None).measure('dm-crypt/task-fifo', SECONDS)


def test_probe_that_came_too_late(probe):
    load = Load()
    probe(load, {'probes': 0})
    with pytest.raises(Failure, match='choose more --seconds'):
        latency.Loaded(load, lambda: None).measure('dm-crypt/task-fifo', SECONDS)


def test_idle_machine(probe):
    probe(Load(), {'probes': 3, 'p50_us': 1})
    unit, figures = latency.Idle().measure('idle/task-fifo', SECONDS)
    assert unit == 'probes/s' and figures['rate'] == pytest.approx(3 / SECONDS)


def test_data_of_a_load_is_checked_again():
    checked = []
    latency.Loaded(Load(), lambda: checked.append(1)).check_again()
    assert checked == [1]

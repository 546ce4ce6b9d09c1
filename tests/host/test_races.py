# SPDX-License-Identifier: GPL-2.0
"""Races of the base kernel's are told from ours."""
import subprocess

import pytest

from wqlab.logs import races

OWN = {'wq_queue', 'worker_thread', 'token_fn'}


@pytest.mark.parametrize('line, expected', [
    ('BUG: KCSAN: data-race in lapic_cal_handler / setup_boot_APIC_clock', True),
    ('[   19.593356] BUG: KCSAN: data-race in hrtimer_wakeup / schedule_hrtimeout_range_clock', True),
    ('BUG: KCSAN: data-race in hrtimer_wakeup', True),
    ('BUG: KCSAN: data-race in hrtimer_wakeup / wq_queue', False),
    ('BUG: KCSAN: data-race in wq_queue.constprop.0 / hrtimer_wakeup', False),
    ('BUG: KCSAN: data-race in hrtimer_wakeup / token_fn [wqtorture]', False),
    ('BUG: KCSAN: data-race in worker_thread', False),
    ('BUG: KCSAN: assert: race in worker_thread / do_exit', False),
    ('BUG: KASAN: slab-use-after-free in hrtimer_wakeup', False),
    ('WARNING: in hrtimer_wakeup', False),
])
def test_whose(monkeypatch, line, expected):
    monkeypatch.setattr(races, 'own_functions', lambda folder: OWN)
    assert races.elsewhere(line, 'a folder') is expected


def test_without_objects_all_are_ours(tmp_path):
    assert races.own_functions(tmp_path) == set()
    assert not races.elsewhere('BUG: KCSAN: data-race in a / b', tmp_path)


def test_functions_come_from_the_objects(tmp_path):
    for name, text in (('kernel/workqueue/a', 'static void __attribute__((used)) mine(void) {} int no_function;'),
                       ('lib/cmwq/b', 'void ours(void) {}'), ('kernel/time/c', 'void theirs(void) {}')):
        source = tmp_path / f'{name}.c'
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        subprocess.run(['gcc', '-c', '-o', source.with_suffix('.o'), source], check=True)
    assert races.own_functions(tmp_path) == {'mine', 'ours'}

# SPDX-License-Identifier: GPL-2.0
"""The workload endure in a guest: ext4 on dm-crypt loses nothing while all settings change and CPUs come and go."""
import re

import pytest

import guests
from test_workload_runs import QEMU, UML, boot
from wqlab.workload import endure

pytestmark = pytest.mark.tier('all')


def check_good(entry, lacking):
    """Nothing was lost, and all kinds of changes were made but those that this kernel lacks."""
    assert not entry['wrong'] and not entry['trouble'] and not entry['skipped']
    run, = entry['runs']
    figures = run['figures']
    assert run['name'] == endure.NAME and figures['rate'] > 0 and figures['rounds'] >= 1
    assert figures['verified_mib'] == endure.ALL_MIB * (2 * figures['rounds'] - 1)
    assert figures['changes'] == sum(figures[kind] for kind in endure.KINDS)
    fixed = {*lacking, *(['shard_size'] if guests.VARIANT == 'base' else [])}
    assert {kind for kind in endure.KINDS if not figures[kind]} == fixed


@UML
def test_nothing_is_lost(tmp_path):
    check_good(boot('uml', 'endure', [endure.NAME], tmp_path), ['hotplug'])


@QEMU
def test_nothing_is_lost_while_cpus_come_and_go(tmp_path):
    check_good(boot('qemu', 'endure', [endure.NAME], tmp_path, '--cpus', '4'), [])


@UML
@pytest.mark.parametrize('how', ['corrupt', 'stale'])
def test_loss_is_noticed(how, tmp_path):
    entry = boot('uml', 'endure', [endure.NAME], tmp_path, '--spoil', how)
    found, = entry['wrong']
    assert found['name'] == endure.NAME
    assert re.search('verify|Input/output error|ext4 is damaged|cannot be (read|used)|other data', found['why'])

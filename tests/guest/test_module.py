# SPDX-License-Identifier: GPL-2.0
"""`make module`: the modules that it builds against a kernel's build folder are loaded by that kernel, and work."""
import pytest

import guests
from calls import call
from guests import guest
from wqlab.bench import parse
from wqlab.kernels import module
from wqlab.kernels.build import release_of
from wqlab.logs import check
from wqlab.paths import BUILD
from wqlab.torture import run as torture

pytestmark = guests.needs('uml')
BUILD_S = 600
ITEMS, CPUS = 500, 2
# The kernel's own tree has modules of the same names, which modprobe would take. The benchmark measures when it is
# loaded, and then refuses to stay.
RUN = f'''
insmod /modules/test_workqueue.ko items={ITEMS} warmup=0 scopes=cpu,system 2>/dev/null
run=/sys/module/wq_probe/parameters/run
insmod /modules/wq_probe.ko && echo unbound >$run && sleep 0.3 && echo stop >$run && cat $run || exit 2
rmmod wq_probe || exit 2
'''
TORTURE = torture.IN_GUEST.replace('modprobe wqtorture PARAMETERS',
                                   'modprobe torture && insmod /modules/wqtorture.ko duration=5 seed=7 onoff_ms=0')


@pytest.fixture(scope='module')
def built():
    """Build the modules as a user does, once even if that fails. Return their paths."""
    kernel = guests.kernel('uml')
    done = call('make', '--no-print-directory', 'module', f'KDIR={kernel}', timeout=BUILD_S)
    assert done.returncode == 0, done.stderr
    place = BUILD / f'module-{release_of(kernel)}'
    return [place / f'{name}.ko' for name in module.modules_for(module.version_of(kernel))]


@pytest.fixture(scope='module')
def booted(built):
    result = guest.run(guests.kernel('uml'), RUN + TORTURE, engine='uml', cpus=CPUS, mem='512M', timeout=180,
                       files=[f'{path}:/modules/{path.name}' for path in built])
    assert result.rc == 0, f'guest status {result.rc}\n{result.log[-3000:]}'
    return result


def test_benchmark_reports(booted):
    report = parse.parse_output(booted.kernel)
    assert report['status'] == 'ok' and report['violations'] == 0
    assert [run['scope'] for run in report['runs']] == ['cpu', 'system']
    assert all(run['items'] == ITEMS * CPUS for run in report['runs'])


def test_probe_counts_each_item(booted):
    line, = (line for line in booted.output.splitlines() if line.startswith('kind='))
    found = parse.parse_fields(line)
    assert found['kind'] == 'unbound' and found['queued'] == found['ran'] != '0'


def test_torture_survives(booted):
    verdict = torture.VERDICT.search(booted.kernel)
    assert verdict and verdict[2] == 'SUCCESS', booted.kernel[-3000:]
    assert int(parse.parse_fields(verdict[1].partition('SUCCESS: ')[2])['runs']) > 1000


def test_nothing_is_wrong_in_the_log(booted):
    assert not check.bad_lines(booted.kernel)

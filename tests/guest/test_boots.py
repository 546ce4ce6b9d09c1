# SPDX-License-Identifier: GPL-2.0
"""Boot the kernels of guests.BOOTS: each script and suite in them is a case."""
import re

import pytest

import guests
from wqlab import tap
from wqlab.guest import tsc

ALIVE = [boot for boot in guests.BOOTS if not boot.dies]
PIECES = [guests.case(boot, piece) for boot in ALIVE for piece in boot.pieces()]


def named(boots):
    return [guests.case(boot) for boot in boots]


def points_of(boot, piece):
    """Return the test points of a piece. If it did not end well, add a point that failed."""
    if boot.lacks(piece):
        return [tap.Point(piece, True, 'the base kernel lacks what it tests', skipped=True)]
    text, status = guests.tap_of(guests.result(boot), piece)
    points = tap.parse(text, boot.may_skip)
    if status is None:
        points.append(tap.Point('came to its end', False, guests.result(boot).kernel[-2000:]))
    elif status and all(point.ok for point in points):
        points.append(tap.Point('exit status', False, f'it is {status}'))
    return points


@pytest.mark.parametrize('boot, piece', PIECES)
def test_piece(boot, piece, report_points):
    report_points(points_of(boot, piece))


def check_end(boot):
    """The guest brought up its CPUs and ended well."""
    outcome = guests.result(boot)
    assert outcome.rc == 0, f'the guest ended with {outcome.rc}:\n{outcome.log[-3000:]}'
    last = (boot.online or boot.cpus) - 1
    assert f'@@ cpus {f"0-{last}" if last else "0"}\n' in outcome.output


TSC = re.compile(r'tsc: (?:Detected|Refined TSC clocksource calibration:) ([0-9.]+) MHz')
# Linux measures the rate itself after a second, but goes on with the one that it was told if they differ by 1%.
TSC_DIFFERS = 0.0002


def check_clock(boot):
    """A guest that QEMU emulates is told the rate of its clock, uses it, and finds that it is right."""
    kernel = guests.result(boot).kernel
    told = re.search(r'Kernel command line: .*\btsc_early_khz=(\d+)', kernel)
    assert bool(told) == ('Hypervisor detected: KVM' not in kernel and tsc.rate_khz() is not None)
    if told:
        used, found = map(float, TSC.findall(kernel)[-2:])
        assert used == int(told[1]) / 1000 and found == pytest.approx(used, rel=TSC_DIFFERS)


def check_log(boot):
    guests.check_log(guests.result(boot).kernel)


@pytest.mark.parametrize('boot', named(ALIVE))
def test_came_up_and_went_down(boot):
    check_end(boot)
    assert f'-{boot.variant}' in re.search(r'Linux version (\S+)', guests.result(boot).kernel)[1]


@pytest.mark.parametrize('boot', named(boot for boot in ALIVE if boot.name.endswith('qemu-numa')))
def test_clock(boot):
    check_clock(boot)


@pytest.mark.parametrize('boot', named(guests.BOOTS))
def test_kernel_log(boot):
    check_log(boot)


@pytest.mark.parametrize('boot', named(b for b in guests.BOOTS if b.dies))
def test_panics_on_stall(boot):
    outcome = guests.result(boot)
    assert outcome.rc == guests.guest.DIED, outcome.log[-3000:]
    assert re.search(r'BUG: workqueue lockup - pool cpus=0 ', outcome.kernel)
    assert re.search(r'Kernel panic - not syncing: workqueue: ', outcome.kernel)

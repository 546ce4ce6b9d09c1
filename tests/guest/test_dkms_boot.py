# SPDX-License-Identifier: GPL-2.0
"""The DKMS package as a user has it: apt installs it on Debian, and its modules run on Debian's own kernel."""
import dataclasses
import re
from pathlib import Path

import pytest

import debian_root
import guests
from builds import OLD
from guests import guest
from once import once
from wqlab.bench import parse
from wqlab.dkms import package
from wqlab.kernels import kinds
from wqlab.logs import check
from wqlab.release import release
from wqlab.scopes import SCOPES, SHARD
from wqlab.torture import run as torture

pytestmark = pytest.mark.tier('all')
MODULES = ('test_workqueue', 'wq_probe', 'wqtorture')


@dataclasses.dataclass(frozen=True)
class Debian:
    """A kernel of Debian 13."""
    linux: str
    suite: str
    kernel_first: bool      # or the package: then DKMS builds when the kernel's headers are installed
    scopes: frozenset       # that it has


KERNELS = (Debian(OLD, 'trixie', True, frozenset(SCOPES) - {SHARD}),
           Debian(kinds.LINUX, 'trixie-backports', False, frozenset(SCOPES)))
each_debian = pytest.mark.parametrize('debian', KERNELS, ids=lambda debian: debian.linux)

KERNEL_FIRST = r'''
apt-get -y install -t SUITE linux-image-amd64 linux-headers-amd64 dkms
apt-get -y install ./*.deb
'''
PACKAGE_FIRST = r'''
apt-get -y install ./*.deb
apt-get -y install -t SUITE linux-image-amd64 linux-headers-amd64
'''
# Keep what modprobe needs, and remove the package.
KEEP = r'''
release=$(basename /lib/modules/*)
echo "$release" >out/release
dkms status >out/status
cat /var/lib/dkms/workqueue-test/*/"$release"/*/log/make.log >out/make.log
cp /boot/vmlinuz-"$release" out/vmlinuz
mkdir out/modules
cp -r /lib/modules/"$release"/updates /lib/modules/"$release"/modules.* out/modules
apt-get -y purge workqueue-test-dkms
find /lib/modules/ /usr/src /var/lib/dkms /usr/share/doc \
	-name '*workqueue[-_]test*' -o -name 'test_workqueue*' -o -name 'wq_probe*' -o -name 'wqtorture*' >out/left
'''
# In the guest. The benchmark measures when it is loaded, and then refuses to stay.
RUN = r'''
for module in test_workqueue wq_probe wqtorture; do
	echo "file $(modinfo -n $module) $(modinfo -F version $module)"
done
run=/sys/module/wq_probe/parameters/run
modprobe wq_probe && echo unbound >$run && sleep 1 && echo stop >$run && cat $run && rmmod wq_probe || exit 1
while read -r mode wq; do
	echo "@@ begin $mode $wq" >/dev/kmsg
	modprobe test_workqueue mode=$mode wq=$wq items=500 repeats=1 burn_us=10 2>&1
done <<END
RUNS
END
echo "@@ begin torture" >/dev/kmsg
'''
# What the benchmark measures
RUNS = (('latency', 'unbound'), ('latency', 'percpu'), ('latency', 'bh'), ('mixed', 'unbound'), ('mixed', 'percpu'))
# The base kernel lets items out of their pod while CPUs come and go.
TORTURE = 'duration=15 seed=7 onoff_ms=0'


@dataclasses.dataclass
class Installed:
    """What apt and DKMS have made in a root of Debian."""
    folder: Path

    def text(self, name):
        return (self.folder / name).read_text()

    @property
    def release(self):
        return self.text('release').strip()


@once
def installed(debian):
    script = (KERNEL_FIRST if debian.kernel_first else PACKAGE_FIRST).replace('SUITE', debian.suite) + KEEP
    more = {debian.suite} - {debian_root.SUITE}
    return Installed(debian_root.run(script, f'dkms-{debian.linux}', [package.write()], more=more))


@once
def booted(debian):
    """Boot the kernel and load each module."""
    made = installed(debian)
    guests.say(f'dkms-{debian.linux}: booting {made.release}')
    command = RUN.replace('RUNS', '\n'.join(map(' '.join, RUNS))) + torture.IN_GUEST.replace('PARAMETERS', TORTURE)
    result = guest.run(made.folder / 'vmlinuz', command, engine='qemu', cpus=2, mem='1G', timeout=900,
                       files=[f'{made.folder}/modules:/lib/modules/{made.release}'],
                       log=guests.RESULTS / f'dkms-{debian.linux}-guest.log')
    assert result.rc == 0, f'guest status {result.rc}\n{result.log[-3000:]}'
    return result


def log_of(debian, name):
    """Return the kernel's log after the mark, up to the next."""
    found = re.search(rf'@@ begin {name}\n(.*?)(?=@@ begin |\Z)', booted(debian).kernel, re.S)
    assert found, f'no {name}'
    return found[1]


@each_debian
def test_apt_installs_and_removes_it(debian):
    made, version = installed(debian), package.write().name.split('_')[1]
    assert made.release.startswith(f'{debian.linux}.')
    assert made.text('status') == f'workqueue-test/{version}, {made.release}, x86_64: installed\n'
    there = {path.name.partition('.ko')[0] for path in (made.folder / 'modules/updates/dkms').iterdir()}
    assert there == set(MODULES)
    assert made.text('left') == ''


@each_debian
def test_it_builds_without_a_warning(debian):
    log = installed(debian).text('make.log')
    assert all(f'{module}.ko' in log for module in MODULES)
    assert not re.findall(r'^.*\b(?:warning|error)\b.*$', log, re.M | re.I), log


@each_debian
def test_its_modules_are_loaded(debian):
    output = booted(debian).output
    found = re.findall(r'^file /lib/modules/\S+/updates/dkms/(\w+)\.ko\S* (\S+)$', output, re.M)
    assert sorted(found) == sorted((module, release()) for module in MODULES)
    assert not check.bad_lines(booted(debian).kernel)
    line, = re.findall(r'^kind=unbound .*', output, re.M)
    found = parse.parse_fields(line)
    assert found['queued'] == found['ran'] != '0'


@each_debian
@pytest.mark.parametrize('mode, wq', RUNS)
def test_benchmark_reports(debian, mode, wq):
    report = parse.parse_output(log_of(debian, f'{mode} {wq}'))
    scopes = [run['scope'] for run in report['runs']]
    assert report['status'] == 'ok' and report['violations'] == 0
    assert sorted(scopes) == sorted(debian.scopes if wq == 'unbound' else ['default'])
    assert all(run['items'] == 1000 for run in report['runs'])


@each_debian
def test_torture_survives(debian):
    verdict = torture.VERDICT.search(log_of(debian, 'torture'))
    assert verdict and verdict[2] == 'SUCCESS', booted(debian).kernel[-3000:]
    assert int(parse.parse_fields(verdict[1].partition('SUCCESS: ')[2])['runs']) > 1000

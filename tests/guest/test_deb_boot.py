# SPDX-License-Identifier: GPL-2.0
"""
A packaged kernel as a user has it: apt installs it on Debian, systemd boots it to a login, and it is used there.

The kernel has the configuration of Debian's for clouds, but few modules. Each case types commands at one login.
"""
import contextlib
import re
import socket
import statistics
import subprocess

import pexpect
import pytest
from pexpect import fdpexpect

import debian_root
import guests
import kernlog
from once import once
from wqlab import procs
from wqlab.bench import parse
from wqlab.guest import topology
from wqlab.guest.engines import qemu
from wqlab.kernels import deb, debian
from wqlab.kernels.build import release_of
from wqlab.kernels.kinds import Kind
from wqlab.logs import check
from wqlab.torture import run as torture

pytestmark = pytest.mark.tier('all')
CONFIGS = guests.ROOT / 'configs'
# If user mode executes some privileged instructions, an emulated CPU reports a fault of the kernel: leave them out.
TCG_FAILS = '-x opcode'
# KFENCE is off in Debian's configuration, and the suites of IOMMUs take a statistic for exact that is not.
NOT_HERE = re.compile('kfence_test|iommu_pt_')
END = r'@@ ([0-9]+)\r+\n'     # of a command
# Modules of Debian that DKMS builds. Those of trixie do not compile with 7.3.
DKMS = ('openvpn-dco-dkms', 'vhba-dkms')
BACKPORTS = f'{debian_root.SUITE}-backports'
SCRIPTS = sorted((guests.ROOT / 'tests/guest').glob('deb_*.sh'))

INSTALL = r'''
apt-get -y install systemd-sysv dbus login passwd initramfs-tools e2fsprogs stress-ng tuned irqbalance \
	bpfcc-tools dkms gcc openvpn iproute2 openssl wget cdemu-client genisoimage
installed() { find /boot /lib/modules /usr/src -maxdepth 1 -name '*RELEASE*' | sort; }
remove() { apt-get -y purge linux-image-RELEASE linux-headers-RELEASE; }
apt-get -y install ./linux-*.deb
installed >out/installed
remove
installed >out/left
# DKMS builds its modules for a kernel that is there before them, and then for one that comes after them.
apt-get -y install ./linux-*.deb
apt-get -y install ./*-dkms_*.deb || { cat /var/lib/dkms/*/*/build/make.log; false; }
dkms status >out/dkms
remove
dkms status >out/dkms-left
find /boot /lib/modules /usr/src -path '*RELEASE*' -type f >out/files-left
apt-get -y install ./linux-*.deb
dkms status >out/dkms-again
# Debian's own kernel has the base kernel's workqueue. It stays beside ours.
INITRD=Yes apt-get -y install -t BACKPORTS linux-image-cloud-amd64 linux-headers-cloud-amd64
cp *.sh /root
cp /boot/vmlinuz-RELEASE out/vmlinuz
cp /boot/initrd.img-RELEASE out/initrd
cp /boot/vmlinuz-*-cloud-amd64 out/vmlinuz-base
cp /boot/initrd.img-*-cloud-amd64 out/initrd-base
# A name for the machine and a root that may log in, as an installer would set them.
echo packaged >/etc/hostname
passwd -d root
: >/etc/motd
# An emulated machine may need longer to start a unit.
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nDefaultTimeoutStartSec=10min\n' >/etc/systemd/system.conf.d/slow.conf
'''


@once
def built():
    """Build the kernel. Return its release and its packages."""
    subprocess.run(['scripts/lab', 'deb', '--modules', CONFIGS / 'deb-tests.lsmod',
                    '--add', CONFIGS / 'deb-tests.config'], cwd=guests.ROOT, check=True)
    release = release_of(deb.Packaged(Kind.of().engine, few=True).folder)
    return release, [path for path in deb.PLACE.iterdir() if f'-{release}_' in path.name]


@once
def dkms_packages():
    return [debian.fetched(name, ('sid',))
            for name in DKMS]


@once
def root():
    release, packages = built()
    return debian_root.run(INSTALL.replace('RELEASE', release).replace('BACKPORTS', BACKPORTS), 'deb',
                           [*packages, *dkms_packages(), *SCRIPTS], more=(BACKPORTS,), image=True)


class Login:
    """A guest with Debian on its disk, and a shell at its serial console."""

    def __init__(self, folder, stack, kernel=''):
        disk = folder / f'disk{kernel}.qcow2'
        subprocess.run(['qemu-img', 'convert', '-O', 'qcow2', folder / 'root.ext4', disk], check=True)
        subprocess.run(['qemu-img', 'resize', '-q', disk, '+2G'], check=True)
        # irqbalance leaves a machine with one cache alone.
        machine = topology.complete({'sockets': 2, 'cores': 1})
        log = stack.enter_context((guests.RESULTS / f'deb{kernel}-guest.log').open('w', encoding='utf-8'))
        near, far = (stack.enter_context(end) for end in socket.socketpair())
        self.machine = stack.enter_context(procs.kept(
            [qemu.PROGRAM, '-M', 'q35', *qemu.accel_args('tcg'), *qemu.topology_args(machine, 2048), '-nodefaults',
             '-no-user-config', '-display', 'none', '-no-reboot', '-chardev',
             f'socket,fd={far.fileno()},id=console', '-serial', 'chardev:console', '-drive', f'file={disk},if=virtio',
             '-kernel', folder / f'vmlinuz{kernel}', '-initrd', folder / f'initrd{kernel}',
             '-append', ' '.join(['root=/dev/vda rw console=ttyS0 panic=-1 log_buf_len=8M', *qemu.quick_boot('tcg')])],
            pass_fds=[far.fileno()], stdin=subprocess.DEVNULL))
        far.close()
        self.child = fdpexpect.fdspawn(near, encoding='utf-8', codec_errors='replace', timeout=600, logfile=log)
        self.child.delaybeforesend = None
        self.child.expect('packaged login: ')
        self.child.sendline('root')
        self.child.expect('root@packaged:~# ')
        # One that does not edit its line, and prints no messages of the kernel
        self.child.sendline('exec sh')
        self.shell("PS1=''; dmesg -n 1; stty -echo; resize2fs -f /dev/vda")

    def shell(self, command, status=0, keys=False, limit=600):
        """Run a command. Return what it prints. Without @keys, press none until it ends, in @limit seconds."""
        self.child.sendline(f'{{ {command}; }} 2>&1; echo "@@ $?"')
        while self.child.expect([END, pexpect.TIMEOUT], timeout=20 if keys else limit):
            assert keys, f'{command}: no end:\n{self.child.before[-3000:]}'
            self.child.send('\n')
        output = self.child.before.replace('\r', '')
        assert int(self.child.match[1]) == status, f'{command}: status {self.child.match[1]}:\n{output[-3000:]}'
        return output

    def kernel_log(self, since):
        """Return the kernel's log after a mark, which kernel_mark() has put there."""
        return self.shell('dmesg --notime --nopager').partition(f'test: {since}\n')[2]

    def kernel_mark(self, name):
        self.shell(f'echo "test: {name}" >/dev/kmsg')

    def one_cpu(self):
        """An emulated CPU may run into a jump that another CPU just patches. So let there be no other."""
        self.shell('echo 0 >/sys/devices/system/cpu/cpu1/online')


@pytest.fixture(scope='module')
def login():
    with contextlib.ExitStack() as stack:
        folder = root()
        guests.say('deb: booting Debian')
        yield Login(folder, stack)


def test_apt_installs_and_removes_it():
    release, packages = built()
    assert {path.name.partition('_')[0] for path in packages} == {f'linux-headers-{release}', f'linux-image-{release}'}
    assert (root() / 'installed').read_text().split() == [
        *(f'/boot/{name}-{release}' for name in ('System.map', 'config', 'initrd.img', 'vmlinuz')),
        f'/lib/modules/{release}', f'/usr/src/linux-headers-{release}']
    assert (root() / 'left').read_text() == ''


def test_it_installs_beside_another_variant():
    """All that the packages have is named by this kernel's release, which ends in -cmwq or -base."""
    release, packages = built()
    for path in packages:
        listed = subprocess.run(['dpkg-deb', '-c', path], check=True, capture_output=True, text=True).stdout
        names = [line.split()[5] for line in listed.splitlines() if not line.startswith('d')]
        assert names and all(release in name for name in names)
        refuses = subprocess.run(['dpkg-deb', '-f', path, 'Conflicts', 'Breaks', 'Replaces'], check=True,
                                 capture_output=True)
        assert refuses.stdout == b''


def test_systemd_reaches_a_login(login):
    assert login.shell('uname -r').split()[-1] == built()[0]
    state = login.shell('systemctl is-system-running --wait || systemctl --failed --no-pager')
    assert state.split()[-1] == 'running', state


def test_it_has_our_workqueue(login):
    """The base kernel has no own_pools."""
    assert login.shell('cd /sys/module/workqueue/parameters; cat default_affinity_scope own_pools').split() == [
        'cache_shard', '1']


def test_tuned_sets_the_mask(login):
    """Its profile keeps unbound work off the isolated CPUs."""
    masks = 'cat /sys/devices/virtual/workqueue/cpumask /sys/devices/virtual/workqueue/writeback/cpumask'
    before = login.shell(masks).split()
    login.shell('echo isolated_cores=1 >/etc/tuned/cpu-partitioning-variables.conf; tuned-adm profile cpu-partitioning')
    assert [int(mask, 16) for mask in before] == [3, 3]
    assert [int(mask, 16) for mask in login.shell(masks).split()] == [1, 1]
    login.shell('tuned-adm off; systemctl stop tuned; for mask in cpumask writeback/cpumask; do '
                'echo 3 >/sys/devices/virtual/workqueue/$mask; done')


def test_irqbalance_runs(login):
    login.shell('systemctl restart irqbalance; sleep 12; systemctl is-active irqbalance')


def test_suspend_to_idle_and_resume(login):
    login.kernel_mark('suspend')
    # The emulated clock wakes no machine that idles, but a key at the console does.
    login.shell('echo enabled >/sys/class/tty/ttyS0/power/wakeup')
    login.shell('echo freeze >/sys/power/state', keys=True)
    log = login.kernel_log('suspend')
    assert 'PM: suspend entry (s2idle)' in log and 'PM: suspend exit' in log
    login.shell('systemctl is-system-running')


@pytest.mark.parametrize('load', ['filesystem', 'memory', 'scheduler', 'cpu'])
def test_stress_ng(login, load):
    output = login.shell(f'cd /var/tmp && stress-ng --class {load} --sequential 2 --timeout 1 --verify {TCG_FAILS}')
    assert 'failed: 0' in output, output[-3000:]


@pytest.mark.parametrize('kind', ['rcu', 'lock'])
def test_kernels_own_torture(login, kind):
    login.kernel_mark(f'{kind}torture')
    login.shell(f'modprobe {kind}torture stat_interval=5; sleep 20; rmmod {kind}torture')
    assert re.search(r'End of test: SUCCESS', login.kernel_log(f'{kind}torture'))


def test_our_torture(login):
    login.kernel_mark('wqtorture')
    login.shell('modprobe wqtorture duration=15 seed=7; sleep 40; rmmod wqtorture')
    verdict = torture.VERDICT.search(login.kernel_log('wqtorture'))
    assert verdict and verdict[2] == 'SUCCESS'


def test_benchmark(login):
    login.kernel_mark('benchmark')
    # It measures when it is loaded, and then refuses to stay.
    login.shell('modprobe test_workqueue items=500 repeats=1', status=1)
    report = parse.parse_output(login.kernel_log('benchmark'))
    assert report['status'] == 'ok' and {run['scope'] for run in report['runs']} >= {'cache_shard', 'system'}


def run_wqlat(login):
    """Return its output, and for each workqueue the lowest µs and the count of each row."""
    login.one_cpu()
    output = login.shell('sh /root/deb_wqlat.sh', limit=1800)
    return output, {
        name: [(int(low), int(count)) for low, count in re.findall(r'^ *(\d+) -> \d+ +: (\d+) ', part, re.M)]
        for name, part in re.findall(r'^wqname = (\S+)\n(.*?)(?=^$|\Z)', output, re.M | re.S)}


def test_wqlat(login):
    """bcc compiles wqlat with the headers of our package. It measures the same waits as wq_probe itself reports."""
    output, waits = run_wqlat(login)
    login.shell('echo 1 >/sys/devices/system/cpu/cpu1/online')
    assert {'wq_probe', 'writeback'} <= set(waits), output
    line, = re.findall(r'^kind=unbound .*', output, re.M)
    probe = parse.parse_fields(line)
    counted = sum(count for _, count in waits['wq_probe'])
    # The kernel runs no program of BPF within another, so a tick during one is not seen.
    assert 0.9 * int(probe['ran']) <= counted <= int(probe['ran']), output
    median_us = statistics.median(low for low, count in waits['wq_probe'] for _ in range(count))
    assert median_us / 4 <= int(probe['p50_ns']) / 1000 <= max(median_us, 1) * 8, output


def test_dkms_builds_modules_of_debian():
    """DKMS builds them when they are installed, and when a kernel is. It removes them with the kernel."""
    made = [path.name.split('_')[1].partition('-')[0] for path in dkms_packages()]
    status = (root() / 'dkms').read_text()
    lines = [f'ovpn-dco/{made[0]}, {built()[0]}, x86_64: installed', f'vhba/{made[1]}, {built()[0]}, x86_64: installed']
    assert status.splitlines() == lines
    assert (root() / 'dkms-again').read_text() == status
    assert built()[0] not in (root() / 'dkms-left').read_text()
    # It runs depmod when its last module goes, and the package does not know these files.
    left = (root() / 'files-left').read_text().split()
    assert all(path.startswith(f'/lib/modules/{built()[0]}/modules.') for path in left), left


def test_the_journal_is_clean(login):
    """After all that was done before."""
    assert not check.bad_lines(login.shell('journalctl -b -o short-monotonic --no-pager'))
    assert login.shell('systemctl --failed --no-legend --no-pager').strip() == ''


def test_dkms_module_encrypts(login):
    """
    Each packet is an item of the tunnel's workqueue, once to encrypt it and once to decrypt it.

    This comes after the test of the journal, since the kernel warns here about two things: the module asks for a
    workqueue with neither WQ_PERCPU nor WQ_UNBOUND, and the network code of 7.3 does not know the statistics of its
    device. The kernel warns about nothing else.
    """
    login.kernel_mark('vpn')
    output = login.shell('sh /root/deb_vpn.sh', limit=1800)
    assert re.search(r'^ +ovpn-dco ', output, re.M) and 'kworker/R-ovpn-crypto-wq-tun0' in output, output
    log = login.kernel_log('vpn')
    warned = re.findall(r'^WARNING: .* at (\w+)', log, re.M)
    assert set(warned) <= {'wq_alloc', 'iptunnel_xmit'}, log
    bad = [line for line in check.bad_lines(log) if not line.startswith('WARNING: ')]
    assert all('[ cut here ]' in line for line in bad), bad


def test_dkms_module_adds_a_drive(login):
    login.kernel_mark('disc')
    output = login.shell('sh /root/deb_disc.sh', limit=1800)
    assert 'disc.iso' in output, output
    assert not check.bad_lines(login.kernel_log('disc'))
    assert login.shell('systemctl --failed --no-legend --no-pager').strip() == ''


def test_kunit(login):
    """After the look at the log, since some suites provoke warnings."""
    login.kernel_mark('kunit')
    names = login.shell('cd /lib/modules/$(uname -r)/kernel; find . -name "*kunit*.ko*" -o -name "*_test.ko*"').split()
    built = {name.rpartition('/')[2].partition('.ko')[0] for name in names}
    modules = sorted(module for module in built if not NOT_HERE.match(module))
    ours = [module for module in modules if module.startswith('wq_')]
    login.shell(f'for module in {" ".join(ours)}; do modprobe $module; done')
    # Each case of a suite patches jumps.
    login.one_cpu()
    login.shell(f'for module in {" ".join(modules)}; do modprobe $module; done')
    # Suites of others skip what this machine lacks, for reasons of their own.
    points = kernlog.parse_modules(login.kernel_log('kunit'), may_skip='.*')
    assert sum(point.ok and not point.skipped for point in points) > 100
    assert not [point for point in points if not point.ok]


def test_it_powers_off(login):
    login.child.sendline('systemctl poweroff')
    login.child.expect('reboot: Power down')
    assert login.machine.wait(timeout=60) == 0


def test_wqlat_on_the_base_kernel():
    """It is the one of Debian, on the same disk."""
    with contextlib.ExitStack() as stack:
        guests.say("deb: booting Debian's kernel")
        login = Login(root(), stack, '-base')
        assert login.shell('uname -r').split()[-1].startswith('7.3.')
        login.shell('test ! -e /sys/module/workqueue/parameters/own_pools')
        output, waits = run_wqlat(login)
        assert sum(count for _, count in waits['writeback']) > 0, output

# SPDX-License-Identifier: GPL-2.0
"""Each script of the selftests runs on some guest, and lists all of its tests. lib.sh compares their names."""
import re
import subprocess

import pytest

import guests

LIB = guests.SELFTESTS / 'lib.sh'
SCRIPTS = sorted(path for path in guests.SELFTESTS.glob('*.sh') if path != LIB)
# A script that needs no kernel begins with this.
BEGIN = f'''
. {LIB}
mount_all() {{ :; }}
load_helper() {{ :; }}
queues() {{ :; }}
rmmod() {{ :; }}
'''
SCRIPT = BEGIN + '''
test_one()
{
	echo "one $1"
}

test_one_more()	# SIZE
{
	echo "more $1"
}

'''


def run(shell, folder, text, only=''):
    (folder / 'script.sh').write_text(text)
    return subprocess.run([*shell, 'script.sh'], cwd=folder, capture_output=True, text=True, check=False, env={
        'PATH': '/usr/bin:/bin:/usr/sbin:/sbin', 'KTAP_HELPERS': guests.ktap_helpers(guests.kinds.LINUX),
        'WQT_ONLY': only})


def test_all_scripts_run():
    booted = {script for boot in guests.BOOTS for script in boot.scripts}
    listed = re.findall(r'\w+\.sh', (LIB.parent / 'Makefile').read_text())
    assert {path.stem for path in SCRIPTS} == booted
    assert sorted(path.name for path in (*SCRIPTS, LIB)) == sorted(listed)


@pytest.mark.parametrize('path', SCRIPTS, ids=lambda path: path.stem)
def test_scripts_can_be_executed(path):
    assert path.stat().st_mode & 0o111 == 0o111


@pytest.mark.usefixtures('composed')
@pytest.mark.parametrize('shell', [['bash'], ['busybox', 'sh']], ids=lambda shell: shell[0])
@pytest.mark.parametrize('words, missing', [
    ('one one_more', ''),
    ('one_more:2 one:"1 2" one:3', ''),
    ('one', 'one_more'),
    ('one_more', 'one'),
    ('one one_mor', 'one_more'),
    ('one:"x one_more"', 'one_more'),
    ('', 'one'),
])
def test_a_test_in_no_list(tmp_path, shell, words, missing):
    for only in ('', 'one'):
        done = run(shell, tmp_path, f'{SCRIPT}run_tests {words}\n', only)
        assert (f'Bail out!  script.sh does not list test_{missing}\n' in done.stdout) == bool(missing)
        assert (done.returncode == 0) == ('1..' in done.stdout) == (not missing), done


@pytest.mark.usefixtures('composed')
@pytest.mark.parametrize('text, wrong', [
    (f'{SCRIPT}test_one()\n{{\n\t:\n}}\n\nrun_tests one one_more\n', 'script.sh has two tests test_one'),
    (f'{SCRIPT}mv script.sh other.sh\nrun_tests one one_more\n', 'the tests in script.sh cannot be read'),
    (f'{SCRIPT}cd /\nrun_tests one one_more\n', ''),
], ids=['two', 'moved', 'elsewhere'])
def test_tests_that_cannot_be_compared(tmp_path, text, wrong):
    done = run(['busybox', 'sh'], tmp_path, text)
    assert re.findall('Bail out!  (.*)', done.stdout) == [wrong] * bool(wrong)
    assert (done.returncode == 0) == (not wrong)

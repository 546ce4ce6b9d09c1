# SPDX-License-Identifier: GPL-2.0
"""Add a note to a failure if a kernel of the tests was built again meanwhile.

Guests then still run the old kernel while tools read the symbols of the new one. Such a
failure says nothing about the sources.
"""
import pytest

from wqlab.kernels.kinds import ENGINES

FILES = ('vmlinux', *(engine.image for engine in ENGINES.values()))


def stamp(folder):
    """Return a value that changes when a build changes the kernel."""
    found = [(name, (folder / name).stat()) for name in FILES if (folder / name).exists()]
    return [(name, stat.st_mtime_ns, stat.st_size) for name, stat in found]


class Rebuilt:
    """A pytest plugin."""

    def __init__(self):
        self.used = {}          # folder -> its stamp when the tests began to use it

    def use(self, folder):
        self.used.setdefault(folder, stamp(folder))
        return folder

    def words(self):
        names = [folder.name for folder, before in self.used.items() if stamp(folder) != before]
        return f'built again while the tests used it: {", ".join(names)}: run the tests again' if names else ''

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item):
        report = yield
        if report.failed and self.words():
            report.sections.append(('a kernel was changed', self.words()))
        return report

    def pytest_terminal_summary(self, terminalreporter):
        if self.words():
            terminalreporter.write_line(self.words(), red=True)


KERNELS = Rebuilt()

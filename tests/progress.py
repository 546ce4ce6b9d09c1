# SPDX-License-Identifier: GPL-2.0
"""Progress messages of a test run."""
import sys

# A case that looks at its own standard error must not see what other threads say meanwhile.
TERMINAL = sys.stderr


def write(line):
    TERMINAL.write(line)     # in one write: builds print messages at the same time
    TERMINAL.flush()


def say(text):
    write(f'test: {text}\n')

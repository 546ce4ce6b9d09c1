# SPDX-License-Identifier: GPL-2.0
"""The functions in a C source, if it is written in the style of the kernel."""
import re

FUNCTION = re.compile(r'^(?P<head>\w[^{};#]*)(?:^\{\n(?P<body>.*?)^\}|\{(?P<line>[^\n]*)\}$)', re.M | re.S)
NAME = re.compile(r'^(?!__printf).*?\b(\w+)\(', re.M)


def functions(source):
    """Yield (name, what precedes the body, body) of each function."""
    for found in FUNCTION.finditer(source):
        name = NAME.search(found['head'])
        if name:
            yield name[1], found['head'], found['body'] or found['line'] or ''

# SPDX-License-Identifier: GPL-2.0
"""The release that this is, or that it will be: the first one in CHANGELOG.md."""
import re

from wqlab.paths import ROOT

NAME = 'CHANGELOG.md'


def release() -> str:
    return re.findall(r'^## (\d+(?:\.\d+)+),', (ROOT / NAME).read_text(), re.M)[0]

# SPDX-License-Identifier: GPL-2.0
"""The entry for our files in MAINTAINERS of the kernel. It is the project's own, whoever makes the series."""
import re

from wqlab.paths import ROOT
from wqlab.steps import Failure

OWN = ROOT / 'MAINTAINERS'
BEFORE = re.compile(r'^WORKQUEUE\n(?:.+\n)+', re.M)


def with_entry(text: str, entry: str) -> str:
    """Return the text of MAINTAINERS with our entry in its place of the alphabet."""
    found = BEFORE.search(text)
    if not found:
        raise Failure('MAINTAINERS of the base tree has no entry WORKQUEUE, which ours has to follow: choose another '
                      'entry in scripts/wqlab/series/maintainers.py')
    return f'{text[:found.end()]}\n{entry}{text[found.end():]}'

# SPDX-License-Identifier: GPL-2.0
"""The entry for our files in MAINTAINERS. It names the author of the series as the maintainer."""
import re

from wqlab.steps import Failure

ENTRY = '''WORKQUEUE IN SMALL FILES (CMWQ)
M:	{who}
S:	Maintained
F:	Documentation/core-api/workqueue-*
F:	include/linux/cmwq/
F:	kernel/workqueue/
F:	lib/cmwq/
F:	tools/testing/selftests/workqueue/
F:	tools/workqueue/cmwq/
'''
BEFORE = re.compile(r'^WORKQUEUE\n(?:.+\n)+', re.M)


def with_entry(text: str, who: str) -> str:
    """Return the text of MAINTAINERS with our entry in its place of the alphabet."""
    found = BEFORE.search(text)
    if not found:
        raise Failure('MAINTAINERS of the base tree has no entry WORKQUEUE, which ours has to follow: choose another '
                      'entry in scripts/wqlab/series/maintainers.py')
    return f'{text[:found.end()]}\n{ENTRY.format(who=who)}{text[found.end():]}'

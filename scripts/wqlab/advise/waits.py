# SPDX-License-Identifier: GPL-2.0
"""How long the items of this machine's own work wait. A kernel with cmwq knows it while its histograms are on.

An affinity scope matters only to unbound workqueues. If their items hardly wait, or there are none, no scope gains
much here, whatever the benchmark finds.
"""
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from wqlab.paths import ROOT

FOLDER = Path('/sys/kernel/debug/workqueue')
MONITOR = ROOT / 'tools/workqueue/wq_monitor.py'
MOST = 3        # workqueues to name


def measured(folder: Path = FOLDER) -> bool:
    try:
        return (folder / 'latency_enable').read_text().strip() == '1'
    except OSError:
        return False


def rows() -> list[dict[str, Any]]:
    """Return what wq_monitor.py prints; nothing if it fails."""
    done = subprocess.run([sys.executable, MONITOR, '--debugfs', '-i', '0', '--json'], capture_output=True, text=True,
                          check=False)
    return [json.loads(line) for line in done.stdout.splitlines()] if not done.returncode else []


def note(found: list[dict[str, Any]]) -> str:
    """Say in a line how long the items of unbound workqueues have waited."""
    waits = {row['name']: row['wait_us']['p99'] for row in found if row['unbound'] and 'wait_us' in row}
    if not waits:
        return "of this machine's own work, no item of an unbound workqueue was measured: no scope matters to others"
    longest = sorted(waits.items(), key=lambda pair: -pair[1])[:MOST]
    told = ', '.join(f'{us} us ({name})' for name, us in longest)
    return f"of this machine's own work, 99 of 100 items of an unbound workqueue waited for less than {told}"

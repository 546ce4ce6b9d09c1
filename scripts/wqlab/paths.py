# SPDX-License-Identifier: GPL-2.0
"""Where things are."""
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / 'build'

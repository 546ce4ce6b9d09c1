# SPDX-License-Identifier: GPL-2.0
"""The root of the repository and its build folder."""
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / 'build'

# SPDX-License-Identifier: GPL-2.0
"""The series of patches for the base tree: its steps, its cover letter, and how it is written."""

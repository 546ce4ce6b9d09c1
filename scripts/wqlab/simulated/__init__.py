# SPDX-License-Identifier: GPL-2.0
"""Machines with many CPUs in simulated time."""

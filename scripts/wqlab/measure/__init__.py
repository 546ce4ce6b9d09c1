# SPDX-License-Identifier: GPL-2.0
"""What run-bench.sh, run-workload.sh and advise.sh share: how something is measured on both variants.

options.py  parts of a command line     turns.py  a run of many boots, in which the variants take turns
boot.py     builds and boots            stats.py  medians, ratios, cells of tables
record.py   results.json, resuming      plot.py   colours, and how plots are written
"""

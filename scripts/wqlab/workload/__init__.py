# SPDX-License-Identifier: GPL-2.0
"""What users run, on both variants: disks that are encrypted, files that are synced, files on a server.

On the host, run.py boots the variants in turn. options.py reads its command line, engines.py
starts a guest, stats.py and plot.py show the results.

In the guest, or on this machine, inside.py runs the cases of one workload and prints a line
for each, which lines.py describes. cases.py says what a workload is. dmcrypt.py, writeback.py,
latency.py, nfs.py and endure.py are workloads. They use fio.py,
disks.py, scopes.py and machine.py. nfsserver.py starts the server for
nfs.py.
"""

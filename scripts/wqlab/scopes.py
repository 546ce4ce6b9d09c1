# SPDX-License-Identifier: GPL-2.0
"""The affinity scopes of workqueues, in the order of the kernel."""
SHARD = 'cache_shard'
SCOPES = ('cpu', 'smt', 'cache', SHARD, 'numa', 'system')
FEW = ('cpu', SHARD, 'system')      # with pods of one CPU, of some and of all

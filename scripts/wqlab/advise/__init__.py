# SPDX-License-Identifier: GPL-2.0
"""scripts/advise.sh: which affinity scope, and which size of shards, does this machine want?

options.py  the command line          verdict.py  statistics, and what follows from them
pods.py     what CPUs share; settings words.py    the table, and the advice in words
loads.py    what is measured          plot.py     the plots
machine.py  this machine, or a guest  record.py   results.json, resuming
keeper.py   puts everything back      run.py      puts it all together
measure.py  rounds of short runs
"""

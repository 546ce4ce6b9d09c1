# SPDX-License-Identifier: GPL-2.0
"""scripts/advise.sh: which affinity scope, and which size of shards, does this machine want?

options.py  the command line          measure.py  rounds of short runs
pods.py     what CPUs share; settings verdict.py  statistics, and what follows from them
loads.py    what is measured          words.py    the table, and the advice in words
machine.py  this machine, or a guest  waits.py    how long its own items wait
keeper.py   puts everything back      run.py      puts it all together
"""

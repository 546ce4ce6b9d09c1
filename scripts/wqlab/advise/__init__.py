# SPDX-License-Identifier: GPL-2.0
"""scripts/advise.sh: which affinity scope, and which size of shards, does this machine want?

pods.py     what CPUs share; settings    verdict.py  statistics, and what follows from them
measure.py  loads, in rounds of runs     words.py    the table, and the advice in words
machine.py  this machine, or a guest     run.py      the command line, and all together
keeper.py   puts everything back
"""

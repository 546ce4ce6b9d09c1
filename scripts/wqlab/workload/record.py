# SPDX-License-Identifier: GPL-2.0
"""What results.json of run-workload.sh contains."""
from wqlab.kernels.kinds import ENGINES, VARIANTS
from wqlab.measure.record import COMMON, FAILED, PARAMETERS, STAT
from wqlab.shape import NOTHING, NUMBER
from wqlab.workload import workloads

NAMES = {*workloads.ALL}
SHAPES = ({
    **COMMON,
    'parameters': {**PARAMETERS, 'workloads': [NAMES], 'engine': {*ENGINES, 'here'}, 'seconds': NUMBER,
                   'cases': [str], 'set': str, 'mem': (str, NOTHING)},
    'boots': [{'pair': int, 'workload': NAMES, 'variant': {*VARIANTS}, 'trouble': [str],
               'runs': [{'name': str, 'unit': str, 'figures': {...: NUMBER}}],
               'skipped': [{'name': str, 'why': str}], 'wrong': [{'name': str, 'why': str}]}],
    'failed_boots?': [{**FAILED, 'workload': NAMES}],
    'summary': [{'workload': NAMES, 'name': str, 'unit': str,
                 **{f'{variant}?': {...: STAT} for variant in VARIANTS},
                 'ratio?': {...: (STAT, NOTHING)}}]},)

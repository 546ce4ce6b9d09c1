# SPDX-License-Identifier: GPL-2.0
"""The points that a case reported, as cases of their own in pytest's junit.xml."""
import os
from pathlib import Path
from xml.etree import ElementTree

PROPERTY = 'point'


def as_property(state, name, why=''):
    """How a case notes a point: state is passed, failed or skipped."""
    return PROPERTY, '\n'.join((state, name, why))


def show_points(path):
    """Rewrites the file: each point that a case noted follows it as a case."""
    tree = ElementTree.parse(path)
    for suite in tree.iter('testsuite'):
        counts = {'tests': 0, 'failures': 0, 'skipped': 0}
        for case in list(suite.iter('testcase')):
            points = case.findall(f'properties/property[@name="{PROPERTY}"]')
            for point in points:
                state, name, why = point.get('value').split('\n', 2)
                parent = f'{case.get("classname")}.{case.get("name")}'
                shown = ElementTree.SubElement(suite, 'testcase', classname=parent, name=name, time='0')
                counts['tests'] += 1
                if state != 'passed':
                    kind, key = ('failure', 'failures') if state == 'failed' else ('skipped', 'skipped')
                    ElementTree.SubElement(shown, kind, message=why or state).text = why
                    counts[key] += 1
            if points:
                case.remove(case.find('properties'))
        for key, count in counts.items():
            suite.set(key, str(int(suite.get(key, '0')) + count))
    temp = Path(path).with_suffix('.tmp')
    tree.write(temp, encoding='utf-8', xml_declaration=True)
    os.replace(temp, path)

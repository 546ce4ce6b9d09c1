# SPDX-License-Identifier: GPL-2.0
"""Add the points that a case reported to pytest's junit.xml, each as a case."""
from xml.etree import ElementTree

from wqlab import files

PROPERTY = 'point'


def as_property(state, name, why=''):
    """Encode a point as a property of a case. state is passed, failed or skipped."""
    return PROPERTY, '\n'.join((state, name, why))


def show_points(path):
    """Rewrite the file: add a case for each point that is noted in a property."""
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
    with files.replacing(path) as temp:
        tree.write(temp, encoding='utf-8', xml_declaration=True)

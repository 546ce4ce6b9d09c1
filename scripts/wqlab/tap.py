# SPDX-License-Identifier: GPL-2.0
"""Read TAP and KTAP. KTAP is TAP with test points that are nested by indentation.

This parser is strict on purpose. A missing plan, a number of points that differs from the
plan, a "Bail out!", and a skipped point are failures. A point may be skipped only for a
reason that the caller expects. The base tree's tools/testing/kunit/kunit_parser.py is too
lenient: a missing plan, more points than planned, a wrong total, TODO, XFAIL and
"Bail out!" all pass there.
"""
import dataclasses
import re

POINT = re.compile(r'^( *)(not )?ok\b *(\d+)?\s*(?:- )?(.*)$')
PLAN = re.compile(r'^( *)1\.\.(\d+)')
TOTAL = re.compile(r'^(\S+): pass:\d+ fail:\d+ skip:\d+ total:(\d+)$')
DIRECTIVE = re.compile(r'\s*# *(SKIP|TODO|XFAIL)\b *(.*)$', re.IGNORECASE)


@dataclasses.dataclass
class Point:
    name: str
    ok: bool
    why: str = ''
    skipped: bool = False


@dataclasses.dataclass
class Level:
    """The points at one level of indentation whose parent has not been read yet."""
    plan: int | None = None
    seen: int = 0
    points: list = dataclasses.field(default_factory=list)


def plan_problem(level, plan=None):
    plan = level.plan if level.plan is not None else plan
    if plan is None:
        return 'no plan was printed'
    if plan != level.seen:
        return f'{level.seen} points were printed, but {plan} were planned'
    return ''


class Parser:
    def __init__(self, may_skip=None):
        self.may_skip = may_skip and re.compile(may_skip)
        self.levels = {}        # indentation -> Level
        self.notes = []         # diagnostic lines since the last point
        self.bailed = ''

    def level(self, indent):
        return self.levels.setdefault(indent, Level())

    def children(self, indent, plan=None):
        """Take the points below this indentation. Return them and what is wrong with their plan.

        KUnit does not know in advance how many rows a table has. It prints the total
        afterwards, and that serves as the plan.
        """
        points, problems = [], []
        for deeper in sorted(i for i in self.levels if i > indent):
            level = self.levels.pop(deeper)
            points += level.points
            problems.append(plan_problem(level, plan))
        return points, '; '.join(filter(None, problems))

    def point(self, match):
        indent, name, ok = len(match[1]), match[4], not match[2]
        why = list(self.notes)
        self.notes.clear()
        directive = DIRECTIVE.search(name)
        name = DIRECTIVE.sub('', name)
        totals = {m[1]: int(m[2]) for m in map(TOTAL.match, why) if m}
        below, problem = self.children(indent, totals.get(name))
        # KUnit gives no reason if all rows of a table were skipped. Each of them has one.
        reason = directive and (directive[2] or next((child.why for child in below if child.skipped), ''))
        skipped = bool(ok and directive and directive[1].upper() == 'SKIP' and self.may_skip and
                       self.may_skip.match(reason) and all(child.skipped for child in below))
        if skipped:
            why = [reason]
        elif directive:
            ok = False
            why.append(f'{directive[1].upper()}: it did not run')
        level = self.level(indent)
        level.seen += 1
        if match[3] and int(match[3]) != level.seen:
            problem = f'{problem}; the point has number {match[3]} instead of {level.seen}'.strip('; ')
        for child in below:
            child.name = f'{name}: {child.name}'
        level.points += below
        # A parent does not count as a point, unless it reports a failure that none of its points reports.
        if not below or problem or (not ok and all(child.ok for child in below)):
            level.points.append(Point(name, ok and not problem, '\n'.join(filter(None, [*why, problem])),
                                      skipped and not problem))

    def feed(self, line):
        plan, point = PLAN.match(line), POINT.match(line)
        if plan:
            self.level(len(plan[1])).plan = int(plan[2])
        elif point:
            self.point(point)
        elif line.lstrip().startswith('Bail out!'):
            self.bailed = line.strip()
        elif line.lstrip().startswith('# '):
            self.notes.append(line.strip()[2:])

    def finish(self):
        below, problem = self.children(-1)
        if self.bailed:
            below.append(Point('came to its end', False, self.bailed))
        if problem or not below:
            below.append(Point('plan', False, problem or 'no points were printed'))
        return below


def parse(text, may_skip=None):
    """Return all points. If something is wrong with the output as a whole, one more point reports that.

    may_skip: a regular expression. A point may be skipped if the beginning of its reason matches.
    """
    parser = Parser(may_skip)
    for line in text.splitlines():
        parser.feed(line)
    return parser.finish()

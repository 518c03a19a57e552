"""What many cases came to, as tables: by scenario and operation, and by fault what it has cost.

It lives the cases that it is given and counts; which there are, others say.
"""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from tests.dispatch_points.cases import Case
from tests.dispatch_points.life import Needs, bare
from tests.dispatch_points.world import Grant
from tests.planning_counts import Compared

SHOWN_MAX = 40
"""Failures that are printed one by one."""
Row = tuple[str, str, str]
"""Scenario, operation, family of the fault."""


class Tally(Struct):
    """See the module."""

    cases: Counter[Row]
    idle: Counter[Row]
    """Nothing was there for the fault to strike at."""
    failures: list[tuple[str, Row, str]]
    struck: Counter[str]
    """Cases in which it did, by fault."""
    granted: dict[str, Grant]
    """The most that a fault may cost by the rules, wherever it struck."""
    cost: dict[str, Grant]
    """The most that it has cost."""
    compared: Compared = Compared()
    """Plans with the full ones, in the cases that have not failed: a difference fails its case."""

    def add(self, other: "Tally") -> None:
        """Together with those."""
        self.cases.update(other.cases)
        self.idle.update(other.idle)
        self.failures.extend(other.failures)
        self.struck.update(other.struck)
        self.compared += other.compared
        for mine, theirs in ((self.granted, other.granted), (self.cost, other.cost)):
            for name, grant in theirs.items():
                mine[name] = most(mine.get(name, Grant()), grant)


def none_yet() -> Tally:
    """Of no cases."""
    return Tally(Counter(), Counter(), [], Counter(), {}, {})


def most(one: Grant, other: Grant) -> Grant:
    """The greater of both in each field."""
    return Grant(
        max(one.attempts, other.attempts),
        max(one.machines, other.machines),
        max(one.failed, other.failed),
        max(one.retries, other.retries),
        max(one.seconds, other.seconds),
    )


def tally(cases: Iterable[Case]) -> Tally:
    """Live them all."""
    told = none_yet()
    for case in cases:
        last = case.plants[-1]
        row = (case.scenario, last.point.name, last.fault.family)
        told.cases[row] += 1
        try:
            needs = case.live()
        except Exception as error:  # noqa: BLE001 - whatever it is, the case has failed
            told.failures.append((case.name, row, f"{type(error).__name__}: {error}"))
            continue
        told.compared += needs.compared
        if needs.struck < len(case.plants):
            told.idle[row] += 1
            continue
        name = last.fault.name
        told.struck[name] += 1
        told.granted[name] = most(told.granted.get(name, Grant()), needs.granted)
        told.cost[name] = most(told.cost.get(name, Grant()), cost_of(needs, bare(case.scenario)))
    return told


def cost_of(needs: Needs, without: Needs) -> Grant:
    """What a life needed more than the one without faults; of nodes, the one that needed most."""
    return Grant(
        max((n - without.attempts.get(node, 1) for node, n in needs.attempts.items()), default=0),
        max((n - without.machines.get(node, 1) for node, n in needs.machines.items()), default=0),
        needs.failed - without.failed,
        needs.retries - without.retries,
        sum(needs.times) - sum(without.times),
    )


def print_table(told: Tally) -> None:
    """One row for each scenario, operation and family of faults."""
    failed = Counter(row for _, row, _ in told.failures)
    print(f"{'scenario':36} {'operation':32} {'fault':10} {'cases':>7} {'idle':>6} {'failed':>6}")
    for row in sorted(told.cases):
        scenario, operation, family = row
        numbers = f"{told.cases[row]:7} {told.idle[row]:6} {failed[row]:6}"
        print(f"{scenario:36} {operation:32} {family:10} {numbers}")


def print_costs(told: Tally) -> None:
    """One row for each fault: what the rules let it cost a node at most, and what it has cost."""
    print("\nat most more than without the fault, by the rules / seen:")
    print(
        f"{'fault':48} {'struck':>7} {'attempts':>9} {'machines':>9} {'failed':>9} {'retries':>9}"
    )
    for name in sorted(told.struck):
        rule, seen = told.granted[name], told.cost[name]
        print(
            f"{name:48} {told.struck[name]:7} {rule.attempts:5} / {seen.attempts} "
            f"{rule.machines:5} / {seen.machines} {rule.failed:5} / {seen.failed} "
            f"{rule.retries:5} / {seen.retries}"
        )


def print_failures(told: Tally) -> None:
    """Each with its command."""
    for name, _, reason in told.failures[:SHOWN_MAX]:
        command = f"python -m tests.dispatch_points --case {name}"
        print(f"\n{name}\n  {reason[:800]}\n  replay: {command}")
    if len(told.failures) > SHOWN_MAX:
        print(f"\n... and {len(told.failures) - SHOWN_MAX} more")

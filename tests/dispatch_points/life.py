"""One case: a scenario's life with faults planted in it, and what is demanded of it.

The life without faults says what a scenario needs; a fault that struck may cost what it was granted
(`Grant`), and nothing else.  A case that breaks anything raises AssertionError.
"""

from datetime import timedelta
from functools import cache
from itertools import groupby

from msgspec import Struct

from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.stepping import DEFAULT_START
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeAttemptId,
    OperationKind,
    PlannedEffect,
    kind_of,
)
from tests.dispatch_points.gates import POLICY, TICK
from tests.dispatch_points.planting import Fault
from tests.dispatch_points.scenarios import SCENARIOS, Scenario
from tests.dispatch_points.world import Grant, Point, PointWorld
from tests.planning_counts import Compared, compared_by, planning_of

SILENCE = timedelta(hours=1)
Course = dict[str, list[tuple[int, OperationKind, bool]]]


class Plant(Struct, frozen=True):
    """A fault, and the dispatch point at which it is planted."""

    point: Point
    fault: Fault


class Needs(Struct, frozen=True):
    """What a life took, in all."""

    points: tuple[Point, ...]
    attempts: dict[LogicalNodeId, int]
    machines: dict[LogicalNodeId, int]
    failed: int
    retries: int
    times: tuple[float, ...]
    course: Course
    struck: int
    granted: Grant
    """What all faults together might cost."""
    compared: Compared
    """Its plans, with those of all nodes."""


def live(scenario: Scenario, plants: tuple[Plant, ...] = ()) -> Needs:
    """Live it to its end.

    Raises:
        AssertionError: an invariant is broken, something leaked, was made twice, wedged or raised
            a false alarm.
    """
    world = scenario.make()
    world.crowded = len(plants) > 1
    base = bare(scenario.name) if plants else None
    if base is not None:
        world.allowed = lambda nth: _allowed(world, base, nth)
    for plant in plants:
        plant.fault.plant(world, plant.point)
    try:
        _to_its_end(world, scenario, base)
        needs = _needs(world)
        if base is not None and all(plant.fault.same_course for plant in plants):
            _same_course(needs.course, base.course, delayed=any(g.seconds for g in world.granted))
    except Exception as failure:
        for line in _story(world):
            failure.add_note(line)
        raise
    return needs


def _to_its_end(world: PointWorld, scenario: Scenario, base: Needs | None) -> None:
    for move in scenario.moves:
        move(world)
        _no_false_alarm(world, base)
    while world.outstanding:
        world.run_to_next()
    world.converge()
    _stays_silent(world)
    _no_false_alarm(world, base)
    _nothing_is_left(world)


def _story(world: PointWorld) -> list[str]:
    """What happened, for whoever looks at a failed case."""
    return [
        f"{(event.at - DEFAULT_START).total_seconds():9.3f} s  {event.kind} "
        f"{event.node or ''} {event.attempt or ''}  {event.text}"
        for event in world.cluster.events
    ]


@cache
def bare(name: str) -> Needs:
    """What the scenario needs without any fault."""
    return live(scenario_named(name))


def scenario_named(name: str) -> Scenario:
    """Raises KeyError: there is none of that name."""
    return {scenario.name: scenario for scenario in SCENARIOS}[name]


def _needs(world: PointWorld) -> Needs:
    return Needs(
        tuple(world.points),
        {node: len(attempts) for node, attempts in world.attempts.items()},
        {node: world.machines(node) for node in world.attempts},
        world.counted(EventKind.FAILED),
        world.counted(EventKind.RETRY),
        tuple(world.times),
        _course([point.effect for point in world.points]),
        world.struck,
        granted_in_all(world.granted),
        compared_by(planning_of(world.cluster)),
    )


def granted_in_all(granted: list[Grant]) -> Grant:
    """The sum of each field."""
    return Grant(
        sum(grant.attempts for grant in granted),
        sum(grant.machines for grant in granted),
        sum(grant.failed for grant in granted),
        sum(grant.retries for grant in granted),
        sum(grant.seconds for grant in granted),
    )


def _course(effects: list[PlannedEffect]) -> Course:
    """What each node was told to do; attempts are counted anew for each node."""
    course: Course = {}
    attempts: dict[str, list[NodeAttemptId]] = {}
    for effect in effects:
        seen = attempts.setdefault(effect.node, [])
        if effect.operation.attempt not in seen:
            seen.append(effect.operation.attempt)
        step = (len(seen), kind_of(effect.command), Point(0, 0, effect, looks=False).adopt_only)
        course.setdefault(effect.node, []).append(step)
    return course


def _same_course(course: Course, without: Course, *, delayed: bool) -> None:
    """`delayed`: how often something is asked again depends on the time that passes."""
    if delayed:
        course = {node: [step for step, _ in groupby(steps)] for node, steps in course.items()}
        without = {node: [step for step, _ in groupby(steps)] for node, steps in without.items()}
    assert course == without, f"another course: {course}, without the fault: {without}"


def _allowed(world: PointWorld, base: Needs, nth: int) -> float:
    """The bound of virtual time for a convergence: what it takes without faults, what those that
    struck were granted, everything once more for each attempt more, and all the backoff that so
    many failures in a row may bring."""
    granted = granted_in_all(world.granted)
    failures = base.failed + base.retries + granted.failed + granted.retries
    longest = POLICY.max_delay.total_seconds()
    backoff = sum(min(longest, 2.0**failure) for failure in range(failures))
    own = base.times[nth] if nth < len(base.times) else 0.0
    again = granted.attempts * (sum(base.times) + world.waits)
    return own + again + backoff + granted.seconds


def _no_false_alarm(world: PointWorld, base: Needs | None) -> None:
    """Not one attempt, machine, failure or retry more than the rules grant."""
    if base is None:
        return
    granted = granted_in_all(world.granted)
    for node, seen in world.attempts.items():
        most = max(1, base.attempts.get(node, 0)) + granted.attempts
        assert len(seen) <= most, f"{node} has used {len(seen)} attempts, at most {most} by rule"
        most = max(1, base.machines.get(node, 0)) + granted.machines
        made = world.machines(node)
        assert made <= most, f"{node} has used {made} machines, at most {most} by rule"
    failed, retries = base.failed + granted.failed, base.retries + granted.retries
    _not_told(world, EventKind.FAILED, failed)
    _not_told(world, EventKind.RETRY, retries)
    if not failed + retries:
        blamed = [
            node for node in world.cluster.status().nodes if node.last_error or node.last_failure
        ]
        assert not blamed, f"status speaks of failures: {blamed}"


def _not_told(world: PointWorld, kind: EventKind, most: int) -> None:
    told = [event for event in world.cluster.events if event.kind is kind]
    assert len(told) <= most, f"{len(told)} events say {kind}, at most {most} by rule: {told}"


def _stays_silent(world: PointWorld) -> None:
    """Nothing is dispatched, told of or changed for an hour but by the safety tick."""
    points, events = len(world.points), len(world.cluster.events)
    before, passes = world.cluster.state, world.cluster.passes
    world.run(SILENCE)
    dispatched, told = world.points[points:], world.cluster.events[events:]
    assert not dispatched, f"not silent, it dispatched {dispatched}"
    assert not told, f"not silent, it told {told}"
    assert world.cluster.state == before, "not silent, the state has changed"
    ran = world.cluster.passes - passes
    assert ran == SILENCE // TICK, f"not silent, {ran} passes ran in {SILENCE // TICK} safety ticks"


def _nothing_is_left(world: PointWorld) -> None:
    """At the end there is a machine and a memory for each wanted node, and nothing else."""
    wanted = set(world.cluster.desired.expand())
    assert world.ready == wanted, f"ready are {world.ready}, wanted {wanted}"
    owned = {world.identity(node) for node in wanted}
    assert world.live == owned, f"there are machines {world.live}, wanted are {owned}"
    kept = world.executors.attempts
    assert kept == len(wanted), f"{kept} attempts are remembered, {len(wanted)} nodes are wanted"
    assert not world.executors.running, f"still running: {world.executors.running}"

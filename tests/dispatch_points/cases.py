"""Which cases there are, and their names: every fault at every dispatch point of every scenario.

A case is named `scenario/point/fault`; a second fault follows behind a plus.  Pairs are numbered in
the life that the first fault has led to: its dispatch points are the ones that count there.
"""

from collections.abc import Iterator

from msgspec import Struct

from cluster_reconciler.messages import OperationKind
from tests.dispatch_points.faults_calls import CALLS
from tests.dispatch_points.faults_news import NODES, SHAPES, TRIGGERS
from tests.dispatch_points.faults_observations import OBSERVATIONS
from tests.dispatch_points.faults_replies import REPLIES
from tests.dispatch_points.life import Needs, Plant, bare, live, scenario_named
from tests.dispatch_points.planting import Fault
from tests.dispatch_points.scenarios import SCENARIOS
from tests.dispatch_points.world import Point

FAULTS: tuple[Fault, ...] = (*REPLIES, *CALLS, *TRIGGERS, *SHAPES, *NODES, *OBSERVATIONS)
PAIRED = ("one-node", "shutdown-while-booting", "ambiguous-create-cleaned-up")
"""The shortest scenarios: every operation, adopt-only starts and look-ups excepted."""

FIXED: dict[tuple[OperationKind, bool], tuple[str, ...]] = {
    (OperationKind.CREATE_LEASE, False): ("ambiguous-start-cleaned-up/1",),
    (OperationKind.CREATE_LEASE, True): ("create-that-made-nothing-cleaned-up/2",),
    (OperationKind.LOOKUP_ENDPOINT, False): ("endpoint-later/2",),
    (OperationKind.START_BOOTSTRAP, False): (
        "endpoint-later/6",
        "ambiguous-start-cleaned-up/2",
        "session-fails/2",
    ),
    (OperationKind.START_BOOTSTRAP, True): ("ambiguous-start-cleaned-up/3",),
    (OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED, False): (
        "endpoint-later/7",
        "destroy-takes-long/3",
    ),
    (OperationKind.CANCEL_BOOTSTRAP, False): ("ambiguous-start-cleaned-up/4", "session-fails/3"),
    (OperationKind.DESTROY_LEASE, False): ("session-fails/4",),
}
"""The points of the suite: at one of them each fault finds something to strike at, if it ever does
at such an operation."""


class Case(Struct, frozen=True):
    """One scenario, and the faults that are planted in it."""

    scenario: str
    plants: tuple[Plant, ...]

    @property
    def name(self) -> str:
        """Its name, see the module."""
        planted = "+".join(f"{plant.point.number}/{plant.fault.name}" for plant in self.plants)
        return f"{self.scenario}/{planted}"

    def live(self) -> Needs:
        """See `life.live`."""
        return live(scenario_named(self.scenario), self.plants)


def singles(scenario: str) -> Iterator[Case]:
    """Every fault at every dispatch point of the scenario's life without faults."""
    for point in bare(scenario).points:
        for fault in FAULTS:
            if fault.fits(point):
                yield Case(scenario, (Plant(point, fault),))


def fixed_cases(kind: OperationKind, *, adopt_only: bool) -> Iterator[tuple[Case, ...]]:
    """For every fault that fits the operation, its cases at the points of the suite."""
    points = []
    for place in FIXED[kind, adopt_only]:
        scenario, _, number = place.partition("/")
        points.append((scenario, bare(scenario).points[int(number) - 1]))
    for fault in FAULTS:
        if fault.fits(points[0][1]):
            yield tuple(Case(scenario, (Plant(point, fault),)) for scenario, point in points)


def seconds(first: Case, needs: Needs) -> Iterator[Case]:
    """Every second fault at every dispatch point of the life that a first one has led to, from the
    first one's own point on."""
    [planted] = first.plants
    for point in needs.points[planted.point.number - 1 :]:
        for fault in FAULTS:
            if fault.fits(point):
                yield Case(first.scenario, (planted, Plant(point, fault)))


def case_named(name: str) -> Case:
    """The case of this name.

    Raises:
        ValueError: there is none; the text says what is unknown.
    """
    scenario, _, planted = name.partition("/")
    if scenario not in {known.name for known in SCENARIOS}:
        raise ValueError(f"no scenario is called {scenario!r}")
    points = bare(scenario).points
    plants: tuple[Plant, ...] = ()
    for number, part in enumerate(planted.split("+")):
        if number:
            points = Case(scenario, plants).live().points
        plants = (*plants, _plant(part, points))
    return Case(scenario, plants)


def _plant(part: str, points: tuple[Point, ...]) -> Plant:
    number, _, name = part.partition("/")
    faults = {fault.name: fault for fault in FAULTS}
    if not number.isdigit() or not 1 <= int(number) <= len(points):
        raise ValueError(f"expected a dispatch point from 1 to {len(points)}, found {number!r}")
    if name not in faults:
        raise ValueError(f"no fault is called {name!r}")
    return Plant(points[int(number) - 1], faults[name])


def kinds() -> frozenset[tuple[OperationKind, bool]]:
    """Every operation, as it may be dispatched: what makes something also adopt-only."""
    adopting = {OperationKind.CREATE_LEASE, OperationKind.START_BOOTSTRAP}
    return frozenset(
        {(kind, False) for kind in OperationKind} | {(kind, True) for kind in adopting}
    )

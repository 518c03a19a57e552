"""Every operation, adopt-only ones too, under every fault: the fixed part of the enumeration.

For each operation and fault there is one case here, at a dispatch point at which the fault finds
something to strike at.  The whole, and pairs of faults: `python -m tests.dispatch_points`.
"""

import pytest

from cluster_reconciler.messages import OperationKind
from tests.dispatch_points.cases import FAULTS, FIXED, Case, case_named, fixed_cases, kinds
from tests.dispatch_points.life import bare
from tests.dispatch_points.planting import Family, Where
from tests.dispatch_points.scenarios import SCENARIOS
from tests.dispatch_points.world import Point

pytestmark = pytest.mark.usefixtures("quiet_log")

KINDS = sorted(kinds())
ENDED = (Where.ANSWERED, Where.UNDERWAY)
WITHOUT_SESSION: dict[tuple[OperationKind, bool], tuple[Where, ...]] = {
    (OperationKind.CREATE_LEASE, False): tuple(Where),
    (OperationKind.CREATE_LEASE, True): tuple(Where),
    (OperationKind.LOOKUP_ENDPOINT, False): tuple(Where),
    (OperationKind.START_BOOTSTRAP, False): (Where.BEFORE, Where.AFTER),
    (OperationKind.START_BOOTSTRAP, True): (),
    (OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED, False): ENDED,
    (OperationKind.CANCEL_BOOTSTRAP, False): ENDED,
    (OperationKind.DESTROY_LEASE, False): tuple(Where),
}
"""When, around such an operation, no session is alive that could close, fail or join."""


def lived(cases: tuple[Case, ...]) -> str | None:
    """What is wrong with the first of the cases in which the fault strikes, and the command that
    replays it, or that it never strikes; None: nothing is wrong."""
    for case in cases:
        try:
            if case.live().struck:
                return None
        except Exception as error:  # noqa: BLE001 - whatever it is, the case has failed
            return f"{error}\nreplay: python -m tests.dispatch_points --case {case.name}"
    return f"never strikes: {cases[0].plants[0].fault.name}"


@pytest.mark.parametrize(("kind", "adopt_only"), KINDS)
def test_no_fault_at_an_operation_leaks_doubles_wedges_or_alarms(
    kind: OperationKind, adopt_only: bool
) -> None:
    wrong = [lived(cases) for cases in fixed_cases(kind, adopt_only=adopt_only)]

    # then only what needs a living session finds nothing to strike at, where there is none
    idle = [
        f"never strikes: session-{how}-{where}"
        for how in ("closes", "fails", "joins")
        for where in WITHOUT_SESSION[kind, adopt_only]
    ]
    assert sorted(text for text in wrong if text) == sorted(idle)


def test_the_scenarios_reach_every_operation_also_where_it_only_adopts() -> None:
    points = [point for scenario in SCENARIOS for point in bare(scenario.name).points]
    assert sorted({(point.kind, point.adopt_only) for point in points}) == KINDS


def test_every_fault_stands_at_every_operation_that_it_fits() -> None:
    # given what the suite enumerates, at points of the operations that they are said to be of
    enumerated: set[tuple[OperationKind, bool, str]] = set()
    points: list[Point] = []
    for kind, adopt_only in KINDS:
        for cases in fixed_cases(kind, adopt_only=adopt_only):
            enumerated.add((kind, adopt_only, cases[0].plants[0].fault.name))
            points += [case.plants[0].point for case in cases]

    # then it is all that can be, and a new operation or fault would be missed here
    assert enumerated == {
        (point.kind, point.adopt_only, fault.name)
        for scenario in SCENARIOS
        for point in bare(scenario.name).points
        for fault in FAULTS
        if fault.fits(point) and (point.adopt_only or not point.looks)
    }
    assert sorted({(point.kind, point.adopt_only) for point in points}) == KINDS == sorted(FIXED)
    assert {fault.family for fault in FAULTS} == set(Family)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_a_case_is_found_again_by_its_name_a_pair_as_well() -> None:
    names = ("one-node/2/reply-lost", "one-node/1/reply-lost+3/shape-to-zero-after")
    assert tuple(case_named(name).name for name in names) == names
    assert case_named(names[1]).live().struck == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-node/1/reply-lost", "no scenario is called 'no-node'"),
        ("one-node/5/reply-lost", "expected a dispatch point from 1 to 4, found '5'"),
        ("one-node/1/reply-found", "no fault is called 'reply-found'"),
    ],
)
def test_what_is_no_case_is_named(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        case_named(name)

"""Each deliberate staleness fault is caught: which proof catches which, and what production does.

The faults are in `stale_faults`.  A proof that is not named beside a fault does not reach it, or
only in a longer run: what the driver is not told is no matter of the decider's tests; the driver
applies all that it plans, so that what was planned and not done is rare in a life; all shapes of
the search have one limit; a cancel that fails until it gives way, while others wait, is rare.
"""

import inspect
import random
from collections.abc import Callable

import pytest

from cluster_reconciler.actors.events import EventKind
from tests import test_decider_incremental_pitfalls, test_decider_incremental_places
from tests.decider_world import Step
from tests.dispatch_points.cases import singles
from tests.planning_counts import planning_of
from tests.search.place import one_node, two_nodes
from tests.search.search import Search
from tests.simulation.running import Mode, run
from tests.simulation.schedule import draw
from tests.stale_faults import STALE_FAULTS
from tests.test_decider_incremental import (
    MADE,
    NAMES,
    Act,
    Judge,
    MadeStates,
    Plan,
    Put,
    Take,
    Wait,
    Want,
    WatchedWorld,
)
from tests.unwatched_lives import LIVES, Unwatched, eventful, giving_way, short_of_ids

pytestmark = pytest.mark.usefixtures("quiet_log")

DIFFERS = "a defect: the plan of what changed is not that of all: "


# -- the proofs, short ----------------------------------------------------------------------------


def pitfalls() -> None:
    """The unit tests, pitfall by pitfall."""
    for module in (test_decider_incremental_pitfalls, test_decider_incremental_places):
        for name, test in vars(module).items():
            if name.startswith("test_") and not inspect.signature(test).parameters:
                test()


def traces() -> None:
    """Histories of the pure world, as `test_decider_incremental` has them."""
    chance = random.Random(1)
    steps = [*Step, Step.PASS, Step.PASS, Step.PASS, Step.ANSWER, Step.ANSWER, Step.JOIN]
    for _ in range(60):
        world = WatchedWorld(set(range(0, 100, 3)), first_attempt=1)
        world.run([(chance.choice(steps), chance.randrange(12)) for _ in range(100)])


def states() -> None:
    """Nodes in any state, from the same file."""
    chance = random.Random(1)
    for _ in range(60):
        made = MadeStates()
        for _ in range(60):
            made.take(_drawn(chance), 1)


def _drawn(chance: random.Random) -> Act:
    node = chance.choice(NAMES)
    return chance.choice(
        (
            Put(node, chance.randrange(len(MADE)), chance.randrange(3)),
            Put(node, chance.randrange(len(MADE)), 0),
            Take(node),
            Wait(chance.choice((0, 1, 1, 50))),
            Want(
                chance.choice(((2, 2), (2, 2), (3, 1))),
                chance.choice(("", "another command")),
                (chance.randrange(1, 4), 1),
            ),
            Plan(),
            Plan(),
            Plan(),
            Judge(),
        )
    )


def simulation() -> None:
    """The first lives of all."""
    for seed in range(60):
        failure = run(draw(seed), Mode.SAFETY, plans_alone=True).failure
        assert failure is None, failure


def search() -> None:
    """One node, then two that have one place."""
    Search(one_node(2), states_max=6_000).run()
    Search(two_nodes(1, 1), states_max=6_000).run()


def dispatch_points() -> None:
    """One node, and two of which one waits."""
    for scenario in ("in-flight-one", "one-node"):
        for case in singles(scenario):
            case.live()


Proof = Callable[[], None]
ALL = (pitfalls, traces, states, simulation, search, dispatch_points)
CAUGHT_BY: dict[str, tuple[Proof, ...]] = {
    "untold join": (simulation, search, dispatch_points),
    "backoff": (pitfalls, traces, states, simulation, search),
    "cancel deadline": (pitfalls, simulation),
    "taken for done": (pitfalls, traces, states, search),
    "place": ALL,
    "overdue": (pitfalls, states, simulation, search, dispatch_points),
    "spec": ALL,
    "stale entry": ALL,
    "limit": (pitfalls, traces, states, simulation, dispatch_points),
}


@pytest.mark.parametrize(
    ("fault", "proof"),
    [
        pytest.param(fault, proof, id=f"{fault}, by {proof.__name__}")
        for fault, proofs in CAUGHT_BY.items()
        for proof in proofs
    ],
)
def test_a_stale_decision_is_caught(
    fault: str, proof: Proof, monkeypatch: pytest.MonkeyPatch
) -> None:
    STALE_FAULTS[fault].plant(monkeypatch.setattr)

    with pytest.raises(Exception) as caught:  # noqa: PT011 - each proof objects in its way
        proof()
    print(f"{type(caught.value).__name__}: {str(caught.value)[:300]}")


@pytest.mark.parametrize("proof", [pitfalls, traces, states])
def test_without_a_fault_nothing_is_caught(proof: Proof) -> None:
    # Of the others the suite shows it, and the build.
    proof()


def test_every_fault_is_caught_by_something() -> None:
    assert CAUGHT_BY.keys() == STALE_FAULTS.keys()


# -- production -----------------------------------------------------------------------------------


LIFE_OF = dict.fromkeys(STALE_FAULTS, eventful) | {
    "taken for done": short_of_ids,
    "cancel deadline": giving_way,
}
"""The life in which a fault matters."""


@pytest.mark.parametrize("fault", STALE_FAULTS)
def test_in_production_the_tick_notices_it_and_the_cluster_converges_all_the_same(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    STALE_FAULTS[fault].plant(monkeypatch.setattr)

    world = LIFE_OF[fault]()

    # then each difference that a tick has met is told with both plans, and the full plan has led
    # the cluster to what was asked for last, with nothing left beside it
    planning = planning_of(world.cluster)
    warnings = [e.text for e in world.cluster.events if e.kind is EventKind.WARNING]
    told = [text for text in warnings if text.startswith(DIFFERS)]
    print(f"{planning.differences} of {planning.compared}: {told[:1]}")
    assert planning.differences == len(told) > 0
    assert world.cluster.converged
    assert world.live == {world.identity("g-0"), world.identity("g-1")}


@pytest.mark.parametrize("life", LIVES)
def test_the_same_life_without_a_fault_says_nothing_of_a_difference(
    life: Callable[[], Unwatched],
) -> None:
    world = life()

    told = [e.text for e in world.cluster.events if e.text.startswith(DIFFERS)]
    assert (told, planning_of(world.cluster).differences) == ([], 0)
    assert planning_of(world.cluster).compared >= 8
    assert world.cluster.converged

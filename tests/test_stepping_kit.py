"""The public test kit itself: it fails when something is wrong, and refuses what it cannot do."""

from datetime import datetime, timedelta

import pytest

from cluster_reconciler.actors import DriverDied
from cluster_reconciler.actors.stepping import InvariantBroken, SteppingCluster
from cluster_reconciler.actors.stepping_words import (
    NO_JITTER,
    T0,
    Submitting,
    at,
    cluster,
    group,
    ready,
    shape,
)
from cluster_reconciler.decider import ManagedNode
from cluster_reconciler.messages import PlannedEffect


def test_a_broken_invariant_fails_the_test_that_drives(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a cluster in which the next check finds something
    c = cluster()

    def finds(*_values: object, **_named: object) -> None:
        raise AssertionError("g-0: two leases")

    monkeypatch.setattr("cluster_reconciler.actors.invariant_guard.check_change", finds)

    # Then whoever drives it hears of it, though the driver of a host would go on
    with pytest.raises(InvariantBroken, match="g-0: two leases"):
        c.drive()


def test_a_cluster_without_checks_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def finds(*_values: object, **_named: object) -> None:
        raise AssertionError("not asked for")

    monkeypatch.setattr("cluster_reconciler.actors.invariant_guard.check_change", finds)
    c = SteppingCluster(shape(), retry=NO_JITTER, start=T0, check_invariants=False)

    assert len(c.drive()) == 1


@pytest.mark.parametrize("end", [SystemExit(3), GeneratorExit(), BaseException("a thread's end")])
def test_a_driver_that_was_killed_says_so(end: BaseException) -> None:
    def kill(_effect: PlannedEffect) -> None:
        raise end

    c = SteppingCluster(shape(), retry=NO_JITTER, start=T0, executor=Submitting(kill))

    for _ in range(2):
        with pytest.raises(DriverDied, match="actor driver died"):
            c.drive()


def test_a_time_that_goes_back_is_refused() -> None:
    c = cluster()

    for wait in (-1, timedelta.min, timedelta(microseconds=-1)):
        with pytest.raises(ValueError, match="the clock cannot go back: asked to advance by"):
            c.advance(wait)

    with pytest.raises(ValueError, match="found nan"):
        c.advance(float("nan"))
    assert c.now == T0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"safety_tick": timedelta(0)},
            r"number of seconds above 0, found datetime.timedelta\(0\)",
        ),
        ({"safety_tick": timedelta(-1)}, r"above 0, found datetime.timedelta\(days=-1\)"),
        ({"first_attempt": 0}, "first_attempt must be at least 1, found 0"),
        ({"start": datetime(2026, 1, 1)}, "start must be an aware time, found the naive 2026"),  # noqa: DTZ001
    ],
)
def test_a_kit_that_could_not_work_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SteppingCluster(shape(), **wrong)  # type: ignore[arg-type]


def test_the_checks_cost_what_changes_and_not_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not timed: counted.  A message about one node looks at that node."""
    c = SteppingCluster(shape(group(count=50)), retry=NO_JITTER, start=T0)
    creates = c.drive()
    looked_at: list[str] = []

    def counts(node_id: str, _node: ManagedNode, _next: int) -> None:
        looked_at.append(node_id)

    monkeypatch.setattr("cluster_reconciler.actors.invariant_guard.check_node", counts)
    c.fail(creates[0], "sold out")
    c.step()

    assert looked_at == ["g-0"]


def test_ready_at_once_for_those_who_need_a_ready_cluster() -> None:
    c = cluster()
    ready(c)
    assert (c.converged, c.now) == (True, at(0))

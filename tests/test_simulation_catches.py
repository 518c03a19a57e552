"""The simulation can fail: each fault that is planted here is found within a few seeds.

Three layers are broken in turn: decider, executors with their ledger, driver.  The unbroken product
passes the same seeds (`test_simulation`), so that what is found is the planted fault.
"""

import shlex
from collections.abc import Callable
from datetime import datetime

import pytest

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.decider import (
    Insert,
    ManagedNode,
    NodeAction,
    Restart,
    results,
    steps,
    transitions,
)
from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.executors.attempt import Attempt
from cluster_reconciler.messages import (
    OperationId,
)
from tests.planted_faults import FAULTS
from tests.simulation.command import main
from tests.simulation.oracle import Oracle
from tests.simulation.report import failure_text
from tests.simulation.running import Mode, Outcome, run
from tests.simulation.schedule import draw
from tests.simulation.shrink import shrink
from tests.simulation.world import SimulatedWorld

pytestmark = pytest.mark.usefixtures("quiet_log")

SEEDS = 60


def first_failure(mode: Mode = Mode.SAFETY) -> Outcome:
    for seed in range(SEEDS):
        outcome = run(draw(seed), mode)
        if outcome.failure is not None:
            return outcome
    raise AssertionError(f"{SEEDS} seeds found nothing in {mode}")


Plant = Callable[[pytest.MonkeyPatch], None]


def _shared(name: str) -> Plant:
    """One of `planted_faults`."""
    return lambda patch: FAULTS[name].plant(patch.setattr)


def _everything_is_clean(patch: pytest.MonkeyPatch) -> None:
    """Decider: a node that still holds a lease counts as cleaned up."""

    def yes(_node: ManagedNode) -> bool:
        return True

    patch.setattr(steps, "holds_nothing", yes)
    patch.setattr(transitions, "holds_nothing", yes)


def _nothing_is_ambiguous(patch: pytest.MonkeyPatch) -> None:
    """Decider: a create whose outcome nobody knows counts as one that made nothing."""

    def unchanged(node: ManagedNode, *_others: object) -> ManagedNode:
        return node

    patch.setattr(results, "_ambiguous", unchanged)


def _no_backoff(patch: pytest.MonkeyPatch) -> None:
    """Decider: a restart does not wait for its deadline."""

    def always(_deadline: datetime | None, _now: datetime) -> bool:
        return True

    patch.setattr(steps, "due", always)


def _absence_is_always_conclusive(patch: pytest.MonkeyPatch) -> None:
    """Executors: a machine that does not show yet counts as one that is not there."""
    before = Holding.not_seen

    def at_once(
        holding: Holding[object], asked_at: datetime, settle_time: object
    ) -> tuple[Holding[object], bool]:
        found, _ = before(holding, asked_at, settle_time)  # type: ignore[arg-type]
        return Holding(gone=found.gone), True

    patch.setattr(Holding, "not_seen", at_once)


def _whatever_expires_was_never_run(patch: pytest.MonkeyPatch) -> None:
    """Ledger: an operation that runs is said to be withdrawn."""

    def withdrawn(_attempt: Attempt, _operation: OperationId) -> bool:
        return True

    patch.setattr(Attempt, "withdraw", withdrawn)


def _no_deadline_is_watched(patch: pytest.MonkeyPatch) -> None:
    """Driver: the deadline of a newly dispatched operation wakes nobody."""
    before = Driver._apply

    def silent(driver: Driver, action: NodeAction, now: datetime) -> None:
        before(driver, action, now)

    patch.setattr(Driver, "_apply", silent)


def _a_pass_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Driver: what is observed queues no pass; only ticks and deadlines do."""
    before = Driver._fold

    def idle(driver: Driver, *news: object) -> None:
        queued = driver.queued
        driver.queued = True
        before(driver, *news)  # type: ignore[arg-type]
        driver.queued = queued

    patch.setattr(Driver, "_fold", idle)


def _a_step_waits_for_the_tick(patch: pytest.MonkeyPatch) -> None:
    """Driver: an Insert or Restart queues no pass, so that the safety tick makes the next step."""
    before = Driver._apply

    def lazy(driver: Driver, action: NodeAction, now: datetime) -> datetime | None:
        if not isinstance(action, Insert | Restart):
            return before(driver, action, now)
        queued, driver.queued = driver.queued, True
        deadline = before(driver, action, now)
        driver.queued = queued
        return deadline

    patch.setattr(Driver, "_apply", lazy)


def _it_drains_and_goes_on(patch: pytest.MonkeyPatch) -> None:
    """Driver: after a drain other shapes are taken as before."""
    before = Driver.drain

    def drain(driver: Driver) -> int:
        generation = before(driver)
        driver._draining = False
        return generation

    patch.setattr(Driver, "drain", drain)


LEAK = "machines that nobody knows of"
LEFT_TO_A_TICK = "at rest until the next tick"
PLANTED: dict[str, tuple[Plant, Mode, str]] = {
    "memory": (_shared("memory"), Mode.SAFETY, LEAK),
    "driver": (_shared("driver"), Mode.SAFETY, "news of attempt"),
    "cleanup": (_everything_is_clean, Mode.SAFETY, "MarkDestroyed, not cleaned up"),
    "ambiguity": (_nothing_is_ambiguous, Mode.SAFETY, LEAK),
    "backoff": (_no_backoff, Mode.SAFETY, "not due before"),
    "absence": (_absence_is_always_conclusive, Mode.SAFETY, LEAK),
    "withdrawal": (_whatever_expires_was_never_run, Mode.SAFETY, LEAK),
    "deadline": (_no_deadline_is_watched, Mode.SAFETY, "nobody would notice"),
    "pass": (_a_pass_is_forgotten, Mode.LIVENESS, LEFT_TO_A_TICK),
    "step": (_a_step_waits_for_the_tick, Mode.SAFETY, LEFT_TO_A_TICK),
}
"""The fault, the mode that finds it, and what is said then."""


@pytest.mark.parametrize(("plant", "mode", "said"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_found(
    plant: Plant, mode: Mode, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    failure = first_failure(mode).failure
    assert failure is not None
    assert said in failure.text


def test_a_driver_that_takes_a_shape_after_its_drain_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given lives that drain, and a driver that goes on as before after that
    lives = [life for life in map(draw, range(120)) if any(m.name == "drain" for m in life.moves)]
    _it_drains_and_goes_on(monkeypatch)

    # Then the first of them that is offered something after its drain fails
    failures = (run(life, Mode.SAFETY).failure for life in lives)
    found = next(failure for failure in failures if failure is not None)
    assert found.text.startswith("planned after the drain: Insert(")


def test_a_shape_that_is_desired_after_the_drain_is_no_rest() -> None:
    world = SimulatedWorld(draw(3))
    oracle = Oracle(world)
    world.settle()
    world.drained = True
    with pytest.raises(AssertionError, match=r"^drained, and .* are desired"):
        oracle.check()
    world.close()


def test_what_is_found_is_shrunk_told_and_replayed_by_one_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a life that fails because the carrier forgets what may exist
    FAULTS["memory"].plant(monkeypatch.setattr)
    found = first_failure()

    # When it is shrunk, and what is told of it is done
    shrunk = shrink(found, seconds=20)
    told = failure_text(shrunk, None)
    command = shlex.split(told.splitlines()[-1])
    assert main(command[3:]) == 1
    again = capsys.readouterr().out

    # Then little is left of it, and that fails in the same way, told in the same words
    assert shrunk.outcome.failure is not None
    assert len(shrunk.moves) + len(shrunk.faults) <= 8
    assert told.startswith(f"FAILED: seed {found.life.seed}, mode safety, during ")
    assert without_runs(again)[: len(without_runs(told))] == without_runs(told)


def without_runs(text: str) -> list[str]:
    """All lines but the one that says how many runs the shrinking took."""
    return [line for line in text.splitlines() if not line.startswith("  shrunk in")]

"""The real driver among every fault, traced and replayed: equal at each message, whatever came.

The faults are those of the simulation (`tests.simulation`), one seed for each life.
"""

import itertools
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import msgspec
import pytest

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.ports import UpdateRetry
from cluster_reconciler.actors.replay import Replay
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.actors.trace import (
    OpaqueMessage,
    TraceHeader,
    TraceLine,
    read_trace,
)
from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    ManagedNode,
    ReconcilePlan,
    RetryPolicy,
    observe,
    reconcile,
)
from cluster_reconciler.messages import (
    ClusterShape,
    CreateLease,
    DeadlineDue,
    Drain,
    ExecutorResult,
    LeaseDestroyed,
    LogicalNodeId,
    NodeAttemptId,
    NodeLost,
    NodeObservation,
    NodeObserved,
    OperationId,
    PlannedEffect,
    RunId,
    RunPass,
    SafetyTick,
    Trigger,
    UpdateDesired,
)
from tests.planning_kit import plan_by
from tests.replay_kit import fresh_seed, proved, trace_world
from tests.simulation.acts import act
from tests.simulation.schedule import draw
from tests.simulation.world import SimulatedWorld
from tests.trace_kit import Recording, random_life

pytestmark = pytest.mark.usefixtures("quiet_log")

FIXED = (1, 2, 3, 5, 8, 13)
NODE, NOBODY = LogicalNodeId("g-0"), LogicalNodeId("nobody-9")
OPERATION = OperationId(NodeAttemptId(1), 1)


def life_of(seed: int, path: Path) -> None:
    """A life of the simulation with all its faults, traced."""
    life = draw(seed)
    world = SimulatedWorld(life)
    writer = trace_world(world, path, life.retry)
    try:
        world.settle()
        for move in life.moves:
            due = (life.start - world.now) + timedelta(seconds=move.at)
            world.run(max(0.0, due.total_seconds()))
            act(world, move)
            world.settle()
        world.run(600)
    finally:
        world.close()
        writer.close()


@pytest.mark.parametrize("seed", [*FIXED, None])
def test_a_life_among_every_fault_replays_equal_at_every_message(
    tmp_path: Path, seed: int | None
) -> None:
    fresh = seed is None
    seed = fresh_seed(__file__, "every_fault") if seed is None else seed
    path = tmp_path / "life.jsonl"

    life_of(seed, path)

    replayed = proved(path)
    # Of a life that nobody has seen nothing is known but that it is one.
    assert replayed.plans_compared > (0 if fresh else 5)
    assert replayed.checked > (0 if fresh else 30)


def test_a_life_of_every_kind_of_message_replays_equal(tmp_path: Path) -> None:
    # Given a world whose driver gets, at random, everything that it may and may not be told
    path = tmp_path / "life.jsonl"
    dice = random.Random(4)
    policy = RetryPolicy(jitter=0.5, seed=9)
    world = SteppingWorld(shape(group(count=4)), retry=policy)
    writer = trace_world(world, path, policy)
    generation = 1
    for _ in range(150):
        generation += dice.random() < 0.1
        message = dice.choice(every_message(generation, dice))
        world.cluster.tell(message)
        world.run(dice.choice((0, 0.3, 2, 40)))
    world.close()
    writer.close()

    # Then all of it is equal, and what is no message of the driver stands there by its name alone
    replayed = proved(path)
    lines = [line for line in read_trace(path) if isinstance(line, TraceLine)]
    opaque = {
        line.message.message_type for line in lines if isinstance(line.message, OpaqueMessage)
    }
    assert replayed.checked == len(lines) + 1
    assert {type(line.message) for line in lines} >= {
        UpdateDesired, UpdateRetry, NodeObserved, ExecutorResult, RunPass, OpaqueMessage,
    }  # fmt: skip
    assert opaque >= {"str", "NodeObserved", "ExecutorResult", "UpdateRetry", "UpdateDesired"}


def every_message(generation: int, dice: random.Random) -> list[object]:
    """Sound, stale, refused and senseless ones."""
    lost = NodeLost("its power failed")
    attempt = NodeAttemptId(dice.randint(1, 9))
    return [
        Trigger(),
        SafetyTick(),
        DeadlineDue(),
        DeadlineDue(judged=True),
        NodeObserved(NODE, attempt, lost),
        NodeObserved(NOBODY, attempt, lost),
        ExecutorResult(NODE, OPERATION, LeaseDestroyed()),
        ExecutorResult(NODE, OPERATION),
        UpdateRetry(RetryPolicy(jitter=dice.random(), seed=dice.randint(1, 99))),
        UpdateDesired(shape(group(count=dice.randint(1, 5)), generation=generation)),
        UpdateDesired(shape(group(count=2), generation=0)),
        UpdateDesired(ClusterShape(RunId(999), 99, ())),
        # Now what no type allows.
        "a word",
        None,
        NodeObserved(NODE, attempt, cast("NodeLost", "gone")),
        NodeObserved(NODE, attempt, NodeLost(cast("str", b"bytes"))),
        NodeObserved(NODE, attempt, NodeLost("\ud800")),
        NodeObserved(cast("LogicalNodeId", 5), attempt, lost),
        ExecutorResult(NODE, cast("OperationId", "op(1,1)"), LeaseDestroyed()),
        ExecutorResult(NODE, OPERATION, LeaseDestroyed(cast("bool", float("nan")))),
        UpdateRetry(cast("RetryPolicy", None)),
        UpdateRetry(cast("RetryPolicy", "soon")),
        UpdateDesired(cast("ClusterShape", {"run_id": 7})),
        UpdateDesired(ClusterShape(RunId(7), cast("int", "1"), ())),
    ]


def test_a_drain_and_what_comes_after_it_replay_equal(tmp_path: Path) -> None:
    path = tmp_path / "life.jsonl"
    policy = RetryPolicy(seed=3)
    world = SteppingWorld(shape(group(count=3)), retry=policy)
    writer = trace_world(world, path, policy)
    world.run(30)
    world.cluster.tell(Drain())
    world.cluster.tell(UpdateDesired(shape(group(count=9), generation=9)))
    world.run(300)
    world.close()
    writer.close()

    assert proved(path).state.nodes == {}


@pytest.mark.parametrize("seed", range(6))
def test_executors_that_refuse_and_withdraw_replay_equal(tmp_path: Path, seed: int) -> None:
    proved(random_life(tmp_path / "life.jsonl", seed))


def test_what_an_executor_raises_when_asked_to_withdraw_is_part_of_the_log(tmp_path: Path) -> None:
    # Given executors that fail when they are asked to take something back
    run = Recording(tmp_path / "life.jsonl", shape())

    def fails(operation: OperationId) -> bool:
        raise OSError(f"no way to {operation}")

    run.effects.withdraw = fails  # type: ignore[method-assign]
    run.effects.expire = fails  # type: ignore[method-assign]

    # When an operation expires, and one is to be withdrawn
    run.begin()
    run.wait(200)
    run.tell(UpdateDesired(shape(group(count=0), generation=2)))
    path = run.close()

    # Then it is replayed, words and all
    proved(path)
    lines = [line for line in read_trace(path) if isinstance(line, TraceLine)]
    raised = [a.raised for line in lines for a in line.answers if a.raised is not None]
    assert raised
    assert set(raised) == {f"no way to {a.operation}" for x in lines for a in x.answers if a.raised}


def broken_pass(run: Recording) -> None:
    """A pass of this run's driver raises, once."""
    driver, plan_and_apply = run.driver, run.driver._plan_and_apply

    def raising() -> None:
        driver._plan_and_apply = plan_and_apply  # type: ignore[method-assign]
        raise ZeroDivisionError("a defect")

    driver._plan_and_apply = raising  # type: ignore[method-assign]


def test_a_defect_that_only_the_run_had_is_told_as_such(tmp_path: Path) -> None:
    # Given a run in which one pass raised, by something that no message holds
    run = Recording(tmp_path / "life.jsonl", shape())
    broken_pass(run)
    run.tell(SafetyTick())
    run.tell(SafetyTick())
    path = run.close()
    header, *lines = read_trace(path)
    assert isinstance(header, TraceHeader)

    # When it is replayed
    replayed = Replay(header)
    for line in lines:
        assert isinstance(line, TraceLine)
        replayed.feed(line)

    # Then that pass is the first difference, and both ends of it are told
    assert replayed.difference is not None
    found = msgspec.structs.astuple(replayed.difference)
    assert found == (
        3, lines[1].sequence,  # type: ignore[union-attr]
        "in the run the driver raised ZeroDivisionError: a defect, in the replay it returned",
        None, "raised", "raised ZeroDivisionError: a defect", "returned",
    )  # fmt: skip


def test_a_defect_that_the_replay_meets_as_well_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a decider that fails whenever a node was lost
    def failing(state: ClusterState, desired: ExpandedShape, now: datetime) -> ReconcilePlan:
        if any(node.record.failed_at is not None for node in state.nodes.values()):
            raise ZeroDivisionError("a defect")
        return reconcile(state, desired, now)

    plan_by(monkeypatch, failing)

    # When a run meets that, and goes on
    run = Recording(tmp_path / "life.jsonl", shape())
    [create] = run.begin()
    run.settle([create])
    run.lose(create, "its power failed")
    run.tell(Trigger())
    path = run.close()

    # Then its replay meets it at the same messages
    lines = [line for line in read_trace(path) if isinstance(line, TraceLine)]
    assert [line.raised for line in lines].count("ZeroDivisionError: a defect") == 2
    replayed = proved(path)
    assert replayed.checked == len(lines) + 1


def replayed_difference(path: Path) -> tuple[str, str | None, str]:
    """The message that differs first, the node, and the field; it must be the only thing told."""
    header, *lines = read_trace(path)
    assert isinstance(header, TraceHeader)
    replayed = Replay(header)
    for line in lines:
        assert isinstance(line, TraceLine)
        replayed.feed(line)
        if replayed.difference is not None:
            return type(line.message).__name__, replayed.difference.node, replayed.difference.field
    raise AssertionError("the replay is equal")


def test_a_decider_that_looks_at_a_clock_of_its_own_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a planted fault: a plan depends on how often it was asked for
    ticks = itertools.count()

    def hasty(state: ClusterState, desired: ExpandedShape, now: datetime) -> ReconcilePlan:
        plan = reconcile(state, desired, now)
        if plan.requeue_at is None:
            return plan
        drift = timedelta(microseconds=next(ticks))
        return msgspec.structs.replace(plan, requeue_at=plan.requeue_at + drift)

    plan_by(monkeypatch, hasty)
    run = Recording(tmp_path / "life.jsonl", shape())
    [create] = run.begin()
    run.fail(create, "sold out")
    run.wait(5)

    # Then the replay, which asks anew, sees that
    assert replayed_difference(run.close()) == ("RunPass", None, "plan.requeue_at")


def test_a_fold_that_draws_by_chance_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a planted fault: what a failure leads to is drawn, and no message holds the draw
    draws = itertools.count(1)

    def drawing(
        node: ManagedNode, observation: NodeObservation, now: datetime, policy: RetryPolicy
    ) -> ManagedNode:
        seed = policy.seed + next(draws)
        return observe(node, observation, now, msgspec.structs.replace(policy, seed=seed))

    monkeypatch.setattr("cluster_reconciler.actors.driver.fold", drawing)
    run = Recording(tmp_path / "life.jsonl", shape(), RetryPolicy(jitter=1.0, seed=1))
    [create] = run.begin()
    run.fail(create, "sold out")

    assert replayed_difference(run.close()) == ("ExecutorResult", "g-0", "retry.next_effect_at")


def test_a_driver_that_submits_another_effect_than_it_planned_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a planted fault: the first effect that is submitted is not the one of the plan
    submit, wrong = Driver._submit, itertools.count()

    def careless(driver: Driver, effect: PlannedEffect) -> None:
        if next(wrong) == 0 and isinstance(effect.command, CreateLease):
            command = msgspec.structs.replace(effect.command, adopt_only=True)
            effect = msgspec.structs.replace(effect, command=command)
        submit(driver, effect)

    monkeypatch.setattr(Driver, "_submit", careless)
    run = Recording(tmp_path / "life.jsonl", shape())
    run.begin()

    assert replayed_difference(run.close()) == ("RunPass", "g-0", "effects")

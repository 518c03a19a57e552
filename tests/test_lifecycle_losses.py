"""Lifecycle cases L33, L34, L38-L42 (cases.md) on the real driver, stepped."""

from datetime import timedelta

from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import (
    JOINED,
    LEASED,
    NO_JITTER,
    SESSION,
    T0,
    Submitting,
    answer,
    bootstrapping,
    closed_queue,
    cluster,
    group,
    node,
    op,
    ready,
    seen,
    shape,
    version,
)
from cluster_reconciler.decider import (
    END_OF_TIME,
    RetryPolicy,
)
from cluster_reconciler.messages import (
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapStage,
    BootstrapStarted,
    CreateLease,
    DestroyLease,
    EffectError,
    ExecutorResult,
    LeaseDestroyed,
    NodeLost,
    PlannedEffect,
    StartBootstrap,
)

# -- losses ---------------------------------------------------------------------------------------


def test_l33_a_loss_counts_once_and_only_for_its_attempt() -> None:
    c = cluster()
    ready(c)
    [destroy] = seen(c, NodeLost("heartbeat"))
    once = node(c)
    seen(c, NodeLost("heartbeat"))
    assert node(c) == once
    assert once.retry.consecutive_failures == 1
    answer(c, destroy, LeaseDestroyed())
    c.advance(1)
    before = node(c)
    assert before.attempt == 2
    seen(c, NodeLost("late"), attempt=1)
    assert node(c) == before


def test_l34_cancelled_on_an_active_node_fails_the_attempt() -> None:
    c = cluster()
    bootstrapping(c)
    [destroy] = seen(c, BootstrapObserved(SESSION, BootstrapStage.CANCELLED))
    assert isinstance(destroy.command, DestroyLease)
    assert node(c).record.failed_at == T0


# -- the clock, and spinning ----------------------------------------------------------------------


def test_l38_progress_near_the_end_of_time() -> None:
    c = cluster(start=END_OF_TIME - timedelta(seconds=20))
    dispatched = c.drive()
    while len(dispatched) < 8:
        c.fail(dispatched[-1], "sold out")
        more = [*c.drive(), *c.advance(10)]
        assert more
        dispatched.extend(more)
    assert [effect.operation.sequence for effect in dispatched[:8]] == list(range(1, 9))


def test_l39_no_delay_and_every_submission_refused_does_not_spin() -> None:
    c = SteppingCluster(
        shape(),
        retry=RetryPolicy(initial_delay=timedelta(0), jitter=0.0),
        start=T0,
        executor=Submitting(closed_queue),
    )
    c.drive()
    assert c.requeue_at == T0 + timedelta(milliseconds=10)


def test_l40_nothing_due_is_left_after_a_drive() -> None:
    c = cluster(shape(group(count=3)))
    for seconds in (0, 1, 119, 1, 1, 3, 120, 600):
        c.advance(seconds)
        c.drive()
        assert c.requeue_at is None or c.requeue_at > c.now


def test_l41_a_failure_while_deleting_for_a_new_spec_delays_nothing() -> None:
    c = cluster(version(1))
    bootstrapping(c)
    c.update_desired(version(2))
    [cancel] = c.drive()
    assert seen(c, BootstrapFailed(SESSION, "exit code 1")) == []
    [destroy] = answer(c, cancel, BootstrapCancelled())
    [create] = answer(c, destroy, LeaseDestroyed())
    assert create.operation == op(2, 1)
    assert node(c).retry.consecutive_failures == 0


def test_l42_an_answer_that_submit_returns_is_one_too() -> None:
    class Returning:
        def submit(self, effect: PlannedEffect) -> ExecutorResult:
            outcome = LEASED if isinstance(effect.command, CreateLease) else None
            error = None if outcome else EffectError("no such image")
            return ExecutorResult(effect.node, effect.operation, outcome, error)

    c = SteppingCluster(shape(), retry=NO_JITTER, start=T0, executor=Returning())
    [create, start, destroy] = c.drive()
    assert [type(e.command) for e in (create, start, destroy)] == [
        CreateLease,
        StartBootstrap,
        DestroyLease,
    ]
    assert node(c).record.failed_reason == "no such image"


def test_l42_instant_answers_do_not_loop() -> None:
    def at_once(effect: PlannedEffect) -> None:
        match effect.command:
            case CreateLease():
                c.succeed(effect, LEASED)
            case StartBootstrap():
                c.succeed(effect, BootstrapStarted(SESSION))
                c.observe("g-0", 1, JOINED)
            case BootstrapConvergenceObserved():
                c.succeed(effect, BootstrapConvergenceAccepted())
            case _:
                raise AssertionError(effect)

    c = SteppingCluster(shape(), retry=NO_JITTER, start=T0, executor=Submitting(at_once))
    assert [effect.operation for effect in c.drive()] == [op(1, 1), op(1, 2), op(1, 3)]
    assert c.converged

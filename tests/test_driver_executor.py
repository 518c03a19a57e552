"""What an executor of a host may do to the driver beside `submit`: withdraw, expire, retire."""

from datetime import timedelta

from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import (
    LEASED,
    NO_JITTER,
    T0,
    Submitting,
    answer,
    at,
    group,
    node,
    op,
    shape,
)
from cluster_reconciler.decider import (
    RetryPolicy,
)
from cluster_reconciler.messages import (
    LeaseAbsent,
    NodeAttemptId,
    OperationId,
)


def texts(c: SteppingCluster, kind: EventKind) -> list[str]:
    return [event.text for event in c.events if event.kind is kind]


class Raises(Submitting):
    """An executor of a host's own, with faults in every method that it need not have."""

    def expire(self, operation: OperationId) -> bool:
        raise RuntimeError(f"cannot expire {operation}")

    withdraw = expire

    def retire(self, attempt: NodeAttemptId) -> None:
        raise RuntimeError(f"cannot retire {attempt}")


def test_an_executor_whose_every_other_method_raises_wedges_nobody() -> None:
    # Given two nodes whose creates are overdue, and an executor that cannot say what became of them
    c = SteppingCluster(
        shape(group(count=2)), retry=NO_JITTER, start=T0, executor=Raises(lambda _: None)
    )
    c.drive()

    # When their deadline comes
    c.advance(120)

    # Then both are ambiguous, and tried again
    assert [node(c, f"g-{i}").retry.ambiguous_operation for i in (0, 1)] == [op(1, 1), op(2, 1)]
    assert [effect.operation for effect in c.advance(1)] == [op(1, 2), op(2, 2)]
    assert texts(c, EventKind.WARNING)[0] == (
        "the executor failed to expire op(1,1), it is taken to run: "
        "RuntimeError('cannot expire op(1,1)')"
    )

    # And when nobody wants them any more, they go
    c.update_desired(shape(group(count=0), generation=2))
    for _ in range(4):
        for effect in [*c.drive(), *c.advance(200)]:
            c.succeed(effect, LeaseAbsent())
    c.drive()
    assert c.state.nodes == {}


class Withdrawing(Submitting):
    """Says of every operation that it has not begun."""

    def __init__(self) -> None:
        super().__init__(lambda _effect: None)
        self.retired: list[NodeAttemptId] = []

    def withdraw(self, _operation: OperationId) -> bool:
        return True

    def expire(self, _operation: OperationId) -> bool:
        return True

    def retire(self, attempt: NodeAttemptId) -> None:
        self.retired.append(attempt)


def test_what_was_withdrawn_leaves_no_ambiguity() -> None:
    executor = Withdrawing()
    c = SteppingCluster(shape(), retry=NO_JITTER, start=T0, executor=executor)
    c.drive()
    c.advance(120)
    assert node(c).retry.ambiguous_operation is None
    assert node(c).retry.next_effect_at == at(121)
    c.advance(1)
    c.update_desired(shape(group(count=0), generation=2))
    c.drive()
    assert c.state.nodes == {}
    assert executor.retired == [NodeAttemptId(1)]


def test_a_withdrawn_start_does_not_end_the_attempt() -> None:
    c = SteppingCluster(
        shape(), retry=RetryPolicy(jitter=0.0, join_timeout=timedelta(seconds=60)),
        start=T0, executor=Withdrawing(),
    )  # fmt: skip
    [create] = c.drive()
    [start] = answer(c, create, LEASED)
    [again] = c.advance(121)
    assert (again.operation.sequence, node(c).record.failed_at) == (3, None)
    assert type(again.command) is type(start.command)

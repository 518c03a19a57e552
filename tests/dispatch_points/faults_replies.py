"""Faults of executors and of their answers: deaths, and replies lost, late, doubled or wrong.

All of them are harmless to the attempt by rules 13-15, 22 and 25: at most the operation is tried
again.  What is planted here touches no provider but to end the thread that calls it.
"""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from cluster_reconciler.actors.stepping_words import ENDPOINT, LEASED
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapSessionId,
    BootstrapStarted,
    EndpointLookup,
    ExecutorResult,
    LeaseAbsent,
    LeaseDestroyed,
    NodeLost,
    NodeObserved,
    OperationKind,
    OperationOutcome,
)
from tests.dispatch_points.planting import (
    ANEW,
    EXPIRED,
    EXPIRY,
    NOTHING,
    RETRIED,
    Family,
    Fault,
    is_over,
    on_answer,
)
from tests.dispatch_points.world import Grant, Point, PointWorld

IN_TIME = 50.0
"""Seconds: late, and before every deadline, `cancel_timeout` included."""

OUTCOMES: dict[str, OperationOutcome] = {
    "lease": LEASED,
    "no-lease": LeaseAbsent(),
    "endpoint": EndpointLookup(ENDPOINT),
    "session": BootstrapStarted(BootstrapSessionId(99)),
    "no-session": BootstrapAbsent(),
    "accepted": BootstrapConvergenceAccepted(),
    "cancelled": BootstrapCancelled(),
    "destroyed": LeaseDestroyed(),
}
RIGHT: dict[OperationKind, frozenset[str]] = {
    OperationKind.CREATE_LEASE: frozenset({"lease", "no-lease"}),
    OperationKind.LOOKUP_ENDPOINT: frozenset({"endpoint", "no-lease"}),
    OperationKind.START_BOOTSTRAP: frozenset({"session", "no-session"}),
    OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED: frozenset({"accepted"}),
    OperationKind.CANCEL_BOOTSTRAP: frozenset({"cancelled"}),
    OperationKind.DESTROY_LEASE: frozenset({"destroyed"}),
}


def _killed_while_it_waits(world: PointWorld, point: Point) -> None:
    def kill() -> None:
        world.strike(Grant(retries=1))
        world.gates.of(point.effect).kill()

    world.at_dispatch(point, kill)


def _stalled(world: PointWorld, point: Point) -> None:
    """It does not begin before the driver gives it up: it must never begin then (rule 25)."""

    def hold() -> None:
        world.strike(Grant(retries=1, seconds=EXPIRY))
        actor = world.gates.of(point.effect)
        actor.held = True

        def let_go() -> None:
            actor.held = False
            provider = world.provider_of(point.effect.node)
            calls = len(provider.world.calls())
            operation = point.effect.operation
            if world.latest[operation.attempt] == operation and not world.awaits(operation):
                while world.pump():
                    pass
                assert len(provider.world.calls()) == calls, "what was withdrawn has run"

        world.after(EXPIRY + 0.5, let_go)

    world.at_dispatch(point, hold)


def _submitted_twice(world: PointWorld, point: Point) -> None:
    def again() -> None:
        world.strike(NOTHING)
        world.executors.submit(point.effect)

    world.at_dispatch(point, again)


def _submitted_again_later(world: PointWorld, point: Point) -> None:
    """The very effect once more, when it is answered and not yet folded: it is told again."""

    def again(answer: ExecutorResult) -> Sequence[object]:
        world.strike(NOTHING)
        heard = world.hear(lambda: world.executors.submit(point.effect))
        # Another fault may have changed the answer on its way; the ledger's own is told again.
        same = len(heard) == 1 if world.crowded else heard == [answer]
        assert same, f"submitted again it was answered {heard}, before {answer}"
        return (answer, *heard)

    on_answer(world, point, again)


def _lost(world: PointWorld, point: Point) -> None:
    def lose(_answer: ExecutorResult) -> Sequence[object]:
        world.strike(EXPIRED)
        return ()

    on_answer(world, point, lose)


def _late(seconds: float, grant: Grant, world: PointWorld, point: Point) -> None:
    def hold(answer: ExecutorResult) -> Sequence[object]:
        world.strike(grant)
        world.after(seconds, lambda: world.cluster.tell(answer))
        return ()

    on_answer(world, point, hold)


def _late_into_the_next(world: PointWorld, point: Point) -> None:
    """It comes right after the attempt's next operation was dispatched."""

    def hold(answer: ExecutorResult) -> Sequence[object]:
        world.strike(EXPIRED)
        attempt = point.effect.operation.attempt
        world.once(
            lambda: world.latest[attempt] != point.effect.operation,
            lambda: world.cluster.tell(answer),
        )
        return ()

    on_answer(world, point, hold)


def _late_into_another_attempt(world: PointWorld, point: Point) -> None:
    """The node is lost meanwhile; it comes when the attempt is over."""

    def hold(answer: ExecutorResult) -> Sequence[object]:
        world.strike(EXPIRED)
        if world.is_live(point.effect):
            world.granted.append(ANEW)
        world.once(partial(is_over, world, point), lambda: world.cluster.tell(answer))
        lost = NodeLost("its swarm member is gone")
        return (NodeObserved(point.effect.node, point.effect.operation.attempt, lost),)

    on_answer(world, point, hold)


def _doubled(seconds: float, world: PointWorld, point: Point) -> None:
    def double(answer: ExecutorResult) -> Sequence[object]:
        world.strike(NOTHING)
        if seconds == 0:
            return (answer, answer)
        world.after(seconds, lambda: world.cluster.tell(answer))
        return (answer,)

    on_answer(world, point, double)


def _doubled_into(over: bool, world: PointWorld, point: Point) -> None:
    """The second one comes with the attempt's next operation, or when the attempt is over."""

    def double(answer: ExecutorResult) -> Sequence[object]:
        world.strike(NOTHING)
        operation = point.effect.operation
        world.once(
            (lambda: is_over(world, point))
            if over
            else (lambda: world.latest[operation.attempt] != operation),
            lambda: world.cluster.tell(answer),
        )
        return (answer,)

    on_answer(world, point, double)


def _wrong(name: str, world: PointWorld, point: Point) -> None:
    def change(answer: ExecutorResult) -> Sequence[object]:
        world.strike(RETRIED)
        return (replace(answer, outcome=OUTCOMES[name], error=None),)

    on_answer(world, point, change)


def _reply(name: str, plant: Callable[[PointWorld, Point], None], *, same: bool = False) -> Fault:
    return Fault(f"reply-{name}", Family.REPLY, plant, same_course=same)


REPLIES: tuple[Fault, ...] = (
    Fault("executor-killed-waiting", Family.EXECUTOR, _killed_while_it_waits),
    Fault("executor-stalled", Family.EXECUTOR, _stalled),
    Fault("submitted-twice", Family.EXECUTOR, _submitted_twice, same_course=True),
    Fault("submitted-again-later", Family.EXECUTOR, _submitted_again_later, same_course=True),
    _reply("lost", _lost),
    _reply("late-in-time", partial(_late, IN_TIME, Grant(seconds=IN_TIME)), same=True),
    _reply("late-after-expiry", partial(_late, EXPIRY + 0.5, EXPIRED)),
    _reply("late-into-next-operation", _late_into_the_next),
    _reply("late-into-another-attempt", _late_into_another_attempt),
    _reply("doubled-at-once", partial(_doubled, 0.0), same=True),
    _reply("doubled-later", partial(_doubled, 1.0), same=True),
    _reply("doubled-after-expiry", partial(_doubled, EXPIRY + 0.5), same=True),
    _reply("doubled-into-next-operation", partial(_doubled_into, False), same=True),
    _reply("doubled-into-another-attempt", partial(_doubled_into, True), same=True),
    *(
        Fault(
            f"reply-wrong-{name}",
            Family.REPLY,
            partial(_wrong, name),
            fits=lambda point, name=name: name not in RIGHT[point.kind],  # type: ignore[misc]
        )
        for name in OUTCOMES
    ),
)

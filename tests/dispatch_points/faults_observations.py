"""Faults of what a session tells by itself: its stage, its join, its end are lost, late or doubled.

Late or doubled it is harmless (rule 10).  A join, or a failure, of which nobody hears ends the
attempt at the join deadline, and no sooner (rule 12); of a stage or a closure nothing depends.
"""

from collections.abc import Callable, Sequence
from functools import partial

from cluster_reconciler.messages import (
    BootstrapClosed,
    BootstrapFailed,
    BootstrapObserved,
    NodeObserved,
    OperationKind,
    SwactorJoined,
)
from tests.dispatch_points.faults_replies import IN_TIME
from tests.dispatch_points.gates import POLICY
from tests.dispatch_points.planting import ANEW, NOTHING, Family, Fault
from tests.dispatch_points.world import Grant, Point, PointWorld

WAITED = Grant(seconds=POLICY.join_timeout.total_seconds())
"""Rule 12: the join deadline."""
Way = Callable[[PointWorld, NodeObserved], Sequence[object]]


def _news(of: type, way: Way, grants: tuple[Grant, ...], world: PointWorld, point: Point) -> None:
    """The next word of this kind that the attempt's session tells goes this way."""

    def look(message: object) -> Sequence[object] | None:
        if not isinstance(message, NodeObserved) or not isinstance(message.observation, of):
            return None
        if message.attempt != point.effect.operation.attempt:
            return None
        remove[0]()
        world.strike()
        if world.is_live(point.effect):
            world.granted.extend(grants)
        return way(world, message)

    remove: list[Callable[[], None]] = []
    world.at_dispatch(point, lambda: remove.append(world.add_filter(look)))


def _lost(_world: PointWorld, _message: NodeObserved) -> Sequence[object]:
    return ()


def _doubled(world: PointWorld, message: NodeObserved) -> Sequence[object]:
    world.after(IN_TIME, lambda: world.cluster.tell(message))
    return (message, message)


def _late(world: PointWorld, message: NodeObserved) -> Sequence[object]:
    world.after(IN_TIME, lambda: world.cluster.tell(message))
    return ()


def _told_by(kind: OperationKind) -> Callable[[Point], bool]:
    return lambda point: point.kind is kind and not point.adopt_only


_START, _HAND_OVER = OperationKind.START_BOOTSTRAP, OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED
_NEWS: tuple[tuple[str, type, OperationKind, tuple[Grant, ...]], ...] = (
    ("stage", BootstrapObserved, _START, (NOTHING,)),
    ("join", SwactorJoined, _START, (ANEW, WAITED)),
    ("failure", BootstrapFailed, _START, (WAITED,)),
    ("closure", BootstrapClosed, _HAND_OVER, (NOTHING,)),
)

OBSERVATIONS: tuple[Fault, ...] = tuple(
    Fault(
        f"{name}-{how}",
        Family.SESSION,
        partial(_news, of, way, grants if how == "lost" else (Grant(seconds=IN_TIME),)),
        fits=_told_by(kind),
        same_course=how != "lost",
    )
    for name, of, kind, grants in _NEWS
    for how, way in (("lost", _lost), ("doubled", _doubled), ("late", _late))
)

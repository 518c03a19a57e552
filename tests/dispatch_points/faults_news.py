"""Faults of what reaches the driver beside its answers: passes and deadlines that are lost or come
twice, shapes that change, nodes that are lost, sessions that end or join.

Everything goes through the driver's mailbox; machines and sessions change in the provider's world.
"""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from cluster_reconciler.messages import (
    AttemptIdentity,
    BootSpec,
    BootstrapClosed,
    BootstrapFailed,
    BootstrapSessionId,
    ClusterShape,
    DeadlineDue,
    NodeLost,
    NodeObservation,
    NodeObserved,
    ProviderKind,
    ProviderLimits,
    RunId,
    RunPass,
    SessionObservation,
    SwactorId,
    SwactorJoined,
    UpdateDesired,
)
from tests.dispatch_points.gates import TICK
from tests.dispatch_points.planting import (
    ANEW,
    EXPIRED,
    LOOKS,
    MAKING,
    NOTHING,
    Family,
    Fault,
    Where,
    dropped_pass,
    is_over,
    on_answer,
    strike_at,
)
from tests.dispatch_points.scenarios import nodes
from tests.dispatch_points.world import RUN, Grant, Point, PointWorld

TICKED = Grant(seconds=2 * TICK.total_seconds())
"""Spec §9: what is lost is made good by the safety tick; by the second one at the latest, since at
the first a pass that is queued may still be on its way."""
ONCE_MORE = Grant(attempts=1, machines=1, seconds=LOOKS)
"""Spec §8: a node that was unwanted, or wanted otherwise, comes back as one new attempt."""
TWICE_MORE = Grant(attempts=2, machines=2, seconds=2 * LOOKS)
UNRESOLVED = Grant(retries=1, seconds=LOOKS)
"""Rule 19: of a node that is to go only a creation of unknown outcome counts and delays."""
FOREIGN = BootstrapSessionId(1)
"""A session id that no executor ever gave."""


# -- passes and deadlines --------------------------------------------------------------------------


def _pass_lost(world: PointWorld, point: Point) -> None:
    """The pass that would dispatch."""

    def drop() -> Sequence[object]:
        world.strike(TICKED)
        return dropped_pass()

    world.ahead_of_pass(point.told_pass, drop)


def _next_pass_lost(world: PointWorld, point: Point) -> None:
    """The pass that the answer queues, or whatever else comes first."""

    def look(message: object) -> Sequence[object] | None:
        if not isinstance(message, RunPass):
            return None
        remove[0]()
        world.strike(TICKED)
        return ()

    remove: list[Callable[[], None]] = []
    world.at_dispatch(point, lambda: remove.append(world.add_filter(look)))


def _deadline(
    what: Callable[[PointWorld, DeadlineDue], Sequence[object]],
    grant: Grant,
    judged: bool,
    unanswered: bool,
    world: PointWorld,
    point: Point,
) -> None:
    """What becomes of the next deadline message, of a reply that was lost if so said."""

    def look(message: object) -> Sequence[object] | None:
        if not isinstance(message, DeadlineDue) or message.judged is not judged:
            return None
        remove[0]()
        world.strike(grant)
        return what(world, message)

    def lose(_answer: object) -> Sequence[object]:
        world.granted.append(EXPIRED)
        return ()

    remove: list[Callable[[], None]] = []
    world.at_dispatch(point, lambda: remove.append(world.add_filter(look)))
    if unanswered:
        on_answer(world, point, lose)


def _dropped(_world: PointWorld, _message: DeadlineDue) -> Sequence[object]:
    return ()


def _twice(_world: PointWorld, message: DeadlineDue) -> Sequence[object]:
    return (message, message)


def _again_later(world: PointWorld, message: DeadlineDue) -> Sequence[object]:
    world.after(1.0, lambda: world.cluster.tell(message))
    return (message,)


_DEADLINES: tuple[tuple[str, Callable[[PointWorld, DeadlineDue], Sequence[object]], Grant], ...] = (
    ("dropped", _dropped, TICKED),
    ("doubled-at-once", _twice, NOTHING),
    ("doubled-later", _again_later, NOTHING),
)

TRIGGERS: tuple[Fault, ...] = (
    Fault("pass-lost", Family.TRIGGER, _pass_lost, same_course=True),
    Fault("next-pass-lost", Family.TRIGGER, _next_pass_lost, same_course=True),
    *(
        Fault(
            f"deadline-{name}{'-judged' if judged else ''}{'-unanswered' if unanswered else ''}",
            Family.DEADLINE,
            partial(_deadline, what, grant, judged, unanswered),
            same_course=not unanswered,
        )
        for name, what, grant in _DEADLINES
        for judged in (False, True)
        for unanswered in (False, True)
    ),
)


# -- shapes ----------------------------------------------------------------------------------------


def _to_zero(world: PointWorld) -> tuple[Grant, Sequence[object]]:
    return ONCE_MORE, (world.another_shape((), limits_of(world)),)


def _to_another_spec(world: PointWorld) -> tuple[Grant, Sequence[object]]:
    groups = world.cluster.desired.groups or (nodes(1),)
    boot = BootSpec(start_swactor_command="serve v9")
    other = tuple(replace(group, boot=boot) for group in groups)
    return TWICE_MORE, (world.another_shape(other, limits_of(world)),)


def _there_and_back(world: PointWorld) -> tuple[Grant, Sequence[object]]:
    """A, B, A before any pass: the latest wins, B is never visited (spec §4.2)."""
    groups, limits = world.cluster.desired.groups, limits_of(world)
    _, other = _to_another_spec(world)
    return NOTHING, (*other, world.another_shape(groups, limits))


def _there_and_back_visited(world: PointWorld) -> tuple[Grant, Sequence[object]]:
    """The same, but B is evaluated by a pass before A comes again."""
    groups, limits = world.cluster.desired.groups, limits_of(world)
    _, other = _to_another_spec(world)
    generation = world.generation
    world.once(
        lambda: world.cluster.state.observed_generation >= generation,
        lambda: world.cluster.tell(world.another_shape(groups, limits)),
    )
    return ONCE_MORE, other


def _invalid(world: PointWorld) -> tuple[Grant, Sequence[object]]:
    """A regressed one, one of another run, a contradictory one, and other content under the same
    generation: each is refused and changes nothing (rule 23)."""
    accepted = world.cluster.desired
    offered = (
        replace(accepted, generation=accepted.generation - 1, groups=(nodes(9),)),
        ClusterShape(RunId(RUN + 1), accepted.generation + 1, ()),
        replace(accepted, generation=accepted.generation + 1, groups=(nodes(1), nodes(2))),
        replace(accepted, groups=(nodes(9, version=9),)),
    )
    return NOTHING, tuple(UpdateDesired(shape) for shape in offered)


def _other_limits(world: PointWorld) -> tuple[Grant, Sequence[object]]:
    """Limits are no part of a node's spec: nothing is replaced (rule 28)."""
    limits = {ProviderKind("memory"): ProviderLimits(in_flight=2 if limits_of(world) else 1)}
    return NOTHING, (world.another_shape(world.cluster.desired.groups, limits),)


def limits_of(world: PointWorld) -> dict[ProviderKind, ProviderLimits]:
    """The present limits."""
    return dict(world.cluster.desired.limits)


def _shape_changes(
    change: Callable[[PointWorld], tuple[Grant, Sequence[object]]],
    where: Where,
    world: PointWorld,
    point: Point,
) -> None:
    def messages() -> Sequence[object]:
        grant, told = change(world)
        world.strike(grant)
        if grant is not NOTHING and point.kind in MAKING:
            world.granted.append(UNRESOLVED)
        return told

    strike_at(world, point, where, messages)


_SHAPES: tuple[tuple[str, Callable[[PointWorld], tuple[Grant, Sequence[object]]], bool], ...] = (
    ("to-zero", _to_zero, False),
    ("another-spec", _to_another_spec, False),
    ("there-and-back", _there_and_back, True),
    ("there-and-back-visited", _there_and_back_visited, False),
    ("invalid", _invalid, True),
    ("other-limits", _other_limits, False),
)

SHAPES: tuple[Fault, ...] = tuple(
    Fault(
        f"shape-{name}-{where}",
        Family.SHAPE,
        partial(_shape_changes, change, where),
        same_course=same,
    )
    for name, change, same in _SHAPES
    for where in Where
)


# -- nodes and sessions ----------------------------------------------------------------------------


def _lost(machine_too: bool, where: Where, world: PointWorld, point: Point) -> None:
    def messages() -> Sequence[object]:
        world.strike(ANEW if world.is_live(point.effect) else NOTHING)
        if point.kind in MAKING:
            world.granted.append(UNRESOLVED)
        attempt = point.effect.operation.attempt
        if machine_too:
            world.provider_of(point.effect.node).remove(
                AttemptIdentity(RUN, point.effect.node, attempt)
            )
        return (NodeObserved(point.effect.node, attempt, NodeLost("it is gone")),)

    strike_at(world, point, where, messages)


def _session_ends(how: str, where: Where, world: PointWorld, point: Point) -> None:
    """What the attempt's session really does; nothing where none is alive.  Before the join its
    end fails the attempt, after it a closure completes the hand-over (rules 8, 9)."""

    def messages() -> Sequence[object]:
        provider = world.provider_of(point.effect.node)
        identity = AttemptIdentity(RUN, point.effect.node, point.effect.operation.attempt)
        session = provider.world.session(identity)
        if session is None or not session.alive:
            return ()
        node = world.cluster.state.nodes[point.effect.node]
        joined = node.record.swactor is not None or any(
            isinstance(seen, SwactorJoined) for seen in node.kept
        )
        harmless = not world.is_live(point.effect) or (joined and how != "fails")
        world.strike(NOTHING if harmless or how == "joins" else ANEW)
        if how == "joins":
            provider.join(identity)
        else:
            provider.end_session(identity, "exit code 1" if how == "fails" else None)
        return ()

    strike_at(world, point, where, messages)


def _foreign_session(
    news: SessionObservation, where: Where, world: PointWorld, point: Point
) -> None:
    """Word of a session that is none of this attempt's: it must count for nothing (rule 10)."""

    def messages() -> Sequence[object]:
        world.strike(NOTHING)
        return (NodeObserved(point.effect.node, point.effect.operation.attempt, news),)

    strike_at(world, point, where, messages)


def _late_news(news: NodeObservation, world: PointWorld, point: Point) -> None:
    """It comes when the attempt that it is about is over, and counts for nothing (spec §14.8)."""

    def tell() -> None:
        world.strike(NOTHING)
        attempt = point.effect.operation.attempt
        world.cluster.tell(NodeObserved(point.effect.node, attempt, news))

    world.at_dispatch(point, lambda: world.once(partial(is_over, world, point), tell))


_FOREIGN: tuple[tuple[str, SessionObservation], ...] = (
    ("closed", BootstrapClosed(FOREIGN)),
    ("failed", BootstrapFailed(FOREIGN, "exit code 1")),
    ("joined", SwactorJoined(FOREIGN, SwactorId("nobody"))),
)

NODES: tuple[Fault, ...] = (
    *(
        Fault(f"late-news-{name}", Family.NODE, partial(_late_news, news), same_course=True)
        for name, news in (*_FOREIGN, ("lost", NodeLost("it is gone")))
    ),
    *(
        Fault(
            f"{'machine-gone' if machine else 'node-lost'}-{where}",
            Family.NODE,
            partial(_lost, machine, where),
        )
        for machine in (False, True)
        for where in Where
    ),
    *(
        Fault(f"session-{how}-{where}", Family.SESSION, partial(_session_ends, how, where))
        for how in ("closes", "fails", "joins")
        for where in Where
    ),
    *(
        Fault(
            f"foreign-session-{name}-{where}",
            Family.SESSION,
            partial(_foreign_session, news, where),
            same_course=True,
        )
        for name, news in _FOREIGN
        for where in Where
    ),
)

"""Faults of the provider's calls: raised before or after the effect in every way, wrong values,
threads that die, and reads that are stale.

Each writes its line into the provider's script when its operation is dispatched, for the first call
of that operation only.  A definite refusal after a creation is left out: by its meaning it says
that nothing was made, and no rule can help with a provider that says so of what it has made.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

from cluster_reconciler.actors.lease_check import LeaseCheck
from cluster_reconciler.executors import MemoryProvider, ProviderError
from cluster_reconciler.executors.providers.memory_script import CallScript, Effect, Script
from cluster_reconciler.executors.providers.memory_world import Call
from cluster_reconciler.messages import (
    AttemptIdentity,
    Disposition,
    ExecutorResult,
    LeaseAbsent,
    NodeLost,
    NodeObserved,
    OperationKind,
)
from tests.dispatch_points.planting import (
    ANEW,
    EXPIRED,
    LOOKS,
    MAKING,
    NOTHING,
    PROBE,
    RETRIED,
    Family,
    Fault,
    on_answer,
)
from tests.dispatch_points.world import RUN, SETTLE, Grant, Point, PointWorld

WAIT = timedelta(seconds=90)
"""What a throttled call is told to wait."""
LISTED_EVERY = 4.0
"""Seconds between two listings: three stale ones are within the settle time."""

Bite = Callable[[Call, Effect], object]


def _on_first_call(world: PointWorld, point: Point, bite: Bite) -> None:
    """Let the first call of the point's operation go so."""
    operation, node = point.effect.operation, point.effect.node
    done: list[Call] = []

    def play(call: Call, effect: Effect) -> object:
        done.append(call)
        return bite(call, effect)

    def concerns(_call: Call) -> bool:
        return not done and world.latest[operation.attempt] == operation

    def write() -> None:
        for calls in _calls_of(point.kind, world.provider_of(node).script):
            calls(node, operation.attempt, when=concerns).play(play)

    world.at_dispatch(point, write)


def _calls_of(kind: OperationKind, script: Script) -> tuple[Callable[..., CallScript], ...]:
    """What the first call of such an operation may be: a look goes before what makes something."""
    match kind:
        case OperationKind.CREATE_LEASE:
            return (script.create, script.find)
        case OperationKind.LOOKUP_ENDPOINT:
            return (script.lookup,)
        case OperationKind.START_BOOTSTRAP:
            return (script.start, script.find_session)
        case OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED:
            return (script.accept,)
        case OperationKind.CANCEL_BOOTSTRAP:
            return (script.cancel,)
        case OperationKind.DESTROY_LEASE:
            return (script.destroy,)
        case _:
            assert_never(kind)


def makes(point: Point) -> bool:
    """Whether the operation's first call makes something, and does not look."""
    return point.kind in MAKING and not point.adopt_only and not point.looks


def _cost(point: Point, disposition: Disposition, *, after: bool) -> Grant:
    """Rule 16, and spec §11: what such a refusal of a live attempt's operation costs."""
    if point.adopt_only or disposition is Disposition.AMBIGUOUS:
        return RETRIED
    ends = disposition is Disposition.ATTEMPT_ENDING
    match point.kind:
        case OperationKind.CREATE_LEASE if ends and makes(point):
            return Grant(attempts=1, machines=int(after), failed=1, seconds=LOOKS)
        case OperationKind.LOOKUP_ENDPOINT if ends:
            return ANEW
        case OperationKind.START_BOOTSTRAP if ends or makes(point):
            return ANEW
        case _:
            return RETRIED


def _raises(
    disposition: Disposition,
    after: bool,
    retry_after: timedelta | None,
    world: PointWorld,
    point: Point,
) -> None:
    def bite(_call: Call, effect: Effect) -> object:
        if after:
            effect()
        grant = _cost(point, disposition, after=after)
        world.strike(grant if world.is_live(point.effect) else RETRIED)
        if retry_after is not None:
            world.granted.append(Grant(seconds=retry_after.total_seconds()))
            _hold_to_the_wait(world, point, world.now + retry_after)
        raise ProviderError("so the provider says", disposition, retry_after)

    _on_first_call(world, point, bite)


def _hold_to_the_wait(world: PointWorld, point: Point, earliest: datetime) -> None:
    """Rule 16: never before `retry_after`; cleanup of a failed attempt may go on, a restart not."""
    handing_over = point.kind is OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED
    if not world.is_live(point.effect) or world.crowded or handing_over:
        return  # A hand-over may be complete all the same, by the session's own end (rule 8).
    seen = len(world.points)

    def check() -> bool:
        strives = [
            later
            for later in world.points[seen:]
            if later.effect.node == point.effect.node
            and not later.adopt_only
            and later.kind not in (OperationKind.CANCEL_BOOTSTRAP, OperationKind.DESTROY_LEASE)
        ]
        assert not strives or world.now >= earliest, (
            f"{strives[0].effect.operation} was dispatched at {world.now}, before {earliest}"
        )
        return bool(strives) or not world.is_wanted(point.effect.node)

    world.once(check, lambda: None)


def _breaks(
    error: Callable[[], BaseException], after: bool, world: PointWorld, point: Point
) -> None:
    """An exception that the provider did not class; one that is none ends the thread."""

    def bite(_call: Call, effect: Effect) -> object:
        if after:
            effect()
        world.strike(RETRIED)
        raise error()

    _on_first_call(world, point, bite)


def _lost_in_vain(disposition: Disposition, world: PointWorld, point: Point) -> None:
    """The call has no effect, and what it says of that is lost as well."""

    def bite(_call: Call, _effect: Effect) -> object:
        raise ProviderError("so the provider says", disposition)

    def lose(_answer: ExecutorResult) -> Sequence[object]:
        world.strike(EXPIRED)
        return ()

    _on_first_call(world, point, bite)
    on_answer(world, point, lose)


def _wrong_value(after: bool, world: PointWorld, point: Point) -> None:
    def bite(_call: Call, effect: Effect) -> object:
        if after:
            effect()
        world.strike(RETRIED)
        return object()

    _on_first_call(world, point, bite)


def _stale(passes: int, world: PointWorld, point: Point) -> None:
    """What the operation makes, or looks for, does not show for so many looks; for no longer than
    the settle time: that is what a provider promises."""
    node, attempt = point.effect.node, point.effect.operation.attempt
    identity = AttemptIdentity(RUN, node, attempt)
    looks_up = point.kind is OperationKind.LOOKUP_ENDPOINT

    def hidden(_call: Call, effect: Effect) -> object:
        if not _is_fresh(world, identity, session=point.kind is OperationKind.START_BOOTSTRAP):
            return effect()
        return LeaseAbsent() if looks_up else None

    def hide(times: int) -> None:
        script = world.provider_of(node).script
        calls: Callable[..., CallScript] = script.find_session
        if point.kind is not OperationKind.START_BOOTSTRAP:
            calls = script.lookup if looks_up else script.find
        if times:
            calls(node, attempt).play(hidden, times)

    def bite(call: Call, effect: Effect) -> object:
        if makes(point):
            effect()
            hide(passes)
            world.strike(Grant(seconds=PROBE * passes + LOOKS, retries=1))
            raise TimeoutError("the reply was lost")
        world.strike(Grant(seconds=PROBE * passes + LOOKS))
        hide(passes - 1)
        return hidden(call, effect)

    _on_first_call(world, point, bite)


def _is_fresh(world: PointWorld, identity: AttemptIdentity, *, session: bool) -> bool:
    """Whether it exists, and was made within the settle time."""
    made = world.provider_of(identity.node).world
    if not session:
        return any(world.now - lease.created_at < SETTLE for lease in made.leases_of(identity))
    latest = made.session(identity)
    return latest is not None and world.now - latest.started_at < SETTLE


def _reads(point: Point) -> bool:
    return point.kind in MAKING or point.kind is OperationKind.LOOKUP_ENDPOINT


def _lists(passes: int, world: PointWorld, point: Point) -> None:
    """The provider's next listings are empty; the runtime's own check reads them."""

    def lost(identity: AttemptIdentity, reason: str) -> None:
        world.cluster.tell(NodeObserved(identity.node, identity.attempt, NodeLost(reason)))

    def begin() -> None:
        provider = world.provider_of(point.effect.node)
        world.strike(NOTHING)
        provider.script.list().empty(times=passes)
        check = _lease_check(world, provider, lost)
        for nth in range(passes + 2):
            world.after(LISTED_EVERY * nth, check.check_once)

    world.at_dispatch(point, begin)


def _lease_check(
    world: PointWorld, provider: MemoryProvider, lost: Callable[[AttemptIdentity, str], None]
) -> LeaseCheck:
    def known() -> Sequence[AttemptIdentity]:
        return [
            AttemptIdentity(RUN, node_id, node.attempt)
            for node_id, node in world.cluster.state.nodes.items()
            if node.record.lease is not None and node.record.desired.provider == provider.kind
        ]

    def is_alive(identity: AttemptIdentity) -> bool:
        node = world.cluster.state.nodes.get(identity.node)
        return node is not None and node.record.swactor is not None and identity in world.live

    return LeaseCheck(
        provider,
        RUN,
        timedelta(seconds=LISTED_EVERY),
        world.clock,
        known=known,
        is_alive=is_alive,
        lost=lost,
        warn=lambda _topic, _text: None,
    )


_DISPOSITIONS = (
    ("definite", Disposition.DEFINITE, None),
    ("definite-retry-after", Disposition.DEFINITE, WAIT),
    ("ambiguous", Disposition.AMBIGUOUS, None),
    ("ambiguous-retry-after", Disposition.AMBIGUOUS, WAIT),
    ("attempt-ending", Disposition.ATTEMPT_ENDING, None),
    ("attempt-ending-retry-after", Disposition.ATTEMPT_ENDING, WAIT),
)

CALLS: tuple[Fault, ...] = (
    *(
        Fault(
            f"executor-dies-{'after' if after else 'before'}-effect",
            Family.EXECUTOR,
            partial(_breaks, lambda: SystemExit("killed"), after),
        )
        for after in (False, True)
    ),
    *(
        Fault(
            f"raises-{name}-{'after' if after else 'before'}-effect",
            Family.PROVIDER,
            partial(_raises, disposition, after, retry_after),
            fits=(lambda point: not makes(point))
            if after and disposition is Disposition.DEFINITE
            else (lambda point: True),
        )
        for name, disposition, retry_after in _DISPOSITIONS
        for after in (False, True)
    ),
    *(
        Fault(f"reply-lost-of-{name}", Family.REPLY, partial(_lost_in_vain, disposition))
        for name, disposition, retry_after in _DISPOSITIONS
        if retry_after is None
    ),
    *(
        Fault(
            f"raises-unexpected-{'after' if after else 'before'}-effect",
            Family.PROVIDER,
            partial(_breaks, lambda: ConnectionError("no route"), after),
        )
        for after in (False, True)
    ),
    *(
        Fault(
            f"wrong-value-{'after' if after else 'before'}-effect",
            Family.PROVIDER,
            partial(_wrong_value, after),
        )
        for after in (False, True)
    ),
    *(
        Fault(f"reads-stale-{passes}", Family.READS, partial(_stale, passes), fits=_reads)
        for passes in (1, 2, 3)
    ),
    *(
        Fault(f"lists-stale-{passes}", Family.READS, partial(_lists, passes))
        for passes in (1, 2, 3)
    ),
)

"""Everything that can happen next at a place.

A move is something that the world, the mailbox or time does; real code then does the rest.  Each
has a name in plain words, which is one of its kind at its place, and stands in the story of a path.
`friendly` ranks the moves of a world that has turned friendly: the lowest one is what happens.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.decider import ClusterState, ManagedNode, expire, is_converged, reconcile
from cluster_reconciler.decider.state import is_live
from cluster_reconciler.executors.ledger import OperationState
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapClosed,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapStage,
    DeadlineDue,
    NodeLost,
    NodeObservation,
    NodeObserved,
    RunPass,
    SessionObservation,
    SwactorId,
    SwactorJoined,
    kind_of,
)
from tests.search.canonical import identity_of, moments, windows
from tests.search.place import NOTHING, POLICY, Operation, Place, Side, Thing
from tests.search.provider import REFUSED, UNSEEN, after_effect, fates_of, removed
from tests.search.rig import Rig, with_side

READ, ANSWERED_WELL, BEGINS, PASSES, TOLD, JUDGED, TIME_GOES = range(7)
"""What a friendly world does, in this order of precedence."""
NEVER = 99
STAGE = BootstrapStage.BOOT_CHECKING
"""For all that are facts and nothing more; that no stage steps back, the walk shows."""
ENDS_IT = (BootstrapStage.CONVERGED, BootstrapStage.CANCELLED)
"""Of the others, `CLOSED` is told as a closure and the failures as a failure (design §3)."""


class Move(Struct, frozen=True, gc=False):
    """One step, and where it leads."""

    by: str
    to: Place
    friendly: int = NEVER
    """Its precedence among what a friendly world does; NEVER: it does not."""
    node: str = ""
    """Whose executor it is a move of."""


def moves(rig: Rig, place: Place) -> Iterator[Move]:
    """See the module.  Every invariant is checked as real code runs; raises AssertionError."""
    idle = True
    for move in _events(rig, place):
        idle = idle and move.friendly == NEVER
        yield move
    yield from _time(rig, place, idle=idle)
    yield from _shapes(rig, place)


def _events(rig: Rig, place: Place) -> Iterator[Move]:
    """What may happen at this moment."""
    things = dict(place.things)
    yield from _pass(rig, place)
    yield from _mailbox(rig, place)
    for side in place.sides:
        thing = things.get(side.identity, NOTHING)
        yield from _executor(rig, place, side, thing)
    for identity, thing in place.things:
        yield from _things(place, identity, thing)
    for _, node in place.nodes:
        yield from _news(rig, place, node, things)
    yield from _overdue(rig, place)


def _may_fail(place: Place) -> bool:
    return place.faults_left != 0


def _pass(rig: Rig, place: Place) -> Iterator[Move]:
    plan = rig.keep_at(place)
    if not plan.actions:
        return
    rig.stand(place)
    rig.handle(RunPass())
    rig.submit_again()
    names = ", ".join(f"{type(action).__name__} {action.node}" for action in plan.actions)
    yield Move(f"a pass: {names}", rig.leave(), PASSES)
    spawns = any(type(action).__name__ == "Dispatch" for action in plan.actions)
    if spawns and _may_fail(place):
        rig.stand(place)
        rig.spawner.fails = True
        rig.handle(RunPass())
        yield Move(f"a pass, and no executor can be started: {names}", rig.leave(faults=1))


def _state(rig: Rig, place: Place) -> ClusterState:
    return ClusterState(0, place.next_attempt, dict(place.nodes))


def _mailbox(rig: Rig, place: Place) -> Iterator[Move]:
    for result in place.unread:
        said = result.error.disposition if result.error else type(result.outcome).__name__
        to = rig.after_news(place, result)  # A copy of it is still in the mailbox then.
        assert to is not None, f"the result that is waited for was refused: {result}"
        yield Move(f"{result.node}: the result {said} is read, twice", to, READ)
        if _may_fail(place):
            unread = tuple(other for other in place.unread if other is not result)
            to = _fault(replace(place, unread=unread))
            yield Move(f"{result.node}: the result {said} is lost", to)


def _executor(rig: Rig, place: Place, side: Side, thing: Thing) -> Iterator[Move]:
    who = f"{side.identity.node}"
    if side.running is not None:
        yield from _running(rig, place, side, side.running, thing)
    elif side.waiting is not None:
        what = _what(side.waiting)
        rig.stand(place)
        call = rig.begin(side.identity)
        if call:
            begun = replace(
                side.waiting, state=OperationState.RUNNING, began_at=place.now, call=call
            )
            to = with_side(place, replace(side, running=begun, waiting=None))
            yield Move(f"{who}: {what} begins, {call} is called", to, BEGINS)
        else:
            yield Move(f"{who}: {what} begins, and needs no call", rig.leave(), BEGINS)
    if side.waiting is not None and side.running is None and _may_fail(place):
        rig.stand(place)
        rig.die(side.identity)
        what = _what(side.waiting)
        yield Move(f"{who}: its executor dies before {what} begins", rig.leave(faults=1))


def _what(operation: Operation) -> str:
    adopt = " (adopt only)" if getattr(operation.effect.command, "adopt_only", False) else ""
    return f"{kind_of(operation.effect.command)}{adopt}"


def _running(
    rig: Rig, place: Place, side: Side, running: Operation, thing: Thing
) -> Iterator[Move]:
    who, call = side.identity.node, running.call
    if not running.acted and _may_fail(place):
        yield from _acts(rig, place, side, running, thing)
    visible = _is_visible(place, side, call)
    for at, fate in enumerate(fates_of(call, thing, acted=running.acted, visible=visible)):
        if at > 0 and not _may_fail(place):
            break
        rig.stand(place)
        calls = rig.finish(side.identity, fate)
        friendly = ANSWERED_WELL if at == 0 else NEVER
        yield Move(f"{who}: {call}: {fate}", rig.leave(faults=min(at, 1)), friendly, who)
        if calls > 1 and _may_fail(place):
            yield from _second_call(rig, place, side, call, fate)


def _second_call(rig: Rig, place: Place, side: Side, call: str, fate: str) -> Iterator[Move]:
    """Whether the lease is gone as well is asked within the same operation."""
    thing = dict(place.things).get(side.identity, NOTHING)
    hidden = thing.machines > 0 and not _is_visible(place, side, "find_lease")
    for second in (REFUSED, UNSEEN) if hidden else (REFUSED,):
        rig.stand(place)
        rig.finish(side.identity, fate, second)
        yield Move(
            f"{side.identity.node}: {call}: {fate}, find_lease: {second}", rig.leave(faults=1)
        )


def _is_visible(place: Place, side: Side, call: str) -> bool:
    """Whether what exists shows in reads: it does once the provider's settle time is over."""
    window = windows(side)[call == "find_bootstrap"]
    return window is None or window <= place.now


def _acts(rig: Rig, place: Place, side: Side, running: Operation, thing: Thing) -> Iterator[Move]:
    """The call has its effect, and its answer is still on the way."""
    call = running.call
    looks = call in ("find_lease", "find_bootstrap", "lookup_endpoint")
    if looks or (call == "start_bootstrap" and thing.machines == 0):
        return
    session = None
    if call == "start_bootstrap":
        session = rig._session_ids.next(side.identity.attempt, side.starts)
    after = after_effect(thing, call, session)
    begun = replace(side, running=replace(running, acted=True))
    to = _with_thing(with_side(place, begun), side.identity, after)
    yield Move(f"{side.identity.node}: {call} has its effect, no answer yet", _fault(to))


def _fault(place: Place) -> Place:
    left = place.faults_left
    return place if left < 0 else replace(place, faults_left=left - 1)


def _with_thing(place: Place, identity: AttemptIdentity, thing: Thing) -> Place:
    things = dict(place.things)
    things[identity] = thing
    kept = sorted(pair for pair in things.items() if pair[1] != NOTHING)
    return replace(place, things=tuple(kept))


def _things(place: Place, identity: AttemptIdentity, thing: Thing) -> Iterator[Move]:
    if thing.late == "create" or (thing.late == "start" and thing.machines):
        call = "create_lease" if thing.late == "create" else "start_bootstrap"
        after = after_effect(thing, call, thing.late_session)
        after = replace(after, late="", late_session=None)
        yield Move(
            f"{identity.node}: the {thing.late} that was given up has its effect now",
            _with_thing(place, identity, after),
        )
    if thing.machines and _may_fail(place):
        to = _with_thing(place, identity, removed(thing))
        yield Move(f"{identity.node}: somebody removes the machine", _fault(to))


def _news(
    rig: Rig, place: Place, node: ManagedNode, things: dict[AttemptIdentity, Thing]
) -> Iterator[Move]:
    identity = identity_of(place, rig.setting, node)
    thing = things.get(identity, NOTHING)
    yield from _loss(rig, place, node, identity, thing)
    session = thing.session
    if session is not None:
        ended = replace(thing, alive=False)
        join = SwactorJoined(session, SwactorId("swactor"))
        waits = node.active_bootstrap == session
        joins = waits and thing.alive and is_live(node)
        yield from _told(rig, place, node, join, thing, TOLD if joins else NEVER)
        closed = BootstrapClosed(session)
        over = waits and not thing.alive
        yield from _told(rig, place, node, closed, ended, TOLD if over else NEVER)
        yield from _told(rig, place, node, BootstrapFailed(session, "no"), ended)
        yield from _told(rig, place, node, BootstrapObserved(session, STAGE), thing)
        for stage in ENDS_IT:
            yield from _told(rig, place, node, BootstrapObserved(session, stage), ended)


def _loss(
    rig: Rig, place: Place, node: ManagedNode, identity: AttemptIdentity, thing: Thing
) -> Iterator[Move]:
    """The swarm misses the node, or a listing does."""
    missed = node.record.ready and thing.machines == 0
    if missed or _may_fail(place):
        to = _observed(rig, place, node, NodeLost("gone"), thing, faults=0 if missed else 1)
        if to is not None:
            yield Move(f"{identity.node}: NodeLost", to, TOLD if missed else NEVER)


def _told(
    rig: Rig,
    place: Place,
    node: ManagedNode,
    news: SessionObservation,
    thing: Thing,
    friendly: int = NEVER,
) -> Iterator[Move]:
    """The news, if it is folded; what is refused leads nowhere."""
    fault = friendly == NEVER
    if (fault and not _may_fail(place)) or not _is_walked(node, news):
        return
    to = _observed(rig, place, node, news, thing, faults=1 if fault else 0)
    if to is not None:
        said = news.stage if isinstance(news, BootstrapObserved) else ""
        yield Move(f"{node.record.logical_node_id}: {type(news).__name__} {said}", to, friendly)


def _is_walked(node: ManagedNode, seen: SessionObservation) -> bool:
    """Of a session that is not known yet a join and a closure are kept together, or one of any
    news: what a session can say is folded one by one, whenever it is."""
    if not node.kept or node.active_bootstrap is not None:
        return True
    together = {type(other) for other in (seen, *node.kept)}
    same = {seen.session_id} == {other.session_id for other in node.kept}
    return same and together == {SwactorJoined, BootstrapClosed}


def _observed(
    rig: Rig, place: Place, node: ManagedNode, news: NodeObservation, thing: Thing, *, faults: int
) -> Place | None:
    node_id = node.record.logical_node_id
    to = rig.after_news(place, NodeObserved(node_id, node.attempt, news))
    if to is None:
        return None
    identity = AttemptIdentity(node.record.run_id, node_id, node.attempt)
    return _with_thing(_fault(to) if faults else to, identity, thing)


def _overdue(rig: Rig, place: Place) -> Iterator[Move]:
    overdue = any(expire(node, place.now, POLICY) is not node for _, node in place.nodes)
    if overdue:
        rig.stand(place)
        rig.handle(DeadlineDue(judged=True))
        yield Move("what is overdue is judged", rig.leave(), JUDGED)


def _time(rig: Rig, place: Place, *, idle: bool) -> Iterator[Move]:
    """Time goes on, though something could happen now: that is a fault, too."""
    ahead = moments(place)
    if not ahead or not (idle or _may_fail(place)):
        return
    to = replace(place, now=ahead[0])
    rig.go_on(place, to)
    if not idle:
        to = _fault(to)
    for side in place.sides:
        thing = dict(place.things).get(side.identity, NOTHING)
        over = windows(side)[thing.late == "start"]
        if thing.late and over is not None and over <= to.now:
            # What is later than this the provider has promised not to do.
            never = replace(thing, late="", late_session=None)
            to = _with_thing(to, side.identity, never)
    yield Move("time goes on to the next deadline", to, TIME_GOES)


def _shapes(rig: Rig, place: Place) -> Iterator[Move]:
    if not _may_fail(place):
        return
    for wanted in range(len(rig.setting.shapes)):
        if wanted != place.wanted:
            name = ("spec A", "spec B", "nothing")[wanted]
            to = replace(place, wanted=wanted)
            rig.go_on(place, to)
            yield Move(f"{name} is desired", _fault(to))


def friendly_move(rig: Rig, place: Place) -> Move:
    """What happens next when nothing goes wrong any more."""
    every = moves(rig, replace(place, faults_left=0))
    best = min(every, key=lambda move: move.friendly, default=None)
    assert best is not None, "nothing happens any more"
    assert best.friendly != NEVER, "nothing friendly happens any more"
    return Move(best.by, replace(best.to, faults_left=place.faults_left), best.friendly)


def is_home(rig: Rig, place: Place) -> bool:
    """Whether all is as wanted, for good: converged, and nothing to do, awaited or left."""
    state, desired = _state(rig, place), rig.setting.shapes[place.wanted]
    if not is_converged(state, desired) or place.unread:
        return False
    if any(side.running or side.waiting for side in place.sides):
        return False
    plan = reconcile(state, desired, place.now)
    if plan.actions or plan.requeue_at is not None:
        return False
    wanted = {(node_id, node.attempt) for node_id, node in place.nodes}
    there = {
        (identity.node, identity.attempt)
        for identity, thing in place.things
        if thing.machines == 1 and not thing.late
    }
    return wanted == there and len(place.things) == len(there)

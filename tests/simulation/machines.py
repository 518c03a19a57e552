"""What machines and their sessions do by themselves: join, stall, fail, die; and the swarm's word.

Each session's fate is one word, decided when it starts; here the word is turned into what happens
and when.  Everything goes through the session's own context or the swarm, as with real nodes.
"""

from collections.abc import Callable
from typing import Protocol

from cluster_reconciler.executors.provider import BootstrapContext
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.executors.providers.memory_world import MemorySession
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapClosed,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapStage,
    NodeLost,
    NodeObserved,
    SwactorId,
    SwactorJoined,
)

SOON = 7.0
"""Seconds; what happens "soon"."""
FLOOD = 24
"""Lines."""
FATE_SPAN = 20.0
"""By then everything that a fate holds has happened."""


class World(Protocol):
    """What the machines need of the world around them."""

    def after(self, seconds: float, act: Callable[[], object]) -> None:
        """Do it so much later."""

    def observed(self, message: NodeObserved) -> None:
        """The swarm says something."""


class Swarm:
    """Who is a member, by the swarm's word."""

    def __init__(self, world: World, grace: float) -> None:
        self._world = world
        self._grace = grace
        self._members: dict[AttemptIdentity, BootstrapSessionId] = {}

    def joined(
        self, identity: AttemptIdentity, session_id: BootstrapSessionId, swactor_id: SwactorId
    ) -> None:
        """A node joins; again is news only to the driver."""
        self._members[identity] = session_id
        news = SwactorJoined(session_id, swactor_id)
        self._world.observed(NodeObserved(identity.node, identity.attempt, news))

    @property
    def members(self) -> frozenset[AttemptIdentity]:
        """Those that it holds for alive."""
        return frozenset(self._members)

    def is_alive(self, identity: AttemptIdentity) -> bool:
        """Whether it is a member."""
        return identity in self._members

    def fell_silent(self, identity: AttemptIdentity, after: float = 0.0) -> None:
        """Its machine is gone: that is noticed, and told, `after` and the grace from now."""

        def notice() -> None:
            if self._members.pop(identity, None) is not None:
                self.lost(identity, "its swarm member is gone")

        if identity in self._members:
            self._world.after(after + self._grace, notice)

    def left(self, identity: AttemptIdentity) -> None:
        """It is no member any more, and nobody is told: it was ended by us."""
        self._members.pop(identity, None)

    def lost(self, identity: AttemptIdentity, reason: str) -> None:
        """The swarm says that it is lost."""
        self._world.observed(NodeObserved(identity.node, identity.attempt, NodeLost(reason)))


def live_out(
    world: World, provider: MemoryProvider, swarm: Swarm, identity: AttemptIdentity, fate: str
) -> None:
    """A session has started, or is about to: what it will do, by its fate."""

    def session() -> MemorySession | None:
        found = provider.world.session(identity)
        return found if found is not None and found.alive else None

    def say(stage: BootstrapStage, out: int | None = None, errors: int | None = None) -> None:
        found = session()
        if found is not None:
            found.context.report(BootstrapObserved(found.session_id, stage, out, errors))

    def join() -> None:
        provider.join(identity)

    def die() -> None:
        provider.remove(identity)
        swarm.fell_silent(identity)

    def lost() -> None:
        found = session()
        if found is not None:
            _say_lost(found.context)

    def fail() -> None:
        provider.end_session(identity, "exit code 1")

    def close() -> None:
        provider.end_session(identity)

    def out_of_order() -> None:
        say(BootstrapStage.BOOT_CHECKING, 9)
        say(BootstrapStage.SSH_READY, 3)
        say(BootstrapStage.SWACTOR_STARTING, None, -4)
        join()

    plans: dict[str, tuple[tuple[float, Callable[[], object]], ...]] = {
        "joins late": ((1.0, lambda: say(BootstrapStage.SSH_READY, 1, 1)), (SOON, join)),
        "never joins": ((1.0, lambda: say(BootstrapStage.WAITING_FOR_SWACTOR_JOIN)),),
        "closes at once": ((0.0, close),),
        "closes soon": ((SOON, close),),
        "fails at once": ((0.0, fail),),
        "fails soon": ((SOON, fail),),
        "joins twice": ((1.0, join), (1.0, join), (SOON, join)),
        "joins, closes": ((1.0, join), (1.0, close)),
        "joins, fails": ((1.0, join), (1.0, fail)),
        "stages out of order": ((1.0, out_of_order),),
        "stream error": ((1.0, lambda: say(BootstrapStage.STREAM_ERROR)), (SOON, join)),
        "cancelled": ((1.0, lambda: say(BootstrapStage.CANCELLED)),),
        "converged before the join": ((1.0, lambda: say(BootstrapStage.CONVERGED)), (SOON, join)),
        "check failed": ((1.0, lambda: say(BootstrapStage.BOOT_CHECK_FAILED)),),
        "dies soon": ((0.5, join), (SOON, die)),
        "lost soon": ((0.5, join), (SOON, lost)),
        "floods at once": ((SOON, join),),
        "tells all at once": (),
    }
    for seconds, act in plans[fate]:
        world.after(seconds, act)


def flood(context: BootstrapContext) -> None:
    """More news than anybody keeps of a session that is not known yet, and among it the join."""
    session = context.session_id
    for line in range(FLOOD):
        context.report(BootstrapObserved(session, BootstrapStage.BOOT_CHECKING, line))
        if line == FLOOD // 2:
            say_again(context, "join")


def tell_all(context: BootstrapContext) -> None:
    """A whole life before its start has answered: it joins under two names, converges, closes."""
    session, node = context.session_id, context.identity
    context.report(BootstrapClosed(session))
    context.report(BootstrapObserved(session, BootstrapStage.CONVERGED))
    for name in ("first", "second"):
        swactor = SwactorId(f"swactor-{node.node}-{node.attempt}-{name}")
        context.report(SwactorJoined(session, swactor))


TALKS = ("floods at once", "tells all at once")


def _say_lost(context: BootstrapContext) -> None:
    context.lost("exit code 137")


def say_again(context: BootstrapContext, word: str) -> None:
    """A session, perhaps one of long ago, says this word."""
    node, session_id = context.identity, context.session_id
    match word:
        case "failed":
            context.report(BootstrapFailed(session_id, "it says so again"))
        case "join":
            swactor = SwactorId(f"swactor-{node.node}-{node.attempt}")
            context.report(SwactorJoined(session_id, swactor))
        case "lost":
            context.lost("it says so itself")
        case _:
            context.report(_NEWS[word](session_id))


def _stage(
    stage: BootstrapStage, out: int | None = None, errors: int | None = None
) -> Callable[[BootstrapSessionId], BootstrapObserved]:
    return lambda session_id: BootstrapObserved(session_id, stage, out, errors)


_NEWS: dict[str, Callable[[BootstrapSessionId], BootstrapObserved]] = {
    "closed": _stage(BootstrapStage.CLOSED),
    "stage back": _stage(BootstrapStage.SSH_CONNECTING),
    "stage on": _stage(BootstrapStage.WAITING_FOR_SWACTOR_JOIN),
    "output": _stage(BootstrapStage.CREATED, 100, 100),
    "output back": _stage(BootstrapStage.CREATED, 1, -1),
    "stream error": _stage(BootstrapStage.STREAM_ERROR),
    "cancelled": _stage(BootstrapStage.CANCELLED),
    "converged": _stage(BootstrapStage.CONVERGED),
    "start failed": _stage(BootstrapStage.START_FAILED),
    "other session": lambda session_id: BootstrapObserved(
        BootstrapSessionId(session_id + 1), BootstrapStage.CONVERGED
    ),
}

"""The scenarios whose dispatch points are enumerated: short lives, together of every operation.

A scenario makes a fresh world and lists its moves.  It knows no faults but those that are its own
story (a reply that is lost so that the cleanup must look), and never judges.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.stepping_words import G0, group
from cluster_reconciler.actors.stepping_world import Now
from cluster_reconciler.executors import BootstrapContext, MemoryProvider, ProviderError
from cluster_reconciler.executors.providers.memory_script import Effect
from cluster_reconciler.executors.providers.memory_world import Call
from cluster_reconciler.messages import (
    BootSpec,
    BootstrapSessionSpec,
    Disposition,
    ProviderKind,
    ProviderLimits,
    RunNodeGroupSpec,
)
from tests.dispatch_points.world import SETTLE, PointWorld

Move = Callable[[PointWorld], None]
MEMORY, OTHER = ProviderKind("memory"), ProviderKind("other")
JOIN_DELAY = 60.0
ENDPOINT_DELAY = timedelta(seconds=5)


class Scenario(Struct, frozen=True):
    """One life, always the same."""

    name: str
    make: Callable[[], PointWorld]
    moves: tuple[Move, ...]


class LateJoiner(MemoryProvider):
    """Its sessions join some time after they were started, if they are still alive."""

    def __init__(self, now: Now, plan: Callable[[float, Callable[[], object]], None]) -> None:
        super().__init__(now=now, settle_time=SETTLE, auto_join=False)
        self._plan = plan

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        self._plan(JOIN_DELAY, lambda: self.join(context.identity))
        return super().start_bootstrap(session, context)


def nodes(count: int, version: int = 1, provider: ProviderKind = MEMORY) -> RunNodeGroupSpec:
    """Group `g`, or `h` on the other provider."""
    name = "g" if provider == MEMORY else "h"
    boot = BootSpec(start_swactor_command=f"serve v{version}")
    return replace(group(name, count), boot=boot, provider=provider)


def plain(*groups: RunNodeGroupSpec) -> Callable[[], PointWorld]:
    """Machines that answer and join at once."""
    return lambda: PointWorld(groups or (nodes(1),))


def scripted(write: Callable[[MemoryProvider], object]) -> Callable[[], PointWorld]:
    """One node, on a provider whose script says something."""

    def make() -> PointWorld:
        world = PointWorld((nodes(1),))
        write(world.provider)
        return world

    return make


def joining_late(
    write: Callable[[MemoryProvider], object] = lambda _provider: None,
) -> Callable[[], PointWorld]:
    """One node that joins after a while."""

    def make() -> PointWorld:
        worlds: list[PointWorld] = []

        def after(wait: float, act: Callable[[], object]) -> None:
            worlds[0].after(wait, act)

        world = PointWorld(
            (nodes(1),),
            providers=lambda now: (LateJoiner(now, after),),
        )
        worlds.append(world)
        world.waits = JOIN_DELAY
        write(world.provider)
        return world

    return make


def with_late_endpoint(provider: MemoryProvider) -> None:
    """Machines that can be reached only after a while."""
    provider.endpoint_delay = ENDPOINT_DELAY


def limited_to_one() -> PointWorld:
    """Two nodes, one acquiring and one releasing operation at a time."""
    return PointWorld((nodes(2),), limits={MEMORY: ProviderLimits(in_flight=1)})


def on_two_providers() -> PointWorld:
    """A node on each of two providers."""

    def providers(now: Now) -> Sequence[MemoryProvider]:
        return tuple(MemoryProvider(kind, now=now, settle_time=SETTLE) for kind in (MEMORY, OTHER))

    return PointWorld((nodes(1), nodes(1, provider=OTHER)), providers=providers)


def lost_start_and_slow_destroy(provider: MemoryProvider) -> None:
    """The session runs unseen; its machine is not gone at the first word."""
    provider.script.start("g-0", 1).lose_reply()
    provider.script.destroy("g-0", 1).unfinished()


def made_and_refused_for_good(_call: Call, effect: Effect) -> object:
    """The machine is made, and the token is refused for good."""
    effect()
    raise ProviderError("parameters differ", Disposition.ATTEMPT_ENDING)


def converge(world: PointWorld) -> None:
    """Until the cluster is what is wanted."""
    world.converge()


def want(*groups: RunNodeGroupSpec) -> Move:
    """Another shape."""
    return lambda world: world.reshape(*groups)


def lose(world: PointWorld) -> None:
    """The swarm says that g-0 is gone, and so is its machine."""
    if G0 in world.cluster.state.nodes:
        world.provider.remove(world.identity("g-0"))
        world.lose("g-0")


def until_ambiguous(world: PointWorld) -> None:
    """Until the outcome of an operation of g-0 is unknown, or it has come through."""

    def ambiguous() -> bool:
        node = world.cluster.state.nodes.get(G0)
        return node is not None and (
            node.retry.ambiguous_operation is not None or node.record.ready
        )

    world.until(ambiguous)


def until_booting(world: PointWorld) -> None:
    """Until the session of g-0 is known."""

    def booting() -> bool:
        node = world.cluster.state.nodes.get(G0)
        return node is not None and (node.active_bootstrap is not None or node.record.ready)

    world.until(booting)


UP_AND_GONE: tuple[Move, ...] = (converge, want(), converge)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("one-node", plain(), UP_AND_GONE),
    Scenario("late-join", joining_late(), UP_AND_GONE),
    Scenario("scale-up", plain(), (converge, want(nodes(2)), converge)),
    Scenario("scale-down", plain(nodes(2)), (converge, want(nodes(1)), converge)),
    Scenario("other-spec", plain(), (converge, want(nodes(1, version=2)), converge)),
    Scenario("node-lost", plain(), (converge, lose, converge)),
    Scenario("shutdown-of-two", plain(nodes(2)), UP_AND_GONE),
    Scenario("endpoint-later", scripted(with_late_endpoint), UP_AND_GONE),
    Scenario("shutdown-while-booting", joining_late(), (until_booting, want(), converge)),
    Scenario(
        "ambiguous-create-cleaned-up",
        scripted(lambda provider: provider.script.create("g-0", 1).lose_reply()),
        (until_ambiguous, want(), converge),
    ),
    Scenario(
        "create-that-made-nothing-cleaned-up",
        scripted(lambda provider: provider.script.create("g-0", 1).fail(ConnectionError("no"))),
        (until_ambiguous, want(), converge),
    ),
    Scenario(
        "ambiguous-start-cleaned-up",
        joining_late(lost_start_and_slow_destroy),
        (until_ambiguous, want(), converge),
    ),
    Scenario(
        "ambiguous-create-adopted",
        scripted(lambda provider: provider.script.create("g-0", 1).lose_reply()),
        UP_AND_GONE,
    ),
    Scenario(
        "ambiguous-start-adopted",
        scripted(lambda provider: provider.script.start("g-0", 1).lose_reply()),
        UP_AND_GONE,
    ),
    Scenario(
        "second-attempt",
        scripted(lambda provider: provider.script.start("g-0", 1).refuse("no such image")),
        (converge,),
    ),
    Scenario(
        "session-fails",
        scripted(lambda provider: provider.script.start("g-0", 1).fail_later()),
        (converge,),
    ),
    Scenario(
        "token-refused-for-good",
        scripted(lambda provider: provider.script.create("g-0", 1).play(made_and_refused_for_good)),
        (converge,),
    ),
    Scenario("in-flight-one", limited_to_one, UP_AND_GONE),
    Scenario("two-providers", on_two_providers, UP_AND_GONE),
    Scenario(
        "destroy-takes-long",
        scripted(lambda provider: provider.script.destroy("g-0", 1).unfinished(times=2)),
        UP_AND_GONE,
    ),
    Scenario(
        "cancel-gives-way",
        joining_late(lambda provider: provider.script.cancel("g-0", 1).refuse(times=None)),
        (until_booting, want(), converge),
    ),
)

"""The world of one life: the real driver and executors, and around them everything that goes wrong.

It plays what `faults` decides and what `acts` does; it decides nothing and checks nothing that
`SteppingWorld` does not check at every rest.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

from cluster_reconciler.actors.clock import END_OF_TIME
from cluster_reconciler.actors.invariant_guard import InvariantGuard
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.executors import MemoryProvider
from cluster_reconciler.executors.provider import BootstrapContext, ProviderError
from cluster_reconciler.executors.providers.memory_world import Call, CallKind
from cluster_reconciler.messages import (
    AttemptIdentity,
    EffectError,
    ExecutorResult,
    NodeManagerCommand,
    NodeObserved,
    OperationId,
    OperationKind,
    PlannedEffect,
    ProviderKind,
    kind_of,
)
from tests.simulation import shapes
from tests.simulation.chance import Chance
from tests.simulation.faults import (
    CALL_FAULTS,
    FATES,
    NEWS,
    REPLIES,
    SUBMISSIONS,
    Faults,
)
from tests.simulation.life import Life, ProviderDraw
from tests.simulation.listings import check_from_now_on
from tests.simulation.machines import Swarm, live_out
from tests.simulation.provider import SimulatedProvider
from tests.simulation.spoiling import can_be_spoilt, spoilt

LAST_MOMENT = END_OF_TIME - timedelta(seconds=1)
"""No life goes beyond.  At the very end of time no wait can pass: whoever has something to wait for
does it at once, again and again."""
LATE = (1.0, 45.0, 300.0)
"""Seconds by which a message is late."""
LATE_EFFECT_SHARE = 0.09
"""Of the settle time: how long after its call a late effect comes.  With the largest read lag it is
still visible before the settle time is over, as a provider promises."""


class SimulatedWorld(SteppingWorld):
    """See the module."""

    def __init__(
        self, life: Life, keep: Collection[str] | None = None, *, plans_alone: bool = False
    ) -> None:
        """`plans_alone`: of all that is checked, only each pass's plan against that of all."""
        self.life = life
        self._plans_alone = plans_alone
        self.chance = Chance(life.seed)
        self.faults = Faults(self.chance, keep)
        self._lives: dict[str, list[int]] = {}
        """The attempts of each node, in the order in which they were first heard of."""
        self._numbers: Counter[str] = Counter()
        self._contexts: dict[str, list[BootstrapContext]] = {}
        """Of every session that each node ever started, the latest last."""
        self.policies = [life.retry]
        """Every policy that was ever in force."""
        self.dispatched: list[tuple[str, OperationKind]] = []
        """The node and kind of every effect that the driver has submitted."""
        self._commands: dict[OperationId, NodeManagerCommand] = {}
        self._provider_of: dict[AttemptIdentity, MemoryProvider] = {}
        self._known_options: dict[tuple[CallKind, ProviderKind], Sequence[str]] = {}
        """How the calls of each provider can go wrong."""
        self._dooms: list[int] = []
        self.wake_lost = False
        """A timer was lost, and no pass has set another one since."""
        self.drained = False
        """The driver was told to drain, and has handled that."""
        kinds = [ProviderKind(draw.kind) for draw in life.providers]
        super().__init__(
            shapes.made(life.shape, 1, kinds),
            retry=life.retry,
            start=life.start,
            providers=lambda now: [self._provider(draw, now) for draw in life.providers],
            safety_tick=life.safety_tick,
            order="lifo" if self.chance.hit("lifo", 300) else "fifo",
            first_attempt=life.first_attempt,
        )
        if plans_alone:
            self.cluster._driver._guard = InvariantGuard(on=False)
        self.swarm = Swarm(self, life.grace)
        for provider in self.providers:
            provider.joined = self.swarm.joined
            check_from_now_on(self, provider, self._clock)
        if life.slow_calls:
            self.may_pause()

    def _provider(self, draw: ProviderDraw, now: Callable[[], datetime]) -> MemoryProvider:
        provider = SimulatedProvider(draw.kind, now, draw.settle_time, self)
        provider.read_lag = timedelta(seconds=draw.settle_time * draw.lag)
        provider.endpoint_delay = timedelta(seconds=draw.endpoint_delay)
        provider.idempotent = draw.idempotent
        provider.capacity = draw.capacity
        return provider

    # -- time -------------------------------------------------------------------------------------

    def run(self, seconds: float | timedelta) -> None:
        """See `SteppingWorld`; never to the very end of time."""
        super().run(self.at_most(seconds))

    def sleep(self, seconds: float | timedelta) -> None:
        """See `SteppingWorld`; never to the very end of time."""
        super().sleep(self.at_most(seconds))

    def at_most(self, seconds: float | timedelta) -> timedelta:
        """So long, or until the last moment, whichever comes first."""
        wait = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        return max(timedelta(0), min(wait, LAST_MOMENT - self.now))

    def check(self) -> None:
        """See `SteppingWorld`."""
        if not self._plans_alone:
            super().check()

    def can_pause(self) -> bool:
        """See `SteppingWorld`; only a fault of a call makes it pause."""
        return super().can_pause() and self.faults.may(self.life.rates.calls)

    def doom(self, nth: int) -> None:
        """The next executor that has something to do dies instead of doing it."""
        self._dooms.append(nth)

    def pump(self) -> bool:
        """See `SteppingWorld`."""
        if self._dooms and self.kill_executor(self._dooms[0]):
            self._dooms.pop(0)
        return super().pump()

    def take_turns(self, count: int) -> None:
        """So many times one message of the driver, and one of an executor."""
        for _ in range(count):
            if self.cluster.depth:
                self.cluster.step()
            self.pump()

    def round(self) -> bool:
        """See `SteppingWorld`; in some lives driver and executors take turns by the message."""
        if self.cluster.depth == 0 and self._spawner.queued == 0:
            return False
        if not self.life.takes_turns:
            return super().round()
        pumped, turn = False, 0
        while True:
            turn += 1
            if self.cluster.depth:
                steps = self.chance.below(f"turn/{self.now}/{turn}", 4)
                for _ in range(min(steps, self.cluster.depth)):
                    self.cluster.step()
            went_on = self.pump()
            pumped = pumped or went_on
            if not went_on and self.cluster.depth == 0:
                return pumped

    # -- names ------------------------------------------------------------------------------------

    def life_number(self, node: str, attempt: int) -> int:
        """Which attempt of its node it is, counted from 1 on as they were heard of."""
        attempts = self._lives.setdefault(node, [])
        if attempt not in attempts:
            attempts.append(attempt)
        return attempts.index(attempt) + 1

    def _next_name(self, kind: str, node: str, attempt: int) -> str:
        name = f"{kind}:{node}:{self.life_number(node, attempt)}"
        self._numbers[name] += 1
        return f"{name}:{self._numbers[name]}"

    # -- calls ------------------------------------------------------------------------------------

    def call_fault(self, call: Call, provider: MemoryProvider) -> str | None:
        """See `provider.World`."""
        identity = call.identity
        if identity is not None:
            self._provider_of[identity] = provider
        if not self.faults.on:
            return None
        options = self._options(call.kind, provider)
        if identity is None:
            self._numbers[provider.kind] += 1
            name = f"list_leases:{provider.kind}:{self._numbers[provider.kind]}"
            return self.faults.decide(name, call.kind, self.life.rates.listings, options)
        name = self._next_name(call.kind, identity.node, identity.attempt)
        if call.kind is CallKind.CANCEL_BOOTSTRAP:
            stuck = name.rpartition(":")[0]
            if self.faults.fired.get(stuck) == "never works":
                return "never works"
            found = self.faults.decide(
                stuck, call.kind, self.life.rates.calls // 3, ("never works",)
            )
            if found is not None:
                return found
        return self.faults.decide(name, call.kind, self.life.rates.calls, options)

    def _options(self, kind: CallKind, provider: MemoryProvider) -> Sequence[str]:
        known = self._known_options.get((kind, provider.kind))
        if known is None:
            known = tuple(what for what in CALL_FAULTS[kind] if self._can_be(what, provider))
            self._known_options[kind, provider.kind] = known
        return known

    def _can_be(self, what: str, provider: MemoryProvider) -> bool:
        if what.startswith("slow"):
            return self.life.slow_calls
        if what == "effect late":
            return provider.settle_time > timedelta(0)
        return what != "never works"

    def session_fate(self, call: Call, provider: MemoryProvider) -> str | None:
        """See `provider.World`."""
        identity = call.identity
        assert identity is not None, call
        name = self._next_name("session", identity.node, identity.attempt)
        fate = self.faults.decide(name, "session", self.life.rates.fates, FATES)
        if fate is not None:
            live_out(self, provider, self.swarm, identity, fate)
        return fate

    def endpoint_is_late(self, identity: AttemptIdentity) -> bool:
        """See `provider.World`."""
        number = self.life_number(identity.node, identity.attempt)
        return self.chance.hit(f"endpoint late:{identity.node}:{number}", 300)

    def drawn(self, call: Call, what: str, end: int) -> int:
        """See `provider.World`."""
        assert call.identity is not None, call
        node, attempt = call.identity.node, call.identity.attempt
        name = f"{what}:{call.kind}:{node}:{self.life_number(node, attempt)}:{call.number}"
        return self.chance.below(name, end)

    def late_effect(self, provider: MemoryProvider, effect: Callable[[], object]) -> None:
        """See `provider.World`."""

        def come() -> None:
            try:
                effect()
            except ProviderError:
                self._numbers["late effect refused"] += 1

        self.after(provider.settle_time.total_seconds() * LATE_EFFECT_SHARE, come)

    def excuse(self, identity: AttemptIdentity) -> None:
        """See `provider.World`."""
        if identity in self.live:
            self.excused.add(identity)

    def say_lost(self, identity: AttemptIdentity) -> None:
        """See `provider.World`."""
        self.swarm.lost(identity, "it was reclaimed")

    def note(self, kind: str) -> None:
        """See `provider.World`."""
        self.faults.count(kind)

    def remember(self, context: BootstrapContext) -> None:
        """See `provider.World`."""
        self._contexts.setdefault(context.identity.node, []).append(context)

    def context_of(self, node: str, ago: int) -> BootstrapContext | None:
        """That of the node's latest session, or of one so many sessions ago."""
        contexts = self._contexts.get(node, ())
        return contexts[-1 - ago % len(contexts)] if contexts else None

    def provider_of(self, identity: AttemptIdentity) -> MemoryProvider:
        """The provider that was asked something for this attempt."""
        return self._provider_of[identity]

    def provider_named(self, kind: str) -> MemoryProvider:
        """The provider of that kind."""
        return next(provider for provider in self.providers if provider.kind == kind)

    def lose_wake(self) -> None:
        """The timer of the next deadline is lost."""
        self.wake_lost = self.cluster.lose_wake() or self.wake_lost

    # -- messages ---------------------------------------------------------------------------------

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        """See `SteppingWorld`."""
        self.dispatched.append((effect.node, kind_of(effect.command)))
        self._commands[effect.operation] = effect.command
        attempt, sequence = effect.operation.attempt, effect.operation.sequence
        name = f"submit:{effect.node}:{self.life_number(effect.node, attempt)}:{sequence}"
        what = self.faults.decide(name, "submission", self.life.rates.submissions, SUBMISSIONS)
        if what == "refused":
            raise RuntimeError("the queue is full")
        if what == "answered at once":
            return ExecutorResult(effect.node, effect.operation, error=EffectError("not taken"))
        return super().submit(effect)

    def deliver(self, message: ExecutorResult | NodeObserved) -> None:
        """See `SteppingWorld`."""
        if isinstance(message, NodeObserved):
            self.observed(message)
            return
        if message.error is not None and "killed" in message.error.reason:
            self.faults.count("executor: killed between two messages")
        attempt, sequence = message.operation.attempt, message.operation.sequence
        name = f"result:{message.node}:{self.life_number(message.node, attempt)}:{sequence}"
        command = self._commands.get(message.operation)
        if not self.faults.may(self.life.rates.replies):
            self.cluster.tell(message)
            return
        unknown = self._may_have_made_before(message)
        options = [what for what in REPLIES if can_be_spoilt(message, command, what, unknown)]
        what = self.faults.decide(name, "result", self.life.rates.replies, options)
        self._deliver(name, what, message, partial(spoilt, message, command, what))

    def _may_have_made_before(self, message: ExecutorResult) -> bool:
        """Whether an earlier operation of the attempt has an outcome that nobody knows."""
        node = self.cluster.state.nodes.get(message.node)
        return node is not None and node.retry.ambiguous_operation is not None

    def observed(self, message: NodeObserved) -> None:
        """News of a node, from its session or from the swarm."""
        kind = type(message.observation).__name__
        name = self._next_name(kind, message.node, message.attempt)
        what = self.faults.decide(name, "news", self.life.rates.news, NEWS)
        self._deliver(name, what, message, lambda: message)

    def _deliver(
        self,
        name: str,
        what: str | None,
        message: ExecutorResult | NodeObserved,
        spoilt: Callable[[], object],
    ) -> None:
        tell = partial(self.cluster.tell, message)
        match what:
            case None:
                tell()
            case "lost":
                pass
            case "doubled":
                tell()
                tell()
            case "late" | "doubled late":
                if what == "doubled late":
                    tell()
                self.after(self.chance.pick(f"{name}/late", LATE), tell)
            case _:
                self.cluster.tell(spoilt())

"""The world in which dispatch points are enumerated: a `SteppingWorld` with a gate at every way.

Every message to the driver, every message to an executor's actor and every step passes a gate here,
where a fault may drop, hold, double or change it, or put another message ahead.  The world itself
decides nothing: it counts passes and dispatches, so that a fault finds its place again in a second
run, and it keeps what the faults of a run may cost (`Grant`).  Invariants are checked at every
step, machines against the state as well.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from msgspec import Struct

from cluster_reconciler.actors.clock import Clock
from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.stepping_oracle import check_machines
from cluster_reconciler.actors.stepping_world import Now, SteppingWorld
from cluster_reconciler.decider import later
from cluster_reconciler.executors import Executors, MemoryProvider, SwarmTicket
from cluster_reconciler.messages import (
    ClusterShape,
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    OperationId,
    OperationKind,
    PlannedEffect,
    ProviderKind,
    ProviderLimits,
    RunId,
    RunNodeGroupSpec,
    RunPass,
    UpdateDesired,
    is_adopt_only,
    kind_of,
)
from tests.dispatch_points.gates import POLICY, GatedSpawner, WatchedCluster

SETTLE = timedelta(seconds=15)
"""Longer than six stale reads at the probe interval of 2 s: what pairs of faults may bring."""
RUN = RunId(7)
ENDLESS = 10_000.0
"""Seconds that a run without faults never takes."""

Act = Callable[[], None]
Filter = Callable[[object], Sequence[object] | None]
"""What becomes of a message to the driver; None: it is none of this filter's."""


class Point(Struct, frozen=True):
    """One dispatch of a run: the `number`-th, from 1 on."""

    number: int
    told_pass: int
    """Which RunPass of the run dispatched it."""
    effect: PlannedEffect
    looks: bool
    """An earlier call's outcome is unknown: the executor looks before it makes anything."""

    @property
    def kind(self) -> OperationKind:
        """What is dispatched."""
        return kind_of(self.effect.command)

    @property
    def adopt_only(self) -> bool:
        """Whether it may only find, never make."""
        return is_adopt_only(self.effect.command)

    @property
    def name(self) -> str:
        """The kind, for tables."""
        return f"{self.kind}{' (adopt only)' if self.adopt_only else ''}"


class Grant(Struct, frozen=True):
    """What a fault that struck may cost by the design's rules, at most."""

    attempts: int = 0
    """More attempts of each node, ..."""
    machines: int = 0
    """... more machines of each, ..."""
    failed: int = 0
    """... attempts that are told of as failed, over all nodes, ..."""
    retries: int = 0
    """... effects that are told of as tried again, ..."""
    seconds: float = 0.0
    """... and time until all is well, backoff not counted."""


class PointWorld(SteppingWorld):
    """See the module."""

    def __init__(
        self,
        groups: tuple[RunNodeGroupSpec, ...],
        *,
        limits: dict[ProviderKind, ProviderLimits] | None = None,
        providers: Callable[[Now], Sequence[MemoryProvider]] | None = None,
    ) -> None:
        self.points: list[Point] = []
        self.granted: list[Grant] = []
        self.crowded = False
        """More than one fault is planted."""
        self.struck = 0
        """How many planted faults found something to bite on."""
        self.generation = 1
        self.latest: dict[NodeAttemptId, OperationId] = {}
        """The operation that was dispatched last, of each attempt."""
        self.attempts: dict[LogicalNodeId, set[NodeAttemptId]] = {}
        self.outstanding = 0
        """Acts that are planned and have not been carried out."""
        self.waits = 0.0
        """Seconds that an attempt needs here from its start to ready, without any fault."""
        self.times: list[float] = []
        """How long each `converge` took, in virtual seconds."""
        self.allowed: Callable[[int], float] = lambda _nth: ENDLESS
        """How long the `nth` converge may take, by now."""
        self._passes_told = 1
        self._passes_queued: deque[int] = deque((1,))
        self._passes_seen = 0
        self._at_pass: dict[int, list[Callable[[], Sequence[object]]]] = {}
        self._at_dispatch: dict[OperationId, list[Act]] = {}
        self._filters: list[Filter] = []
        self._kinds: dict[LogicalNodeId, ProviderKind] = {}
        self._heard: list[object] | None = None
        """Where messages to the driver go instead, when somebody listens."""
        self._gate_failed: Exception | None = None
        self._awaited: list[tuple[Callable[[], bool], Act]] = []
        shape = ClusterShape(RUN, 1, groups, limits or {})
        super().__init__(shape, retry=POLICY, providers=providers, settle_time=SETTLE)
        self.gates = GatedSpawner(self._spawner)
        self.executors = Executors(
            RUN,
            self.providers,
            self.gates,
            self.deliver,
            self._clock.now,
            lambda _identity: SwarmTicket("127.0.0.1:1", "a token of no swarm"),
        )
        self.cluster = WatchedCluster(shape, self.executors, self._through_gate, self._stepped)
        self._clock.follow(self.cluster)

    # -- the gates --------------------------------------------------------------------------------

    def _through_gate(self, message: object) -> Iterable[object]:
        try:
            return self._passed(message)
        except Exception as error:
            # Executors and driver would contain it, as if it were a defect of the product.
            self._gate_failed = error
            raise

    def _passed(self, message: object) -> Iterable[object]:
        if not isinstance(message, RunPass):
            return self._filtered(message)
        self._passes_told += 1
        ahead = [m for act in self._at_pass.pop(self._passes_told, ()) for m in act()]
        passed = [] if RunPass() in ahead else self._filtered(message)
        self._passes_queued.extend(self._passes_told for m in passed if m == message)
        return [*(m for m in ahead if m != RunPass()), *passed]

    def _filtered(self, message: object, passed: int = 0) -> Sequence[object]:
        """What the filters make of it, each of what the one before it has made."""
        if self._heard is not None:
            self._heard.append(message)
            return ()
        filters = self._filters[passed:]
        for nth, look in enumerate(filters):
            answer = look(message)
            if answer is not None:
                after = len(self._filters) - len(filters) + nth + 1
                return [m for made in answer for m in self._filtered(made, max(0, after))]
        return (message,)

    def _stepped(self, effects: list[PlannedEffect]) -> None:
        self._raise_what_a_gate_raised()
        told_pass = 0
        if self.cluster.passes != self._passes_seen:
            self._passes_seen = self.cluster.passes
            told_pass = self._passes_queued.popleft()
        state = self.cluster.state
        for node_id, node in state.nodes.items():
            self.attempts.setdefault(node_id, set()).add(node.attempt)
            self._kinds[node_id] = node.record.desired.provider
        for effect in effects:
            self.latest[effect.operation.attempt] = effect.operation
            looks = state.nodes[effect.node].retry.ambiguous_operation is not None
            self.points.append(Point(len(self.points) + 1, told_pass, effect, looks))
            for act in self._at_dispatch.pop(effect.operation, ()):
                act()
        doubles = frozenset(i for provider in self.providers for i in provider.world.doubles)
        check_machines(state, RUN, self.live, doubles)
        for awaited in [pair for pair in self._awaited if pair[0]()]:
            self._awaited.remove(awaited)
            awaited[1]()

    def _raise_what_a_gate_raised(self) -> None:
        if self._gate_failed is not None:
            raise self._gate_failed

    def check(self) -> None:
        self._raise_what_a_gate_raised()
        super().check()

    def pump(self) -> bool:
        self.gates.flush()
        return super().pump()

    # -- what a fault asks for --------------------------------------------------------------------

    def ahead_of_pass(self, number: int, act: Callable[[], Sequence[object]]) -> None:
        """When the `number`-th RunPass is told: what this answers goes ahead of it; a RunPass in
        the answer takes it away."""
        self._at_pass.setdefault(number, []).append(act)

    def at_dispatch(self, point: Point, act: Act) -> None:
        """Right after that dispatch, before any executor has begun it."""
        self._at_dispatch.setdefault(point.effect.operation, []).append(act)

    def add_filter(self, look: Filter) -> Act:
        """From now on; the answer takes the filter away."""
        self._filters.append(look)
        return lambda: self._filters.remove(look)

    def hear(self, act: Act) -> list[object]:
        """What the driver is told by this; it is not told it."""
        heard: list[object] = []
        self._heard = heard
        try:
            act()
        finally:
            self._heard = None
        return heard

    def once(self, condition: Callable[[], bool], act: Act) -> None:
        """When it is first so, looked at after every step."""
        self._awaited.append((condition, act))

    def after(self, seconds: float, act: Callable[[], object]) -> None:
        self.outstanding += 1

        def carried_out() -> None:
            self.outstanding -= 1
            act()

        super().after(seconds, carried_out)

    def strike(self, grant: Grant | None = None) -> None:
        """A planted fault has found something to bite on, and may cost this."""
        self.struck += 1
        if grant is not None:
            self.granted.append(grant)

    def another_shape(
        self,
        groups: tuple[RunNodeGroupSpec, ...],
        limits: dict[ProviderKind, ProviderLimits] | None = None,
    ) -> UpdateDesired:
        """The next generation, as the message that asks for it."""
        self.generation += 1
        return UpdateDesired(ClusterShape(RUN, self.generation, groups, limits or {}))

    # -- moves of a scenario ----------------------------------------------------------------------

    def reshape(self, *groups: RunNodeGroupSpec) -> None:
        """Ask for these groups from now on."""
        self.cluster.tell(self.another_shape(groups, dict(self.cluster.desired.limits)))

    def converge(self) -> None:
        """Let time pass until the cluster is what is wanted.

        Raises:
            AssertionError: a wedge: it takes longer than is allowed.
        """
        begun, nth = self.now, len(self.times)
        self.settle()
        while self.cluster.queued or not self.cluster.converged:
            due, allowed = self.due_at, self.allowed(nth)
            assert due is not None, "a wedge: not converged, and nothing is due ever again"
            took = (due - begun).total_seconds()
            assert took <= allowed, (
                f"a wedge: not converged within {allowed:g} s of virtual time, the next thing is "
                f"due after {took:g} s; {self.status_line()}"
            )
            self._go_to(max(due, self.now))
        self.times.append((self.now - begun).total_seconds())

    def until(self, reached: Callable[[], bool], seconds: float = 1000.0) -> None:
        """Let time pass until it is so, or for so long: a fault may have led elsewhere."""
        end = later(self.now, timedelta(seconds=seconds))
        self.settle()
        while not reached() and (due := self.due_at) is not None and due <= end:
            self._go_to(max(due, self.now))

    # -- what came out ----------------------------------------------------------------------------

    def is_live(self, effect: PlannedEffect) -> bool:
        """Whether the effect's attempt strives to be ready: now, or once the pass is over that is
        just installing it."""
        node = self.cluster.state.nodes.get(effect.node)
        if node is None or node.attempt < effect.operation.attempt:
            return True
        return (
            node.attempt == effect.operation.attempt
            and node.intent is NodeIntent.ACTIVE
            and node.record.failed_at is None
        )

    def awaits(self, operation: OperationId) -> bool:
        """Whether the driver has not given the operation up."""
        nodes = self.cluster.state.nodes.values()
        return any(node.pending is not None and node.pending.id == operation for node in nodes)

    def is_wanted(self, node: str) -> bool:
        """Whether the latest shape wants the node."""
        return LogicalNodeId(node) in self.cluster.desired.expand()

    @property
    def clock(self) -> Clock:
        """The one clock, for what reads one."""
        return self._clock

    def counted(self, kind: EventKind) -> int:
        """How often it was told."""
        return sum(event.kind is kind for event in self.cluster.events)

    def machines(self, node: str) -> int:
        """How many were ever made for the node."""
        return sum(provider.world.creations(node) for provider in self.providers)

    def status_line(self) -> str:
        """Where every node stands, for a failure's text."""
        return "; ".join(
            f"{node.node} attempt {node.attempt} {node.intent} {node.stage}, "
            f"waits for {node.waits_for}"
            for node in self.cluster.status().nodes
        )

    def provider_of(self, node: LogicalNodeId) -> MemoryProvider:
        """Where the node is made, was made, or will be."""
        known = self._kinds.get(node)
        kind = known if known is not None else self.cluster.desired.expand()[node].provider
        return next(provider for provider in self.providers if provider.kind == kind)

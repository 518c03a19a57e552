"""The public test kit, whole: driver, executors and providers in one thread, on one stepped clock.

```python
world = SteppingWorld(shape, retry=RetryPolicy(jitter=0.0))
world.provider.script.create("g-0").lose_reply()
world.run(10)                       # ten seconds, in no time
assert world.cluster.converged
```

Nothing here decides, folds or makes anything: it is the production driver and the production
executors, pumped by hand.  After every settling it checks what must always hold: the decider's
invariants, and that nothing exists that nobody knows of (`check`).

What travels between driver and executors passes two methods that a subclass may override: `submit`,
an effect on its way out, and `deliver`, a result or an observation on its way back.  So a test can
refuse the one, and drop, double, change or hold back the other (`after`, then `deliver` of the
superclass).
"""

from bisect import insort
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from cluster_reconciler.actors.clock import END_OF_TIME, ManualClock
from cluster_reconciler.actors.spawning import SteppingSpawner
from cluster_reconciler.actors.stepping import DEFAULT_START
from cluster_reconciler.actors.stepping_calls import PausedCalls
from cluster_reconciler.actors.stepping_oracle import check_machines, check_world
from cluster_reconciler.actors.stepping_record import RecordedCluster
from cluster_reconciler.actors.stepping_witness import witness_of
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.decider import (
    ExpandedShape,
    ManagedNode,
    RetryPolicy,
    expand_shape,
    later,
)
from cluster_reconciler.executors import Executors, MemoryProvider, Provider, SwarmTicket
from cluster_reconciler.executors.durations import duration
from cluster_reconciler.executors.providers.memory_script import CallScript
from cluster_reconciler.executors.providers.memory_world import Call
from cluster_reconciler.messages import (
    AttemptIdentity,
    ClusterShape,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    NodeLost,
    NodeObserved,
    PlannedEffect,
)

Now = Callable[[], datetime]

ROUNDS_MAX = 1_000
"""More rounds than this in one settling are a loop, and an error."""


class _Clock:
    """The cluster's clock, for those who are made before it."""

    def __init__(self, start: datetime) -> None:
        self._real = ManualClock(start)

    def follow(self, cluster: RecordedCluster) -> None:
        """From now on it is that cluster's own clock."""
        self._real = cluster.clock

    def now(self) -> datetime:
        return self._real.now()


class _Planned(Struct, frozen=True):
    at: datetime
    act: Callable[[], object]


class _WayOut:
    """The driver's executor: by way of the world's `submit`."""

    def __init__(self, world: "SteppingWorld") -> None:
        self._world = world
        self.withdraw = world.executors.withdraw
        self.expire = world.executors.expire
        self.retire = world.executors.retire

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        """See `SteppingWorld.submit`."""
        return self._world.submit(effect)


class SteppingWorld:
    """See the module.  `cluster`, `provider`, `providers`, `executors` are the real things, open to
    every test."""

    def __init__(
        self,
        shape: ClusterShape,
        *,
        retry: RetryPolicy | None = None,
        start: datetime = DEFAULT_START,
        providers: Callable[[Now], Sequence[Provider]] | None = None,
        settle_time: timedelta | float = timedelta(0),
        safety_tick: timedelta | float | None = None,
        order: Literal["fifo", "lifo"] = "fifo",
        check_leaks: bool = True,
        first_attempt: int = 1,
    ) -> None:
        """`providers` makes them, any that there are, on the clock that it is given; None: one of
        kind "memory" with this settle time.  What really exists they say by an attribute `world`, a
        `Witness`, else by their listing.  `order`: in which order one round of effects is carried
        out.  `check_leaks`: False where a provider lies about what it has ended.  Raises
        ShapeError."""
        self._clock = _Clock(start)
        made = (
            tuple(providers(self._clock.now))
            if providers is not None
            else (MemoryProvider(now=self._clock.now, settle_time=settle_time),)
        )
        self.providers = tuple(each for each in made if isinstance(each, MemoryProvider))
        """Those that can be scripted."""
        self._witnesses = tuple(witness_of(provider, shape.run_id) for provider in made)
        self.check_leaks = check_leaks
        self.excused: set[AttemptIdentity] = set()
        """Attempts whose provider has said, and lied, that their machine is gone: they are no
        leaks of ours."""
        self.rounds = 0
        """Rounds that the latest settling took."""
        self._expanded_of = shape
        self._expanded = expand_shape(shape)
        self._checked: tuple[int, ...] = ()
        """What all that is checked was made of when it was checked last."""
        self._planned: list[_Planned] = []
        self._calls = PausedCalls(self._clock.now)
        self._threaded = False
        system = ActorSystem("stepping-world", self._clock, ticks=lambda: 0.0)
        self._spawner = SteppingSpawner(system, order)
        self.executors = Executors(
            shape.run_id,
            made,
            self._spawner,
            self.deliver,
            self._clock.now,
            lambda _identity: SwarmTicket("127.0.0.1:1", "a token of no swarm"),
        )
        self.cluster = RecordedCluster(
            shape,
            _WayOut(self),
            retry=retry,
            start=start,
            safety_tick=safety_tick,
            first_attempt=first_attempt,
        )
        self._clock.follow(self.cluster)

    # -- stepping ---------------------------------------------------------------------------------

    def round(self) -> bool:
        """Drive, then carry out everything that was dispatched before any of its results is
        handled; False: there was nothing to carry out."""
        self.cluster.drive()
        pumped = False
        while self.pump():
            pumped = True
        return pumped

    def pump(self) -> bool:
        """One message of one executor; its results wait in the driver's mailbox."""
        if not self.can_pause():
            return self._spawner.pump()
        if self._spawner.queued == 0:
            return False
        self._calls.run(self._spawner.pump)
        return True

    def settle(self) -> None:
        """Rounds until driver and executors are at rest (paused calls excepted), then `check`.

        Raises:
            AssertionError: they do not come to rest, or something does not hold.
        """
        for count in range(ROUNDS_MAX):
            if not self.round():
                self.rounds = count
                self._check_what_changed()
                return
        raise AssertionError(f"no rest after {ROUNDS_MAX} rounds: {self.cluster.events[-20:]}")

    def run(self, seconds: float | timedelta) -> None:
        """Let so much time pass: stop at each moment at which something is due, in order, and
        settle there; then settle at the end."""
        wait = duration("seconds", seconds, least=None)
        end = later(self.now, wait)
        self.settle()
        while (due := self.due_at) is not None and due <= end and due < END_OF_TIME:
            self._go_to(max(due, self.now))
        self._go_to(end)

    def run_to_next(self) -> bool:
        """Let time pass until something is due, and settle; False: nothing ever will be."""
        self.settle()
        due = self.due_at
        if due is None or due >= END_OF_TIME:
            return False
        self._go_to(max(due, self.now))
        return True

    def run_until(self, reached: Callable[[], bool], within: float) -> float:
        """Run until it is so; the seconds that it took.

        Raises:
            AssertionError: it is not so after `within` seconds.
        """
        begun = self.now
        limit = later(begun, timedelta(seconds=within))
        self.settle()
        while not reached():
            due = self.due_at
            assert due is not None and due <= limit, (  # noqa: PT018
                f"not reached within {within} s, next due {due}: {self.cluster.events[-20:]}"
            )
            self._go_to(max(due, self.now))
        return (self.now - begun).total_seconds()

    def sleep(self, seconds: float | timedelta) -> None:
        """Our own machine is suspended for so long, and the world outside goes on: what is planned
        happens in its time, driver and executors stand still.  Then all of theirs that is due
        happens at once, and it settles."""
        self._pass_time(seconds, self.cluster.sleep)
        self._happen()

    def put_off(self, seconds: float | timedelta) -> None:
        """The driver and the world outside go on for so long, the executors do nothing."""
        self.cluster.drive()
        self._pass_time(seconds, self.cluster.advance)

    def _pass_time(self, seconds: float | timedelta, step: Callable[[timedelta], object]) -> None:
        end = later(self.now, duration("seconds", seconds))
        while self._planned and self._planned[0].at <= end:
            step(max(self._planned[0].at, self.now) - self.now)
            self._do_what_is_planned()
        step(end - self.now)

    def _go_to(self, moment: datetime) -> None:
        self.cluster.advance(moment - self.now)
        self._happen()

    def _happen(self) -> None:
        self._do_what_is_planned()
        self._calls.resume_due()
        self.settle()

    def _do_what_is_planned(self) -> None:
        """What an act plans for this very moment has its turn when time goes on."""
        now = self.now
        count = next((n for n, p in enumerate(self._planned) if p.at > now), len(self._planned))
        due, self._planned = self._planned[:count], self._planned[count:]
        for planned in due:
            planned.act()

    @property
    def due_at(self) -> datetime | None:
        """When something is due next: a deadline, a tick, a plan of the test, a paused call."""
        planned = self._planned[0].at if self._planned else None
        moments = (self.cluster.due_at, self._calls.due_at, planned)
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def now(self) -> datetime:
        """The one clock."""
        return self._clock.now()

    # -- between driver and executors, to be overridden -------------------------------------------

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        """An effect on its way from the driver to the executors; an exception is a submission that
        failed, a result an answer at once."""
        self.executors.submit(effect)
        return None

    def deliver(self, message: ExecutorResult | NodeObserved) -> None:
        """A result or an observation on its way to the driver's mailbox.  It may be delivered
        never, later, changed, or twice; it is called from within an executor's step."""
        self.cluster.tell(message)

    # -- what a test does to the world ------------------------------------------------------------

    def after(self, seconds: float, act: Callable[[], object]) -> None:
        """Do this so much later, from within `run`."""
        planned = _Planned(later(self.now, timedelta(seconds=seconds)), act)
        insort(self._planned, planned, key=lambda planned: planned.at)

    def may_pause(self) -> None:
        """Calls may take time from now on, by `pause`."""
        self._threaded = True

    def can_pause(self) -> bool:
        """Whether a call may pause now; a subclass that knows better saves the threads for it."""
        return self._threaded

    def pause(self, seconds: float) -> None:
        """From within a provider's call, after `may_pause`: it takes so long."""
        self._calls.pause(seconds)

    def kill_executor(self, nth: int) -> bool:
        """One of the executors' actors dies before it handles another message; False: there is
        none that has a message."""
        return self._spawner.kill(nth)

    def slow(
        self, calls: CallScript, seconds: float, *, times: int | None = 1, late_reply: bool = False
    ) -> None:
        """These calls take so long; `late_reply`: they have their effect at their beginning."""
        self.may_pause()

        def fault(_call: Call, effect: Callable[[], object]) -> object:
            answer = effect() if late_reply else None
            self.pause(seconds)
            return answer if late_reply else effect()

        calls.play(fault, times)

    def lose(self, node_id: str, reason: str = "its swarm member is gone") -> None:
        """The swarm says that the node's present attempt is lost."""
        self.cluster.observe(node_id, self.node(node_id).attempt, NodeLost(reason))

    def close(self) -> None:
        """Let everything go on that is paused: no thread stays behind."""
        self._calls.release()

    # -- what came out ----------------------------------------------------------------------------

    @property
    def wanted(self) -> ExpandedShape:
        """The shape that was accepted last, node by node."""
        desired = self.cluster.desired
        if self._expanded_of is not desired:
            self._expanded_of = desired
            self._expanded = expand_shape(desired, self._expanded)
        return self._expanded

    def node(self, node_id: str) -> ManagedNode:
        """The node's present value."""
        return self.cluster.state.nodes[LogicalNodeId(node_id)]

    def identity(self, node_id: str, attempt: int | None = None) -> AttemptIdentity:
        """The identity of the node's present attempt, or of that one."""
        number = NodeAttemptId(attempt) if attempt is not None else self.node(node_id).attempt
        return AttemptIdentity(self.cluster.desired.run_id, LogicalNodeId(node_id), number)

    @property
    def ready(self) -> frozenset[str]:
        """The nodes that are ready."""
        nodes = self.cluster.state.nodes.items()
        return frozenset(node_id for node_id, node in nodes if node.record.ready)

    @property
    def provider(self) -> MemoryProvider:
        """The first that can be scripted.  Raises ValueError: there is none."""
        if not self.providers:
            raise ValueError("none of the providers is a MemoryProvider, which can be scripted")
        return self.providers[0]

    @property
    def live(self) -> frozenset[AttemptIdentity]:
        """The attempts that have a machine, over all providers."""
        return frozenset(identity for witness in self._witnesses for identity in witness.live)

    def check(self) -> None:
        """Everything that must hold whenever the world is at rest.

        Raises:
            AssertionError: see `stepping_oracle.check_world`.
        """
        check_world(self.cluster.state, self.wanted, *self._machines())

    def check_machines(self) -> None:
        """The part of it that must hold at any moment: no leak and no double."""
        check_machines(self.cluster.state, self.wanted.shape.run_id, *self._machines())

    def _machines(self) -> tuple[frozenset[AttemptIdentity], frozenset[AttemptIdentity]]:
        if not self.check_leaks:
            return frozenset(), frozenset()
        doubles = frozenset(i for witness in self._witnesses for i in witness.doubles)
        return self.live - self.excused, doubles

    def _check_what_changed(self) -> None:
        """Time alone breaks nothing: neither the state nor what exists is another one."""
        changes = (witness.changes for witness in self._witnesses)
        seen = (self.cluster.handled, len(self.excused), self.check_leaks, *changes)
        if seen != self._checked:
            self.check()
            self._checked = seen

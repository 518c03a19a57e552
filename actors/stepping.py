"""The public test kit: the real driver in the caller's thread, with a clock that is stepped.

A test injects messages, handles them one by one or until none is left, and reads what came out.
Nothing here decides or folds: it is the production DriverActor, pumped by hand, with invariants
checked at every step.

```python
cluster = SteppingCluster(shape, retry=RetryPolicy(jitter=0.0))
[create] = cluster.drive()
cluster.succeed(create, LeaseCreated(lease, endpoint))
[start] = cluster.drive()
```
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.driver_actor import DriverActor
from cluster_reconciler.actors.errors import DriverDied, possibly_left
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.invariant_guard import InvariantBroken
from cluster_reconciler.actors.ports import Executor
from cluster_reconciler.actors.status import ClusterStatus
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.decider import ClusterState, ReconcilePlan, RetryPolicy, is_converged, later
from cluster_reconciler.executors.durations import duration
from cluster_reconciler.messages import (
    AttemptIdentity,
    ClusterShape,
    DeadlineDue,
    Disposition,
    EffectError,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    NodeObservation,
    NodeObserved,
    OperationOutcome,
    PlannedEffect,
    SafetyTick,
    Trigger,
)

__all__ = ["DEFAULT_START", "InvariantBroken", "Reentered", "SteppingCluster"]

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)

DRIVE_MAX = 1_000_000
"""More messages than this in one drive are a loop, and an error."""


class Reentered(RuntimeError):
    """The driver was stepped from within its own step, as from inside `submit`."""


class _World:
    """What the driver needs around it: a stepped clock, and everything else only recorded."""

    def __init__(self, start: datetime, executor: Executor | None) -> None:
        self.clock = ManualClock(start)
        self.executor = executor
        self.tell: Callable[[object], None] = _nobody
        self.note: Callable[[ClusterEvent], None] = _nobody
        self.woken: Callable[[datetime | None], None] | None = None
        """Who else is told of the timer."""
        self.wake: datetime | None = None
        self.dispatched: list[PlannedEffect] = []
        self.events: list[ClusterEvent] = []
        self.passes = 0

    def now(self) -> datetime:
        return self.clock.now()

    def tell_driver(self, message: object) -> None:
        self.tell(message)

    def wake_at(self, moment: datetime | None) -> None:
        self.wake = moment
        if self.woken is not None:
            self.woken(moment)

    def happened(self, event: ClusterEvent) -> None:
        self.events.append(event)
        self.note(event)

    def pass_done(self, _plan: ReconcilePlan, _converged: bool) -> None:
        self.passes += 1

    def attempt_over(self, identity: AttemptIdentity) -> None:
        """Nobody speaks for attempts here but the test."""

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        """Only an effect that was taken counts as dispatched."""
        answer = self.executor.submit(effect) if self.executor is not None else None
        self.dispatched.append(effect)
        return answer

    def __getattr__(self, name: str) -> object:
        """The executor's own `withdraw`, `expire` and `retire`, where it has them."""
        if name not in ("withdraw", "expire", "retire"):
            raise AttributeError(name)
        return getattr(self.executor, name)


def _nobody(_message: object) -> None:
    raise AssertionError("the driver is not there yet")


class SteppingCluster:
    """A driver without threads.  One pass is queued at first, nothing has run."""

    def __init__(
        self,
        shape: ClusterShape,
        *,
        retry: RetryPolicy | None = None,
        start: datetime = DEFAULT_START,
        executor: Executor | None = None,
        safety_tick: timedelta | float | None = None,
        first_attempt: int = 1,
        check_invariants: bool = True,
    ) -> None:
        """`executor`: anything with `submit(effect)`; None: effects are only recorded.  The safety
        tick does not fire unless asked for.  Raises ShapeError, or ValueError for a safety tick
        that is not above 0, a first attempt below 1 or a start without its time zone."""
        if safety_tick is not None:
            safety_tick = duration("safety_tick", safety_tick, above=timedelta(0))
        if first_attempt < 1:
            raise ValueError(f"first_attempt must be at least 1, found {first_attempt}")
        if start.tzinfo is None:
            raise ValueError(f"start must be an aware time, found the naive {start}")
        self._world = _World(start, executor)
        self._tick = safety_tick
        self._next_tick = later(start, safety_tick) if safety_tick is not None else None
        self._stepping = False
        self._driver = Driver(
            shape,
            retry if retry is not None else RetryPolicy(),
            self._world,
            self._world,
            first_attempt=first_attempt,
            check_invariants=check_invariants,
        )
        system = ActorSystem("stepping", self._world.clock, ticks=lambda: 0.0)
        self._actor = DriverActor(system, self._driver, self._after)
        self._world.note = self._actor.note
        self._world.tell = self._actor.tell
        self._driver.request_pass()

    # -- stepping ---------------------------------------------------------------------------------

    def step(self) -> list[PlannedEffect]:
        """Handle exactly one message (a RunPass is one); the effects that it dispatched.

        Raises:
            InvariantBroken: an invariant does not hold; the driver itself would go on.
            DriverDied: an exception that is no `Exception` has ended it.
        """
        self._refuse_reentry()
        self._stepping = True
        try:
            self._actor.pump_one()
        finally:
            self._stepping = False
        self._refuse_when_over()
        dispatched, self._world.dispatched = self._world.dispatched, []
        return dispatched

    def drive(self) -> list[PlannedEffect]:
        """Handle messages until none is left; the effects that were dispatched meanwhile."""
        self._refuse_reentry()
        self._refuse_when_over()
        dispatched: list[PlannedEffect] = []
        for _ in range(DRIVE_MAX):
            if self._actor.depth == 0:
                return dispatched
            dispatched.extend(self.step())
        raise AssertionError(f"the driver does not come to rest: {self.events[-20:]}")

    def advance(self, seconds: float | timedelta) -> list[PlannedEffect]:
        """Move the clock on.  Stop at each moment at which something is due, in order, with `now`
        at that moment, and drive; then go on to the end.  The effects that were dispatched.  What
        waits in the mailbox is handled at the first such moment: `drive` first to have it handled
        now.  Raises ValueError for a time that goes back, or is none."""
        self._refuse_reentry()
        wait = duration("seconds", seconds, least=None)
        if wait < timedelta(0):
            raise ValueError(f"the clock cannot go back: asked to advance by {wait}")
        end = later(self.now, wait)
        dispatched: list[PlannedEffect] = []
        while (due := self.due_at) is not None and due <= end:
            self._world.clock.set(max(due, self.now))
            self._fire(self.now)
            dispatched.extend(self.drive())
            if due >= end and self.due_at == due:
                break  # The end of time: what is due there again stays due.
        self._world.clock.set(max(end, self.now))
        return dispatched

    @property
    def due_at(self) -> datetime | None:
        """When the next wake-up or safety tick is due; None: never."""
        return min(
            (at for at in (self._world.wake, self._next_tick) if at is not None), default=None
        )

    def _fire(self, now: datetime) -> None:
        if self._world.wake is not None and self._world.wake <= now:
            self._world.wake = None
            self.tell(DeadlineDue())
        if self._next_tick is not None and self._tick is not None and self._next_tick <= now:
            self._next_tick = later(now, self._tick)
            self.tell(SafetyTick())

    def _after(self, message: object) -> None:
        """After each message, in the driver's step, defects and all: for who records."""

    def _refuse_reentry(self) -> None:
        if self._stepping:
            raise Reentered("the driver is handling a message: tell it something instead")

    def _refuse_when_over(self) -> None:
        if self._actor.broken is not None:
            raise self._actor.broken
        if self._actor.death is not None:
            reason = f"actor driver died: {self._actor.death}"
            raise DriverDied(reason, possibly_left(self.state))

    # -- messages ---------------------------------------------------------------------------------

    def tell(self, message: object) -> None:
        """Any message at all, into the mailbox; not yet handled."""
        self._actor.tell(message)

    def succeed(self, effect: PlannedEffect, outcome: OperationOutcome) -> None:
        """The effect's result into the mailbox; not yet handled."""
        self.tell(ExecutorResult(effect.node, effect.operation, outcome=outcome))

    def fail(
        self,
        effect: PlannedEffect,
        reason: str,
        ambiguous: bool = False,
        attempt_ending: bool = False,
        retry_after: timedelta | float | None = None,
    ) -> None:
        """The effect's failure into the mailbox; not yet handled."""
        disposition = Disposition.AMBIGUOUS if ambiguous else Disposition.DEFINITE
        if attempt_ending:
            disposition = Disposition.ATTEMPT_ENDING
        if retry_after is not None:
            retry_after = duration("retry_after", retry_after)
        error = EffectError(reason, disposition, retry_after)
        self.tell(ExecutorResult(effect.node, effect.operation, error=error))

    def observe(self, node_id: str, attempt: int, observation: NodeObservation) -> None:
        """An observation into the mailbox; not yet handled."""
        self.tell(NodeObserved(LogicalNodeId(node_id), NodeAttemptId(attempt), observation))

    def trigger(self) -> None:
        """A trigger into the mailbox; not yet handled."""
        self.tell(Trigger())

    def update_desired(self, shape: ClusterShape) -> None:
        """Offer a new shape now; raises the ShapeRefused that says why not (design rule 23)."""
        self._driver.offer(shape)

    # -- what came out ----------------------------------------------------------------------------

    @property
    def events(self) -> tuple[ClusterEvent, ...]:
        """Everything that happened, oldest first."""
        return tuple(self._world.events)

    def forget_events(self) -> None:
        """For long runs: `events` begins anew."""
        self._world.events.clear()

    @property
    def passes(self) -> int:
        """Completed passes."""
        return self._world.passes

    @property
    def state(self) -> ClusterState:
        """A copy of the observed state."""
        state = self._driver.state
        return replace(state, nodes=dict(state.nodes))

    @property
    def plan(self) -> ReconcilePlan | None:
        """The latest pass's plan."""
        return self._driver.planning.named()

    @property
    def requeue_at(self) -> datetime | None:
        """The latest plan's."""
        return self.plan.requeue_at if self.plan is not None else None

    @property
    def converged(self) -> bool:
        """Whether the state is what the latest accepted shape asks for."""
        return is_converged(self._driver.state, self._driver.desired)

    @property
    def queued(self) -> bool:
        """Whether a pass is queued."""
        return self._driver.queued

    @property
    def desired(self) -> ClusterShape:
        """The shape that was accepted last."""
        return self._driver.desired.shape

    @property
    def now(self) -> datetime:
        """The stepped clock."""
        return self._world.clock.now()

    def status(self) -> ClusterStatus:
        """The snapshot that a user would see."""
        return self._driver.status()

    def story(self, node_id: str) -> list[str]:
        """What the mailbox and the driver know of one node, oldest first."""
        return self._actor.story(LogicalNodeId(node_id))

"""A trace run again: the messages it holds go through a driver of our own, at the times they had.

A driver decides by its messages, their times, what its executor answered and the seed, and all of
that stands in the trace: so the same states come out, and with them what the trace itself does not
hold, such as which command an operation was.  Each line's marks say whether they do.  Nothing
here touches the world: an effect is written down and goes nowhere, an answer comes from the trace.
"""

from collections import deque
from collections.abc import Collection
from datetime import datetime

from msgspec import Struct

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.replay_differences import (
    Difference,
    Unlike,
    unlike_calls,
    unlike_effects,
    unlike_plan,
    unlike_raised,
    unlike_state,
)
from cluster_reconciler.actors.trace import (
    ExecutorCall,
    OpaqueMessage,
    SubmitAnswer,
    TraceHeader,
    TraceLine,
)
from cluster_reconciler.actors.trace_marks import effect_mark, plan_mark, state_digest
from cluster_reconciler.decider import ClusterState, ExpandedShape, ManagedNode, ReconcilePlan
from cluster_reconciler.messages import (
    AttemptIdentity,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
)

__all__ = ["Difference", "NodeChange", "Replay", "Replayed"]


class NodeChange(Struct, frozen=True, gc=False):
    """One node before and after one message; None: it was not there."""

    node: LogicalNodeId
    before: ManagedNode | None
    after: ManagedNode | None


class Replayed(Struct, frozen=True):
    """What one line led to, in the order in which it happened."""

    line: TraceLine
    events: tuple[ClusterEvent, ...] = ()
    effects: tuple[PlannedEffect, ...] = ()
    """What was handed to the executor."""
    expired: tuple[OperationId, ...] = ()
    """What the driver gave up, because its time was over."""
    withdrawn: tuple[OperationId, ...] = ()
    """What was taken back before it had begun."""
    changes: tuple[NodeChange, ...] = ()
    """The nodes that are not as they were, by id."""
    raised: str | None = None
    """The defect that handling it ran into."""


class Replay:
    """Runs one trace again, line by line.

    Args:
        header: what the run began with.
        quick: compare states only, and leave it to the driver which nodes a pass looks at.  For a
            proof leave it off: then each pass decides anew over all nodes, and plans and whole
            effects are compared as well.
    """

    def __init__(self, header: TraceHeader, *, quick: bool = False) -> None:
        self.difference: Difference | None = None
        """The first line that differs."""
        self._quick = quick
        self._host = _ReplayHost(header.started_at)
        self._driver = Driver(
            header.shape,
            header.policy,
            self._host,
            self._host,
            first_attempt=header.first_attempt,
            providers=header.providers,
            check_invariants=header.check_invariants,
            check_plans=not quick,
        )
        self._number = 1
        self._seen: dict[LogicalNodeId, ManagedNode] = {}
        """The nodes as they were after the latest line: values, so keeping them costs no copies."""
        self.compared = 0
        """Lines whose state was compared: all but those that hold no digest."""
        self.plans_compared = 0
        self.effects_compared = 0
        self._nothing = (0, 0, "")
        """The digest of a message that changes no node, for two counters of the state."""

    @property
    def state(self) -> ClusterState:
        """After the latest line."""
        return self._driver.state

    @property
    def desired(self) -> ExpandedShape:
        """The shape that is asked for after the latest line."""
        return self._driver.desired

    @property
    def checked(self) -> int:
        """How many lines of the file were read so far, with the header."""
        return self._number

    def feed(self, line: TraceLine) -> Replayed:
        """The next line."""
        self._number += 1
        raised = self._handle(line)
        changes = self._changes()
        self._check(line, changes, raised)
        return self._host.replayed(line, changes, raised)

    def _handle(self, line: TraceLine) -> str | None:
        self._host.begin(line.at, line.answers)
        if isinstance(line.message, OpaqueMessage):
            self._driver.touched.clear()
            return None
        try:
            self._driver.handle(line.message)
        except Exception as error:  # noqa: BLE001 - the run went on after it, and so does its replay
            return f"{type(error).__name__}: {error}"
        return None

    def _changes(self) -> tuple[NodeChange, ...]:
        changes = []
        for node_id in sorted(self._driver.touched):
            after = self._driver.state.nodes.get(node_id)
            changes.append(NodeChange(node_id, self._seen.get(node_id), after))
            if after is None:
                self._seen.pop(node_id, None)
            else:
                self._seen[node_id] = after
        return tuple(changes)

    def _digest_of(self, touched: Collection[LogicalNodeId]) -> str:
        """Of a message that changed these nodes."""
        state = self._driver.state
        if touched:
            return state_digest(state, touched)
        attempt, generation, known = self._nothing
        if (attempt, generation) != (state.next_attempt_id, state.observed_generation) or not known:
            known = state_digest(state, ())
            self._nothing = (state.next_attempt_id, state.observed_generation, known)
        return known

    def _check(self, line: TraceLine, changes: tuple[NodeChange, ...], raised: str | None) -> None:
        if self.difference is not None:
            return
        unlike = self._unlike(line, changes, raised)
        if unlike is not None:
            self.difference = unlike.at(self._number, line.sequence)
            return
        self.compared += bool(line.digest)
        self.plans_compared += line.plan is not None
        self.effects_compared += sum(answer.effect is not None for answer in line.answers)

    def _unlike(
        self, line: TraceLine, changes: tuple[NodeChange, ...], raised: str | None
    ) -> Unlike | None:
        """The first of what can differ, causes before what follows from them."""
        unlike = unlike_raised(line.raised, raised) or self._host.unlike_calls(line.answers)
        if unlike is not None:
            return unlike
        touched = [change.node for change in changes]
        if self._quick:
            if not line.digest or self._digest_of(touched) == line.digest:
                return None
            return unlike_state(line, self._driver.state, touched)
        return (
            unlike_effects(self._host.effects, line.answers)
            or unlike_state(line, self._driver.state, touched)
            or self._unlike_plan(line)
        )

    def _unlike_plan(self, line: TraceLine) -> Unlike | None:
        planning = self._driver.planning
        if line.plan is None or planning.latest is None:
            return unlike_plan(line.plan, None)
        marks = [effect_mark(effect) for effect in self._host.effects]
        found = plan_mark(planning.latest, marks, self._host.woken_at, planning.waiting)
        return unlike_plan(line.plan, found)


class _ReplayHost:
    """The driver's host and its executor: answers from the trace, and writes down."""

    def __init__(self, at: datetime) -> None:
        self._at = at
        self._answers: deque[SubmitAnswer] = deque()
        self._calls: list[tuple[ExecutorCall, OperationId]] = []
        self._events: list[ClusterEvent] = []
        self.effects: list[PlannedEffect] = []
        """What this line handed to the executor."""
        self.woken_at: datetime | None = None
        """What this line set the timer to."""

    def begin(self, at: datetime, answers: tuple[SubmitAnswer, ...]) -> None:
        """The next line."""
        self._at = at
        self._answers = deque(answers)
        self._calls, self._events, self.effects, self.woken_at = [], [], [], None

    def replayed(
        self, line: TraceLine, changes: tuple[NodeChange, ...], raised: str | None
    ) -> Replayed:
        """What was written down."""
        withdrawn = (a.operation for a in line.answers if a.withdrawn)
        return Replayed(
            line,
            tuple(self._events),
            tuple(self.effects),
            tuple(op for call, op in self._calls if call is ExecutorCall.EXPIRE),
            tuple(withdrawn),
            changes,
            raised,
        )

    def unlike_calls(self, answers: tuple[SubmitAnswer, ...]) -> Unlike | None:
        """How the calls differ from those of the run."""
        return unlike_calls(self._calls, answers)

    # -- for the driver, as its executor ----------------------------------------------------------

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        """What the run's executor answered."""
        self.effects.append(effect)
        said = self._answer(ExecutorCall.SUBMIT, effect.operation)
        if said is None:
            return None
        if said.raised is not None:
            raise RuntimeError(said.raised)
        return said.result

    def withdraw(self, operation: OperationId) -> bool:
        """What the run's executor answered."""
        return self._asked(ExecutorCall.WITHDRAW, operation)

    def expire(self, operation: OperationId) -> bool:
        """What the run's executor answered."""
        return self._asked(ExecutorCall.EXPIRE, operation)

    def _asked(self, call: ExecutorCall, operation: OperationId) -> bool:
        said = self._answer(call, operation)
        if said is not None and said.raised is not None:
            raise RuntimeError(said.raised)
        return said is not None and said.withdrawn

    def retire(self, attempt: NodeAttemptId) -> None:
        """Nothing is kept here."""

    def _answer(self, call: ExecutorCall, operation: OperationId) -> SubmitAnswer | None:
        self._calls.append((call, operation))
        if not self._answers:
            return None
        said = self._answers.popleft()
        return said if (said.call, said.operation) == (call, operation) else None

    # -- for the driver, as its host --------------------------------------------------------------

    def now(self) -> datetime:
        """When the run handled this message."""
        return self._at

    def tell_driver(self, message: object) -> None:
        """What the run's driver told itself stands in the trace."""

    def wake_at(self, moment: datetime | None) -> None:
        """Likewise the deadlines; here it is only compared."""
        self.woken_at = moment

    def happened(self, event: ClusterEvent) -> None:
        """Kept for whoever reads."""
        self._events.append(event)

    def pass_done(self, plan: ReconcilePlan, converged: bool) -> None:
        """Nobody waits."""

    def attempt_over(self, identity: AttemptIdentity) -> None:
        """There is no swarm."""

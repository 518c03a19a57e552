"""A trace run again: the messages it holds go through a driver of our own, at the times they had.

A driver decides by its messages, their times, what its executor answered and the seed, and all of
that stands in the trace: so the same states come out, and with them what the trace itself does not
hold, such as which command an operation was.  Each line's digest says whether they do.  Nothing
here touches the world: an effect is written down and goes nowhere, an answer comes from the trace.
"""

from collections import deque
from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.replay_agenda import Agenda
from cluster_reconciler.actors.trace import (
    ExecutorCall,
    OpaqueMessage,
    SubmitAnswer,
    TraceHeader,
    TraceLine,
    digest,
)
from cluster_reconciler.decider import ClusterState, ExpandedShape, ManagedNode, ReconcilePlan
from cluster_reconciler.messages import (
    AttemptIdentity,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
    RunPass,
)


class NodeChange(Struct, frozen=True, gc=False):
    """One node before and after one message; None: it was not there."""

    node: LogicalNodeId
    before: ManagedNode | None
    after: ManagedNode | None


class Difference(Struct, frozen=True):
    """Where the replay and the trace part: from there on the replayed states are not the run's."""

    line: int
    """In the file, the header being line 1."""
    sequence: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line} (message {self.sequence}): {self.reason}"


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
        quick: look in each pass only at the nodes that may act, and at all of them where the digest
            says that this was wrong.  The same comes out; for a proof leave it off.
    """

    def __init__(self, header: TraceHeader, *, quick: bool = False) -> None:
        self.difference: Difference | None = None
        """The first line that differs."""
        self._agenda = Agenda() if quick else None
        self._host = _ReplayHost(header.started_at)
        self._driver = Driver(
            header.shape,
            header.policy,
            self._host,
            self._host,
            first_attempt=header.first_attempt,
            providers=header.providers,
        )
        self._number = 1
        self._seen: dict[LogicalNodeId, ManagedNode] = {}
        """The nodes as they were after the latest line: values, so keeping them costs no copies."""
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
        if (
            self._agenda is not None
            and isinstance(line.message, RunPass)
            and self._quick_pass(line, self._agenda)
        ):
            return self._host.replayed(line, self._changes(), None)
        raised = self._handle(line)
        changes = self._changes()
        self._check(line, changes)
        return self._host.replayed(line, changes, raised)

    def _quick_pass(self, line: TraceLine, agenda: Agenda) -> bool:
        """Run the pass over those that may act; False: that was wrong, and nothing has changed."""
        driver = self._driver
        state, desired = driver.state, driver.desired
        subset = agenda.subset(state, desired, line.at)
        nodes = {n: state.nodes[n] for n in subset if n in state.nodes}
        specs = {n: desired.nodes[n] for n in subset if n in desired.nodes}
        driver.state = replace(state, nodes=nodes)
        driver.desired = ExpandedShape(desired.shape, specs)
        raised = self._handle(line)
        driver.desired = desired
        after = {n: nodes.get(n) for n in sorted(driver.touched)}
        found = self._digest_of(after)
        if raised is not None or self._host.unlike(line.answers) or found != line.digest:
            driver.state = state
            return False
        for node_id, node in after.items():
            if node is None:
                state.nodes.pop(node_id, None)
            else:
                state.nodes[node_id] = node
        driver.state = replace(driver.state, nodes=state.nodes)
        held_back = frozenset(driver.plan.held_back if driver.plan is not None else ())
        agenda.passed(subset, driver.touched, held_back, driver.state, line.at)
        return True

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
            if self._agenda is not None:
                self._agenda.changed(node_id, after)
        return tuple(changes)

    def _digest_of(self, after: Mapping[LogicalNodeId, ManagedNode | None]) -> str:
        """Of a message that left these nodes so."""
        state = self._driver.state
        if after:
            return digest((state.next_attempt_id, state.observed_generation, after))
        attempt, generation, known = self._nothing
        if (attempt, generation) != (state.next_attempt_id, state.observed_generation) or not known:
            known = digest((state.next_attempt_id, state.observed_generation, {}))
            self._nothing = (state.next_attempt_id, state.observed_generation, known)
        return known

    def _check(self, line: TraceLine, changes: tuple[NodeChange, ...]) -> None:
        if self.difference is not None:
            return
        reason = self._host.unlike(line.answers) or self._digest_differs(line, changes)
        if reason is not None:
            self.difference = Difference(self._number, line.sequence, reason)

    def _digest_differs(self, line: TraceLine, changes: tuple[NodeChange, ...]) -> str | None:
        if not line.digest:
            return None
        found = self._digest_of({change.node: change.after for change in changes})
        if found == line.digest:
            return None
        touched = ", ".join(change.node for change in changes[:5]) or "no node"
        more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
        kind = type(line.message).__name__
        return (
            f"after this {kind} the state has digest {found}, the trace says {line.digest}; "
            f"the replay changed {touched}{more}"
        )


class _ReplayHost:
    """The driver's host and its executor: answers from the trace, and writes down."""

    def __init__(self, at: datetime) -> None:
        self._at = at
        self._answers: deque[SubmitAnswer] = deque()
        self._calls: list[tuple[ExecutorCall, OperationId]] = []
        self._events: list[ClusterEvent] = []
        self._effects: list[PlannedEffect] = []

    def begin(self, at: datetime, answers: tuple[SubmitAnswer, ...]) -> None:
        """The next line."""
        self._at = at
        self._answers = deque(answers)
        self._calls, self._events, self._effects = [], [], []

    def replayed(
        self, line: TraceLine, changes: tuple[NodeChange, ...], raised: str | None
    ) -> Replayed:
        """What was written down."""
        withdrawn = (a.operation for a in line.answers if a.withdrawn)
        return Replayed(
            line,
            tuple(self._events),
            tuple(self._effects),
            tuple(op for call, op in self._calls if call is ExecutorCall.EXPIRE),
            tuple(withdrawn),
            changes,
            raised,
        )

    def unlike(self, answers: tuple[SubmitAnswer, ...]) -> str | None:
        """How the calls differ from those of the run."""
        for number, (call, operation) in enumerate(self._calls):
            if number >= len(answers):
                return f"the replay asked the executor to {call} {operation}, the run did not"
            said = answers[number]
            if (said.call, said.operation) != (call, operation):
                return (
                    f"the replay asked the executor to {call} {operation}, "
                    f"the run to {said.call} {said.operation}"
                )
        if len(answers) > len(self._calls):
            said = answers[len(self._calls)]
            return f"the run asked the executor to {said.call} {said.operation}, the replay did not"
        return None

    # -- for the driver, as its executor ----------------------------------------------------------

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        """What the run's executor answered."""
        self._effects.append(effect)
        said = self._answer(ExecutorCall.SUBMIT, effect.operation)
        if said is None:
            return None
        if said.raised is not None:
            raise RuntimeError(said.raised)
        return said.result

    def withdraw(self, operation: OperationId) -> bool:
        """What the run's executor answered."""
        said = self._answer(ExecutorCall.WITHDRAW, operation)
        return said is not None and said.withdrawn

    def expire(self, operation: OperationId) -> bool:
        """What the run's executor answered."""
        said = self._answer(ExecutorCall.EXPIRE, operation)
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
        """Likewise the deadlines."""

    def happened(self, event: ClusterEvent) -> None:
        """Kept for whoever reads."""
        self._events.append(event)

    def pass_done(self, plan: ReconcilePlan, converged: bool) -> None:
        """Nobody waits."""

    def attempt_over(self, identity: AttemptIdentity) -> None:
        """There is no swarm."""

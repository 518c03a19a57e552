"""A pure world for the pure decider: what really exists, and a loop that applies and folds.

No driver, no threads: plans are applied, effects lie open until a step answers, loses or expires
them.  The world keeps the truth that no record may lose: a lease that exists belongs to an attempt
that the state still knows.  Every step checks the invariants, and that no input was changed.
"""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum, auto

import msgspec
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    Dispatch,
    ExpandedShape,
    Insert,
    ManagedNode,
    Restart,
    RetryPolicy,
    check_converged,
    check_dispatch,
    check_plan,
    check_state,
    check_step,
    expand_shape,
    expire,
    observe,
    reconcile,
)
from cluster_reconciler.decider.transitions import apply, refusal
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapConvergenceAccepted,
    BootstrapFailed,
    BootstrapSessionId,
    BootstrapStarted,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    LogicalNodeId,
    NodeAttemptId,
    NodeLost,
    NodeObservation,
    NodeStage,
    OperationFailed,
    OperationKind,
    OperationOutcome,
    OperationSucceeded,
    PlannedEffect,
    ProviderLeaseId,
    SwactorId,
    SwactorJoined,
    is_adopt_only,
    kind_of,
)
from tests.decider_words import ENDPOINT, MEMORY, T0, group, shape

POLICY = RetryPolicy(jitter=0.5, seed=3)
TICKS = (1, 10, 61, 130, 3600)


class Step(StrEnum):
    """What can happen; a number with it says to whom, or how much."""

    PASS = auto()
    ANSWER = auto()
    REFUSE = auto()
    REFUSE_FOR_GOOD = auto()
    LOSE_REPLY = auto()
    LOSE_REQUEST = auto()
    TICK = auto()
    RESIZE = auto()
    CHANGE = auto()
    JOIN = auto()
    CLOSE = auto()
    BREAK = auto()
    VANISH = auto()


Trace = list[tuple[Step, int]]


class World:
    """The state, the open effects, and what really exists."""

    def __init__(self) -> None:
        self.now = T0
        self.state = ClusterState()
        self.generation = 1
        self.desired = expand_shape(shape(group(count=1)))
        self.open: dict[LogicalNodeId, PlannedEffect] = {}
        self.leases: set[tuple[LogicalNodeId, NodeAttemptId]] = set()
        self.sessions: dict[tuple[LogicalNodeId, NodeAttemptId], BootstrapSessionId] = {}
        self.creates = 0

    def run(self, trace: Trace) -> None:
        """Take every step, then check."""
        for step, number in trace:
            before = self.state
            encoded = encode((before, self.desired))
            held = self.desired
            self.take(step, number)
            assert encode((before, held)) == encoded, f"{step} changed its input"
            self.check(before)

    def check(self, before: ClusterState) -> None:
        """The invariants, and that nothing that exists is forgotten."""
        check_step(before, self.state)
        self.check_truth()

    def check_truth(self) -> None:
        """What must hold of the state alone, and of the state and the world."""
        check_state(self.state)
        check_converged(self.state, self.desired)
        for node_id, attempt in self.leases:
            node = self.state.nodes.get(node_id)
            known = node is not None and node.attempt == attempt
            assert known, f"leaked: the lease of {node_id}, attempt {attempt}"
            assert node is not None
            assert node.record.stage is not NodeStage.DESTROYED, f"leaked by {node_id}"
        for key in self.sessions:
            assert key in self.leases, f"a session runs on no lease: {key}"

    def take(self, step: Step, number: int) -> None:
        """One step."""
        match step:
            case Step.PASS:
                self.reconcile()
            case Step.TICK:
                self.tick(timedelta(seconds=TICKS[number % len(TICKS)]))
            case Step.RESIZE | Step.CHANGE:
                self.reshape(step, number)
            case Step.JOIN | Step.CLOSE | Step.BREAK | Step.VANISH:
                self.report(step, number)
            case _:
                if self.open:
                    self.answer(step, sorted(self.open)[number % len(self.open)])

    def put(self, node_id: LogicalNodeId, node: ManagedNode | None) -> None:
        """A new state with that node in it, or without it."""
        nodes = {key: value for key, value in self.state.nodes.items() if key != node_id}
        if node is not None:
            nodes[node_id] = node
        self.state = replace(self.state, nodes=nodes)

    def reconcile(self) -> int:
        """One pass; how many actions it took."""
        plan = reconcile(self.state, self.desired, self.now)
        check_plan(self.state, self.desired, self.now, plan)
        for action in plan.actions:
            assert refusal(self.state, action) is None
            node_id = action.node
            self.put(node_id, apply(self.state.nodes.get(node_id), action, self.now, POLICY))
            if isinstance(action, Insert | Restart):
                following = NodeAttemptId(self.state.next_attempt_id + 1)
                self.state = replace(self.state, next_attempt_id=following)
            if isinstance(action, Dispatch):
                check_dispatch(self.state, action.effect)
                self.open[node_id] = action.effect
        self.state = replace(self.state, observed_generation=plan.observed_generation)
        return len(plan.actions)

    def tick(self, wait: timedelta) -> None:
        """Let time pass; what is overdue is judged, and of an expired effect half have happened."""
        self.now += wait
        for node_id, node in list(self.state.nodes.items()):
            judged = expire(node, self.now, POLICY)
            effect = self.open.pop(node_id, None) if judged.pending is None else None
            if effect is not None and effect.operation.sequence % 2:
                self.happen(effect)
            if judged is not node:
                self.put(node_id, judged)

    def reshape(self, step: Step, number: int) -> None:
        """Another count (0 to 3), or another spec."""
        self.generation += 1
        count = number % 4 if step is Step.RESIZE else len(self.desired.nodes)
        command = str(number % 2) if step is Step.CHANGE else ""
        wanted = shape(
            group(count=count, command=command), generation=self.generation, limits={"memory": 2}
        )
        self.desired = expand_shape(wanted, self.desired)

    def answer(self, step: Step, node_id: LogicalNodeId) -> None:
        """The open effect of that node ends in one way or another."""
        effect = self.open.pop(node_id)
        operation = effect.operation
        if step in {Step.ANSWER, Step.LOSE_REPLY}:
            outcome = self.happen(effect)
            if step is Step.ANSWER:
                self.fold(node_id, OperationSucceeded(operation, outcome))
                return
        disposition = {
            Step.REFUSE: Disposition.DEFINITE,
            Step.REFUSE_FOR_GOOD: Disposition.ATTEMPT_ENDING,
        }.get(step, Disposition.AMBIGUOUS)
        self.fold(node_id, OperationFailed(operation, EffectError(str(step), disposition)))

    def fold(self, node_id: LogicalNodeId, news: NodeObservation) -> None:
        """Fold it, whether or not it is refused."""
        node = self.state.nodes.get(node_id)
        if node is not None:
            self.put(node_id, observe(node, news, self.now, POLICY))

    def happen(self, effect: PlannedEffect) -> OperationOutcome:
        """Do to the world what the effect asks, as an executor that looks first would."""
        key = (effect.node, effect.operation.attempt)
        look = is_adopt_only(effect.command)
        match kind_of(effect.command):
            case OperationKind.CREATE_LEASE:
                if look and key not in self.leases:
                    return LeaseAbsent()
                self.creates += key not in self.leases
                self.leases.add(key)
                lease = LeaseFacts(MEMORY, ProviderLeaseId(f"{key[0]}/{key[1]}"))
                return LeaseCreated(lease, ENDPOINT if key[1] % 2 else None)
            case OperationKind.LOOKUP_ENDPOINT:
                return EndpointLookup(ENDPOINT) if key in self.leases else LeaseAbsent()
            case OperationKind.START_BOOTSTRAP:
                if key not in self.sessions:
                    if look or key not in self.leases:
                        return BootstrapAbsent()
                    number = key[1] * 1000 + effect.operation.sequence
                    self.sessions[key] = BootstrapSessionId(number)
                return BootstrapStarted(self.sessions[key])
            case OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED:
                return BootstrapConvergenceAccepted()
            case OperationKind.CANCEL_BOOTSTRAP:
                self.sessions.pop(key, None)
                return BootstrapCancelled()
            case OperationKind.DESTROY_LEASE:
                self.sessions.pop(key, None)
                self.leases.discard(key)
                return LeaseDestroyed()

    def report(self, step: Step, number: int) -> None:
        """Something happens to a session, or to a lease, and is told."""
        if not self.leases:
            return
        key = sorted(self.leases)[number % len(self.leases)]
        if step is Step.VANISH:
            self.leases.discard(key)
            self.sessions.pop(key, None)
            if self.state.nodes[key[0]].attempt == key[1]:
                self.fold(key[0], NodeLost("vanished"))
        elif (session := self.sessions.get(key)) is not None:
            news: dict[Step, NodeObservation] = {
                Step.JOIN: SwactorJoined(session, SwactorId(key[0])),
                Step.CLOSE: BootstrapClosed(session),
                Step.BREAK: BootstrapFailed(session, "broke"),
            }
            self.fold(key[0], news[step])

    def settle(self, wanted: ExpandedShape) -> None:
        """Faults have ended: everything is answered well and every session joins."""
        self.desired = wanted
        for _ in range(400):
            for node_id in sorted(self.open):
                self.answer(Step.ANSWER, node_id)
            for number in range(len(self.leases)):
                self.report(Step.JOIN, number)
            if not self.reconcile() and not self.open:
                due = reconcile(self.state, wanted, self.now).requeue_at
                if due is None:
                    return
                self.tick(max(due - self.now, timedelta(0)))
            self.check_truth()
        raise AssertionError(f"not settled: {sorted(self._unsettled())}")

    def _unsettled(self) -> Iterator[str]:
        for node_id, node in self.state.nodes.items():
            if not node.record.ready:
                yield f"{node_id} at {node.record.stage}, {node.intent}"


def encode(value: object) -> bytes:
    """Everything in it, to be compared."""
    return msgspec.json.encode(value)

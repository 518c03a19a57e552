"""The driver: sole owner of the observed state, one pass at a time (spec §9, §14.4, §14.9).

Rules for what may live here: every change of state happens in `handle`, one message after another.
What to do is decided in `decider`, what is done to the world in an executor; this file only moves
values between them, in the right order, and never blocks.

Theory of operation.  A message is folded, or refused with a word in the node's story.  What was
folded queues one pass (a queued pass is not queued twice; what comes during a pass queues one
more).  A pass plans from the latest state and shape, applies each action that still fits, and
records every operation as pending before its effect is submitted.

A deadline goes to the end of the mailbox before it is judged: a result that came in time, but has
not been read yet, wins over the expiry.  What has expired stays expired: a late result is refused.
Nothing raises out of `handle` but a defect of ours; the actor around it contains even that.
"""

from collections.abc import Callable, Collection
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from cluster_reconciler.actors.admission import accepted_offer, named_shape, news_of
from cluster_reconciler.actors.cluster_turns import ClusterTurns
from cluster_reconciler.actors.events import NOTED, ClusterEvent, EventKind, node_events
from cluster_reconciler.actors.invariant_guard import InvariantGuard
from cluster_reconciler.actors.planning import Planning
from cluster_reconciler.actors.ports import Asked, DriverHost, Executor, StatusQuery, UpdateRetry
from cluster_reconciler.actors.status import ClusterStatus, FailureNote, cluster_status
from cluster_reconciler.decider import (
    BeginDelete,
    ClusterState,
    Dispatch,
    ExpandedShape,
    Insert,
    ManagedNode,
    MarkDestroyed,
    NodeAction,
    Reap,
    ReconcilePlan,
    Restart,
    RetryPolicy,
    expand_shape,
    expire,
    transitions,
)
from cluster_reconciler.decider.observe import fold
from cluster_reconciler.decider.observe import refusal as observation_refusal
from cluster_reconciler.decider.plan import ALLOCATED
from cluster_reconciler.messages import (
    AttemptIdentity,
    ClusterShape,
    DeadlineDue,
    Disposition,
    Drain,
    EffectError,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    NodeObservation,
    NodeObserved,
    OperationFailed,
    OperationId,
    PlannedEffect,
    RunPass,
    SafetyTick,
    ShapeRefused,
    Trigger,
    UpdateDesired,
)


class Driver:
    """Folds, plans, applies.  Not safe for threads: its mailbox is."""

    def __init__(
        self,
        shape: ClusterShape,
        retry: RetryPolicy,
        executor: Executor,
        host: DriverHost,
        *,
        first_attempt: int = 1,
        check_invariants: bool = False,
        check_plans: bool = False,
        providers: Collection[str] | None = None,
    ) -> None:
        """`check_plans`: hold each plan to that of all nodes; with `check_invariants` it is done
        too.  `providers`: those that a shape may ask for; None: any.  Raises ShapeError."""
        self._providers = providers
        self.desired: ExpandedShape = expand_shape(shape)
        self.state = ClusterState(next_attempt_id=NodeAttemptId(first_attempt), nodes={})
        self.planning = Planning(self._differs, always=check_invariants or check_plans)
        self.queued = False
        """One RunPass is in the mailbox."""
        self._missed = False
        """It was so already at the latest safety tick."""
        self.processing = False
        """A pass is running; what comes meanwhile queues one more."""
        self.failures: dict[LogicalNodeId, FailureNote] = {}
        self.touched: set[LogicalNodeId] = set()
        """The nodes that the latest message changed."""
        self.defect: str | None = None
        """Why the latest pass did not complete, when it did not: a defect of ours."""
        self._retry = retry
        self._executor = executor
        self._host = host
        self._guard = InvariantGuard(on=check_invariants)
        self._wake: datetime | None = None
        """When the latest pass is to be followed by another one without any message."""
        self._turns = ClusterTurns()
        self._draining = False

    # -- the mailbox ------------------------------------------------------------------------------

    def handle(self, message: object) -> None:
        """One message of the mailbox."""
        self.touched.clear()
        match message:
            case RunPass():
                self._run_pass()
            case ExecutorResult() | NodeObserved():
                self._receive(message)
            case Trigger() | SafetyTick():
                self.request_pass(by_tick=isinstance(message, SafetyTick))
            case DeadlineDue(judged=False):
                self._host.tell_driver(DeadlineDue(judged=True))
            case DeadlineDue():
                self._expire_overdue()
            case Asked(asked, reply):
                self._answer(asked, reply)
            case UpdateDesired(shape):
                try:
                    self.offer(shape)
                except ShapeRefused as refused:
                    self._tell(EventKind.REFUSED, None, f"shape refused: {refused.reason}")
            case Drain():
                self.drain()
            case UpdateRetry(RetryPolicy() as policy):
                self._retry = policy
            case Insert() | BeginDelete() | MarkDestroyed() | Restart() | Reap() | Dispatch():
                # An action out of its pass is stale by definition: look again instead.
                self._tell(EventKind.REFUSED, None, f"ignored, only a pass acts: {message}")
                self.request_pass()
            case _:
                found = type(message).__name__
                self._tell(EventKind.REFUSED, None, f"ignored a message of unknown type {found}")

    def request_pass(self, *, by_tick: bool = False) -> None:
        """Queue a pass, unless one is queued (§9).  One that was queued at the tick before already,
        and has not run, is lost: no message waits for so long."""
        if by_tick:
            self.planning.compare_next()
            self.queued, self._missed = self.queued and not self._missed, self.queued
        if not self.queued:
            self.queued = True
            self._host.tell_driver(RunPass())

    def offer(self, shape: ClusterShape) -> None:
        """Take a new desired shape; raises a ShapeRefused and changes nothing (design rule 23)."""
        if self._draining:
            raise ShapeRefused("the cluster is draining: it takes no new shape")
        offered = accepted_offer(shape, self.desired, self._providers)
        if offered is None:
            return
        self.desired = offered
        self._tell(EventKind.GENERATION, None, f"{named_shape(offered.shape)} is desired")
        self.request_pass()

    def drain(self) -> int:
        """Ask for nothing, and take no other shape from now on; the generation of that."""
        accepted = self.desired.shape
        if accepted.groups:
            self.offer(replace(accepted, generation=accepted.generation + 1, groups=()))
        self._draining = True
        return self.desired.shape.generation

    def status(self) -> ClusterStatus:
        """A snapshot for people and programs."""
        warnings = (f"the latest pass failed: {self.defect}",) if self.defect else ()
        return cluster_status(
            self.state,
            self.desired,
            self._host.now(),
            plan=self.planning.named(),
            failures=self.failures,
            requeue_at=self._wake,
            warnings=warnings + self.planning.warnings,
        )

    def _answer(self, asked: object, reply: "Future[object]") -> None:
        if not reply.set_running_or_notify_cancel():
            return  # The asker has given up: an update nobody knows of must not take effect.
        with suppress(InvalidStateError):  # The end of the cluster has answered: that stands.
            try:
                if isinstance(asked, UpdateDesired):
                    self.offer(asked.shape)
                    reply.set_result(None)
                elif isinstance(asked, UpdateRetry):
                    self.handle(asked)
                    reply.set_result(None)
                elif isinstance(asked, Drain | StatusQuery):
                    reply.set_result(self.drain() if isinstance(asked, Drain) else self.status())
                else:
                    raise TypeError(f"no answer to {type(asked).__name__}")
            except Exception as error:  # noqa: BLE001 - whatever it is, the asker must not hang
                reply.set_exception(error)

    # -- folding ----------------------------------------------------------------------------------

    def _receive(self, message: ExecutorResult | NodeObserved) -> None:
        """Check what came from outside before anything is folded."""
        try:
            node_id, attempt, observation = news_of(message)
        except ValueError as error:
            text = f"ignored a malformed {type(message).__name__}: {error}"
            self._tell(EventKind.REFUSED, None, text)
        else:
            self._fold(node_id, attempt, observation)

    def _fold(
        self, node_id: LogicalNodeId, attempt: NodeAttemptId, observation: NodeObservation
    ) -> None:
        node = self.state.nodes.get(node_id)
        reason = (
            f"stale: there is no node {node_id}"
            if node is None
            else f"stale: it is of attempt {attempt}, the node is at attempt {node.attempt}"
            if node.attempt != attempt
            else observation_refusal(node, observation)
        )
        if node is None or reason is not None:
            name = type(observation).__name__
            self._tell(EventKind.REFUSED, node_id, f"{name} refused, {reason}", attempt)
            return
        self._guard.fold(node_id, node, attempt, observation)
        self._put(node_id, fold(node, observation, self._host.now(), self._retry))
        self.request_pass()

    def _expire_overdue(self) -> None:
        """Fail what is overdue, then look again: a retry or probe may be due as well."""
        now = self._host.now()
        for node_id in self.planning.overdue(self.state, now):
            node = self.state.nodes[node_id]
            pending = node.pending
            overdue = pending is not None and pending.deadline <= now
            not_run = overdue and pending is not None and self._call_executor("expire", pending.id)
            self._put(node_id, expire(node, now, self._retry, not_run=not_run))
        self.request_pass()

    # -- passes -----------------------------------------------------------------------------------

    def _run_pass(self) -> None:
        assert not self.processing, "a pass within a pass"
        self.queued = self._missed = False
        self.processing = True
        try:
            self._plan_and_apply()
            self.defect = None
        except Exception as error:
            # The state holds: it changes only by whole values.  The safety tick tries again.
            self.defect = f"{type(error).__name__}: {error}"
            self._tell(EventKind.WARNING, None, f"a pass failed, a defect: {self.defect}")
            raise
        finally:
            self.processing = False

    def _plan_and_apply(self) -> None:
        now = self._host.now()
        plan = self.planning.decide(self.state, self.desired, now)
        self._guard.plan(self.state, self.desired, now, plan)
        wake = plan.requeue_at
        allocating = True
        for action in plan.actions:
            if isinstance(action, ALLOCATED) and not allocating:
                continue
            reason = transitions.refusal(self.state, action)
            if reason is not None:
                self._tell(
                    EventKind.REFUSED, action.node, f"stale {type(action).__name__}: {reason}"
                )
                allocating = allocating and not isinstance(action, ALLOCATED)
                self.request_pass()
                continue
            deadline = self._apply(action, now)
            if deadline is not None and (wake is None or deadline < wake):
                wake = deadline
        if self.state.observed_generation != plan.observed_generation:
            self.state = replace(self.state, observed_generation=plan.observed_generation)
        self._guard.rest(self.state, self.desired)
        self._wake = wake
        self._host.wake_at(wake)
        self._report(plan)

    def _report(self, plan: ReconcilePlan) -> None:
        converged = self.planning.is_converged(self.state, self.desired)
        for kind, text in self._turns.told_by(plan, self.desired.shape, converged=converged):
            self._tell(kind, None, text)
        self._host.pass_done(plan, converged)

    def _apply(self, action: NodeAction, now: datetime) -> datetime | None:
        """One action that fits; the deadline of the operation that it recorded, if it did."""
        node_id = action.node
        node = transitions.apply(self.state.nodes.get(node_id), action, now, self._retry)
        self._put(node_id, node, allocated=isinstance(action, ALLOCATED))
        if isinstance(action, Dispatch):
            assert node is not None, f"{node_id}: dispatched and gone"
            assert node.pending is not None, f"{node_id}: dispatched and nothing pending"
            self._submit(action.effect)
            return node.pending.deadline
        if not isinstance(action, Reap):
            self.request_pass()
        if isinstance(action, BeginDelete):
            self._withdraw_pending(node_id)
        if isinstance(action, MarkDestroyed):
            self._retire(node_id)
        return None

    def _submit(self, effect: PlannedEffect) -> None:
        """The operation is recorded; a submission that fails is folded as its failure (§6)."""
        self._guard.dispatch(self.state, effect)
        try:
            answer = self._executor.submit(effect)
        except Exception as error:  # noqa: BLE001 - an executor of the host's may raise anything
            reason = str(error) or type(error).__name__
            failed = OperationFailed(effect.operation, EffectError(reason))
            self._fold(effect.node, effect.operation.attempt, failed)
        else:
            if answer is not None:
                self._host.tell_driver(answer)

    def _withdraw_pending(self, node_id: LogicalNodeId) -> None:
        """What has not begun for a node that is to go must not begin at all (design rule 25)."""
        node = self.state.nodes[node_id]
        if node.pending is not None and self._call_executor("withdraw", node.pending.id):
            error = EffectError("withdrawn before it began", Disposition.DEFINITE, not_run=True)
            self._fold(node_id, node.attempt, OperationFailed(node.pending.id, error))

    def _retire(self, node_id: LogicalNodeId) -> None:
        node = self.state.nodes[node_id]
        retire: Callable[[NodeAttemptId], None] | None = getattr(self._executor, "retire", None)
        try:
            if retire is not None:
                retire(node.attempt)
            self._host.attempt_over(AttemptIdentity(node.record.run_id, node_id, node.attempt))
        except Exception as error:  # noqa: BLE001 - nor may one who is told keep the others waiting
            text = f"attempt {node.attempt} of {node_id} could not be retired: {error!r}"
            self._tell(EventKind.WARNING, node_id, text, node.attempt)

    def _call_executor(self, name: str, operation: OperationId) -> bool:
        """Ask an executor that can tell whether the operation is withdrawn before it began."""
        method: Callable[[OperationId], bool] | None = getattr(self._executor, name, None)
        try:
            return method is not None and bool(method(operation))
        except Exception as error:  # noqa: BLE001 - an executor of the host's may raise anything
            text = f"the executor failed to {name} {operation}, it is taken to run: {error!r}"
            self._tell(EventKind.WARNING, None, text)
            return False

    # -- one way to change a node, one way to say so ----------------------------------------------

    def _put(
        self, node_id: LogicalNodeId, node: ManagedNode | None, *, allocated: bool = False
    ) -> None:
        old = self.state.nodes.get(node_id)
        if node is old:
            return
        self.touched.add(node_id)
        self.planning.touch(node_id)
        next_before = following = self.state.next_attempt_id
        if allocated:
            following = NodeAttemptId(next_before + 1)
            self.state = replace(self.state, next_attempt_id=following)
        if node is None:
            del self.state.nodes[node_id]
            self.failures.pop(node_id, None)
        else:
            self.state.nodes[node_id] = node
        self._guard.change(node_id, old, node, (next_before, following))
        for event in node_events(node_id, old, node, self._host.now()):
            if node is not None and event.kind in NOTED:
                reason = node.retry.last_error or event.text
                self.failures[node_id] = FailureNote(event.at, node.attempt, reason)
            self._host.happened(event)

    def _differs(self, how: str) -> None:
        self._tell(EventKind.WARNING, None, how)
        self._guard.differs(how)

    def _tell(
        self,
        kind: EventKind,
        node_id: LogicalNodeId | None,
        text: str,
        attempt: NodeAttemptId | None = None,
    ) -> None:
        self._host.happened(ClusterEvent(self._host.now(), kind, node_id, attempt, text))

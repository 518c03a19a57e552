"""What must hold at rest beside what `stepping_oracle.check_world` says, asked after every move.

It asks the real decider about the state that the driver has come to, and changes nothing.
"""

from collections import deque

from msgspec.structs import replace

from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.invariant_guard import InvariantBroken
from cluster_reconciler.decider import (
    ClusterState,
    Dispatch,
    Insert,
    ManagedNode,
    NodeAction,
    Reap,
    ReconcilePlan,
    Restart,
    observe,
    reconcile,
    reconcile_node,
    transitions,
)
from cluster_reconciler.decider.node import is_steady, row_of
from cluster_reconciler.decider.observe import refusal
from cluster_reconciler.decider.state import ATTEMPT_ID_MAX
from cluster_reconciler.messages import (
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapStage,
    CreateLease,
    DeadlineDue,
    Drain,
    EffectError,
    ExecutorResult,
    LogicalNodeId,
    LogicalNodeSpec,
    LookupEndpoint,
    NodeAttemptId,
    NodeIntent,
    NodeObservation,
    NodeObserved,
    NodeStage,
    OperationFailed,
    OperationId,
    RunPass,
    StartBootstrap,
    is_adopt_only,
)
from tests.planning_counts import planning_of
from tests.simulation.world import LAST_MOMENT, SimulatedWorld

ACTIONS_KEPT = 60
"""So many of the latest actions are asked about again."""
DIFFERENCE = "a defect: the plan of what changed is not that of all"
"""How the driver's word of a difference begins."""
_ACQUIRING = (CreateLease, LookupEndpoint, StartBootstrap)
DEPTH_MAX = 2_000
"""More messages than this in the mailbox at once, and it grows without bound."""
MESSAGES_MAX = 200_000
"""More messages than this in one life, hundreds of times what any has, and the driver spins."""


class Oracle:
    """Judges one world; it remembers which actions were planned."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._actions: deque[NodeAction] = deque(maxlen=ACTIONS_KEPT)
        self._before: dict[LogicalNodeId, ManagedNode] = {}
        """The nodes as they were before the message that is being handled."""
        self._handled_so_far = 0
        world.cluster.after_message = self._handled

    def check(self) -> None:
        """Raises AssertionError: something does not hold."""
        self._at_rest()
        state = self._world.cluster.state
        desired = self._world.wanted.nodes
        self._no_action_fits_twice(state)
        for node_id, node in state.nodes.items():
            wanted = desired.get(node_id)
            self._table_and_guard_agree(node, wanted)
            self._what_does_not_fit_is_refused(state, node, wanted)
            self._what_is_refused_changes_nothing(node)

    def _handled(self, message: object) -> None:
        """After each message, in the driver's step: only an InvariantBroken gets out of that."""
        cluster = self._world.cluster
        if cluster.depth > DEPTH_MAX:
            raise InvariantBroken(f"{cluster.depth} messages wait in the mailbox")
        self._handled_so_far += 1
        if self._handled_so_far > MESSAGES_MAX:
            raise InvariantBroken(f"the driver spins: {MESSAGES_MAX} messages in one life")
        _note(self._world, message)
        self._nothing_leaks()
        nodes = cluster.state.nodes
        if isinstance(message, RunPass) and cluster.plan is not None:
            self._actions.extend(cluster.plan.actions)
            if self._world.drained:
                _nothing_is_acquired(cluster.plan)
        elif isinstance(message, NodeObserved):
            self._only_its_own_attempt(message.node, message.attempt, nodes)
        elif isinstance(message, ExecutorResult):
            self._only_its_own_attempt(message.node, message.operation.attempt, nodes)
        self._before = nodes

    def _nothing_leaks(self) -> None:
        """Also between two rests, while results are on their way."""
        try:
            self._world.check_machines()
        except AssertionError as error:
            raise InvariantBroken(f"{error}") from error

    def _only_its_own_attempt(
        self,
        node_id: LogicalNodeId,
        attempt: NodeAttemptId,
        nodes: dict[LogicalNodeId, ManagedNode],
    ) -> None:
        """What is of another attempt changes nothing (spec §14.8)."""
        before = self._before.get(node_id)
        if before is not None and before.attempt != attempt and nodes.get(node_id) is not before:
            raise InvariantBroken(
                f"{node_id}: news of attempt {attempt} changed attempt {before.attempt}"
            )

    def _at_rest(self) -> None:
        world, cluster = self._world, self._world.cluster
        shown = {node.node for node in cluster.status().nodes}
        assert shown >= set(cluster.state.nodes), f"status shows only {sorted(shown)}"
        wanted = cluster.desired.groups
        assert not (world.drained and wanted), f"drained, and {wanted} are desired"
        assert cluster.depth == 0, f"{cluster.depth} messages are left in the mailbox at rest"
        due = cluster.requeue_at
        assert due is None or due > cluster.now or world.wake_lost or cluster.now >= LAST_MOMENT, (
            f"the latest plan wants another pass at {due}, which is over: it is {cluster.now}"
        )
        left = reconcile(cluster.state, world.wanted, cluster.now).actions
        assert not left or world.wake_lost or cluster.now >= LAST_MOMENT, (
            f"at rest until the next tick, which is a safety net only, and there is to do: {left}"
        )
        for node_id, node in cluster.state.nodes.items():
            if node.pending is None or world.wake_lost or node.pending.deadline > LAST_MOMENT:
                continue
            wake, deadline = cluster.wake_at, node.pending.deadline
            assert wake is not None and wake <= deadline, (  # noqa: PT018
                f"{node_id} waits for {node.pending.id} until {deadline}, and nobody would notice: "
                f"the next wake-up is at {wake}"
            )
        alive = len(cluster.state.nodes) + len(world.executors.running)
        assert world.executors.attempts <= alive, (
            f"{world.executors.attempts} attempts are remembered by the executors, "
            f"{alive} may have work or a future"
        )

    def _no_action_fits_twice(self, state: ClusterState) -> None:
        """An action was applied, or was stale: it is stale now."""
        for action in self._actions:
            assert transitions.refusal(state, action) is not None, (
                f"could be applied a second time: {action}"
            )
        if state.next_attempt_id >= ATTEMPT_ID_MAX:
            for spec in self._world.wanted.nodes.values():
                beyond = Insert(state.next_attempt_id, spec)
                assert transitions.refusal(state, beyond) is not None, f"{beyond} has no id"

    def _table_and_guard_agree(self, node: ManagedNode, wanted: LogicalNodeSpec | None) -> None:
        now = self._world.now
        by_table = row_of(node, wanted, now).decide(node, wanted, now)
        decided = reconcile_node(node, wanted, now)
        assert decided == by_table, f"the guard says {decided}, the table {by_table}, of {node}"
        if wanted is not None and is_steady(node, wanted):
            assert (decided.action, decided.requeue_at) == (None, None), f"{node}: {decided}"

    def _what_does_not_fit_is_refused(
        self, state: ClusterState, node: ManagedNode, wanted: LogicalNodeSpec | None
    ) -> None:
        node_id, attempt = node.record.logical_node_id, node.attempt
        if node.record.stage is NodeStage.DESTROYED:
            return
        wrong: list[NodeAction] = [Reap(node_id, attempt)]
        if wanted is not None:
            wrong.append(Restart(node_id, attempt, state.next_attempt_id, wanted))
        for action in wrong:
            assert transitions.refusal(state, action) is not None, f"fits, and must not: {action}"

    def _what_is_refused_changes_nothing(self, node: ManagedNode) -> None:
        now, retry = self._world.now, self._world.policies[-1]
        stale = OperationFailed(
            OperationId(NodeAttemptId(node.attempt), node.next_operation_sequence),
            EffectError("of an operation that there is not"),
        )
        news: list[NodeObservation] = [stale]
        if node.active_bootstrap is not None:
            news.append(BootstrapObserved(node.active_bootstrap, BootstrapStage.CREATED))
            another = BootstrapSessionId(node.active_bootstrap + 1)
            news.append(BootstrapObserved(another, BootstrapStage.CONVERGED))
            if node.intent is NodeIntent.DELETING:
                news.append(BootstrapFailed(node.active_bootstrap, "while it is being deleted"))
            self._missing_facts_are_made(node)
        for observation in news:
            refused = refusal(node, observation)
            assert refused is not None, f"not refused by {node}: {observation}"
            assert observe(node, observation, now, retry) is node, f"refused, and folded: {refused}"

    def _missing_facts_are_made(self, node: ManagedNode) -> None:
        """A host may hand over a node whose session is known by its id alone."""
        session = node.active_bootstrap
        if session is None or node.record.failed_at is not None:
            return
        bare = replace(node, record=replace(node.record, bootstrap=None))
        news = BootstrapObserved(session, BootstrapStage.SSH_READY)
        folded = observe(bare, news, self._world.now, self._world.policies[-1])
        facts = folded.record.bootstrap
        assert facts is not None, f"no facts of session {session}"
        assert (facts.session_id, facts.last_stage) == (session, BootstrapStage.SSH_READY)


class PlansAlone:
    """Judges nothing but the plans: whether each is that of all nodes.  It costs a fraction of what
    the other checks do, so that many more passes can be compared."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._planning = planning_of(world.cluster)
        world.cluster.after_message = self._handled

    def check(self) -> None:
        """Nothing more."""

    def _handled(self, message: object) -> None:
        """After each message, as in `Oracle`; the driver, unwatched, goes on by the full plan."""
        _note(self._world, message)
        cluster = self._world.cluster
        if cluster.handled > MESSAGES_MAX:
            raise InvariantBroken(f"the driver spins: {MESSAGES_MAX} messages in one life")
        if self._planning.differences:
            told = (e.text for e in cluster.events if e.kind is EventKind.WARNING)
            raise InvariantBroken(next((t for t in told if t.startswith(DIFFERENCE)), DIFFERENCE))


def _note(world: SimulatedWorld, message: object) -> None:
    """What a message that was handled means for what may be demanded of the world."""
    if isinstance(message, Drain):
        world.drained = True
    elif isinstance(message, DeadlineDue):
        world.wake_lost &= not message.judged  # Judged: nothing overdue is left.


def _nothing_is_acquired(plan: ReconcilePlan) -> None:
    """Once drained, what there is goes and nothing comes."""
    for action in plan.actions:
        command = action.effect.command if isinstance(action, Dispatch) else None
        acquires = isinstance(command, _ACQUIRING) and not is_adopt_only(command)
        if acquires or isinstance(action, Insert | Restart):
            raise InvariantBroken(f"planned after the drain: {action}")

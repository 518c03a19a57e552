"""Where a run and its replay part, in words: which message, which node, which field, and what each
of the two has there.

Pure: it compares what a trace's line keeps with what the replay of that line came to, and answers
the first difference.  What follows from one is not told.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.mailbox_words import one_line
from cluster_reconciler.actors.trace import ExecutorCall, OpaqueMessage, SubmitAnswer, TraceLine
from cluster_reconciler.actors.trace_marks import (
    NodeMark,
    NodeMarks,
    PlanMark,
    effect_mark,
    state_marks,
)
from cluster_reconciler.decider import ClusterState
from cluster_reconciler.messages import LogicalNodeId, OperationId, PlannedEffect, kind_of

Calls = Sequence[tuple[ExecutorCall, OperationId]]

NAMED_MAX = 5

_NODE_FIELDS = {
    "attempt": "attempt",
    "intent": "intent",
    "stage": "record.stage",
    "ready": "record.ready",
    "pending": "pending.id.sequence",
    "deadline": "pending.deadline",
    "failures": "retry.consecutive_failures",
    "next_effect_at": "retry.next_effect_at",
    "restart_at": "retry.restart_at",
    "progress_deadline": "progress.deadline",
    "lease": "record.lease.lease_id",
    "session": "active_bootstrap",
}
"""What a mark tells plainly, and where it stands in a node."""

_PLAN_FIELDS = (
    "observed_generation",
    "actions",
    "requeue_at",
    "wake_at",
    "held_back",
    "allocator_exhausted",
)


class Difference(Struct, frozen=True):
    """Where the replay and the trace part: from there on the replayed states are not the run's."""

    line: int
    """In the file, the header being line 1."""
    sequence: int
    reason: str
    node: LogicalNodeId | None = None
    """The node that differs; None: it is not one node's."""
    field: str = ""
    """What of it: a field of the node, `plan.requeue_at`, `effects`, `calls`, `raised`, ..."""
    expected: str = ""
    """What the run had; empty where the trace keeps only a checksum of it."""
    found: str = ""
    """What the replay has."""

    def __str__(self) -> str:
        return f"line {self.line} (message {self.sequence}): {self.reason}"


class Unlike(Struct, frozen=True):
    """A `Difference` of which nobody knows yet where it stands."""

    reason: str
    node: LogicalNodeId | None = None
    field: str = ""
    expected: str = ""
    found: str = ""

    def at(self, line: int, sequence: int) -> Difference:
        """There."""
        return Difference(
            line, sequence, self.reason, self.node, self.field, self.expected, self.found
        )


def unlike_raised(said: str | None, found: str | None) -> Unlike | None:
    """Whether handling the message ended as in the run; of an exception its type counts."""
    if _type_of(said) == _type_of(found):
        return None
    run, replay = _ended(said), _ended(found)
    reason = f"in the run the driver {run}, in the replay it {replay}"
    return Unlike(reason, None, "raised", run, replay)


def _ended(raised: str | None) -> str:
    return "returned" if raised is None else f"raised {one_line(raised)}"


def _type_of(raised: str | None) -> str | None:
    return None if raised is None else raised.partition(":")[0]


def unlike_calls(calls: Calls, answers: Sequence[SubmitAnswer]) -> Unlike | None:
    """Whether the executor was asked the same, in the same order."""
    for number, (call, operation) in enumerate(calls):
        asked = f"{call} {operation}"
        if number >= len(answers):
            reason = f"the replay asked the executor to {asked}, the run did not"
            return Unlike(reason, None, "calls", "", asked)
        said = answers[number]
        if (said.call, said.operation) != (call, operation):
            run = f"{said.call} {said.operation}"
            reason = f"the replay asked the executor to {asked}, the run to {run}"
            return Unlike(reason, None, "calls", run, asked)
    if len(answers) > len(calls):
        said = answers[len(calls)]
        run = f"{said.call} {said.operation}"
        reason = f"the run asked the executor to {run}, the replay did not"
        return Unlike(reason, None, "calls", run, "")
    return None


def unlike_effects(
    effects: Sequence[PlannedEffect], answers: Sequence[SubmitAnswer]
) -> Unlike | None:
    """Whether what was submitted is the same, whole commands compared by their checksums."""
    submitted = (answer for answer in answers if answer.call is ExecutorCall.SUBMIT)
    for effect, said in zip(effects, submitted, strict=False):
        if said.effect is None or effect_mark(effect).sum == said.effect:
            continue
        kind = kind_of(effect.command)
        reason = (
            f"the effect {effect.operation} of {effect.node}, a {kind}, is not the one that the "
            "run submitted under that name"
        )
        return Unlike(reason, effect.node, "effects", "", f"{effect.operation} {kind}")
    return None


def unlike_state(
    line: TraceLine, state: ClusterState, touched: Sequence[LogicalNodeId]
) -> Unlike | None:
    """Whether the message left the state as it did in the run; `touched`: in order of names."""
    found, marks = state_marks(state, touched)
    if not line.digest or found == line.digest:
        return None
    kind = type(line.message).__name__
    named = ", ".join(touched[:NAMED_MAX]) or "no node"
    more = f" and {len(touched) - NAMED_MAX} more" if len(touched) > NAMED_MAX else ""
    about = (
        f"after this {kind} the state has digest {found}, the trace says {line.digest}; "
        f"the replay changed {named}{more}"
    )
    if isinstance(line.message, OpaqueMessage):
        hidden = f"the message could not be written into the trace, it was a {kind}"
        hidden = hidden.replace(kind, line.message.message_type)
        return Unlike(f"{about}; {hidden}", None, "message")
    unlike = _unlike_nodes(line.nodes, marks) or Unlike(
        "next_attempt_id or observed_generation differs, the replay has "
        f"{state.next_attempt_id} and {state.observed_generation}",
        None,
        "next_attempt_id",
        "",
        f"{state.next_attempt_id}",
    )
    return replace(unlike, reason=f"{about}; {unlike.reason}")


def _unlike_nodes(run: NodeMarks, replay: NodeMarks) -> Unlike | None:
    for node_id in sorted(run.keys() | replay.keys()):
        unlike = _unlike_node(node_id, run, replay)
        if unlike is not None:
            return unlike
    return None


def _unlike_node(node_id: LogicalNodeId, run: NodeMarks, replay: NodeMarks) -> Unlike | None:
    if node_id not in replay:
        reason = f"the run changed {node_id}, the replay did not"
        return Unlike(reason, node_id, "changed", "changed", "not changed")
    if node_id not in run:
        reason = f"the replay changed {node_id}, the run did not"
        return Unlike(reason, node_id, "changed", "not changed", "changed")
    was, now = run[node_id], replay[node_id]
    if was is None or now is None:
        if was is now:
            return None
        gone = {True: "gone", False: "there"}
        run_has, replay_has = gone[was is None], gone[now is None]
        reason = f"{node_id} is {run_has} in the run and {replay_has} in the replay"
        return Unlike(reason, node_id, "presence", run_has, replay_has)
    return _unlike_marks(node_id, was, now)


def _unlike_marks(node_id: LogicalNodeId, was: NodeMark, now: NodeMark) -> Unlike | None:
    for name, field in _NODE_FIELDS.items():
        expected, found = _shown(getattr(was, name)), _shown(getattr(now, name))
        if expected != found:
            reason = f"{node_id}: {field}: the run had {expected}, the replay has {found}"
            return Unlike(reason, node_id, field, expected, found)
    if was.sum == now.sum:
        return None
    reason = (
        f"{node_id} differs in what the trace keeps only a checksum of: its spec, connection, "
        "swarm member, reasons, or counters"
    )
    return Unlike(reason, node_id, "other")


def unlike_plan(said: PlanMark | None, found: PlanMark | None) -> Unlike | None:
    """Whether the pass decided the same; a trace without the plan of a pass cannot say."""
    if said is None or said == found:
        return None
    if found is None:
        return Unlike("the run had a plan, the replay has none", None, "plan", "a plan", "none")
    for name in _PLAN_FIELDS:
        expected, has = _shown(getattr(said, name)), _shown(getattr(found, name))
        if expected != has:
            field = f"plan.{name}"
            reason = f"{field}: the run had {expected}, the replay has {has}"
            return Unlike(reason, None, field, expected, has)
    name = "actions" if said.actions_sum != found.actions_sum else "held_back"
    reason = f"plan.{name}: as many of each kind as in the run, but not the same"
    return Unlike(reason, None, f"plan.{name}", "", _shown(getattr(found, name)))


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{number} {kind}" for kind, number in sorted(value.items())) or "none"
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat()) if isoformat is not None else str(value)

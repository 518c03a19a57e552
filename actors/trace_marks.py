"""What a trace keeps of the states, plans and effects that it does not hold: digests, and beside
them so few plain facts that a difference can be told in words.

A digest says whether two values are equal, in every process and under any hash seed.  The run makes
them while it goes on and its replay makes them anew, both here; nothing is compared here.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from zlib import crc32

import msgspec
from msgspec import Struct

from cluster_reconciler.decider import (
    ClusterState,
    Dispatch,
    ManagedNode,
    NodeAction,
    ReconcilePlan,
)
from cluster_reconciler.messages import LogicalNodeId, NodeIntent, NodeStage, PlannedEffect

__all__ = [
    "EffectMark",
    "NodeMark",
    "NodeMarks",
    "PlanMark",
    "digest",
    "effect_mark",
    "plan_mark",
    "state_digest",
    "state_marks",
]

_encode: Callable[[object], bytes] = msgspec.msgpack.Encoder(order="deterministic").encode


def digest(changed: object) -> str:
    """A stable fingerprint of a value made of Structs and plain values: equal values give the same
    one in every process.  Give it the part of the state that changed, or the whole state.

    Raises:
        TypeError: the value holds something that msgspec cannot encode.
    """
    return blake2b(_encode(changed), digest_size=16).hexdigest()


class EffectMark(Struct, frozen=True, gc=False):
    """One effect, its command included, as it was handed to the executor."""

    effect: PlannedEffect
    encoded: bytes
    sum: int
    """The checksum of that."""


def effect_mark(effect: PlannedEffect) -> EffectMark:
    """Raises TypeError: it holds something that msgspec cannot encode."""
    encoded = _encode(effect)
    return EffectMark(effect, encoded, crc32(encoded))


class NodeMark(Struct, frozen=True, array_like=True, gc=False):
    """One node after a message that changed it: what can be told plainly, then a checksum of all
    of it."""

    attempt: int
    intent: NodeIntent
    stage: NodeStage
    ready: bool
    pending: int
    """The sequence of the operation under way; 0: none."""
    deadline: datetime | None
    """That operation's."""
    failures: int
    """In a row."""
    next_effect_at: datetime | None
    restart_at: datetime | None
    progress_deadline: datetime | None
    sum: int


NodeMarks = dict[LogicalNodeId, NodeMark | None]
"""By node; None: it is gone."""


def state_digest(state: ClusterState, touched: Mapping[LogicalNodeId, ManagedNode | None]) -> str:
    """Of a state after a message that left these nodes so, None: gone.  A state is what the changes
    before it made of it, so two runs whose digests are equal at every message are equal."""
    return digest((state.next_attempt_id, state.observed_generation, touched))


def state_marks(
    state: ClusterState, touched: Mapping[LogicalNodeId, ManagedNode | None]
) -> tuple[str, NodeMarks]:
    """The same digest, and the nodes' marks, where these come in the order of their names: each
    node is encoded once for both."""
    nothing = _encode((state.next_attempt_id, state.observed_generation, {}))
    parts = [nothing[:-1], _map_begins(len(touched))]
    marks: NodeMarks = {}
    for node_id, node in touched.items():
        encoded = _encode(node)
        parts += _encode(node_id), encoded
        marks[node_id] = None if node is None else _node_mark(node, crc32(encoded))
    return blake2b(b"".join(parts), digest_size=16).hexdigest(), marks


def _map_begins(length: int) -> bytes:
    """As msgpack begins a map of so many entries."""
    if length < 16:
        return bytes((0x80 | length,))
    return b"\xde" + length.to_bytes(2) if length < 2**16 else b"\xdf" + length.to_bytes(4)


def _node_mark(node: ManagedNode, checksum: int) -> NodeMark:
    record, pending, retry, progress = node.record, node.pending, node.retry, node.progress
    return NodeMark(
        node.attempt,
        node.intent,
        record.stage,
        record.ready,
        0 if pending is None else pending.id.sequence,
        None if pending is None else pending.deadline,
        retry.consecutive_failures,
        retry.next_effect_at,
        retry.restart_at,
        None if progress is None else progress.deadline,
        checksum,
    )


class PlanMark(Struct, frozen=True, gc=False, omit_defaults=True):
    """One pass: what it decided, and when it is to be followed by another one."""

    digest: str
    """Of the actions, in order, with all that they hold."""
    actions: dict[str, int] = {}
    """How many there are of each type."""
    requeue_at: datetime | None = None
    wake_at: datetime | None = None
    """What the timer was set to: also the deadlines of what was dispatched count."""
    observed_generation: int = 0
    held_back: int = 0
    held_back_digest: str = ""
    """Of their names, where there are any."""
    allocator_exhausted: bool = False


def plan_mark(
    plan: ReconcilePlan, submitted: Sequence[EffectMark], wake_at: datetime | None
) -> PlanMark:
    """The mark of a pass.  `submitted`: its effects in order: an action's effect that is the very
    one submitted is not encoded for a second time.

    Raises:
        TypeError: an action holds something that msgspec cannot encode.
    """
    actions, held_back = plan.actions, plan.held_back
    return PlanMark(
        _actions_digest(actions, submitted) if actions else _NOTHING,
        dict(Counter(type(action).__name__ for action in actions)) if actions else {},
        plan.requeue_at,
        wake_at,
        plan.observed_generation,
        len(held_back),
        digest(held_back) if held_back else "",
        plan.allocator_exhausted,
    )


def _actions_digest(actions: Sequence[NodeAction], submitted: Sequence[EffectMark]) -> str:
    """Each as it is encoded, a Dispatch as its effect is: what is encoded says where it ends, and
    an effect has other fields than every action."""
    known = {id(mark.effect): mark.encoded for mark in submitted}
    whole = blake2b(digest_size=16)
    for action in actions:
        if isinstance(action, Dispatch):
            whole.update(known.get(id(action.effect)) or _encode(action.effect))
        else:
            whole.update(_encode(action))
    return whole.hexdigest()


_NOTHING = _actions_digest((), ())

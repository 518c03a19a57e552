"""What a trace keeps of the states, plans and effects that it does not hold: checksums, and beside
them so few plain facts that a difference can be told in words.

A checksum (CRC-32 of the value as msgpack, in a fixed order) says whether two values are equal, in
every process and under any hash seed; two that differ have the same one once in four thousand
million.  Nothing stronger is needed where nobody forges, and each message of a run pays for it.
The run makes these marks while it goes on and its replay makes them anew, both here; nothing is
compared here.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from cluster_reconciler.decider import (
    ClusterState,
    Dispatch,
    ManagedNode,
    NodeAction,
    ReconcilePlan,
)
from cluster_reconciler.messages import (
    LogicalNodeId,
    LogicalNodeSpec,
    NodeIntent,
    NodeRecord,
    NodeStage,
    PlannedEffect,
)

__all__ = [
    "EffectMark",
    "NodeMark",
    "NodeMarks",
    "PlanMark",
    "effect_mark",
    "plan_mark",
    "state_digest",
    "state_marks",
]

_encode_into: Callable[[object, bytearray], None] = msgspec.msgpack.Encoder(
    order="deterministic"
).encode_into

SPECS_MAX = 16_384
"""Specs whose checksums are kept."""

_RECORD = ManagedNode.__struct_fields__.index("record")
_DESIRED = NodeRecord.__struct_fields__.index("desired")


class _Scratch(threading.local):
    """Where a thread encodes what only its checksum is kept of: memory that is there already is a
    quarter of the cost cheaper than new memory each time."""

    def __init__(self) -> None:
        self.buffer = bytearray(1024)


_scratch = _Scratch()


def _sum_of(value: object) -> int:
    """The checksum of a value.  Raises TypeError: it holds something that cannot be encoded."""
    buffer = _scratch.buffer
    _encode_into(value, buffer)
    return crc32(buffer)


class EffectMark(NamedTuple):
    """One effect, its command included, as it was handed to the executor."""

    effect: PlannedEffect
    sum: int
    """The checksum of that."""


def effect_mark(effect: PlannedEffect) -> EffectMark:
    """Raises TypeError: it holds something that msgspec cannot encode."""
    return EffectMark(effect, _sum_of(effect))


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
    lease: str | None
    session: int | None
    """The one that can be addressed."""
    sum: int


NodeMarks = dict[LogicalNodeId, NodeMark | None]
"""By node; None: it is gone."""


def state_digest(state: ClusterState, touched: Iterable[LogicalNodeId]) -> str:
    """Of a state after a message that changed these nodes.  A state is what the changes before it
    made of it, so two runs whose digests are equal at every message are equal."""
    found, nodes = _begin(state.next_attempt_id, state.observed_generation), state.nodes
    for node_id in sorted(touched):
        checksum = _node_sum(node_id, nodes.get(node_id))
        found = crc32(checksum.to_bytes(4), found)
    return f"{found:08x}"


def state_marks(state: ClusterState, touched: Iterable[LogicalNodeId]) -> tuple[str, NodeMarks]:
    """The same digest, and the nodes' marks: each node is encoded once for both."""
    found, nodes = _begin(state.next_attempt_id, state.observed_generation), state.nodes
    marks: NodeMarks = {}
    for node_id in sorted(touched):
        node = nodes.get(node_id)
        checksum = _node_sum(node_id, node)
        found = crc32(checksum.to_bytes(4), found)
        marks[node_id] = None if node is None else _node_mark(node, checksum)
    return f"{found:08x}", marks


@lru_cache(maxsize=16)
def _begin(next_attempt: int, generation: int) -> int:
    """Most messages change neither."""
    return _sum_of((next_attempt, generation))


def _node_sum(node_id: LogicalNodeId, node: ManagedNode | None) -> int:
    """Of all fields of the node and its record, without the fields' names: those are half of the
    bytes, and the same in each."""
    if node is None:
        return _sum_of((node_id, None))
    record = node.record
    spec = record.desired
    known = _spec_sums.get(id(spec))
    fields, facts = [*astuple(node)], [*astuple(record)]
    facts[_DESIRED] = _spec_sum(spec) if known is None else known[1]
    fields[_RECORD] = facts
    buffer = _scratch.buffer
    _encode_into((node_id, fields), buffer)
    return crc32(buffer)


_spec_sums: dict[int, tuple[LogicalNodeSpec, int]] = {}
"""By identity: a spec is frozen, and one is shared by all the records of a slot's attempts.  Each
is held here, so that no other one gets its identity."""


def _spec_sum(spec: LogicalNodeSpec) -> int:
    """Of a spec that is met for the first time."""
    if len(_spec_sums) >= SPECS_MAX:
        _spec_sums.clear()
    checksum = _sum_of(spec)
    _spec_sums[id(spec)] = spec, checksum
    return checksum


def _node_mark(node: ManagedNode, checksum: int) -> NodeMark:
    record, pending, retry, progress = node.record, node.pending, node.retry, node.progress
    lease = record.lease
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
        None if lease is None else lease.lease_id,
        node.active_bootstrap,
        checksum,
    )


NAMED_MAX = 64
"""Of more nodes than this that are held back only the number is kept: a pass must not cost as much
as there are of them."""


class PlanMark(Struct, frozen=True, gc=False, omit_defaults=True):
    """One pass: what it decided, and when it is to be followed by another one."""

    actions_sum: int
    """Of the actions, in order, with all that they hold."""
    actions: dict[str, int] = {}
    """How many there are of each type."""
    requeue_at: datetime | None = None
    wake_at: datetime | None = None
    """What the timer was set to: also the deadlines of what was dispatched count."""
    observed_generation: int = 0
    held_back: int = 0
    held_back_sum: int = 0
    """Of their names, where there are any, and few enough to be named for each pass."""
    allocator_exhausted: bool = False


def plan_mark(
    plan: ReconcilePlan,
    submitted: Sequence[EffectMark],
    wake_at: datetime | None,
    held_back: Collection[LogicalNodeId],
) -> PlanMark:
    """The mark of a pass.  `submitted`: its effects in order: an action's effect that is the very
    one submitted is not encoded for a second time.  `held_back`: all of them, in any order.

    Raises:
        TypeError: an action holds something that msgspec cannot encode.
    """
    named = sorted(held_back) if len(held_back) <= NAMED_MAX else []
    actions_sum, actions = _actions(plan.actions, submitted) if plan.actions else (0, {})
    return PlanMark(
        actions_sum,
        actions,
        plan.requeue_at,
        wake_at,
        plan.observed_generation,
        len(held_back),
        _sum_of(named) if named else 0,
        plan.allocator_exhausted,
    )


def _actions(
    actions: Sequence[NodeAction], submitted: Sequence[EffectMark]
) -> tuple[int, dict[str, int]]:
    """The checksum of each action in order, a Dispatch counting by its effect; and how many there
    are of each type."""
    known = {id(mark.effect): mark.sum for mark in submitted}
    found = 0
    counts: dict[str, int] = {}
    for action in actions:
        if type(action) is Dispatch:
            checksum = known.get(id(action.effect))
            if checksum is None:
                checksum = _sum_of(action.effect)
        else:
            checksum = _sum_of(action)
        found = crc32(checksum.to_bytes(4), found)
        name = type(action).__name__
        counts[name] = counts.get(name, 0) + 1
    return found, counts

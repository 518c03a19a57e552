"""What an incremental reconciler keeps, as a plain value: two of which this is the same answer the
same from there on.

What it holds and believes no more (an entry whose decision is not the one that is kept) is left
out.  Beside the tests of its heaps this file alone reads what it holds privately.
"""

from datetime import datetime

from msgspec import Struct

from cluster_reconciler.decider import IncrementalReconciler
from cluster_reconciler.decider.incremental import Key, _Heap
from cluster_reconciler.decider.places import Gate, Turn
from cluster_reconciler.decider.plan import NodeDecision
from cluster_reconciler.messages import LogicalNodeId


class Kept(Struct, frozen=True):
    """See the module."""

    decisions: dict[LogicalNodeId, NodeDecision]
    open: frozenset[LogicalNodeId]
    alarms: frozenset[tuple[datetime, LogicalNodeId]]
    turns: frozenset[tuple[datetime, LogicalNodeId]]
    queues: dict[Gate, frozenset[tuple[Turn, LogicalNodeId]]]
    waiting: frozenset[LogicalNodeId]
    occupied: dict[LogicalNodeId, Gate]
    in_flight: dict[Gate, int]


def kept_by(incremental: IncrementalReconciler) -> Kept:
    """Now."""
    waiting = {gate: _entries(queue) for gate, queue in incremental._queues.items()}
    return Kept(
        decisions=dict(incremental._kept),
        open=frozenset(incremental._open),
        alarms=_entries(incremental._alarms),
        turns=_entries(incremental._moments),
        queues={gate: entries for gate, entries in waiting.items() if entries},
        waiting=frozenset(incremental.waiting),
        occupied=dict(incremental._occupied),
        in_flight=_in_flight(incremental),
    )


def keep_the_same(one: IncrementalReconciler, other: IncrementalReconciler) -> bool:
    """Whether `kept_by` is equal of both; without making what it answers."""
    return (
        one._kept == other._kept
        and one._open == other._open
        and one.waiting == other.waiting
        and one._occupied == other._occupied
        and _are_equal(one._alarms, other._alarms)
        and _are_equal(one._moments, other._moments)
        and _in_flight(one) == _in_flight(other)
        and all(
            _are_equal(one._queues[gate], other._queues[gate])
            for gate in one._queues.keys() | other._queues.keys()
        )
    )


def _entries(heap: _Heap[Key]) -> frozenset[tuple[Key, LogicalNodeId]]:
    return frozenset(_believed(heap))


def _believed(heap: _Heap[Key]) -> list[tuple[Key, LogicalNodeId]]:
    kept = heap._kept
    return [(entry[0], entry[2]) for entry in heap._entries if kept.get(entry[2]) is entry[3]]


def _are_equal(one: _Heap[Key], other: _Heap[Key]) -> bool:
    ours, theirs = _believed(one), _believed(other)
    return ours == theirs or frozenset(ours) == frozenset(theirs)


def _in_flight(incremental: IncrementalReconciler) -> dict[Gate, int]:
    return {gate: count for gate, count in incremental._in_flight.items() if count}

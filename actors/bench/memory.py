"""What a cluster takes in memory, by adding up the sizes of all its values.

Each object counts once, however many hold it, with what `sys.getsizeof` says of it.  The memory
that the allocator rounds up to, or keeps for later, is not in it.
"""

import sys
from collections import deque
from collections.abc import Iterable, Mapping
from types import FunctionType, MethodType, ModuleType

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.bench.loop import Ready
from cluster_reconciler.decider import IncrementalReconciler, expand_shape

_NO_VALUES = (type, FunctionType, MethodType, ModuleType)


class MemoryCost(Struct, frozen=True):
    """Bytes a node."""

    state: float
    """Of a ready cluster's state, without what it shares with the desired shape."""
    desired: float
    """Of the shape: its groups, every node's id and spec, and the map from the one to the other."""
    planner_at_rest: float
    """What the incremental reconciler keeps beside them when all are ready."""
    planner_busy: float
    """The same when all have something to do."""


def memory_cost(ready: Ready) -> MemoryCost:
    """Of all of it."""
    nodes = len(ready.state.nodes)
    seen: set[int] = set()
    desired = size_of(ready.desired, seen)
    state = size_of(ready.state, seen)
    now = max(node.ready_at for node in ready.state.nodes.values() if node.ready_at is not None)
    at_rest, busy = IncrementalReconciler(), IncrementalReconciler()
    at_rest.reconcile(ready.state, ready.desired, now)
    nothing = expand_shape(replace(ready.desired.shape, generation=2, groups=()))
    actions = len(busy.reconcile(ready.state, nothing, now).actions)
    assert actions == nodes, f"all {nodes} nodes are to go, but the plan has {actions} actions"
    planners = (size_of(planner, seen) / nodes for planner in (at_rest, busy))
    return MemoryCost(state / nodes, desired / nodes, *planners)


def size_of(value: object, seen: set[int]) -> int:
    """Bytes of it and of all that it holds, but for what was seen before."""
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _NO_VALUES):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        waiting.extend(_held_by(one))
    return total


def _held_by(value: object) -> Iterable[object]:
    if isinstance(value, Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return value
    attributes = getattr(value, "__dict__", None)
    return (attributes,) if isinstance(attributes, dict) else ()

"""Shapes and messages that a world is offered: right ones, and ones that must be refused.  Pure."""

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace

from cluster_reconciler.actors.ports import UpdateRetry
from cluster_reconciler.decider import Reap
from cluster_reconciler.messages import (
    BootSpec,
    ClusterShape,
    DesiredNodeShape,
    EffectError,
    ExecutorResult,
    LeaseDestroyed,
    LogicalNodeId,
    NodeAttemptId,
    NodeGroupId,
    NodeLost,
    NodeObserved,
    OperationId,
    ProviderKind,
    ProviderLimits,
    RoleId,
    RunId,
    RunNodeGroupSpec,
)
from tests.simulation.moves import GroupDraw, ShapeDraw

RUN = RunId(7)


def made(drawn: ShapeDraw, generation: int, kinds: Sequence[ProviderKind]) -> ClusterShape:
    """The shape of that generation."""
    limits = {}
    if drawn.in_flight is not None:
        limits = {kind: ProviderLimits(drawn.in_flight) for kind in kinds}
    groups = tuple(_group(group, kinds) for group in drawn.groups)
    return ClusterShape(RUN, generation, groups, limits)


def again(before: ClusterShape, generation: int) -> ClusterShape:
    """The same content under another generation."""
    return replace(before, generation=generation)


def _group(drawn: GroupDraw, kinds: Sequence[ProviderKind]) -> RunNodeGroupSpec:
    return RunNodeGroupSpec(
        RUN,
        NodeGroupId(drawn.name),
        RoleId("worker"),
        drawn.count,
        kinds[drawn.provider % len(kinds)],
        boot=BootSpec(start_swactor_command=f"serve v{drawn.version}"),
    )


def invalid(fault: str, accepted: ClusterShape) -> object:
    """A shape that cannot be accepted after this one."""
    following = replace(accepted, generation=accepted.generation + 1)
    group = RunNodeGroupSpec(RUN, NodeGroupId("x"), RoleId("worker"), 1, ProviderKind("p0"))
    match fault:
        case "run":
            return replace(following, run_id=RunId(8), groups=())
        case "regressed":
            return replace(accepted, generation=accepted.generation - 1)
        case "content":
            return replace(accepted, groups=(*accepted.groups, group))
        case "twice":
            return replace(following, groups=(group, group))
        case "negative":
            return replace(following, groups=(replace(group, count=-1),))
        case "no place":
            return replace(following, limits={ProviderKind("p0"): ProviderLimits(0)})
        case "nan":
            wants = DesiredNodeShape(min_reliability=float("nan"))
            return replace(following, groups=(replace(group, shape=wants),))
        case "no provider":
            return replace(following, groups=(replace(group, provider=ProviderKind("")),))
        case "empty name":
            return replace(following, groups=(replace(group, group_id=NodeGroupId("")),))
        case "foreign group":
            return replace(following, groups=(replace(group, run_id=RunId(8)),))
        case _:
            return f"no shape at all: {fault}"


def nonsense(kind: str, node: LogicalNodeId, attempt: NodeAttemptId) -> object:
    """A message that must change nothing, or nothing but queue a pass."""
    operation = OperationId(attempt, 10_000)
    gone = NodeLost("nonsense")
    match kind:
        case "no type":
            return {"a": "dictionary"}
        case "action":
            return Reap(node, attempt)
        case "no node":
            return NodeObserved(LogicalNodeId("nowhere-0"), attempt, gone)
        case "old attempt":
            return NodeObserved(node, NodeAttemptId(attempt - 1), gone)
        case "future attempt":
            return NodeObserved(node, NodeAttemptId(attempt + 1), gone)
        case "no operation":
            return ExecutorResult(node, operation, outcome=LeaseDestroyed())
        case "both":
            return ExecutorResult(node, operation, LeaseDestroyed(), EffectError("both"))
        case "neither":
            return ExecutorResult(node, operation)
        case "malformed":
            return NodeObserved(node, attempt, "lost")  # type: ignore[arg-type]  # its point
        case _:
            return UpdateRetry(timedelta(seconds=1))  # type: ignore[arg-type]  # its point

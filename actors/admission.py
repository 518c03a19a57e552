"""What the driver takes in: whether an offered shape is accepted, and what a result says.

Pure: it answers, or raises the reason; the driver alone changes anything.
"""

from collections.abc import Collection

import msgspec

from cluster_reconciler.decider import ExpandedShape, expand_shape
from cluster_reconciler.messages import (
    ClusterShape,
    ContentChanged,
    Disposition,
    EffectError,
    ExecutorResult,
    GenerationRegressed,
    LogicalNodeId,
    NodeAttemptId,
    NodeObservation,
    NodeObserved,
    OperationFailed,
    OperationSucceeded,
    RunMismatch,
    ShapeError,
)

_WRITER = msgspec.msgpack.Encoder()
_RESULTS = msgspec.msgpack.Decoder(ExecutorResult)
_OBSERVATIONS = msgspec.msgpack.Decoder(NodeObserved)


def refuse_unknown_providers(shape: ClusterShape, known: Collection[str]) -> None:
    """Raises ShapeError: a group asks for a provider that is not among them."""
    for group in shape.groups:
        if group.provider not in known:
            raise ShapeError(
                f"group {group.group_id!r} asks for provider {group.provider!r}, "
                f"this cluster has {', '.join(sorted(known)) or 'none'}"
            )


def accepted_offer(
    shape: ClusterShape, desired: ExpandedShape, providers: Collection[str] | None
) -> ExpandedShape | None:
    """The offered shape, expanded; None: it is the accepted one.  Raises the ShapeRefused that says
    why not, in the order of design rule 23.  `providers`: those there are; None: any."""
    accepted = desired.shape
    if not isinstance(shape, ClusterShape):
        raise ShapeError(f"expected a ClusterShape, found {type(shape).__name__}")
    if shape.run_id != accepted.run_id:
        raise RunMismatch(f"the shape is of run {shape.run_id}, this is run {accepted.run_id}")
    if not isinstance(shape.generation, int):
        raise ShapeError(f"generation must be a whole number, found {shape.generation!r}")
    if shape.generation < accepted.generation:
        raise GenerationRegressed(
            f"the shape has generation {shape.generation}, "
            f"generation {accepted.generation} is accepted already; count it up"
        )
    offered = expand_shape(shape, desired)
    if providers is not None:
        refuse_unknown_providers(offered.shape, providers)
    if offered.shape == accepted:
        return None
    if offered.shape.generation == accepted.generation:
        raise ContentChanged(
            f"the shape differs from the accepted one of the same generation "
            f"{accepted.generation}; count the generation up with every change"
        )
    return offered


def news_of(
    message: ExecutorResult | NodeObserved,
) -> tuple[LogicalNodeId, NodeAttemptId, NodeObservation]:
    """Which node and attempt it is about, and what it says of them.  Raises ValueError: it holds
    what cannot be written."""
    try:
        # By way of the wire: what cannot be written must not get into the state.
        written = _WRITER.encode(message)
        reader = _RESULTS if isinstance(message, ExecutorResult) else _OBSERVATIONS
        checked = reader.decode(written)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{error}") from error
    if isinstance(checked, NodeObserved):
        return checked.node, checked.attempt, checked.observation
    return checked.node, checked.operation.attempt, observation_of(checked)


def observation_of(result: ExecutorResult) -> NodeObservation:
    """A result without exactly one of outcome and error tells nothing but that the call ended."""
    if result.error is not None and result.outcome is None:
        return OperationFailed(result.operation, result.error)
    if result.outcome is not None and result.error is None:
        return OperationSucceeded(result.operation, result.outcome)
    reason = "the executor answered with neither or both of outcome and error"
    return OperationFailed(result.operation, EffectError(reason, Disposition.AMBIGUOUS))


def named_shape(shape: ClusterShape) -> str:
    """The generation, and that it asks for nothing, for the middle of a sentence."""
    nothing = "" if shape.groups else ", nothing at all,"
    return f"generation {shape.generation}{nothing}"

"""Messages in a few words for people.  Shows only chosen fields, never a whole message: a spec, an
environment or a token does not stand in a story or a log.
"""

from collections.abc import Callable
from typing import Any, assert_never

from cluster_reconciler.messages import (
    BootstrapClosed,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapStarted,
    CreateLease,
    DeadlineDue,
    EndpointLookup,
    ExecutorResult,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    NodeLost,
    NodeObservation,
    NodeObserved,
    OperationFailed,
    OperationOutcome,
    OperationSucceeded,
    PlannedEffect,
    StartBootstrap,
    SwactorJoined,
    UpdateDesired,
    kind_of,
)
from cluster_reconciler.messages.outcomes import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    EffectError,
)

REASON_LENGTH_MAX = 500
"""A reason may carry a node's last lines of output: so much of it is shown on a line."""


def described(message: object) -> str:
    """`describe`, also of a message that is none: whose fields hold what they may not."""
    try:
        return describe(message)
    except Exception as error:  # noqa: BLE001 - the story of the others must not fail over it
        return f"malformed, it cannot be read: {type(error).__name__}"


def describe(message: object) -> str:
    """What the message says, in a few words; empty where its type says it all.  One that wraps
    another in a field `message`, as a question does, says what it wraps."""
    kind = type(message)
    words = _WORDS.get(kind)
    if words is not None:
        return words(message)
    if "message" in getattr(kind, "__struct_fields__", ()):
        wrapped: object = getattr(message, "message", None)
        said = describe(wrapped)
        return f"{type(wrapped).__name__}{': ' if said else ''}{said}"
    return ""


def one_line(text: str, length_max: int = REASON_LENGTH_MAX) -> str:
    """The text on one line of bounded length, with nothing in it that moves a terminal's cursor."""
    return printable(text if len(text) <= length_max else text[: length_max - 1] + "…")


def printable(text: str) -> str:
    """The text with everything escaped that a terminal would not simply show."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def counted(number: int, noun: str) -> str:
    """`1 node`, `5 nodes`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _update(message: UpdateDesired) -> str:
    shape = message.shape
    nodes = sum(group.count for group in shape.groups)
    groups = counted(len(shape.groups), "group")
    return f"generation {shape.generation}, {groups}, {counted(nodes, 'node')}"


def _result(message: ExecutorResult) -> str:
    said = []
    if message.outcome is not None:
        said.append(_outcome(message.outcome))
    if message.error is not None:
        said.append(_error(message.error))
    return f"{message.operation} {' and '.join(said) or 'without outcome or error'}"


def _effect(message: PlannedEffect) -> str:
    command = message.command
    looks = isinstance(command, CreateLease | StartBootstrap) and command.adopt_only
    return f"{message.operation} {kind_of(command)}{' (adopt only)' if looks else ''}"


def _observed(message: NodeObserved) -> str:
    return _observation(message.observation)


def _deadline(message: DeadlineDue) -> str:
    return "behind the results that had come" if message.judged else ""


def _observation(observation: NodeObservation) -> str:
    match observation:
        case OperationSucceeded(operation, outcome):
            return f"{operation} {_outcome(outcome)}"
        case OperationFailed(operation, error):
            return f"{operation} {_error(error)}"
        case BootstrapObserved(session_id, stage, out, err, marker):
            lines = "".join(
                f", {name} line {number}"
                for name, number in (("stdout", out), ("stderr", err))
                if number is not None
            )
            told = f" ({one_line(marker)})" if marker else ""
            return f"session {session_id} is at {stage}{told}{lines}"
        case BootstrapFailed(session_id, reason):
            return f"session {session_id} failed: {one_line(reason)}"
        case SwactorJoined(session_id, swactor_id):
            return f"session {session_id} joined the swarm as {one_line(swactor_id)}"
        case BootstrapClosed(session_id):
            return f"session {session_id} closed"
        case NodeLost(reason):
            return f"lost: {one_line(reason)}"
        case _:
            assert_never(observation)


def _outcome(outcome: OperationOutcome) -> str:
    match outcome:
        case LeaseCreated(lease, endpoint):
            reached = "" if endpoint is None else ", endpoint known"
            return f"lease {one_line(lease.lease_id)}{reached}"
        case LeaseAbsent(conclusive):
            return "no lease" if conclusive else "no lease to be seen yet"
        case EndpointLookup(endpoint):
            return "no endpoint yet" if endpoint is None else "endpoint known"
        case BootstrapStarted(session_id):
            return f"session {session_id} started"
        case BootstrapAbsent(conclusive):
            return "no session" if conclusive else "no session to be seen yet"
        case BootstrapConvergenceAccepted():
            return "hand-over accepted"
        case BootstrapCancelled():
            return "bootstrap cancelled"
        case LeaseDestroyed(confirmed):
            return "lease destroyed" if confirmed else "destroy asked, still there"
        case _:
            assert_never(outcome)


def _error(error: EffectError) -> str:
    run = "was not run" if error.not_run else f"failed ({error.disposition})"
    later = "" if error.retry_after is None else f", retry after {error.retry_after}"
    return f"{run}{later}: {one_line(error.reason)}"


_WORDS: dict[type, Callable[[Any], str]] = {
    UpdateDesired: _update,
    ExecutorResult: _result,
    PlannedEffect: _effect,
    NodeObserved: _observed,
    DeadlineDue: _deadline,
}

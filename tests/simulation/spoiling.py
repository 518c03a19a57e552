"""What an operation's result can be turned into on its way to the driver.  Pure.

None of it lies about what exists: a wrong word is one that the driver must see to be wrong, or one
that is true and unusual.
"""

from typing import cast

from msgspec.structs import replace

from cluster_reconciler.messages import (
    BootstrapAbsent,
    CreateLease,
    Disposition,
    EffectError,
    EndpointLookup,
    ExecutorResult,
    LeaseAbsent,
    LeaseDestroyed,
    NodeManagerCommand,
    StartBootstrap,
)


def can_be_spoilt(
    message: ExecutorResult, command: NodeManagerCommand | None, what: str | None, unknown: bool
) -> bool:
    """Whether this result can be turned into that.  `unknown`: an earlier operation of the attempt
    may have made something, of which this one's failure says nothing."""
    return what != "told as absent" or (not unknown and _made_nothing(message, command))


def _made_nothing(message: ExecutorResult, command: NodeManagerCommand | None) -> bool:
    """Whether it is certain that what should have been made is not there."""
    error = message.error
    return (
        error is not None
        and error.disposition is Disposition.DEFINITE
        and not error.not_run
        and isinstance(command, CreateLease | StartBootstrap)
        and not command.adopt_only
    )


def spoilt(
    message: ExecutorResult, command: NodeManagerCommand | None, what: str | None
) -> ExecutorResult:
    """What becomes of it."""
    match what:
        case "told as absent":
            created = isinstance(command, CreateLease)
            absent = LeaseAbsent() if created else BootstrapAbsent()
            return replace(message, outcome=absent, error=None)
        case "of the wrong kind":
            looked_up = isinstance(message.outcome, EndpointLookup)
            wrong = LeaseDestroyed() if looked_up else EndpointLookup()
            return replace(message, outcome=wrong, error=None)
        case "both":
            return replace(message, outcome=LeaseDestroyed(), error=EffectError("and an error"))
        case "neither":
            return replace(message, outcome=None, error=None)
        case _:
            return replace(message, outcome=cast("LeaseDestroyed", "gone"), error=None)

"""One attempt's view of its provider: every answer checked whole, every failure classified.

A provider may be anybody's code: it may raise anything and answer anything.  Behind this class an
answer has its type to the last field, and a failure is a `CallFailed` that says what it means for
the effect (design rules 13 and 16).  It retries nothing and remembers nothing.
"""

from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import cast

import msgspec
from msgspec.structs import replace

from cluster_reconciler.executors.provider import (
    BootstrapContext,
    ListedLease,
    Provider,
    ProviderError,
)
from cluster_reconciler.executors.wrong_values import field_fault, kind_of, named, unwritable
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    BootstrapSessionSpec,
    DestroyHandle,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseFacts,
    LogicalNodeSpec,
    ProviderKind,
    RunId,
    SwactorId,
)

REASON_LENGTH_MAX = 2_000


class CallFailed(Exception):
    """A provider call has no outcome; `error` says why, and what that means."""

    def __init__(self, error: EffectError) -> None:
        super().__init__(error.reason)
        self.error = error

    def meaning(self, disposition: Disposition) -> "CallFailed":
        """The same failure with another meaning."""
        return CallFailed(replace(self.error, disposition=disposition))


class CheckedProvider:
    """Calls one provider for one attempt.  Every method raises `CallFailed` and nothing else but
    exceptions that are not derived from `Exception`."""

    def __init__(self, provider: Provider, kind: ProviderKind, identity: AttemptIdentity) -> None:
        self._provider = provider
        self._kind = kind
        self._identity = identity

    def create_lease(self, spec: LogicalNodeSpec) -> LeaseCreated:
        """See `Provider`."""
        created = self._call(
            "create_lease",
            LeaseCreated,
            lambda: self._provider.create_lease(self._identity, spec),
            Disposition.AMBIGUOUS,
        )
        return cast("LeaseCreated", created)

    def find_lease(self) -> LeaseCreated | None:
        """See `Provider`."""
        found = self._call(
            "find_lease", LeaseCreated | None, lambda: self._provider.find_lease(self._identity)
        )
        return cast("LeaseCreated | None", found)

    def lookup_endpoint(self, lease: LeaseFacts) -> EndpointLookup | LeaseAbsent:
        """See `Provider`."""
        found = self._call(
            "lookup_endpoint",
            EndpointLookup | LeaseAbsent,
            lambda: self._provider.lookup_endpoint(self._identity, lease),
        )
        return cast("EndpointLookup | LeaseAbsent", found)

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        """See `Provider`."""
        self._call(
            "start_bootstrap",
            NoneType,
            lambda: self._provider.start_bootstrap(session, context),
            Disposition.AMBIGUOUS,
        )

    def find_bootstrap(self) -> BootstrapSessionId | None:
        """See `Provider`."""
        found = self._call(
            "find_bootstrap", int | None, lambda: self._provider.find_bootstrap(self._identity)
        )
        return cast("BootstrapSessionId | None", found)

    def accept_convergence(self, session_id: BootstrapSessionId, swactor_id: SwactorId) -> None:
        """See `Provider`."""
        self._call(
            "accept_convergence",
            NoneType,
            lambda: self._provider.accept_convergence(self._identity, session_id, swactor_id),
        )

    def cancel_bootstrap(self, session_id: BootstrapSessionId) -> None:
        """See `Provider`."""
        self._call(
            "cancel_bootstrap",
            NoneType,
            lambda: self._provider.cancel_bootstrap(self._identity, session_id),
        )

    def destroy_lease(self, handle: DestroyHandle) -> bool:
        """See `Provider`."""
        destroyed = self._call(
            "destroy_lease", bool, lambda: self._provider.destroy_lease(self._identity, handle)
        )
        return cast("bool", destroyed)

    def _call(
        self,
        name: str,
        expected: type | UnionType,
        call: Callable[[], object],
        otherwise: Disposition = Disposition.DEFINITE,
    ) -> object:
        """The checked answer; `otherwise`: what a failure means that the provider did not class."""
        where = f"provider {self._kind}, {name}"
        try:
            answer = call()
        except Exception as error:
            raise CallFailed(_classified(error, where, otherwise)) from error
        try:
            return checked(answer, expected)
        except WrongType as wrong:
            reason = f"{where} answered with a wrong value, expected {wrong}"
            raise CallFailed(EffectError(reason, otherwise)) from None


def checked_listing(provider: Provider, run_id: RunId) -> tuple[ListedLease, ...]:
    """The provider's leases of the run, each checked whole.

    Raises:
        WrongType: it answered with something else, or with a lease of another run.
        BaseException: whatever the provider raises.
    """
    answer: object = provider.list_leases(run_id)
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise WrongType(f"a sequence of ListedLease: found {kind_of(answer)}")
    listed = tuple(cast("ListedLease", checked(lease, ListedLease)) for lease in answer)
    for lease in listed:
        if lease.identity.run_id != run_id:
            raise WrongType(f"leases of run {run_id}: found one of {lease.identity}")
    return listed


class WrongType(Exception):
    """A value is not what it has to be; the text says what was expected and found."""


def checked(value: object, expected: type | UnionType) -> object:
    """The value, of the expected type to its last field.

    Raises:
        WrongType: it is not.
    """
    name = named(expected)
    if not isinstance(value, expected):
        raise WrongType(f"{name}: found {kind_of(value)}")
    try:
        # By way of the wire: what cannot be written down is of no type.
        return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=expected)
    except Exception as error:  # noqa: BLE001  a value that cannot even be read is of no type
        raise WrongType(_wrong_within(value, expected) or f"{name}: {said(error)}") from None


def _wrong_within(value: object, expected: type | UnionType) -> str | None:
    """Which part of the value is wrong; None: it hides that."""
    try:
        if not isinstance(value, msgspec.Struct):
            return f"{named(expected)}: {unwritable(value, expected)}"
        fault = field_fault(value)
    except Exception:  # noqa: BLE001  somebody's class may raise at every touch
        return None
    return fault and f"{type(value).__name__}: {fault}"


def writable(text: str) -> str:
    """The text without what no file or wire can take: half characters, as in the name of a file
    that is no text."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _writable_error(error: object) -> object:
    if isinstance(error, EffectError) and isinstance(error.reason, str):
        return replace(error, reason=writable(error.reason))
    return error


def said(error: BaseException) -> str:
    """The type and the message of an exception, bounded, whatever its own `__str__` does."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  the type alone must do
        message = "(its message cannot be read)"
    text = writable(f"{type(error).__name__}: {message}" if message else type(error).__name__)
    return text if len(text) <= REASON_LENGTH_MAX else f"{text[:REASON_LENGTH_MAX]} ..."


def _classified(error: Exception, where: str, otherwise: Disposition) -> EffectError:
    """A ProviderError means what it says, if it says anything; every other exception means what
    the call makes of it."""
    if not isinstance(error, ProviderError):
        return EffectError(f"{where}: {said(error)}", otherwise)
    try:
        meant = checked(_writable_error(getattr(error, "error", None)), EffectError)
    except WrongType as wrong:
        return EffectError(f"{where}: {said(error)} (its error is no {wrong})", otherwise)
    meant = cast("EffectError", meant)
    reason = meant.reason[:REASON_LENGTH_MAX] or f"{where}: refused without a reason"
    return EffectError(reason, meant.disposition, meant.retry_after)

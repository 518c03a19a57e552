"""What a start does before the first pass: lock the run, learn what an earlier process left
(design rule 27).

It ends only leases that their provider calls dead, or all when the user says so; the rest it names.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from loguru import logger
from msgspec import Struct

from cluster_reconciler.actors.errors import RunLocked, StartFailed
from cluster_reconciler.executors.checked_provider import WrongType, checked_listing
from cluster_reconciler.executors.provider import LeaseState, ListedLease, Provider
from cluster_reconciler.messages import NodeAttemptId, RunId

LISTING_TIMEOUT = timedelta(seconds=30)
"""A provider that cannot list its leases in so long stops the start: no attempt id is safe then."""

T = TypeVar("T")


class RunLock(Protocol):
    """A held lock."""

    def close(self) -> None:
        """Let go of it; idempotent."""


@runtime_checkable
class LocksRuns(Protocol):
    """A provider that can keep a second process away from a run."""

    def lock_run(self, run_id: RunId) -> RunLock:
        """Take the run's lock; raises an exception that names its holder."""


class Takeover(Struct, frozen=True):
    """What was found, and what is held."""

    first_attempt: NodeAttemptId
    """Above every attempt that any provider lists for this run."""
    leftovers: tuple[ListedLease, ...]
    """Leases of an earlier process, those that were reclaimed included."""
    remaining: tuple[ListedLease, ...]
    """Those of them that are still there."""
    locks: tuple[RunLock, ...]


def take_over(
    providers: Sequence[Provider],
    run_id: RunId,
    *,
    reclaim: bool = False,
    timeout: timedelta = LISTING_TIMEOUT,
) -> Takeover:
    """Lock, list, reclaim.  Raises RunLocked or StartFailed, and then holds nothing."""
    locks: list[RunLock] = []
    try:
        for provider in providers:
            if isinstance(provider, LocksRuns):
                locks += [_lock(provider, run_id)]
        leftovers: list[tuple[Provider, ListedLease]] = []
        for provider in providers:
            listing = partial(checked_listing, provider, run_id)
            listed = _within(timeout, provider, "list its leases", listing)
            leftovers.extend((provider, lease) for lease in listed)
        remaining = [
            lease
            for provider, lease in leftovers
            if not _reclaimed(provider, lease, reclaim=reclaim, timeout=timeout)
        ]
    except BaseException:
        for lock in locks:
            lock.close()
        raise
    highest = max((lease.identity.attempt for _, lease in leftovers), default=0)
    return Takeover(
        first_attempt=NodeAttemptId(highest + 1),
        leftovers=tuple(lease for _, lease in leftovers),
        remaining=tuple(remaining),
        locks=tuple(locks),
    )


def _lock(provider: LocksRuns, run_id: RunId) -> RunLock:
    try:
        return provider.lock_run(run_id)
    except Exception as error:
        raise RunLocked(f"run {run_id} cannot be driven from here: {error}") from error


def _reclaimed(
    provider: Provider, lease: ListedLease, *, reclaim: bool, timeout: timedelta
) -> bool:
    """Whether the lease is gone now."""
    named = f"lease {lease.lease.lease_id} of {lease.identity} ({provider.kind}; {lease.detail})"
    if lease.state is LeaseState.LIVE and not reclaim:
        logger.warning("left by an earlier process and still alive: {}", named)
        return False
    try:
        gone = _within(
            timeout,
            provider,
            f"end {named}",
            lambda: provider.destroy_lease(lease.identity, lease.lease.handle),
        )
    except StartFailed as error:
        logger.warning("left by an earlier process, not reclaimed: {}", error)
        return False
    logger.warning(
        "left by an earlier process, {}: {}", "reclaimed" if gone else "asked to end", named
    )
    return gone


def _within(timeout: timedelta, provider: Provider, what: str, call: Callable[[], T]) -> T:
    """The call's answer; on a daemon thread, so that one that hangs cannot hang the start."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001 - told to the starter below
            errors.append(error)

    thread = threading.Thread(target=run, name=f"takeover-{provider.kind}", daemon=True)
    thread.start()
    thread.join(timeout.total_seconds())
    if errors:
        error = errors[0]
        if isinstance(error, WrongType):
            raise StartFailed(
                f"provider {provider.kind} could not {what}: it answered with a wrong value, "
                f"expected {error}"
            )
        said = str(error) if isinstance(error, Exception) else repr(error)
        raise StartFailed(f"provider {provider.kind} could not {what}: {said}") from error
    if not answers:
        raise StartFailed(
            f"provider {provider.kind} did not {what} within {timeout.total_seconds():g} s"
        )
    return answers[0]

"""Carries out the commands of one attempt, one after another, on whatever thread it is called.

Theory of operation.  What the attempt holds - a lease, a session - is remembered in a `Holding`
each.  A command that makes something is answered from memory when the thing is known, with a look
when it may exist, and by making it only when neither holds (design rules 13-16).  So at most one
lease and one session live for an attempt, across all of its operations.

It never decides what comes next, never retries, and tells nobody: it answers its caller.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar, assert_never

from msgspec.structs import replace

from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.executors.checked_provider import CallFailed, CheckedProvider
from cluster_reconciler.executors.secret_references import mask
from cluster_reconciler.executors.session_context import (
    Listener,
    SessionIds,
    make_context,
)
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    BootstrapSessionSpec,
    BootstrapStarted,
    CancelBootstrap,
    CreateLease,
    DestroyHandle,
    DestroyLease,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    LogicalNodeSpec,
    LookupEndpoint,
    NodeManagerCommand,
    OperationOutcome,
    StartBootstrap,
)

T = TypeVar("T")
_Ending = BootstrapConvergenceObserved | CancelBootstrap | DestroyLease


class Carrier:
    """The memory of one attempt, and its hands.  One call at a time."""

    def __init__(
        self,
        identity: AttemptIdentity,
        provider: CheckedProvider,
        settle_time: timedelta,
        now: Callable[[], datetime],
        session_ids: SessionIds,
        listener: Listener,
    ) -> None:
        self._identity = identity
        self._provider = provider
        self._settle_time = settle_time
        self._now = now
        self._session_ids = session_ids
        self._listener = listener
        self._starts = 0
        self.secrets: frozenset[str] = frozenset()
        """All that its node was ever given: what is said of it or by it must not hold them."""
        self.lease: Holding[LeaseCreated] = Holding()
        self.session: Holding[BootstrapSessionId] = Holding()
        self._done: dict[type[_Ending], tuple[_Ending, OperationOutcome]] = {}
        """The latest success of each of these kinds."""

    def carry_out(self, command: NodeManagerCommand) -> OperationOutcome:
        """The outcome of the command.

        Raises:
            CallFailed: it has none; the error's disposition is the operation's.
        """
        try:
            return self._carry_out(command)
        except CallFailed as failed:
            # A provider's exception may quote the environment that it was given.
            reason = mask(failed.error.reason, self.secrets)
            raise CallFailed(replace(failed.error, reason=reason)) from None

    def _carry_out(self, command: NodeManagerCommand) -> OperationOutcome:
        match command:
            case CreateLease(spec, adopt_only):
                return self._create(spec, adopt_only=adopt_only)
            case LookupEndpoint(lease):
                return self._look_up(lease)
            case StartBootstrap(session, adopt_only):
                return self._start(session, adopt_only=adopt_only)
            case BootstrapConvergenceObserved() | CancelBootstrap() | DestroyLease():
                return self._once(command)
            case _:
                assert_never(command)

    def _once(self, command: _Ending) -> OperationOutcome:
        """Each of these is over for good once it has succeeded.  When that success came too late
        for the driver to hear, its next try must not call again: a provider whose every call is
        slower than the operation timeout would never be done."""
        kind = type(command)
        done, outcome = self._done.get(kind, (None, None))
        if done == command and outcome is not None:
            return outcome
        outcome = self._end(command)
        if outcome != LeaseDestroyed(confirmed=False):
            self._done[kind] = (command, outcome)
        return outcome

    def _end(self, command: _Ending) -> OperationOutcome:
        match command:
            case BootstrapConvergenceObserved(session_id, swactor_id):
                _as_meant(lambda: self._provider.accept_convergence(session_id, swactor_id))
                return BootstrapConvergenceAccepted()
            case CancelBootstrap(session_id):
                return self._cancel(session_id)
            case DestroyLease(handle):
                return self._destroy(handle)
            case _:
                assert_never(command)

    def interrupted(self) -> None:
        """The call in flight has ended without an answer, with the thread that ran it."""
        now = self._now()
        self.lease = self.lease.interrupted(now)
        self.session = self.session.interrupted(now)

    # -- the lease --------------------------------------------------------------------------------

    def _create(self, spec: LogicalNodeSpec, *, adopt_only: bool) -> LeaseCreated | LeaseAbsent:
        if self.lease.known is not None:
            return self.lease.known
        if adopt_only or self.lease.unresolved:
            return self._find_lease(adopt_only=adopt_only)
        self.lease = self.lease.making()
        self._done.clear()
        try:
            created = self._provider.create_lease(spec)
        except CallFailed as failed:
            self.lease = _after_failure(self.lease, failed, self._now())
            raise
        self.lease = self.lease.made(created, self._now())
        return created

    def _find_lease(self, *, adopt_only: bool) -> LeaseCreated | LeaseAbsent:
        asked_at = self._now()
        try:
            found = self._provider.find_lease()
        except CallFailed as failed:
            raise _failed_look(failed, adopt_only=adopt_only) from failed
        if found is not None:
            self.lease = self.lease.found(found)
            return found
        self.lease, conclusive = self.lease.not_seen(asked_at, self._settle_time)
        return LeaseAbsent(conclusive)

    def _look_up(self, lease: LeaseFacts) -> EndpointLookup | LeaseAbsent:
        if self.lease.known is None:
            self.lease = self.lease.found(LeaseCreated(lease))
        asked_at = self._now()
        answer = _as_meant(lambda: self._provider.lookup_endpoint(lease), may_end_attempt=True)
        if isinstance(answer, LeaseAbsent) and answer.conclusive:
            # A fresh lease may be missing from reads: the provider's word alone does not end it.
            self.lease, conclusive = self.lease.not_seen(asked_at, self._settle_time)
            return LeaseAbsent(conclusive)
        return answer

    def _destroy(self, handle: DestroyHandle) -> LeaseDestroyed:
        confirmed = _as_meant(lambda: self._provider.destroy_lease(handle))
        if confirmed:
            self.lease = self.lease.ended()
            self.session = self.session.ended()  # A session does not outlive its lease.
        return LeaseDestroyed(confirmed)

    def _lease_is_gone(self) -> bool:
        """Whether it is certain that nothing can run for this attempt any more; looks if need be,
        and takes a look that fails for a no."""
        if self.lease.gone:
            return True
        if self.lease.known is None:
            return False
        asked_at = self._now()
        try:
            found = self._provider.find_lease()
        except CallFailed:
            return False
        if found is None:
            self.lease, _ = self.lease.not_seen(asked_at, self._settle_time)
        return self.lease.gone

    # -- the session ------------------------------------------------------------------------------

    def _start(
        self, session: BootstrapSessionSpec, *, adopt_only: bool
    ) -> BootstrapStarted | BootstrapAbsent:
        if self.lease.gone:
            if adopt_only:
                self.session = self.session.ended()
                return BootstrapAbsent()
            raise CallFailed(EffectError("nothing can be started, the lease is gone"))
        if self.session.known is not None:
            return BootstrapStarted(self.session.known)
        if adopt_only or self.session.unresolved:
            return self._find_session(adopt_only=adopt_only)
        session_id = self._session_ids.next(self._identity.attempt, self._starts)
        made = make_context(self._identity, session_id, session, self._listener)
        self.secrets |= frozenset(made.secrets)
        self._starts += 1
        self.session = self.session.making()
        try:
            self._provider.start_bootstrap(session, made.context)
        except CallFailed as failed:
            self.session = _after_failure(self.session, failed, self._now())
            raise
        self.session = self.session.made(session_id, self._now())
        return BootstrapStarted(session_id)

    def _find_session(self, *, adopt_only: bool) -> BootstrapStarted | BootstrapAbsent:
        asked_at = self._now()
        try:
            found = self._provider.find_bootstrap()
        except CallFailed as failed:
            if adopt_only and self._lease_is_gone():
                return BootstrapAbsent()
            raise _failed_look(failed, adopt_only=adopt_only) from failed
        if found is not None:
            self.session = self.session.found(found)
            return BootstrapStarted(found)
        self.session, conclusive = self.session.not_seen(asked_at, self._settle_time)
        if adopt_only and not conclusive:
            conclusive = self._lease_is_gone()
        return BootstrapAbsent(conclusive)

    def _cancel(self, session_id: BootstrapSessionId) -> BootstrapCancelled:
        if not self.lease.gone:
            try:
                _as_meant(lambda: self._provider.cancel_bootstrap(session_id))
            except CallFailed:
                if not self._lease_is_gone():
                    raise
        self.session = self.session.ended()
        return BootstrapCancelled()


def _as_meant(call: Callable[[], T], *, may_end_attempt: bool = False) -> T:
    """The call's answer.  A failure of what makes nothing is definite, whatever the provider calls
    it; only a look-up may end the attempt (design rule 16)."""
    try:
        return call()
    except CallFailed as failed:
        if may_end_attempt and failed.error.disposition is Disposition.ATTEMPT_ENDING:
            raise
        raise failed.meaning(Disposition.DEFINITE) from failed


def _after_failure(holding: Holding[T], failed: CallFailed, now: datetime) -> Holding[T]:
    """Only a definite refusal says that nothing was made: under a token that is refused for good,
    something may exist all the same."""
    if failed.error.disposition is Disposition.DEFINITE:
        return holding.refused()
    return holding.interrupted(now)


def _failed_look(failed: CallFailed, *, adopt_only: bool) -> CallFailed:
    """A look that fails leaves an earlier outcome as unknown as it was.  To call that definite
    would end an attempt whose bootstrap may run well, for one hiccup of a listing."""
    ends = failed.error.disposition is Disposition.ATTEMPT_ENDING
    definite = adopt_only or ends
    return failed.meaning(Disposition.DEFINITE if definite else Disposition.AMBIGUOUS)

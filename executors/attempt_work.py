"""Carrying out one attempt's operations at its provider, one after another (design rules 14-17).

It keeps what makes the calls safe to repeat: which lease and session are known, and which call's
outcome is not.  It knows no queue and no thread; `executor` calls it, one operation at a time.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import assert_never

from msgspec import Struct

from cluster_reconciler.executors.adoption import Making
from cluster_reconciler.executors.calls import CallFailed, call, look, make
from cluster_reconciler.executors.provider import (
    BootstrapContext,
    Provider,
    Stream,
    SwarmTicket,
)
from cluster_reconciler.executors.secret_references import SecretMissing, resolve_env
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    BootstrapStarted,
    CancelBootstrap,
    CreateLease,
    DestroyLease,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    LookupEndpoint,
    NodeManagerCommand,
    OperationOutcome,
    SessionObservation,
    StartBootstrap,
)


class World(Struct, frozen=True):
    """What attempts need of their surroundings; every callable is safe for threads."""

    now: Callable[[], datetime]
    ticket: Callable[[AttemptIdentity], SwarmTicket]
    next_session: Callable[[], BootstrapSessionId]
    report: Callable[[AttemptIdentity, SessionObservation], None]
    lost: Callable[[AttemptIdentity, str], None]
    output: Callable[[AttemptIdentity, Stream, int, str], None]


class AttemptWork:
    """One attempt at one provider.  Not safe for threads: one operation runs at a time."""

    def __init__(self, identity: AttemptIdentity, provider: Provider, world: World) -> None:
        self.identity = identity
        self.provider = provider
        self._world = world
        self._lease: LeaseCreated | None = None
        self._session: BootstrapSessionId | None = None
        self._create = Making()
        self._start = Making()
        self._lease_is_gone = False

    def perform(self, command: NodeManagerCommand) -> OperationOutcome:
        """The command's outcome; raises CallFailed.  A BaseException of the provider passes: then
        call `died`."""
        match command:
            case CreateLease():
                return self._create_lease(command)
            case LookupEndpoint(lease):
                return call(
                    self.provider,
                    "lookup_endpoint",
                    EndpointLookup | LeaseAbsent,
                    lambda: self.provider.lookup_endpoint(self.identity, lease),
                )
            case StartBootstrap():
                return self._start_bootstrap(command)
            case BootstrapConvergenceObserved(session_id, swactor_id):
                call(
                    self.provider,
                    "accept_convergence",
                    type(None),
                    lambda: self.provider.accept_convergence(self.identity, session_id, swactor_id),
                )
                return BootstrapConvergenceAccepted()
            case CancelBootstrap(session_id):
                return self._cancel(session_id)
            case DestroyLease():
                return self._destroy(command)
            case _:
                assert_never(command)

    def died(self) -> None:
        """The call that was running has ended in a way that tells nothing."""
        for making in (self._create, self._start):
            if making.outcome_unknown and making.ended_at is None:
                making.end_unknown(self._world.now())

    # -- leases -----------------------------------------------------------------------------------

    def _create_lease(self, command: CreateLease) -> OperationOutcome:
        if self._lease is not None:
            return self._lease  # At most one live lease for an attempt (§10).
        if command.adopt_only or self._create.outcome_unknown:
            return self._look_for_lease()
        self._create.begin()
        try:
            created = make(
                self.provider,
                "create_lease",
                LeaseCreated,
                lambda: self.provider.create_lease(self.identity, command.spec),
            )
        except CallFailed as failed:
            self._ended(self._create, failed)
            raise
        self._create.resolve()
        self._lease = created
        return created

    def _look_for_lease(self) -> OperationOutcome:
        found = look(
            self.provider,
            "find_lease",
            LeaseCreated | None,
            lambda: self.provider.find_lease(self.identity),
        )
        if found is not None:
            self._create.resolve()
            self._lease = found
            return found
        return LeaseAbsent(self._absence(self._create))

    def _destroy(self, command: DestroyLease) -> OperationOutcome:
        confirmed = call(
            self.provider,
            "destroy_lease",
            bool,
            lambda: self.provider.destroy_lease(self.identity, command.handle),
        )
        if confirmed:
            self._lease, self._session, self._lease_is_gone = None, None, True
        return LeaseDestroyed(confirmed)

    # -- sessions ---------------------------------------------------------------------------------

    def _start_bootstrap(self, command: StartBootstrap) -> OperationOutcome:
        if self._session is not None:
            return BootstrapStarted(self._session)
        if command.adopt_only and self._lease_is_gone:
            return BootstrapAbsent()
        if command.adopt_only or self._start.outcome_unknown:
            return self._look_for_session()
        context = self._context(command.session.boot.env)
        self._start.begin()
        try:
            make(
                self.provider,
                "start_bootstrap",
                type(None),
                lambda: self.provider.start_bootstrap(command.session, context),
            )
        except CallFailed as failed:
            self._ended(self._start, failed)
            raise
        self._start.resolve()
        self._session = context.session_id
        return BootstrapStarted(context.session_id)

    def _look_for_session(self) -> OperationOutcome:
        found = look(
            self.provider,
            "find_bootstrap",
            BootstrapSessionId | None,
            lambda: self.provider.find_bootstrap(self.identity),
        )
        if found is not None:
            self._start.resolve()
            self._session = found
            return BootstrapStarted(found)
        return BootstrapAbsent(self._absence(self._start))

    def _cancel(self, session_id: BootstrapSessionId) -> OperationOutcome:
        if not self._lease_is_gone:
            call(
                self.provider,
                "cancel_bootstrap",
                type(None),
                lambda: self.provider.cancel_bootstrap(self.identity, session_id),
            )
        if self._session == session_id:
            self._session = None
        return BootstrapCancelled()

    def _context(self, env: Mapping[str, str]) -> BootstrapContext:
        """What the session gets; failures here are before anything ran."""
        identity, world = self.identity, self._world
        try:
            resolved = resolve_env(env)
        except SecretMissing as missing:
            raise CallFailed(EffectError(str(missing))) from None
        try:
            ticket = world.ticket(identity)
        except Exception as error:
            reason = f"the swarm gave no ticket for {identity}: {error}"
            raise CallFailed(EffectError(reason)) from error
        return BootstrapContext(
            identity=identity,
            session_id=world.next_session(),
            env=resolved,
            ticket=ticket,
            report=lambda observation: world.report(identity, observation),
            lost=lambda reason: world.lost(identity, reason),
            output=lambda stream, number, line: world.output(identity, stream, number, line),
        )

    # -- what is known ----------------------------------------------------------------------------

    def _ended(self, making: Making, failed: CallFailed) -> None:
        """Only a definite failure says that nothing was made."""
        if failed.error.disposition is Disposition.DEFINITE:
            making.resolve()
        else:
            making.end_unknown(self._world.now())

    def _absence(self, making: Making) -> bool:
        conclusive = making.absence_is_conclusive(self._world.now(), self.provider.settle_time)
        if conclusive:
            making.resolve()
        return conclusive

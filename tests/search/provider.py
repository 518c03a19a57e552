"""The provider of the search: it does to what exists what each call was told to do.

A call is told its fate beforehand (`fates`), and does and answers accordingly; a fate that lies
about what exists is not among those that `fates_of` offers.  It keeps no time and decides nothing.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta

from msgspec.structs import replace

from cluster_reconciler.executors.provider import (
    BootstrapContext,
    ListedLease,
    ProviderError,
)
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    BootstrapSessionSpec,
    DestroyHandle,
    Disposition,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeSpec,
    ProviderKind,
    ProviderLeaseId,
    RunId,
    SwactorId,
)
from tests.search.place import NOTHING, SETTLE_TIME, Thing

ENDPOINT = LocalEndpoint("the node's directory")

LOST = "the reply is lost"
LATE = "given up, and may happen later"
REFUSED = "refused"
COME_LATER = "refused, come much later"
LONG = timedelta(seconds=6)
"""Longer than `cancel_timeout`: a cancel must not wait for it."""
ENDS = "the attempt is refused for good"
WRONG = "a wrong value is answered"
DIES = "the executor dies"
DIES_LATE = "the executor dies, and the call may happen later"
UNSEEN = "not visible yet"
NOT_YET = "not yet"
UNFINISHED = "unfinished"
GOOD = "answered well"
NO_ENDPOINT = "answered without an endpoint"

MAKES = frozenset({"create_lease", "start_bootstrap"})
ENDINGS = frozenset({"accept_convergence", "cancel_bootstrap", "destroy_lease"})


class Suspended(BaseException):
    """The call has not returned; the name is that of the call."""


class ThreadKilled(BaseException):
    """The executor's thread dies within the call."""


_ERRORS: dict[str, Callable[[], BaseException]] = {
    REFUSED: lambda: ProviderError(REFUSED),
    COME_LATER: lambda: ProviderError(REFUSED, retry_after=LONG),
    ENDS: lambda: ProviderError(ENDS, Disposition.ATTEMPT_ENDING),
    LOST: lambda: TimeoutError(LOST),
    LATE: lambda: TimeoutError(LATE),
    DIES: lambda: ThreadKilled(DIES),
    DIES_LATE: lambda: ThreadKilled(DIES_LATE),
}


class SearchProvider:
    """See the module.  `things` and `fates` are set by whoever moves the search on."""

    def __init__(self) -> None:
        self.things: dict[AttemptIdentity, Thing] = {}
        self.fates: list[str] = []
        """What becomes of the next calls, the first one first; none left: they go well."""
        self.calls: list[str] = []
        self.suspends = False
        self.acted = False
        """The first call has had its effect before."""
        self.returning: Callable[[], None] = _nothing
        """What happened while the first call was out."""

    @property
    def kind(self) -> ProviderKind:
        """See `Provider`."""
        return ProviderKind("memory")

    @property
    def settle_time(self) -> timedelta:
        """See `Provider`."""
        return SETTLE_TIME

    def create_lease(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> LeaseCreated:
        """See `Provider`."""
        fate, acted = self._begin("create_lease")
        if fate in (GOOD, NO_ENDPOINT):
            if not acted:
                self.act("create_lease", identity, None)
            return _created(identity, fate == GOOD)
        self._fail(fate, identity, "create", None)
        return "a wrong value"  # type: ignore[return-value]  # that is its point

    def find_lease(self, identity: AttemptIdentity) -> LeaseCreated | None:
        """See `Provider`."""
        fate, _ = self._begin("find_lease")
        self._fail(fate, identity, "", None)
        seen = self.thing(identity).machines > 0 and fate != UNSEEN
        return _created(identity, fate != NO_ENDPOINT) if seen else None

    def lookup_endpoint(
        self, identity: AttemptIdentity, lease: LeaseFacts
    ) -> EndpointLookup | LeaseAbsent:
        """See `Provider`."""
        fate, _ = self._begin("lookup_endpoint")
        self._fail(fate, identity, "", None)
        if fate == UNSEEN or self.thing(identity).machines == 0:
            return LeaseAbsent()
        return EndpointLookup(None if fate == NOT_YET else ENDPOINT)

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        """See `Provider`."""
        fate, acted = self._begin("start_bootstrap")
        if fate == GOOD:
            if not acted:
                self.act("start_bootstrap", context.identity, context.session_id)
            return
        self._fail(fate, context.identity, "start", context.session_id)
        raise ValueError("nobody knows what has happened")

    def find_bootstrap(self, identity: AttemptIdentity) -> BootstrapSessionId | None:
        """See `Provider`."""
        fate, _ = self._begin("find_bootstrap")
        self._fail(fate, identity, "", None)
        return None if fate == UNSEEN else self.thing(identity).session

    def accept_convergence(
        self, identity: AttemptIdentity, session_id: BootstrapSessionId, swactor_id: SwactorId
    ) -> None:
        """See `Provider`."""
        self._end("accept_convergence", identity)

    def cancel_bootstrap(self, identity: AttemptIdentity, session_id: BootstrapSessionId) -> None:
        """See `Provider`."""
        self._end("cancel_bootstrap", identity)

    def destroy_lease(self, identity: AttemptIdentity, handle: DestroyHandle) -> bool:
        """See `Provider`."""
        return self._end("destroy_lease", identity) != UNFINISHED

    def list_leases(self, run_id: RunId) -> Sequence[ListedLease]:
        """See `Provider`; nobody asks."""
        return ()

    def close(self) -> None:
        """See `Provider`."""

    def thing(self, identity: AttemptIdentity) -> Thing:
        """What exists of the attempt."""
        return self.things.get(identity, NOTHING)

    def act(self, call: str, identity: AttemptIdentity, session: BootstrapSessionId | None) -> None:
        """The call has its effect."""
        self.things[identity] = after_effect(self.thing(identity), call, session)

    def _begin(self, call: str) -> tuple[str, bool]:
        self.calls.append(call)
        if self.suspends:
            raise Suspended(call)
        first = len(self.calls) == 1
        if first:
            self.returning()
        fate = self.fates.pop(0) if self.fates else GOOD
        return fate, first and self.acted

    def _end(self, call: str, identity: AttemptIdentity) -> str:
        fate, acted = self._begin(call)
        self._fail(fate, identity, "", None)
        if not acted and fate != UNFINISHED:
            self.act(call, identity, None)
        return fate

    def _fail(
        self,
        fate: str,
        identity: AttemptIdentity,
        late: str,
        session: BootstrapSessionId | None,
    ) -> None:
        if fate in (LATE, DIES_LATE):
            thing = self.thing(identity)
            self.things[identity] = replace(thing, late=late, late_session=session)
        error = _ERRORS.get(fate)
        if error is not None:
            raise error()


def after_effect(thing: Thing, call: str, session: BootstrapSessionId | None) -> Thing:
    """What exists after the call has had its effect."""
    match call:
        case "create_lease":
            twice = thing.machines > 0
            return replace(thing, machines=thing.machines + 1, doubled=thing.doubled or twice)
        case "start_bootstrap":
            twice = thing.alive
            return replace(thing, session=session, alive=True, doubled=thing.doubled or twice)
        case "accept_convergence" | "cancel_bootstrap":
            return replace(thing, alive=False)
        case "destroy_lease":
            return removed(thing)
        case _:
            raise AssertionError(f"{call} has no effect")


def removed(thing: Thing) -> Thing:
    """The machine has gone, with all that ran on it; what comes late on it never will."""
    late = thing.late if thing.late == "create" else ""
    return Thing(late=late, doubled=thing.doubled)


def fates_of(call: str, thing: Thing, *, acted: bool, visible: bool) -> tuple[str, ...]:
    """What may become of the call, the good end first; `visible`: what exists shows in reads."""
    if call == "start_bootstrap" and thing.machines == 0 and not acted:
        return (REFUSED, LOST, DIES)
    if call in MAKES:
        good = (GOOD, NO_ENDPOINT) if call == "create_lease" else (GOOD,)
        if acted:
            return (*good, LOST, ENDS, DIES)
        wrong = (WRONG,) if call == "create_lease" else ()
        return (*good, REFUSED, LOST, LATE, ENDS, *wrong, DIES, DIES_LATE)
    if call in ENDINGS:
        unfinished = (UNFINISHED,) if call == "destroy_lease" and not acted else ()
        later = (COME_LATER,) if call == "cancel_bootstrap" else ()
        return (GOOD, *unfinished, REFUSED, *later, DIES)
    unseen = (UNSEEN,) if thing.machines and not visible else ()
    not_yet = (NOT_YET,) if call == "lookup_endpoint" and thing.machines else ()
    no_endpoint = (NO_ENDPOINT,) if call == "find_lease" and thing.machines else ()
    return (GOOD, *unseen, *not_yet, *no_endpoint, REFUSED, ENDS, DIES)


def _created(identity: AttemptIdentity, with_endpoint: bool) -> LeaseCreated:
    lease = LeaseFacts(
        ProviderKind("memory"), ProviderLeaseId(f"{identity.node}/{identity.attempt}")
    )
    return LeaseCreated(lease, ENDPOINT if with_endpoint else None)


def _nothing() -> None:
    return

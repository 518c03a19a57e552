"""The faults of a provider's calls, and what becomes of its sessions, played on a `MemoryProvider`.

It decides nothing: `faults` does.  It only turns a word into what the caller sees.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from cluster_reconciler.executors.provider import BootstrapContext, ProviderError
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.executors.providers.memory_script import Effect, Fate, Fault, Script
from cluster_reconciler.executors.providers.memory_world import Call, CallKind
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionSpec,
    Disposition,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseFacts,
    LogicalNodeSpec,
    ProviderKind,
    ProviderLeaseId,
)
from tests.simulation.machines import TALKS, flood, tell_all

PAUSES = (5.0, 31.0, 121.0, 400.0)
"""Seconds that a slow call takes."""
RETRY_AFTER = 90.0
GARBAGE = (
    17,
    "yes",
    ["a", "list"],
    {"lease": None},
    LeaseFacts(ProviderKind("p0"), ProviderLeaseId("\ud800")),
    LeaseCreated(17),  # type: ignore[arg-type]  # that is its point
)


class World(Protocol):
    """What a fault needs of the world around it."""

    def call_fault(self, call: Call, provider: MemoryProvider) -> str | None:
        """What goes wrong with this call."""

    def session_fate(self, call: Call, provider: MemoryProvider) -> str | None:
        """What becomes of the session that it starts; None: it joins."""

    def endpoint_is_late(self, identity: AttemptIdentity) -> bool:
        """Whether a create does not tell the endpoint."""

    def drawn(self, call: Call, what: str, end: int) -> int:
        """A number of this call's own."""

    def pause(self, seconds: float) -> None:
        """The call takes so long."""

    def late_effect(self, provider: MemoryProvider, effect: Callable[[], object]) -> None:
        """The effect comes after the call has ended."""

    def say_lost(self, identity: AttemptIdentity) -> None:
        """The swarm says that the node is lost."""

    def note(self, kind: str) -> None:
        """Something goes wrong that the provider's settings bring about."""

    def remember(self, context: BootstrapContext) -> None:
        """A session is about to be started."""

    def excuse(self, identity: AttemptIdentity) -> None:
        """A lie was told about this attempt's machine."""


class SimulatedProvider(MemoryProvider):
    """A memory provider that remembers whom it ever started, to let them speak again."""

    def __init__(
        self, kind: str, now: Callable[[], datetime], settle_time: float, world: World
    ) -> None:
        super().__init__(kind, now=now, settle_time=settle_time, history_max=1_000)
        self.script: FaultyScript = FaultyScript(world, self)
        self._world = world

    def create_lease(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> LeaseCreated:
        """See `Provider`."""
        try:
            return super().create_lease(identity, spec)
        except ProviderError as error:
            for kind in ("no capacity", "throttled"):
                if str(error).startswith(kind):
                    self._world.note(f"provider: {kind}")
            raise

    def find_lease(self, identity: AttemptIdentity) -> LeaseCreated | None:
        """See `Provider`."""
        found = super().find_lease(identity)
        if found is None and self.world.leases_of(identity):
            self._world.note("provider: does not show it yet")
        return found

    def lookup_endpoint(
        self, identity: AttemptIdentity, lease: LeaseFacts
    ) -> EndpointLookup | LeaseAbsent:
        """See `Provider`."""
        found = super().lookup_endpoint(identity, lease)
        if found == EndpointLookup():
            self._world.note("provider: cannot be reached yet")
        return found

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        """See `Provider`."""
        self._world.remember(context)
        super().start_bootstrap(session, context)
        talk, self.script.talk = self.script.talk, None
        if talk == "floods at once":
            flood(context)
        elif talk is not None:
            tell_all(context)


class FaultyScript(Script):
    """A script that the world writes, call by call."""

    def __init__(self, world: World, provider: MemoryProvider) -> None:
        super().__init__()
        self._world = world
        self._provider = provider
        self.talk: str | None = None
        """What the session that is just being started says before its start has answered."""

    def awaits(self, kind: CallKind, identity: AttemptIdentity) -> bool:
        """See `Script`."""
        return kind is CallKind.LOOKUP_ENDPOINT and self._world.endpoint_is_late(identity)

    def fate_of(self, call: Call) -> tuple[Fate, str]:
        """See `Script`."""
        fate = self._world.session_fate(call, self._provider)
        self.talk = fate if fate is not None and fate in TALKS else None
        return (Fate.JOINS if fate is None else Fate.NEVER_JOINS), ""

    def fault_of(self, call: Call) -> Fault | None:
        """See `Script`."""
        what = self._world.call_fault(call, self._provider)
        if what is None:
            return None
        return lambda call, effect: self._play(what, call, effect)

    def _play(self, what: str, call: Call, effect: Effect) -> object:
        match what:
            case "refused" | "connection failed" | "refused for a while" | "token refused":
                raise _refusal(what)
            case "never works":
                raise _refusal("refused")
            case "token refused, made":
                effect()
                raise _refusal("token refused")
            case "executor dies before":
                raise SystemExit(what)
            case "executor dies after":
                effect()
                raise SystemExit(what)
            case "reply lost":
                effect()
                raise TimeoutError(what)
            case "effect late":
                self._world.late_effect(self._provider, effect)
                raise TimeoutError(what)
            case "slow" | "slow reply" | "slow, then lost":
                return self._slow(what, call, effect)
            case _:
                return self._answer(what, call, effect)

    def _slow(self, what: str, call: Call, effect: Effect) -> object:
        seconds = PAUSES[self._world.drawn(call, "pause", len(PAUSES))]
        if what == "slow":
            self._world.pause(seconds)
            return effect()
        answer = effect()
        self._world.pause(seconds)
        if what == "slow, then lost":
            raise TimeoutError(what)
        return answer

    def _answer(self, what: str, call: Call, effect: Effect) -> object:
        match what:
            case "garbage":
                return GARBAGE[self._world.drawn(call, "garbage", len(GARBAGE))]
            case "garbage, done":
                effect()
                return GARBAGE[self._world.drawn(call, "garbage", len(GARBAGE))]
            case "not yet":
                return EndpointLookup()
            case "gone":
                return LeaseAbsent()
            case "unfinished":
                return False
            case "unfinished, done":
                effect()
                return False
            case "lie":
                assert call.identity is not None, "a listing destroys nothing"
                self._world.excuse(call.identity)
                return True
            case "lost meanwhile" | "lost meanwhile, refused" | "lost meanwhile, gone":
                return self._lost(what, call, effect)
            case "closes meanwhile" | "fails meanwhile":
                assert call.identity is not None, "a listing is of no session"
                failure = "exit code 1" if what == "fails meanwhile" else None
                self._provider.end_session(call.identity, failure)
                return effect()
            case "empty":
                return ()
            case "half":
                listed = effect()
                assert isinstance(listed, tuple), listed
                return listed[::2]
            case _:
                raise AssertionError(f"no such fault: {what}")

    def _lost(self, what: str, call: Call, effect: Effect) -> object:
        """While the call runs, the swarm says that the node is lost."""
        assert call.identity is not None, "a listing is of no node"
        self._world.say_lost(call.identity)
        if what == "lost meanwhile, refused":
            raise _refusal("refused")
        return LeaseAbsent() if what == "lost meanwhile, gone" else effect()


def _refusal(what: str) -> Exception:
    match what:
        case "refused":
            return ProviderError("try later")
        case "refused for a while":
            return ProviderError("try much later", retry_after=RETRY_AFTER)
        case "token refused":
            reason = "the token belongs to a terminated instance"
            return ProviderError(reason, Disposition.ATTEMPT_ENDING)
        case _:
            return ConnectionError("no route to the provider")

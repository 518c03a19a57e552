"""The faults that a `MemoryProvider` plays, scripted call by call so that tests read as prose.

    provider.script.create("g-0").lose_reply(times=1)
    provider.script.destroy().refuse("try later", times=None)
    stuck = provider.script.lookup("g-1").hang()
    ...
    stuck.release()

A line applies to the first calls that match it, `times` of them (None: to all), after those that it
lets pass (`skip`).  The line that was written first goes first; a call plays at most one line.
Nothing here makes or ends anything: a fault gets the effect as a function, and calls it or not.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from enum import Enum, auto
from typing import Generic, NoReturn, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.executors.provider import ProviderError
from cluster_reconciler.executors.providers.memory_world import Call, CallKind
from cluster_reconciler.messages import AttemptIdentity, Disposition, EndpointLookup, LeaseAbsent

Effect = Callable[[], object]
Fault = Callable[[Call, Effect], object]
"""Plays one call: it gets the call and its effect, and answers or raises what the caller sees."""

HANG_LIMIT = timedelta(seconds=60)
"""A call that nobody releases ends all the same, with an error: a forgotten one hangs no test."""


class Fate(Enum):
    """What becomes of a session that was started."""

    JOINS = auto()
    NEVER_JOINS = auto()
    CLOSES = auto()
    FAILS = auto()


class Hang:
    """Calls that do not return until they are released.  Safe for threads."""

    def __init__(self, limit: timedelta) -> None:
        self._limit = limit
        self._reached = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        """Let all of them go on, now and later."""
        self._released.set()

    def wait_until_reached(self, timeout: timedelta = HANG_LIMIT) -> bool:
        """Whether a call hangs here, or did."""
        return self._reached.wait(timeout.total_seconds())

    def block(self) -> None:
        """Called by the call itself."""
        self._reached.set()
        if not self._released.wait(self._limit.total_seconds()):
            raise TimeoutError(f"nobody released this call within {self._limit}")


class Line(Struct, eq=False):
    """One line of a script: the calls that it is about, and what happens to them."""

    kind: CallKind
    node: str | None = None
    attempt: int | None = None
    when: Callable[[Call], bool] | None = None
    skip: int = 0
    fault: Fault | None = None
    """None: only the fate of the session is scripted."""
    fate: tuple[Fate, str] = (Fate.JOINS, "")
    left: int | None = None
    """How many calls more; None: all."""

    def concerns(self, kind: CallKind, identity: AttemptIdentity | None) -> bool:
        """Whether a call of this kind and attempt may be one of them."""
        if kind is not self.kind or self.left == 0:
            return False
        if self.node is not None and (identity is None or identity.node != self.node):
            return False
        return self.attempt is None or (identity is not None and identity.attempt == self.attempt)


class CallScript:
    """What shall happen to some calls of one kind.  Every method writes one line."""

    def __init__(self, script: "Script", line: Line) -> None:
        self._script = script
        self._line = line

    def play(self, fault: Fault, times: int | None = 1) -> None:
        """Any fault at all."""
        self._script.write(replace(self._line, fault=fault, left=times))

    def refuse(
        self,
        reason: str = "refused",
        *,
        times: int | None = 1,
        disposition: Disposition = Disposition.DEFINITE,
        retry_after: timedelta | None = None,
    ) -> None:
        """A `ProviderError`, before any effect."""

        def fault(_call: Call, _effect: Effect) -> NoReturn:
            raise ProviderError(reason, disposition, retry_after)

        self.play(fault, times)

    def end_attempt(
        self, reason: str = "the token belongs to a terminated instance", *, times: int | None = 1
    ) -> None:
        """Refuse this attempt's token for good."""
        self.refuse(reason, times=times, disposition=Disposition.ATTEMPT_ENDING)

    def fail(self, error: BaseException, *, times: int | None = 1) -> None:
        """Raise this, before any effect."""

        def fault(_call: Call, _effect: Effect) -> NoReturn:
            raise error

        self.play(fault, times)

    def fail_after_effect(self, error: BaseException, *, times: int | None = 1) -> None:
        """Do it, then raise this, which may be no `Exception`: the thread is killed."""

        def fault(_call: Call, effect: Effect) -> NoReturn:
            effect()
            raise error

        self.play(fault, times)

    def lose_reply(self, *, times: int | None = 1) -> None:
        """Do it, then fail as a connection does that breaks before the answer."""
        self.fail_after_effect(TimeoutError("the reply was lost"), times=times)

    def hang(self, *, times: int | None = 1, limit: timedelta = HANG_LIMIT) -> Hang:
        """Block until released, then do it.  Only for calls on threads of their own."""
        hang = self._script.hang(limit)

        def fault(_call: Call, effect: Effect) -> object:
            hang.block()
            return effect()

        self.play(fault, times)
        return hang

    def hang_after_effect(self, *, times: int | None = 1, limit: timedelta = HANG_LIMIT) -> Hang:
        """Do it, then block until released: the reply is late."""
        hang = self._script.hang(limit)

        def fault(_call: Call, effect: Effect) -> object:
            answer = effect()
            hang.block()
            return answer

        self.play(fault, times)
        return hang

    def answer(self, value: object, *, times: int | None = 1, effect: bool = False) -> None:
        """Answer this, of whatever type; `effect`: and do it as well."""

        def fault(_call: Call, act: Effect) -> object:
            if effect:
                act()
            return value

        self.play(fault, times)


class LookupScript(CallScript):
    """What shall happen to look-ups of the endpoint."""

    def not_yet(self, *, looks: int | None = 1) -> None:
        """No endpoint for so many looks.  Creating the lease tells none either, then."""
        self.answer(EndpointLookup(), times=looks)

    def gone(self, *, times: int | None = 1) -> None:
        """The lease is said to be absent."""
        self.answer(LeaseAbsent(), times=times)


class StartScript(CallScript):
    """What shall happen to starts, and to the sessions that they start."""

    def never_join(self, *, times: int | None = 1) -> None:
        """The session runs and runs."""
        self._fated(Fate.NEVER_JOINS, "", times)

    def close_early(self, *, times: int | None = 1) -> None:
        """The session ends before it joins."""
        self._fated(Fate.CLOSES, "", times)

    def fail_later(self, reason: str = "a check failed", *, times: int | None = 1) -> None:
        """The session reports that it failed."""
        self._fated(Fate.FAILS, reason, times)

    def _fated(self, fate: Fate, reason: str, times: int | None) -> None:
        self._script.write(replace(self._line, fate=(fate, reason), left=times))


class DestroyScript(CallScript):
    """What shall happen to destroys."""

    def unfinished(self, *, times: int | None = 1) -> None:
        """Asked, still there: and it is."""
        self.answer(False, times=times)

    def lie(self, *, times: int | None = 1) -> None:
        """Say that it is gone, while it lives on."""
        self.answer(True, times=times)


class ListScript(CallScript):
    """What shall happen to listings."""

    def empty(self, *, times: int | None = 1) -> None:
        """List nothing, whatever there is."""
        self.answer((), times=times)


S = TypeVar("S", bound=CallScript)


class Calls(Generic[S]):
    """The calls of one kind; calling it says which of them a line is about."""

    def __init__(self, script: "Script", kind: CallKind, lines: type[S]) -> None:
        self._script = script
        self._kind = kind
        self._lines = lines

    def __call__(
        self,
        node: str | None = None,
        attempt: int | None = None,
        *,
        when: Callable[[Call], bool] | None = None,
        skip: int = 0,
    ) -> S:
        """Those of this node and attempt (None: of any) for which `when` is true, but not the first
        `skip` of them."""
        return self._lines(
            self._script, Line(self._kind, node=node, attempt=attempt, when=when, skip=skip)
        )


class Script:
    """All lines.  Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        self._hangs: list[Hang] = []
        self.create = Calls(self, CallKind.CREATE_LEASE, CallScript)
        self.find = Calls(self, CallKind.FIND_LEASE, CallScript)
        self.lookup = Calls(self, CallKind.LOOKUP_ENDPOINT, LookupScript)
        self.start = Calls(self, CallKind.START_BOOTSTRAP, StartScript)
        self.find_session = Calls(self, CallKind.FIND_BOOTSTRAP, CallScript)
        self.accept = Calls(self, CallKind.ACCEPT_CONVERGENCE, CallScript)
        self.cancel = Calls(self, CallKind.CANCEL_BOOTSTRAP, CallScript)
        self.destroy = Calls(self, CallKind.DESTROY_LEASE, DestroyScript)
        self.list = Calls(self, CallKind.LIST_LEASES, ListScript)

    def clear(self) -> None:
        """No faults from now on; what hangs is released."""
        with self._lock:
            self._lines.clear()
            hangs, self._hangs = self._hangs, []
        for hang in hangs:
            hang.release()

    # -- for the provider -------------------------------------------------------------------------

    def write(self, line: Line) -> None:
        """One more line."""
        with self._lock:
            self._lines.append(line)

    def hang(self, limit: timedelta) -> Hang:
        """A hang that `clear` releases."""
        hang = Hang(limit)
        with self._lock:
            self._hangs.append(hang)
        return hang

    def awaits(self, kind: CallKind, identity: AttemptIdentity) -> bool:
        """Whether a line may concern a later call of this kind of the attempt."""
        with self._lock:
            return any(line.concerns(kind, identity) for line in self._lines)

    def fault_of(self, call: Call) -> Fault | None:
        """The fault that this call plays; it is used up by that."""
        line = self._take(call, lambda line: line.fault is not None)
        return line.fault if line is not None else None

    def fate_of(self, call: Call) -> tuple[Fate, str]:
        """What becomes of the session that this call starts."""
        line = self._take(call, lambda line: line.fault is None)
        return line.fate if line is not None else (Fate.JOINS, "")

    def _take(self, call: Call, wanted: Callable[[Line], bool]) -> Line | None:
        with self._lock:
            for line in self._lines:
                if not wanted(line) or not line.concerns(call.kind, call.identity):
                    continue
                if line.when is not None and not line.when(call):
                    continue
                if line.skip > 0:
                    line.skip -= 1
                    continue
                if line.left is not None:
                    line.left -= 1
                    if line.left == 0:
                        self._lines.remove(line)
                return line
            return None

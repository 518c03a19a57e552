"""What a bootstrap session is given: its id, environment, ticket, and a way to be heard.

Everything that comes back through it is checked, masked and passed on, or dropped and told of.  It
never blocks and never raises into the provider; it starts nothing and calls no provider.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.executors.checked_provider import CallFailed, WrongType, checked, said
from cluster_reconciler.executors.provider import BootstrapContext, Stream, SwarmTicket
from cluster_reconciler.executors.secret_references import (
    ReferenceUnresolved,
    is_reference,
    mask,
    resolve,
    resolve_env,
)
from cluster_reconciler.executors.secret_words import secrets_of
from cluster_reconciler.executors.wrong_values import kind_of, named
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapSessionSpec,
    EffectError,
    NodeAttemptId,
    NodeLost,
    NodeObserved,
    SessionObservation,
    SwarmJoinSpec,
)

TicketSource = Callable[[AttemptIdentity], SwarmTicket]
OutputSink = Callable[[AttemptIdentity, Stream, int, str], None]

_SESSIONS_AN_ATTEMPT = 1 << 20
_SESSION_ID_END = 1 << 53
"""Beyond it a number is not exact in every language that may read it."""


class SessionIds:
    """Hands out session ids, each once in a run; later ones of an attempt are higher.

    They are made of the attempt's id.  Attempt ids are never reused, also not by the next process
    of the same run, so no two processes hand out the same id.  Safe for threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._beyond = 0
        """Ids of the attempt 0, which there is not, for attempts whose own ids are too large."""

    def next(self, attempt: NodeAttemptId, starts_before: int) -> BootstrapSessionId:
        """The id for the next start of the attempt, which was started so often before."""
        own = attempt * _SESSIONS_AN_ATTEMPT + starts_before + 1
        if own < _SESSION_ID_END and starts_before + 1 < _SESSIONS_AN_ATTEMPT:
            return BootstrapSessionId(own)
        with self._lock:
            self._beyond += 1
            return BootstrapSessionId(self._beyond)


class Listener(Struct, frozen=True):
    """Who hears what a session says."""

    observed: Callable[[NodeObserved], None]
    output: OutputSink
    ticket: TicketSource
    is_over: Callable[[], bool]
    """Nobody wants to hear of the attempt any more."""
    dropped: Callable[[AttemptIdentity, str], None]
    """What was dropped of what it said, and why."""


class SessionContext(Struct, frozen=True):
    """The context, and what has to be hidden of it."""

    context: BootstrapContext
    secrets: tuple[str, ...]


def make_context(
    identity: AttemptIdentity,
    session_id: BootstrapSessionId,
    session: BootstrapSessionSpec,
    listener: Listener,
) -> SessionContext:
    """The context for one start.

    Raises:
        CallFailed: definite, nothing has run: a reference leads nowhere, or there is no ticket.
    """
    try:
        env = resolve_env(session.boot.env)
        token = _own_token(session.swarm_join)
    except ReferenceUnresolved as unresolved:
        raise CallFailed(EffectError(unresolved.reason)) from None
    ticket = _ticket(identity, session.swarm_join, token, listener.ticket)
    secrets = (*secrets_of(session.boot, env), ticket.token)
    voice = _Voice(identity, session_id, listener, secrets)
    context = BootstrapContext(
        identity=identity,
        session_id=session_id,
        env=env,
        ticket=ticket,
        report=voice.report,
        lost=voice.lost,
        output=voice.output,
    )
    return SessionContext(context, secrets)


def _own_token(join: SwarmJoinSpec) -> str | None:
    """The secret that the shape's `join_token_ref` names; None: the swarm source gives one."""
    if not join.join_token_ref:
        return None
    if not is_reference(join.join_token_ref):
        raise ReferenceUnresolved(
            "swarm_join.join_token_ref must name a secret (env:NAME or file:PATH), and is none"
        )
    try:
        return resolve(join.join_token_ref)
    except ReferenceUnresolved as unresolved:
        raise ReferenceUnresolved(f"swarm_join.join_token_ref = {unresolved.reason}") from None


def _ticket(
    identity: AttemptIdentity, join: SwarmJoinSpec, token: str | None, source: TicketSource
) -> SwarmTicket:
    """The swarm's ticket, with the address and the token that the shape names instead, if any."""
    try:
        issued = source(identity)
    except Exception as error:
        raise CallFailed(EffectError(f"the swarm gave no ticket: {said(error)}")) from error
    try:
        checked(issued, SwarmTicket)
    except WrongType as wrong:
        raise CallFailed(EffectError(f"the swarm gave a bad ticket, expected {wrong}")) from None
    return replace(
        issued,
        address=join.orch_swactor_addr or issued.address,
        token=issued.token if token is None else token,
    )


def _output_line(stream: object, sequence: object, line: object) -> tuple[Stream, int, str]:
    """The three, each of its type.  Raises WrongType, which names the one that is not."""
    wanted = {"stream": (stream, Stream), "number": (sequence, int), "line": (line, str)}
    for name, (value, kind) in wanted.items():
        try:
            msgspec.convert(value, kind)
        except Exception:  # noqa: BLE001  a value that cannot even be read
            # Only of a stream the value itself helps: nobody's secret is where a line came from.
            held = repr(value[:40]) if isinstance(value, str) and kind is Stream else kind_of(value)
            raise WrongType(f"its {name} to be {named(kind)}, found {held}") from None
    return Stream(str(stream)), cast("int", sequence), cast("str", line)


class _Voice:
    """Passes on what one session says.  Safe for threads."""

    def __init__(
        self,
        identity: AttemptIdentity,
        session_id: BootstrapSessionId,
        listener: Listener,
        secrets: tuple[str, ...],
    ) -> None:
        self._identity = identity
        self._session_id = session_id
        self._listener = listener
        self._secrets = secrets
        self._dropped = 0

    def report(self, observation: SessionObservation) -> None:
        """See `BootstrapContext.report`."""
        if self._listener.is_over():
            return
        try:
            found = checked(observation, SessionObservation)
        except WrongType as wrong:
            self._drop("report", f"expected {wrong}")
            return
        match found:
            case BootstrapFailed(_, reason):
                found = replace(found, reason=mask(reason, self._secrets))
            case BootstrapObserved(marker=str() as marker):
                found = replace(found, marker=mask(marker, self._secrets))
        session_id = getattr(found, "session_id", None)
        if session_id != self._session_id:
            self._drop("report", f"it names session {session_id}, this is {self._session_id}")
            return
        self._tell(NodeObserved(self._identity.node, self._identity.attempt, found))  # type: ignore[arg-type]  # checked above

    def lost(self, reason: str) -> None:
        """See `BootstrapContext.lost`."""
        if self._listener.is_over():
            return
        try:
            text = str(checked(reason, str))
        except WrongType as wrong:
            # The loss itself is too important to be dropped for its wording.
            text = f"the provider reported it lost; its reason cannot be read, expected {wrong}"
        news = NodeLost(mask(text, self._secrets))
        self._tell(NodeObserved(self._identity.node, self._identity.attempt, news))

    def output(self, stream: Stream, sequence: int, line: str) -> None:
        """See `BootstrapContext.output`."""
        if self._listener.is_over():
            return
        try:
            stream, sequence, line = _output_line(stream, sequence, line)
        except WrongType as wrong:
            self._drop("output", f"expected {wrong}")
            return
        try:
            self._listener.output(self._identity, stream, sequence, mask(line, self._secrets))
        except Exception as error:  # noqa: BLE001  the sink is the host's, the caller a provider's
            self._drop("output", f"the sink failed: {said(error)}")

    def _tell(self, news: NodeObserved) -> None:
        try:
            self._listener.observed(news)
        except Exception as error:  # noqa: BLE001  nothing may be raised into the provider
            self._drop("report", f"it could not be told: {said(error)}")

    def _drop(self, what: str, why: str) -> None:
        """Told at the 1st, 2nd, 4th, 8th, ... time, so that a chatterbox fills no disk."""
        self._dropped += 1
        if self._dropped & (self._dropped - 1) == 0:
            text = (
                f"session {self._session_id}: a bad {what} was dropped ({self._dropped} so far): "
            )
            with suppress(Exception):  # nothing may be raised into the provider
                self._listener.dropped(self._identity, text + mask(why, self._secrets))

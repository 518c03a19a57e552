"""The trace of a life: each message in the project's own form, hashed.  It judges nothing."""

from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from cluster_reconciler.actors.mailbox import MailboxRecord
from cluster_reconciler.actors.trace import SubmitAnswer
from cluster_reconciler.actors.trace_marks import NodeMarks, PlanMark
from tests.simulation.life import Life
from tests.simulation.running import Mode, Outcome, run

_encode = msgspec.msgpack.Encoder(order="deterministic", enc_hook=repr).encode


class TraceDigest:
    """Hashes every message that a driver handles, with its time, what was answered meanwhile, and
    the marks of the state, plan and effects that it led to."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self.messages = 0

    def write(
        self,
        record: MailboxRecord,
        message: object,
        answers: tuple[SubmitAnswer, ...] = (),
        state_digest: str = "",
        *,
        nodes: NodeMarks | None = None,
        plan: PlanMark | None = None,
        raised: str | None = None,
    ) -> None:
        """One message; see `TraceSink`."""
        self.messages += 1
        said = _written(message)
        line = (record.sequence, record.at, record.sender, record.message_type, said)
        self._hash.update(_encode((line, answers, state_digest, nodes, plan, raised)))

    @property
    def hex(self) -> str:
        """Of all so far."""
        return self._hash.hexdigest()


def _written(message: object) -> bytes:
    """Nonsense cannot always be encoded; its text can."""
    try:
        return _encode(message)
    except (TypeError, ValueError):
        return repr(message).encode("utf-8", "backslashreplace")


def digested(life: Life, mode: Mode) -> Outcome:
    """Run the life, with the fingerprint of its whole trace."""
    trace = TraceDigest()
    outcome = run(life, mode, trace=trace)
    return replace(outcome, digest=f"{trace.hex}-{trace.messages}")

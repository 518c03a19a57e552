"""What the connection loop asks of whoever decides about members.  Only the contract."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from cluster_reconciler.actors.swarm_frames import Hello, Welcome
from cluster_reconciler.actors.swarm_members import ConnectionId


class Refusal(Struct, frozen=True):
    """A hello that is not welcome."""

    kind: str
    """What counts as the same refusal in the log; of bounded variety, whatever a peer sends."""
    reason: str


class FrameHandler(Protocol):
    """Decides about messages.  Called on the loop's thread only; must not block."""

    def hello(self, connection: ConnectionId, hello: Hello) -> Welcome | Refusal:
        """A stranger presents itself."""

    def heartbeat(self, connection: ConnectionId) -> None:
        """A welcomed connection lives."""

    def leave(self, connection: ConnectionId, reason: str) -> None:
        """A welcomed connection goes; it is closed after this."""

    def disconnected(self, connection: ConnectionId) -> None:
        """A welcomed connection has ended."""

    def is_judging(self) -> bool:
        """Whether something may fall due although no connection is open."""

    def stalled(self, now: datetime) -> None:
        """The thread did not run for longer than `stall_after`; called before anything is read."""

    def end_of_round(self, now: datetime) -> None:
        """All that had arrived has been handed over."""

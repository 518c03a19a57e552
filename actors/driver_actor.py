"""The driver as an actor: one mailbox, one message at a time (spec §9).

It hands messages to `Driver` and keeps the story.  It decides nothing and owns no state.
"""

from collections.abc import Callable

from cluster_reconciler.actors.base import ContainedActor
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.invariant_guard import InvariantBroken
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.messages import LogicalNodeId


class DriverActor(ContainedActor):
    """Runs a `Driver`; an exception in one message is contained, the state holds."""

    def __init__(
        self, system: ActorSystem, driver: Driver, handled: Callable[[object], None] | None = None
    ) -> None:
        """`handled(message)` is called after each message, in the actor's thread."""
        super().__init__(system, "driver")
        self._driver = driver
        self._handled = handled
        self.broken: InvariantBroken | None = None
        """The latest violation that was seen, where invariants are checked."""
        self.raised: str | None = None
        """What handling the latest message ended with, its type and text; None: it returned."""

    def on_receive(self, message: object) -> None:
        """One message; then whoever traces."""
        self.raised = None
        try:
            self._driver.handle(message)
        except BaseException as error:
            self.raised = f"{type(error).__name__}: {error}"
            raise
        finally:
            if self._handled is not None:
                self._handled(message)

    def on_contained(self, _message: object, error: Exception) -> None:
        """Whoever checks invariants wants to know."""
        if isinstance(error, InvariantBroken):
            self.broken = error

    def note(self, event: ClusterEvent) -> None:
        """Write what happened beside the message that made it happen."""
        self.ring.note(event.text, event.node, event.attempt)

    def story(self, node: LogicalNodeId) -> list[str]:
        """What the mailbox and the driver know of one node, oldest first."""
        return list(self.ring.story(node=node))

"""What the driver needs of the world, and what may be asked of it, as types (design §5).

Nothing here does anything: the runtimes and the executors implement it.
"""

from concurrent.futures import Future
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.decider import ReconcilePlan, RetryPolicy
from cluster_reconciler.messages import AttemptIdentity, ExecutorResult, PlannedEffect


class Executor(Protocol):
    """Where effects go.  An executor may also offer `withdraw`, `expire` and `retire`, as
    `cluster_reconciler.executors.Executors` does."""

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        """Take the effect and return; may raise (not taken), or answer at once: by a message, or by
        returning the result, which is then told as one."""


class DriverHost(Protocol):
    """What the driver needs of the runtime around it."""

    def now(self) -> datetime:
        """The time."""

    def tell_driver(self, message: object) -> None:
        """Put a message at the end of the driver's own mailbox."""

    def wake_at(self, moment: datetime | None) -> None:
        """Tell a DeadlineDue at `moment`; replaces what was asked before."""

    def happened(self, event: ClusterEvent) -> None:
        """Something a person may want to know."""

    def pass_done(self, plan: ReconcilePlan, converged: bool, /) -> None:
        """A pass is complete."""

    def attempt_over(self, identity: AttemptIdentity) -> None:
        """Nothing of the attempt is left; nobody may speak for it any more."""


class StatusQuery(Struct, frozen=True, gc=False, tag=True):
    """Asks for a ClusterStatus."""


class UpdateRetry(Struct, frozen=True, gc=False, tag=True):
    """Use another retry policy from the next message on.  Deadlines that were set stay."""

    policy: RetryPolicy


class Asked(Struct, frozen=True):
    """A message whose sender, at the edge of the system, waits for the answer."""

    message: object
    reply: "Future[object]"

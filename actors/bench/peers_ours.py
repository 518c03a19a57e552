"""Our side of a comparison: the driver of production on the bench's plain queue.

Rules for what may live here: when the clock runs, and nothing else.  Only the driver is timed, as
only the reconciler of a peer is: the replies are made in between.  Each node takes its whole way:
lease, bootstrap, swarm join, hand-over.
"""

import time

from cluster_reconciler.actors.bench.loop import Loop
from cluster_reconciler.actors.bench.replies import replies_to, shape_of
from cluster_reconciler.messages import SafetyTick, Trigger


class OurCluster:
    """A driver that wants so many nodes; none is there."""

    def __init__(self, nodes: int) -> None:
        self.loop = Loop(shape_of(nodes, in_flight=nodes))

    def converge(self) -> float:
        """Seconds of CPU time until all nodes are ready; once."""
        spent = self._handle(Trigger())
        while effects := self.loop.take_effects():
            spent += self._handle(*(reply for effect in effects for reply in replies_to(effect)))
        assert self.loop.converged, "every effect was replied to, and the cluster is not converged"
        return spent

    def steady(self) -> float:
        """Seconds of CPU time from a trigger to the end of its pass; after `converge`."""
        return self._handle(Trigger())

    def full_pass(self) -> float:
        """Seconds of CPU time from a safety tick to the end of its pass over every node, which
        compares its plan with that of what has changed; after `converge`."""
        return self._handle(SafetyTick())

    def close(self) -> None:
        """Nothing is held."""

    def _handle(self, *messages: object) -> float:
        """The messages, and the passes that follow from them."""
        self.loop.mailbox.extend(messages)
        begin = time.thread_time()
        self.loop.drive()
        return time.thread_time() - begin

"""Our side of a comparison: the driver of production on the bench's plain queue.

Rules for what may live here: what each time is of, and nothing else.  Only the driver is timed, as
only the reconciler of a peer is: the replies are made in between.  Each node takes its whole way:
lease, bootstrap, swarm join, hand-over.
"""

from cluster_reconciler.actors.bench.loop import Loop
from cluster_reconciler.actors.bench.replies import shape_of
from cluster_reconciler.messages import SafetyTick, Trigger


class OurCluster:
    """A driver that wants so many nodes; none is there."""

    def __init__(self, nodes: int) -> None:
        self.loop = Loop(shape_of(nodes, in_flight=nodes))

    def converge(self) -> float:
        """Seconds of CPU time until all nodes are ready; once."""
        return self.loop.converge_in_batches(Trigger())

    def steady(self) -> float:
        """Seconds of CPU time from a trigger to the end of its pass; after `converge`."""
        return self.loop.timed(Trigger())

    def full_pass(self) -> float:
        """Seconds of CPU time from a safety tick to the end of its pass over every node, which
        compares its plan with that of what has changed; after `converge`."""
        return self.loop.timed(SafetyTick())

    def close(self) -> None:
        """Nothing is held."""

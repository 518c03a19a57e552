"""What a pass brings that is worth a word to a person: that the cluster is converged, or is not any
more, and that its attempt ids are used up.

Says each once, when it turns.  Decides nothing.
"""

from cluster_reconciler.actors.admission import named_shape
from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.decider import ReconcilePlan
from cluster_reconciler.messages import ClusterShape


class ClusterTurns:
    """Remembers what was said last."""

    def __init__(self) -> None:
        self._converged = False
        self._exhausted = False

    def told_by(
        self, plan: ReconcilePlan, shape: ClusterShape, *, converged: bool
    ) -> list[tuple[EventKind, str]]:
        """A pass over this shape is complete."""
        exhausted, self._exhausted = self._exhausted, plan.allocator_exhausted
        before, self._converged = self._converged, converged
        news = []
        if plan.allocator_exhausted and not exhausted:
            text = "the attempt ids of this run are used up: no node can start any more"
            news.append((EventKind.WARNING, text))
        if converged and not before:
            news.append((EventKind.CONVERGED, f"{named_shape(shape)} is converged"))
        if before and not converged:
            news.append((EventKind.DIVERGED, f"{named_shape(shape)} is being worked on"))
        return news

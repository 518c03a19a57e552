"""The driver's queue, refusals and reports, beyond the lifecycle cases."""

from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.stepping_words import (
    answer,
    cluster,
    group,
    ready,
    shape,
)
from cluster_reconciler.messages import (
    LeaseDestroyed,
)


def test_the_pass_that_reaps_the_last_node_reports_convergence() -> None:
    # Found by the embedded example: after a Reap no further pass is due, so nobody was told.
    c = cluster(shape(group(count=1)))
    ready(c)
    c.update_desired(shape(group(count=0), generation=2))
    [destroy] = c.drive()
    answer(c, destroy, LeaseDestroyed())
    assert c.events[-1].kind is EventKind.CONVERGED
    assert c.events[-1].text == "generation 2 is converged"

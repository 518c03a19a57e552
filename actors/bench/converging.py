"""A cluster from nothing to ready, with real actors."""

from time import perf_counter

from cluster_reconciler.actors.bench.executors import ReplyingActor
from cluster_reconciler.actors.bench.production import threaded
from cluster_reconciler.messages import ClusterShape, SafetyTick


def converge_with_actors(shape: ClusterShape) -> float:
    """Seconds of wall time: the driver's actor and another one that replies, a thread each, and the
    timers' thread."""
    production = threaded(shape)
    replies = ReplyingActor(production.system, production.actor.tell)
    production.connect(replies)
    production.actor.start_contained()
    replies.actor.start_contained()
    begun = perf_counter()
    production.actor.tell(SafetyTick())
    production.wait_converged()
    spent = perf_counter() - begun
    production.close()
    return spent

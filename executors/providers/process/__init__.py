"""Real nodes on this machine: the embedded default provider (design §7)."""

from cluster_reconciler.executors.providers.process.provider import ProcessProvider
from cluster_reconciler.executors.providers.process.spawning import Containment

__all__ = ["Containment", "ProcessProvider"]

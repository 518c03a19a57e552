"""Effects on the world: executor actors, the operation ledger, providers, what runs on a node."""

from cluster_reconciler.executors.executor import Executors
from cluster_reconciler.executors.ledger import SubmissionRefused
from cluster_reconciler.executors.provider import (
    BootstrapContext,
    LeaseState,
    ListedLease,
    Provider,
    ProviderError,
    Stream,
    SwarmTicket,
)

__all__ = [
    "BootstrapContext",
    "Executors",
    "LeaseState",
    "ListedLease",
    "Provider",
    "ProviderError",
    "Stream",
    "SubmissionRefused",
    "SwarmTicket",
]

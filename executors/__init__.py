"""Effects on the world: executor actors, the operation ledger, providers, what runs on a node.

`Executors` is what a driver talks to; `Provider` is what makes machines; `MemoryProvider` is a
scripted one for tests.  The contract between them stands in `provider`.
"""

from cluster_reconciler.executors.executor import Executors
from cluster_reconciler.executors.ledger import RunningOperation, SubmissionRefused
from cluster_reconciler.executors.provider import (
    ActorHandle,
    Behaviour,
    BootstrapContext,
    LeaseState,
    ListedLease,
    Provider,
    ProviderError,
    Spawner,
    Stream,
    SwarmTicket,
)
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.executors.secret_references import is_reference, looks_like_secret

__all__ = [
    "ActorHandle",
    "Behaviour",
    "BootstrapContext",
    "Executors",
    "LeaseState",
    "ListedLease",
    "MemoryProvider",
    "Provider",
    "ProviderError",
    "RunningOperation",
    "Spawner",
    "Stream",
    "SubmissionRefused",
    "SwarmTicket",
    "is_reference",
    "looks_like_secret",
]

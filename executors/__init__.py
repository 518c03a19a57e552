"""Effects on the world: executor actors, the operation ledger, providers, what runs on a node.

`Executors` is what a driver talks to; `Provider` is what makes machines; `MemoryProvider` is a
scripted one for tests.  The contract between them stands in `provider`.

Every name is imported when it is first asked for: who only reads the contract, or checks a file,
must not wait for actors and threads.
"""

from typing import TYPE_CHECKING

from cluster_reconciler.executors.lazy_names import lazy_names

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

if TYPE_CHECKING:
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
else:  # A type checker would take every name for one of ours.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cluster_reconciler.executors.executor": ("Executors",),
            "cluster_reconciler.executors.ledger": ("RunningOperation", "SubmissionRefused"),
            "cluster_reconciler.executors.provider": (
                "ActorHandle",
                "Behaviour",
                "BootstrapContext",
                "LeaseState",
                "ListedLease",
                "Provider",
                "ProviderError",
                "Spawner",
                "Stream",
                "SwarmTicket",
            ),
            "cluster_reconciler.executors.providers.memory": ("MemoryProvider",),
            "cluster_reconciler.executors.secret_references": ("is_reference", "looks_like_secret"),
        },
    )

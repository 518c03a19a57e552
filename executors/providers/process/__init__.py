"""Real nodes on this machine: the embedded default provider (design §7).

Both names are imported when they are first asked for: who checks a file needs no processes.
"""

from typing import TYPE_CHECKING

from cluster_reconciler.executors.lazy_names import lazy_names

__all__ = ["Containment", "ProcessProvider"]

if TYPE_CHECKING:
    from cluster_reconciler.executors.providers.process.provider import ProcessProvider
    from cluster_reconciler.executors.providers.process.spawning import Containment
else:  # A type checker would take every name for one of ours.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cluster_reconciler.executors.providers.process.provider": ("ProcessProvider",),
            "cluster_reconciler.executors.providers.process.spawning": ("Containment",),
        },
    )

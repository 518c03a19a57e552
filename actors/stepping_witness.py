"""What the oracle is told of the machines that really exist: by the provider's own account.

A provider for tests gives an account of its own, as `MemoryProvider.world` does: the truth,
whatever its answers say.  Of one that gives none the listing is taken, asked anew each time: right
for a provider whose `list_leases` neither lags nor fails.
"""

from collections import Counter
from collections.abc import Set as AbstractSet
from typing import Protocol, runtime_checkable

from cluster_reconciler.executors import Provider
from cluster_reconciler.messages import AttemptIdentity, RunId


@runtime_checkable
class Witness(Protocol):
    """Knows what really exists."""

    @property
    def live(self) -> AbstractSet[AttemptIdentity]:
        """The attempts that have a machine now."""

    @property
    def doubles(self) -> AbstractSet[AttemptIdentity]:
        """The attempts that ever had two machines, or two live sessions, at once."""

    @property
    def changes(self) -> int:
        """Another number whenever `live` or `doubles` may be another one."""


class _Listing:
    """A provider's listing as its witness."""

    def __init__(self, provider: Provider, run_id: RunId) -> None:
        self._provider = provider
        self._run_id = run_id
        self._asked = 0
        self._doubles: set[AttemptIdentity] = set()

    @property
    def live(self) -> AbstractSet[AttemptIdentity]:
        return self._listed()

    @property
    def doubles(self) -> AbstractSet[AttemptIdentity]:
        self._listed()
        return frozenset(self._doubles)

    def _listed(self) -> AbstractSet[AttemptIdentity]:
        listed = Counter(entry.identity for entry in self._provider.list_leases(self._run_id))
        self._doubles |= {identity for identity, count in listed.items() if count > 1}
        return frozenset(listed)

    @property
    def changes(self) -> int:
        """Nobody says when the listing changes: it may be another one each time."""
        self._asked += 1
        return self._asked


def witness_of(provider: Provider, run_id: RunId) -> Witness:
    """The provider's own account, its attribute `world`; else its listing."""
    account = getattr(provider, "world", None)
    return account if isinstance(account, Witness) else _Listing(provider, run_id)

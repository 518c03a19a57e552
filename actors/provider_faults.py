"""What providers get wrong without failing: a lease that two attempts share, a lease under another
provider's name, a report that had to be dropped.

Each is told once as an event, and shown in the status: a dropped report while its attempt lives,
the others to the end.  It changes no state, and nothing is decided by it.  Safe for threads, but
for `look`, which is the driver's thread's.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from cluster_reconciler.actors.clock import Clock
from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.mailbox_words import one_line
from cluster_reconciler.decider import ManagedNode
from cluster_reconciler.messages import (
    AttemptIdentity,
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    NodeStage,
    ProviderKind,
    ProviderLeaseId,
)

_SHARERS_NAMED = 5
_NAME_LENGTH_MAX = 200
_TOLD_MAX = 32
"""So many shared leases are told of, and so many names; whoever has seen them needs no more."""

_LeaseName = tuple[ProviderKind, ProviderLeaseId]
"""By the provider that was asked, whatever it calls itself."""

_Nodes = Mapping[LogicalNodeId, ManagedNode]


class ProviderFaults:
    """Remembers, of each lease, who holds it; of each node, the last report that was dropped."""

    def __init__(self, clock: Clock, happened: Callable[[ClusterEvent], None]) -> None:
        self._clock = clock
        self._happened = happened
        self._lock = threading.Lock()
        self._held: dict[LogicalNodeId, _LeaseName] = {}
        self._holders: dict[_LeaseName, dict[LogicalNodeId, NodeAttemptId]] = {}
        self._shared: dict[_LeaseName, str] = {}
        """Kept when nobody shares any more: it is why nodes will have been lost meanwhile."""
        self._misnamed: dict[tuple[ProviderKind, str], str] = {}
        self._dropped: dict[LogicalNodeId, tuple[NodeAttemptId, str]] = {}

    def warnings(self, nodes: _Nodes) -> tuple[str, ...]:
        """What is to be shown now; `nodes`: those of the observed state."""
        with self._lock:
            dropped = [
                text
                for node_id, (attempt, text) in self._dropped.items()
                if (node := nodes.get(node_id)) is not None
                and node.attempt == attempt
                and node.record.stage is not NodeStage.DESTROYED
            ]
            return (*self._shared.values(), *self._misnamed.values(), *dropped)

    def look(self, nodes: _Nodes, changed: Iterable[LogicalNodeId]) -> None:
        """Look at the leases of the nodes that a message has changed."""
        for node_id in changed:
            node = nodes.get(node_id)
            if node is None:
                with self._lock:
                    self._dropped.pop(node_id, None)
            lease = node.record.lease if node is not None else None
            if node is None or lease is None:
                self._hold(node_id, None, None)
                continue
            kind = node.record.desired.provider
            self.named(kind, [lease.provider])
            # One that is to go may have lost its machine already, and its answer be on the way.
            active = node.intent is NodeIntent.ACTIVE
            self._hold(node_id, node.attempt, (kind, lease.lease_id) if active else None)

    def named(self, kind: ProviderKind, names: Collection[ProviderKind]) -> None:
        """The provider `kind` has given leases under these names."""
        for name in set(names) - {kind}:
            found = one_line(name, _NAME_LENGTH_MAX)
            text = (
                f"provider {kind} calls itself {found!r} in a LeaseFacts: expected "
                f"LeaseFacts({kind!r}, …), the name under which it was given"
            )
            with self._lock:
                told = (kind, found) in self._misnamed or len(self._misnamed) >= _TOLD_MAX
                if not told:
                    self._misnamed[kind, found] = text
            if not told:
                self._tell(text)

    def dropped(self, identity: AttemptIdentity, text: str) -> None:
        """What a provider said of the attempt was dropped, and why."""
        shown = f"{identity.node} (attempt {identity.attempt}): {text}"
        with self._lock:
            self._dropped[identity.node] = identity.attempt, shown
        self._tell(text, identity)

    def _hold(
        self, node_id: LogicalNodeId, attempt: NodeAttemptId | None, lease: _LeaseName | None
    ) -> None:
        before = self._held.pop(node_id, None)
        if before is not None:
            self._holders[before].pop(node_id)
            if not self._holders[before]:
                del self._holders[before]
        if lease is None or attempt is None:
            return
        self._held[node_id] = lease
        holders = self._holders.setdefault(lease, {})
        holders[node_id] = attempt
        if len(holders) > 1:
            self._share(lease, holders)

    def _share(self, lease: _LeaseName, holders: Mapping[LogicalNodeId, NodeAttemptId]) -> None:
        with self._lock:
            told = lease in self._shared
            if not told and len(self._shared) >= _TOLD_MAX:
                return
            text = self._shared[lease] = _sharing(lease, holders)
        if not told:
            self._tell(text)

    def _tell(self, text: str, about: AttemptIdentity | None = None) -> None:
        node, attempt = (about.node, about.attempt) if about is not None else (None, None)
        event = ClusterEvent(self._clock.now(), EventKind.WARNING, node, attempt, text)
        self._happened(event)


def _sharing(lease: _LeaseName, holders: Mapping[LogicalNodeId, NodeAttemptId]) -> str:
    in_order = sorted(holders.items(), key=lambda holder: holder[1])
    named = [f"{node} (attempt {attempt})" for node, attempt in in_order[:_SHARERS_NAMED]]
    if len(in_order) > len(named):
        named.append(f"{len(in_order) - len(named)} more")
    kind, lease_id = lease
    return (
        f"provider {kind} gave the same lease, {one_line(lease_id, _NAME_LENGTH_MAX)}, to "
        f"{', '.join(named[:-1])} and {named[-1]}: each attempt must have a lease of its own"
    )

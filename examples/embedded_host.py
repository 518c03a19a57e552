"""A host program that embeds the reconciler: its own actors are the nodes, its own membership
feeds the driver.

Run it: `python examples/embedded_host.py`.  It brings up three nodes, lets one crash, watches it
come back as a new attempt, scales down, and leaves nothing behind.

Three things are the host's own here: the provider (`ActorProvider`, which "rents" pykka actors),
the swarm source (`HostSwarm`, which passes on what the host's membership actor says), and the
program around them.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

import pykka
from loguru import logger

from cluster_reconciler.actors import Cluster, EventKind, RetryPolicy
from cluster_reconciler.executors.provider import BootstrapContext, ListedLease, SwarmTicket
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    BootstrapSessionSpec,
    ClusterShape,
    DestroyHandle,
    EndpointLookup,
    LeaseCreated,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeSpec,
    NodeGroupId,
    ProviderKind,
    ProviderLeaseId,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    SwactorId,
)

KIND = ProviderKind("actors")


class MembershipActor(pykka.ThreadingActor):
    """The host's own membership service: who is in, and who has just left."""

    use_daemon_thread = True

    def __init__(self, swarm: "HostSwarm") -> None:
        super().__init__()
        self._swarm = swarm

    def on_receive(self, message: object) -> None:
        """("joined", identity, session) or ("left", identity, reason)."""
        match message:
            case ("joined", AttemptIdentity() as identity, int(session)):
                self._swarm.member_joined(identity, BootstrapSessionId(session))
            case ("left", AttemptIdentity() as identity, str(reason)):
                self._swarm.member_left(identity, reason)


class HostSwarm:
    """A swarm source (see `actors.swarm.SwarmSource`) fed by the host's membership actor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: set[AttemptIdentity] = set()
        self._joined: Callable[[AttemptIdentity, BootstrapSessionId, SwactorId], None] | None = None
        self._lost: Callable[[AttemptIdentity, str], None] | None = None

    def start(
        self,
        joined: Callable[[AttemptIdentity, BootstrapSessionId, SwactorId], None],
        lost: Callable[[AttemptIdentity, str], None],
    ) -> None:
        """The runtime says where it wants to hear of joins and losses."""
        self._joined, self._lost = joined, lost

    def ticket(self, _identity: AttemptIdentity) -> SwarmTicket:
        """Nodes of this host need no address: they are actors in this process."""
        return SwarmTicket(address="in-process", token="none")  # noqa: S106 - nobody checks it here

    def retire(self, identity: AttemptIdentity) -> None:
        """The attempt is over."""
        with self._lock:
            self._alive.discard(identity)

    def is_alive(self, identity: AttemptIdentity) -> bool:
        """Whether the member is in."""
        with self._lock:
            return identity in self._alive

    def close(self, _timeout: timedelta) -> None:
        """Nothing to let go of."""

    def member_joined(self, identity: AttemptIdentity, session: BootstrapSessionId) -> None:
        """Called by the membership actor."""
        with self._lock:
            self._alive.add(identity)
        if self._joined is not None:
            self._joined(identity, session, SwactorId(f"actor-of-{identity.node}"))

    def member_left(self, identity: AttemptIdentity, reason: str) -> None:
        """Called by the membership actor."""
        with self._lock:
            self._alive.discard(identity)
        if self._lost is not None:
            self._lost(identity, reason)


class NodeActor(pykka.ThreadingActor):
    """A node of this host.  Told "crash", it raises; pykka then ends it."""

    use_daemon_thread = True

    def __init__(
        self,
        identity: AttemptIdentity,
        session: BootstrapSessionId,
        membership: pykka.ActorRef[MembershipActor],
    ) -> None:
        super().__init__()
        self._identity = identity
        self._session = session
        self._membership = membership

    def on_start(self) -> None:
        """Join."""
        self._membership.tell(("joined", self._identity, self._session))

    def on_receive(self, message: object) -> None:
        """Work, or crash."""
        if message == "crash":
            # A real host would not stop here; the exception is contained so that the example's
            # output stays readable.
            self._membership.tell(("left", self._identity, "the node actor crashed"))
            self.stop()


class ActorProvider:
    """A provider (see `executors.provider.Provider`) whose machines are actors of this process.

    Leases are named by the attempt they serve, so that a lost reply is found again."""

    kind = KIND
    settle_time = timedelta(0)

    def __init__(self, membership: pykka.ActorRef[MembershipActor]) -> None:
        self._membership = membership
        self._lock = threading.Lock()
        self._leases: dict[AttemptIdentity, LeaseFacts] = {}
        self._nodes: dict[AttemptIdentity, pykka.ActorRef[NodeActor]] = {}
        self._sessions: dict[AttemptIdentity, BootstrapSessionId] = {}

    def create_lease(self, identity: AttemptIdentity, _spec: LogicalNodeSpec) -> LeaseCreated:
        """One lease for an attempt, however often it is asked for."""
        with self._lock:
            name = ProviderLeaseId(f"{identity.node}/{identity.attempt}")
            lease = self._leases.setdefault(identity, LeaseFacts(KIND, name))
        return LeaseCreated(lease, LocalEndpoint("in-process"))

    def find_lease(self, identity: AttemptIdentity) -> LeaseCreated | None:
        """Looks, never makes."""
        with self._lock:
            lease = self._leases.get(identity)
        return None if lease is None else LeaseCreated(lease, LocalEndpoint("in-process"))

    def lookup_endpoint(self, _identity: AttemptIdentity, _lease: LeaseFacts) -> EndpointLookup:
        """Known from the start."""
        return EndpointLookup(LocalEndpoint("in-process"))

    def start_bootstrap(self, _session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        """Start the node's actor; it joins by itself."""
        node = NodeActor.start(context.identity, context.session_id, self._membership)
        with self._lock:
            self._nodes[context.identity] = node
            self._sessions[context.identity] = context.session_id

    def find_bootstrap(self, identity: AttemptIdentity) -> BootstrapSessionId | None:
        """Looks, never starts."""
        with self._lock:
            return self._sessions.get(identity)

    def accept_convergence(
        self, identity: AttemptIdentity, session_id: BootstrapSessionId, swactor_id: SwactorId
    ) -> None:
        """Nothing to close: the actor lives on."""

    def cancel_bootstrap(self, identity: AttemptIdentity, _session_id: BootstrapSessionId) -> None:
        """End the node's actor; one that is absent counts as ended."""
        with self._lock:
            node = self._nodes.pop(identity, None)
        if node is not None:
            node.stop(block=True, timeout=5)

    def destroy_lease(self, identity: AttemptIdentity, _handle: DestroyHandle) -> bool:
        """End the actor and the lease; always confirmed."""
        self.cancel_bootstrap(identity, BootstrapSessionId(0))
        with self._lock:
            self._leases.pop(identity, None)
            self._sessions.pop(identity, None)
        return True

    def list_leases(self, run_id: RunId) -> Sequence[ListedLease]:
        """Everything that lives in this process."""
        with self._lock:
            leases = list(self._leases.items())
        return [ListedLease(i, lease) for i, lease in leases if i.run_id == run_id]

    def close(self) -> None:
        """Nothing to let go of."""

    def crash(self, node: str) -> None:
        """For the demonstration: let one node die."""
        with self._lock:
            refs = [ref for identity, ref in self._nodes.items() if identity.node == node]
        for ref in refs:
            ref.tell("crash")


def shape(count: int, generation: int) -> ClusterShape:
    """`count` workers."""
    run = RunId(1)
    group = RunNodeGroupSpec(run, NodeGroupId("worker"), RoleId("worker"), count, KIND)
    return ClusterShape(run, generation, (group,))


def main() -> None:
    """The host program."""
    logger.remove()
    logger.add(sys.stderr, level="ERROR")  # The log is the host's to arrange.
    swarm = HostSwarm()
    membership = MembershipActor.start(swarm)
    provider = ActorProvider(membership)
    retry = RetryPolicy(initial_delay=timedelta(milliseconds=50))
    try:
        with Cluster.start(shape(3, 1), providers=[provider], retry=retry, swarm=swarm) as cluster:
            status = cluster.wait_converged(timeout=10)
            print(f"{status.counts.ready} nodes are ready")

            events = cluster.events()
            provider.crash("worker-1")
            back = next(e for e in events if e.kind is EventKind.READY and e.node == "worker-1")
            print(f"worker-1 crashed and is back as attempt {back.attempt}")

            cluster.update_desired(shape(2, 2))
            status = cluster.wait_converged(timeout=10)
            print(f"scaled down: {', '.join(node.node for node in status.nodes)}")
        print(f"drained: {len(provider.list_leases(RunId(1)))} leases left")
    finally:
        membership.stop()


if __name__ == "__main__":
    main()

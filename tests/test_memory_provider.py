"""The scripted provider: its faults are played as written, and its world tells the truth."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.executors import (
    BootstrapContext,
    MemoryProvider,
    Provider,
    ProviderError,
    SwarmTicket,
)
from cluster_reconciler.executors.providers.memory import CallKind
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootSpec,
    BootstrapClosed,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapSessionSpec,
    BootstrapStage,
    EndpointLookup,
    LeaseAbsent,
    LocalEndpoint,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    NodeGroupId,
    ProviderKind,
    RoleId,
    RunId,
    SessionObservation,
    SwactorId,
    SwactorJoined,
    SwarmJoinSpec,
)

RUN = RunId(7)
T0 = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def identity(node: str = "g-0", attempt: int = 1) -> AttemptIdentity:
    return AttemptIdentity(RUN, LogicalNodeId(node), NodeAttemptId(attempt))


def spec(node: str = "g-0") -> LogicalNodeSpec:
    group, role = NodeGroupId("g"), RoleId("worker")
    return LogicalNodeSpec(RUN, LogicalNodeId(node), group, role, ProviderKind("memory"))


class Machines:
    """A memory provider with a clock, and what its sessions reported."""

    def __init__(self) -> None:
        self.clock = ManualClock(T0)
        self.provider = MemoryProvider(now=self.clock.now)
        self.reports: list[SessionObservation] = []
        self.losses: list[str] = []

    def create(self, node: str = "g-0", attempt: int = 1) -> LocalEndpoint | None:
        created = self.provider.create_lease(identity(node, attempt), spec(node))
        endpoint = created.endpoint
        assert endpoint is None or isinstance(endpoint, LocalEndpoint)
        return endpoint

    def start(self, session: int = 1) -> None:
        [lease] = self.provider.world.leases_of(identity())
        self.provider.start_bootstrap(
            BootstrapSessionSpec(
                RUN,
                LogicalNodeId("g-0"),
                lease.facts.lease_id,
                lease.endpoint,
                BootSpec(),
                SwarmJoinSpec(),
            ),
            BootstrapContext(
                identity(),
                BootstrapSessionId(session),
                {},
                SwarmTicket("127.0.0.1:1", "token"),
                self.reports.append,
                self.losses.append,
                lambda *line: None,
            ),
        )

    def destroy(self) -> bool:
        [lease] = self.provider.world.leases_of(identity())
        return self.provider.destroy_lease(identity(), lease.facts.handle)


@pytest.fixture
def machines() -> Machines:
    return Machines()


def test_it_is_a_provider() -> None:
    provider: Provider = MemoryProvider("cloud", settle_time=SECOND)
    assert (provider.kind, provider.settle_time) == ("cloud", SECOND)


def test_by_default_everything_succeeds_at_once(machines: Machines) -> None:
    assert machines.create() == LocalEndpoint("memory/memory-7-g-0-1")
    machines.start()
    assert machines.reports == [
        BootstrapObserved(BootstrapSessionId(1), BootstrapStage.WAITING_FOR_SWACTOR_JOIN),
        SwactorJoined(BootstrapSessionId(1), SwactorId("swactor-g-0-1")),
    ]
    assert [lease.identity for lease in machines.provider.list_leases(RUN)] == [identity()]
    assert machines.destroy()
    assert machines.provider.world.live == frozenset()
    assert machines.provider.world.sessions == ()


def test_a_line_is_for_its_node_attempt_and_count(machines: Machines) -> None:
    create = machines.provider.script.create
    create("g-0", 2).refuse("not attempt 2")
    create("g-1", skip=1).refuse("not the second of g-1")
    create(when=lambda call: call.number == 3).refuse("no third")
    machines.create("g-0", 1)
    with pytest.raises(ProviderError, match="not attempt 2"):
        machines.create("g-0", 2)
    machines.create("g-0", 2)
    machines.create("g-1", 3)
    with pytest.raises(ProviderError, match="not the second of g-1"):
        machines.create("g-1", 4)
    machines.create("g-1", 3)
    with pytest.raises(ProviderError, match="no third"):
        machines.create("g-1", 3)


def test_a_second_machine_of_one_attempt_is_made_and_told(machines: Machines) -> None:
    machines.create()
    assert machines.provider.world.doubles == frozenset()
    machines.create()
    assert machines.provider.world.doubles == {identity()}
    assert machines.provider.world.creations("g-0") == 2


def test_an_idempotent_provider_makes_one(machines: Machines) -> None:
    machines.provider.idempotent = True
    assert machines.create() == machines.create()
    assert machines.provider.world.creations() == 1


def test_a_lost_reply_leaves_the_machine(machines: Machines) -> None:
    machines.provider.script.create().lose_reply()
    with pytest.raises(TimeoutError):
        machines.create()
    assert machines.provider.world.live == {identity()}


def test_capacity_and_throttling_are_refusals_that_end(machines: Machines) -> None:
    provider = machines.provider
    provider.capacity = 2
    machines.create("g-0", 1)
    machines.create("g-1", 2)
    with pytest.raises(ProviderError, match="no capacity"):
        machines.create("g-2", 3)
    provider.capacity = None
    provider.creates_per_second, provider.throttle_retry_after = 1, 3 * SECOND
    machines.create("g-2", 3)
    with pytest.raises(ProviderError, match="throttled") as throttled:
        machines.create("g-3", 4)
    assert throttled.value.error.retry_after == 3 * SECOND
    machines.clock.advance(SECOND)
    machines.create("g-3", 4)
    assert len(provider.world.live) == 4


def test_reads_lag_and_destroys_do_not(machines: Machines) -> None:
    machines.provider.read_lag = 3 * SECOND
    machines.create()
    [lease] = machines.provider.world.leases
    assert machines.provider.find_lease(identity()) is None
    assert machines.provider.list_leases(RUN) == ()
    assert machines.provider.lookup_endpoint(identity(), lease.facts) == LeaseAbsent()
    machines.clock.advance(3 * SECOND)
    assert machines.provider.find_lease(identity()) is not None
    assert len(machines.provider.list_leases(RUN)) == 1
    machines.create("g-1", 2)
    fresh = machines.provider.world.leases_of(identity("g-1", 2))[0]
    assert machines.provider.destroy_lease(identity("g-1", 2), fresh.facts.handle)
    assert machines.provider.world.live == {identity()}


def test_an_endpoint_may_come_after_some_looks_or_some_time(machines: Machines) -> None:
    machines.provider.script.lookup("g-0").not_yet(looks=2)
    assert machines.create() is None
    [lease] = machines.provider.world.leases
    looks = [machines.provider.lookup_endpoint(identity(), lease.facts) for _ in range(3)]
    assert looks == [EndpointLookup(), EndpointLookup(), EndpointLookup(lease.endpoint)]
    machines.provider.endpoint_delay = SECOND
    assert machines.create("g-1", 2) is None


def test_sessions_close_fail_or_never_join_as_scripted(machines: Machines) -> None:
    machines.create()
    start = machines.provider.script.start()
    start.never_join()
    start.close_early()
    start.fail_later("disk full")
    last = []
    for session in (1, 2, 3):
        machines.start(session)
        last.append(machines.reports[-1])
    waiting = BootstrapStage.WAITING_FOR_SWACTOR_JOIN
    assert last == [
        BootstrapObserved(BootstrapSessionId(1), waiting),
        BootstrapClosed(BootstrapSessionId(2)),
        BootstrapFailed(BootstrapSessionId(3), "disk full"),
    ]


def test_an_ended_session_is_found_and_told_again(machines: Machines) -> None:
    machines.create()
    machines.start()
    assert machines.provider.end_session(identity(), "out of memory")
    machines.reports.clear()
    assert machines.provider.find_bootstrap(identity()) == 1
    assert machines.reports == [BootstrapFailed(BootstrapSessionId(1), "out of memory")]
    assert not machines.provider.join(identity())


def test_destroys_lie_either_way(machines: Machines) -> None:
    machines.create()
    machines.provider.script.destroy().unfinished()
    machines.provider.script.destroy().lie()
    assert [machines.destroy(), machines.destroy()] == [False, True]
    assert machines.provider.world.live == {identity()}
    assert machines.destroy()


def test_lists_are_empty_or_raise_and_machines_go_behind_our_back(machines: Machines) -> None:
    machines.create()
    machines.start()
    machines.provider.script.list().empty()
    machines.provider.script.list().fail(ConnectionError("down"))
    assert machines.provider.list_leases(RUN) == ()
    with pytest.raises(ConnectionError):
        machines.provider.list_leases(RUN)
    assert machines.provider.lose(identity(), "preempted")
    assert machines.losses == ["preempted"]
    assert machines.provider.remove(identity())
    assert machines.provider.list_leases(RUN) == ()
    assert not machines.provider.remove(identity())


def test_a_hang_ends_when_released_by_clear_or_at_its_limit(machines: Machines) -> None:
    stuck = machines.provider.script.create().hang_after_effect()
    caller = threading.Thread(target=machines.create)
    caller.start()
    assert stuck.wait_until_reached()
    assert machines.provider.world.live == {identity()}
    machines.provider.script.clear()
    caller.join(20)
    assert not caller.is_alive()
    machines.provider.script.create().hang(limit=timedelta(0))
    with pytest.raises(TimeoutError, match="nobody released"):
        machines.create("g-1", 2)


def test_the_swarm_may_be_told_instead_of_the_session(machines: Machines) -> None:
    joined: list[tuple[AttemptIdentity, BootstrapSessionId, SwactorId]] = []
    machines.provider.joined = lambda *join: joined.append(join)
    machines.create()
    machines.start()
    assert joined == [(identity(), 1, "swactor-g-0-1")]


def test_history_tells_calls_with_their_arguments_and_times(machines: Machines) -> None:
    machines.create()
    machines.clock.advance(SECOND)
    machines.provider.find_lease(identity())
    [created, found] = machines.provider.world.calls()
    assert (created.kind, created.at, created.argument) == (CallKind.CREATE_LEASE, T0, spec())
    assert (found.kind, found.at, found.number) == (CallKind.FIND_LEASE, T0 + SECOND, 1)

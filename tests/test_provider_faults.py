"""What providers get wrong without failing is seen.

Leases that two attempts share, leases of another name, reports that are dropped.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import pytest
from loguru import logger

from cluster_reconciler.actors import Cluster, RetryPolicy
from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.provider_faults import ProviderFaults
from cluster_reconciler.actors.stepping_words import at, group, shape
from cluster_reconciler.executors.provider import BootstrapContext, ListedLease
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    BootstrapSessionSpec,
    LeaseCreated,
    LeaseFacts,
    LogicalNodeSpec,
    ProviderKind,
    ProviderLeaseId,
    RunId,
    SshEndpoint,
    SwactorId,
    SwactorJoined,
)

REPORTS = "BootstrapObserved, BootstrapFailed, SwactorJoined or BootstrapClosed"
QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0)
SHARED = (
    "provider memory gave the same lease, h0, to g-0 (attempt 1) and g-1 (attempt 2): "
    "each attempt must have a lease of its own"
)
MISNAMED = (
    "provider memory calls itself 'memry' in a LeaseFacts: expected LeaseFacts('memory', …), "
    "the name under which it was given"
)


class OneHost(MemoryProvider):
    """Answers every create with the same lease."""

    def create_lease(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> LeaseCreated:
        super().create_lease(identity, spec)
        facts = LeaseFacts(ProviderKind("memory"), ProviderLeaseId("h0"))
        return LeaseCreated(facts, SshEndpoint("h0"))

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        context.report(SwactorJoined(context.session_id, SwactorId("x")))


class Misspelt(MemoryProvider):
    """Gives its leases another provider's name."""

    def create_lease(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> LeaseCreated:
        made = super().create_lease(identity, spec)
        facts = LeaseFacts(ProviderKind("memry"), made.lease.lease_id)
        return LeaseCreated(facts, SshEndpoint("h0"))


class MisspeltListing(MemoryProvider):
    """The same, in its listing alone."""

    def list_leases(self, run_id: RunId) -> Sequence[ListedLease]:
        return [
            ListedLease(one.identity, LeaseFacts(ProviderKind("memry"), one.lease.lease_id))
            for one in super().list_leases(run_id)
        ]


class WrongSession(MemoryProvider):
    """Reports what cannot be taken, and nothing else."""

    def __init__(self, report: object) -> None:
        super().__init__(auto_join=False)
        self.nonsense = report

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        super().start_bootstrap(session, context)
        context.report(self.nonsense)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    logger.remove()
    sink = logger.add(
        lambda line: lines.append(str(line).strip()), format="{message}", level="WARNING"
    )
    yield lines
    logger.remove(sink)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        threading.Event().wait(0.01)


def test_two_attempts_that_share_a_lease_are_named_in_status_and_once_in_the_log(
    log: list[str],
) -> None:
    with Cluster.start(shape(group(count=2)), providers=[OneHost()], retry=QUICK) as cluster:
        status = cluster.wait_converged(timeout=10)
        cluster.status()

        assert (status.warnings, log) == ((SHARED,), [SHARED])
        cluster.update_desired(shape(group(count=1), generation=2))
        cluster.wait_converged(timeout=10)
        assert (cluster.status().warnings, log) == ((SHARED,), [SHARED])  # It has harmed others.


def test_a_lease_that_is_given_again_when_it_is_free_is_no_fault(log: list[str]) -> None:
    with Cluster.start(shape(group(count=1)), providers=[OneHost()], retry=QUICK) as cluster:
        cluster.wait_converged(timeout=10)
        for generation, count in ((2, 0), (3, 1)):
            cluster.update_desired(shape(group(count=count), generation=generation))
            cluster.wait_converged(timeout=10)
        assert (cluster.status().warnings, log) == ((), [])


@pytest.mark.parametrize(
    "provider", [Misspelt(), MisspeltListing()], ids=lambda p: type(p).__name__
)
def test_a_lease_of_another_provider_name_is_told_once(
    provider: MemoryProvider, log: list[str]
) -> None:
    with Cluster.start(
        shape(group(count=3)), providers=[provider], retry=QUICK, lease_check=0.02
    ) as cluster:
        assert cluster.wait_converged(timeout=10).counts.ready == 3
        until(lambda: bool(cluster.status().warnings))
        assert (cluster.status().warnings, log) == ((MISNAMED,), [MISNAMED])


def test_a_provider_with_ever_new_names_is_told_of_for_a_while_only() -> None:
    told: list[ClusterEvent] = []
    faults = ProviderFaults(ManualClock(at(0)), told.append)
    for number in range(100):
        faults.named(ProviderKind("memory"), [ProviderKind(f"memory-{number}")])
    assert (len(told), len(faults.warnings({}))) == (32, 32)


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (
            SwactorJoined(BootstrapSessionId(5), SwactorId("x")),
            "it names session 5, this is 1048577",
        ),
        (
            "joined",
            f"expected {REPORTS}: found str",
        ),
    ],
    ids=["wrong session", "no report"],
)
def test_a_report_that_is_dropped_stands_in_status_story_and_log(
    report: object, why: str, log: list[str]
) -> None:
    text = f"session 1048577: a bad report was dropped (1 so far): {why}"
    provider = WrongSession(report)
    with Cluster.start(shape(group(count=1)), providers=[provider], retry=QUICK) as cluster:
        until(lambda: bool(cluster.status().warnings))

        told = f"g-0 (attempt 1): {text}"
        assert (cluster.status().warnings, log) == ((told,), [told])
        assert sum(text in line for line in cluster.story("g-0")) == 1
        cluster.close()
        assert log == [told]

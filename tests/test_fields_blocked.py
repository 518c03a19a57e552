"""The field case of one slow provider beside one that refuses and one that is well (F19), on the
real runtime: every kind of call that a provider has blocks in turn, for longer than any test lives.

The same in virtual time, with many more nodes, is in `test_world_storms`.
"""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.runtime import Cluster
from cluster_reconciler.actors.status import ClusterStatus
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors.providers.memory import CallKind, MemoryProvider
from cluster_reconciler.executors.providers.memory_script import CallScript, Hang, Script
from cluster_reconciler.messages import ClusterShape, ProviderKind

pytestmark = pytest.mark.usefixtures("quiet_log")

QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0)
BLOCKS = timedelta(minutes=10)
SECONDS_MAX = 30
"""Of any wait: a machine that does much else is slow, and still far from ten minutes."""
PASS_S_MAX = 3.0
"""The same for one message and for how long it lies in the mailbox; alone it takes milliseconds."""
REFUSAL = "template t-1 is not valid"


def blocked(script: Script, kind: CallKind) -> Hang:
    """The calls of this kind block, and the nodes come as far as making one."""
    calls: dict[CallKind, Callable[..., CallScript]] = {
        CallKind.CREATE_LEASE: script.create, CallKind.FIND_LEASE: script.find,
        CallKind.LOOKUP_ENDPOINT: script.lookup, CallKind.START_BOOTSTRAP: script.start,
        CallKind.FIND_BOOTSTRAP: script.find_session, CallKind.ACCEPT_CONVERGENCE: script.accept,
        CallKind.CANCEL_BOOTSTRAP: script.cancel, CallKind.DESTROY_LEASE: script.destroy,
        CallKind.LIST_LEASES: script.list,
    }  # fmt: skip
    if kind is CallKind.FIND_LEASE:
        script.create().lose_reply(times=None)
    if kind is CallKind.FIND_BOOTSTRAP:
        script.start().lose_reply(times=None)
    if kind is CallKind.CANCEL_BOOTSTRAP:
        script.start().never_join(times=None)
    # The first listing is the start's own: without it no attempt id is safe, and nothing begins.
    first = 1 if kind is CallKind.LIST_LEASES else 0
    return calls[kind](skip=first).hang(times=None, limit=BLOCKS)


def wanted(slow: int, good: int, generation: int) -> ClusterShape:
    counts = {"slow": slow, "picky": 2, "good": good}
    groups = (replace(group(name, n), provider=ProviderKind(name)) for name, n in counts.items())
    return shape(*groups, generation=generation)


def ready(status: ClusterStatus, name: str) -> int:
    return sum(node.ready for node in status.nodes if node.group == name)


class Timed:
    """How long the driver was busy with a message at most, and how long one has waited for it."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = cluster
        self.longest_pass = self.longest_wait = 0.0
        self._handle: Callable[[object], None] = cluster._driver.handle
        monkeypatch.setattr(cluster._driver, "handle", self._timed)

    def _timed(self, message: object) -> None:
        record = self.cluster._actor.record
        assert record is not None
        self.longest_wait = max(self.longest_wait, record.latency)
        began = time.monotonic()
        self._handle(message)
        self.longest_pass = max(self.longest_pass, time.monotonic() - began)

    def wait_until(self, reached: Callable[[ClusterStatus], bool]) -> ClusterStatus:
        deadline = time.monotonic() + SECONDS_MAX
        while not reached(status := self.cluster.status()):
            assert time.monotonic() < deadline, status.counts
            time.sleep(0.01)
        return status


@pytest.mark.parametrize("kind", list(CallKind))
def test_f19_whichever_call_of_a_provider_blocks_nobody_else_waits(
    kind: CallKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given one provider that blocks in calls of one kind, one that refuses, and one that is well
    slow, picky, good = (MemoryProvider(ProviderKind(name)) for name in ("slow", "picky", "good"))
    hang = blocked(slow.script, kind)
    picky.script.create().refuse(REFUSAL, times=None)

    # when all are applied together
    cluster = Cluster.start(
        wanted(slow=3, good=5, generation=1),
        providers=[slow, picky, good],
        retry=QUICK,
        lease_check=timedelta(milliseconds=100),
    )
    timed = Timed(cluster, monkeypatch)
    try:
        # then the healthy group is ready, and the refusing one shows its provider's message
        first = timed.wait_until(lambda now: ready(now, "good") == 5)
        timed.wait_until(
            lambda now: all(n.last_error == REFUSAL for n in now.nodes if n.group == "picky")
        )

        # and when the blocked group goes and the healthy one grows, that one still grows
        timed.wait_until(lambda now: all(n.stage != "new" for n in now.nodes if n.group == "slow"))
        if kind is CallKind.CANCEL_BOOTSTRAP:
            timed.wait_until(lambda now: all(n.session_id for n in now.nodes if n.group == "slow"))
        elif kind is CallKind.DESTROY_LEASE:
            timed.wait_until(lambda now: ready(now, "slow") == 3)
        else:
            assert hang.wait_until_reached(timedelta(seconds=SECONDS_MAX))
        cluster.update_desired(wanted(slow=0, good=6, generation=2))
        second = timed.wait_until(lambda now: ready(now, "good") == 6)
        assert hang.wait_until_reached(timedelta(seconds=SECONDS_MAX))

        # and no pass, and no message in the mailbox, has waited for the blocked call
        kept = {n.node: n.lease_id for n in first.nodes if n.group == "good"}
        assert kept.items() <= {n.node: n.lease_id for n in second.nodes}.items()
        assert (timed.longest_pass < PASS_S_MAX, timed.longest_wait < PASS_S_MAX) == (True, True)
    finally:
        slow.script.clear()
        cluster.close(drain=False)

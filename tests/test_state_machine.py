"""The second generator: Hypothesis drives the whole stepped world against the one oracle.

The real driver and executors, several nodes and the memory provider; `check_world` is asked after
every step, and when the faults stop the cluster must become what was asked for last, fall silent,
and go without leaving anything.  It knows nothing of how anything works.

In the suite the examples are always the same.  For a long run with fresh ones:

    STATE_MACHINE_EXAMPLES=5000 .venv/bin/pytest -q tests/test_state_machine.py

A failure prints the shortest sequence of rules that shows it, as a program.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors import MemoryProvider
from cluster_reconciler.executors.providers.memory_script import CallScript, Script
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapStage,
    ClusterShape,
    Disposition,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    NodeLost,
    NodeObserved,
    OperationId,
    RunId,
)
from tests.decider_words import group, shape
from tests.planning_counts import Compared, compared_by, planning_of

pytestmark = pytest.mark.usefixtures("quiet_log")

EXAMPLES = int(os.environ.get("STATE_MACHINE_EXAMPLES", "0"))
NODES = st.sampled_from(("a-0", "a-1", "a-2", "b-0"))
RUN = RunId(7)
CALLS = st.sampled_from(
    ("create", "find", "lookup", "start", "find_session", "accept", "cancel", "destroy")
)
SETTLE_TIME = timedelta(seconds=5)
HOME_WITHIN = 1_500.0
"""Seconds of virtual time in which a world without faults must be home: an operation or a wait that
is out, a cleanup that is in its longest backoff, and a whole life after that."""

SOME_WHILE = timedelta(seconds=50)
STRANGER = BootstrapSessionId(999)

POLICY = RetryPolicy(
    initial_delay=timedelta(seconds=1),
    max_delay=timedelta(seconds=20),
    jitter=0.5,
    operation_timeout=timedelta(seconds=30),
    endpoint_probe_interval=timedelta(seconds=2),
    endpoint_timeout=timedelta(seconds=60),
    join_timeout=timedelta(seconds=60),
    cancel_timeout=timedelta(seconds=40),
    stable_after=timedelta(seconds=30),
    seed=5,
)

FAULTS: dict[str, Callable[[CallScript, int], object]] = {
    "refused": lambda calls, n: calls.refuse("sold out", times=n),
    "refused, come later": lambda calls, n: calls.refuse("busy", times=n, retry_after=SOME_WHILE),
    "ambiguous": lambda calls, n: calls.refuse("?", times=n, disposition=Disposition.AMBIGUOUS),
    "refused for good": lambda calls, n: calls.end_attempt(times=n),
    "fails before the effect": lambda calls, n: calls.fail(TimeoutError("no route"), times=n),
    "the reply is lost": lambda calls, n: calls.lose_reply(times=n),
    "the executor dies before": lambda calls, n: calls.fail(SystemExit("killed"), times=n),
    "the executor dies after": lambda calls, n: calls.fail_after_effect(SystemExit("killed")),
    "a wrong value": lambda calls, n: calls.answer("nonsense", times=n),
    "a wrong value, and done": lambda calls, n: calls.answer("nonsense", times=n, effect=True),
}
SPECIAL: dict[str, Callable[[Script, str], object]] = {
    "no endpoint yet": lambda script, node: script.lookup(node).not_yet(looks=3),
    "the session never joins": lambda script, node: script.start(node).never_join(),
    "the session closes early": lambda script, node: script.start(node).close_early(),
    "the session fails later": lambda script, node: script.start(node).fail_later(),
    "the destroy is unfinished": lambda script, node: script.destroy(node).unfinished(times=2),
}
MACHINE: dict[str, Callable[[MemoryProvider, AttemptIdentity], object]] = {
    "join": lambda provider, identity: provider.join(identity),
    "close": lambda provider, identity: provider.end_session(identity),
    "fail": lambda provider, identity: provider.end_session(identity, "a check failed"),
    "lose": lambda provider, identity: provider.lose(identity, "preempted"),
    "remove": lambda provider, identity: provider.remove(identity),
}
STALE: dict[str, Callable[[AttemptIdentity], object]] = {
    "a loss": lambda i: NodeObserved(i.node, i.attempt, NodeLost("stale")),
    "a closure": lambda i: NodeObserved(i.node, i.attempt, BootstrapClosed(STRANGER)),
    "a stage": lambda i: NodeObserved(
        i.node, i.attempt, BootstrapObserved(STRANGER, BootstrapStage.CANCELLED)
    ),
    "a result": lambda i: ExecutorResult(
        i.node, OperationId(i.attempt, 1_000), outcome=BootstrapCancelled()
    ),
}


class Cluster(RuleBasedStateMachine):
    """A cluster to which everything happens."""

    world: SteppingWorld
    compared: ClassVar[Compared] = Compared()
    """Plans with the full ones, in all clusters that have come home."""

    @initialize(count=st.integers(1, 3), limit=st.sampled_from((1, 2, 64)))
    def begin(self, count: int, limit: int) -> None:
        """A first shape, and nothing has run."""
        self.generation, self.limit = 1, limit
        self.world = SteppingWorld(
            self._shape(count, 1, "x"), retry=POLICY, settle_time=SETTLE_TIME
        )

    def _shape(self, first: int, second: int, command: str) -> ClusterShape:
        groups = (group("a", first, command=command), group("b", second))
        return shape(*groups, generation=self.generation, limits={"memory": self.limit})

    # -- the mailbox, the executors, time ---------------------------------------------------------

    @rule(messages=st.integers(1, 8))
    def the_driver_handles(self, messages: int) -> None:
        """Some messages only."""
        for _ in range(messages):
            self.world.cluster.step()

    @rule(messages=st.integers(1, 4))
    def executors_handle(self, messages: int) -> None:
        """Some operations are carried out, and their results not yet read."""
        for _ in range(messages):
            self.world.pump()

    @rule()
    def settle(self) -> None:
        """Until nothing is left to do now."""
        self.world.settle()

    @rule(seconds=st.sampled_from((0.5, 2, 7, 31, 61)))
    def time_goes(self, seconds: float) -> None:
        """Everything that is due meanwhile happens."""
        self.world.run(seconds)

    @rule(seconds=st.sampled_from((5, 31, 100)))
    def the_driver_sleeps(self, seconds: float) -> None:
        """Time goes, the driver handles what is due, and no executor gets to run."""
        self.world.cluster.advance(seconds)

    # -- what people do ---------------------------------------------------------------------------

    @rule(first=st.integers(0, 3), second=st.integers(0, 1), command=st.sampled_from("xy"))
    def desire(self, first: int, second: int, command: str) -> None:
        """Another shape, or the same one once more."""
        self.generation += 1
        self.world.cluster.update_desired(self._shape(first, second, command))

    @rule(limit=st.sampled_from((1, 2, 64)))
    def limit_is_changed(self, limit: int) -> None:
        """With the next shape."""
        self.limit = limit

    # -- what goes wrong --------------------------------------------------------------------------

    @rule(call=CALLS, node=NODES, fault=st.sampled_from(sorted(FAULTS)), times=st.integers(1, 3))
    def calls_go_wrong(self, call: str, node: str, fault: str, times: int) -> None:
        """The next ones of this kind."""
        calls = getattr(self.world.provider.script, call)
        FAULTS[fault](calls(node), times)

    @rule(node=NODES, fault=st.sampled_from(sorted(SPECIAL)))
    def something_special(self, node: str, fault: str) -> None:
        """What only one kind of call can do."""
        SPECIAL[fault](self.world.provider.script, node)

    @rule(call=CALLS, node=NODES, seconds=st.sampled_from((4, 40)), late=st.booleans())
    def a_call_is_slow(self, call: str, node: str, seconds: float, late: bool) -> None:
        """It takes so long, its effect at its end, or at its beginning."""
        calls = getattr(self.world.provider.script, call)
        self.world.slow(calls(node), seconds, late_reply=late)

    @rule(lag=st.sampled_from((0, 2, 5)), delay=st.sampled_from((0, 3, 70)), joins=st.booleans())
    def the_provider_is_slow(self, lag: float, delay: float, joins: bool) -> None:
        """In its reads (no more than it promised) and endpoints; sessions join or do not."""
        provider = self.world.provider
        provider.read_lag, provider.endpoint_delay = (
            timedelta(seconds=lag),
            timedelta(seconds=delay),
        )
        provider.auto_join = joins

    @rule(capacity=st.sampled_from((0, 1, 2, None)))
    def machines_are_scarce(self, capacity: int | None) -> None:
        """There are only so many at once."""
        self.world.provider.capacity = capacity

    @rule(at=st.integers(0, 7), end=st.sampled_from(("join", "close", "fail", "lose", "remove")))
    def a_machine_speaks_or_ends(self, at: int, end: str) -> None:
        """One of those that there are."""
        provider = self.world.provider
        machines = provider.world.leases
        if machines:
            MACHINE[end](provider, machines[at % len(machines)].identity)

    @rule(node=NODES, attempt=st.integers(1, 9), what=st.sampled_from(sorted(STALE)))
    def something_stale_is_told(self, node: str, attempt: int, what: str) -> None:
        """News and results of any attempt, of sessions and operations that nobody knows."""
        identity = AttemptIdentity(RUN, LogicalNodeId(node), NodeAttemptId(attempt))
        self.world.cluster.tell(STALE[what](identity))

    # -- what must hold ---------------------------------------------------------------------------

    @invariant()
    def all_is_known(self) -> None:
        """The one oracle."""
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        """The faults stop: it comes home, is silent, and goes without leaving anything."""
        if not hasattr(self, "world"):
            return
        try:
            self._come_home()
            Cluster.compared += compared_by(planning_of(self.world.cluster))
        finally:
            self.world.close()

    def _come_home(self) -> None:
        world, provider = self.world, self.world.provider
        provider.script.clear()
        provider.read_lag = provider.endpoint_delay = timedelta(0)
        provider.auto_join, provider.capacity = True, None
        world.run_until(self._is_home, within=HOME_WITHIN)
        effects = len(provider.world.calls())
        passes = world.cluster.passes
        world.run(3_600)
        assert (len(provider.world.calls()), world.cluster.passes) == (effects, passes)
        self.desire(0, 0, "x")
        world.run_until(self._is_home, within=HOME_WITHIN)
        assert (provider.world.size, world.executors.attempts) == (0, 0)

    def _is_home(self) -> bool:
        """Converged, as far as the driver knows and in truth: the swarm and the listings tell it
        of each machine that is not there, and of each session that never joined."""
        world = self.world
        for node_id, node in world.cluster.state.nodes.items():
            identity = world.identity(node_id)
            gone = identity not in world.live
            if node.record.ready and gone:
                world.lose(node_id, "missing from the listings")
            elif node.record.lease is not None and not node.record.ready:
                world.provider.join(identity)
        world.settle()
        known = {world.identity(node_id) for node_id in world.cluster.state.nodes}
        return world.cluster.converged and known == world.live


def _run(examples: int, **more: object) -> None:
    """So many lives; the same ones each time unless the environment asks for more."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        derandomize=not EXAMPLES,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        **more,  # type: ignore[arg-type]  # what is named below
    )
    run_state_machine_as_test(Cluster, settings=chosen)


@pytest.mark.timeout(0 if EXAMPLES else 120)
def test_whatever_happens_nothing_is_lost_or_doubled_and_all_ends_well() -> None:
    before, examples = Cluster.compared, EXAMPLES or 40
    _run(examples)

    print(f"in all: {Cluster.compared}")
    assert Cluster.compared.passes > before.passes + 10 * examples
    assert Cluster.compared.differences == before.differences


@pytest.mark.parametrize(
    ("target", "planted"),
    [
        ("executors.attempt.Attempt.withdraw", lambda *_what: True),
        ("decider.steps.holds_nothing", lambda _node: True),
        ("decider.results.progress_is_due", lambda _node, _now: True),
    ],
    ids=["what runs is withdrawn", "all is clean", "every wait is over"],
)
def test_a_planted_fault_is_found_by_the_machine_as_well(
    monkeypatch: pytest.MonkeyPatch, target: str, planted: Callable[..., object]
) -> None:
    monkeypatch.setattr(f"cluster_reconciler.{target}", planted)

    with pytest.raises(BaseException, match=r".+") as found:
        _run(200, phases=(Phase.generate,))

    assert isinstance(found.value, AssertionError), found.value

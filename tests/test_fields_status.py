"""The field case about what status says (F27): random lives, looked at after every message.

The oracle is the test's own: it follows the events, the provider's world and the shape, and never
the code that makes the status.  What a node waits for is compared with what is known to wake it.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.runtime import Cluster
from cluster_reconciler.actors.status import (
    UNANSWERED_MAX,
    ClusterStatus,
    NodeStatus,
    described,
)
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootSpec,
    BootstrapSessionId,
    ClusterShape,
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    NodeObserved,
    NodeStage,
    ProviderKind,
    ProviderLimits,
    SwactorId,
    SwactorJoined,
)

pytestmark = pytest.mark.usefixtures("quiet_log")

LIMIT = 3
Member = tuple[LogicalNodeId, NodeAttemptId]


class Swarm:
    """Who has joined, and whose membership has ended since; the driver hears of both by message."""

    def __init__(self) -> None:
        self.joined: set[Member] = set()
        self.left: set[Member] = set()

    def alive(self, *, heard: bool) -> set[Member]:
        """The members; `heard`: the driver has had every message, else who left may count still."""
        return self.joined - self.left if heard else self.joined


class Witness:
    """Follows the events of a life, and says what a status must say."""

    def __init__(self) -> None:
        self.seen = 0
        self.ready: set[LogicalNodeId] = set()
        self.failing: dict[LogicalNodeId, str] = {}
        """The reason of the latest failure, until the node is ready, or gone."""
        self.failed: dict[LogicalNodeId, str] = {}
        """The same as history: until the node is gone."""

    def follow(self, events: tuple[ClusterEvent, ...]) -> None:
        for event in events[self.seen :]:
            if event.node is not None:
                self._follow(event.kind, event.node, event.text)
        self.seen = len(events)

    def _follow(self, kind: EventKind, node: LogicalNodeId, text: str) -> None:
        match kind:
            case EventKind.READY:
                self.ready.add(node)
                self.failing.pop(node, None)
            case EventKind.FAILED | EventKind.RETRY:
                reason = text.removeprefix("failed: ").rpartition(", next try in ")[0]
                self.failing[node] = self.failed[node] = reason
                if kind is EventKind.FAILED:
                    self.ready.discard(node)
            case EventKind.DELETING:
                self.ready.discard(node)
            case EventKind.REAPED:
                for facts in (self.failing, self.failed):
                    facts.pop(node, None)
            case _:
                pass


def complaints(
    status: ClusterStatus,
    wanted: ClusterShape,
    witness: Witness,
    alive: set[LogicalNodeId],
    *,
    at_rest: bool,
) -> list[str]:
    """What the status says that is not so; nothing when it tells the truth.  `at_rest`: no pass is
    queued, so that only a deadline or a message wakes the driver."""
    found = []
    nodes = {node.node: node for node in status.nodes}
    names = {f"{g.group_id}-{i}" for g in wanted.groups for i in range(g.count)}
    if {name for name, node in nodes.items() if node.desired} != names:
        found.append(f"the wanted nodes are {sorted(names)}")
    counts = status.counts
    there = counts.ready + counts.starting + counts.replacing + counts.backing_off + counts.missing
    if (counts.wanted, there) != (len(names), len(names)):
        found.append(f"{counts} do not add up to {len(names)}")
    if counts.leaving != len(nodes) - len(names):
        found.append(f"{counts.leaving} are leaving, there are {len(nodes)} of {len(names)}")
    ready = {name for name, node in nodes.items() if node.ready}
    if ready != witness.ready:
        found.append(f"ready are {sorted(witness.ready)}, not {sorted(ready)}")
    if not ready <= alive:
        found.append(f"{sorted(ready - alive)} are ready, and no swarm members")
    if counts.ready != sum(name in names for name in ready):
        found.append(f"{counts.ready} are counted as ready, {sorted(ready)} are")
    for name, node in nodes.items():
        found += [f"{name}: {text}" for text in _of_one(name, node, status, witness, at_rest)]
    return found


def _of_one(
    name: LogicalNodeId, node: NodeStatus, status: ClusterStatus, witness: Witness, at_rest: bool
) -> list[str]:
    found = []
    current = witness.failing.get(name)
    if node.last_error != current:
        found.append(f"its error is {current!r}, not {node.last_error!r}")
    history = node.last_failure.reason if node.last_failure is not None else None
    if history != witness.failed.get(name):
        found.append(f"it failed with {witness.failed.get(name)!r}, not with {history!r}")
    if (node.last_error is None) != (node.consecutive_failures == 0):
        found.append(f"{node.consecutive_failures} failures, and the error {node.last_error!r}")
    if node.ready and not (node.stage is NodeStage.DORMANT and node.intent is NodeIntent.ACTIVE):
        found.append(f"ready at {node.stage}, {node.intent}")
    if node.waits_for is not None and not node.ready:
        if node.until is None:
            found.append(f"waits for {node.waits_for}, without an end")
        elif node.until <= status.at and node.waits_for != "the next pass":
            found.append(f"waits for {node.waits_for} until {node.until}, which is over")
        elif at_rest and (status.requeue_at is None or node.until < status.requeue_at):
            found.append(f"waits until {node.until}, nothing wakes before {status.requeue_at}")
    return found


def life(seed: int) -> Iterator[tuple[SteppingWorld, Swarm]]:
    """A world in which all goes wrong now and then, at each of its moments, and its swarm."""
    dice = random.Random(seed)
    retry = RetryPolicy(
        seed=seed,
        join_timeout=timedelta(seconds=40),
        endpoint_timeout=timedelta(seconds=30),
        operation_timeout=timedelta(seconds=25),
        stable_after=timedelta(seconds=5),
    )
    world = SteppingWorld(_wanted(dice, 1), retry=retry)
    swarm = Swarm()
    _listen(world, swarm)
    _script(world, dice)
    for generation in range(2, 50):
        for _ in range(dice.randint(4, 50)):
            _something_happens(world, dice, swarm)
            yield world, swarm
        if dice.random() < 0.3:
            world.cluster.update_desired(_wanted(dice, generation))
        world.cluster.advance(dice.choice((0.1, 1, 1, 3, 3, 20, 61)))
        yield world, swarm


def _wanted(dice: random.Random, generation: int) -> ClusterShape:
    boot = BootSpec(start_swactor_command=f"serve v{dice.randint(1, 2)}")
    groups = tuple(replace(group(name, dice.randint(0, 4)), boot=boot) for name in ("a", "b"))
    limits = {ProviderKind("memory"): ProviderLimits(LIMIT)}
    return replace(shape(*groups, generation=generation), limits=limits)


def _listen(world: SteppingWorld, swarm: Swarm) -> None:
    """Whoever joins tells the test first, and then the driver, as a swarm listener does."""

    def joined(who: AttemptIdentity, session: BootstrapSessionId, swactor: SwactorId) -> None:
        swarm.joined.add((who.node, who.attempt))
        news = NodeObserved(who.node, who.attempt, SwactorJoined(session, swactor))
        world.cluster.tell(news)

    world.provider.joined = joined


def _script(world: SteppingWorld, dice: random.Random) -> None:
    script, provider = world.provider.script, world.provider
    provider.endpoint_delay = timedelta(seconds=dice.choice((0, 0, 3)))
    provider.auto_join = dice.random() < 0.7
    for calls in (script.create, script.start, script.lookup, script.destroy, script.cancel):
        for node in ("a-0", "a-1", "b-0", "b-2"):
            match dice.randint(0, 5):
                case 0:
                    calls(node).refuse(f"refused {node}", times=dice.randint(1, 3))
                case 1:
                    calls(node).lose_reply()
                case 2:
                    calls(node).fail(ValueError(f"odd {node}"))
                case _:
                    pass


def _something_happens(world: SteppingWorld, dice: random.Random, swarm: Swarm) -> None:
    """One message of the driver or of an executor, or something that the world does."""
    choice = dice.random()
    if choice > 0.985 and world.ready:
        # A member goes that nobody bootstraps any more.
        node = LogicalNodeId(dice.choice(sorted(world.ready)))
        swarm.left.add((node, world.node(node).attempt))
        world.lose(node)
        return
    sessions = world.provider.world.sessions
    if choice < 0.80 or not sessions:
        if not world.pump() and world.cluster.queued:
            world.cluster.step()
        elif dice.random() < 0.5:
            world.cluster.drive()
        return
    victim = dice.choice(sessions).identity
    if choice < 0.85:
        world.provider.end_session(victim, dice.choice((None, "exit code 3")))
    elif choice < 0.92:
        world.provider.join(victim)
    else:
        told = world.provider.lose(victim, "preempted" if choice < 0.96 else "its power failed")
        if told:
            swarm.left.add((victim.node, victim.attempt))
        if choice >= 0.96:
            world.provider.remove(victim)


@pytest.mark.parametrize("seed", range(12))
def test_f27_status_tells_the_truth_after_every_message(seed: int) -> None:
    # given a life in which nodes come to every stage, with and without earlier failures
    witness, looks = Witness(), 0
    stages: Counter[NodeStage] = Counter()

    # when status is read at any moment of it
    for world, swarm in life(seed):
        witness.follow(world.cluster.events)
        status = world.cluster.status()
        looks += 1
        stages.update(node.stage for node in status.nodes)

        # then it says what is so
        state = world.cluster.state
        members = swarm.alive(heard=world.cluster._actor.depth == 0)
        alive = {n for n, node in state.nodes.items() if (n, node.attempt) in members}
        found = complaints(
            status, world.cluster.desired, witness, alive, at_rest=not world.cluster.queued
        )
        assert found == [], f"seed {seed}, look {looks}"
    assert looks > 100
    assert len(stages) >= 6


def test_f27_a_status_that_lies_is_seen() -> None:
    # given a node that fails, one that is ready, and their status
    world, witness = SteppingWorld(shape(group(count=2))), Witness()
    world.provider.script.create("g-1").refuse("sold out", times=None)
    world.settle()
    witness.follow(world.cluster.events)
    honest, wanted = world.cluster.status(), world.cluster.desired
    ready, failing = honest.nodes
    alive = {ready.node}

    def heard(status: ClusterStatus) -> int:
        return len(complaints(status, wanted, witness, alive, at_rest=True))

    # then each lie about them is found, and nothing in the truth
    assert heard(honest) == 0
    for lie in (
        replace(honest, counts=replace(honest.counts, ready=2)),
        replace(honest, counts=replace(honest.counts, leaving=1)),
        replace(honest, nodes=(ready,)),
        replace(honest, nodes=(replace(ready, ready=False), failing)),
        replace(honest, nodes=(replace(ready, last_error="sold out"), failing)),
        replace(honest, nodes=(ready, replace(failing, last_error=None))),
        replace(honest, nodes=(ready, replace(failing, last_failure=None))),
        replace(honest, nodes=(ready, replace(failing, until=None))),
        replace(honest, nodes=(ready, replace(failing, until=honest.at))),
        replace(honest, requeue_at=None),
    ):
        assert heard(lie) > 0, lie
    assert len(complaints(honest, wanted, witness, set(), at_rest=True)) == 1


def test_f27_a_provider_that_does_not_tell_details_holds_up_no_status() -> None:
    # given two providers, of which one never answers what is asked about its nodes
    never = threading.Event()

    class Silent(MemoryProvider):
        def describe_node(self, _identity: AttemptIdentity) -> dict[str, str]:
            never.wait()
            return {}

    class Talking(MemoryProvider):
        def describe_node(self, identity: AttemptIdentity) -> dict[str, str]:
            return {"name": str(identity)}

    providers = [Silent(ProviderKind("silent")), Talking(ProviderKind("talking"))]
    wanted = shape(
        replace(group("s"), provider=ProviderKind("silent")),
        replace(group("t"), provider=ProviderKind("talking")),
    )

    with Cluster.start(wanted, providers=providers) as cluster:
        cluster._wait_converged(1, 30)
        # when somebody who only looks asks, then no provider is asked
        quick = cluster.status(details=False)
        # and when details are asked for, what is not told in time is said to be missing
        nodes = described(quick, providers, timedelta(milliseconds=100))
        # and when they are asked for again and again, few threads are ever stuck in the answer
        again = [described(quick, providers, timedelta(milliseconds=10)) for _ in range(10)]
        stuck = [t for t in threading.enumerate() if t.name == "describe-7-silent"]
        never.set()

    assert [node.details for node in quick.nodes] == [{}, {}]
    assert [node.details for node in nodes] == [
        {"details": "not told within 0.1 s"},
        {"name": "run 7, node t-0, attempt 2"},
    ]
    assert len(stuck) == UNANSWERED_MAX
    assert [node.details for node in again[-1]] == [
        {"details": "not asked: 4 earlier questions are unanswered"},
        {"name": "run 7, node t-0, attempt 2"},
    ]

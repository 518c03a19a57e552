"""Seeded lives of a small cluster among every scripted fault (cases L35, L36, L37).

A trace is a list of moves drawn from one seed: time passes, the shape changes, calls fail in every
way, work is put off, sessions close and nodes are lost.  The world checks its invariants and its
leaks after every settling; here stand the case's own, and how it must end.

One seed again: `TRACE_SEED=17 .venv/bin/pytest tests/test_lifecycle_traces.py`
More of them:   `TRACE_SEEDS=5000 .venv/bin/pytest tests/test_lifecycle_traces.py`
"""

import os
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Literal

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.decider import ClusterState, ManagedNode, RetryPolicy
from cluster_reconciler.executors.providers.memory_script import CallScript
from cluster_reconciler.messages import ClusterShape, NodeIntent, NodeStage, RoleId

pytestmark = pytest.mark.usefixtures("quiet_log")

TICKS = (1, 10, 61, 130, 1200)
"""Seconds; the last is longer than every deadline, and than every slow call."""
MOVES = 30
ROUNDS_AFTER_FAULTS = 64
"""Moments at which something was due, each with its settling."""
SETTLE_MAX = 100
"""Rounds of one settling; the world itself refuses 1 000."""
Order = Literal["fifo", "lifo"]


def seeds() -> list[int]:
    one = os.environ.get("TRACE_SEED")
    return [int(one)] if one is not None else list(range(int(os.environ.get("TRACE_SEEDS", "60"))))


def replay(seed: int) -> str:
    return f"replay: TRACE_SEED={seed} .venv/bin/pytest tests/test_lifecycle_traces.py"


class Life:
    """One trace: the world, and what happens to it."""

    def __init__(self, seed: int, order: Order = "fifo", first_count: int | None = None) -> None:
        self.dice = random.Random(seed)
        self.generation = 1
        retry = RetryPolicy(
            jitter=self.dice.choice((0.0, 0.5)),
            endpoint_probe_interval=timedelta(seconds=self.dice.choice((2, 20, 20))),
            seed=seed,
        )
        settle_time = timedelta(seconds=self.dice.choice((0, 0, 5, 30)))
        count = self.dice.randint(0, 3) if first_count is None else first_count
        self.world = SteppingWorld(
            self.drawn_shape(count), retry=retry, settle_time=settle_time, order=order
        )
        self.aims: tuple[str | None, ...] = (None, "g-0", "g-1", "g-2")
        """Which node a fault is about; None: whoever calls first."""
        self.moves: list[str] = []

    def drawn_shape(self, count: int) -> ClusterShape:
        role = RoleId(self.dice.choice(("worker", "trainer")))
        return shape(replace(group(count=count), role=role), generation=self.generation)

    # -- moves ------------------------------------------------------------------------------------

    def move(self) -> None:
        made: Callable[[], str] = self.dice.choice(
            (
                *(self.tick,) * 4,
                *(self.fault,) * 5,
                self.reshape,
                self.reshape,
                self.provider_mood,
                self.put_off,
                self.end_session,
                self.join,
                self.lose,
                self.slow,
                self.remove,
            )
        )
        self.moves.append(made())
        self.check()

    def tick(self) -> str:
        seconds = self.dice.choice(TICKS)
        self.world.run(seconds)
        return f"tick {seconds}"

    def reshape(self) -> str:
        self.generation += 1
        count = self.dice.randint(0, 3)
        self.world.cluster.update_desired(self.drawn_shape(count))
        if self.dice.random() < 0.7:
            self.world.settle()
        return f"shape of {count}"

    def put_off(self) -> str:
        """The driver goes on, the executors' work waits."""
        self.world.cluster.drive()
        self.world.cluster.advance(self.dice.choice(TICKS))
        for _ in range(self.dice.randint(0, 3)):
            self.world.pump()
        self.world.settle()
        return "work put off"

    def calls(self) -> CallScript:
        script = self.world.provider.script
        kind = self.dice.choice(
            (
                *(script.create, script.start) * 3,
                script.find,
                script.lookup,
                script.find_session,
                script.accept,
                script.cancel,
                script.destroy,
            )
        )
        return kind(self.dice.choice(self.aims), skip=self.dice.randint(0, 1))

    def fault(self) -> str:
        calls, times = self.calls(), self.dice.randint(1, 3)
        name = self.dice.choice(
            ("definite", "ambiguous", "exception", "killed", "later", "ends", "odd", "session")
        )
        match name:
            case "definite":
                calls.refuse("try later", times=times)
            case "ambiguous":
                calls.lose_reply(times=times)
            case "exception":
                calls.fail(ConnectionError("no route"), times=times)
            case "killed":
                calls.fail_after_effect(SystemExit("killed"), times=times)
            case "later":
                calls.refuse("throttled", times=times, retry_after=timedelta(seconds=90))
            case "ends":
                calls.end_attempt(times=times)
            case "odd":
                calls.answer(object(), times=times, effect=True)
            case _:
                name = self.session_fault(times)
        return f"{name} x{times}"

    def session_fault(self, times: int) -> str:
        script, node = self.world.provider.script, self.dice.choice(self.aims)
        name = self.dice.choice(("never", "closes", "fails", "not yet", "gone", "unfinished"))
        match name:
            case "never":
                script.start(node).never_join(times=times)
            case "closes":
                script.start(node).close_early(times=times)
            case "fails":
                script.start(node).fail_later(times=times)
            case "not yet":
                script.lookup(node).not_yet(looks=times)
            case "gone":
                script.lookup(node).gone(times=times)
            case _:
                script.destroy(node).unfinished(times=times)
        return name

    def slow(self) -> str:
        seconds = self.dice.choice((5, 119, 120, 200, 1000))
        self.world.slow(self.calls(), seconds, late_reply=self.dice.random() < 0.5)
        return f"slow {seconds}"

    def provider_mood(self) -> str:
        provider = self.world.provider
        settle = provider.settle_time.total_seconds()
        provider.read_lag = timedelta(seconds=self.dice.choice((0.0, settle / 2, settle * 0.9)))
        provider.endpoint_delay = timedelta(seconds=self.dice.choice((0, 0, 3, 700)))
        provider.capacity = self.dice.choice((None, None, 0, 1, 2))
        return "another mood"

    def some_node(self) -> str | None:
        nodes = sorted(self.world.cluster.state.nodes)
        return self.dice.choice(nodes) if nodes else None

    def end_session(self) -> str:
        if (node := self.some_node()) is not None:
            failure = self.dice.choice((None, "exit code 1"))
            self.world.provider.end_session(self.world.identity(node), failure)
            self.world.settle()
        return f"session ends: {node}"

    def join(self) -> str:
        if (node := self.some_node()) is not None:
            self.world.provider.join(self.world.identity(node))
            self.world.settle()
        return f"joins: {node}"

    def lose(self) -> str:
        if (node := self.some_node()) is not None:
            self.world.lose(node)
            self.world.settle()
        return f"lost: {node}"

    def remove(self) -> str:
        """Somebody deletes the machine by hand; its swarm member goes with it."""
        if (node := self.some_node()) is not None:
            self.world.provider.remove(self.world.identity(node))
            self.world.lose(node)
            self.world.settle()
        return f"removed: {node}"

    # -- checks -----------------------------------------------------------------------------------

    def check(self) -> None:
        state = self.world.cluster.state
        attempts = [node.attempt for node in state.nodes.values()]
        assert len(set(attempts)) == len(attempts)
        assert all(attempt < state.next_attempt_id for attempt in attempts)
        for node in state.nodes.values():
            check_node(self.world, node)

    def live(self) -> None:
        for _ in range(MOVES):
            self.move()

    def faults_end(self) -> None:
        provider = self.world.provider
        provider.script.clear()
        provider.read_lag = provider.endpoint_delay = timedelta(0)
        provider.capacity = None
        self.world.close()
        for session in provider.world.sessions:  # One that was to be silent for ever.
            provider.join(session.identity)


def check_node(world: SteppingWorld, node: ManagedNode) -> None:
    """What L35 lists, beside the invariants that the world checks itself."""
    record, pending = node.record, node.pending
    if pending is not None:
        assert pending.id.attempt == node.attempt
        assert pending.id.sequence < node.next_operation_sequence
    if record.stage is NodeStage.DESTROYED:
        assert (record.lease, record.connection, node.active_bootstrap, pending) == (None,) * 4
    if node.intent is NodeIntent.DELETING:
        assert not record.ready
    if node.active_bootstrap is not None:
        assert record.bootstrap is not None
        assert record.bootstrap.session_id == node.active_bootstrap
    if record.lease is not None:
        own = f"memory-7-{record.logical_node_id}-{node.attempt}"
        assert record.lease.lease_id == own
    if record.ready:
        desired = world.cluster.desired.expand().get(record.logical_node_id)
        assert None not in (record.lease, record.connection, record.swactor)
        if node.intent is NodeIntent.ACTIVE and not world.cluster.queued:
            assert record.desired == desired


@pytest.mark.parametrize("seed", seeds()[:20])
def test_l35_whatever_happens_the_invariants_hold_and_nothing_leaks(seed: int) -> None:
    life = Life(seed)
    try:
        life.live()
        life.live()
    except BaseException as failure:
        failure.add_note(f"{replay(seed)}\nmoves: {life.moves}")
        raise
    finally:
        life.world.close()


@pytest.mark.parametrize("seed", seeds())
def test_l37_once_the_faults_end_the_cluster_is_soon_what_was_wanted(seed: int) -> None:
    life = Life(seed)
    try:
        life.live()
        life.faults_end()
        known = len(life.world.cluster.state.nodes)
        before = life.world.cluster.state.next_attempt_id
        rounds = 0
        life.world.settle()
        while not life.world.cluster.converged:
            rounds += 1
            assert rounds <= ROUNDS_AFTER_FAULTS, "does not converge"
            assert life.world.rounds <= SETTLE_MAX, "does not settle"
            assert life.world.run_to_next(), "waits for nothing"
            life.check()
        wanted = len(life.world.cluster.desired.expand())
        made = life.world.cluster.state.next_attempt_id - before
        assert made <= 2 * max(known, wanted) + 2, f"{made} new attempts"
        assert life.world.live == {life.world.identity(node) for node in life.world.ready}
        assert life.world.executors.attempts == wanted
    except BaseException as failure:
        failure.add_note(f"{replay(seed)}\nmoves: {life.moves}")
        raise
    finally:
        life.world.close()


@pytest.mark.parametrize("seed", seeds()[:20])
def test_l36_the_same_trace_twice_gives_equal_states_and_calls(seed: int) -> None:
    first, second = Life(seed), Life(seed)
    for life in (first, second):
        life.live()
        life.world.close()
        life.world.settle()
    assert first.moves == second.moves, replay(seed)
    assert first.world.cluster.state == second.world.cluster.state, replay(seed)
    assert first.world.provider.world.calls() == second.world.provider.world.calls(), replay(seed)
    assert first.world.cluster.events == second.world.cluster.events, replay(seed)


def one_round(seed: int, order: Order) -> ClusterState:
    """Some moves, the same for both orders; then one round of several effects in that order."""
    life = Life(seed, order, first_count=3)
    life.aims = ("g-0", "g-1", "g-2")  # Whoever calls first is another one in another order.
    for _ in range(life.dice.randint(0, 4)):
        life.fault()
    for _ in range(life.dice.randint(1, 6)):
        life.world.round()
        life.world.cluster.drive()
    life.world.close()
    return life.world.cluster.state


@pytest.mark.parametrize("seed", seeds())
def test_l36_one_round_carried_out_first_to_last_or_last_to_first_ends_in_the_same_state(
    seed: int,
) -> None:
    assert one_round(seed, "fifo") == one_round(seed, "lifo"), replay(seed)

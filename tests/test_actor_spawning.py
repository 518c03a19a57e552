"""Spawned actors, threaded and stepped, and how a whole system ends."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from cluster_reconciler.actors.base import ActorStartFailed, ActorSystem, ContainedActor
from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.spawning import SteppingSpawner, ThreadSpawner

START = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = timedelta(seconds=10)
PATIENCE_S = 10.0


class Notes:
    """A behaviour that writes down what it is told, into a list that others share."""

    def __init__(self, name: str, into: list[str]) -> None:
        self.name = name
        self.into = into
        self.done = threading.Event()

    def handle(self, message: object) -> None:
        self.into.append(f"{self.name}:{message}")
        if message == "fail":
            raise ValueError("contained")
        if message == "exit":
            raise SystemExit(1)
        if message == "recurse":
            self.handle_deeper()
        if message == "done":
            self.done.set()

    def handle_deeper(self) -> None:
        class Endless:
            def __getattr__(self, name: str) -> object:
                return getattr(self, name + "x")

        Endless().anything  # noqa: B018  reading it is the point


class Blocked:
    """A behaviour that is stuck until it is released."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def handle(self, message: object) -> None:
        self.entered.set()
        self.release.wait(PATIENCE_S)


def nobody(reason: str) -> None:
    raise AssertionError(f"nobody should have died: {reason}")


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    system = ActorSystem("test", ManualClock(START))
    yield system
    assert system.stop(PATIENCE) == ()


def test_a_spawned_thread_contains_failures_and_ends_by_stop(system: ActorSystem) -> None:
    before = threading.active_count()
    said: list[str] = []
    notes = Notes("a", said)
    handle = ThreadSpawner(system).spawn("a", notes, nobody)

    for message in ("fail", "recurse", "done"):
        handle.tell(message)

    assert notes.done.wait(PATIENCE_S)
    handle.stop()
    assert system.stop(PATIENCE) == ()
    assert said == ["a:fail", "a:recurse", "a:done"]
    assert threading.active_count() == before


def test_the_death_of_a_spawned_thread_is_told(system: ActorSystem) -> None:
    told, deaths = threading.Event(), list[str]()

    def died(reason: str) -> None:
        deaths.append(reason)
        told.set()

    handle = ThreadSpawner(system).spawn("a", Notes("a", []), died)
    handle.tell("exit")

    assert told.wait(PATIENCE_S)
    assert deaths == ["actor a died: SystemExit(1) in handling str"]
    handle.tell("nobody hears this, nobody raises")


def test_a_taken_name_gets_a_number_and_the_stack_size_is_put_back(system: ActorSystem) -> None:
    spawner, before = ThreadSpawner(system), threading.stack_size()

    for _ in range(3):
        spawner.spawn("worker-0", Notes("a", []), nobody)

    assert system.names() == ("worker-0", "worker-0~2", "worker-0~3")
    assert threading.stack_size() == before


def test_threads_return_to_their_level(system: ActorSystem) -> None:
    spawner, before = ThreadSpawner(system), threading.active_count()

    for _ in range(300):
        notes = Notes("a", [])
        handle = spawner.spawn("a", notes, nobody)
        handle.tell("done")
        handle.stop()
        assert notes.done.wait(PATIENCE_S)

    assert system.stop(PATIENCE) == ()
    assert threading.active_count() == before
    assert len(spawner.ring.entries()) == 300


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fifo", ["a:1", "b:2", "a:3", "b:4"]),
        # The actor that was told something last goes first, with its own oldest message.
        ("lifo", ["b:2", "a:1", "b:4", "a:3"]),
    ],
)
def test_stepped_actors_take_turns_in_a_fixed_order(
    system: ActorSystem, order: str, expected: list[str]
) -> None:
    said: list[str] = []
    spawner = SteppingSpawner(system, "lifo" if order == "lifo" else "fifo")
    a = spawner.spawn("a", Notes("a", said), nobody)
    b = spawner.spawn("b", Notes("b", said), nobody)
    for handle, message in ((a, 1), (b, 2), (a, 3), (b, 4)):
        handle.tell(message)
    assert (spawner.queued, said) == (4, [])

    steps = 0
    while spawner.pump():
        steps += 1
        assert len(said) == steps

    assert said == expected
    assert not spawner.pump()


def test_stepped_actors_fail_die_and_stop_as_threads_do(system: ActorSystem) -> None:
    said, deaths = list[str](), list[str]()
    spawner = SteppingSpawner(system)
    dying = spawner.spawn("dying", Notes("dying", said), deaths.append)
    stopping = spawner.spawn("stopping", Notes("stopping", said), nobody)
    for message in ("fail", "exit", "never"):
        dying.tell(message)
    stopping.tell("last")
    stopping.stop()
    stopping.tell("never")

    while spawner.pump():
        pass

    assert said == ["dying:fail", "dying:exit", "stopping:last"]
    assert deaths == ["actor dying died: SystemExit(1) in handling str"]
    assert system.undelivered == 2
    assert system.names() == ()


def test_a_system_stops_the_latest_first_and_names_what_hangs() -> None:
    # Given a driver, then executors on threads, the last of which hangs in a call
    system, ended = ActorSystem("test", ManualClock(START)), list[str]()

    class Ends(ContainedActor):
        def on_stop(self) -> None:
            ended.append(self.name)

    for name in ("driver", "executor"):
        Ends(system, name).start_contained()
    stuck = Blocked()
    ThreadSpawner(system).spawn("stuck", stuck, nobody).tell("go")
    assert stuck.entered.wait(PATIENCE_S)

    # When it is stopped with little time
    left = system.stop(timedelta(milliseconds=200))

    # Then the others have ended in order, and the one that hangs is named
    assert left == ("stuck",)
    assert ended == ["executor", "driver"]
    # ... and nothing new starts
    with pytest.raises(ActorStartFailed, match="test is stopping"):
        ThreadSpawner(system).spawn("late", Notes("late", []), nobody)
    stuck.release.set()
    assert system.stop(PATIENCE) == ()


def test_two_live_actors_of_one_name_are_refused(system: ActorSystem) -> None:
    ContainedActor(system, "driver")

    with pytest.raises(ActorStartFailed, match="already has a live actor of that name"):
        ContainedActor(system, "driver")


def test_sequence_numbers_grow_over_all_actors(system: ActorSystem) -> None:
    spawner = ThreadSpawner(system)
    behaviours = [Notes(str(number), []) for number in range(4)]
    for number, notes in enumerate(behaviours):
        handle = spawner.spawn(str(number), notes, nobody)
        for message in ("x", "x", "done"):
            handle.tell(message)

    assert all(notes.done.wait(PATIENCE_S) for notes in behaviours)

    by_actor: dict[str, list[int]] = {}
    for entry in spawner.ring.entries():
        assert entry.record is not None
        by_actor.setdefault(entry.record.actor, []).append(entry.sequence)
    assert sorted(n for numbers in by_actor.values() for n in numbers) == list(range(1, 13))
    assert all(a < b for numbers in by_actor.values() for a, b in pairwise(numbers))

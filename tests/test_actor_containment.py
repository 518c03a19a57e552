"""What an actor outlives, what ends it, and who is told: by hand and on threads, with one code."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pykka
import pytest
from loguru import logger

from cluster_reconciler.actors.base import ActorStartFailed, ActorSystem, ContainedActor
from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId, NodeLost, NodeObserved

START = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = timedelta(seconds=10)
PATIENCE_S = 10.0
SECRET = "hunter2-of-the-environment"


class Recorder(ContainedActor):
    """Calls what it is told; remembers everything else."""

    def __init__(self, system: ActorSystem, name: str, *, high_water: int = 1000) -> None:
        super().__init__(system, name, high_water=high_water)
        self.seen: list[object] = []
        self.failures: list[tuple[object, Exception]] = []
        self.stopped_cleanly = False

    def on_receive(self, message: object) -> object:
        if callable(message):
            return message()
        self.seen.append(message)
        return ("seen", message)

    def on_stop(self) -> None:
        self.stopped_cleanly = True

    def on_contained(self, message: object, error: Exception) -> None:
        self.failures.append((message, error))
        raise RuntimeError("a hook that fails itself")


class BadStart(ContainedActor):
    def on_start(self) -> None:
        raise OSError("no disk")


class SlowStart(ContainedActor):
    def __init__(self, system: ActorSystem, name: str, release: threading.Event) -> None:
        super().__init__(system, name)
        self.release = release

    def on_start(self) -> None:
        self.release.wait(PATIENCE_S)


@pytest.fixture
def log() -> Iterator[list[str]]:
    """The log as text, as loguru's default sink would write it, variable values included."""
    lines: list[str] = []
    sink = logger.add(lines.append, level="TRACE", diagnose=True, backtrace=True)
    yield lines
    logger.remove(sink)


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    system = ActorSystem("test", ManualClock(START))
    yield system
    assert system.stop(PATIENCE) == ()
    assert system.names() == ()


def fail() -> object:
    resolved = {"KEY": SECRET}
    raise ValueError(f"{len(resolved)} bad message")


def leave() -> object:
    raise SystemExit(3)


def test_a_failing_message_is_contained_and_logged_without_variable_values(
    system: ActorSystem, log: list[str]
) -> None:
    actor = Recorder(system, "driver")
    for message in (fail, "after"):
        actor.tell(message)

    assert [actor.pump_one(), actor.pump_one(), actor.pump_one()] == [True, True, False]

    assert actor.seen == ["after"]
    assert [(message, str(error)) for message, error in actor.failures] == [(fail, "1 bad message")]
    written = "".join(log)
    assert "actor driver: handling function failed, it goes on" in written
    assert "ValueError: 1 bad message" in written
    assert "on_contained failed" in written
    assert SECRET not in written
    assert "failed: ValueError('1 bad message')" in actor.ring.story()[1]


@pytest.mark.parametrize("threaded", [False, True])
def test_a_base_exception_ends_this_actor_alone_and_its_watchers_are_told(
    system: ActorSystem, threaded: bool
) -> None:
    # Given two actors, one with two watchers, of which the first fails itself
    dying, other = Recorder(system, "dying"), Recorder(system, "other")
    deaths: list[str] = []
    dying.watch(lambda _reason: [].remove(1))  # type: ignore[arg-type]  # it raises
    dying.watch(deaths.append)
    if threaded:
        dying.start_contained()
        other.start_contained()

    # When a message raises SystemExit with others behind it, one of them a question
    dying.tell(leave)
    dying.tell("behind")
    answer = dying.ask("behind too")
    assert dying.join(PATIENCE)

    # Then it is dead, the watcher knows why, nothing behind is handled and the asker is told
    reason = "actor dying died: SystemExit(3) in handling function"
    assert deaths == [reason]
    assert not dying.is_alive()
    assert dying.seen == []
    assert not dying.stopped_cleanly
    assert system.undelivered == 2
    with pytest.raises(pykka.ActorDeadError, match="did not answer: SystemExit"):
        answer.get(timeout=PATIENCE_S)
    # ... and one who watches later is told at once
    dying.watch(deaths.append)
    assert deaths == [reason, reason]
    # ... and the other one goes on
    question = other.ask("alive?")
    if not threaded:
        assert other.pump_one()
    assert question.get(timeout=PATIENCE_S) == ("seen", "alive?")


def test_an_interrupt_while_pumping_by_hand_reaches_the_hand(system: ActorSystem) -> None:
    actor = Recorder(system, "driver")

    def interrupted() -> object:
        raise KeyboardInterrupt

    actor.tell(interrupted)

    with pytest.raises(KeyboardInterrupt):
        actor.pump_one()
    assert actor.ended.is_set()


def test_an_exception_in_answering_is_the_askers_alone(system: ActorSystem) -> None:
    actor = Recorder(system, "driver")
    actor.start_contained()

    with pytest.raises(ValueError, match="bad message"):
        actor.ask(fail).get(timeout=PATIENCE_S)

    assert actor.ask("next").get(timeout=PATIENCE_S) == ("seen", "next")
    assert (actor.failures, actor.contained) == ([], 0)


def test_a_death_while_starting_is_raised_to_the_starter(system: ActorSystem) -> None:
    actor, deaths = BadStart(system, "bad"), list[str]()
    actor.watch(deaths.append)

    with pytest.raises(ActorStartFailed, match=r"actor bad died while starting: OSError.*no disk"):
        actor.start_contained()

    assert actor.join(PATIENCE)
    assert deaths == ["actor bad died: its start failed: OSError('no disk')"]
    assert system.find("bad") is None


def test_a_start_that_takes_too_long_is_raised_and_ends_when_it_can(system: ActorSystem) -> None:
    release = threading.Event()
    actor = SlowStart(system, "slow", release)

    with pytest.raises(ActorStartFailed, match=r"on_start has not returned within 0\.01 s"):
        actor.start_contained(timedelta(milliseconds=10))

    release.set()
    assert actor.join(PATIENCE)


def test_stop_lets_everything_told_before_be_handled(system: ActorSystem, log: list[str]) -> None:
    actor, deaths = Recorder(system, "driver"), list[str]()
    actor.watch(deaths.append)
    actor.tell("before")
    actor.stop()
    actor.tell("behind the stop")

    assert actor.join(PATIENCE)
    actor.tell("after the end")

    assert (actor.seen, actor.stopped_cleanly, deaths) == (["before"], True, [])
    assert system.undelivered == 2
    assert "str was told to actor driver, which has ended: nobody handles it" in "".join(log)


def test_a_question_after_the_end_is_answered_with_the_end(system: ActorSystem) -> None:
    actor = Recorder(system, "driver")
    actor.stop()
    assert actor.join(PATIENCE)

    with pytest.raises(pykka.ActorDeadError, match="actor driver did not answer: it was stopped"):
        actor.ask("anyone?").get(timeout=PATIENCE_S)


def test_no_message_is_lost_unseen_when_tellers_race_with_the_stop(system: ActorSystem) -> None:
    # Given an actor on a thread and four tellers
    actor, told = Recorder(system, "busy"), 250
    actor.start_contained()
    gate = threading.Barrier(5)

    def tell_many() -> None:
        gate.wait(PATIENCE_S)
        for number in range(told):
            actor.tell(number)

    tellers = [threading.Thread(target=tell_many) for _ in range(4)]
    for teller in tellers:
        teller.start()

    # When it is stopped in the midst of it
    gate.wait(PATIENCE_S)
    actor.stop()
    assert actor.join(PATIENCE)
    for teller in tellers:
        teller.join(PATIENCE_S)

    # Then every message was handled or reported
    assert len(actor.seen) + system.undelivered == 4 * told


def test_a_deep_mailbox_is_warned_about_once_per_doubling(
    system: ActorSystem, log: list[str]
) -> None:
    actor = Recorder(system, "slow", high_water=10)

    def warnings() -> int:
        return sum("messages wait in its mailbox" in line for line in log)

    for number in range(45):
        actor.tell(number)
    assert (actor.depth, warnings()) == (45, 3)  # at 10, 20, 40

    while actor.pump_one():
        pass
    for number in range(10):
        actor.tell(number)
    assert warnings() == 4


def test_each_message_is_recorded_with_sender_depth_and_latency() -> None:
    ticks = iter((10.0, 10.0, 10.25, 12.0, 12.5))
    system = ActorSystem("test", ManualClock(START), ticks=lambda: next(ticks))
    first, second = Recorder(system, "first"), Recorder(system, "second")
    lost = NodeObserved(LogicalNodeId("w-0"), NodeAttemptId(3), NodeLost("gone"))
    pass_on: Callable[[], object] = lambda: second.tell(lost)  # noqa: E731  one message, as told
    first.tell(pass_on)
    first.tell("behind")

    assert first.pump_one()
    assert second.pump_one()

    mine, its = first.record, second.record
    assert mine is not None
    assert its is not None
    assert (mine.sequence, mine.sender, mine.depth, mine.latency) == (1, "", 1, 0.25)
    assert (its.sequence, its.sender, its.depth, its.latency) == (2, "first", 0, 0.5)
    assert (its.at, its.actor, its.message_type) == (START, "second", "NodeObserved")
    assert (its.node, its.attempt, its.operation) == ("w-0", 3, None)


def test_pykkas_own_registry_never_hears_of_our_actors(system: ActorSystem) -> None:
    actor = Recorder(system, "driver")
    actor.start_contained()

    assert actor.actor_ref not in pykka.ActorRegistry.get_all()
    pykka.ActorRegistry.stop_all()

    assert actor.ask("alive?").get(timeout=PATIENCE_S) == ("seen", "alive?")


def test_an_actor_that_gets_no_thread_is_an_error_and_leaves_its_name_free(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    actor, deaths = Recorder(system, "driver"), list[str]()
    actor.watch(deaths.append)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(ActorStartFailed, match="actor driver got no thread: can't start new"):
            actor.start_contained()

    assert deaths == ["actor driver died: it got no thread: can't start new thread"]
    Recorder(system, "driver").start_contained()


def test_a_log_sink_that_raises_is_a_death_that_is_told_and_not_a_silent_one(
    system: ActorSystem,
) -> None:
    # Given a sink of the host's own that lets its errors out
    actor, deaths = Recorder(system, "driver"), list[str]()
    actor.watch(deaths.append)

    def broken(_line: object) -> None:
        raise OSError("log disk full")

    actor.start_contained()
    sink = logger.add(broken, level="ERROR", catch=False)
    try:
        # When a message fails, and so does the line that would say so
        actor.tell(fail)
        assert actor.join(PATIENCE)
    finally:
        logger.remove(sink)

    # Then whoever watches is told
    assert deaths == ["actor driver died: its loop failed: OSError('log disk full')"]

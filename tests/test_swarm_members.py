"""Who is a member and who is lost when: the rules alone, with a clock that is moved by hand."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_reconciler.actors.swarm_members import (
    Admitted,
    ConnectionId,
    Joined,
    Lost,
    Members,
    NotAdmitted,
)
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    LogicalNodeId,
    NodeAttemptId,
    RunId,
    SwactorId,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
GRACE = timedelta(seconds=5)
RECONNECT = timedelta(seconds=2)
MOMENT = timedelta(microseconds=1)
SESSION = BootstrapSessionId(5)
ME = SwactorId("me")


def attempt(number: int, node: str = "worker-0") -> AttemptIdentity:
    return AttemptIdentity(RunId(7), LogicalNodeId(node), NodeAttemptId(number))


NODE = attempt(1)


@pytest.fixture
def members() -> Members:
    """One expected attempt."""
    members = Members(GRACE, RECONNECT)
    members.expect(NODE)
    return members


def join(members: Members, connection: ConnectionId = 1, at: datetime = START) -> None:
    answer = members.admit(NODE, SESSION, ME, connection, at)
    assert answer == Admitted(Joined(NODE, SESSION, ME), None)


def refused(answer: Admitted | NotAdmitted) -> str:
    assert isinstance(answer, NotAdmitted)
    return answer.reason


def test_a_member_joins_once_and_lives_while_it_is_heard(members: Members) -> None:
    assert not members.is_alive(NODE)
    join(members)

    for second in range(1, 60):
        members.heard(1, START + timedelta(seconds=second))
        assert members.judge(START + timedelta(seconds=second)) == []

    assert members.is_alive(NODE)


def test_a_member_is_lost_when_its_grace_is_over_and_not_before(members: Members) -> None:
    join(members)
    members.heard(1, START + timedelta(seconds=1))
    over = START + timedelta(seconds=1) + GRACE

    assert members.judge(over - MOMENT) == []
    assert members.judge(over) == [Lost(NODE, "no heartbeat for 5 s", 1)]

    # Once: neither a later judgement nor any other news tells it again.
    assert members.judge(over + GRACE) == []
    assert members.left(1, "late") is None
    assert members.process_dead(NODE, "late") is None
    assert not members.is_alive(NODE)


def test_a_leave_is_a_loss_at_once_with_its_reason(members: Members) -> None:
    join(members)

    assert members.left(1, "exit 3") == Lost(NODE, "it left the swarm: exit 3", 1)
    assert not members.is_alive(NODE)


def test_a_dead_process_is_a_loss_at_once(members: Members) -> None:
    assert members.process_dead(NODE, "never joined") is None
    join(members)

    assert members.process_dead(NODE, "killed by signal 9") == Lost(NODE, "killed by signal 9", 1)


def test_a_connection_that_ends_is_lost_after_the_reconnect_grace(members: Members) -> None:
    join(members)
    members.disconnected(1, START)

    assert members.is_alive(NODE)
    assert members.judge(START + RECONNECT - MOMENT) == []
    [lost] = members.judge(START + RECONNECT)

    reason = "its connection ended and did not come back within 2 s"
    assert lost == Lost(NODE, reason, None)


def test_a_reconnect_in_time_is_no_news(members: Members) -> None:
    join(members)
    members.disconnected(1, START)

    answer = members.admit(NODE, SESSION, ME, 2, START + RECONNECT - MOMENT)

    assert answer == Admitted(None, None)
    assert members.judge(START + RECONNECT) == []


def test_a_second_connection_replaces_the_first_silently(members: Members) -> None:
    join(members)

    assert members.admit(NODE, SESSION, ME, 2, START) == Admitted(None, replaced=1)

    # What the old connection still says or does concerns nobody.
    late = START + GRACE
    members.heard(1, late)
    members.disconnected(1, START)
    assert members.left(1, "old") is None
    assert members.judge(late) == [Lost(NODE, "no heartbeat for 5 s", 2)]


def test_another_swactor_under_a_live_session_is_refused(members: Members) -> None:
    join(members)

    answer = members.admit(NODE, SESSION, SwactorId("twin"), 2, START)

    assert refused(answer).endswith("is alive as another swactor")
    assert members.left(1, "") == Lost(NODE, "it left", 1)


def test_a_later_session_takes_over_without_a_loss_and_an_earlier_one_does_not(
    members: Members,
) -> None:
    join(members)
    later = BootstrapSessionId(6)

    answer = members.admit(NODE, later, SwactorId("new"), 2, START)

    assert answer == Admitted(Joined(NODE, later, SwactorId("new")), replaced=1)
    assert "has given way to session 6" in refused(members.admit(NODE, SESSION, ME, 3, START))


def test_a_session_that_was_lost_never_comes_back_but_a_later_one_may(members: Members) -> None:
    join(members)
    members.process_dead(NODE, "exit 1")

    again = members.admit(NODE, SESSION, ME, 2, START)
    later = members.admit(NODE, BootstrapSessionId(6), ME, 3, START)

    assert refused(again) == "session 5 of run 7, node worker-0, attempt 1 has ended: exit 1"
    assert later == Admitted(Joined(NODE, BootstrapSessionId(6), ME), None)


def test_nobody_enters_without_a_ticket_or_after_retirement(members: Members) -> None:
    unknown = attempt(1, "worker-9")
    assert "is not known here" in refused(members.admit(unknown, SESSION, ME, 1, START))

    join(members)
    assert members.retire(NODE) == 1

    # A ticket that is drawn after the end, for this attempt or one before it, opens nothing.
    for old in (NODE, attempt(0)):
        members.expect(old)
        assert "is over: its token is stale" in refused(members.admit(old, SESSION, ME, 2, START))
    members.expect(attempt(2))
    assert isinstance(members.admit(attempt(2), SESSION, ME, 3, START), Admitted)


def test_retirement_is_no_loss(members: Members) -> None:
    join(members)
    members.retire(NODE)

    assert not members.is_alive(NODE)
    assert members.judge(START + GRACE) == []
    assert members.process_dead(NODE, "late") is None
    assert members.retire(NODE) is None


def test_after_a_stall_every_grace_begins_anew(members: Members) -> None:
    # Given one member that is connected and one that has just lost its connection
    gone = attempt(2, "worker-1")
    members.expect(gone)
    join(members)
    members.admit(gone, SESSION, ME, 2, START)
    members.disconnected(2, START)

    # When nobody listened for an hour
    woken = START + timedelta(hours=1)
    members.begin_anew(woken)

    # Then both have their whole grace from now on
    assert members.judge(woken) == []
    assert [lost.identity for lost in members.judge(woken + RECONNECT)] == [gone]
    assert [lost.identity for lost in members.judge(woken + GRACE)] == [NODE]


def test_thousands_of_members_are_judged_in_order_and_leave_nothing_behind() -> None:
    members, count = Members(GRACE, RECONNECT), 5_000
    everyone = [attempt(number, f"worker-{number}") for number in range(count)]
    for number, identity in enumerate(everyone):
        members.expect(identity)
        members.admit(identity, SESSION, ME, number, START)

    for number in range(0, count, 2):
        members.heard(number, START + timedelta(seconds=1))
    silent = members.judge(START + GRACE)

    assert [lost.identity for lost in silent] == sorted(everyone[1::2])
    assert len(members) == count // 2
    for identity in everyone:
        members.retire(identity)
    assert len(members) == 0
    assert (members._expected, members._ended, members._of_connection) == (set(), {}, {})


def test_many_attempts_of_one_slot_leave_one_number_behind() -> None:
    members = Members(GRACE, RECONNECT)

    for number in range(1, 10_000):
        identity = attempt(number)
        members.expect(identity)
        members.admit(identity, SESSION, ME, number, START)
        members.left(number, "exit")
        members.retire(identity)

    assert len(members._retired) == 1
    assert (members._expected, members._ended, members._of_connection) == (set(), {}, {})


steps = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.integers(0, 2), st.integers(1, 3), st.booleans()),
        st.tuples(st.sampled_from(["heard", "left", "cut"]), st.integers(0, 40)),
        st.tuples(st.sampled_from(["dead", "retire"]), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.integers(0, 6)),
    ),
    max_size=40,
)


@given(steps)
def test_whatever_happens_each_membership_is_joined_once_and_lost_at_most_once(  # noqa: PLR0912  one branch for each thing that can happen
    history: list[tuple[object, ...]],
) -> None:
    members, now, connections = Members(GRACE, RECONNECT), START, 0
    identities = [attempt(1, f"worker-{number}") for number in range(3)]
    joined: list[tuple[AttemptIdentity, int]] = []
    open_since: dict[AttemptIdentity, int] = {}
    for identity in identities:
        members.expect(identity)

    def lose(lost: Lost | None) -> None:
        if lost is not None:
            assert open_since.pop(lost.identity, None) is not None, "lost without having joined"

    for step in history:
        match step:
            case ("admit", int(who), int(session), bool(twin)):
                connections += 1
                answer = members.admit(
                    identities[who], BootstrapSessionId(session), SwactorId(str(twin)),
                    connections, now,
                )  # fmt: skip
                if isinstance(answer, Admitted) and answer.joined is not None:
                    joined.append((identities[who], session))
                    open_since[identities[who]] = session
            case ("heard", int(connection)):
                members.heard(connection, now)
            case ("left", int(connection)):
                lose(members.left(connection, ""))
            case ("cut", int(connection)):
                members.disconnected(connection, now)
            case ("dead", int(who)):
                lose(members.process_dead(identities[who], "dead"))
            case ("retire", int(who)):
                members.retire(identities[who])
                open_since.pop(identities[who], None)
            case ("wait", int(seconds)):
                now += timedelta(seconds=seconds)
                for lost in members.judge(now):
                    lose(lost)
            case _:
                raise AssertionError(f"an unknown step {step}")
        assert {i for i in identities if members.is_alive(i)} == open_since.keys()

    assert len(joined) == len(set(joined)), "a session joined twice"
    for lost in members.judge(now + GRACE):
        lose(lost)
    assert not open_since

"""The mailbox record: what a message is about, the ring, and the story as people read it."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import Struct

from cluster_reconciler.actors.mailbox import Correlation, MailboxRecord, Ring, correlate
from cluster_reconciler.actors.mailbox_words import describe, one_line
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootSpec,
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapConvergenceAccepted,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapStage,
    BootstrapStarted,
    CancelBootstrap,
    ClusterShape,
    DeadlineDue,
    Disposition,
    EffectError,
    EndpointLookup,
    ExecutorResult,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeId,
    NodeAttemptId,
    NodeGroupId,
    NodeLost,
    NodeObserved,
    OperationFailed,
    OperationId,
    OperationOutcome,
    OperationSucceeded,
    PlannedEffect,
    ProviderKind,
    ProviderLeaseId,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    RunPass,
    SafetyTick,
    SwactorId,
    SwactorJoined,
    Trigger,
    UpdateDesired,
)

NOW = datetime(2026, 1, 1, 12, 30, 1, 234_000, tzinfo=UTC)
NODE = LogicalNodeId("worker-0")
ATTEMPT = NodeAttemptId(3)
OPERATION = OperationId(ATTEMPT, 2)
SESSION = BootstrapSessionId(5)
KIND = ProviderKind("memory")
EFFECT = PlannedEffect(NODE, OPERATION, CancelBootstrap(SESSION))


class Wrapped(Struct, frozen=True):
    effect: PlannedEffect


class Question(Struct, frozen=True):
    message: object


class About(Struct, frozen=True):
    identity: AttemptIdentity


def record(message: object, sequence: int = 1) -> MailboxRecord:
    return MailboxRecord(
        sequence, NOW, "driver", type(message).__name__, "", *correlate(message), 0, 0.0
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (NodeObserved(NODE, ATTEMPT, NodeLost("gone")), Correlation(NODE, ATTEMPT)),
        (
            NodeObserved(NODE, ATTEMPT, OperationSucceeded(OPERATION, LeaseAbsent())),
            Correlation(NODE, ATTEMPT, OPERATION),
        ),
        (
            NodeObserved(NODE, ATTEMPT, OperationFailed(OPERATION, EffectError("no"))),
            Correlation(NODE, ATTEMPT, OPERATION),
        ),
        (ExecutorResult(NODE, OPERATION, LeaseAbsent()), Correlation(NODE, ATTEMPT, OPERATION)),
        (EFFECT, Correlation(NODE, ATTEMPT, OPERATION)),
        (Wrapped(EFFECT), Correlation(NODE, ATTEMPT, OPERATION)),
        (About(AttemptIdentity(RunId(7), NODE, ATTEMPT)), Correlation(NODE, ATTEMPT)),
        (UpdateDesired(ClusterShape(RunId(7), 1, ())), Correlation()),
        (Trigger(), Correlation()),
        (RunPass(), Correlation()),
        (DeadlineDue(), Correlation()),
        (SafetyTick(), Correlation()),
        ("anything at all", Correlation()),
    ],
)
def test_a_message_is_correlated(message: object, expected: Correlation) -> None:
    assert correlate(message) == expected


def test_the_story_of_one_node_reads_in_order_with_its_refusals() -> None:
    # Given a ring with messages of two nodes, and a note beside one
    ring = Ring()
    mine = NodeObserved(NODE, ATTEMPT, BootstrapFailed(SESSION, "exit 1:\nfault\x1b[2J"))
    other = NodeObserved(LogicalNodeId("worker-1"), ATTEMPT, NodeLost("gone"))
    result = ExecutorResult(NODE, OPERATION, None, EffectError("no capacity"))
    ring.add(record(mine), mine)
    ring.note("refused: the session is over", NODE, ATTEMPT)
    ring.note("a word about no node")
    ring.add(record(other, 2), other)
    ring.add(record(result, 3), result)
    ring.note("deadline of the restart", NODE, at=NOW + timedelta(seconds=1))

    # Then its story holds its own lines only, on one line each
    assert ring.story(node=NODE) == (
        r"12:30:01.234 NodeObserved worker-0 attempt 3: session 5 failed: exit 1:\nfault\x1b[2J",
        "12:30:01.234     refused: the session is over",
        "12:30:01.234 ExecutorResult worker-0 attempt 3: op(3,2) failed (definite): no capacity",
        "12:30:02.234     deadline of the restart",
    )
    assert len(ring.story()) == 6
    assert [entry.sequence for entry in ring.entries(operation=OPERATION)] == [3]
    assert ring.story(NODE, NodeAttemptId(4)) == ()


def test_a_full_ring_forgets_the_oldest_and_says_how_many() -> None:
    ring = Ring(3)

    for number in range(1, 6):
        ring.add(record(Trigger(), number), Trigger())

    assert [entry.sequence for entry in ring.entries()] == [3, 4, 5]
    assert (len(ring), ring.dropped) == (3, 2)


def test_a_note_before_any_message_has_no_time_of_its_own() -> None:
    ring = Ring()

    ring.note("made")

    assert ring.story() == ("------------     made",)


def test_a_ring_of_no_capacity_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity of at least 1, found 0"):
        Ring(0)


def test_a_story_never_shows_an_environment() -> None:
    boot = BootSpec(env={"KEY": "hunter2"}, start_swactor_command="serve --token hunter2")
    shape = ClusterShape(RunId(7), 4, (_group(boot),))

    assert describe(UpdateDesired(shape)) == "generation 4, 1 group, 2 nodes"


def _group(boot: BootSpec) -> RunNodeGroupSpec:
    return RunNodeGroupSpec(
        RunId(7), NodeGroupId("g"), RoleId("r"), 2, ProviderKind("memory"), boot=boot
    )


def test_words_for_stages_and_streams() -> None:
    seen = BootstrapObserved(SESSION, BootstrapStage.BOOT_CHECKING, 7, None, "test -w .")

    assert describe(NodeObserved(NODE, ATTEMPT, seen)) == (
        "session 5 is at boot_checking (test -w .), stdout line 7"
    )
    assert describe(EFFECT) == "op(3,2) cancel_bootstrap"
    assert describe(Question(EFFECT)) == "PlannedEffect: op(3,2) cancel_bootstrap"
    assert describe(Question(Trigger())) == "Trigger"
    assert describe(object()) == ""


def test_one_line_is_bounded() -> None:
    assert one_line("x" * 600) == "x" * 499 + "…"
    assert one_line("a\tb\u202e", 10) == r"a\tb\u202e"


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (LeaseCreated(LeaseFacts(KIND, ProviderLeaseId("l-1"))), "lease l-1"),
        (
            LeaseCreated(LeaseFacts(KIND, ProviderLeaseId("l-1")), LocalEndpoint("/there")),
            "lease l-1, endpoint known",
        ),
        (LeaseAbsent(), "no lease"),
        (LeaseAbsent(conclusive=False), "no lease to be seen yet"),
        (EndpointLookup(), "no endpoint yet"),
        (EndpointLookup(LocalEndpoint("/there")), "endpoint known"),
        (BootstrapStarted(SESSION), "session 5 started"),
        (BootstrapAbsent(), "no session"),
        (BootstrapAbsent(conclusive=False), "no session to be seen yet"),
        (BootstrapConvergenceAccepted(), "hand-over accepted"),
        (BootstrapCancelled(), "bootstrap cancelled"),
        (LeaseDestroyed(), "lease destroyed"),
        (LeaseDestroyed(confirmed=False), "destroy asked, still there"),
    ],
)
def test_every_outcome_has_its_words(outcome: OperationOutcome, words: str) -> None:
    assert describe(ExecutorResult(NODE, OPERATION, outcome)) == f"op(3,2) {words}"
    observed = NodeObserved(NODE, ATTEMPT, OperationSucceeded(OPERATION, outcome))
    assert describe(observed) == f"op(3,2) {words}"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            ExecutorResult(
                NODE,
                OPERATION,
                error=EffectError("busy", Disposition.AMBIGUOUS, timedelta(seconds=3)),
            ),
            "op(3,2) failed (ambiguous), retry after 0:00:03: busy",
        ),
        (
            ExecutorResult(NODE, OPERATION, error=EffectError("withdrawn", not_run=True)),
            "op(3,2) was not run: withdrawn",
        ),
        (ExecutorResult(NODE, OPERATION), "op(3,2) without outcome or error"),
        (
            NodeObserved(NODE, ATTEMPT, OperationFailed(OPERATION, EffectError("no"))),
            "op(3,2) failed (definite): no",
        ),
        (
            NodeObserved(NODE, ATTEMPT, SwactorJoined(SESSION, SwactorId("me"))),
            "session 5 joined the swarm as me",
        ),
        (NodeObserved(NODE, ATTEMPT, BootstrapClosed(SESSION)), "session 5 closed"),
        (NodeObserved(NODE, ATTEMPT, NodeLost("exit 1")), "lost: exit 1"),
        (DeadlineDue(judged=True), "behind the results that had come"),
        (DeadlineDue(), ""),
    ],
)
def test_every_message_has_its_words(message: object, words: str) -> None:
    assert describe(message) == words

"""What a bootstrap session reports, folded (spec §7.1; design rules 8-11; L13, L21, L24, L34)."""

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import ManagedNode, observe, refusal
from cluster_reconciler.messages import (
    BootstrapClosed,
    BootstrapConvergenceAccepted,
    BootstrapFacts,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapStage,
    NodeIntent,
    NodeLost,
    NodeStage,
    SessionObservation,
    SwactorFacts,
    SwactorId,
    SwactorJoined,
)
from tests.decider_words import (
    AMBIGUOUS,
    JOINED,
    ONE,
    POLICY,
    SESSION,
    T0,
    answered,
    at,
    bootstrapping,
    deleting,
    destroyed,
    failed,
    fold,
    handing_over,
    joined,
    new,
    reachable,
    ready,
    starting,
    with_failures,
)

CLOSED = BootstrapClosed(SESSION)
ENDS: list[SessionObservation] = [
    CLOSED,
    BootstrapFailed(SESSION, "exit 1"),
    BootstrapObserved(SESSION, BootstrapStage.CONVERGED),
    BootstrapObserved(SESSION, BootstrapStage.CLOSED),
    BootstrapObserved(SESSION, BootstrapStage.CANCELLED),
    BootstrapObserved(SESSION, BootstrapStage.SSH_CONNECT_FAILED),
    BootstrapObserved(SESSION, BootstrapStage.BOOT_CHECK_FAILED),
    BootstrapObserved(SESSION, BootstrapStage.START_FAILED),
    BootstrapObserved(SESSION, BootstrapStage.SWACTOR_JOIN_FAILED, marker="no route"),
]


def observed(
    stage: BootstrapStage, out: int | None = None, err: int | None = None
) -> BootstrapObserved:
    return BootstrapObserved(SESSION, stage, out, err)


def refused(node: ManagedNode, news: SessionObservation | NodeLost) -> str:
    """Why it is refused; that it changes nothing is part of it."""
    assert observe(node, news, T0, POLICY) is node
    reason = refusal(node, news)
    assert reason is not None
    return reason


# -- the join and the hand-over (rule 8) ----------------------------------------------------------


def test_a_join_is_a_fact_and_moves_the_stage() -> None:
    node = fold(bootstrapping(), JOINED, at(3))

    assert node.record.swactor == SwactorFacts(SwactorId("swactor-1"), at(3))
    assert (node.record.stage, node.record.ready) == (NodeStage.SWACTOR_JOINED, False)


def test_a_second_join_is_refused_by_the_name_of_the_first() -> None:
    assert "joined already, as swactor-1" in refused(
        joined(), SwactorJoined(SESSION, SwactorId("swactor-2"))
    )


def test_rule_8_acceptance_is_the_hand_over() -> None:
    node = answered(handing_over(), BootstrapConvergenceAccepted(), at(5))

    assert (node.record.stage, node.record.ready) == (NodeStage.DORMANT, True)
    assert node.active_bootstrap is None
    assert node.record.swactor == SwactorFacts(SwactorId("swactor-1"), T0, handed_off_at=at(5))
    assert node.record.bootstrap is not None
    assert node.record.bootstrap.last_stage is BootstrapStage.CONVERGED


@pytest.mark.parametrize("end", [CLOSED, observed(BootstrapStage.CONVERGED)])
def test_rule_8_a_closure_after_the_join_completes_the_hand_over(end: SessionObservation) -> None:
    # given a hand-over that is still out
    node = fold(handing_over(), end, at(5))
    assert node.record.ready
    assert node.pending is not None

    # when it is answered after all, or fails: nothing but `pending` changes
    for late in (BootstrapConvergenceAccepted(), failed(), AMBIGUOUS):
        assert answered(node, late, at(6)) == replace(node, pending=None)


def test_rule_8_a_closure_of_a_ready_node_changes_nothing() -> None:
    assert "no session is" in refused(ready(), CLOSED)


def test_rule_9_cancelled_does_not_touch_a_ready_node() -> None:
    assert "no session is" in refused(ready(), observed(BootstrapStage.CANCELLED))


# -- ends before the join (rule 9, L13, L34) ------------------------------------------------------


@pytest.mark.parametrize("end", ENDS, ids=str)
def test_l13_a_session_that_ends_before_the_join_fails_the_attempt(
    end: SessionObservation,
) -> None:
    node = fold(bootstrapping(), end, at(3))

    assert (node.record.stage, node.record.ready) == (NodeStage.FAILED, False)
    assert node.record.failed_at == at(3)
    assert node.record.failed_reason
    assert (node.retry.consecutive_failures, node.retry.restart_at) == (1, at(4))
    assert node.retry.last_error == node.record.failed_reason
    assert node.progress is None


def test_a_failed_stage_tells_the_nodes_own_word_for_it() -> None:
    reasons = [fold(bootstrapping(), end).record.failed_reason for end in ENDS[-2:]]

    assert reasons == [
        "the bootstrap failed: start_failed",
        "the bootstrap failed: swactor_join_failed: no route",
    ]


def test_l34_cancelled_after_the_join_and_before_the_hand_over_fails_the_attempt() -> None:
    node = fold(joined(), observed(BootstrapStage.CANCELLED))

    assert node.record.stage is NodeStage.FAILED
    assert node.active_bootstrap is None


def test_l21_a_failed_attempt_refuses_every_later_word_of_its_session() -> None:
    node = fold(bootstrapping(), BootstrapFailed(SESSION, "exit 1"))

    for news in (JOINED, *ENDS, observed(BootstrapStage.SSH_READY)):
        assert refused(node, news) == "the attempt has failed already: exit 1"
    assert node.record.swactor is None


def test_rule_9_one_attempt_fails_once() -> None:
    # given an attempt whose hand-over was out when its session was cancelled
    first = fold(handing_over(), observed(BootstrapStage.CANCELLED), at(1))

    # when the hand-over then fails, and the node is reported lost
    node = answered(first, failed("later"), at(2))

    assert refused(node, NodeLost("later")).startswith("the attempt has failed already")
    assert node == replace(first, pending=None)


@pytest.mark.parametrize("news", [JOINED, *ENDS, observed(BootstrapStage.SSH_READY)], ids=str)
def test_news_of_another_session_is_refused(news: SessionObservation) -> None:
    other = replace(news, session_id=BootstrapSessionId(40))

    assert refused(bootstrapping(), other) == "session 40 is not active, 41 is"
    assert "no session is" in refused(new(), other)


# -- while deleting (rules 9, 19; L24, L41) -------------------------------------------------------


@pytest.mark.parametrize("end", [e for e in ENDS if not isinstance(e, BootstrapFailed)], ids=str)
def test_l24_a_deleting_node_never_becomes_ready_nor_failed(end: SessionObservation) -> None:
    before = deleting(joined())

    node = fold(before, end, at(3))

    assert (node.record.ready, node.record.stage) == (False, NodeStage.SWACTOR_JOINED)
    assert (node.record.failed_at, node.retry) == (None, before.retry)


def test_l41_a_failure_seen_while_deleting_is_no_failure_to_back_off_from() -> None:
    reason = refused(deleting(bootstrapping()), BootstrapFailed(SESSION, "exit 1"))

    assert reason == "the node is being deleted: this failure needs no backoff"


def test_a_deleting_node_that_joins_keeps_its_stage() -> None:
    node = fold(deleting(bootstrapping()), JOINED)

    assert node.record.swactor is not None
    assert (node.record.stage, node.record.ready) == (NodeStage.BOOTSTRAP_RUNNING, False)
    assert node.progress is None


@pytest.mark.parametrize(
    "end", [CLOSED, observed(BootstrapStage.CONVERGED), observed(BootstrapStage.CANCELLED)]
)
def test_a_session_that_ended_by_itself_needs_no_cancel(end: SessionObservation) -> None:
    node = fold(deleting(bootstrapping()), end)

    assert node.active_bootstrap is None


# -- stages and sequences never step back (rule 10) -----------------------------------------------


def facts_after(*news: BootstrapObserved) -> BootstrapFacts:
    node = bootstrapping()
    for seen in news:
        node = observe(node, seen, at(1), POLICY)
    assert node.record.bootstrap is not None
    return node.record.bootstrap


def test_observations_update_stage_and_sequence_facts_only() -> None:
    before = bootstrapping()

    node = fold(before, observed(BootstrapStage.BOOT_CHECKING, 3, 4), at(1))

    assert node.record == replace(
        before.record,
        bootstrap=BootstrapFacts(
            SESSION,
            BootstrapStage.BOOT_CHECKING,
            3,
            4,
            last_observed_at=at(1),
            furthest_stage=BootstrapStage.BOOT_CHECKING,
        ),
    )


def test_rule_10_what_is_older_than_known_is_refused() -> None:
    node = fold(bootstrapping(), observed(BootstrapStage.BOOT_CHECKING, 3, 4))

    for old in (
        observed(BootstrapStage.BOOT_CHECKING, 3, 4),
        observed(BootstrapStage.SSH_READY, 2),
        observed(BootstrapStage.CREATED),
    ):
        assert refused(node, old) == "it says nothing new"


def test_rule_10_a_late_stage_with_new_lines_brings_the_lines_alone() -> None:
    facts = facts_after(
        observed(BootstrapStage.BOOT_CHECKING, 3, 4), observed(BootstrapStage.SSH_READY, 5, 2)
    )

    assert (facts.last_stage, facts.last_stdout_seq, facts.last_stderr_seq) == (
        BootstrapStage.BOOT_CHECKING,
        5,
        4,
    )


def test_a_stream_error_is_a_fact_that_ends_nothing_and_hides_no_later_stage() -> None:
    facts = facts_after(
        observed(BootstrapStage.BOOT_CHECKING),
        observed(BootstrapStage.STREAM_ERROR),
        observed(BootstrapStage.STREAM_ERROR),
        observed(BootstrapStage.SSH_READY),
    )
    assert (facts.last_stage, facts.furthest_stage) == (
        BootstrapStage.STREAM_ERROR,
        BootstrapStage.BOOT_CHECKING,
    )
    assert (
        facts_after(
            observed(BootstrapStage.STREAM_ERROR), observed(BootstrapStage.BOOT_CHECKING)
        ).last_stage
        is BootstrapStage.BOOT_CHECKING
    )


# -- NodeLost (rule 11; L33 at the fold) ----------------------------------------------------------


@pytest.mark.parametrize(
    "node", [new(), starting(), reachable(), bootstrapping(), joined(), handing_over(), ready()]
)
def test_rule_11_a_lost_node_fails_at_whatever_stage(node: ManagedNode) -> None:
    lost = fold(node, NodeLost("no heartbeat"), at(3))

    assert lost == replace(
        node,
        record=replace(
            node.record,
            stage=NodeStage.FAILED,
            ready=False,
            failed_at=at(3),
            failed_reason="the node is lost: no heartbeat",
        ),
        retry=replace(
            node.retry,
            consecutive_failures=1,
            restart_at=at(4),
            last_error="the node is lost: no heartbeat",
            last_error_attempt=ONE,
        ),
        progress=None,
    )


def test_rule_11_a_loss_is_ignored_once_failed_or_deleting() -> None:
    lost = fold(ready(), NodeLost("gone"))

    assert "failed already: the node is lost: gone" in refused(lost, NodeLost("again"))
    assert refused(deleting(ready()), NodeLost("gone")) == "the node is being deleted already"
    assert refused(destroyed(), NodeLost("gone")) == "the node is being deleted already"
    assert lost.intent is NodeIntent.ACTIVE


# -- what ready resets (rule 7) -------------------------------------------------------------------


def test_rule_7_only_ready_resets_the_count_and_every_deadline() -> None:
    node = with_failures(handing_over(), 5)
    assert node.progress is not None

    node = answered(node, BootstrapConvergenceAccepted(), at(9))

    assert node.retry == type(node.retry)()
    assert (node.progress, node.ready_at, node.failures_before_ready) == (None, at(9), 5)


@pytest.mark.parametrize(("lost_at", "count"), [(9, 6), (68.999, 6), (69, 1), (1000, 1)])
def test_rule_7_a_node_lost_soon_after_ready_goes_on_from_its_count(
    lost_at: float, count: int
) -> None:
    # given a node that became ready at 9, after five failures, with 60 s to prove itself
    node = answered(with_failures(handing_over(), 5), BootstrapConvergenceAccepted(), at(9))

    lost = fold(node, NodeLost("crashed"), at(lost_at))

    assert lost.retry.consecutive_failures == count


@pytest.mark.parametrize(
    "seen",
    [
        BootstrapObserved(SESSION, BootstrapStage.BOOT_CHECKING, last_stdout_seq=3),
        JOINED,
        BootstrapFailed(SESSION, "no disk"),
        BootstrapClosed(SESSION),
    ],
)
def test_a_node_made_by_hand_may_know_its_session_and_nothing_of_it(
    seen: SessionObservation,
) -> None:
    known = bootstrapping()
    by_hand = replace(known, record=replace(known.record, bootstrap=None))

    assert refusal(by_hand, seen) is None
    folded = observe(by_hand, seen, at(5), POLICY)
    assert folded.record.stage == observe(known, seen, at(5), POLICY).record.stage
    assert folded.record.bootstrap is not None
    assert folded.record.bootstrap.session_id == SESSION


@pytest.mark.parametrize("known", [None, 0, 3])
def test_a_sequence_number_below_zero_is_none(known: int | None) -> None:
    node = bootstrapping()
    if known is not None:
        node = fold(node, observed(BootstrapStage.CREATED, known, known), at(1))

    assert refused(node, observed(BootstrapStage.CREATED, -3, -1)) == "it says nothing new"

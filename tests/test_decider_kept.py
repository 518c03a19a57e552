"""News of a session that is not known yet: kept, and folded with its start (rules 10, 15)."""

import pytest

from cluster_reconciler.decider import ManagedNode, observe, refusal
from cluster_reconciler.decider.observe import KEPT_MAX
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapClosed,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapStage,
    BootstrapStarted,
    NodeLost,
    NodeStage,
    SessionObservation,
    SwactorId,
    SwactorJoined,
)
from tests.decider_words import (
    AMBIGUOUS,
    JOINED,
    POLICY,
    SESSION,
    T0,
    answered,
    at,
    deleting,
    dispatched,
    failed,
    fold,
    starting,
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


# -- sessions that are not known yet (rule 10) ----------------------------------------------------


@pytest.fixture(params=["pending", "ambiguous"])
def unknown(request: pytest.FixtureRequest) -> ManagedNode:
    """A start whose session is not known: still out, or of unknown outcome and tried again."""
    node = starting()
    if request.param == "pending":
        return node
    return answered(node, AMBIGUOUS)


def started(node: ManagedNode, session: BootstrapSessionId = SESSION) -> ManagedNode:
    if node.pending is None:
        node = dispatched(node, at(500))
    return answered(node, BootstrapStarted(session), at(500))


def test_rule_10_a_join_that_overtakes_its_start_is_kept_and_folded(unknown: ManagedNode) -> None:
    node = started(fold(unknown, JOINED))

    assert node.record.stage is NodeStage.SWACTOR_JOINED
    assert node.kept == ()


@pytest.mark.parametrize("end", ENDS, ids=str)
def test_rule_10_an_end_that_overtakes_its_start_fails_the_attempt(
    unknown: ManagedNode, end: SessionObservation
) -> None:
    node = started(fold(unknown, end))

    assert node.record.stage is NodeStage.FAILED
    assert node.retry.consecutive_failures == unknown.retry.consecutive_failures + 1


def test_rule_10_the_join_is_folded_first(unknown: ManagedNode) -> None:
    # given a closure that overtook the join, and both their start
    node = fold(fold(unknown, CLOSED), JOINED)

    assert started(node).record.ready


def test_rule_10_what_was_kept_beyond_the_hand_over_changes_nothing(unknown: ManagedNode) -> None:
    # given a join, a closure, and a cancellation behind them
    node = fold(fold(unknown, JOINED), CLOSED)
    also_cancelled = fold(node, observed(BootstrapStage.CANCELLED))

    assert started(also_cancelled) == started(node)
    assert started(node).record.ready


def test_rule_10_of_two_kept_joins_the_first_stays(unknown: ManagedNode) -> None:
    node = fold(fold(unknown, JOINED), SwactorJoined(SESSION, SwactorId("swactor-2")))

    swactor = started(node).record.swactor
    assert swactor is not None
    assert swactor.swactor_id == "swactor-1"


def test_rule_10_later_news_does_not_displace_a_kept_end(unknown: ManagedNode) -> None:
    # given an end that was kept, and an older stage that came in after it
    node = fold(
        fold(unknown, observed(BootstrapStage.CANCELLED)), observed(BootstrapStage.SSH_READY)
    )

    assert started(node).record.stage is NodeStage.FAILED


def test_rule_10_older_news_does_not_displace_newer(unknown: ManagedNode) -> None:
    node = fold(unknown, observed(BootstrapStage.BOOT_CHECKING, 10))
    node = observe(node, observed(BootstrapStage.SSH_READY, 3), T0, POLICY)

    facts = started(node).record.bootstrap
    assert facts is not None
    assert (facts.last_stage, facts.last_stdout_seq) == (BootstrapStage.BOOT_CHECKING, 10)


def test_rule_10_what_was_kept_of_another_session_is_dropped(unknown: ManagedNode) -> None:
    node = started(fold(unknown, JOINED), BootstrapSessionId(42))

    assert node.record.stage is NodeStage.BOOTSTRAP_RUNNING
    assert node.kept == ()


def test_what_is_kept_already_is_refused(unknown: ManagedNode) -> None:
    assert refused(fold(unknown, JOINED), JOINED) == "kept already"


def test_however_much_comes_little_is_kept(unknown: ManagedNode) -> None:
    node = unknown
    for number in range(100):
        node = fold(node, BootstrapClosed(BootstrapSessionId(number)))

    assert [seen.session_id for seen in node.kept] == list(range(100 - KEPT_MAX, 100))


def test_no_flood_of_output_loses_a_join(unknown: ManagedNode) -> None:
    node = fold(unknown, JOINED)
    for line in range(100):
        node = fold(node, observed(BootstrapStage.STDOUT_STREAMING, line))

    facts = started(node).record
    assert (facts.stage, facts.bootstrap and facts.bootstrap.last_stdout_seq) == (
        NodeStage.SWACTOR_JOINED,
        99,
    )


def test_rule_15_conclusive_absence_drops_what_was_kept(unknown: ManagedNode) -> None:
    node = fold(unknown, JOINED)
    if node.pending is None:
        node = dispatched(node, at(500))

    assert answered(node, BootstrapAbsent(), at(500)).kept == ()


def test_a_start_that_definitely_did_not_run_drops_what_was_kept() -> None:
    node = deleting(fold(starting(), JOINED))

    assert answered(node, failed()).kept == ()


def test_a_session_found_while_deleting_is_known_with_all_that_was_kept_of_it() -> None:
    node = started(deleting(fold(starting(), JOINED)))

    assert (node.active_bootstrap, node.record.ready) == (SESSION, False)
    assert node.record.swactor is not None
    assert node.record.stage is NodeStage.ENDPOINT_KNOWN

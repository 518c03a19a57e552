"""Which facts a result or news leaves behind, to the last field (spec §7.1; rules 8-17).

Stages and counts are told elsewhere; here stands what cleanup and people read later.
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from cluster_reconciler import decider, messages
from cluster_reconciler.decider import (
    ManagedNode,
    RetryState,
    is_converged,
    observe,
    reconcile_node,
    refusal,
)
from cluster_reconciler.decider.failures import join_progress
from cluster_reconciler.decider.transitions import fresh_node
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapConvergenceAccepted,
    BootstrapFacts,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapStage,
    BootstrapStarted,
    Disposition,
    EndpointLookup,
    LeaseDestroyed,
    NodeLost,
    OperationOutcome,
    SessionObservation,
)
from tests.decider_words import (
    AMBIGUOUS,
    ENDPOINT,
    JOINED,
    LEASED,
    ONE,
    POLICY,
    SESSION,
    SPEC,
    T0,
    answered,
    at,
    bootstrapping,
    cancelling,
    creating,
    deleting,
    dispatched,
    failed,
    fold,
    handing_over,
    joined,
    looking_up,
    ready,
    shape,
    starting,
    state_of,
)

CLOSED = BootstrapClosed(SESSION)


def observed(
    stage: BootstrapStage, out: int | None = None, err: int | None = None
) -> BootstrapObserved:
    return BootstrapObserved(SESSION, stage, out, err)


def facts(node: ManagedNode) -> BootstrapFacts:
    assert node.record.bootstrap is not None, "nothing is known of a session"
    return node.record.bootstrap


def started(node: ManagedNode, seconds: float = 5) -> ManagedNode:
    return answered(node, BootstrapStarted(SESSION), at(seconds))


def next_command(node: ManagedNode, seconds: float) -> str:
    action = reconcile_node(node, SPEC, at(seconds)).action
    effect = getattr(action, "effect", None)
    return type(effect.command if effect else action).__name__


# -- where and when -------------------------------------------------------------------------------


def test_a_started_session_was_last_seen_when_it_started() -> None:
    assert facts(started(starting())) == BootstrapFacts(SESSION, last_observed_at=at(5))


def test_a_session_known_by_hand_was_last_seen_when_its_node_joined() -> None:
    known = bootstrapping()
    by_hand = replace(known, record=replace(known.record, bootstrap=None))

    node = observe(by_hand, JOINED, at(5), POLICY)

    assert facts(node) == BootstrapFacts(SESSION, last_observed_at=at(5))


def test_an_attempt_knows_when_it_was_installed() -> None:
    assert fresh_node(ONE, SPEC, at(3)).started_at == at(3)


@pytest.mark.parametrize("over", [deleting, lambda node: fold(node, NodeLost("gone"))])
@pytest.mark.parametrize(
    ("pending", "answer"),
    [(creating(), LEASED), (looking_up(), EndpointLookup(ENDPOINT))],
    ids=["create", "look up"],
)
def test_rule_9_an_endpoint_that_comes_during_cleanup_is_stored(
    over: object, pending: ManagedNode, answer: OperationOutcome
) -> None:
    assert callable(over)

    assert answered(over(pending), answer).record.connection == ENDPOINT


# -- how a session ended --------------------------------------------------------------------------


def test_rule_8_a_closure_that_completes_the_hand_over_stays_the_last_stage() -> None:
    node = fold(joined(), CLOSED, at(5))

    assert (node.record.ready, facts(node).last_stage) == (True, BootstrapStage.CLOSED)


def test_a_hand_over_that_is_accepted_during_cleanup_ends_the_session() -> None:
    node = answered(deleting(handing_over()), BootstrapConvergenceAccepted(), at(5))

    assert facts(node).last_stage is BootstrapStage.CONVERGED
    assert next_command(node, 5) == "DestroyLease"


def test_a_cancel_that_comes_after_the_sessions_own_end_changes_no_fact() -> None:
    node = fold(cancelling(), CLOSED, at(5))

    assert facts(answered(node, BootstrapCancelled(), at(6))) == facts(node)
    assert facts(node).last_stage is BootstrapStage.CLOSED


WAY = [
    BootstrapStage.CREATED,
    BootstrapStage.SSH_CONNECTING,
    BootstrapStage.SSH_READY,
    BootstrapStage.STDOUT_STREAMING,
    BootstrapStage.BOOT_CHECKING,
    BootstrapStage.SWACTOR_STARTING,
    BootstrapStage.WAITING_FOR_SWACTOR_JOIN,
]
"""The way of a session before its end, as the design lists it."""


@pytest.mark.parametrize(("earlier", "later"), list(pairwise(WAY)))
def test_rule_10_stages_follow_the_way_of_a_session_and_never_step_back(
    earlier: BootstrapStage, later: BootstrapStage
) -> None:
    # given a node at the earlier stage, which every session begins at, or has come to
    before = observe(bootstrapping(), observed(earlier), at(1), POLICY)
    assert facts(before).last_stage is earlier

    after = fold(before, observed(later), at(2))

    assert facts(after).last_stage is later
    assert after.progress == join_progress(at(2), POLICY), "a later stage renews the join wait"
    assert refusal(after, observed(earlier)) == "it says nothing new"


@pytest.mark.parametrize("end", [BootstrapStage.CONVERGED, BootstrapStage.CLOSED])
@pytest.mark.parametrize("stage", WAY)
def test_rule_10_no_stage_follows_an_end(stage: BootstrapStage, end: BootstrapStage) -> None:
    # given a deleting node, whose ended session is still told of by a slow stream
    node = fold(deleting(fold(starting(), JOINED)), observed(end))

    ended = started(fold(node, observed(stage)))

    assert facts(ended).last_stage is end


def test_an_error_that_was_told_already_is_no_news() -> None:
    node = fold(bootstrapping(), observed(BootstrapStage.STREAM_ERROR))

    assert refusal(node, observed(BootstrapStage.STREAM_ERROR)) == "it says nothing new"


@pytest.mark.parametrize(("out", "err"), [(7, None), (None, 7)])
def test_lines_of_one_stream_alone_are_news(out: int | None, err: int | None) -> None:
    node = fold(bootstrapping(), observed(BootstrapStage.CREATED, out, err))

    assert (facts(node).last_stdout_seq, facts(node).last_stderr_seq) == (out, err)


# -- what was kept (rule 10) ----------------------------------------------------------------------

ENDS: list[SessionObservation] = [
    CLOSED,
    BootstrapFailed(SESSION, "exit 1"),
    *(
        observed(stage)
        for stage in (
            BootstrapStage.CONVERGED,
            BootstrapStage.CLOSED,
            BootstrapStage.CANCELLED,
            BootstrapStage.SSH_CONNECT_FAILED,
            BootstrapStage.BOOT_CHECK_FAILED,
            BootstrapStage.START_FAILED,
            BootstrapStage.SWACTOR_JOIN_FAILED,
        )
    ),
]


@pytest.mark.parametrize("end", ENDS, ids=str)
def test_rule_10_lines_that_come_behind_a_kept_end_are_not_lost(end: SessionObservation) -> None:
    node = fold(fold(starting(), end), observed(BootstrapStage.STDOUT_STREAMING, 9))

    assert facts(started(node)).last_stdout_seq == 9


@pytest.mark.parametrize("end", ENDS, ids=str)
def test_no_flood_of_output_loses_an_end(end: SessionObservation) -> None:
    node = fold(starting(), end)
    for line in range(100):
        node = fold(node, observed(BootstrapStage.STDOUT_STREAMING, line))

    assert end in node.kept


def test_rule_9_of_several_kept_ends_the_first_fails_and_the_rest_are_refused() -> None:
    # given a failure, which leaves the session to be cancelled, and a closure behind it
    node = started(fold(fold(starting(), BootstrapFailed(SESSION, "exit 1")), CLOSED))

    assert (node.record.failed_reason, node.active_bootstrap) == ("exit 1", SESSION)


def test_rule_9_an_attempt_that_fails_drops_what_was_kept() -> None:
    assert fold(fold(starting(), JOINED), NodeLost("gone")).kept == ()


@pytest.mark.parametrize("answer", [AMBIGUOUS, failed("again", not_run=True)], ids=str)
def test_rule_10_a_start_that_may_have_run_keeps_what_was_kept(
    answer: messages.EffectError,
) -> None:
    # given a start of unknown outcome, tried again, whose join has come
    node = fold(dispatched(answered(starting(), AMBIGUOUS), at(500)), JOINED)

    assert answered(node, answer, at(500)).kept == (JOINED,)


def test_rule_15_an_absence_inside_the_settle_time_drops_nothing() -> None:
    node = fold(dispatched(answered(starting(), AMBIGUOUS), at(500)), JOINED)

    assert answered(node, BootstrapAbsent(conclusive=False), at(500)).kept == (JOINED,)


def test_news_of_a_session_is_not_kept_while_only_a_create_is_ambiguous() -> None:
    node = answered(creating(), AMBIGUOUS)

    assert refusal(node, CLOSED) == "session 41 is not active, no session is"


# -- a machine that no longer answers (rule 17) ---------------------------------------------------


def test_rule_17_a_confirmed_destroy_settles_a_start_that_was_never_found() -> None:
    # given a start of unknown outcome, whose look has failed until it gave way to the destroy
    node = dispatched(deleting(answered(starting(), AMBIGUOUS)), at(10), None)
    node = dispatched(answered(node, failed(), at(11)), at(100), None)
    assert next_command(replace(node, pending=None), 100) == "DestroyLease"

    gone = answered(node, LeaseDestroyed(), at(101))

    assert gone.retry.ambiguous_operation is None
    assert next_command(gone, 101) == "MarkDestroyed"


def test_rule_25_a_cancel_that_never_ran_is_no_failed_cancel() -> None:
    error = failed("withdrawn", Disposition.DEFINITE, not_run=True)

    assert answered(cancelling(), error).cancel_failures == 0
    assert answered(cancelling(), failed()).cancel_failures == 1


# -- values ---------------------------------------------------------------------------------------


def structs() -> Iterator[type[msgspec.Struct]]:
    """Every Struct that `decider` and `messages` give out."""
    for package in (decider, messages):
        for name in dir(package):
            found = getattr(package, name)
            if isinstance(found, type) and issubclass(found, msgspec.Struct):
                yield found


def test_every_value_of_the_decider_is_frozen() -> None:
    # so that no decision can change what it reads (design §3)
    thawed = {found.__name__ for found in structs() if not found.__struct_config__.frozen}

    assert thawed == set()
    assert len(set(structs())) > 60


def test_nothing_is_evaluated_before_the_first_pass() -> None:
    assert (decider.ClusterState().observed_generation, decider.ClusterState().nodes) == (0, {})


def test_ready_leaves_nothing_to_retry() -> None:
    assert (ready().retry, ready().ready_at) == (RetryState(), T0)


def test_whether_a_cluster_has_converged_is_a_plain_yes_or_no() -> None:
    assert is_converged(state_of(ready()), shape()) is False
    assert is_converged(state_of(), shape()) is True

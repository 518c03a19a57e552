"""When what failed may be tried again: stored deadlines and how they spread (spec §11; rule 18)."""

from datetime import UTC, datetime, timedelta

import pytest

from cluster_reconciler.decider import ManagedNode, RetryPolicy
from cluster_reconciler.decider.retry import backoff, later, spread
from cluster_reconciler.decider.state import ATTEMPT_ID_MAX
from cluster_reconciler.messages import (
    EffectError,
    LogicalNodeId,
    NodeAttemptId,
    NodeLost,
    RunId,
)
from tests.decider_words import G0, ONE, T0, answered, bootstrapping, creating, fold

FULL = RetryPolicy(jitter=1.0, seed=5)
SEVEN = RunId(7)


def refused(retry_after: timedelta, policy: RetryPolicy) -> datetime:
    """When a create may be tried again that was refused with this span."""
    node: ManagedNode = answered(
        creating(), EffectError("full", retry_after=retry_after), T0, policy
    )
    assert node.retry.next_effect_at is not None
    return node.retry.next_effect_at


def spreads(span: timedelta, policy: RetryPolicy = FULL) -> list[timedelta]:
    """What is added for a hundred nodes that were told the same span."""
    return [
        spread(policy, SEVEN, LogicalNodeId(f"g-{number}"), ONE, 1, span) for number in range(100)
    ]


def test_rule_18_the_deadline_is_sampled_from_run_node_attempt_and_count() -> None:
    wait = backoff(FULL, SEVEN, G0, ONE, 1)
    lost = fold(bootstrapping(), NodeLost("gone"), T0, FULL)
    refused_create = answered(creating(), EffectError("full"), T0, FULL)

    assert (lost.retry.restart_at, refused_create.retry.next_effect_at) == (T0 + wait, T0 + wait)


@pytest.mark.parametrize(
    ("asked", "most"),
    [(timedelta(seconds=20), timedelta(seconds=20)), (timedelta(hours=1), timedelta(seconds=60))],
)
def test_what_a_provider_asked_for_is_followed_by_a_bounded_spread(
    asked: timedelta, most: timedelta
) -> None:
    # never before; after it, the jitter's share of the span, of no more than the longest delay
    expected = later(T0 + asked, spread(FULL, SEVEN, G0, ONE, 1, most))

    assert refused(asked, FULL) == expected
    assert T0 + asked < expected < T0 + asked + most


def test_nodes_that_were_told_the_same_span_do_not_come_back_together() -> None:
    found = spreads(timedelta(seconds=60))

    assert len(set(found)) == 100
    assert all(timedelta(0) <= wait < timedelta(seconds=60) for wait in found)
    assert max(found) > timedelta(seconds=50)


def test_a_spread_is_in_whole_microseconds_and_no_more_than_the_jitters_share() -> None:
    halved = RetryPolicy(jitter=0.5, seed=5)

    assert [2 * wait for wait in spreads(timedelta(seconds=60), halved)] == pytest.approx(
        spreads(timedelta(seconds=60)), abs=timedelta(microseconds=2)
    )


@pytest.mark.parametrize("jitter", [0, 1])
def test_a_jitter_may_be_written_as_a_whole_number(jitter: int) -> None:
    assert RetryPolicy(jitter=jitter) == RetryPolicy(jitter=float(jitter))


@pytest.mark.parametrize("jitter", [float("nan"), float("inf"), float("-inf")])
def test_a_jitter_that_is_no_finite_number_is_refused(jitter: float) -> None:
    with pytest.raises(ValueError, match="jitter must be between 0 and 1"):
        RetryPolicy(jitter=jitter)


def test_a_count_without_end_costs_nothing_to_work_out() -> None:
    # two to the power of such a count would be a number larger than any memory
    policy = RetryPolicy(jitter=0.0)

    assert backoff(policy, SEVEN, G0, ONE, 10**18) == policy.max_delay


def test_doubling_goes_on_up_to_the_longest_delay_there_is() -> None:
    # given the shortest delay to begin with, so that it takes the most doublings
    least = timedelta(microseconds=1)
    policy = RetryPolicy(initial_delay=least, max_delay=timedelta.max, jitter=0.0)

    assert backoff(policy, SEVEN, G0, ONE, 1000) == timedelta.max


def test_the_end_of_time_is_later_than_any_moment_and_can_be_compared_with_it() -> None:
    assert T0 < later(T0, timedelta.max) == datetime.max.replace(tzinfo=UTC)


def test_a_name_that_no_encoding_takes_has_its_delay_too() -> None:
    assert backoff(FULL, SEVEN, LogicalNodeId("\ud800"), ONE, 1) > timedelta(0)


def test_a_policy_that_names_no_seed_leaves_it_to_the_runtime_to_draw_one() -> None:
    assert RetryPolicy().seed == 0


def test_the_last_attempt_id_is_what_64_bits_hold() -> None:
    assert NodeAttemptId(0xFFFF_FFFF_FFFF_FFFF) == ATTEMPT_ID_MAX

"""Waits between attempts (spec §11; rule 18): exact, bounded, reproducible, never nothing."""

import math
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_reconciler.decider import END_OF_TIME, RetryPolicy, backoff, later
from cluster_reconciler.decider.retry import deadline_after
from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId, RunId
from tests.decider_words import T0, at


def wait(
    policy: RetryPolicy, failures: int, *, node: str = "g-0", run: int = 7, attempt: int = 1
) -> timedelta:
    return backoff(policy, RunId(run), LogicalNodeId(node), NodeAttemptId(attempt), failures)


def test_without_jitter_the_waits_double_up_to_the_cap() -> None:
    waits = [wait(RetryPolicy(jitter=0.0), k).total_seconds() for k in range(1, 10)]

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_defaults_are_those_of_the_design() -> None:
    assert RetryPolicy() == RetryPolicy(
        initial_delay=timedelta(seconds=1),
        max_delay=timedelta(seconds=60),
        jitter=0.5,
        operation_timeout=timedelta(seconds=120),
        endpoint_probe_interval=timedelta(seconds=2),
        endpoint_timeout=timedelta(seconds=600),
        join_timeout=timedelta(seconds=600),
        cancel_timeout=timedelta(seconds=60),
        stable_after=timedelta(seconds=60),
        least_delay=timedelta(milliseconds=10),
    )


@given(
    st.floats(0, 1), st.integers(1, 200), st.integers(0, 2**64), st.text(max_size=8), st.integers(1)
)
def test_jitter_draws_within_the_cap_and_never_below_its_share(
    jitter: float, failures: int, seed: int, node: str, attempt: int
) -> None:
    whole = wait(RetryPolicy(jitter=0.0), failures)

    found = wait(RetryPolicy(jitter=jitter, seed=seed), failures, node=node, attempt=attempt)

    shortest = whole * (1 - jitter) - timedelta(microseconds=1)  # a delay is whole microseconds
    assert max(shortest, timedelta(milliseconds=10)) <= found <= whole


def test_the_same_retry_waits_the_same_and_every_other_one_differs() -> None:
    # given full jitter, and one retry beside others that differ from it in one thing each
    policy = RetryPolicy(jitter=1.0, seed=1)
    others = [
        wait(policy, 7, node="g-1"),
        wait(policy, 7, run=8),
        wait(policy, 7, attempt=2),
        wait(policy, 8),
        wait(RetryPolicy(jitter=1.0, seed=2), 7),
    ]

    assert wait(policy, 7) == wait(policy, 7)
    assert len({wait(policy, 7), *others}) == 6


def test_nodes_that_fail_together_do_not_come_back_together() -> None:
    # given 300 nodes that failed at one instant
    waits = [wait(RetryPolicy(), 5, node=f"g-{i}") for i in range(300)]

    # then their waits fill the second half of the 16 s evenly: no second holds twice its share
    buckets = [sum(1 for w in waits if int(w.total_seconds()) == second) for second in range(8, 16)]
    assert sum(buckets) == 300
    assert max(buckets) < 2 * 300 / 8


def test_a_sample_is_the_same_in_every_version_of_this_code() -> None:
    # pinned: a replayed trace must come to the deadlines that its run had
    assert wait(RetryPolicy(seed=5), 3) == timedelta(microseconds=2555413)


@pytest.mark.parametrize("failures", [1, 2, 50])
@pytest.mark.parametrize("field", ["initial_delay", "max_delay"])
def test_no_policy_makes_the_driver_spin(field: str, failures: int) -> None:
    nothing = {field: timedelta(0)}

    found = wait(RetryPolicy(jitter=1.0, **nothing), failures)  # type: ignore[arg-type]

    assert found == timedelta(milliseconds=10)


def test_the_least_delay_holds_for_probes_and_timeouts_too() -> None:
    policy = RetryPolicy(endpoint_probe_interval=timedelta(0))

    assert deadline_after(T0, policy.endpoint_probe_interval, policy) == at(0.01)
    assert deadline_after(T0, timedelta(seconds=3), policy) == at(3)


@pytest.mark.parametrize("failures", [0, -5])
def test_a_count_that_cannot_be_is_taken_as_the_first(failures: int) -> None:
    assert wait(RetryPolicy(jitter=0.0), failures) == timedelta(seconds=1)


def test_an_endless_count_of_an_endless_delay_saturates() -> None:
    policy = RetryPolicy(initial_delay=timedelta.max, max_delay=timedelta.max, jitter=0.0)

    assert wait(policy, 10**9) == timedelta.max


def test_at_the_end_of_time_a_deadline_saturates() -> None:
    assert later(END_OF_TIME, timedelta(microseconds=1)) == END_OF_TIME
    assert later(T0, timedelta.max) == END_OF_TIME
    assert later(T0, timedelta(seconds=1)) == at(1)
    assert END_OF_TIME.replace(tzinfo=None) == datetime.max  # noqa: DTZ901 - the very last moment


@pytest.mark.parametrize("jitter", [-0.1, 1.1, math.nan, math.inf])
def test_a_jitter_outside_its_range_is_refused_by_name(jitter: float) -> None:
    with pytest.raises(ValueError, match=f"jitter must be between 0 and 1, found {jitter}"):
        RetryPolicy(jitter=jitter)


@pytest.mark.parametrize(
    "field",
    [
        "initial_delay",
        "max_delay",
        "operation_timeout",
        "endpoint_probe_interval",
        "endpoint_timeout",
        "join_timeout",
        "cancel_timeout",
        "stable_after",
    ],
)
def test_a_negative_duration_is_refused_by_name(field: str) -> None:
    negative = {field: timedelta(seconds=-1)}

    with pytest.raises(ValueError, match=f"{field} must not be negative, found -1 day"):
        RetryPolicy(**negative)  # type: ignore[arg-type]


@pytest.mark.parametrize("least", [timedelta(0), timedelta(seconds=-1)])
def test_a_least_delay_of_nothing_is_refused(least: timedelta) -> None:
    with pytest.raises(ValueError, match="least_delay must be greater than 0"):
        RetryPolicy(least_delay=least)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"jitter": True}, "jitter must be between 0 and 1, found True"),
        ({"jitter": "0.5"}, "jitter must be between 0 and 1, found '0.5'"),
        ({"seed": "x"}, "seed must be a whole number, found 'x'"),
        ({"seed": True}, "seed must be a whole number, found True"),
        ({"max_delay": 60}, "max_delay must be a timedelta, found 60"),
        ({"least_delay": 0.01}, "least_delay must be a timedelta, found 0.01"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RetryPolicy(**wrong)  # type: ignore[arg-type]

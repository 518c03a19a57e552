"""The operation ledger and the memory of retired attempts, by themselves."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster_reconciler.executors.ledger import (
    OperationLedger,
    OperationState,
    RetiredAttempts,
    RunningOperation,
    SubmissionRefused,
)
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    CancelBootstrap,
    DestroyLease,
    Disposition,
    EffectError,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    OperationId,
    OperationKind,
    PlannedEffect,
    RunId,
)
from tests.decider_words import LEASE, T0

NODE = LogicalNodeId("g-0")


def effect(sequence: int, session: int = 1) -> PlannedEffect:
    operation = OperationId(NodeAttemptId(1), sequence)
    return PlannedEffect(NODE, operation, CancelBootstrap(BootstrapSessionId(session)))


def answered(ledger: OperationLedger, sequence: int) -> None:
    record = ledger.enter(effect(sequence))
    record.result = ExecutorResult(NODE, effect(sequence).operation)


def test_what_was_entered_is_recognised_by_id_and_input() -> None:
    ledger = OperationLedger()
    record = ledger.enter(effect(1))
    assert ledger.repeated(effect(1)) is record
    assert ledger.repeated(effect(2)) is None
    with pytest.raises(SubmissionRefused, match="other input"):
        ledger.repeated(effect(1, session=2))


def test_only_the_latest_answers_are_kept_and_an_older_id_is_refused() -> None:
    ledger = OperationLedger(kept=3)
    for sequence in range(1, 1001):
        answered(ledger, sequence)
    assert len(ledger) == 3
    with pytest.raises(SubmissionRefused, match="too old: outcomes up to sequence 997"):
        ledger.repeated(effect(997))
    assert ledger.repeated(effect(998)) is not None


def test_what_has_no_answer_is_never_forgotten() -> None:
    ledger = OperationLedger(kept=2)
    ledger.enter(effect(1))
    for sequence in range(2, 10):
        answered(ledger, sequence)
    assert ledger.repeated(effect(1)) is not None


def test_what_was_struck_may_come_again() -> None:
    ledger = OperationLedger()
    ledger.strike(ledger.enter(effect(1)))
    assert ledger.repeated(effect(1)) is None


@given(st.permutations(range(1, 30)), st.integers(min_value=0, max_value=29))
def test_retired_attempts_are_remembered_in_any_order(order: list[int], count: int) -> None:
    retired, expected = RetiredAttempts(), set(order[:count])
    for attempt in order[:count]:
        retired.add(NodeAttemptId(attempt))
        retired.add(NodeAttemptId(attempt))
    assert {n for n in range(-1, 32) if NodeAttemptId(n) in retired} == expected
    gaps = sum(1 for n in expected if n - 1 not in expected)
    assert retired.spans == gaps


def test_a_hundred_thousand_retired_attempts_are_one_span_beside_those_that_live() -> None:
    retired = RetiredAttempts()
    for attempt in range(1, 100_001):
        if attempt not in (7, 70_000):
            retired.add(NodeAttemptId(attempt))
    assert retired.spans == 3


@pytest.mark.parametrize("kept", [0, -1])
def test_a_ledger_that_would_keep_nothing_is_refused(kept: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1 operation must be kept, found kept={kept}"):
        OperationLedger(kept)


def test_a_ledger_that_keeps_one_knows_the_latest() -> None:
    ledger = OperationLedger(kept=1)
    answered(ledger, 1)
    answered(ledger, 2)
    assert ledger.repeated(effect(2)) is ledger.get(effect(2).operation)
    with pytest.raises(SubmissionRefused, match="too old: outcomes up to sequence 1"):
        ledger.repeated(effect(1))


def test_a_refusal_gives_its_reason_for_people_and_for_code() -> None:
    refused = SubmissionRefused("the executors are closed")
    assert (refused.reason, str(refused)) == ("the executors are closed",) * 2


def test_what_never_ran_is_recorded_as_it_is_answered() -> None:
    record = OperationLedger().enter(effect(1))
    result = record.never_ran("withdrawn before it began")
    error = EffectError("withdrawn before it began", Disposition.DEFINITE, not_run=True)
    assert result == ExecutorResult(NODE, effect(1).operation, error=error)
    assert (record.state, record.result) == (OperationState.WITHDRAWN, result)


def test_each_state_of_an_operation_has_its_word() -> None:
    words = ["waiting", "running", "answered", "withdrawn"]
    assert [state.value for state in OperationState] == words


def test_an_id_stays_too_old_when_an_older_one_is_forgotten_after_it() -> None:
    ledger = OperationLedger(kept=1)
    for sequence in (2, 1, 3):
        answered(ledger, sequence)
    with pytest.raises(SubmissionRefused, match="too old: outcomes up to sequence 2"):
        ledger.repeated(effect(2))


def test_an_id_with_other_input_is_refused_with_what_it_was_and_what_it_is() -> None:
    ledger = OperationLedger()
    ledger.enter(effect(1))
    again = replace(effect(1), command=DestroyLease(LEASE.handle))
    told = r"was submitted before .* \(cancel_bootstrap then, destroy_lease now\); use a new"
    with pytest.raises(SubmissionRefused, match=told):
        ledger.repeated(again)


@pytest.mark.parametrize(
    ("since", "told"),
    [(None, ""), (T0.replace(microsecond=5), ", since 2026-01-01T00:00:00+00:00")],
)
def test_what_runs_is_told_with_the_time_since_when(since: datetime | None, told: str) -> None:
    identity = AttemptIdentity(RunId(7), NODE, NodeAttemptId(1))
    operation = effect(4).operation
    running = RunningOperation(identity, operation, OperationKind.CANCEL_BOOTSTRAP, since)
    assert str(running) == f"cancel_bootstrap op(1,4) (run 7, node g-0, attempt 1{told})"
    with pytest.raises(AttributeError, match="immutable"):
        running.since = None  # type: ignore[misc]

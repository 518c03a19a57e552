"""The operation ledger and the memory of retired attempts, by themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_reconciler.executors.ledger import (
    OperationLedger,
    RetiredAttempts,
    SubmissionRefused,
)
from cluster_reconciler.messages import (
    BootstrapSessionId,
    CancelBootstrap,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
)

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

"""The enumeration of dispatch points is not for show: faults planted in the product are caught.

Each plants one fault in ledger, executors, decider or driver, and names the case that catches it
and what that case says.  The same case passes without it (`test_dispatch_points`).
"""

import sys
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors import driver, stepping
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.decider import ManagedNode, RetryPolicy, failures, results, transitions
from cluster_reconciler.executors import Executors
from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.executors.ledger import OperationLedger
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeObservation,
    OperationFailed,
    OperationKind,
    OperationSucceeded,
    RunPass,
)
from tests.dispatch_points.__main__ import replay
from tests.dispatch_points.cases import case_named
from tests.dispatch_points.report import print_failures, tally

pytestmark = pytest.mark.usefixtures("quiet_log")

observe = sys.modules["cluster_reconciler.decider.observe"]
"""The module: the package names the function of that name."""
Refusal = Callable[[ManagedNode, NodeObservation], str | None]
Plant = Callable[[pytest.MonkeyPatch], None]


def the_ledger_forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperationLedger, "repeated", lambda _self, _effect: None)


def adoption_is_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holding, "making", lambda _self: Holding())


def any_absence_is_conclusive(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holding, "not_seen", lambda _self, _asked_at, _settle_time: (Holding(), True))


def what_expired_runs_all_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Executors, "_withdraw", lambda _self, _operation: False)


def nothing_is_retired(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Executors, "retire", lambda _self, _attempt: None)


def late_results_are_folded(patch: pytest.MonkeyPatch) -> None:
    meant: Refusal = observe.refusal

    def refusal(node: ManagedNode, observation: NodeObservation) -> str | None:
        if isinstance(observation, OperationSucceeded | OperationFailed) and node.pending:
            return None
        return meant(node, observation)

    patch.setattr(observe, "refusal", refusal)
    patch.setattr(driver, "observation_refusal", refusal)


def an_old_attempt_is_believed(patch: pytest.MonkeyPatch) -> None:
    def fold(
        self: Driver, node_id: LogicalNodeId, _attempt: int, observation: NodeObservation
    ) -> None:
        node = self.state.nodes.get(node_id)
        if node is not None and observe.refusal(node, observation) is None:
            now = self._host.now()
            self._put(node_id, observe.observe(node, observation, now, self._retry))
            self.request_pass()

    patch.setattr(Driver, "_fold", fold)


def a_start_without_answer_ends_the_attempt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(results, "_MAKING", frozenset({OperationKind.CREATE_LEASE}))


def a_delete_forgets_what_is_pending(patch: pytest.MonkeyPatch) -> None:
    meant = transitions._begin_delete

    def forget(node: ManagedNode, now: datetime, retry: RetryPolicy) -> ManagedNode:
        return replace(meant(node, now, retry), pending=None)

    patch.setattr(transitions, "_begin_delete", forget)


def the_provider_s_wait_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    meant = failures.retry_at

    def retry_at(
        node: ManagedNode, count: int, now: datetime, retry: RetryPolicy, _asked: timedelta | None
    ) -> datetime:
        return meant(node, count, now, retry, None)

    patch.setattr(failures, "retry_at", retry_at)


def a_lost_pass_stays_lost(patch: pytest.MonkeyPatch) -> None:
    def request_pass(self: Driver, *, by_tick: bool = False) -> None:
        if not self.queued:
            self.queued = True
            self._host.tell_driver(RunPass())

    patch.setattr(Driver, "request_pass", request_pass)


def a_converged_cluster_wakes_all_the_same(patch: pytest.MonkeyPatch) -> None:
    def wake_at(self: stepping._World, moment: datetime | None) -> None:
        self.wake = moment or self.now() + timedelta(seconds=60)

    patch.setattr(stepping._World, "wake_at", wake_at)


@pytest.mark.parametrize(
    ("plant", "case", "said"),
    [
        (the_ledger_forgets, "one-node/1/submitted-twice", "of the same attempt is waiting"),
        (the_ledger_forgets, "one-node/4/submitted-again-later", "submitted again it was answered"),
        (adoption_is_skipped, "one-node/1/executor-dies-after-effect", "two machines"),
        (adoption_is_skipped, "late-join/2/raises-unexpected-after-effect", "or sessions"),
        (any_absence_is_conclusive, "one-node/1/reads-stale-1", "machines that nobody knows of"),
        (
            what_expired_runs_all_the_same,
            "one-node/1/executor-stalled",
            "was withdrawn has run",
        ),
        (nothing_is_retired, "one-node/4/reply-doubled-at-once", "1 attempts are remembered"),
        (late_results_are_folded, "one-node/1/reply-late-into-next-operation", "pending is"),
        (an_old_attempt_is_believed, "other-spec/1/late-news-lost", "a wedge"),
        (
            a_start_without_answer_ends_the_attempt,
            "one-node/2/reply-lost",
            "has used 2 attempts",
        ),
        (a_delete_forgets_what_is_pending, "one-node/1/shape-to-zero-underway", "changed more"),
        (
            the_provider_s_wait_is_not_kept,
            "one-node/1/raises-definite-retry-after-before-effect",
            "was dispatched at",
        ),
        (a_lost_pass_stays_lost, "one-node/2/pass-lost", "a wedge"),
        (a_converged_cluster_wakes_all_the_same, "one-node/1/reply-doubled-at-once", "passes"),
    ],
)
def test_a_fault_that_is_planted_in_the_product_is_caught(
    plant: Plant, case: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a case that passes, which also settles what its scenario needs without any fault
    found = case_named(case)
    found.live()

    # when the product is wrong
    plant(monkeypatch)

    # then the case says so
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its words are what is compared
        found.live()
    assert said in str(caught.value)


def test_a_failed_case_is_told_with_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "one-node/2/pass-lost"
    found = case_named(name)
    found.live()
    a_lost_pass_stays_lost(monkeypatch)

    told = tally((found,))
    print_failures(told)
    failed = capsys.readouterr().out.splitlines()
    code = replay(name)

    assert (failed[1], failed[-1]) == (
        name,
        f"  replay: python -m tests.dispatch_points --case {name}",
    )
    assert (told.cases.total(), len(told.failures), code) == (1, 1, 1)
    assert "AssertionError: a wedge" in capsys.readouterr().out

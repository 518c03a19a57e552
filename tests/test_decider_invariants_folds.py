"""The invariants of a fold can fail: each fact comes, stays and goes only with what can bring it.

The other steps, and what the words mean, stand in `test_decider_invariants_changes`.
"""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ManagedNode,
)
from cluster_reconciler.messages import (
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapFacts,
    BootstrapSessionId,
    BootstrapStage,
    LeaseCreated,
    LocalEndpoint,
    NodeStage,
    OperationId,
    SwactorFacts,
    SwactorId,
)
from tests.decider_words import (
    AMBIGUOUS,
    ENDPOINT,
    LEASE,
    OTHER_SPEC,
    SESSION,
    T0,
    answered,
    at,
    bootstrapping,
    cancelling,
    creating,
    deleting,
    destroying,
    dispatched,
    failed,
    fold,
    handing_over,
    joined,
    leased,
    looking_up,
    new,
    reachable,
    ready,
    starting,
    with_failures,
)
from tests.test_decider_invariants import (
    Broken,
    lost,
    recorded,
    retrying,
    unsure_create,
)
from tests.test_decider_invariants_changes import Ends, changing

FACTS = BootstrapFacts(SESSION)


def told(node: ManagedNode, **facts: object) -> ManagedNode:
    """The node with other facts of its session."""
    return recorded(node, bootstrap=replace(node.record.bootstrap or FACTS, **facts))


def idle(node: ManagedNode) -> ManagedNode:
    """The node without what was pending."""
    return replace(node, pending=None)


def unsure_of(node: ManagedNode, sequence: int) -> ManagedNode:
    operation = OperationId(node.attempt, sequence)
    return retrying(node, ambiguous_operation=operation, ambiguous_since=T0)


def cancels(node: ManagedNode, count: int) -> ManagedNode:
    return replace(node, cancel_failures=count)


def ready_with(**facts: object) -> ManagedNode:
    return replace(ready(), **facts)


def deleting_lookup() -> ManagedNode:
    return deleting(looking_up())


def overtaken() -> ManagedNode:
    """Ready by a closure, and the hand-over is still out."""
    return fold(handing_over(), BootstrapClosed(SESSION))


def renamed(**facts: object) -> Ends:
    return lambda: (new(), recorded(new(), **facts))


def retimed(**times: object) -> Ends:
    return lambda: (deleting(new()), replace(deleting(new()), **times))


FOLDED: list[tuple[str, Ends]] = [
    ("changed what it must not", lambda: (new(), recorded(new(), desired=OTHER_SPEC))),
    ("changed what it must not", renamed(logical_node_id="g-1")),
    ("changed what it must not", renamed(run_id=8)),
    ("changed what it must not", renamed(group_id="h")),
    ("changed what it must not", renamed(role="helper")),
    ("changed what it must not", retimed(started_at=at(1))),
    ("changed what it must not", retimed(deleting_since=at(1))),
    ("changed what it must not", lambda: (leased(), replace(leased(), next_operation_sequence=1))),
    (
        "changed what it must not",
        lambda: (deleting(new()), replace(deleting(new()), cancel_deadline=at(999))),
    ),
    (
        "failed or deleting, and moved from lease_requested to lease_created",
        lambda: (
            deleting(creating()),
            recorded(
                answered(deleting(creating()), LeaseCreated(LEASE)), stage=NodeStage.LEASE_CREATED
            ),
        ),
    ),
    ("failed or deleting, and moved from failed", lambda: (lost(), reachable())),
    (
        "stdout back",
        lambda: (told(bootstrapping(), last_stdout_seq=1), told(bootstrapping())),
    ),
    (
        "stderr back",
        lambda: (told(bootstrapping(), last_stderr_seq=1), told(bootstrapping())),
    ),
    (
        "went back from dormant to swactor_joined",
        lambda: (ready(), recorded(ready(), stage=NodeStage.SWACTOR_JOINED, ready=False)),
    ),
    (
        "a lease came with the answer of None",
        lambda: (idle(creating()), leased()),
    ),
    (
        "the lease went with the answer of cancel_bootstrap",
        lambda: (
            cancelling(),
            recorded(answered(cancelling(), BootstrapCancelled()), lease=None, connection=None),
        ),
    ),
    (
        "its lease is another",
        lambda: (leased(), recorded(leased(), lease=replace(LEASE, lease_id="lease-2"))),
    ),
    (
        "its endpoint moved or went",
        lambda: (reachable(), recorded(reachable(), connection=LocalEndpoint("elsewhere"))),
    ),
    (
        "an endpoint came with the answer of None",
        lambda: (leased(), recorded(leased(), connection=ENDPOINT, stage=NodeStage.ENDPOINT_KNOWN)),
    ),
    (
        "a session came with the answer of None",
        lambda: (idle(starting()), bootstrapping()),
    ),
    (
        "the facts of its session were forgotten",
        lambda: (deleting(bootstrapping()), recorded(deleting(bootstrapping()), bootstrap=None)),
    ),
    (
        "a second session, 42",
        lambda: (bootstrapping(), told(bootstrapping(), session_id=BootstrapSessionId(42))),
    ),
    (
        "stage went back",
        lambda: (
            told(bootstrapping(), furthest_stage=BootstrapStage.BOOT_CHECKING),
            bootstrapping(),
        ),
    ),
    (
        "stdout back",
        lambda: (told(bootstrapping(), last_stdout_seq=5), told(joined(), last_stdout_seq=4)),
    ),
    ("stderr back", lambda: (told(bootstrapping(), last_stderr_seq=5), bootstrapping())),
    (
        "took news of its session after it had failed",
        lambda: (lost(bootstrapping()), told(lost(bootstrapping()), last_stdout_seq=4)),
    ),
    (
        "session 41 came back",
        lambda: (
            fold(deleting(bootstrapping()), BootstrapClosed(SESSION)),
            told(deleting(bootstrapping()), furthest_stage=BootstrapStage.CLOSED),
        ),
    ),
    (
        "the session was dropped at created, which is no end",
        lambda: (cancelling(), idle(replace(cancelling(), active_bootstrap=None))),
    ),
    (
        "a join was forgotten",
        lambda: (deleting(joined()), recorded(deleting(joined()), swactor=None)),
    ),
    (
        "joined a second time",
        lambda: (joined(), recorded(joined(), swactor=SwactorFacts(SwactorId("other"), T0))),
    ),
    (
        "joined without a session",
        lambda: (
            fold(deleting(bootstrapping()), BootstrapClosed(SESSION)),
            recorded(
                fold(deleting(bootstrapping()), BootstrapClosed(SESSION)),
                swactor=SwactorFacts(SwactorId("s"), T0),
            ),
        ),
    ),
    (
        "joined after it had failed",
        lambda: (
            lost(bootstrapping()),
            recorded(lost(bootstrapping()), swactor=SwactorFacts(SwactorId("s"), T0)),
        ),
    ),
    (
        "ready without a session that could end",
        lambda: (
            replace(ready(), ready_at=None, record=replace(joined().record, bootstrap=FACTS)),
            told(ready(), last_stage=BootstrapStage.CONVERGED),
        ),
    ),
    (
        "ready without a session that could end",
        lambda: (
            replace(joined(), active_bootstrap=None, next_operation_sequence=4),
            ready(),
        ),
    ),
    (
        "ready has kept 3 failures of 0",
        lambda: (handing_over(), ready_with(failures_before_ready=3)),
    ),
    (
        "ready no more, and it neither failed nor is deleting",
        lambda: (ready(), recorded(ready(), ready=False)),
    ),
    ("ready since (datetime", lambda: (ready(), ready_with(ready_at=at(9)))),
    (
        "ready since (None, 2), was (None, 0)",
        lambda: (new(), replace(new(), failures_before_ready=2)),
    ),
    (
        "op(1,1) is ambiguous, answered was None",
        lambda: (idle(creating()), unsure_of(idle(creating()), 1)),
    ),
    (
        "op(1,1) is ambiguous, answered was PendingOperation",
        lambda: (starting(), unsure_of(idle(starting()), 1)),
    ),
    (
        "op(1,2) is ambiguous, answered was PendingOperation",
        lambda: (looking_up(), unsure_of(idle(looking_up()), 2)),
    ),
    (
        "the ambiguity moved from op(1,1) to op(1,2)",
        lambda: (
            dispatched(unsure_create(), at(9)),
            unsure_of(answered(dispatched(unsure_create(), at(9)), AMBIGUOUS), 2),
        ),
    ),
    (
        "the ambiguity of op(1,1) went with the answer of None",
        lambda: (
            unsure_create(),
            retrying(unsure_create(), ambiguous_operation=None, ambiguous_since=None),
        ),
    ),
    (
        "failed twice",
        lambda: (lost(), recorded(lost(), failed_reason="again")),
    ),
    ("failed twice", lambda: (deleting(lost()), retrying(deleting(lost()), restart_at=at(99)))),
    (
        "failed while deleting",
        lambda: (
            deleting(leased()),
            recorded(deleting(leased()), failed_at=T0, failed_reason="late"),
        ),
    ),
    ("failed, and counts 2 after 0", lambda: (leased(), with_failures(lost(leased()), 2))),
    (
        "failed, and counts 1 after 4",
        lambda: (with_failures(leased(), 4), lost(leased())),
    ),
    (
        "counts 0 failures after 4, and is not ready",
        lambda: (with_failures(creating(), 4), leased()),
    ),
    ("counts a failure of nothing", lambda: (new(), with_failures(new(), 1))),
    (
        "counts 2 failures after 0, and is not ready",
        lambda: (overtaken(), with_failures(idle(overtaken()), 2)),
    ),
    (
        "failed or deleting, and counts a failure of lookup_endpoint",
        lambda: (
            unsure_of(deleting_lookup(), 1),
            with_failures(idle(unsure_of(deleting_lookup(), 1)), 1),
        ),
    ),
    (
        "counts a failed cancel of nothing",
        lambda: (deleting(bootstrapping()), cancels(deleting(bootstrapping()), 1)),
    ),
    (
        "failed or deleting, and counts a failure of lookup_endpoint",
        lambda: (
            deleting_lookup(),
            with_failures(answered(deleting_lookup(), failed()), 1),
        ),
    ),
    (
        "failed or deleting, and counts a failure of create_lease",
        lambda: (deleting(creating()), with_failures(answered(deleting(creating()), failed()), 1)),
    ),
    (
        "its next effect was moved by nothing",
        lambda: (new(), retrying(new(), next_effect_at=at(9))),
    ),
    (
        "its next effect was moved by nothing",
        lambda: (unsure_create(), retrying(unsure_create(), next_effect_at=None)),
    ),
    (
        "counts a failed cancel of nothing",
        lambda: (destroying(), cancels(answered(destroying(), failed()), 1)),
    ),
    (
        "lookup_endpoint would be asked again at once",
        lambda: (looking_up(), idle(looking_up())),
    ),
    ("cancel_bootstrap would be asked again", lambda: (cancelling(), idle(cancelling()))),
    ("destroy_lease would be asked again", lambda: (destroying(), idle(destroying()))),
    (
        "create_lease would be asked again at once",
        lambda: (
            dispatched(deleting(unsure_create()), at(9)),
            retrying(
                idle(dispatched(deleting(unsure_create()), at(9))),
                next_effect_at=None,
            ),
        ),
    ),
    (
        "counts 2 failed cancels at once",
        lambda: (cancelling(), cancels(answered(cancelling(), failed()), 2)),
    ),
]

BROKEN_FOLDS: list[Broken] = [(says, changing(ends)) for says, ends in FOLDED]


@pytest.mark.parametrize(("says", "check"), BROKEN_FOLDS)
def test_a_broken_fold_is_named(says: str, check: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        check()

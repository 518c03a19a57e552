"""The invariants of a step can fail: every assertion is shown a change that it must name.

Both ends of each change come from the real decider; one of them is then given what no single step
could have brought or taken.
"""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    ManagedNode,
    ProgressDeadline,
    ProgressWait,
    check_step,
)
from cluster_reconciler.decider.failures import join_progress
from cluster_reconciler.decider.invariants import check_change
from cluster_reconciler.messages import (
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapConvergenceAccepted,
    BootstrapObserved,
    BootstrapStage,
    BootstrapStarted,
    EndpointLookup,
    LeaseAbsent,
    LeaseDestroyed,
    NodeAttemptId,
    NodeLost,
    NodeStage,
)
from tests.decider_words import (
    ENDPOINT,
    G0,
    JOINED,
    LEASE,
    LEASED,
    POLICY,
    SESSION,
    answered,
    at,
    bootstrapping,
    cancelling,
    cleaned_up,
    creating,
    deleting,
    destroyed,
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
    state_of,
    with_failures,
)
from tests.test_decider_invariants import (
    CREATE,
    LOOK_UP,
    Broken,
    failed_and_gone,
    lost,
    out,
    recorded,
    retrying,
    unsure_create,
    unsure_start,
)

Ends = Callable[[], tuple[ManagedNode | None, ManagedNode | None]]


def fresh(at_time: float = 100, **facts: object) -> ManagedNode:
    """The attempt that a restart of `failed_and_gone` brings, at some time."""
    retry = replace(
        new().retry,
        consecutive_failures=1,
        last_error="the node is lost: gone",
        last_error_attempt=NodeAttemptId(1),
    )
    return replace(new(attempt=100), started_at=at(at_time), retry=retry, **facts)


LIVES: list[tuple[str, Ends]] = [
    ("there was no node, and there is none", lambda: (None, None)),
    ("attempt 99 was not taken from 100 up to 101", lambda: (None, new(attempt=99))),
    ("attempt 101 was not taken from 100 up to 101", lambda: (destroyed(), new(attempt=101))),
    ("begins with a past: intent deleting", lambda: (None, deleting(new(attempt=100)))),
    (
        "begins with a past: record",
        lambda: (None, recorded(new(attempt=100), lease=LEASE)),
    ),
    (
        "begins with a past: retry",
        lambda: (None, with_failures(new(attempt=100), 1)),
    ),
    ("reaped before destroyed", lambda: (cleaned_up(), None)),
    ("restarted before destroyed", lambda: (cleaned_up(), new(attempt=100))),
    (
        "a restart changed the failure count from 1 to 0",
        lambda: (failed_and_gone(), new(attempt=100)),
    ),
    (
        "begins with a past: active_bootstrap 41",
        lambda: (failed_and_gone(), fresh(active_bootstrap=SESSION)),
    ),
    (
        "begins with a past: next_operation_sequence 5",
        lambda: (failed_and_gone(), fresh(next_operation_sequence=5)),
    ),
    (
        "restarted at no time",
        lambda: (destroyed(), replace(new(attempt=100), started_at=None)),
    ),
    (
        "restarted at 2026-01-01 00:00:00+00:00, not due before 2026-01-01 00:00:01",
        lambda: (failed_and_gone(), fresh(0)),
    ),
    (
        "changed after it was destroyed: record",
        lambda: (destroyed(), recorded(destroyed(), destroyed_at=at(9))),
    ),
    ("a deletion was taken back", lambda: (deleting(new()), new())),
    (
        "BeginDelete changed more: pending None",
        lambda: (creating(), replace(deleting(creating()), pending=None)),
    ),
    (
        "BeginDelete changed more: record",
        lambda: (leased(), recorded(deleting(leased()), lease=None)),
    ),
    (
        "BeginDelete changed more: active_bootstrap None",
        lambda: (bootstrapping(), replace(deleting(bootstrapping()), active_bootstrap=None)),
    ),
    (
        "BeginDelete changed more: retry",
        lambda: (unsure_create(), retrying(deleting(unsure_create()), next_effect_at=None)),
    ),
    (
        "marked destroyed, but it held",
        lambda: (destroying(), replace(destroyed(), next_operation_sequence=5)),
    ),
    (
        "marked destroyed, but it held (None, None, None, OperationId(attempt=1, sequence=1))",
        lambda: (deleting(unsure_create()), destroyed(deleting(unsure_create()))),
    ),
    (
        "MarkDestroyed changed more: next_operation_sequence 9",
        lambda: (cleaned_up(), replace(destroyed(), next_operation_sequence=9)),
    ),
]
RECORDED: list[tuple[str, Ends]] = [
    ("op(1,2) overtook", lambda: (creating(), out(creating(), CREATE))),
    ("overtook", lambda: (creating(), replace(out(new(), CREATE, adopt_only=True)))),
    ("op(1,2) is not the next operation op(1,1)", lambda: (new(), starting())),
    ("lookup_endpoint recorded, nothing was to do", lambda: (ready(), out(ready(), LOOK_UP))),
    ("create_lease recorded, nothing was to do", lambda: (lost(new()), out(lost(new()), CREATE))),
    (
        "lookup_endpoint recorded while deleting",
        lambda: (deleting(leased()), out(deleting(leased()), LOOK_UP)),
    ),
    (
        "create_lease recorded while deleting",
        lambda: (deleting(unsure_create()), out(deleting(unsure_create()), CREATE)),
    ),
    (
        "recording changed more: progress",
        lambda: (
            unsure_start(),
            replace(dispatched(unsure_start(), at(9)), progress=join_progress(at(9), POLICY)),
        ),
    ),
    (
        "a start without an end of its wait",
        lambda: (reachable(), replace(starting(), progress=None)),
    ),
    (
        "recording changed more: progress",
        lambda: (
            reachable(),
            replace(starting(), progress=ProgressDeadline(ProgressWait.ENDPOINT, at(600))),
        ),
    ),
    ("recording changed more: record", lambda: (new(), recorded(creating(), stage=NodeStage.NEW))),
    ("recording changed more: retry", lambda: (new(), with_failures(creating(), 1))),
]


def changing(ends: Ends) -> Callable[[], object]:
    """The check of that change; attempt 100 is the one that it may take."""
    before, after = NodeAttemptId(100), NodeAttemptId(101)

    def check() -> None:
        old, new_value = ends()
        check_change(G0, old, new_value, next_before=before, next_after=after)

    return check


BROKEN_STEPS: list[Broken] = [
    (
        "the attempt allocator went back from 9 to 8",
        lambda: check_step(state_of(next_attempt=9), state_of(next_attempt=8)),
    ),
    (
        "observed_generation went back from 2 to 1",
        lambda: check_step(
            replace(ClusterState(), observed_generation=2),
            replace(ClusterState(), observed_generation=1),
        ),
    ),
    (
        "g-0: attempt 100 was not taken from 100 up to 100",
        lambda: check_step(state_of(), state_of(new(attempt=100))),
    ),
    (
        "g-0: attempt 99 was not taken from 100 up to 101",
        lambda: check_step(state_of(next_attempt=100), state_of(new(attempt=99), next_attempt=101)),
    ),
    ("g-0: reaped before destroyed", lambda: check_step(state_of(leased()), state_of())),
    *((says, changing(ends)) for says, ends in LIVES + RECORDED),
]


@pytest.mark.parametrize(("says", "check"), BROKEN_STEPS)
def test_a_broken_step_is_named(says: str, check: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        check()


CREATED = BootstrapStage.CREATED


def gave_way(node: ManagedNode) -> ManagedNode:
    """The node after its cancel, or look, has failed; it gives way a minute later."""
    return answered(node, failed(), at(9))


def looking_for_start() -> ManagedNode:
    return dispatched(deleting(unsure_start()), at(9), None)


def streamed(lines: int) -> ManagedNode:
    """So many lines of both streams have come."""
    return fold(bootstrapping(), BootstrapObserved(SESSION, CREATED, lines, lines))


def _kept_until_started() -> tuple[ManagedNode, ManagedNode]:
    """The join and the closure were kept: the start's answer makes the node ready in one step."""
    waiting = fold(fold(starting(), JOINED), BootstrapClosed(SESSION))
    return waiting, answered(waiting, BootstrapStarted(SESSION))


HEALTHY: list[Ends] = [
    lambda: (None, new(attempt=100)),
    lambda: (failed_and_gone(), fresh()),
    # exactly when it is due; and what did not fail waits for nothing
    lambda: (failed_and_gone(), fresh(1)),
    lambda: (destroyed(), replace(new(attempt=100), started_at=at(0))),
    lambda: (destroyed(), None),
    lambda: (creating(), deleting(creating())),
    lambda: (cleaned_up(), destroyed()),
    lambda: (new(), creating()),
    lambda: (reachable(), starting()),
    lambda: (deleting(leased()), dispatched(deleting(leased()))),
    lambda: (creating(), answered(creating(), LEASED)),
    lambda: (looking_up(), answered(looking_up(), EndpointLookup(ENDPOINT))),
    lambda: (looking_up(), answered(looking_up(), LeaseAbsent())),
    lambda: (bootstrapping(), joined()),
    lambda: (handing_over(), answered(handing_over(), BootstrapConvergenceAccepted())),
    lambda: (handing_over(), fold(handing_over(), BootstrapClosed(SESSION))),
    _kept_until_started,
    lambda: (ready(), lost(ready())),
    lambda: (
        replace(ready(), failures_before_ready=3),
        fold(replace(ready(), failures_before_ready=3), NodeLost("soon")),
    ),
    # lost long after it became ready: what it had failed before counts no more
    lambda: (
        replace(ready(), failures_before_ready=3),
        fold(replace(ready(), failures_before_ready=3), NodeLost("late"), at(1000)),
    ),
    lambda: (
        with_failures(handing_over(), 4),
        answered(with_failures(handing_over(), 4), BootstrapConvergenceAccepted()),
    ),
    lambda: (destroying(), answered(destroying(), LeaseDestroyed())),
    lambda: (cancelling(), answered(cancelling(), failed())),
    # the machine of a session, or start, that never answered goes, and takes it along
    lambda: (
        dispatched(gave_way(cancelling()), at(100), None),
        answered(dispatched(gave_way(cancelling()), at(100), None), LeaseDestroyed(), at(100)),
    ),
    lambda: (
        dispatched(gave_way(looking_for_start()), at(100), None),
        answered(
            dispatched(gave_way(looking_for_start()), at(100), None), LeaseDestroyed(), at(100)
        ),
    ),
    lambda: (streamed(3), fold(streamed(3), BootstrapObserved(SESSION, CREATED, 5, 5))),
    # the session's own end came before the cancel's answer: the destroy may follow at once
    lambda: (
        fold(cancelling(), BootstrapClosed(SESSION)),
        answered(fold(cancelling(), BootstrapClosed(SESSION)), BootstrapCancelled()),
    ),
    # an earlier create is still in doubt, so that its retry's failure counts while deleting
    lambda: (
        deleting(dispatched(unsure_create(), at(9))),
        answered(deleting(dispatched(unsure_create(), at(9))), failed(), at(9)),
    ),
    lambda: (
        dispatched(unsure_start(), at(9)),
        answered(dispatched(unsure_start(), at(9)), failed(), at(9)),
    ),
    lambda: (
        deleting(bootstrapping()),
        fold(deleting(bootstrapping()), BootstrapObserved(SESSION, BootstrapStage.CANCELLED)),
    ),
]


def test_a_step_that_takes_the_next_attempt_passes() -> None:
    check_step(state_of(next_attempt=100), state_of(new(attempt=100), next_attempt=101))


@pytest.mark.parametrize("ends", HEALTHY)
def test_a_step_of_the_decider_passes(ends: Ends) -> None:
    changing(ends)()


def test_only_what_changed_is_looked_at() -> None:
    # given two nodes, one of them by the same value as before though no step could bring it
    broken = recorded(new(attempt=2), lease=LEASE)
    before = replace(state_of(creating()), nodes={G0: creating(), "b-0": broken})
    after = replace(before, nodes={G0: leased(), "b-0": broken})

    check_step(before, after)

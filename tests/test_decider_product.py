"""Every combination of facts that a stage allows: which row fires, and one step on from there.

Facts, intent, pending, backoff, desired, ambiguity, cancel state: their product.  Unlike the walk
this asks for no history: what is consistent is tried, whether or not any history leads to it.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ManagedNode,
    PendingOperation,
    RetryState,
    check_plan,
    check_state,
    expand_shape,
    reconcile,
    reconcile_node,
    row_of,
)
from cluster_reconciler.decider.node import is_steady
from cluster_reconciler.messages import (
    LogicalNodeSpec,
    NodeLost,
    OperationId,
    OperationKind,
)
from tests.decider_walk import SHAPES, Place, moves
from tests.decider_words import (
    G0,
    OTHER_SPEC,
    SPEC,
    T0,
    at,
    bootstrapping,
    creating,
    deleting,
    destroyed,
    fold,
    group,
    joined,
    leased,
    new,
    reachable,
    ready,
    shape,
    state_of,
)

NOW = at(100)
STAGES = {
    "new": new(),
    "requested": replace(creating(), pending=None),
    "leased": leased(),
    "reachable": reachable(),
    "bootstrapping": bootstrapping(),
    "joined": joined(),
    "ready": ready(),
}
DESIRED: dict[str, LogicalNodeSpec | None] = {"same": SPEC, "other": OTHER_SPEC, "absent": None}
WAITS = {"due": None, "ahead": at(101)}
CANCELS = {"trying": (0, at(99)), "failing": (1, at(101)), "gave way": (1, at(99))}
"""How often cancels failed, and when they give way."""

Case = tuple[str, str, str, str, str, bool, str]


PENDING = {
    "new": OperationKind.CREATE_LEASE,
    "requested": OperationKind.CREATE_LEASE,
    "leased": OperationKind.LOOKUP_ENDPOINT,
    "reachable": OperationKind.START_BOOTSTRAP,
    "joined": OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED,
    "ready": OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED,
}
"""What can be out; a ready node's hand-over was overtaken by a closure."""


def with_pending(node: ManagedNode, stage: str, *, adopt_only: bool) -> ManagedNode:
    """An operation is out that the node could have asked for."""
    kind = PENDING.get(stage, OperationKind.CANCEL_BOOTSTRAP)
    operation = OperationId(node.attempt, node.next_operation_sequence)
    return replace(
        node,
        pending=PendingOperation(operation, kind, at(150), adopt_only),
        next_operation_sequence=node.next_operation_sequence + 1,
    )


def built(case: Case) -> ManagedNode | None:
    """The node of the case; None where the facts exclude each other."""
    stage, life, pending, wait, _, unsure, cancel = case
    node = STAGES[stage]
    making = node.record.lease is None or node.record.connection is not None
    if unsure and (node.active_bootstrap is not None or node.record.ready or not making):
        return None  # only a create or a start is ambiguous, until its lease or session is known
    if node.record.ready and wait == "ahead":
        return None  # ready has cleared every deadline
    if not life.endswith("deleting") and (
        cancel != "trying" or (pending == "pending" and stage == "bootstrapping")
    ):
        return None  # cancels come with cleanup; a running session is awaited with nothing out
    if unsure:
        operation = OperationId(node.attempt, node.next_operation_sequence)
        node = replace(
            node,
            next_operation_sequence=node.next_operation_sequence + 1,
            retry=replace(node.retry, ambiguous_operation=operation, ambiguous_since=T0),
        )
    if life.startswith("failed"):
        node = fold(node, NodeLost("gone"))
    if life.endswith("deleting"):
        failures, gives_way = CANCELS[cancel]
        node = replace(deleting(node), cancel_failures=failures, cancel_deadline=gives_way)
    if pending == "pending":
        node = with_pending(node, stage, adopt_only=unsure and life.endswith("deleting"))
    return replace(node, retry=replace(node.retry, next_effect_at=WAITS[wait]))


@cache
def cases() -> dict[Case, ManagedNode]:
    """Everything that is consistent."""
    lives = ("active", "failed", "deleting", "failed, deleting")
    every = product(STAGES, lives, ("pending", "idle"), WAITS, DESIRED, (False, True), CANCELS)
    return {case: node for case in every if (node := built(case)) is not None}


def gone() -> Iterator[tuple[ManagedNode, str, str]]:
    """Destroyed nodes: by failure or not, the restart ahead or due."""
    for wanted, restart in product(DESIRED, (None, at(99), at(100), at(101))):
        retry = RetryState(1 if restart else 0, restart_at=restart)
        expected = "reap" if wanted == "absent" else "restart"
        if restart == at(101) and wanted != "absent":
            expected = "await restart"
        yield replace(destroyed(), retry=retry), wanted, expected


def row_by_the_specification(case: Case) -> str:
    """The row, said once more in the words of §7.2 and the design rather than of the code."""
    stage, life, pending, wait, wanted, unsure, cancel = case
    if not life.endswith("deleting"):
        if wanted != "same":
            return {"absent": "undesired", "other": "other spec"}[wanted]
        if life == "failed":
            return "failed"
    if pending == "pending":
        return "pending"
    leasing = stage in {"new", "requested"}
    if life.endswith("deleting"):
        if leasing and not unsure:
            return "mark destroyed"
        if wait == "ahead":
            return "cleanup backoff"
        if leasing:
            return "adopt create"
        if unsure and cancel != "gave way":
            return "adopt start"
        if stage in {"bootstrapping", "joined"} and cancel != "gave way":
            return "cancel"
        return "destroy"
    if wait == "ahead":
        return "backoff"
    return {
        "new": "create",
        "requested": "create",
        "leased": "look up",
        "reachable": "start",
        "bootstrapping": "await join",
        "joined": "hand over",
        "ready": "ready",
    }[stage]


def test_each_combination_meets_the_row_that_the_specification_says() -> None:
    found = {case: row_of(node, DESIRED[case[4]], NOW).name for case, node in cases().items()}

    assert len(found) > 600
    assert found == {case: row_by_the_specification(case) for case in cases()}


def test_what_is_destroyed_is_reaped_or_restarted_when_due() -> None:
    for node, wanted, expected in gone():
        assert row_of(node, DESIRED[wanted], NOW).name == expected


def test_the_cheap_guard_and_the_table_agree() -> None:
    for (_, _, _, _, wanted, _, _), node in cases().items():
        desired = DESIRED[wanted]
        if desired is None:
            continue
        row = row_of(node, desired, NOW)
        assert is_steady(node, desired) == (row.name == "ready")
        assert reconcile_node(node, desired, NOW) == row.decide(node, desired, NOW)


@pytest.mark.parametrize("wanted", DESIRED)
def test_one_step_on_from_each_combination_every_invariant_holds(wanted: str) -> None:
    # when its decision is applied, or any outcome, error, observation or deadline is folded
    # (the walk's shape 0 is `a`, which the node is given as its spec, or not)
    taken = 0
    spec, index = {"same": ("a", 0), "other": ("b", 0), "absent": ("a", 2)}[wanted]
    for case, node in cases().items():
        if wanted == case[4]:
            record = replace(node.record, desired=SHAPES["ab".index(spec)].nodes[G0])
            state = state_of(replace(node, record=record))
            check_state(state)
            taken += sum(1 for _ in moves(Place(state, index, NOW)))

    assert taken > 2_000


def test_a_plan_for_each_combination_is_sound() -> None:
    shapes = {
        "same": expand_shape(shape(group())),
        "other": expand_shape(shape(group(command="another command"))),
        "absent": expand_shape(shape()),
    }
    for case, node in cases().items():
        state, desired = state_of(node), shapes[case[4]]
        plan = reconcile(state, desired, NOW)
        check_plan(state, desired, NOW, plan)
        assert [action.node for action in plan.actions] in ([], [G0])

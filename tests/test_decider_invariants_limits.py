"""The invariants of limits, determinism, a dispatch and convergence can fail; and what the decider
really answers passes them all.
"""

import re
from collections.abc import Callable
from datetime import datetime
from itertools import product

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ATTEMPT_ID_MAX,
    ClusterState,
    Dispatch,
    ExpandedShape,
    ManagedNode,
    NodeAction,
    ReconcilePlan,
    check_converged,
    check_dispatch,
    check_plan,
    expand_shape,
    invariants,
    reconcile,
)
from cluster_reconciler.decider.invariants import check_correlation, check_owner
from cluster_reconciler.messages import (
    BootstrapClosed,
    CreateLease,
    DestroyLease,
    LogicalNodeId,
    NodeAttemptId,
    NodeLost,
    NodeObservation,
    OperationFailed,
    OperationId,
    OperationSucceeded,
    PlannedEffect,
    ProviderKind,
    ProviderLimits,
)
from tests.decider_words import (
    AMBIGUOUS,
    G0,
    LEASED,
    SESSION,
    SPEC,
    T0,
    at,
    bootstrapping,
    cancelling,
    cleaned_up,
    creating,
    deleting,
    destroyed,
    destroying,
    dispatched,
    fold,
    group,
    handing_over,
    joined,
    leased,
    looking_up,
    new,
    reachable,
    ready,
    shape,
    starting,
    state_of,
    with_failures,
)
from tests.test_decider_invariants import (
    HEALTHY,
    Broken,
    failed_and_gone,
    lost,
    unsure_create,
    unsure_start,
)
from tests.test_decider_invariants_plans import (
    HANDLE,
    NONE,
    ONE,
    OTHER,
    cancel_gave_way,
    effect,
    exhausted,
    planned,
)

G1 = LogicalNodeId("g-1")
ATTEMPT_1 = NodeAttemptId(1)


THREE = shape(group(count=3)).expand()


def beside(node: ManagedNode, number: int) -> ManagedNode:
    """The node in slot `number`, as attempt `number + 1`."""
    slot, attempt = LogicalNodeId(f"g-{number}"), NodeAttemptId(number + 1)
    record = replace(node.record, logical_node_id=slot, desired=THREE[slot])
    return replace(node, attempt=attempt, record=record)


def created(number: int, *, looks: bool = False) -> Dispatch:
    node = beside(new(), number)
    operation = OperationId(node.attempt, 1 + looks)
    command = CreateLease(node.record.desired, looks)
    return Dispatch(PlannedEffect(node.record.logical_node_id, operation, command))


def limited(
    limit: int,
    *nodes: ManagedNode,
    actions: tuple[NodeAction, ...],
    now: datetime = T0,
    held_back: tuple[LogicalNodeId, ...] = (),
) -> Callable[[], object]:
    """The check of a plan for these nodes, side by side, under that limit."""
    wanted = expand_shape(shape(group(count=len(nodes)), generation=3, limits={"memory": limit}))
    state = state_of(*(beside(node, number) for number, node in enumerate(nodes)))
    return planned(state, *actions, wanted=wanted, now=now, held_back=held_back)


def looking() -> ManagedNode:
    """Deleting, a look for the lease of an ambiguous create is due at nine seconds."""
    return deleting(unsure_create())


LIMITS: list[Broken] = [
    (
        "g-0: 2 at once at ('memory', False), the limit is 1",
        limited(1, new(), new(), actions=(created(0), created(1))),
    ),
    ("g-1: 2 at once at ('memory', False)", limited(1, creating(), new(), actions=(created(1),))),
    (
        "g-0: 2 at once at ('memory', True), the limit is 1",
        limited(
            1,
            looking(),
            looking(),
            actions=(created(0, looks=True), created(1, looks=True)),
            now=at(9),
        ),
    ),
    (
        "g-1: held back at ('memory', False), only 1 of 2 are out",
        limited(2, new(), new(), actions=(created(0),), held_back=(G1,)),
    ),
    (
        "g-0: held back at ('memory', False), only 0 of 64 are out",
        planned(new(), held_back=(G0,)),
    ),
    (
        "g-0: held back at ('memory', False) out of turn",
        limited(1, new(), new(), actions=(created(1),), held_back=(G0,)),
    ),
    ("g-1: found no action, expected", limited(64, new(), new(), actions=(created(0),))),
    (
        "g-2: held back at ('memory', False) out of turn",
        limited(
            2,
            new(),
            with_failures(new(), 3),
            with_failures(new(), 1),
            actions=(created(0), created(1)),
            held_back=(LogicalNodeId("g-2"),),
        ),
    ),
    (
        "g-1: held back at ('memory', False) out of turn",
        limited(
            1,
            with_failures(new(), 2),
            with_failures(new(), 1),
            with_failures(new(), 3),
            actions=(created(0),),
            held_back=(G1, LogicalNodeId("g-2")),
        ),
    ),
    (
        "no attempt id is left, and no node needs one",
        planned(exhausted(failed_and_gone()), requeue_at=at(1), allocator_exhausted=True),
    ),
    (
        "g-0: found no action, expected Reap",
        planned(exhausted(destroyed()), wanted=NONE, allocator_exhausted=True),
    ),
    (
        "g-1: held back at ('memory', False) out of turn",
        limited(1, with_failures(new(), 1), new(), actions=(created(0),), held_back=(G1,)),
    ),
]

ALIKE = state_of(new())
HONEST = ReconcilePlan((effect(CreateLease(SPEC), 1),), 3)


def _with(name: str, fake: Callable[..., object], check: Callable[[], object]) -> None:
    """The check, while the invariants see another decider."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(invariants, name, fake)
        check()


def _forgets(observed: ClusterState, *_: object) -> ReconcilePlan:
    """A decider that takes what it has handled out of the state."""
    observed.nodes.clear()
    return HONEST


def _takes_note(_: ClusterState, desired: ExpandedShape, *__: object) -> ReconcilePlan:
    """A decider that writes into the shape's limits."""
    desired.shape.limits[ProviderKind("noted")] = ProviderLimits()
    return HONEST


def _with_fresh_limits() -> None:
    wanted = expand_shape(shape(group(), generation=3))
    _with("reconcile", _takes_note, lambda: check_plan(ALIKE, wanted, T0, HONEST))


def told(
    node: ManagedNode, observation: NodeObservation, attempt: NodeAttemptId = ATTEMPT_1
) -> Callable[[], object]:
    """The check of an observation of that attempt, about to be folded into the node."""
    return lambda: check_correlation(G0, node, attempt, observation)


def called_converged(
    node: ManagedNode | None, wanted: ExpandedShape = ONE, *, converged: bool = True
) -> Callable[[], object]:
    """The check, by a decider that says so."""
    state = state_of(*([node] if node else []))
    return lambda: _with(
        "is_converged", lambda *_: converged, lambda: check_converged(state, wanted)
    )


def submitted(node: ManagedNode | None, action: Dispatch) -> Callable[[], object]:
    return lambda: check_dispatch(state_of(*([node] if node else [])), action.effect)


OTHERS: list[Broken] = [
    (
        "the same input gave two plans",
        lambda: check_plan(ALIKE, ONE, T0, replace(HONEST, observed_generation=1)),
    ),
    (
        "reconcile has changed its input",
        lambda: _with("reconcile", _forgets, lambda: check_plan(state_of(new()), ONE, T0, HONEST)),
    ),
    ("reconcile has changed its input", _with_fresh_limits),
    (
        "g-0: found no action, expected an effect",
        lambda: _with(
            "reconcile",
            lambda *_: ReconcilePlan((), 3),
            lambda: check_plan(ALIKE, ONE, T0, ReconcilePlan((), 3)),
        ),
    ),
    ("g-0: changed by another than the driver", lambda: check_owner(ALIKE, {})),
    ("g-0: changed by another than the driver", lambda: check_owner(state_of(), ALIKE.nodes)),
    ("g-0: changed by another than the driver", lambda: check_owner(ALIKE, {G0: new()})),
    (
        "g-0: news of attempt 2 folded into attempt 1",
        told(ready(), NodeLost("gone"), NodeAttemptId(2)),
    ),
    (
        "g-0: answered was op(1,7), pending is op(1,1)",
        told(creating(), OperationSucceeded(OperationId(ATTEMPT_1, 7), LEASED)),
    ),
    (
        "g-0: answered was op(1,1), pending is None",
        told(new(), OperationFailed(OperationId(ATTEMPT_1, 1), AMBIGUOUS)),
    ),
    ("op(1,1) for a node that is not there", submitted(None, effect(CreateLease(SPEC), 1))),
    ("op(1,1) is not recorded", submitted(new(), effect(CreateLease(SPEC), 1))),
    (
        "op(1,1) is recorded, submitted op(1,2)",
        submitted(creating(), effect(CreateLease(SPEC), 2)),
    ),
    ("op(1,1) is recorded as (", submitted(creating(), effect(DestroyLease(HANDLE), 1))),
    (
        "op(1,1) is recorded as (",
        submitted(creating(), effect(CreateLease(SPEC, adopt_only=True), 1)),
    ),
    ("called converged, but g-0: desired, and there is no node", called_converged(None)),
    ("called converged, but g-0: not desired", called_converged(ready(), NONE)),
    ("called converged, but g-0: of another spec", called_converged(ready(), OTHER)),
    ("called converged, but g-0: deleting", called_converged(deleting(ready()))),
    ("called converged, but g-0: not ready", called_converged(joined())),
    (
        "called converged, but g-0: op(1,3) is pending",
        called_converged(fold(handing_over(), BootstrapClosed(SESSION))),
    ),
    (
        "every node is as wanted, and it is not called converged",
        called_converged(ready(), converged=False),
    ),
]
BROKEN_OTHERS = LIMITS + OTHERS


@pytest.mark.parametrize(("says", "check"), BROKEN_OTHERS)
def test_what_else_is_broken_is_named(says: str, check: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        check()


SOUND: list[Callable[[], ManagedNode]] = [
    *HEALTHY,
    lambda: deleting(lost()),
    lambda: destroyed(deleting(new())),
    lambda: fold(handing_over(), BootstrapClosed(SESSION)),
    cancel_gave_way,
    looking,
]


@pytest.mark.parametrize("wanted", [ONE, NONE, OTHER])
@pytest.mark.parametrize("seconds", [0, 1, 9, 100, 1000])
def test_what_the_decider_plans_passes(wanted: ExpandedShape, seconds: int) -> None:
    for make in SOUND:
        for state in (state_of(make()), exhausted(make())):
            check_plan(state, wanted, at(seconds), reconcile(state, wanted, at(seconds)))
            check_converged(state, wanted)
    for state in (state_of(), exhausted()):
        check_plan(state, wanted, at(seconds), reconcile(state, wanted, at(seconds)))


def test_what_limits_hold_back_passes() -> None:
    # given one place for each direction: acquiring, releasing; and a hand-over, which needs none
    for limit in (1, 2, 3):
        shape_of_three = shape(group(count=3), generation=3, limits={"memory": limit})
        for nodes in (
            (new(), new(), with_failures(new(), 1)),
            (creating(), new(), looking()),
            (creating(), creating(), new()),  # more are out than the limit has come to allow
            (looking(), looking(), looking()),
            (handing_over(), joined(), new()),
            (dispatched(looking(), at(9)), looking(), creating()),
        ):
            state = state_of(*(beside(node, number) for number, node in enumerate(nodes)))
            wanted = expand_shape(shape_of_three)
            check_plan(state, wanted, at(9), reconcile(state, wanted, at(9)))


STAGES = [new, creating, leased, looking_up, reachable, starting, bootstrapping, joined]
STAGES += [handing_over, ready, cancelling, destroying, cleaned_up, destroyed, failed_and_gone]
STAGES += [unsure_create, unsure_start, cancel_gave_way, looking, lost]


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("next_attempt", [100, ATTEMPT_ID_MAX])
@pytest.mark.parametrize("seconds", [0, 9, 100])
def test_what_the_decider_plans_for_any_two_nodes_passes(
    limit: int, next_attempt: int, seconds: int
) -> None:
    wanted = expand_shape(shape(group(count=2), limits={"memory": limit}))
    for one, other in product(STAGES, repeat=2):
        state = state_of(beside(one(), 0), beside(other(), 1), next_attempt=next_attempt)

        check_plan(state, wanted, at(seconds), reconcile(state, wanted, at(seconds)))


def test_news_of_the_nodes_own_attempt_may_be_folded() -> None:
    told(creating(), NodeLost("gone"))()
    told(creating(), OperationSucceeded(OperationId(ATTEMPT_1, 1), LEASED))()


def test_what_is_recorded_may_be_submitted() -> None:
    submitted(creating(), effect(CreateLease(SPEC), 1))()

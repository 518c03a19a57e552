"""The invariants can fail: every assertion is shown a state, a step or a plan that it must name."""

import ast
import inspect
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    Dispatch,
    Insert,
    ManagedNode,
    Reap,
    ReconcilePlan,
    check_converged,
    check_dispatch,
    check_plan,
    check_state,
    check_step,
    expand_shape,
    invariants,
    reconcile,
)
from cluster_reconciler.messages import (
    BootstrapFacts,
    BootstrapSessionId,
    BootstrapStage,
    LogicalNodeId,
    NodeAttemptId,
    NodeLost,
    NodeStage,
    OperationId,
    SwactorFacts,
    SwactorId,
)
from tests.decider_words import (
    AMBIGUOUS,
    G0,
    JOINED,
    OTHER_SPEC,
    SPEC,
    T0,
    answered,
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
    starting,
    state_of,
)


def recorded(node: ManagedNode, **facts: object) -> ManagedNode:
    """The node with other facts, which no fold would have given it."""
    return replace(node, record=replace(node.record, **facts))


def retrying(node: ManagedNode, **facts: object) -> ManagedNode:
    return replace(node, retry=replace(node.retry, **facts))


def lost() -> ManagedNode:
    return fold(reachable(), NodeLost("gone"))


def streamed(**facts: int) -> ManagedNode:
    """Session 41 is running and has told of output."""
    known = BootstrapFacts(BootstrapSessionId(41))
    return recorded(bootstrapping(), bootstrap=replace(known, **facts))


OP = OperationId(NodeAttemptId(1), 1)

BROKEN_STATES: list[tuple[str, Callable[[], ClusterState]]] = [
    ("two nodes share an attempt", lambda: replace(state_of(new()), nodes={G0: new(), "b": new()})),
    ("holds g-0", lambda: replace(state_of(), nodes={LogicalNodeId("b"): new()})),
    (
        "has another node's spec",
        lambda: state_of(
            recorded(new(), desired=replace(SPEC, logical_node_id=LogicalNodeId("b")))
        ),
    ),
    ("was never allocated", lambda: state_of(new(), next_attempt=1)),
    ("was never allocated", lambda: state_of(new(attempt=0))),
    ("another attempt's", lambda: state_of(replace(creating(), attempt=NodeAttemptId(2)))),
    ("was never recorded", lambda: state_of(replace(creating(), next_operation_sequence=1))),
    (
        "an ambiguity without its time",
        lambda: state_of(retrying(answered(creating(), AMBIGUOUS), ambiguous_since=None)),
    ),
    ("an ambiguity without its time", lambda: state_of(retrying(new(), ambiguous_since=T0))),
    ("an endpoint without a lease", lambda: state_of(recorded(reachable(), lease=None))),
    (
        "a session without a lease",
        lambda: state_of(recorded(bootstrapping(), lease=None, connection=None)),
    ),
    ("a session without facts", lambda: state_of(recorded(bootstrapping(), bootstrap=None))),
    (
        "session 41, facts of 42",
        lambda: state_of(
            recorded(bootstrapping(), bootstrap=BootstrapFacts(BootstrapSessionId(42)))
        ),
    ),
    ("destroyed, but holds", lambda: state_of(recorded(destroyed(), lease=leased().record.lease))),
    (
        "destroyed, but ambiguous",
        lambda: state_of(retrying(destroyed(), ambiguous_operation=OP, ambiguous_since=T0)),
    ),
    ("destroyed at no time", lambda: state_of(recorded(destroyed(), destroyed_at=None))),
    ("deleting and ready", lambda: state_of(recorded(deleting(ready()), ready=True))),
    (
        "deleting since no time",
        lambda: state_of(replace(deleting(ready()), deleting_since=None)),
    ),
    ("active and destroyed", lambda: state_of(replace(destroyed(), intent=new().intent))),
    (
        "ready without a lease",
        lambda: state_of(recorded(ready(), lease=None, connection=None)),
    ),
    ("ready without an endpoint", lambda: state_of(recorded(ready(), connection=None))),
    ("ready without a join", lambda: state_of(recorded(ready(), swactor=None))),
    (
        "ready without a hand-over",
        lambda: state_of(recorded(ready(), swactor=SwactorFacts(SwactorId("s"), T0))),
    ),
    ("ready at stage", lambda: state_of(recorded(ready(), stage=NodeStage.HANDED_OFF))),
    (
        "ready with a session",
        lambda: state_of(replace(ready(), active_bootstrap=BootstrapSessionId(41))),
    ),
    ("ready since no time", lambda: state_of(replace(ready(), ready_at=None))),
    (
        "failed and ready",
        lambda: state_of(recorded(ready(), failed_at=T0, failed_reason="no")),
    ),
    ("failed for no reason", lambda: state_of(recorded(lost(), failed_reason=None))),
    (
        "failed without a restart deadline",
        lambda: state_of(retrying(lost(), restart_at=None)),
    ),
    ("failed at stage", lambda: state_of(recorded(lost(), stage=NodeStage.NEW))),
    (
        "stage failed, at no time",
        lambda: state_of(recorded(new(), stage=NodeStage.FAILED)),
    ),
    (
        "a restart deadline without a failure",
        lambda: state_of(retrying(new(), restart_at=T0)),
    ),
    (
        "waits for progress and strives for none",
        lambda: state_of(replace(deleting(leased()), progress=leased().progress)),
    ),
    (
        "waits for progress and is ready",
        lambda: state_of(replace(ready(), progress=leased().progress)),
    ),
    ("keeps news of no start's session", lambda: state_of(replace(new(), kept=(JOINED,)))),
]


@pytest.mark.parametrize(("says", "broken"), BROKEN_STATES)
def test_a_broken_state_is_named(says: str, broken: Callable[[], ClusterState]) -> None:
    with pytest.raises(AssertionError, match=says):
        check_state(broken())


BROKEN_STEPS: list[tuple[str, ClusterState, ClusterState]] = [
    ("the attempt allocator went back", state_of(next_attempt=9), state_of(next_attempt=8)),
    (
        "observed_generation went back",
        replace(state_of(), observed_generation=2),
        replace(state_of(), observed_generation=1),
    ),
    ("reaped before destroyed", state_of(leased()), state_of()),
    ("restarted before destroyed", state_of(leased()), state_of(new(attempt=100))),
    ("an attempt id was reused", state_of(destroyed()), state_of(new(attempt=2))),
    (
        "a restart changed the failure count",
        state_of(destroyed()),
        state_of(retrying(new(attempt=100), consecutive_failures=1)),
    ),
    ("reused an id", state_of(), state_of(new(attempt=2))),
    ("an attempt's spec changed", state_of(new()), state_of(new(desired=OTHER_SPEC))),
    ("a deletion was taken back", state_of(deleting(new())), state_of(new())),
    (
        "restart_at moved",
        state_of(deleting(lost())),
        state_of(retrying(deleting(lost()), restart_at=at(99))),
    ),
    (
        "changed after it was destroyed",
        state_of(destroyed()),
        state_of(recorded(destroyed(), destroyed_at=at(9))),
    ),
    ("failed twice", state_of(lost()), state_of(recorded(lost(), failed_reason="again"))),
    (
        "sequence back",
        state_of(leased()),
        state_of(replace(leased(), next_operation_sequence=1)),
    ),
    (
        "overtook",
        state_of(creating()),
        state_of(replace(creating(), pending=starting().pending, next_operation_sequence=3)),
    ),
    (
        "is not the next operation",
        state_of(new()),
        state_of(replace(starting(), record=new().record)),
    ),
    (
        "stage went back",
        state_of(
            recorded(
                bootstrapping(),
                bootstrap=BootstrapFacts(
                    BootstrapSessionId(41), furthest_stage=BootstrapStage.BOOT_CHECKING
                ),
            )
        ),
        state_of(bootstrapping()),
    ),
    ("stdout back", state_of(streamed(last_stdout_seq=5)), state_of(streamed(last_stdout_seq=4))),
    ("stderr back", state_of(streamed(last_stderr_seq=5)), state_of(bootstrapping())),
    ("a join was forgotten", state_of(joined()), state_of(bootstrapping())),
]


@pytest.mark.parametrize(("says", "before", "after"), BROKEN_STEPS)
def test_a_broken_step_is_named(says: str, before: ClusterState, after: ClusterState) -> None:
    with pytest.raises(AssertionError, match=says):
        check_step(before, after)


ONE_GROUP = expand_shape(shape(group(), generation=3))
EFFECT = reconcile(state_of(new()), ONE_GROUP, T0).actions[0]


@pytest.mark.parametrize(
    ("says", "state", "change"),
    [
        ("the same input gave two plans", state_of(new()), {"observed_generation": 1}),
        (
            "actions are not one for each node, in order",
            state_of(new()),
            {"actions": (EFFECT, EFFECT)},
        ),
        ("a node acts and is held back", state_of(new()), {"held_back": (G0,)}),
        ("attempt ids", state_of(), {"actions": (Insert(NodeAttemptId(9), SPEC),)}),
        ("an older spec", state_of(), {"actions": (Insert(NodeAttemptId(100), OTHER_SPEC),)}),
        ("stale when made", state_of(new()), {"actions": (Reap(G0, NodeAttemptId(1)),)}),
        ("an effect for a ready node", state_of(recorded(new(), ready=True)), {}),
        (
            "an effect before",
            state_of(retrying(new(), next_effect_at=at(9))),
            {},
        ),
    ],
)
def test_a_broken_plan_is_named(
    monkeypatch: pytest.MonkeyPatch, says: str, state: ClusterState, change: dict[str, object]
) -> None:
    # given a decider that answers so, whenever it is asked (but for the first case)
    honest = ReconcilePlan((EFFECT,), 3)
    plan = replace(honest, **change)
    if says != "the same input gave two plans":
        monkeypatch.setattr(invariants, "reconcile", lambda *_: plan)

    with pytest.raises(AssertionError, match=says):
        check_plan(state, ONE_GROUP, T0, plan)


def test_an_effect_that_is_not_recorded_is_named() -> None:
    assert isinstance(EFFECT, Dispatch)
    later = replace(EFFECT.effect, operation=OperationId(NodeAttemptId(1), 2))

    with pytest.raises(AssertionError, match=r"op\(1,1\) is not recorded"):
        check_dispatch(state_of(new()), EFFECT.effect)
    with pytest.raises(AssertionError, match=r"op\(1,1\) is recorded"):
        check_dispatch(state_of(creating()), later)
    check_dispatch(state_of(creating()), EFFECT.effect)


@pytest.mark.parametrize(
    ("says", "node"),
    [
        ("converged and not ready", new()),
        ("converged with", creating()),
    ],
)
def test_a_cluster_that_is_called_converged_too_early_is_named(
    monkeypatch: pytest.MonkeyPatch, says: str, node: ManagedNode
) -> None:
    monkeypatch.setattr(invariants, "is_converged", lambda *_: True)
    node = recorded(node, ready=True) if says == "converged with" else node

    with pytest.raises(AssertionError, match=says):
        check_converged(state_of(node), ONE_GROUP)


def test_what_is_sound_passes() -> None:
    for node in (
        new(),
        creating(),
        bootstrapping(),
        ready(),
        lost(),
        deleting(lost()),
        destroyed(),
    ):
        state = state_of(node)
        check_state(state)
        check_step(state, state)
        check_plan(state, ONE_GROUP, T0, reconcile(state, ONE_GROUP, T0))
        check_converged(state, ONE_GROUP)


def test_every_assertion_has_been_shown_to_fail() -> None:
    """Each assertion's own words occur in what the tests above expect."""
    asserted = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(invariants)))
        if isinstance(node, ast.Assert)
    ]
    messages = [ast.unparse(node.msg) for node in asserted if node.msg is not None]
    assert len(messages) == len(asserted)
    expected = inspect.getsource(inspect.getmodule(test_what_is_sound_passes) or invariants)
    for message in messages:
        words = [part for part in _literal_parts(message) if len(part.strip(" :,()")) > 3]
        assert any(word in expected for word in words), message


def _literal_parts(message: str) -> list[str]:
    tree = ast.parse(message, mode="eval").body
    values = tree.values if isinstance(tree, ast.JoinedStr) else [tree]
    return [str(part.value).strip(" :,(") for part in values if isinstance(part, ast.Constant)]

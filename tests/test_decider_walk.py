"""The walk over every state of one node closes, breaks no invariant, and ends well from anywhere.

What is checked at each step stands in `decider_walk`; here is what must hold of the whole.
"""

import msgspec
import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ROWS,
    ExpandedShape,
    ManagedNode,
    expire,
    is_converged,
    observe,
    reconcile,
)
from cluster_reconciler.decider.transitions import apply
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapSessionId,
    BootstrapStarted,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    NodeStage,
    OperationKind,
    OperationOutcome,
    OperationSucceeded,
    SwactorId,
    SwactorJoined,
)
from tests.decider_walk import POLICY, SHAPES, Place, deadlines, moves, walk, with_node
from tests.decider_words import ENDPOINT, LEASE


def test_the_walk_comes_to_an_end_and_every_row_fires_on_it() -> None:
    found = walk()

    assert found.closed
    assert found.rows.keys() == {row.name for row in ROWS}
    assert len(found.places) > 15_000


def test_every_stage_is_visited_but_the_one_that_is_passed_in_one_step() -> None:
    # HANDED_OFF and DORMANT come in one step: the acceptance is the hand-over (rule 8)
    stages = {place.node.record.stage for place in walk().places.values() if place.node}

    assert stages == set(NodeStage) - {NodeStage.HANDED_OFF}


def test_no_move_changes_the_place_that_it_starts_from() -> None:
    for place in list(walk().places.values())[::25]:
        before = msgspec.json.encode(place)
        list(moves(place))

        assert msgspec.json.encode(place) == before


SAMPLE = 12


@pytest.mark.parametrize("wanted", range(len(SHAPES)), ids=["as it is", "another spec", "none"])
def test_from_anywhere_a_world_that_turns_friendly_leads_to_what_is_wanted(wanted: int) -> None:
    # given any place that was found, and from then on answers that are all good
    for place in list(walk().places.values())[wanted::SAMPLE]:
        steps = _friendly_steps(replace(place, wanted=wanted))

        # then the cluster converges within a few steps, each of them an effect or a deadline
        assert steps <= 60, place


def _friendly_steps(place: Place) -> int:
    steps = 0
    while not is_converged(place.state, SHAPES[place.wanted]):
        steps += 1
        assert steps < 100, f"no end: {place}"
        place = _friendly_step(place, SHAPES[place.wanted])
    return steps


def _friendly_step(place: Place, wanted: ExpandedShape) -> Place:
    node, now = place.node, place.now
    if node is not None and node.pending is not None and node.pending.deadline > now:
        answer = OperationSucceeded(node.pending.id, _good(place))
        return _at(place, observe(node, answer, now, POLICY))
    if node is not None and (judged := expire(node, now, POLICY)) is not node:
        return _at(place, judged)
    plan = reconcile(place.state, wanted, now)
    if plan.actions:
        [action] = plan.actions
        allocated = type(action).__name__ in {"Insert", "Restart"}
        after = apply(node, action, now, POLICY)
        next_attempt = place.state.next_attempt_id + allocated
        return replace(place, state=with_node(place.state, after, next_attempt))
    assert node is not None
    if node.active_bootstrap is not None and node.record.swactor is None:
        join = SwactorJoined(node.active_bootstrap, SwactorId("swactor"))
        if (joined := observe(node, join, now, POLICY)) is not node:
            return _at(place, joined)
    assert plan.requeue_at is not None, f"nothing to do, and nothing to wait for: {place}"
    ahead = [due for due in deadlines(node) if due is not None and due > now]
    return replace(place, now=min([plan.requeue_at, *ahead]))


def _at(place: Place, node: ManagedNode) -> Place:
    return replace(place, state=with_node(place.state, node, place.state.next_attempt_id))


def _good(place: Place) -> OperationOutcome:
    assert place.node is not None
    assert place.node.pending is not None
    pending = place.node.pending
    match pending.kind:
        case OperationKind.CREATE_LEASE:
            return LeaseAbsent() if pending.adopt_only else LeaseCreated(LEASE)
        case OperationKind.LOOKUP_ENDPOINT:
            return EndpointLookup(ENDPOINT)
        case OperationKind.START_BOOTSTRAP:
            session = BootstrapSessionId(pending.id.sequence)
            return BootstrapAbsent() if pending.adopt_only else BootstrapStarted(session)
        case OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED:
            return BootstrapConvergenceAccepted()
        case OperationKind.CANCEL_BOOTSTRAP:
            return BootstrapCancelled()
        case OperationKind.DESTROY_LEASE:
            return LeaseDestroyed()


@pytest.mark.parametrize(
    "judgement", ["results.is_live", "failures.is_live", "steps.holds_nothing"]
)
def test_a_fault_planted_in_the_decider_is_found_by_the_walk(
    monkeypatch: pytest.MonkeyPatch, judgement: str
) -> None:
    # given a decider that takes every attempt for alive, or every cleanup for complete
    monkeypatch.setattr(f"cluster_reconciler.decider.{judgement}", lambda _node: True)

    with pytest.raises(AssertionError):
        walk.__wrapped__(5_000)

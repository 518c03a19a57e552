"""`plan` beside the decider: what is said of each node is what it does, in its order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_reconciler.actors.cli.plan_order_words import order_lines, ranges
from cluster_reconciler.actors.cli.rehearsal import (
    NODES_MAX,
    Rehearsal,
    converged_state,
    rehearse,
)
from cluster_reconciler.actors.cli.reports import PlanReport
from cluster_reconciler.actors.cli.shape_diff import diff_groups
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.decider import check_converged, check_state, expand_shape, is_converged
from cluster_reconciler.messages import (
    BootSpec,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    BootstrapStarted,
    ClusterShape,
    CreateLease,
    LeaseCreated,
    LeaseFacts,
    LocalEndpoint,
    NodeGroupId,
    ProviderKind,
    ProviderLeaseId,
    ProviderLimits,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    StartBootstrap,
    SwactorId,
    SwactorJoined,
    kind_of,
)

PROCESS = ProviderKind("process")


def group(name: str, count: int, command: str = "") -> RunNodeGroupSpec:
    return RunNodeGroupSpec(
        RunId(7),
        NodeGroupId(name),
        RoleId("r"),
        count,
        PROCESS,
        boot=BootSpec(start_swactor_command=command),
    )


def shape(generation: int, *groups: RunNodeGroupSpec, in_flight: int = 64) -> ClusterShape:
    return ClusterShape(RunId(7), generation, groups, {PROCESS: ProviderLimits(in_flight)})


groups = st.lists(
    st.builds(group, st.sampled_from(["a", "b", "c"]), st.integers(0, 13), st.sampled_from("xy")),
    max_size=3,
    unique_by=lambda each: each.group_id,
)


def acting(rehearsal: Rehearsal, action: str) -> list[str]:
    """The nodes that take the action, over all waves."""
    return sorted(
        node
        for wave in rehearsal.waves
        for step in wave.steps
        if step.action == action
        for node in step.nodes
    )


class TestWhatBecomesOfTheNodes:
    @given(groups, groups, st.integers(1, 5))
    def test_what_is_said_is_what_the_decider_does(
        self, old: list[RunNodeGroupSpec], new: list[RunNodeGroupSpec], in_flight: int
    ) -> None:
        # given any two shapes
        before = expand_shape(shape(1, *old, in_flight=in_flight))
        after = expand_shape(shape(2, *new, in_flight=in_flight))
        # when they are compared, and the decider goes from one to the other
        diff = diff_groups(before, after)
        rehearsal = rehearse(before, after)
        # then the decider gets there, and does to each node what was said
        added = sorted(node for each in diff for node in each.added)
        removed = sorted(node for each in diff for node in each.removed)
        replaced = sorted(node for each in diff for node in each.replaced)
        kept = {node for each in diff for node in each.kept}
        assert rehearsal.complete
        assert acting(rehearsal, "insert") == added
        assert acting(rehearsal, "reap") == removed
        assert acting(rehearsal, "restart") == replaced
        assert acting(rehearsal, "begin_delete") == sorted(removed + replaced)
        touched = {n for wave in rehearsal.waves for step in wave.steps for n in step.nodes}
        assert not kept & touched
        assert kept | set(replaced) | set(added) == set(after.nodes)

    @given(groups, groups, st.integers(1, 5))
    def test_no_wave_asks_for_more_than_the_limit_lets_through(
        self, old: list[RunNodeGroupSpec], new: list[RunNodeGroupSpec], in_flight: int
    ) -> None:
        before, after = expand_shape(shape(1, *old)), expand_shape(shape(2, *new))
        limited = expand_shape(shape(2, *new, in_flight=in_flight))
        for wave in rehearse(before, limited).waves:
            made = {step.action: len(step.nodes) for step in wave.steps}
            acquiring = made.get("create_lease", 0) + made.get("start_bootstrap", 0)
            assert acquiring <= in_flight
            assert made.get("destroy_lease", 0) <= in_flight
        assert rehearse(before, after).complete

    @given(groups, groups, st.integers(1, 5))
    def test_every_number_of_the_order_says_what_happens(
        self, old: list[RunNodeGroupSpec], new: list[RunNodeGroupSpec], in_flight: int
    ) -> None:
        # given any way from one shape to another
        before = expand_shape(shape(1, *old, in_flight=in_flight))
        waves = rehearse(before, expand_shape(shape(2, *new, in_flight=in_flight))).waves[:8]
        # when it is told without the steps that only keep the books
        lines = list(order_lines(PlanReport("new", "old", True, 0, waves=waves)))
        # then each number is there, and has something to say
        numbers = [line.split()[0] for line in lines if line[2:3].isdigit()]
        assert numbers == [f"{number}." for number in range(1, len(waves) + 1)]

    def test_the_highest_numbers_go_first(self) -> None:
        before, after = (
            expand_shape(shape(1, group("a", 12))),
            expand_shape(shape(2, group("a", 9))),
        )
        [diff] = diff_groups(before, after)
        assert (diff.removed, len(diff.kept)) == (("a-9", "a-10", "a-11"), 9)


class TestTheOrder:
    def test_the_rehearsal_begins_as_a_real_driver_does(self) -> None:
        # given a real driver whose cluster has converged, under a limit of 2
        old = shape(1, group("a", 3, "x"), group("b", 2), in_flight=2)
        new = shape(2, group("a", 4, "y"), group("b", 1), in_flight=2)
        cluster = brought_up(old)
        # when it is offered the new shape
        cluster.update_desired(new)
        dispatched = cluster.drive()
        # then it submits first what the first wave says, and holds back the same nodes
        wave = rehearse(expand_shape(old), expand_shape(new)).waves[0]
        submitted: dict[str, list[str]] = {}
        for effect in dispatched:
            submitted.setdefault(kind_of(effect.command), []).append(effect.node)
        assert {
            step.action: list(step.nodes) for step in wave.steps if step.action in submitted
        } == submitted
        assert cluster.plan is not None
        assert wave.held_back == cluster.plan.held_back

    def test_it_begins_from_a_state_that_the_invariants_accept(self) -> None:
        expanded = expand_shape(shape(3, group("a", 3), group("b", 2, "x")))
        state = converged_state(expanded)
        check_state(state)
        check_converged(state, expanded)
        assert is_converged(state, expanded)

    def test_what_is_converged_needs_nothing(self) -> None:
        same = expand_shape(shape(1, group("a", 3)))
        assert rehearse(same, same) == Rehearsal((), True)

    @pytest.mark.parametrize(
        ("nodes", "told"),
        [
            (["a-10", "a-9", "a-8", "b-0", "b-1", "a-0", "odd"], "a-0, a-8..a-10, b-0, b-1, odd"),
            ([f"{c}-0" for c in "abcdefg"], "a-0, b-0, c-0, d-0, e-0, f-0, g-0"),
            ([f"{c}-0" for c in "abcdefgh"], "a-0, b-0, c-0, d-0, e-0, f-0, and 2 more"),
            (
                [f"{c}-{n}" for c in "abcdefgh" for n in range(4)],
                "a-0..a-3, b-0..b-3, c-0..c-3, d-0..d-3, e-0..e-3, f-0..f-3, and 8 more",
            ),
        ],
    )
    def test_ranges_fold_what_follows_upon_each_other(self, nodes: list[str], told: str) -> None:
        assert ranges(nodes) == told


def brought_up(old: ClusterShape) -> SteppingCluster:
    cluster = SteppingCluster(old)
    waiting = cluster.drive()
    while waiting:
        for effect in waiting:
            attempt = effect.operation.attempt
            session = BootstrapSessionId(attempt)
            match effect.command:
                case CreateLease():
                    lease = LeaseFacts(PROCESS, ProviderLeaseId(f"{attempt}"))
                    cluster.succeed(effect, LeaseCreated(lease, LocalEndpoint("x")))
                case StartBootstrap():
                    cluster.succeed(effect, BootstrapStarted(session))
                    joined = SwactorJoined(session, SwactorId(effect.node))
                    cluster.observe(effect.node, attempt, joined)
                case BootstrapConvergenceObserved():
                    cluster.succeed(effect, BootstrapConvergenceAccepted())
        waiting = cluster.drive()
    assert cluster.converged
    return cluster


def test_more_nodes_than_anybody_rehearses_are_compared_all_the_same() -> None:
    large, larger = (expand_shape(shape(n, group("a", NODES_MAX + n))) for n in (1, 2))
    assert rehearse(large, larger) == Rehearsal((), False)

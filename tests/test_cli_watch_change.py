"""What a new shape file changes against what runs: plan, settings at once, settings later."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.cli.shape_change import (
    PlanSummary,
    Running,
    ShapeChange,
    compare,
)
from cluster_reconciler.actors.cli.shape_file import LoadedShape, load
from cluster_reconciler.decider import RetryPolicy
from tests.cli_watch_kit import SHAPE, with_count

SECOND = "- {group_id: x, role: r, count: 2, provider: process}\n"
STAYS = PlanSummary(kept=1)


def loaded(folder: Path, text: str) -> LoadedShape:
    file = folder / "shape.yaml"
    file.write_text(text)
    loading = load(str(file))
    assert loading.loaded is not None, loading.faults
    return loading.loaded


def change(folder: Path, old: str, new: str) -> ShapeChange:
    first = loaded(folder, old)
    return compare(Running(first.shape, first.retry, first), loaded(folder, new))


def test_the_same_content_in_other_words_changes_nothing(tmp_path: Path) -> None:
    assert change(tmp_path, SHAPE, f"# a word\n{SHAPE}") == ShapeChange(1, plan=STAYS)


def test_groups_that_come_grow_change_and_go_are_counted_and_named(tmp_path: Path) -> None:
    boot = "  boot: {start_swactor_command: sleep 5}\n"
    old = SHAPE + SECOND
    new = with_count(3) + boot + "- {group_id: y, role: r, count: 4, provider: process}\n"
    asked = change(tmp_path, old, new)
    assert (asked.generation, asked.plan) == (
        2,
        PlanSummary(
            kept=0,
            added=6,
            removed=2,
            replaced=1,
            groups=(
                'w: adds 2 nodes, replaces 1 node (boot.start_swactor_command: "" -> "sleep 5")',
                "y: adds 4 nodes",
                "x: removes 2 nodes",
            ),
        ),
    )
    assert asked.shape == replace(loaded(tmp_path, new).shape, generation=2)


def test_of_many_reasons_some_are_named_and_the_rest_counted(tmp_path: Path) -> None:
    variables = ", ".join(f"V{number}: x" for number in range(7))
    asked = change(tmp_path, SHAPE, SHAPE + f"  boot: {{env: {{{variables}}}}}\n")
    [line] = asked.plan.groups
    named = "; ".join(f'boot.env.V{number}: nothing -> "x"' for number in range(5))
    assert line == f"w: replaces 1 node ({named}; and 2 more)"


def test_settings_are_told_apart_by_when_they_take_effect(tmp_path: Path) -> None:
    tail = (
        "retry: {max_delay: 10s, jitter: 0.25}\n"
        "limits: {process: {in_flight: 2}}\n"
        "swarm: {grace: 9s}\n"
        "providers: {other: {kind: process}, process: {state_dir: /elsewhere}}\n"
    )
    asked = change(tmp_path, SHAPE, SHAPE + tail)
    assert asked == ShapeChange(
        generation=2,
        shape=replace(loaded(tmp_path, SHAPE + tail).shape, generation=2),
        retry=loaded(tmp_path, SHAPE + tail).retry,
        plan=STAYS,
        takes_effect=(
            "limits.process.in_flight: 64 -> 2",
            'retry.max_delay: "1m" -> "10s", from the next wait on',
            "retry.jitter: 0.5 -> 0.25, from the next wait on",
        ),
        needs_restart=(
            'swarm.grace: "5s" -> "9s"',
            'providers.process.state_dir: nothing -> "/elsewhere"',
            'providers.other.kind: nothing -> "process"',
        ),
    )


def test_settings_alone_ask_for_no_other_shape(tmp_path: Path) -> None:
    asked = change(tmp_path, SHAPE, SHAPE + "retry: {max_delay: 10s}\n")
    assert (asked.shape, asked.retry is not None, asked.changes) == (None, True, True)


def test_what_needs_a_start_alone_is_nothing_to_do(tmp_path: Path) -> None:
    asked = change(tmp_path, SHAPE, SHAPE + "swarm: {grace: 9s}\n")
    assert (asked.changes, asked.needs_restart) == (False, ('swarm.grace: "5s" -> "9s"',))


def test_a_provider_that_is_no_longer_named_needs_no_start(tmp_path: Path) -> None:
    old = SHAPE + "providers: {other: {kind: process}}\n"
    assert change(tmp_path, old, SHAPE) == ShapeChange(1, plan=STAYS)


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (
            SHAPE,
            SHAPE.replace("run_id: 7", "run_id: 8"),
            (
                "run_id is 8, this process drives run 7; "
                "put it back on line 1, or start an `up` of its own for the other run"
            ),
        ),
        (
            SHAPE,
            SHAPE.replace("provider: process", "provider: fast")
            + "providers: {fast: {kind: process}}\n",
            (
                'group "w" asks for provider "fast", which this process did not start '
                "(it has process); start `up` again"
            ),
        ),
        (
            "generation: 3\n" + SHAPE,
            "generation: 3\n" + with_count(2),
            (
                "the shape differs from the accepted one of the same generation 3; "
                "count the generation up with every change"
            ),
        ),
        (
            "generation: 3\n" + SHAPE,
            "generation: 2\n" + with_count(2),
            "the shape has generation 2, generation 3 is accepted already; count it up",
        ),
    ],
)
def test_what_cannot_follow_is_refused_with_its_reason(
    tmp_path: Path, old: str, new: str, refused: str
) -> None:
    asked = change(tmp_path, old, new + "retry: {max_delay: 10s}\n")
    assert (asked.refused, asked.changes, asked.shape, asked.retry) == (refused, False, None, None)


def test_a_generation_of_the_file_is_kept_and_one_left_out_is_counted_on(tmp_path: Path) -> None:
    given = change(tmp_path, SHAPE, "generation: 9\n" + with_count(2))
    counted_on = change(tmp_path, "generation: 9\n" + SHAPE, with_count(2))
    assert (given.generation, counted_on.generation) == (9, 10)


def test_a_policy_that_is_in_use_by_an_earlier_edit_is_no_change(tmp_path: Path) -> None:
    first = loaded(tmp_path, SHAPE)
    text = SHAPE + "retry: {jitter: 0.25}\n"
    asked = compare(Running(first.shape, RetryPolicy(jitter=0.25), first), loaded(tmp_path, text))
    assert asked == ShapeChange(1, plan=STAYS)

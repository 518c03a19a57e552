"""Why, as `trace` tells it: why a node was given up, and what failed how often."""

from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.trace_deletions import REASON_LENGTH_MAX
from cluster_reconciler.actors.cli.trace_document import ReasonSummary, TraceSummary
from cluster_reconciler.actors.cli.trace_summary import beginning_of
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.messages import BootSpec, ClusterShape, Drain, UpdateDesired
from tests.trace_kit import Recording, trace


def wanted(generation: int, password: str, *arguments: str, count: int = 1) -> ClusterShape:
    boot = BootSpec(args=arguments, env={"DB_PASSWORD": password})
    return shape(msgspec.structs.replace(group(count=count), boot=boot), generation=generation)


def deletions(log: Path) -> list[str]:
    """What the log says of them, without time and node."""
    lines = trace(log, "--node", "g-0").out.splitlines()
    return [line.partition("is being deleted")[2] for line in lines if "is being deleted" in line]


def test_a_node_that_goes_says_why_and_no_secret(tmp_path: Path) -> None:
    # Given a node that fails, is wanted with another password and argument, and then not at all
    run = Recording(tmp_path / "run.jsonl", wanted(1, "tomato-3"))
    first = run.begin()
    run.settle(first)
    run.settle(run.lose(first[0], "its power failed"))
    run.settle(run.wait(5))
    run.settle(run.tell(UpdateDesired(wanted(2, "tomato-4", "--fast"))))
    run.settle(run.wait(5))
    run.settle(run.tell(Drain()))
    # When the log is read, then each time it says what led to it
    assert deletions(run.close()) == [
        ", it failed: the node is lost: its power failed",
        (
            ', generation 2 wants another one: boot.env.DB_PASSWORD: "***" with another secret '
            'in it, which is hidden; boot.args[0]: nothing -> "--fast"'
        ),
        ", generation 3 wants none at all",
    ]
    assert "tomato" not in trace(run.path).out


def test_a_node_beyond_the_count_says_that_it_is_not_wanted(tmp_path: Path) -> None:
    run = Recording(tmp_path / "run.jsonl", shape(group(count=1), group("h", count=1)))
    run.settle(run.begin())
    run.settle(run.tell(UpdateDesired(shape(group("h", count=1), generation=2))))
    assert deletions(run.close()) == [", generation 2 has no such node"]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("exit code 1; its last output: a", "exit code 1; its last output: b", True),
        (
            "lease run-1/w-1-13029f9e83d1-4 is gone",
            "lease run-1/w-20-7d02d19e8000-11 is gone",
            True,
        ),
        ("sold out" + " here" * 30 + " in Rome", "sold out" + " here" * 30 + " in Oslo", True),
        ("sold out in Rome", "sold out in Oslo", False),
        ("", "sold out", False),
    ],
)
def test_reasons_that_begin_alike_are_one(one: str, other: str, alike: bool) -> None:
    assert (beginning_of(one) == beginning_of(other)) is alike


def test_failures_that_differ_in_their_output_are_one_row(tmp_path: Path) -> None:
    # Given three failures of one kind, each with another output, and one that is very long
    run = Recording(tmp_path / "run.jsonl", shape(group(count=4)))
    effects = run.begin()
    for number, effect in enumerate(effects[:3]):
        run.fail(effect, f"exit code {number}; its last output: {'abc'[number]}")
    run.fail(effects[3], "no " + "x" * 300)
    log = run.close()
    # When it is summed up
    summary = msgspec.json.decode(trace(log, "--summary", "--json").out, type=TraceSummary)
    # Then there are two rows, with the first one's words, and a mark where they are cut
    assert summary.reasons == (
        ReasonSummary("retry", "exit code 0; its last output: a", 3, "g-2", 3),
        ReasonSummary("retry", f"no {'x' * 196}…", 1, "g-3", 4),
    )
    assert "3      retry  g-2 (attempt 3)  exit code 0; its last output: a\n" in (
        trace(log, "--summary").out
    )


def test_the_time_in_each_stage_is_told_of_each_group_too(tmp_path: Path) -> None:
    # Given two groups, of which one takes long to be created
    run = Recording(tmp_path / "run.jsonl", shape(group(count=2), group("h", count=1)))
    quick, also_quick, slow = run.begin()
    run.answer(quick)
    run.answer(also_quick)
    run.wait(30)
    run.answer(slow)
    log = run.close()
    # When it is summed up
    said = trace(log, "--summary").out
    summary = msgspec.json.decode(trace(log, "--summary", "--json").out, type=TraceSummary)
    # Then each group has its own times, and together they are the times over all
    asked = [p for p in summary.group_phases if p.phase == "lease_requested"]
    assert [(p.group, p.stays, p.longest_seconds) for p in asked] == [("g", 2, 0.0), ("h", 1, 30.0)]
    assert [(g.group, g.nodes, g.attempts, g.failures, g.retries) for g in summary.groups] == [
        ("g", 2, 2, 0, 0),
        ("h", 1, 1, 0, 0),
    ]
    assert sum(p.stays for p in summary.group_phases) == sum(p.stays for p in summary.phases)
    assert (
        "h      1      1         0       0        30.00 s, op(3,1) create_lease of h-0, ok" in said
    )
    assert "time in each stage, by group\n" in said
    assert "h      lease requested  1      30.00 s  30.00 s  h-0 (attempt 3)  0" in said


def test_a_long_reason_is_not_told_again_in_full(tmp_path: Path) -> None:
    # Given a node that is lost for a long reason, twice
    reason = "it said " + "a great deal " * 20
    run = Recording(tmp_path / "run.jsonl", shape(group(count=1)))
    [create] = run.begin()
    run.lose(create, reason)
    run.lose(create, reason)
    # When the log is read
    said = trace(run.close()).out
    # Then the whole reason stands where it came, and its beginning where it is repeated
    told = [line for line in said.splitlines() if "it said" in line]
    again = "[refused, the attempt has failed already: the node is lost: it said a great deal"
    assert (told[0].count(reason.strip()), told[-1].partition("[")[0].count(reason.strip())) == (
        1,
        1,
    )
    assert told[-1].count(again) == 1
    assert told[-1].endswith("…]")
    [deletion] = deletions(run.path)
    assert deletion.startswith(", it failed: the node is lost: it said a great deal")
    assert len(deletion) == len(", it failed: ") + REASON_LENGTH_MAX

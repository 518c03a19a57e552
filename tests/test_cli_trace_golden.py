"""One traced life, with every time known: what `trace` makes of it, character by character.

After a deliberate change write the goldens anew, and read what has changed:

    GOLDEN_TRACES=write .venv/bin/pytest tests/test_cli_trace_golden.py
"""

import os
import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.bench.replies import session_of
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.trace_document import (
    HeaderEntry,
    OperationsSummary,
    SlowOperation,
    TraceSummary,
)
from cluster_reconciler.actors.cli.trace_reading import Change, Entry
from cluster_reconciler.actors.ports import StatusQuery
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.messages import (
    BootstrapFailed,
    BootstrapObserved,
    BootstrapStage,
    Disposition,
    Drain,
    LogicalNodeId,
    NodeAttemptId,
    NodeObserved,
    OperationKind,
    UpdateDesired,
)
from tests.trace_kit import START, Recording, trace

pytestmark = pytest.mark.usefixtures("utc")

GOLDENS = Path(__file__).parent / "golden_traces"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A life with something of everything."""
    run = Recording(tmp_path / "run.jsonl")
    create_0, create_1 = run.begin()
    run.clock.advance(timedelta(milliseconds=1240))
    [start_0] = run.answer(create_0)
    run.clock.advance(timedelta(milliseconds=300))
    run.fail(create_1, "sold out in zone 2")
    [again_1] = run.wait(1)
    run.answer(start_0)
    checking = BootstrapObserved(session_of(start_0), BootstrapStage.BOOT_CHECKING, marker="gpu")
    run.tell(NodeObserved(start_0.node, start_0.operation.attempt, checking))
    [hand_over] = run.join(start_0)
    run.clock.advance(timedelta(microseconds=400))
    run.answer(hand_over)
    run.tell(StatusQuery())
    run.fail(again_1, "the reply was lost", Disposition.AMBIGUOUS)
    [look_1] = run.wait(2)
    [after_1] = run.wait(130)
    run.answer(look_1)
    run.answer(create_1)
    run.tell(UpdateDesired(shape(group(count=1), generation=2, run=8)))
    run.settle([after_1])
    [destroy_0] = run.lose(create_0, "its power failed\n\x1b[31mat once")
    run.clock.advance(timedelta(seconds=61.5))
    [create_3] = run.answer(destroy_0)
    [start_3] = run.answer(create_3)
    run.answer(start_3)
    failed = BootstrapFailed(session_of(start_3), "the check `test -w .` failed")
    [cancel_3] = run.tell(NodeObserved(start_3.node, start_3.operation.attempt, failed))
    run.clock.advance(timedelta(hours=22))
    run.settle([*run.tell(Drain()), cancel_3])
    return run.close()


def compare(name: str, found: str) -> None:
    """With the golden of that name."""
    golden = GOLDENS / name
    if os.environ.get("GOLDEN_TRACES") == "write":
        golden.write_text(found)
    assert found == golden.read_text()


def without_versions(text: str) -> str:
    """They differ from machine to machine."""
    return re.sub(r"(?m)^written by cluster-reconciler .*\n", "", text)


def test_the_log_as_people_read_it(log: Path) -> None:
    said = trace(log)
    assert (said.code, said.err) == (
        0,
        "17 messages that changed nothing are left out; --json shows all\n",
    )
    compare("life.txt", without_versions(said.out))


def test_one_node(log: Path) -> None:
    said = trace(log, "--node", "g-1")
    assert (said.code, said.err) == (0, "")
    compare("one_node.txt", without_versions(said.out))


def test_one_operation(log: Path) -> None:
    said = trace(log, "--operation", "2,3")
    assert (said.code, said.err) == (0, "")
    assert said == trace(log, "--operation", "op(2,3)", "--attempt", "2", "--node", "g-1")
    compare("one_operation.txt", without_versions(said.out))


def test_the_summary(log: Path) -> None:
    said = trace(log, "--summary")
    assert (said.code, said.err) == (0, "")
    compare("summary.txt", said.out)


def test_the_summary_of_one_node(log: Path) -> None:
    said = trace(log, "--summary", "--node", "g-1")
    assert (said.code, said.err) == (0, "")
    compare("summary_one_node.txt", said.out)


def test_every_line_of_the_stream_has_the_documented_shape(log: Path) -> None:
    # When all of it is asked for as data
    said = trace(log, "--json")
    header, *entries = said.out.splitlines()

    # Then each line is an object of a known shape, none is left out, and prose is elsewhere
    decoded = msgspec.json.decode(header, type=HeaderEntry)
    assert (decoded.run_id, decoded.nodes, decoded.seed, decoded.format) == (7, 2, 11, 2)
    assert (said.code, said.err) == (0, "")
    told = [msgspec.json.decode(line, type=Entry, strict=True) for line in entries]
    assert len(told) + 1 == len(log.read_bytes().splitlines())
    first = next(entry for entry in told if entry.operation == "op(1,1)")
    assert first == Entry(
        first.sequence,
        START + timedelta(milliseconds=1240),
        "ExecutorResult",
        LogicalNodeId("g-0"),
        NodeAttemptId(1),
        "op(1,1)",
        OperationKind.CREATE_LEASE,
        True,
        1.24,
        "lease lease-1, endpoint known",
        None,
        (Change("stage", LogicalNodeId("g-0"), NodeAttemptId(1), text="endpoint known"),),
    )


def test_the_summary_as_a_document(log: Path) -> None:
    said = trace(log, "--summary", "--json")
    summary = msgspec.json.decode(said.out, type=TraceSummary, strict=True)
    assert (said.code, said.err, said.out.count("\n")) == (0, "", 1)
    assert (summary.exit_code, summary.error, summary.run_id) == (0, None, 7)
    assert [node.node for node in summary.nodes] == ["g-0", "g-1"]
    assert summary.operations[1] == OperationsSummary(
        "memory", "cancel_bootstrap", 1, 0, 0, 79200.0, 79200.0
    )
    assert summary.slowest[0] == SlowOperation(
        "memory", 79200.0, "op(3,3)", "cancel_bootstrap", "g-0", 3, "ok"
    )


def test_a_terminal_gets_nothing_that_it_would_obey(log: Path) -> None:
    for flags in ((), ("--summary",), ("--json",), ("--summary", "--json")):
        assert "\x1b" not in trace(log, *flags).out


def test_only_a_terminal_gets_colours_and_only_if_it_wants_them(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = trace(log).out
    monkeypatch.setattr(Output, "stdout_is_terminal", True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = trace(log).out
    assert "\x1b[33m [refused, the shape is of run 8, this is run 7]\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d*m", "", coloured) == plain
    assert trace(log, "--no-color").out == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert trace(log).out == plain

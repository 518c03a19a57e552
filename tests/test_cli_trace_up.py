"""A trace that `up --trace` has written, of real processes on this machine, read by `trace`."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.trace_document import TraceSummary
from cluster_reconciler.actors.cli.trace_reading import Entry
from tests.trace_kit import trace

SHAPE = """\
run_id = 7
[[groups]]
group_id = "worker"
role = "worker"
count = 2
provider = "process"
[groups.boot]
verify_commands = ["test -w ."]
start_swactor_command = "exec sleep 1000"
[groups.shape]
options = { join_after = "50ms" }
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes brought up, and drained."""
    folder = tmp_path_factory.mktemp("up")
    (folder / "shape.toml").write_text(SHAPE)
    up = [sys.executable, "-m", "cluster_reconciler.actors", "up", "shape.toml"]
    done = subprocess.run(
        [*up, "--once", "--trace", "run.jsonl"],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "run.jsonl"


def test_its_summary_tells_every_node_and_operation(log: Path) -> None:
    said = trace(log, "--summary", "--json")
    summary = msgspec.json.decode(said.out, type=TraceSummary, strict=True)
    assert (said.code, said.err) == (0, "")
    assert [(node.node, node.attempts, node.phase, node.failures) for node in summary.nodes] == [
        ("worker-0", 1, "gone", 0),
        ("worker-1", 1, "gone", 0),
    ]
    assert [(kind.provider, kind.kind, kind.count) for kind in summary.operations] == [
        ("process", "bootstrap_convergence_observed", 2),
        ("process", "create_lease", 2),
        ("process", "destroy_lease", 2),
        ("process", "start_bootstrap", 2),
    ]
    assert {phase.phase for phase in summary.phases} >= {"ready", "deleting"}


def test_one_node_s_life_stands_in_it_from_the_first_to_the_last(log: Path) -> None:
    said = trace(log, "--node", "worker-1", "--json")
    entries = [msgspec.json.decode(line, type=Entry) for line in said.out.splitlines()[1:]]
    whats = [change.what for entry in entries for change in entry.changes]
    assert (whats[0], whats[-1], said.err) == ("inserted", "reaped", "")
    assert [whats.count(what) for what in ("dispatched", "ready", "failed")] == [4, 1, 0]


def test_people_read_it(log: Path) -> None:
    said = trace(log)
    assert said.code == 0
    assert "start_bootstrap ok after " in said.out
    assert " -> ready\n" in said.out

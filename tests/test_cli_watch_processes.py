"""`up --watch` on real processes: an edited command brings new attempts, a wrong edit nothing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_watch_kit import json_lines, until
from tests.test_cli_up_processes import Up

SHAPE = """\
run_id = 17
[[groups]]
group_id = "w"
role = "w"
count = 3
provider = "process"
[groups.boot]
start_swactor_command = "sleep 1000"
"""


@pytest.fixture
def ups() -> Iterator[list[Up]]:
    started: list[Up] = []
    yield started
    for up in started:
        for pid in up.processes():
            os.kill(pid, signal.SIGKILL)
        up.process.wait()


def ready(lines: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """The nodes that became ready, with their attempts."""
    events = (line["event"] for line in lines if line["type"] == "event")
    return {(event["node"], event["attempt"]) for event in events if event["kind"] == "ready"}


def running(up: Up, command: str) -> int:
    """How many processes below the state directory run that very command."""
    words = command.replace(" ", "\0").encode() + b"\0"
    found = 0
    for pid in up.processes():
        try:
            found += Path(f"/proc/{pid}/cmdline").read_bytes() == words
        except OSError:
            continue
    return found


def test_an_edited_command_comes_back_as_new_attempts_and_a_wrong_edit_changes_nothing(
    tmp_path: Path, ups: list[Up]
) -> None:
    # given three nodes
    file = tmp_path / "shape.toml"
    file.write_text(SHAPE)
    up = Up(file, tmp_path, "--watch", "--json")
    ups.append(up)
    up.wait_for_errors("converged: 3 of 3 nodes are ready")
    assert running(up, "sleep 1000") == 3
    # when the command is edited, wrongly at first
    file.write_text(SHAPE.replace('"sleep 1000"', "sleep 1001"))
    up.wait_for_errors("not used; nothing changes, generation 1 goes on")
    assert running(up, "sleep 1000") == 3
    file.write_text(SHAPE.replace("1000", "1001"))
    until(lambda: up.errors.count("converged: 3 of 3 nodes are ready") == 2, up.errors)
    # then each node is there again, once, as its next attempt, with the new command
    assert (running(up, "sleep 1000"), running(up, "sleep 1001")) == (0, 3)
    up.process.send_signal(signal.SIGTERM)
    assert up.wait() == 143
    lines = json_lines(up.out)
    shapes = [line for line in lines if line["type"] == "shape"]
    plan = {
        "kept": 0,
        "added": 0,
        "removed": 0,
        "replaced": 3,
        "groups": [
            'w: replaces 3 nodes (boot.start_swactor_command: "sleep 1000" -> "sleep 1001")'
        ],
    }
    assert [(line["accepted"], line["generation"], line["plan"]) for line in shapes] == [
        (False, 1, None),
        (True, 2, plan),
    ]
    assert {node for node, _ in ready(lines)} == {"w-0", "w-1", "w-2"}
    assert sorted(attempt for _, attempt in ready(lines)) == [1, 2, 3, 4, 5, 6]
    report = lines[-1]
    assert (report["generation"], report["converged"], report["drained"]) == (2, True, True)
    up.await_nothing_left()
    assert up.leases() == []

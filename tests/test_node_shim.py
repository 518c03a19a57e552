"""The shim, started as the plain file that it is: what it makes of its control pipe."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_reconciler.executors.node import shim

WITHIN_S = 10.0
AT_ONCE_S = 1.5
"""Less than anything that waits for a TERM which nobody heard."""


class Node:
    """A shim, its two pipes, and the lease directory that it was given."""

    def __init__(self, lease: Path) -> None:
        (lease / "work").mkdir(parents=True)
        self.lease = lease
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(shim.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.control = self.process.stdin.fileno()
        self.reports = self.process.stdout

    def spec(self, command: str) -> bytes:
        spec: dict[str, Any] = {
            "lease_dir": str(self.lease),
            "directory": str(self.lease / "work"),
            "verify_commands": [],
            "start_command": command,
            "stdout_sources": [],
            "stderr_sources": [],
            "env": {"PATH": os.defpath},
            "secrets": [],
            "join_after": 1000,
            "verify_timeout": 10,
            "swarm": {"address": "127.0.0.1:9", "heartbeat_s": 1, "hello": {}},
        }
        return json.dumps(spec).encode() + b"\n"

    def told(self) -> list[dict[str, Any]]:
        """All that it reports until its end."""
        deadline = time.monotonic() + WITHIN_S
        data = b""
        while time.monotonic() < deadline:
            if select.select([self.reports], [], [], 0.1)[0]:
                read = os.read(self.reports.fileno(), 65536)
                if not read:
                    return [json.loads(line) for line in data.split(b"\n") if line]
                data += read
        raise AssertionError(f"it has not ended, and said {data!r}")

    def wait_started(self) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not (self.lease / "work" / "up").exists():
            assert time.monotonic() < deadline, "the command has not started"
            time.sleep(0.005)

    def close(self) -> None:
        with self.process:  # It closes the pipes and collects the process.
            self.process.kill()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "lease")
    yield node
    node.close()


STUBBORN = "trap '' TERM; touch up; while :; do sleep 0.05; done"


def test_a_stop_that_comes_along_with_the_spec_is_heeded_at_once(node: Node) -> None:
    began = time.monotonic()
    os.write(node.control, node.spec("exec sleep 1000") + b"stop 30\n")

    told = node.told()

    assert node.process.wait(WITHIN_S) == 0
    assert time.monotonic() - began < AT_ONCE_S
    assert [report for report in told if report["t"] in ("failed", "gone")] == []


def test_a_stop_in_two_pieces_is_one(node: Node) -> None:
    os.write(node.control, node.spec("touch up; exec sleep 1000") + b"sto")
    node.wait_started()

    os.write(node.control, b"p 30\n")

    node.told()
    assert node.process.wait(WITHIN_S) == 0


def test_a_stop_that_is_not_heeded_ends_in_a_kill(node: Node) -> None:
    os.write(node.control, node.spec(STUBBORN))
    node.wait_started()

    os.write(node.control, b"stop 0.2\n")

    node.told()
    assert node.process.wait(WITHIN_S) == 0


@pytest.mark.parametrize("sent", [b"", b'{"lease_dir": '])
def test_without_a_whole_spec_nothing_is_started(node: Node, sent: bytes) -> None:
    os.write(node.control, sent)
    assert node.process.stdin is not None
    node.process.stdin.close()

    assert node.told() == []
    assert node.process.wait(WITHIN_S) == 0
    assert list((node.lease / "work").iterdir()) == []
    assert [path.name for path in node.lease.iterdir()] == ["work"]


def test_words_that_it_does_not_know_change_nothing(node: Node) -> None:
    os.write(node.control, node.spec("touch up; while [ ! -e go ]; do sleep 0.01; done; exit 3"))
    node.wait_started()

    os.write(node.control, b"\nhello\nstopped\n")
    (node.lease / "work" / "go").touch()

    [failed] = [report for report in node.told() if report["t"] == "failed"]
    assert "exit code 3" in failed["reason"]


def test_the_end_of_the_control_pipe_is_the_end_of_a_stubborn_command(node: Node) -> None:
    os.write(node.control, node.spec(STUBBORN))
    node.wait_started()
    assert node.process.stdin is not None

    node.process.stdin.close()

    node.told()
    assert node.process.wait(WITHIN_S) == 0

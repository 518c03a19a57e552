"""`up examples/local.toml` on real processes of this machine, as a user types it (issue 2, §7.2).

Whatever the end, afterwards no process and no directory of a lease is left.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_kit import insist

DEADLINE_S = 60.0


class Up:
    """A running command, with a state directory of its own."""

    def __init__(self, example: Path, folder: Path, *flags: str, out: Path | None = None) -> None:
        self.state = folder / "state"
        self._errors = folder / "stderr"
        self._out = out if out is not None else folder / "stdout"
        environment = {**os.environ, "XDG_STATE_HOME": str(self.state)}
        with self._errors.open("wb") as errors, self._out.open("wb") as stdout:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cluster_reconciler.actors", "up", str(example), *flags],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    @property
    def out(self) -> str:
        return self._out.read_text()

    def wait_for_errors(self, text: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.errors:
            assert self.process.poll() is None, self.errors
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.02)

    def wait(self, seconds: float = DEADLINE_S) -> int:
        code = self.process.wait(timeout=seconds)
        assert "Traceback" not in self.errors
        return code

    def processes(self) -> list[int]:
        """The command itself, and all that names or stands in a place below its state directory."""
        marker = str(self.state)
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                told = b"".join((folder / name).read_bytes() for name in ("environ", "cmdline"))
                place = str((folder / "cwd").readlink())
            except OSError:
                continue
            if state != "Z" and (marker.encode() in told or place.startswith(marker)):
                found.append(int(folder.name))
        return found

    def await_nothing_left(self, seconds: float = 2.0) -> None:
        deadline = time.monotonic() + seconds
        while self.processes():
            assert time.monotonic() < deadline, f"still running: {self.processes()}"
            time.sleep(0.02)

    def leases(self) -> list[Path]:
        """The directories of leases that exist."""
        return sorted((self.state / "cluster-reconciler").glob("run-*/*"))


@pytest.fixture
def example(repository: Path) -> Path:
    return repository / "examples" / "local.toml"


@pytest.fixture
def ups() -> Iterator[list[Up]]:
    started: list[Up] = []
    yield started
    for up in started:
        for pid in up.processes():
            os.kill(pid, signal.SIGKILL)
        up.process.wait()


def test_once_json_is_one_document_with_every_node_ready_and_leaves_nothing(
    example: Path, tmp_path: Path, ups: list[Up]
) -> None:
    # given the example
    up = Up(example, tmp_path, "--once", "--json", "--timeout", "50s")
    ups.append(up)
    # when it has run
    assert up.wait() == 0, up.errors
    # then stdout is one document, every node was ready, and all is gone
    document: dict[str, Any] = json.loads(up.out)
    assert up.out.count("\n") == 1
    assert [(node["node"], node["ready"]) for node in document["nodes"]] == [
        (name, True) for name in ("web-0", "web-1", "worker-0", "worker-1", "worker-2")
    ]
    assert (document["converged"], document["drained"], document["left"]) == (True, True, [])
    up.await_nothing_left()
    assert up.leases() == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_drains(
    example: Path, tmp_path: Path, ups: list[Up], number: signal.Signals, code: int
) -> None:
    up = Up(example, tmp_path)
    ups.append(up)
    up.wait_for_errors("converged: 5 of 5 nodes are ready")
    assert len(up.processes()) >= 6
    assert len(up.leases()) == 5
    up.process.send_signal(number)
    assert up.wait() == code
    assert "drained: nothing is left" in up.errors
    up.await_nothing_left()
    assert up.leases() == []


def test_a_second_signal_ends_within_two_seconds_and_no_process_outlives_it(
    example: Path, tmp_path: Path, ups: list[Up]
) -> None:
    # given nodes that ignore TERM, so that the drain takes its time
    shape = tmp_path / "stubborn.toml"
    shape.write_text(
        'run_id = 3\n[[groups]]\ngroup_id = "w"\nrole = "w"\ncount = 2\nprovider = "process"\n'
        "[groups.boot]\n"
        "start_swactor_command = \"trap '' TERM; while :; do sleep 1; done\"\n"
    )
    up = Up(shape, tmp_path)
    ups.append(up)
    up.wait_for_errors("converged: 2 of 2 nodes are ready")
    # when two signals come
    up.process.send_signal(signal.SIGINT)
    up.wait_for_errors("SIGINT: draining")
    took = insist(up.process, signal.SIGINT)
    # then it ends, names what may be left, and nothing of it runs on
    assert (took < 2, up.wait()) == (True, 1)
    assert "2 leases are left, or may be:" in up.errors
    up.await_nothing_left()
    # and the next run takes the same run over, with nodes that heed TERM, and leaves nothing
    shape.write_text(shape.read_text().replace("trap '' TERM; ", ""))
    again = Up(shape, tmp_path, "--once")
    ups.append(again)
    assert again.wait() == 0, again.errors
    again.await_nothing_left()
    assert again.leases() == []


def test_a_reader_that_goes_away_leaves_no_machine_behind(
    example: Path, tmp_path: Path, ups: list[Up]
) -> None:
    # given a stdout that is full from the first byte on
    up = Up(example, tmp_path, out=Path("/dev/full"))
    ups.append(up)
    assert up.wait() == 1
    assert "stdout takes no more data: No space left on device" in up.errors
    assert "drained: nothing is left" in up.errors
    up.await_nothing_left()
    assert up.leases() == []

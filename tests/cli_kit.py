"""`up` against a cluster of the test's own, in a process of its own, for the tests that signal it,
stop reading it and look at how it ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.reports import UpReport

SHAPE = "run_id: 7\ngroups:\n- {group_id: w, role: r, count: 1, provider: process}\n"

PROGRAM = """
import json, os, sys, threading, time
from datetime import UTC, datetime, timedelta
from cluster_reconciler.actors import (  # `*` would bring the runtime, too
    ClusterError, ClusterEvent, ClusterStatus, DrainIncomplete, DriverDied, EventKind,
    LeftLease, NodeStatus, NotConverged, RunLocked, StatusCounts,
)
from cluster_reconciler.actors.cli import up_session, up_waiting
from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.output import prepare_streams
from cluster_reconciler.actors.cli.up import up
from cluster_reconciler.messages import NodeIntent, NodeStage

behaviour = json.loads(os.environ["BEHAVIOUR"])
up_session.READER_S = behaviour.get("reader_s", up_session.READER_S)
up_waiting.TELL_EVERY_S = behaviour.get("tell_every_s", up_waiting.TELL_EVERY_S)
now = datetime.now(UTC)
LEFT = (LeftLease("w-0", 1, "process", "lease-1", "run 7, node w-0, attempt 1", True, "stage x"),)

def status(ready):
    node = NodeStatus("w-0", "w", "process", True, 1, NodeStage.DORMANT, NodeIntent.ACTIVE, ready,
                      None, None, now, "lease-1", 5, 0, None, None)
    return ClusterStatus(now, 7, 1, 1, ready, StatusCounts(1, int(ready), 0, 0, 0, 0, 0), (node,),
                         None)

class Fake:
    leftovers = ()

    def __init__(self):
        self.ended = threading.Event()
        self.left = LEFT

    def wait_converged(self, timeout=None):
        if behaviour.get("dies"):
            raise DriverDied("a bug", LEFT)
        if behaviour.get("converges", True):
            return status(True)
        if not self.ended.wait(None if timeout is None else timeout.total_seconds()):
            raise NotConverged(status(False))
        raise ClusterError("closed")

    def status(self, *, details=True):
        if behaviour.get("dies_later"):
            raise DriverDied("a late bug", LEFT)
        return status(True)

    def events(self, past=False):
        at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        yield ClusterEvent(at, EventKind.READY, "w-0", 1, "ready\\nindeed \\x1b[31m")
        yield ClusterEvent(at, EventKind.OUTPUT, "w-0", 1, "hello")
        if behaviour.get("dies_later"):
            return
        if behaviour.get("floods"):
            yield ClusterEvent(at, EventKind.STAGE, "w-0", 1, "on and on " * 100_000)
        while not self.ended.wait(0.02):
            if behaviour.get("chatters"):
                yield ClusterEvent(at, EventKind.STAGE, "w-0", 1, "on and on")

    def drain(self, timeout=None):
        if behaviour.get("dies") or behaviour.get("dies_later"):
            raise DriverDied("a bug", LEFT)
        if behaviour.get("drain") == "hangs":
            time.sleep(3600)
        if behaviour.get("drain") == "fails":
            raise DrainIncomplete(LEFT)
        self.left = ()

    def possibly_left(self):
        return self.left

    def close(self, drain=True):
        self.ended.set()
        print("closed", file=sys.stderr, flush=True)

def start(loaded, trace, drain_timeout):
    if "refuses" in behaviour:
        raise RunLocked("run 7 is driven by process 42 already")
    print("started", file=sys.stderr, flush=True)
    time.sleep(behaviour.get("start_takes", 0))
    return Fake()

prepare_streams()
sys.exit(up(make_parser().parse_args(sys.argv[1:], UpOptions()), start))
"""

Run = Callable[..., "Up"]


class Up:
    """A running `up`; stderr goes to a file, so that it can be watched."""

    def __init__(
        self,
        folder: Path,
        arguments: list[str],
        behaviour: dict[str, object],
        out: int = subprocess.PIPE,
    ) -> None:
        (folder / "shape.yaml").write_text(SHAPE)
        self.errors = folder / "stderr"
        environment = {**os.environ, "BEHAVIOUR": json.dumps(behaviour), "TZ": "UTC"}
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "up", *arguments],
                cwd=folder,
                env=environment,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.errors.read_text():
            assert self.process.poll() is None, self.errors.read_text()
            assert time.monotonic() < deadline, f"no {text!r} in: {self.errors.read_text()}"
            time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def send_again(self, number: signal.Signals) -> float:
        """A second signal, as a person sends one: some time after the first, and once more when
        nothing happens.  The seconds until it has ended."""
        return insist(self.process, number)

    def end(self) -> tuple[int, str, str]:
        """Exit code, stdout, stderr; no traceback may be in it."""
        out, _ = self.process.communicate(timeout=30)
        errors = self.errors.read_text()
        assert "Traceback" not in errors
        assert "Exception ignored" not in errors
        return self.process.returncode, out.decode(), errors


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    running: list[Up] = []

    def start(*arguments: str, **behaviour: object) -> Up:
        running.append(Up(tmp_path, ["shape.yaml", *arguments], behaviour))
        return running[-1]

    yield start
    for up in running:
        if up.process.poll() is None:
            up.process.kill()
            up.process.wait()
        if up.process.stdout is not None:
            up.process.stdout.close()


def insist(process: "subprocess.Popen[bytes]", number: signal.Signals) -> float:
    """Signal until it has ended: two signals within a few milliseconds count as one."""
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < 30:
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
    return time.monotonic() - began


def report_of(out: str) -> UpReport:
    return msgspec.json.decode(out.splitlines()[-1], type=UpReport)

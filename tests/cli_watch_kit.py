"""`up --watch` in this process, on a cluster that is told what to do, and with quick looks.

The session runs on a thread; signals are calls, as the signals' own thread makes them.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from signal import Signals
from typing import Any

import pytest

from cluster_reconciler.actors import ClusterEvent, ClusterStatus, NotConverged
from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.reports import UpReport
from cluster_reconciler.actors.cli.shape_file import LoadedShape, load
from cluster_reconciler.actors.cli.shape_news import ShapeNews
from cluster_reconciler.actors.cli.up_following import Following
from cluster_reconciler.actors.cli.up_screen import UpScreen
from cluster_reconciler.actors.cli.up_session import UpSession
from cluster_reconciler.actors.cli.watch import FileWatch, look_at
from cluster_reconciler.actors.errors import LeftLease
from cluster_reconciler.actors.status import StatusCounts
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors.provider import ListedLease
from cluster_reconciler.messages import ClusterShape, RunId

DEADLINE_S = 15.0
LOOKS_S = 0.02

SHAPE = """\
run_id: 7
groups:
- group_id: w
  role: r
  count: 1
  provider: process
"""


def with_count(count: object, tail: str = "") -> str:
    return SHAPE.replace("count: 1", f"count: {count}") + tail


class FakeCluster:
    """Converges at once, unless told otherwise; takes every shape but those it is told to
    refuse; notes what it is asked."""

    def __init__(self, shape: ClusterShape) -> None:
        self.shape = shape
        self.asked: list[ClusterShape | RetryPolicy] = []
        self.refusals: list[Exception] = []
        """Raised by the next updates, one each."""
        self.waits: list[float | None] = []
        """The seconds of each wait for convergence."""
        self.may_update = threading.Event()
        self.may_update.set()
        self.may_converge = threading.Event()
        self.may_converge.set()
        self.ended = threading.Event()
        self.drained = False

    @property
    def leftovers(self) -> tuple[ListedLease, ...]:
        return ()

    def wait_converged(self, timeout: float | timedelta | None = None) -> ClusterStatus:
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self.waits.append(seconds)
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self.may_converge.wait(0.005):
            if self.ended.is_set() or (deadline is not None and time.monotonic() > deadline):
                raise NotConverged(self.status())
        return self.status()

    def update_desired(self, shape: ClusterShape) -> None:
        assert self.may_update.wait(DEADLINE_S)
        if self.refusals:
            raise self.refusals.pop()
        self.asked.append(shape)
        self.shape = shape

    def update_retry(self, policy: RetryPolicy) -> None:
        self.asked.append(policy)

    def status(self, *, details: bool = True) -> ClusterStatus:
        wanted = sum(group.count for group in self.shape.groups)
        counts = StatusCounts(wanted, wanted, 0, 0, 0, 0, 0)
        generation = self.shape.generation
        now = datetime(2026, 1, 2, tzinfo=UTC)
        return ClusterStatus(now, RunId(7), generation, generation, True, counts, (), None)

    def events(self, *, past: bool = False) -> Iterator[ClusterEvent]:
        self.ended.wait()
        yield from ()

    def drain(self, timeout: timedelta | None = None) -> None:
        self.drained = True

    def possibly_left(self) -> tuple[LeftLease, ...]:
        return ()

    def close(self, drain: bool = True) -> None:
        self.ended.set()


def asked(cluster: FakeCluster) -> list[object]:
    """The generation and the counts of each shape; a policy by its jitter."""
    return [
        (each.generation, *(group.count for group in each.groups))
        if isinstance(each, ClusterShape)
        else each.jitter
        for each in cluster.asked
    ]


class Heard:
    """Everything that was said so far.  The session speaks from other threads, and `readouterr`
    loses what is written between its reading and its emptying: so the files behind it are read,
    and never emptied."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    @property
    def out(self) -> str:
        return self._text("out")

    @property
    def err(self) -> str:
        return self._text("err")

    def wait_for(self, text: str, times: int = 1) -> None:
        until(lambda: self.err.count(text) >= times, f"{text!r}")

    def _text(self, name: str) -> str:
        behind: Any = getattr(self._capture._capture, name)  # pytest has no public way to it.
        descriptor = behind.tmpfile.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8")


class Watched:
    """A running session; what it says is read by the test's `capfd`."""

    def __init__(self, folder: Path, *flags: str, converges: bool = True) -> None:
        self.file = folder / "shape.yaml"
        self.file.write_text(SHAPE)
        self.cluster: FakeCluster | None = None
        self._converges = converges
        self.codes: SimpleQueue[int] = SimpleQueue()
        options = make_parser().parse_args(["up", str(self.file), *flags, "--watch"], UpOptions())
        output = Output(colour=False)
        screen = UpScreen(options, output)
        loading = load(str(self.file))
        assert loading.loaded is not None
        shape = loading.loaded.shape
        self.watch = FileWatch(str(self.file), look_at(str(self.file)), LOOKS_S)
        self.session = UpSession(
            options,
            loading.loaded,
            self._start,
            screen,
            UpReport(str(self.file), run_id=shape.run_id, generation=shape.generation),
            following=Following(
                self.watch, loading.loaded, ShapeNews(options, screen, loading.cautions)
            ),
            end_process=self.codes.put,
        )
        self.thread = threading.Thread(
            target=lambda: self.codes.put(self.session.run()), daemon=True
        )

    def _start(
        self, loaded: LoadedShape, trace: Path | None, drain_timeout: timedelta
    ) -> FakeCluster:
        cluster = FakeCluster(loaded.shape)
        if not self._converges:
            cluster.may_converge.clear()
        self.cluster = cluster
        return cluster

    def begin(self) -> FakeCluster:
        self.thread.start()
        until(lambda: self.cluster is not None, "the start")
        assert self.cluster is not None
        return self.cluster

    def save(self, text: str) -> None:
        """As an editor does: another file, and a rename."""
        beside = self.file.with_suffix(".new")
        beside.write_text(text)
        os.replace(beside, self.file)

    def end(self) -> int:
        """One SIGINT; the exit code."""
        if self.thread.is_alive():
            self.session.signal_came(Signals.SIGINT, 1)
            self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()
        return self.codes.get(timeout=1)


def until(holds: Callable[[], object], what: object = "") -> None:
    """Poll, with a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.005)


def json_lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]

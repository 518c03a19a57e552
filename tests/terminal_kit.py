"""A real terminal for tests: `up` with a fake cluster in a tmux of its own, or on a bare pty.

The cluster is what the test's scene says; the test changes the scene while `up` looks on.  Knows
nothing of how the view is made.
"""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SECONDS_MAX = 30

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux here")

SHAPE = "run_id: 7\ngroups:\n- {group_id: w, role: r, count: 1, provider: process}\n"

PROGRAM = """
import json, sys, threading, time
from datetime import UTC, datetime, timedelta
from cluster_reconciler.actors import (  # `*` would bring the runtime, too
    ClusterError, ClusterEvent, ClusterStatus, EventKind, LeftLease, NodeStatus, StatusCounts,
)
from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.output import prepare_streams
from cluster_reconciler.actors.cli.up import up
from cluster_reconciler.actors.status import FailureNote
from cluster_reconciler.messages import NodeIntent, NodeStage

began = datetime.now(UTC)
LEFT = (LeftLease("w-0", 1, "process", "lease-1", "run 7, node w-0, attempt 1", True, "stage x"),)

def scene():
    while True:
        try:
            with open("scene.json") as file:
                return json.load(file)
        except ValueError:
            pass  # It is being written.

def node(group, number, now):
    name = f"{group}-{number}"
    what = now["nodes"].get(name, now["others"])
    leaving = now.get("leaving", False)
    intent = NodeIntent.DELETING if leaving else NodeIntent.ACTIVE
    values = dict(
        node=name, group=group, provider="process", desired=not leaving, attempt=number + 1,
        stage=NodeStage.DORMANT, intent=intent, ready=not leaving, waits_for=None, until=None,
        started_at=began, lease_id="lease-1", session_id=5, consecutive_failures=0,
        last_error=None, last_failure=None)
    if leaving:
        values.update(waits_for="the destroy of its lease", until=began + timedelta(minutes=2))
    elif what != "ready":
        values.update(ready=False, stage=NodeStage.BOOTSTRAP_RUNNING,
                      waits_for="the node to join the swarm (bootstrap: boot checking)",
                      until=began + timedelta(minutes=9))
        if what != "starting":
            values.update(last_error=what)
    return NodeStatus(**values)

def status():
    now = scene()
    nodes = tuple(node(g, i, now) for g, count in now["groups"].items() for i in range(count))
    ready = sum(n.ready for n in nodes)
    wanted = sum(n.desired for n in nodes)
    counts = StatusCounts(wanted, ready, wanted - ready, 0, 0, 0, len(nodes) - wanted)
    return ClusterStatus(datetime.now(UTC), 7, 1, 1, ready == len(nodes), counts, nodes, None)

class Fake:
    leftovers = ()

    def __init__(self):
        self.ended = threading.Event()

    def wait_converged(self, timeout=None):
        while not self.ended.wait(0.05):
            if scene().get("converged", True):
                return status()
        raise ClusterError("closed")

    def status(self, *, details=True):
        if scene().get("silent"):
            time.sleep(3600)
        return status()

    def events(self, past=False):
        told = 0
        while not self.ended.wait(0.02):
            for kind, node, text in scene().get("events", [])[told:]:
                told += 1
                at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
                yield ClusterEvent(at, EventKind(kind), node, 1, text)

    def drain(self, timeout=None):
        while scene().get("holds"):
            time.sleep(0.02)

    def possibly_left(self):
        return LEFT if scene().get("holds") else ()

    def close(self, drain=True):
        self.ended.set()

prepare_streams()
sys.exit(up(make_parser().parse_args(sys.argv[1:], UpOptions()), lambda *_: Fake()))
"""


class Scene:
    """What the fake cluster is at the moment."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "scene.json"
        self._now: dict[str, object] = {"groups": {"w": 1}, "nodes": {}, "others": "ready"}
        (folder / "program.py").write_text(PROGRAM)
        (folder / "shape.yaml").write_text(SHAPE)
        self.set()

    def set(self, **changes: object) -> None:
        """`groups`: counts; `nodes`: what some are: ready, starting, or the text of an error;
        `others`: what the rest is; `events`: kind, node, text; `leaving`, `holds`, `silent`."""
        self._now |= changes
        self._file.write_text(json.dumps(self._now))


class Terminal:
    """A shell in a tmux server of its own."""

    def __init__(self, folder: Path, columns: int, lines: int) -> None:
        self._name = f"reconciler-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        shell = f"cd {folder}; exec env PS1='$ ' TZ=UTC PY={sys.executable} bash --norc --noprofile"
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", str(columns), "-y", str(lines),
            shell,
        )  # fmt: skip
        self.wait(lambda rows: rows[0].startswith("$"))

    def type(self, command: str) -> None:
        self._tmux("send-keys", "-t", "t", "-l", command)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "t", *keys)

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-t", "t", "-x", str(columns), "-y", str(lines))

    def rows(self) -> list[str]:
        """What is seen, without the empty rows below it."""
        return self._tmux("capture-pane", "-p", "-t", "t").rstrip("\n").split("\n")

    def cursor_is_visible(self) -> bool:
        return self._tmux("display-message", "-p", "-t", "t", "#{cursor_flag}").strip() == "1"

    def wait(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """The rows, as soon as they are as wanted."""
        deadline = time.monotonic() + SECONDS_MAX
        while not seen(rows := self.rows()):
            assert time.monotonic() < deadline, "\n".join(["never seen; now:", *rows])
            time.sleep(0.02)
        return rows

    def wait_for(self, *texts: str) -> list[str]:
        """The rows, as soon as all the texts are seen."""
        return self.wait(lambda rows: all(text in "\n".join(rows) for text in texts))

    def wait_for_a_change(self) -> None:
        before = self.rows()
        self.wait(lambda rows: rows != before)

    def end(self) -> None:
        path = self._tmux("display-message", "-p", "#{socket_path}").strip()
        self._tmux("kill-server")
        Path(path).unlink(missing_ok=True)

    def _tmux(self, *arguments: str) -> str:
        environment = {
            name: value for name, value in os.environ.items() if name not in {"TMUX", "NO_COLOR"}
        }
        done = subprocess.run(
            ["tmux", "-u", "-L", self._name, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


class Pty:
    """`up` as the leader of a session on a pty of its own; the test is the terminal."""

    def __init__(
        self, folder: Path, *arguments: str, waits: bool = True, **environment: str
    ) -> None:
        """`waits`: who writes to it when it is full waits; else the write fails."""
        self._read = b""
        inherited = {n: v for n, v in os.environ.items() if n not in {"NO_COLOR", "TERM"}}
        pid, self._end = pty.fork()
        if pid == 0:  # the child: nothing but exec
            os.chdir(folder)
            os.set_blocking(1, waits)
            words = [sys.executable, "program.py", "up", "shape.yaml", *arguments]
            os.execve(sys.executable, words, {"TERM": "xterm", **inherited, **environment})
        self.pid = pid
        self._code: int | None = None

    def read_until(self, text: str) -> str:
        """All that was written so far, as soon as the text is in it."""
        deadline = time.monotonic() + SECONDS_MAX
        while text.encode() not in self._read:
            assert time.monotonic() < deadline, f"no {text!r} in {self._read!r}"
            self._read_some()
        return self._read.decode()

    def hang_up(self) -> None:
        """The terminal goes away."""
        os.close(self._end)
        self._end = -1

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit code; what is still written is read."""
        deadline = time.monotonic() + SECONDS_MAX
        while self._code is None:
            assert time.monotonic() < deadline, f"it has not ended: {self._read!r}"
            if self._end >= 0:
                self._read_some()
            self.poll()
        return self._code

    def poll(self) -> int | None:
        if self._code is None:
            pid, state = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(state)
            else:
                time.sleep(0.01)
        return self._code

    @property
    def written(self) -> str:
        return self._read.decode()

    def close(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        if self._end >= 0:
            os.close(self._end)

    def _read_some(self) -> None:
        if select.select([self._end], [], [], 0.02)[0]:
            try:
                self._read += os.read(self._end, 65536)
            except OSError:
                return  # Nobody writes any more.


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def terminal(tmp_path: Path, scene: Scene) -> Iterator[Callable[[int, int], Terminal]]:
    opened: list[Terminal] = []

    def open_one(columns: int, lines: int) -> Terminal:
        opened.append(Terminal(tmp_path, columns, lines))
        return opened[-1]

    yield open_one
    for one in opened:
        one.end()


@pytest.fixture
def on_pty(tmp_path: Path, scene: Scene) -> Iterator[Callable[..., Pty]]:
    opened: list[Pty] = []

    def open_one(*arguments: str, waits: bool = True, **environment: str) -> Pty:
        opened.append(Pty(tmp_path, *arguments, waits=waits, **environment))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()

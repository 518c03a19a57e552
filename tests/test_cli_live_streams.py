"""The live view where the terminal, its locale or one of the streams is not what it expects."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terminal_kit import Pty, Scene, Terminal, needs_tmux, on_pty, scene, terminal

__all__ = ["on_pty", "scene", "terminal"]

Open = Callable[[int, int], Terminal]
OpenPty = Callable[..., Pty]

UP = '"$PY" program.py up shape.yaml'
ESCAPE = "\x1b"
MODES = "stty -a | md5sum"


@pytest.mark.parametrize("term", ["", "dumb", "unknown"])
def test_a_terminal_that_obeys_nothing_gets_lines_alone(on_pty: OpenPty, term: str) -> None:
    up = on_pty("--no-color", TERM=term)
    up.read_until("Ctrl-C drains")
    up.send(signal.SIGINT)

    assert (up.wait(), ESCAPE in up.written) == (130, False)


@pytest.mark.parametrize(
    ("environment", "bar"),
    [
        ({"LC_ALL": "C"}, "####"),
        ({"LC_ALL": "", "LC_CTYPE": "", "LANG": "POSIX"}, "####"),
        ({"LC_ALL": "", "LC_CTYPE": "", "LANG": ""}, "\u2588\u2588\u2588\u2588"),
        ({"LC_ALL": "C.UTF-8"}, "\u2588\u2588\u2588\u2588"),
    ],
)
def test_the_bar_is_of_characters_that_the_locale_has(
    on_pty: OpenPty, environment: dict[str, str], bar: str
) -> None:
    up = on_pty("--no-color", **environment)
    told = up.read_until("1 of 1 ready")

    assert ("####" in told, "\u2588" in told) == (bar == "####", bar != "####")


@needs_tmux
class TestStreams:
    def test_with_stdout_in_a_file_the_terminal_gets_prose_alone(
        self, terminal: Open, scene: Scene, tmp_path: Path
    ) -> None:
        scene.set(events=[["ready", "w-0", "ready"]])
        shell = terminal(80, 24)

        shell.type(f"{UP} > out.txt")
        rows = shell.wait_for("Ctrl-C drains")
        shell.press("C-c")
        shell.wait_for("drained: nothing is left")

        assert not any("NODE" in row for row in rows)
        assert (tmp_path / "out.txt").read_text() == "03:04:05 w-0 ready (attempt 1)\n"

    def test_with_stderr_in_a_file_the_view_stands_and_the_file_has_the_prose(
        self, terminal: Open, scene: Scene, tmp_path: Path
    ) -> None:
        scene.set(events=[["ready", "w-0", "ready"]])
        shell = terminal(80, 24)

        shell.type(f"{UP} 2> errors.txt")
        rows = shell.wait_for("1 of 1 ready", "w-0 ready (attempt 1)", "NODE")
        shell.press("C-c")
        ended = shell.wait(lambda now: "$" in now[-1] and not any("NODE" in row for row in now))

        told = (tmp_path / "errors.txt").read_text()
        assert not any("Ctrl-C drains" in row for row in (*rows, *ended))
        assert "Ctrl-C drains" in told
        assert "drained: nothing is left" in told
        assert ESCAPE not in told


@needs_tmux
class TestStops:
    def test_stopped_and_continued_from_outside_it_is_as_after_ctrl_z(
        self, terminal: Open, scene: Scene
    ) -> None:
        scene.set(groups={"web": 3})
        shell = terminal(80, 24)
        shell.type(f"{UP} & pid=$!; fg")
        shell.wait_for("3 of 3 ready", "web-2")

        shell.press("C-z")
        shell.wait_for("Stopped")
        shell.type("kill -CONT $pid; sleep 1; clear; echo bet''ween")
        behind = shell.wait_for("between")
        shell.type("kill -STOP $pid; clear; fg")
        again = shell.wait_for("3 of 3 ready", "web-2")

        assert not any("NODE" in row for row in behind)
        assert sum("web-2" in row for row in again) == 1

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSTOP])
    def test_however_it_ends_the_terminal_is_as_it_was(
        self, terminal: Open, scene: Scene, tmp_path: Path, number: signal.Signals
    ) -> None:
        scene.set(groups={"web": 3})
        shell = terminal(80, 24)
        shell.type(f"{MODES} > before; {UP} & echo $! > pid; fg")
        shell.wait_for("3 of 3 ready", "web-2")
        up = int((tmp_path / "pid").read_text())

        os.kill(up, number)
        shell.wait(lambda rows: rows[-1].startswith("$"))
        shell.type(f"{MODES} | diff - before && echo the sa''me")
        rows = shell.wait_for("the same")
        if number is signal.SIGSTOP:
            os.kill(up, signal.SIGKILL)

        assert shell.cursor_is_visible()
        assert any("\u2588" in row for row in rows)  # the last picture stands: that is all

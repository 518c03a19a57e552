"""The live view of `up` on real terminals: what is seen, and that all is as it was afterwards."""

import re
import signal
import time
from collections.abc import Callable

import pytest

from tests.terminal_kit import Pty, Scene, Terminal, needs_tmux, on_pty, scene, terminal

__all__ = ["on_pty", "scene", "terminal"]

Open = Callable[[int, int], Terminal]
OpenPty = Callable[..., Pty]

UP = '"$PY" program.py up shape.yaml'


def below_progress(rows: list[str]) -> list[str]:
    """The live part without its first line, whose time goes on."""
    first = next(i for i, row in enumerate(rows) if re.match(r" +\d+:\d\d [\u2588\u2591]", row))
    return rows[first + 1 :]


def count(rows: list[str], text: str) -> int:
    return sum(text in row for row in rows)


@needs_tmux
class TestInTmux:
    def test_few_nodes_stand_below_the_lines_and_the_end_replaces_them(
        self, terminal: Open, scene: Scene
    ) -> None:
        scene.set(groups={"web": 2, "worker": 3}, events=[["ready", "web-0", "ready"]])
        shell = terminal(80, 24)

        shell.type(f"{UP}; stty -a | md5sum")
        seen = shell.wait_for("03:04:05 web-0 ready (attempt 1)", "5 of 5 ready", "Ctrl-C drains")
        scene.set(nodes={"web-1": "it was ended by SIGKILL"})
        failing = shell.wait_for("4 of 5 ready", "it was ended by SIGKILL")
        scene.set(nodes={})
        shell.press("C-c")
        ended = shell.wait(lambda rows: "$" in rows[-1] and "drained" in "\n".join(rows))

        assert [row.split()[0] for row in below_progress(seen)] == [
            "NODE", "web:", "web-0", "web-1", "worker:", "worker-0", "worker-1", "worker-2",
        ]  # fmt: skip
        assert count(failing, "03:04:05") == count(failing, "of 5 ready  ") == 1
        assert count(ended, "worker-1") == count(ended, "NODE") == 0
        assert count(ended, "drained: nothing is left") == 1
        assert shell.cursor_is_visible()

    def test_once_leaves_its_table(self, terminal: Open, scene: Scene) -> None:
        scene.set(groups={"web": 2}, converged=False, nodes={"web-0": "starting"})
        shell = terminal(80, 24)

        shell.type(f"{UP} --once")
        shell.wait_for("1 of 2 ready", "bootstrap running")
        scene.set(converged=True, nodes={})
        ended = shell.wait_for("drained: nothing is left")

        assert count(ended, "ready  yes") == 2
        assert count(ended, "WAITS FOR") == 0

    @pytest.mark.parametrize(
        ("nodes", "columns", "lines"), [(300, 80, 24), (2000, 200, 60), (2000, 40, 10)]
    )
    def test_many_nodes_fold_to_what_changes(
        self, terminal: Open, scene: Scene, nodes: int, columns: int, lines: int
    ) -> None:
        scene.set(
            groups={"web": 100, "worker": nodes - 100},
            nodes={"worker-7": "no disk is left", "web-3": "starting"},
        )
        shell = terminal(columns, lines)

        shell.type(UP)
        rows = shell.wait_for("web: 99 of 100 ready", "no disk is left", "web-3", "worker-7")
        scene.set(others="starting")
        full = shell.wait_for(f"0 of {nodes} ready", "more at work", "no disk is left")

        assert count(rows, "web-") + count(rows, "worker-") == 2
        assert count(full, "web: 0 of 100 ready") == count(full, "NODE") == 1
        assert len(full) < lines
        assert all(len(row) < columns for row in full[full.index(below_progress(full)[0]) :])

    def test_a_terminal_that_changes_its_size_shows_one_view(
        self, terminal: Open, scene: Scene
    ) -> None:
        scene.set(groups={"web": 4}, nodes={"web-2": "it failed " * 30})
        shell = terminal(120, 30)
        shell.type(UP)
        shell.wait_for("3 of 4 ready", "it failed")

        for columns, lines in ((200, 60), (45, 20)):
            # Just after a picture: tmux tells of a new size only a quarter of a second later, and
            # one that is painted meanwhile cannot know of it.
            shell.wait_for_a_change()
            shell.resize(columns, lines)
            longest = "it failed " * ((columns - 10) // 10)
            shell.wait_for(longest.rstrip())
            shell.wait_for_a_change()  # It would show what the first picture has left.
            rows = shell.rows()
            assert count(rows, "of 4 ready  ") == count(rows, "NODE") == 1, "\n".join(rows)

    def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(
        self, terminal: Open, scene: Scene
    ) -> None:
        scene.set(groups={"web": 3})
        shell = terminal(80, 24)
        shell.type(UP)
        shell.wait_for("3 of 3 ready", "web-2")

        shell.press("C-z")
        stopped = shell.wait_for("Stopped")
        shell.type("echo bet''ween")
        shell.wait_for("between")
        shell.type("fg")
        again = shell.wait_for("between", "3 of 3 ready", "web-2")

        assert count(stopped, "web-") == 0
        assert count(again, "3 of 3 ready  ") == count(again, "web-2") == 1

    def test_in_the_background_it_tells_lines_alone(self, terminal: Open, scene: Scene) -> None:
        scene.set(groups={"web": 3})
        shell = terminal(80, 24)

        shell.type(f"{UP} &")
        shell.wait_for("Ctrl-C drains")
        scene.set(events=[["warning", None, "mind the gap"]])
        rows = shell.wait_for("mind the gap")
        shell.type("clear; kill -INT $!; wait")
        shell.wait_for("drained: nothing is left")

        assert count(rows, "NODE") == 0

    def test_the_drain_shows_what_is_to_go_and_how_to_force(
        self, terminal: Open, scene: Scene
    ) -> None:
        scene.set(groups={"web": 3}, holds=True)
        shell = terminal(80, 24)
        shell.type(f"{UP}; echo code $?; stty -a | tr ' ' '\\n' | grep -cx -e icanon -e echo")
        shell.wait_for("3 of 3 ready", "Ctrl-C drains")

        shell.press("C-c")
        scene.set(leaving=True)
        draining = shell.wait_for("0 of 3 gone", "3 nodes to go; Ctrl-C again", "web-2  deleting")
        began = time.monotonic()
        shell.press("C-c")
        ended = shell.wait_for("code 1")
        took = time.monotonic() - began

        assert count(draining, "SIGINT: draining, waits for 1 lease to end") == 1
        assert took < 2 + 1  # the shell's own time with it
        assert count(ended, "NODE") == count(ended, "web-1") == 0
        assert count(ended, "SIGINT again: ends at once") == count(ended, "lease-1") == 1
        assert shell.wait_for("code 1\n2")
        assert shell.cursor_is_visible()


class TestOnAPty:
    def test_a_dumb_terminal_gets_lines_alone(self, on_pty: OpenPty) -> None:
        up = on_pty("-v", TERM="dumb")
        up.read_until("Ctrl-C drains")
        up.send(signal.SIGINT)

        assert (up.wait(), "\x1b" in up.written) == (130, False)

    def test_without_colour_the_view_has_none(self, on_pty: OpenPty, scene: Scene) -> None:
        scene.set(nodes={"w-0": "it failed"})
        for up in (on_pty("--no-color"), on_pty(NO_COLOR="1")):
            up.read_until("it failed")
            up.send(signal.SIGINT)
            assert up.wait() == 130
            assert re.search(r"\x1b\[[0-9;]*m", up.written) is None
            assert "\x1b[K" in up.written

    def test_with_colour_what_failed_is_red(self, on_pty: OpenPty, scene: Scene) -> None:
        scene.set(nodes={"w-0": "it failed"})

        assert "\x1b[31m    it failed\x1b[0m" in on_pty().read_until("it failed\x1b[0m")

    def test_no_mode_of_the_terminal_is_changed(self, on_pty: OpenPty) -> None:
        """What is never set need not be unset, however the process ends."""
        up = on_pty()
        up.read_until("1 of 1 ready")
        up.send(signal.SIGKILL)
        up.wait()

        assert "\x1b[?" not in up.written

    def test_at_rest_hardly_anything_is_written(self, on_pty: OpenPty) -> None:
        up = on_pty()
        up.read_until("Ctrl-C drains")
        up.read_until("0:01")
        before = len(up.written)
        up.read_until("0:02")

        assert len(up.written) - before < 400

    @pytest.mark.parametrize("verbose", [True, False])
    def test_the_steps_of_a_start_are_lines_only_when_asked_for(
        self, on_pty: OpenPty, scene: Scene, verbose: bool
    ) -> None:
        scene.set(
            events=[
                ["stage", "w-0", "endpoint known"],
                ["failed", "w-0", "failed: no disk"],
                ["warning", None, "the last"],
            ]
        )
        up = on_pty(*["-v"] * verbose)
        told = up.read_until("the last")

        assert ("w-0 endpoint known" in told, "w-0 failed: no disk" in told) == (verbose, True)

    def test_quiet_has_no_view(self, on_pty: OpenPty, scene: Scene) -> None:
        scene.set(events=[["warning", None, "the last"]])
        up = on_pty("-q")
        told = up.read_until("the last")
        assert "\x1b" not in told

    def test_json_has_no_view(self, on_pty: OpenPty, scene: Scene) -> None:
        scene.set(events=[["ready", "w-0", "ready"]])
        up = on_pty("--json")
        up.read_until('"kind":"ready"')
        up.send(signal.SIGINT)

        assert (up.wait(), "\x1b" in up.written) == (130, False)

    def test_a_terminal_that_goes_away_drains(self, on_pty: OpenPty) -> None:
        up = on_pty()
        up.read_until("Ctrl-C drains")
        up.hang_up()

        assert up.wait() == 129

    def test_a_terminal_that_takes_no_more_does_not_hold_up_the_second_signal(
        self, on_pty: OpenPty, scene: Scene
    ) -> None:
        scene.set(holds=True)
        up = on_pty()
        up.read_until("Ctrl-C drains")
        scene.set(events=[["warning", None, "on and on " * 20_000]])
        time.sleep(0.5)  # nobody reads: the write of the event is stuck by now

        began = time.monotonic()
        up.send(signal.SIGINT)
        time.sleep(0.3)
        up.send(signal.SIGINT)
        while up.poll() is None:
            assert time.monotonic() - began < 10
        assert time.monotonic() - began < 0.3 + 2 + 1

    def test_a_terminal_that_does_not_wait_gets_everything(
        self, on_pty: OpenPty, scene: Scene
    ) -> None:
        """Another program that shares it has made it so: nothing is lost, and nothing ends."""
        up = on_pty(waits=False)
        up.read_until("Ctrl-C drains")
        scene.set(events=[["warning", None, "on and on " * 20_000 + "the last"]])
        time.sleep(0.5)  # nobody reads: the terminal is full by now
        told = up.read_until("the last")
        up.send(signal.SIGINT)

        assert (up.wait(), told.count("on and on")) == (130, 20_000)

    def test_a_cluster_that_does_not_answer_holds_up_nothing(
        self, on_pty: OpenPty, scene: Scene
    ) -> None:
        scene.set(silent=True, events=[["warning", None, "mind the gap"]])
        up = on_pty()
        up.read_until("mind the gap")
        up.send(signal.SIGINT)

        assert up.wait() == 130

"""The live view's own life: it takes lines, fails alone, and ends whenever it is told to."""

import re
import threading
import time

import pytest

from cluster_reconciler.actors.cli import live_view
from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.live_model import Moment
from cluster_reconciler.actors.cli.live_view import LiveView
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.up_screen import UpScreen
from cluster_reconciler.actors.status import ClusterStatus
from tests.test_cli_live_model import ready, status

SECONDS_MAX = 10


def five() -> ClusterStatus:
    return status(*(ready(f"web-{i}") for i in range(5)))


def wait_until_ended(view: LiveView) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while view.is_shown:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_it_has_taken_is_written_in_order_when_it_stops(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = LiveView(Output(colour=False), five)
    view.start()

    taken = [view.above(f"line {i}", patient=i % 2 == 0) for i in range(100)]
    view.stop()
    view.stop()
    after = view.above("too late", patient=True)

    told = re.findall(r"line \d+|too late", capsys.readouterr().out)
    assert (told, all(taken), after) == ([f"line {i}" for i in range(100)], True, False)


def test_a_picture_that_fails_ends_the_view_and_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(moment: Moment) -> list[object]:
        raise ValueError("a bug")

    monkeypatch.setattr(live_view, "live_lines", fail)
    output = Output(colour=False)
    view = output.live = LiveView(output, five)
    output.data("before")
    view.start()

    wait_until_ended(view)
    output.data("after")
    view.stop()

    written = capsys.readouterr()
    assert written.out == "before\nafter\n"
    assert written.err == "the live view has ended: ValueError: a bug\n"


def test_a_status_that_fails_is_asked_for_again(capsys: pytest.CaptureFixture[str]) -> None:
    asked = threading.Event()
    errors = [RuntimeError("not now")]

    def answer() -> ClusterStatus:
        if errors:
            raise errors.pop()
        asked.set()
        return five()

    view = LiveView(Output(colour=False), answer)
    view.start()
    assert asked.wait(SECONDS_MAX)
    view.stop()

    assert capsys.readouterr().err == ""


def test_while_nothing_changes_it_asks_seldom_and_a_line_makes_it_ask_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_view, "REST_S", 3600.0)
    asked = threading.Semaphore(0)

    def answer() -> ClusterStatus:
        asked.release()
        return five()

    view = LiveView(Output(colour=False), answer)
    view.start()
    before = [asked.acquire(timeout=SECONDS_MAX) for _ in range(2)]  # the same twice: it rests
    idle = asked.acquire(timeout=4 * live_view.TICK_S)
    view.above("something happened", patient=False)
    after = asked.acquire(timeout=SECONDS_MAX)
    view.stop()

    assert (before, idle, after) == ([True, True], False, True)
    assert "something happened" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--json"], ["-q"]])
def test_without_a_terminal_there_is_no_view(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = make_parser().parse_args(["up", "shape.toml", *arguments], UpOptions())
    screen = UpScreen(options, Output(colour=True))

    screen.follow(five)
    following = screen.following
    screen.stop_following()

    assert (following, capsys.readouterr().out) == (False, "")

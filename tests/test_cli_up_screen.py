"""Nothing follows the end of `up`, whatever thread tells it, and a view that begins is ended."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from msgspec import Struct
from rich.table import Table

from cluster_reconciler.actors import ClusterEvent, ClusterStatus, EventKind, StatusCounts
from cluster_reconciler.actors.cli import up_screen
from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.reports import UpReport
from cluster_reconciler.actors.cli.up_screen import UpScreen
from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId, RunId

SECONDS_MAX = 20
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVENT = ClusterEvent(AT, EventKind.READY, LogicalNodeId("w-0"), NodeAttemptId(1), "ready")
STATUS = ClusterStatus(AT, RunId(7), 1, 1, True, StatusCounts(0, 0, 0, 0, 0, 0, 0), (), None)
REPORT = UpReport("shape.toml", drained=True)


class Said(Struct, frozen=True):
    """A line of --json."""

    word: str = "said"


class Recorded(Output):
    """Keeps what is told, on either stream; while `stalled`, whoever writes data waits."""

    stdout_is_terminal = False

    def __init__(self) -> None:
        super().__init__(colour=False)
        self.told: list[str] = []
        self.writes = threading.Event()
        self.flows = threading.Event()
        self.flows.set()

    def data(self, text: str) -> None:
        self.writes.set()
        assert self.flows.wait(SECONDS_MAX)
        self.told.append(text)

    def say(self, text: str) -> None:
        self.told.append(text)

    def table(self, table: Table) -> None:
        self.data("a table")


def screen_of(output: Output, *flags: str) -> UpScreen:
    return UpScreen(make_parser().parse_args(["up", "shape.toml", *flags], UpOptions()), output)


def at_once(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("flags", "last"),
    [
        (["--json"], ["drained: nothing is left", as_json(REPORT)]),
        (["--once"], ["drained: nothing is left"]),
        ([], ["drained: nothing is left"]),
    ],
)
def test_nothing_follows_the_end(flags: list[str], last: list[str]) -> None:
    output = Recorded()
    screen = screen_of(output, *flags)

    told = [screen.end(REPORT), screen.end(REPORT)]
    screen.event(EVENT)
    screen.line(Said())
    screen.nodes(STATUS)
    screen.say("still draining")

    assert (told, output.told) == ([True, False], last)


def test_a_line_that_is_being_written_when_the_end_comes_stands_before_the_report() -> None:
    # given a reader that stalls in the middle of a line, and others that wait for their turn
    output = Recorded()
    screen = screen_of(output, "--json")
    output.flows.clear()
    first = at_once(lambda: screen.line(Said("first")))
    assert output.writes.wait(SECONDS_MAX)

    # when a forced end comes from another thread, and another line
    end = at_once(lambda: screen.end(REPORT))
    deadline = time.monotonic() + SECONDS_MAX
    while not output.told:  # The prose of the end has no stalled reader.
        assert time.monotonic() < deadline
        time.sleep(0.005)
    late = at_once(lambda: screen.line(Said("late")))
    output.flows.set()
    for thread in (first, end, late):
        thread.join(SECONDS_MAX)

    # then the report is the last word
    drained = "drained: nothing is left"
    assert output.told == [drained, as_json(Said("first")), as_json(REPORT)]


def test_lines_of_json_are_told_with_json_alone() -> None:
    told = []
    for flags in (["--json"], []):
        output = Recorded()
        screen_of(output, *flags).line(Said())
        told.append(output.told)
    assert told == [[as_json(Said())], []]


def test_a_view_that_is_just_beginning_when_the_end_comes_begins_first_and_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a terminal, and a view during whose start the end comes
    calls: list[str] = []
    stopped = threading.Event()
    ends: list[threading.Thread] = []
    output = Recorded()
    monkeypatch.setattr(Recorded, "stdout_is_terminal", True)
    monkeypatch.setattr(up_screen, "can_live", lambda: True)
    screen = screen_of(output)

    class View:
        is_shown = True

        def __init__(self, *_: object) -> None:
            pass

        def start(self) -> None:
            ends.append(at_once(lambda: screen.end(REPORT)))
            stopped.wait(0.2)
            calls.append("started")

        def stop(self) -> None:
            calls.append("stopped")
            stopped.set()

    monkeypatch.setattr(up_screen, "LiveView", View)

    # when it is begun
    screen.follow(lambda: STATUS)
    ends[0].join(SECONDS_MAX)

    # then it is not ended before it has begun, and it is ended
    assert (calls, screen.following, output.live) == (["started", "stopped"], False, None)

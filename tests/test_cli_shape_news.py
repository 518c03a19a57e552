"""What `up --watch` says to people of an edit, where it depends on who reads it and on the time."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.faults import Fault
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.shape_news import ShapeNews
from cluster_reconciler.actors.cli.up_screen import UpScreen
from tests.test_cli_live_model import T0, status
from tests.test_cli_watch_waits import backing_off


@pytest.fixture
def news() -> ShapeNews:
    options = make_parser().parse_args(["up", "shape.yaml", "--watch"], UpOptions())
    return ShapeNews(options, UpScreen(options, Output(colour=False)), ())


@pytest.mark.parametrize(("person", "source"), [(True, ["     3 | count: two"]), (False, [])])
def test_the_line_of_a_fault_is_shown_to_a_person_alone(
    news: ShapeNews,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    person: bool,
    source: list[str],
) -> None:
    monkeypatch.setattr(UpScreen, "errors_are_read", person)
    fault = Fault("shape.yaml", "a number", "a text", "count", line=3, source="count: two")

    news.faults((fault,), generation=4)

    assert capsys.readouterr().err.splitlines() == [
        "shape.yaml:3: count: expected a number, found a text",
        *source,
        "shape.yaml: not used; nothing changes, generation 4 goes on",
    ]


def test_only_who_waits_for_its_restart_still_is_named(
    news: ShapeNews, capsys: pytest.CaptureFixture[str]
) -> None:
    soon = backing_off("w-0", T0, seconds=15)
    now = status(
        soon,
        backing_off("w-1", T0, seconds=0),
        backing_off("w-2", T0, seconds=-3),
        replace(backing_off("w-3", T0, seconds=15), until=None),
        replace(backing_off("w-4", T0, seconds=15), desired=False),
    )

    news.still_waiting(now)
    news.still_waiting(replace(now, at=T0 + timedelta(seconds=15)))

    written = capsys.readouterr()
    assert written.err + written.out == (
        "  w-0 begins anew in 15s, the wait after its earlier failure\n"
    )

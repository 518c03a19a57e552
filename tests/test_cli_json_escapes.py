"""JSON on a terminal: each verb escapes what it would obey, and a parser reads the same text."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.main import main
from tests.trace_kit import Recording, trace

HOSTILE = "\x9b31m \u202e \u2066 \x7f \U000e0041"
"""A control sequence, two that turn the direction of writing, and a tag that nobody sees."""
HOSTILE_YAML = '"\\x9b31m \\u202e \\u2066 \\x7f"'


class Note(Struct):
    """Any document."""

    text: str


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_printed_is_one_printable_line_and_says_the_same(text: str) -> None:
    printed = as_json(Note(text))
    assert (json.loads(printed), printed.isprintable()) == ({"text": text}, True)


def test_letters_of_any_language_stay_as_they_are() -> None:
    assert as_json(Note("größer, 日本, 🚀")) == '{"text":"größer, 日本, 🚀"}'


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["validate", "wrong.yaml", "--json"], 2),
        (["plan", "new.yaml", "--from", "old.yaml", "--json"], 0),
        (["plan", "wrong.yaml", "--json"], 2),
        (["up", "wrong.yaml", "--once", "--json"], 2),
        (["up", "wrong.yaml", "--json"], 2),
    ],
)
def test_every_verb_prints_json_that_does_nothing_to_a_terminal(
    arguments: list[str],
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Given files with such characters in what the document repeats
    monkeypatch.chdir(tmp_path)
    text = "run_id: 7\ngroups: [{group_id: w, role: r, count: 1, provider: process, boot: {env: "
    for name, end in (("old", "{A: b}}}]"), ("new", f"{{A: {HOSTILE_YAML}}}}}}}]")):
        Path(f"{name}.yaml").write_text(text + end)
    Path("wrong.yaml").write_text(f"run_id: {HOSTILE_YAML}\n")
    # When the verb prints its document
    assert main(arguments) == expected
    # Then it is JSON in which nothing moves or colours anything
    printed = capsys.readouterr().out
    assert json.loads(printed)
    assert printed.removesuffix("\n").isprintable()


def test_a_trace_is_printed_as_json_that_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    # Given a run that failed in such words
    run = Recording(tmp_path / "run.jsonl")
    first, _ = run.begin()
    run.fail(first, HOSTILE)
    log = run.close()
    # When it is read as data
    stream, summary = trace(log, "--json"), trace(log, "--summary", "--json")
    # Then every line is harmless, and the reason is all there
    assert all(line.isprintable() for said in (stream, summary) for line in said.out.splitlines())
    assert HOSTILE in [reason["reason"] for reason in json.loads(summary.out)["reasons"]]

"""What the documents tell people to run does run, what they point to exists, and what the code can
say to people has a word in them.

Commands and snippets of one document run one after the other, each document in a place of its own.
"""

import ast
import contextlib
import fnmatch
import inspect
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from cluster_reconciler import actors
from cluster_reconciler.actors import EventKind, status
from cluster_reconciler.actors.cli import exit_codes, signals
from cluster_reconciler.messages import (
    BootstrapStage,
    NodeStage,
    OperationKind,
    ShapeRefused,
)
from tests.document_texts import Text, as_searched, texts_of

HERE = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", *sorted(str(p.relative_to(HERE)) for p in HERE.glob("docs/*.md")))

BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
FILE_NAMED = re.compile(r"`(?P<file>(?:[\w.]+/)*[\w.]+\.(?:py|toml|md))(?:::(?P<name>\w+))?`")

SET_UP = "python3 -m venv .venv && "
"""Begins the two commands of the first screen, which set up an environment of their own: `.ci/run`
runs each in a fresh clone."""

SECONDS_MAX = 60

NOT_TOLD_HERE = (
    "decider/invariants*",  # defects of ours, each told with its story
    "decider/node.py",  # the table, which stands in the README
    "actors/mailbox_words.py",  # how a story words each message
    "actors/stepping*",  # the test kit
    "executors/providers/memory*",  # likewise
    "actors/cli/*arguments.py",  # `--help` is a page of its own
    "actors/cli/read_*",  # faults of syntax, each with its place and what to write
    "actors/cli/*_recovery.py",  # likewise
    "executors/lazy_names.py",  # what Python says itself
    "executors/secret_words.py",  # what to hide, no word of its own
    "actors/cli/faults.py",  # how a fault words what it found
    "actors/cli/live_*",  # what is seen at once, and by nobody later
    "actors/cli/plan_words.py",  # likewise
    "actors/cli/trace_words.py",
    "actors/cli/trace_tables.py",
    "actors/cli/trace_summary.py",
    "actors/cli/shape_file.py",  # a fault that stands with its place and what to write
)


def read(document: str) -> str:
    return (HERE / document).read_text(encoding="utf-8")


def blocks(document: str, language: str) -> list[str]:
    return [f["text"] for f in BLOCK.finditer(read(document)) if f["language"] == language]


# -- what is to be run -----------------------------------------------------------------------------


class Running:
    """What one document tells to run, in a place of its own that looks like the repository."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self._state = folder / "state"
        work = folder / "work"
        work.mkdir()
        for name in ("docs", "examples", "tests", "README.md"):
            (work / name).symlink_to(HERE / name)
        self._process = subprocess.Popen(
            words,
            cwd=work,
            env={**os.environ, "XDG_STATE_HOME": str(self._state)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ends_well(self) -> None:
        """In time, and leaves no lease behind."""
        said, errors = self._process.communicate(timeout=SECONDS_MAX)
        assert self._process.returncode == 0, f"{self._process.returncode}\n{said}\n{errors}"
        assert list(self._state.glob("cluster-reconciler/run-*/*")) == []

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # What it left in the background, too.
        self._process.communicate()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Running]]:
    """By document and language: all begin at once, since each of them waits most of its time."""
    begun = {
        (document, language): Running(words, tmp_path_factory.mktemp("document"))
        for document in DOCUMENTS
        for language, words in (("sh", commands(document)), ("python", snippets(document)))
    }
    yield begun
    for one in begun.values():
        one.close()


def commands(document: str) -> list[str]:
    """Those that need no set-up, as one script."""
    lines = [line for block in blocks(document, "sh") for line in block.splitlines()]
    script = "\n".join(["set -eu", *(line for line in lines if not line.startswith(SET_UP))])
    return ["sh", "-c", script.replace(".venv/bin/", f"{Path(sys.executable).parent}/")]


def snippets(document: str) -> list[str]:
    """All of them, as one program."""
    return [sys.executable, "-c", "\n".join(blocks(document, "python"))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_that_needs_no_set_up_ends_well(
    document: str, running: dict[tuple[str, str], Running]
) -> None:
    running[document, "sh"].ends_well()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_snippets_run_one_after_the_other(
    document: str, running: dict[tuple[str, str], Running]
) -> None:
    running[document, "python"].ends_well()


def test_the_documents_have_what_is_run_here() -> None:
    assert {d for d in DOCUMENTS if blocks(d, "sh")} >= {"README.md", "docs/operating.md"}
    assert {d for d in DOCUMENTS if blocks(d, "python")} >= {"README.md", "docs/embedding.md"}


# -- what is pointed to ----------------------------------------------------------------------------


def anchors(document: str) -> set[str]:
    """The places that a link can lead to, named as GitHub names them."""
    headings = (found["text"].lower() for found in HEADING.finditer(read(document)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    targets = [found["target"] for found in LINK.finditer(read(document))]

    broken = []
    for target in targets:
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        to = (HERE / document).parent / file if file else HERE / document
        known = to.is_file() and (
            not anchor or anchor in anchors(str(to.resolve().relative_to(HERE)))
        )
        broken += [] if known else [target]
    assert broken == []


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if d.startswith("docs/")])
def test_every_file_and_test_that_is_named_exists(document: str) -> None:
    missing = []
    for found in FILE_NAMED.finditer(read(document)):
        file, name = found["file"], found["name"]
        places = [HERE / file, HERE / "tests" / file]
        path = next((p for p in places if p.is_file()), None)
        if path is None or (name and f"def {name}(" not in path.read_text(encoding="utf-8")):
            missing.append(found.group())
    assert missing == []


# -- what must have a word -------------------------------------------------------------------------


def test_every_exit_code_is_explained() -> None:
    of_modules = (code for code in vars(exit_codes).values() if isinstance(code, int))
    codes = {*of_modules, *(exit_codes.after_signal(number) for number in signals.HANDLED)}

    text = read("docs/operating.md")
    assert sorted(code for code in codes if f"| `{code}` |" not in text) == []


@pytest.mark.parametrize("words", [EventKind, NodeStage, BootstrapStage, OperationKind])
def test_every_word_of_a_status_or_event_is_explained(words: type[StrEnum]) -> None:
    text = read("docs/operating.md")

    assert [word for word in words if f"`{word}`" not in text] == []


def test_everything_that_a_node_may_wait_for_is_explained() -> None:
    text = as_searched(read("docs/operating.md"))

    found = sorted(set(_waits()))
    assert len(found) > 12
    assert [wait for wait in found if wait not in text] == []


def _waits() -> Iterator[str]:
    """What `actors/status.py` can put behind "waits for": every text of the places that say it."""
    places = {"_OPERATIONS", "_NO_ATTEMPT_ID", "_missing", "_wait", "status_of"}
    for place in ast.walk(ast.parse(inspect.getsource(status))):
        if _name_of(place) not in places:
            continue
        hidden = {
            id(part)
            for node in ast.walk(place)
            if isinstance(node, ast.Expr | ast.Assert | ast.match_case)
            for part in ast.walk(node.pattern if isinstance(node, ast.match_case) else node)
        }
        for part in ast.walk(place):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                text = " ".join(part.value.split())
                if id(part) not in hidden and " " in text.strip(" ,"):
                    yield text.strip(" ,")


def _name_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return node.name if isinstance(node, ast.FunctionDef) else None


def test_every_exception_of_the_embedding_interface_is_explained() -> None:
    public = [value for name in actors.__all__ if isinstance(value := getattr(actors, name), type)]
    errors = {kind.__name__ for kind in public if issubclass(kind, Exception)}
    errors |= {kind.__name__ for kind in ShapeRefused.__subclasses__()}

    text = read("docs/embedding.md")
    assert len(errors) > 10
    assert sorted(name for name in errors if f"`{name}`" not in text) == []


def test_every_text_that_the_code_can_say_can_be_found_by_searching() -> None:
    searched = as_searched(read("docs/operating.md"))
    texts = [
        text
        for folder in ("actors", "decider", "executors", "messages")
        for path in sorted((HERE / folder).rglob("*.py"))
        if not any(fnmatch.fnmatch(str(path.relative_to(HERE)), told) for told in NOT_TOLD_HERE)
        for text in texts_of(path, str(path.relative_to(HERE)))
    ]

    assert len(texts) > 200
    assert [text for text in texts if as_searched(text.piece) not in searched] == []


def test_a_text_is_taken_by_its_longest_part_and_what_is_for_nobody_is_left_out(
    tmp_path: Path,
) -> None:
    source = tmp_path / "source.py"
    source.write_text(
        '"""A docstring of this module."""\n'
        'raise ValueError(f"{name} must not be empty, found {value!r}")\n'
        'logger.warning("provider {} could not close: {!r}", kind, error)\n'
        'assert known, "this can never be seen"\n'
        'WORDS = re.compile("a b c"), "two words"\n',
        encoding="utf-8",
    )

    assert texts_of(source, "source.py") == [
        Text("source.py:2", "must not be empty, found"),
        Text("source.py:3", "could not close"),
    ]

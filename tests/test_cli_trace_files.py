"""What `trace` says of files that are no trace, of another version, torn or damaged, and of
questions that nothing answers: a word, and an exit code that agrees with it."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.trace_document import TraceSummary
from cluster_reconciler.actors.stepping_words import group, shape
from tests.trace_kit import Recording, Said, damage_header, trace

TORN = b'{"type":"message","sequence":99,"at":"2026-01-0'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    run = Recording(tmp_path / "run.jsonl", shape(group(name="worker", count=3)))
    run.settle(run.begin())
    return run.close()


def test_a_torn_last_line_costs_that_line_only(log: Path) -> None:
    whole = trace(log, "--json")
    with log.open("ab") as file:
        file.write(TORN)
    said = trace(log, "--json")
    number = len(whole.out.splitlines()) + 1
    assert (said.code, said.out) == (0, whole.out)
    assert said.err.startswith(f"{log} breaks off in line {number}: ")
    assert said.err.endswith("; what came before it was read\n")


def test_a_header_that_breaks_off_is_a_torn_file_too(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:100])
    assert trace(log) == Said(0, "", f"{log} breaks off in its first line; there is nothing else\n")
    assert trace(log, "--summary").out == f"{log}: nothing could be read\n"


def test_a_damaged_line_in_the_middle_is_named(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    lines[3] = TORN + b"\n"
    log.write_bytes(b"".join(lines))
    said = trace(log)
    assert said.code == 2
    assert said.err.startswith(f"{log}, line 4 cannot be read: ")
    assert "pass: 3 inserted" in said.out


def test_another_version_is_refused(log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"version":2', b'"version":9', 1))
    said = trace(log)
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        f"{log} is a trace of format 9, this program reads format 2; "
        "read it with the version of cluster-reconciler that wrote it (its first line says)\n"
    )


@pytest.mark.parametrize(
    "content",
    [b"run_id = 7\n", b"run_id = 7", b"", b"\n", b"\xff\xfe\x00", b"[]\n", b'{"type":"message"}\n'],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "shape.toml"
    path.write_bytes(content)
    said = trace(path)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"{path} is no trace")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("flags", [(), ("--follow",), ("--summary",)])
def test_what_else_a_file_is_is_named(log: Path, flags: tuple[str, ...]) -> None:
    whole = log.read_bytes()
    _, messages = whole.split(b"\n", 1)
    found = {}
    for name, content in (
        ("packed", gzip.compress(whole)),
        ("bytes", b"\x7fELF\0\0" + whole),
        ("rotated", messages),
        ("joined", whole + whole),
    ):
        log.write_bytes(content)
        said = trace(log, *flags)
        found[name] = (said.code, said.err.removeprefix(f"{log}"))
    line = len(whole.splitlines()) + 1
    assert found == {
        "packed": (2, " is no trace as it is: it is compressed, by gzip; unpack it\n"),
        "bytes": (2, " is no trace: it holds bytes that are no text\n"),
        "rotated": (
            2,
            (
                " is no trace from its beginning: it begins with a message, the header is missing "
                "(was it rotated, or cut?); put its first part before it\n"
            ),
        ),
        "joined": (
            2,
            f", line {line} begins another trace: two files were joined; split them there\n",
        ),
    }


def test_a_file_that_is_not_there_is_named_with_the_one_that_was_meant(log: Path) -> None:
    missing = log.with_name("rum.jsonl")
    assert trace(missing) == Said(
        2, "", f"{missing}: expected a trace, found no such file (did you mean run.jsonl?)\n"
    )
    assert trace(missing, "--follow").code == 2


def test_a_directory_is_named_as_such(tmp_path: Path) -> None:
    assert trace(tmp_path) == Said(
        2, "", f"{tmp_path}: expected a file that `up --trace` wrote, found a directory\n"
    )


def test_with_summary_and_json_a_refusal_is_a_document_too(tmp_path: Path) -> None:
    said = trace(tmp_path, "--summary", "--json")
    text = f"{tmp_path}: expected a file that `up --trace` wrote, found a directory"
    assert (said.code, said.err) == (2, text + "\n")
    found = msgspec.json.decode(said.out, type=TraceSummary)
    assert found == TraceSummary(str(tmp_path), 2, error=text)


@pytest.mark.parametrize(
    ("question", "word"),
    [
        (
            ("--node", "wroker-1"),
            (
                'there is no node "wroker-1" (did you mean "worker-1"?); '
                "there is worker-0, worker-1, worker-2"
            ),
        ),
        (("--attempt", "9"), "there is no attempt 9; there is 1 to 3"),
        (("--operation", "2,9"), "of the operations of attempt 2 there is 1 to 3"),
        (("--operation", "op(9,1)"), "of the operations of attempt 9 there is none"),
        (
            ("--node", "worker-0", "--attempt", "2"),
            "attempt 2 is of worker-1; worker-0 had attempts from 1",
        ),
        (
            ("--attempt", "2", "--operation", "3,1"),
            "op(3,1) is of attempt 3, not of attempt 2",
        ),
    ],
)
def test_what_is_not_there_is_said_with_what_is(
    log: Path, question: tuple[str, ...], word: str
) -> None:
    """With 0: the trace was read, and the answer is that there is nothing."""
    for flags in ((), ("--json",), ("--summary",)):
        said = trace(log, *question, *flags)
        assert (said.code, said.err) == (0, f"nothing matches: {word}\n")


def test_an_operation_that_is_none_is_wrong_usage(log: Path) -> None:
    said = trace(log, "--operation", "create\x1b")
    expected = (
        "trace --operation: expected an operation such as op(3,1) or 3,1, found 'create\\x1b'\n"
        "`cluster-reconciler trace --help` tells more\n"
    )
    assert said == Said(2, "", expected)


def test_a_trace_that_is_not_what_its_digests_say_is_told_of_once(log: Path) -> None:
    text = log.read_bytes().replace(b"lease-1", b"lease-x")
    log.write_bytes(text)
    said = trace(log, "--node", "worker-0")
    assert said.code == 0
    assert said.err.startswith("the trace and its replay differ from here on, line ")
    assert said.err.count("\n") == 1


def test_a_pipe_is_read_and_a_reader_that_goes_away_ends_it(log: Path) -> None:
    # Given a long trace on a pipe, and a reader of one line
    line = log.read_bytes().splitlines(keepends=True)[-1]
    with log.open("ab") as file:
        file.write(line * 20_000)
    read, write = os.pipe()
    with subprocess.Popen(["cat", str(log)], stdout=write) as cat:
        os.close(write)
        process = subprocess.Popen(
            [sys.executable, "-m", "cluster_reconciler.actors", "trace", "/dev/stdin", "--json"],
            stdin=read,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(read)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"type":"header"')

        # When the reader goes
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()

        # Then it ends as programs do whose reader has gone
        assert process.wait(timeout=60) == 141
    assert b"Traceback" not in errors
    assert cat.returncode != 0


def test_a_header_whose_shape_is_refused_is_told(log: Path) -> None:
    damage_header(log)
    text = (
        f"{log} is no sound trace, its header's shape is refused: "
        "group 'worker' belongs to run 7, its shape to run 9"
    )
    documents = [trace(log, *flags) for flags in (("--json",), ("--summary", "--json"))]
    assert [trace(log), trace(log, "--summary")] == [Said(2, "", text + "\n")] * 2
    assert [
        (said.code, said.err, msgspec.json.decode(said.out, type=TraceSummary))
        for said in documents
    ] == [(2, text + "\n", TraceSummary(str(log), 2, error=text))] * 2

"""`trace --follow`: goes on as the file grows, through torn lines and a new run, until Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.trace_document import TraceSummary
from cluster_reconciler.actors.stepping_words import shape
from tests.trace_kit import Recording, damage_header

DEADLINE_S = 60.0


class Following:
    """A running `trace --follow`; what it prints goes to files, so that it can be watched."""

    def __init__(self, log: Path, *flags: str, out: int | None = None) -> None:
        """`out`: what it prints goes there, instead of to its file."""
        self._out, self._err = log.with_name("out"), log.with_name("err")
        command = [sys.executable, "-m", "cluster_reconciler.actors", "trace", str(log)]
        with self._out.open("wb") as file, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, "--follow", *flags],
                stdout=file if out is None else out,
                stderr=err,
                env={**os.environ, "TZ": "UTC"},
                start_new_session=True,
            )

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.out + self.err:
            assert self.process.poll() is None, self.err
            assert time.monotonic() < deadline, f"no {text!r} in {self.out}"
            time.sleep(0.02)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=DEADLINE_S)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[list[Following]]:
    running: list[Following] = []
    yield running
    for one in running:
        one.end()


def test_it_shows_each_message_as_it_comes_and_ends_on_an_interrupt(
    tmp_path: Path, begun: list[Following]
) -> None:
    # Given a run that is followed from its start on
    run = Recording(tmp_path / "run.jsonl", shape())
    following = Following(run.path)
    begun.append(following)
    following.wait_for("began 2026-01-02 03:04:05")

    # When messages come, then they are shown at once
    [create] = run.begin()
    following.wait_for("op(1,1) create_lease dispatched")
    run.fail(create, "sold out")
    following.wait_for("failed (definite) after <1 ms: sold out -> next try in 1 s")
    run.close()

    # And Ctrl-C ends it well
    assert (following.interrupt(), following.err) == (0, "")


def test_a_torn_line_is_waited_for(tmp_path: Path, begun: list[Following]) -> None:
    # Given a trace whose last line is being written
    run = Recording(tmp_path / "run.jsonl", shape())
    [create] = run.begin()
    run.fail(create, "sold out")
    whole = run.close().read_bytes()
    place = whole.index(b"sold out")
    run.path.write_bytes(whole[:place])
    following = Following(run.path)
    begun.append(following)
    following.wait_for("op(1,1) create_lease dispatched")

    # When the rest of it comes
    with run.path.open("ab") as file:
        file.write(whole[place:])

    # Then it is shown, and nothing is said of it
    following.wait_for("failed (definite) after <1 ms: sold out -> next try in 1 s")
    assert (following.interrupt(), following.err) == (0, "")


def test_a_header_that_is_being_written_is_waited_for(
    tmp_path: Path, begun: list[Following]
) -> None:
    run = Recording(tmp_path / "run.jsonl", shape())
    run.begin()
    whole = run.close().read_bytes()
    run.path.write_bytes(whole[:50])
    following = Following(run.path)
    begun.append(following)
    with run.path.open("ab") as file:
        file.write(whole[50:])
    following.wait_for("op(1,1) create_lease dispatched")
    assert (following.interrupt(), following.err) == (0, "")


def test_another_run_in_the_same_file_begins_anew(tmp_path: Path, begun: list[Following]) -> None:
    run = Recording(tmp_path / "run.jsonl", shape())
    run.settle(run.begin())
    run.close()
    following = Following(run.path)
    begun.append(following)
    following.wait_for("generation 1 is converged")

    run = Recording(tmp_path / "run.jsonl", shape(generation=5))
    run.begin()
    run.close()

    following.wait_for("generation 5: 1 node in 1 group")
    assert following.interrupt() == 0
    assert following.err == "the file was written anew, by another run:\n"


def test_another_run_whose_header_is_damaged_ends_it(
    tmp_path: Path, begun: list[Following]
) -> None:
    # Given a trace that is followed
    run = Recording(tmp_path / "run.jsonl", shape())
    run.begin()
    following = Following(run.close(), "--json")
    begun.append(following)
    following.wait_for("create_lease")

    # When a damaged one takes its place
    run = Recording(tmp_path / "other.jsonl", shape(generation=5))
    run.begin()
    damage_header(run.close())
    run.path.rename(tmp_path / "run.jsonl")

    # Then it is refused, with a document that says so
    assert following.process.wait(timeout=DEADLINE_S) == 2
    document = msgspec.json.decode(following.out.splitlines()[-1], type=TraceSummary)
    assert (document.exit_code, document.error) == (2, following.err.splitlines()[-1])
    assert "run.jsonl is no sound trace, its header's shape is refused: group " in following.err


def test_a_file_that_goes_away_ends_it(tmp_path: Path, begun: list[Following]) -> None:
    run = Recording(tmp_path / "run.jsonl", shape())
    run.begin()
    following = Following(run.close())
    begun.append(following)
    following.wait_for("op(1,1) create_lease dispatched")
    run.path.unlink()
    assert following.process.wait(timeout=DEADLINE_S) == 0
    assert following.err == "the file is gone: nothing more can come\n"


def test_with_summary_it_sums_up_what_came_until_the_interrupt(
    tmp_path: Path, begun: list[Following]
) -> None:
    run = Recording(tmp_path / "run.jsonl", shape())
    run.settle(run.begin())
    following = Following(run.close(), "--summary", "--json")
    begun.append(following)
    following.wait_for("read to its end; following until Ctrl-C, then comes the summary")
    assert following.interrupt() == 0
    summary = msgspec.json.decode(following.out, type=TraceSummary)
    assert (summary.exit_code, [node.phase for node in summary.nodes]) == (0, ["ready"])


@pytest.mark.parametrize("begun_only", [False, True], ids=["it rests", "no header yet"])
@pytest.mark.parametrize("flags", [(), ("--summary",), ("--node", "nobody")])
def test_a_reader_that_goes_away_ends_it_though_nothing_more_comes(
    tmp_path: Path, begun: list[Following], flags: tuple[str, ...], begun_only: bool
) -> None:
    # Given a file that does not grow, and somebody who reads what is told of it
    run = Recording(tmp_path / "run.jsonl", shape())
    run.begin()
    whole = run.close().read_bytes()
    run.path.write_bytes(whole[:50] if begun_only else whole)
    read_end, write_end = os.pipe()
    following = Following(run.path, *flags, out=write_end)
    begun.append(following)
    os.close(write_end)

    # When the reader goes (at once, or after the first line)
    if not begun_only and "--summary" not in flags:
        assert os.read(read_end, 3) == b"run"
    os.close(read_end)

    # Then it ends as one that SIGPIPE ended, and has no last word but that it follows
    code = following.process.wait(timeout=DEADLINE_S)
    said = {"", "read to its end; following until Ctrl-C, then comes the summary\n"}
    assert (code, following.err in said) == (141, True)

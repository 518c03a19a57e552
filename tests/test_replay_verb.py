"""`replay` as people and programs use it: what it prints, its options, and what it cannot read.

After a deliberate change write the goldens anew, and read what has changed:

    GOLDEN_TRACES=write .venv/bin/pytest tests/test_replay_verb.py
"""

import contextlib
import fcntl
import gzip
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.replay_document import ReplayReport
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.trace import TRACE_VERSION, TraceLine, read_trace
from cluster_reconciler.messages import Disposition
from tests.replay_kit import command, proved, replay, report, sealed
from tests.test_cli_trace_golden import compare, without_versions
from tests.trace_kit import Recording, Said, damage_header

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two nodes: one becomes ready and is lost, the other's create has no answer."""
    run = Recording(tmp_path / "run.jsonl", shape(group(count=2)))
    first, second = run.begin()
    run.clock.advance(timedelta(milliseconds=1240))
    run.settle([first])
    run.fail(second, "the reply was lost\x1b[31m", Disposition.AMBIGUOUS)
    run.wait(2)
    run.lose(first, "its power failed")
    return run.close()


def sequences(log: Path) -> list[int]:
    return [line.sequence for line in read_trace(log) if isinstance(line, TraceLine)]


# -- what is printed ------------------------------------------------------------------------------


def test_an_equal_log_as_people_read_it(log: Path) -> None:
    said = replay(log)
    assert (said.code, said.err) == (0, "")
    compare("replay_equal.txt", without_versions(said.out))


def test_the_state_at_a_message_as_people_read_it(log: Path) -> None:
    said = replay(log, "--state", "--until", sequences(log)[-4])
    assert (said.code, said.err) == (0, "")
    compare("replay_state.txt", without_versions(said.out))


def test_one_node_s_story_and_state_as_people_read_them(log: Path) -> None:
    said = replay(log, "--node", "g-1", "--state")
    assert (said.code, said.err) == (0, "")
    compare("replay_node.txt", without_versions(said.out))


def test_a_difference_as_people_read_it(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if b"the reply was lost" in line)
    lines[number] = lines[number].replace(
        b'"at":"2026-01-02T03:04:06', b'"at":"2026-01-02T03:04:07'
    )
    log.write_bytes(sealed(lines))
    said = replay(log)
    assert (said.code, said.err) == (1, "")
    compare(
        "replay_differs.txt", re.sub(r"digest \w{8}|says \w{8}", "…", without_versions(said.out))
    )


def test_the_document_says_what_the_lines_say(log: Path) -> None:
    found = report(log, "--state", "--node", "g-0")
    assert found.state is not None
    assert (found.messages, found.passes, found.nodes, found.ready) == (
        len(sequences(log)), found.plans_compared, 2, 0,
    )  # fmt: skip
    [node] = found.state.nodes
    assert (node.node, node.attempt, node.stage, node.intent, node.pending) == (
        "g-0", 1, "failed", "deleting", "op(1,4)",
    )  # fmt: skip
    assert node.last_error == "the node is lost: its power failed"
    assert [entry.sequence for entry in found.story] == sorted(
        {entry.sequence for entry in found.story}
    )
    assert found.story[-1].sequence == found.state.sequence


@pytest.mark.parametrize("flags", [(), ("--json",), ("--state",), ("--node", "g-1")])
def test_nothing_that_a_terminal_would_obey_comes_out(log: Path, flags: tuple[str, ...]) -> None:
    said = replay(log, *flags)
    assert "\x1b" not in said.out + said.err


# -- how far --------------------------------------------------------------------------------------


def test_until_stops_behind_the_message_that_is_named(log: Path) -> None:
    numbers = sequences(log)
    found = {n: report(log, "--state", "--until", n) for n in numbers}
    assert [one.messages for one in found.values()] == list(range(1, len(numbers) + 1))
    assert [one.state and one.state.sequence for one in found.values()] == numbers
    assert all(one.equal for one in found.values())


def test_until_beyond_the_end_and_before_the_first_message_say_so(log: Path) -> None:
    last = sequences(log)[-1]
    beyond = replay(log, "--until", last + 5, "--state")
    assert (beyond.code, beyond.err) == (
        0, f"the last message is {last}, before {last + 5}: to its end\n",
    )  # fmt: skip
    before = replay(log, "--until", 0, "--state")
    assert (before.code, before.err) == (
        0, "message 0 is before the first one: nothing had happened yet\n",
    )  # fmt: skip
    assert "state after message 0" in before.out
    assert replay(log, "--until", last).err == ""


def test_a_node_that_is_not_there_is_told_with_the_one_that_was_meant(log: Path) -> None:
    for flags in ((), ("--json",), ("--state",)):
        said = replay(log, "--node", "g1", *flags)
        assert (said.code, said.err) == (
            0, 'nothing matches: there is no node "g1" (did you mean "g-1"?); there is g-0, g-1\n',
        )  # fmt: skip


# -- logs that break off --------------------------------------------------------------------------


def test_a_log_that_is_torn_at_any_byte_of_its_last_line_is_read_up_to_there(log: Path) -> None:
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    before, last = b"".join(lines[:-1]), lines[-1]
    for length in range(1, len(last) - 1):
        log.write_bytes(before + last[:length])
        found = report(log)
        assert (found.exit_code, found.equal, found.messages) == (0, True, len(lines) - 2), length
        assert found.torn is not None
        assert found.torn.startswith(f"{log} breaks off in line {len(lines)}: ")
    # With all but its line's end it is whole, and without any of it nobody can tell.
    for rest in (last[:-1], b""):
        log.write_bytes(before + rest)
        assert (report(log).torn, report(log).equal) == (None, True)


def test_people_are_told_that_it_breaks_off(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-9])
    said = replay(log)
    assert said.code == 0
    assert said.err.startswith(f"{log} breaks off in line ")
    assert said.err.endswith("; what came before it was replayed\n")
    assert "EQUAL: every message led to the same: " in said.out


def test_a_log_that_breaks_off_in_its_header_holds_nothing_to_replay(log: Path) -> None:
    header = log.read_bytes().splitlines()[0]
    for length in (1, 20, len(header) - 1):
        log.write_bytes(header[:length])
        said = replay(log)
        assert said == Said(
            2, "", f"{log} breaks off in its first line; there is nothing to replay\n"
        )
        assert report(log).error == said.err.removesuffix("\n")


# -- what is no log -------------------------------------------------------------------------------


def test_a_log_of_another_version_is_refused_and_both_are_named(log: Path) -> None:
    for found in (1, 99):
        content = log.read_bytes().splitlines(keepends=True)
        content[0] = content[0].replace(b'"version":2', b'"version":%d' % found)
        other = log.with_name("other.jsonl")
        other.write_bytes(b"".join(content))
        text = (
            f"{other} is a trace of format {found}, this program reads format {TRACE_VERSION}; "
            "read it with the version of cluster-reconciler that wrote it (its first line says)"
        )
        assert replay(other) == Said(2, "", text + "\n")
        assert report(other) == ReplayReport(str(other), 2, False, error=text)


def test_what_is_no_log_is_refused_in_words(log: Path) -> None:
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    found = {}
    for name, content in {
        "empty": b"",
        "a shape": b"run_id = 7\n",
        "no text": b"\x7fELF\0\0" + whole,
        "packed": gzip.compress(whole),
        "rotated": b"".join(lines[1:]),
        "joined": whole + whole,
        "damaged": b"".join([*lines[:4], b"{}\n", *lines[5:]]),
        "no shape": b'{"type":"header","version":2}\n',
    }.items():
        log.write_bytes(content)
        said = replay(log)
        found[name] = (said.code, said.err.removeprefix(str(log)).rstrip())
        assert report(log).error == said.err.removesuffix("\n")
    none = " is no trace of cluster-reconciler: "
    assert {name: code for name, (code, _) in found.items()} == dict.fromkeys(found, 2)
    assert {name: text for name, (_, text) in found.items()} == {
        "empty": f"{none}it is empty",
        "a shape": f"{none}its first line is no header: JSON is malformed: invalid character "
        "(byte 0)",
        "no text": " is no trace: it holds bytes that are no text",
        "packed": " is no trace as it is: it is compressed, by gzip; unpack it",
        "rotated": " is no trace from its beginning: it begins with a message, the header is "
        "missing (was it rotated, or cut?); put its first part before it",
        "joined": f", line {len(lines) + 1} begins another trace: two files were joined; split "
        "them there",
        "damaged": ", line 5 cannot be read: Object missing required field `sequence`",
        "no shape": f"{none}its first line is no header: Object missing required field `shape`",
    }


@pytest.mark.parametrize("place", [0, 2, -1], ids=["header", "a line", "the last line"])
def test_a_line_that_is_nested_too_deeply_is_one_that_cannot_be_read(log: Path, place: int) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    deep = b'"deep":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    lines[place] = lines[place].rstrip().removesuffix(b"}") + b"," + deep + b"}\n"
    log.write_bytes(b"".join(lines))

    said, found = replay(log), report(log)

    assert (said.code, found.exit_code, found.equal) == (2, 2, False)
    assert "internal" not in said.err
    assert found.error == said.err.removesuffix("\n")


def test_what_came_before_a_line_that_cannot_be_read_is_counted(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:4], b"nonsense\n", *lines[5:]]))
    found = report(log)
    assert (found.exit_code, found.equal, found.messages, found.compared) == (2, False, 3, 3)


def test_a_header_that_is_not_sound_is_told(log: Path) -> None:
    damage_header(log)
    assert replay(log) == Said(
        2, "", f"{log} is no sound trace, its header's shape is refused: "
        "group 'g' belongs to run 7, its shape to run 9\n",
    )  # fmt: skip


def test_times_without_their_zone_are_refused(log: Path) -> None:
    content = log.read_bytes()
    log.write_bytes(content.replace(b'03:04:05Z","version"', b'03:04:05","version"', 1))
    assert "its first line is no header" in replay(log).err
    lines = content.splitlines(keepends=True)
    lines[3] = re.sub(rb'("at":"[^"]+)Z"', rb'\1"', lines[3], count=1)
    log.write_bytes(b"".join(lines))
    assert replay(log).err.startswith(f"{log}, line 4 cannot be read: ")


def test_what_is_no_file_is_named_as_such(tmp_path: Path) -> None:
    assert replay(tmp_path) == Said(
        2, "", f"{tmp_path}: expected a file that `up --trace` wrote, found a directory\n"
    )
    missing = tmp_path / "rum.jsonl"
    (tmp_path / "run.jsonl").write_text("")
    assert replay(missing) == Said(
        2, "", f"{missing}: expected a trace, found no such file (did you mean run.jsonl?)\n"
    )


def test_a_file_that_may_not_be_read_is_told(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a file that the system does not open for us (a permission would not stop root)
    def refuse(path: Path, *_how: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    said = replay(log)
    assert said == Said(2, "", f"{log}: expected a trace, it cannot be read: Permission denied\n")


def test_a_pipe_is_replayed_too(log: Path, tmp_path: Path) -> None:
    whole = log.read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for content, code in ((whole, 0), (whole[:40], 2), (whole.replace(b"lease-1", b"x", 1), 1)):
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        assert replay(pipe).code == code
        writer.join(10)
        assert not writer.is_alive()


def test_a_huge_line_is_read_as_any_other(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    blown = lines[0].replace(b'"versions":{', b'"versions":{"more":"%b",' % (b"x" * 20_000_000))
    log.write_bytes(b"".join([blown, *lines[1:]]))
    found = report(log)
    assert (found.exit_code, found.altered_line) == (1, 1)
    log.write_bytes(b"".join(lines) + b"[" * 20_000_000)
    assert (report(log).exit_code, report(log).torn is not None) == (0, True)


def test_wrong_usage_is_told(log: Path) -> None:
    said = replay(log, "--until", "soon")
    assert said == Said(
        2, "", "replay --until: expected the number of a message, whole and 0 or more, found "
        "'soon'\n`cluster-reconciler replay --help` tells more\n",
    )  # fmt: skip
    assert replay(log, "--untill", "9").code == 2


def test_a_reader_that_goes_away_ends_it_with_141(log: Path) -> None:
    program = [sys.executable, "-m", "cluster_reconciler.actors", "replay", str(log)]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(program, stdout=write, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_it_writes_nothing_and_needs_no_provider(log: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = log.read_bytes()
    said = command(elsewhere, "replay", log, "--state")
    assert (said.code, list(elsewhere.iterdir()), log.read_bytes()) == (0, [], before)


def test_a_line_without_a_digest_is_counted_as_not_compared(log: Path) -> None:
    # Given a log whose writer could take no digest of one state
    lines = log.read_bytes().splitlines(keepends=True)
    fields = msgspec.json.decode(lines[3])
    del fields["digest"]
    lines[3] = msgspec.json.encode(fields)
    log.write_bytes(sealed(lines))

    # Then nothing claims that it was compared
    found = report(log)
    assert (found.equal, found.messages - found.compared) == (True, 1)
    with pytest.raises(AssertionError):
        proved(log)


def on_a_terminal(*words: object) -> Said:
    """What a terminal of 200 columns shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    program = [sys.executable, "-m", "cluster_reconciler.actors", "replay", *map(str, words)]
    with subprocess.Popen(
        program, stdout=theirs, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment
    ) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # Nobody writes any more.
            while read := os.read(ours, 65536):
                seen += read
        os.close(ours)
        assert process.stderr is not None
        errors = process.stderr.read().decode()
    return Said(process.returncode, seen.decode().replace("\r\n", "\n"), errors)


def test_on_a_terminal_the_verdict_and_the_stages_have_colours(log: Path) -> None:
    plain = replay(log, "--state")
    said = on_a_terminal(log, "--state")
    assert (said.code, said.err) == (0, "")
    assert "\x1b[32mEQUAL: " in said.out
    assert "failed" in said.out
    shown = re.sub(r"\x1b\[[0-9;]*m", "", said.out)
    assert [line.split() for line in shown.splitlines()] == [
        line.split() for line in plain.out.splitlines()
    ]
    bare = on_a_terminal(log, "--state", "--no-color")
    assert "\x1b[32m" not in bare.out

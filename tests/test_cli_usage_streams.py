"""Started with a closed stdout or stderr, before a full disk, or for a reader that has gone: no
verb calls it a success, none ends with a traceback, and none writes into a file that took a closed
stream's place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHAPE = 'run_id = 7\n[[groups]]\ngroup_id = "w"\nrole = "r"\ncount = 0\nprovider = "process"\n'
CLOSED = "stdout is closed, nothing was done; lead it to a file, or to /dev/null\n"
UNTAKEN = "stdout takes no more data: it is closed\n"

TEXTS = ["--version", "up --help"]
VERBS = [
    "validate shape.toml",
    "plan shape.toml --json",
    "up shape.toml --once --json",
    "trace run.jsonl --json",
    "trace run.jsonl --follow",
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "shape.toml").write_text(SHAPE)
    return tmp_path


def ended(words: str, streams: str, folder: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command with its streams as the shell is told."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m cluster_reconciler.actors {words} {streams}', sys.executable],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", [*TEXTS, *VERBS])
def test_a_closed_stdout_is_no_success_and_is_told(here: Path, words: str) -> None:
    told = UNTAKEN if words in TEXTS else CLOSED
    assert ended(words, ">&-", here) == (1, "", told)
    assert os.listdir(here) == ["shape.toml"]


@pytest.mark.parametrize("words", ["pln", "plan --json"])
def test_wrong_usage_stays_wrong_usage_with_a_closed_stdout(here: Path, words: str) -> None:
    code, _, errors = ended(words, ">&-", here)
    assert (code, errors.splitlines()[-1].endswith("--help` tells more")) == (2, True)


@pytest.mark.parametrize("words", ["--version", "plan shape.toml", "plan --json"])
def test_a_closed_stderr_changes_nothing_else(here: Path, words: str) -> None:
    usual = ended(words, "", here)
    assert ended(words, "2>&-", here) == (*usual[:2], "")
    code = usual[0] or 1
    assert ended(words, "2>&- >&-", here) == (code, "", "")


@pytest.mark.parametrize(
    "words", ["--version", "up --help", "validate shape.toml", "plan shape.toml --json"]
)
def test_a_full_disk_is_no_success_and_is_told(here: Path, words: str) -> None:
    told = "stdout takes no more data: No space left on device\n"
    assert ended(words, ">/dev/full", here) == (1, "", told)


@pytest.mark.parametrize("words", ["--version", "up --help", "plan shape.toml --json"])
def test_a_reader_that_has_gone_gets_neither_traceback_nor_success(here: Path, words: str) -> None:
    command = [sys.executable, "-m", "cluster_reconciler.actors", *words.split()]
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            command, cwd=here, stdout=write_end, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_file_that_is_opened_does_not_take_the_place_of_a_closed_stream(here: Path) -> None:
    # given closed streams, whose numbers the next files to be opened would get
    program = (
        "import os; from cluster_reconciler.actors.cli.output import prepare_streams; "
        "prepare_streams(); print(os.open('shape.toml', os.O_RDONLY) > 2)"
    )
    command = f'exec "$0" -c "{program}" 2>&- <&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        check=False,
        cwd=here,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "True\n")

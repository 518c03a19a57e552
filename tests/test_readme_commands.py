"""What the README tells people to run does run: its commands and its snippets, as they stand."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

SET_UP = "python3 -m venv .venv && "
"""Begins the two commands of the first screen, which set up an environment of their own: they are
run in a fresh clone, by `.ci/run` and by hand."""

SECONDS_MAX = 60


def blocks(repository: Path, language: str) -> list[str]:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    return [found["text"] for found in BLOCK.finditer(readme) if found["language"] == language]


def run(words: list[str], repository: Path, state: Path) -> str:
    """Its stdout; it must end well."""
    ended = subprocess.run(
        words,
        cwd=repository,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def test_every_command_that_needs_no_set_up_ends_well(repository: Path, tmp_path: Path) -> None:
    lines = [line for block in blocks(repository, "sh") for line in block.splitlines()]
    commands = [line for line in lines if not line.startswith(SET_UP)]
    assert len(commands) >= 3

    for command in commands:
        program, *arguments = shlex.split(command)
        here = str(Path(sys.executable).with_name(Path(program).name))
        run([here, *arguments], repository, tmp_path)

    assert list(tmp_path.glob("cluster-reconciler/run-*/*")) == []


def test_the_snippets_run_one_after_the_other(repository: Path, tmp_path: Path) -> None:
    program = "\n".join(blocks(repository, "python"))

    said = run([sys.executable, "-c", program], repository, tmp_path)

    assert "StatusCounts(wanted=3" in said
    assert list(tmp_path.glob("cluster-reconciler/run-*/*")) == []

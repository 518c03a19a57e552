"""Golden sessions of the command line: files, commands, and every character that they print.

A golden, `goldens/NAME.txt`, tells its story from top to bottom: some words on what is wrong, the
files that are there, and commands with their output and exit code.  A test runs it again and
compares.  After a deliberate change write the outputs anew, and read what has changed:

```sh
.venv/bin/python -m tests.cli_goldens --write
```

A line `--- NAME ---` begins a file; `--- NAME (latin-1) ---` one that is not UTF-8, and
`--- NAME (directory) ---` none at all.  A line that begins with `$ ` is a command; its output
follows, that on stderr after `[stderr]`, and ends with `[exit N]`.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from cluster_reconciler.actors.cli.main import main

GOLDENS = Path(__file__).resolve().parent / "goldens"

_FILE = re.compile(r"--- (?P<name>[^ ]+)(?: \((?P<kind>latin-1|directory)\))? ---")
_COMMAND = "$ "
SURROUNDINGS = {"GOLDEN_SET": "1", "GOLDEN_SET_TOO": "2", "NO_COLOR": "1", "TERM": "xterm"}


@dataclass
class Golden:
    """One session: everything but what the commands print."""

    words: list[str] = field(default_factory=list)
    files: list[tuple[str, str | None, list[str]]] = field(default_factory=list)
    """Name, kind, lines."""
    commands: list[str] = field(default_factory=list)


def goldens() -> list[Path]:
    """Every golden, in order."""
    return sorted(GOLDENS.glob("*.txt"))


def parse(text: str) -> Golden:
    """The session of a golden; what its commands printed is left out."""
    golden = Golden()
    into: list[str] | None = golden.words
    for line in text.split("\n"):
        begins = _FILE.fullmatch(line)
        if begins is not None and not golden.commands:
            into = []
            golden.files.append((begins["name"], begins["kind"], into))
        elif line.startswith(_COMMAND):
            golden.commands.append(line.removeprefix(_COMMAND))
            into = None
        elif into is not None:
            into.append(line)
    return golden


def replayed(text: str) -> str:
    """The golden with what its commands print now."""
    golden = parse(text)
    told = list(golden.words)
    for name, kind, lines in golden.files:
        told += [f"--- {name}{f' ({kind})' if kind else ''} ---", *lines]
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        patch.dict(os.environ, SURROUNDINGS),
    ):
        for file in golden.files:
            _make(*file)
        for command in golden.commands:
            told += [_COMMAND + command, *_run(command.split()), ""]
    return "\n".join(told)


def _make(name: str, kind: str | None, lines: list[str]) -> None:
    """The empty line before what follows belongs to the golden, not to the file."""
    if kind == "directory":
        Path(name).mkdir()
        return
    Path(name).write_text("\n".join(lines[:-1] + [""] * bool(lines[:-1])), encoding=kind or "utf-8")


class Terminal(io.StringIO):
    """A person reads: the line of the file stands below its fault.  In a pipe it does not."""

    def isatty(self) -> bool:
        return True


def _run(arguments: list[str]) -> Iterator[str]:
    out, err = Terminal(), Terminal()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    yield from out.getvalue().splitlines()
    if err.getvalue():
        yield "[stderr]"
        yield from err.getvalue().splitlines()
    yield f"[exit {code}]"


def _write() -> None:
    for path in goldens():
        text = path.read_text(encoding="utf-8")
        now = replayed(text)
        if now != text:
            path.write_text(now, encoding="utf-8")
            print(f"written: {os.path.relpath(path)}")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.cli_goldens --write")
    _write()

"""The script of `--completion`, as bash runs it, and what it costs those who do not ask for it."""

import os
import pty
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.completion import SHELLS
from cluster_reconciler.actors.cli.main import main

TAB, ALL = "\t", "\x1b*"
"""Keys of readline: complete; insert all that could complete."""

TOLD = """\
source "$OLDPWD/completion.bash"
cluster-reconciler() { printf '%s\\0' "$@" > "$OLDPWD/told"; exit; }
"""
SECONDS_MAX = 30

NAMES = (
    "$(touch PWNED).toml", "a b.toml", "a;b.toml", "dir with", "dir.toml", "err or",
    "new\nline.toml", "q'x.toml", "x.txt", "é.yaml",
)  # fmt: skip


MISSING = """\
--completion: expected the package shtab, found none; in the clone it comes with \
`.venv/bin/pip install -e '.[completion]'`
`cluster-reconciler --help` tells more
"""


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["--completion", "bash"]) == 0
    path = tmp_path / "completion.bash"
    path.write_text(capsys.readouterr().out)
    return path


def typed(line: str, script: Path, folder: Path) -> list[str]:
    """The words that the program gets when somebody types that in bash, at a terminal."""
    ours, its = pty.openpty()
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=its, stdout=its, stderr=its, start_new_session=True, cwd=folder,
        env={"PATH": os.environ["PATH"], "OLDPWD": str(script.parent), "TERM": "dumb",
             "INPUTRC": os.devnull, "HISTFILE": "", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    os.close(its)
    os.write(ours, f"{TOLD}cluster-reconciler {line}\n".encode())
    seen, deadline = b"", time.monotonic() + SECONDS_MAX
    try:
        while bash.poll() is None:
            assert time.monotonic() < deadline, f"it has not ended: {seen!r}"
            if select.select([ours], [], [], 0.02)[0]:
                with suppress(OSError):  # Nobody writes any more.
                    seen += os.read(ours, 65536)
    finally:
        bash.kill()
        bash.wait()
        os.close(ours)
    return (script.parent / "told").read_text().split("\0")[:-1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (ALL, ["bench", "plan", "replay", "trace", "up", "validate"]),
        (f"va{TAB}", ["validate"]),
        (f"--ver{TAB}", ["--version"]),
        (f"up --dr{TAB}", ["up", "--drain-timeout"]),
        (f"plan --ex{TAB}", ["plan", "--exit-code"]),
        (f"validate {ALL}", ["validate", *NAMES]),
        (f"up a\\ {TAB}", ["up", "a b.toml"]),
        (f'up "a b{TAB}', ["up", "a b.toml"]),
        (f"up 'a {TAB}--js{TAB}", ["up", "a b.toml", "--json"]),
        (f"up dir\\ w{TAB}i{TAB}", ["up", "dir with/in.toml"]),
        (f"plan a\\ b.toml --from q{TAB}", ["plan", "a b.toml", "--from", "q'x.toml"]),
        (f"up x --log=a\\ {TAB}", ["up", "x", "--log=a b.toml"]),
        (f"up new{TAB}", ["up", "new\nline.toml"]),
        (f"up \\${TAB}", ["up", "$(touch PWNED).toml"]),
        (f"trace x{TAB}", ["trace", "x.txt"]),
        (f"replay x{TAB}", ["replay", "x.txt"]),
        (f"up x 2> err\\ {TAB}", ["up", "x"]),
    ],
)
def test_bash_completes_verbs_options_and_files_whatever_their_names(
    script: Path, tmp_path: Path, line: str, words: list[str]
) -> None:
    folder = tmp_path / "here"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).mkdir() if name.startswith("dir") else (folder / name).touch()
    (folder / "dir with" / "in.toml").touch()

    assert typed(line, script, folder) == words
    assert sorted(found.name for found in folder.iterdir()) == list(NAMES)


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--completion", shell])
    out, errors = capsys.readouterr()
    assert (code, "drain-timeout" in out, errors) == (0, True, "")


def test_without_the_package_it_says_where_that_comes_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--completion", "bash"]) == 2
    assert capsys.readouterr() == ("", MISSING)


def test_who_does_not_ask_for_it_does_not_wait_for_the_package() -> None:
    program = (
        "import sys; from cluster_reconciler.actors.cli.main import main; "
        "main(['--version']); print('shtab' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "False"

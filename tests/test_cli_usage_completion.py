"""The script of `--completion`, as bash runs it, and what it costs those who do not ask for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.completion import SHELLS
from cluster_reconciler.actors.cli.main import main

ASKING = """
source "$1"; shift
of=$(complete -p cluster-reconciler); of=${of##*-F }; of=${of%% *}
COMP_WORDS=(cluster-reconciler "$@"); COMP_CWORD=$#
"$of" && printf '%s\\n' "${COMPREPLY[@]}"
"""


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


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([""], {"up", "validate", "plan", "trace"}),
        (["va"], {"validate"}),
        (["--ver"], {"--version"}),
        (["up", "--dr"], {"--drain-timeout"}),
        (["plan", "--ex"], {"--exit-code"}),
        (["validate", ""], {"a.toml", "b.yaml", "c.yml", "d.json", "shapes"}),
        (["up", "a"], {"a.toml"}),
        (["plan", "a.toml", "--from", "b"], {"b.yaml"}),
        (["trace", "n"], {"notes.txt"}),
    ],
)
def test_bash_offers_verbs_options_and_the_files_that_fit(
    script: Path, tmp_path: Path, words: list[str], offered: set[str]
) -> None:
    folder = tmp_path / "here"
    (folder / "shapes").mkdir(parents=True)
    for name in ("a.toml", "b.yaml", "c.yml", "d.json", "notes.txt", "run.jsonl"):
        (folder / name).touch()

    asked = subprocess.run(
        ["bash", "-c", ASKING, "bash", str(script), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (set(asked.stdout.split()), asked.stderr) == (offered, "")


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

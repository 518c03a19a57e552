"""What the command line answers to its arguments, and `validate` with its exit codes and JSON."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster_reconciler.actors.cli.main import main
from cluster_reconciler.actors.cli.reports import ValidateReport

SOUND = "run_id: 7\ngroups:\n- {group_id: w, role: r, count: 2, provider: process}\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sound.yaml").write_text(SOUND)
    Path("broken.toml").write_text("run_id = 1\ngruops = []\n")


def test_valid_files_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "sound.yaml"]) == 0
    assert capsys.readouterr() == ("sound.yaml: valid: run 7, 2 nodes in 1 group\n", "")


def test_one_broken_file_among_sound_ones_exits_2_and_all_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["validate", "broken.toml", "sound.yaml"]) == 2
    assert capsys.readouterr() == (
        (
            'broken.toml:2:1: gruops: expected a known key, found "gruops" (did you mean '
            '"groups"?)\n'
            "sound.yaml: valid: run 7, 2 nodes in 1 group\n"
        ),
        "",
    )


def test_json_is_one_document_of_the_documented_shape_that_agrees_with_the_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given colour forced, and a file whose name is no Unicode
    monkeypatch.setenv("FORCE_COLOR", "1")
    code = main(["validate", "--json", "broken.toml", "sound.yaml", "no-\udcff.toml"])
    printed = capsys.readouterr()
    document: dict[str, Any] = json.loads(printed.out)
    assert printed.err == ""
    assert printed.out.count("\n") == 1
    assert (code, document["exit_code"], document["valid"]) == (2, 2, False)
    assert [each["valid"] for each in document["files"]] == [False, True, False]
    assert document["files"][0]["faults"] == [
        {
            "file": "broken.toml",
            "expected": "a known key",
            "found": '"gruops"',
            "path": "gruops",
            "line": 2,
            "nearest": "groups",
            "hint": None,
            "column": 1,
            "source": "gruops = []",
        }
    ]
    assert msgspec.json.decode(printed.out, type=ValidateReport).files[1].nodes == 2


def test_version_and_help_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    codes = [main(words) for words in (["--version"], ["--help"], ["up", "--help"])]
    printed = capsys.readouterr()
    assert (codes, printed.err) == ([0, 0, 0], "")
    assert printed.out.startswith("cluster-reconciler 0.")
    assert "cluster-reconciler up examples/local.toml --once --timeout 1m" in printed.out


def test_a_reader_that_goes_away_gets_no_traceback() -> None:
    # given a pipe that nobody reads
    command = [sys.executable, "-m", "cluster_reconciler.actors", "validate", "sound.yaml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (141, b"")

"""Golden sessions of `validate` and `plan`: whole files, and every character that comes out.

Each golden in `goldens/` is a story that a person can read; `cli_goldens` says how it is written,
run and renewed.  What single faults say is in `test_shape_file_faults_*`.
"""

import json
from pathlib import Path

import pytest

from tests.cli_goldens import goldens, parse, replayed


@pytest.mark.parametrize("path", goldens(), ids=lambda path: path.stem)
def test_f26_the_command_says_to_the_character_what_the_golden_says(path: Path) -> None:
    golden = path.read_text(encoding="utf-8")
    assert replayed(golden) == golden


@pytest.mark.parametrize("path", goldens(), ids=lambda path: path.stem)
def test_every_document_in_a_golden_is_json_that_agrees_with_its_exit_code(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    documents = [
        at + 1 for at, line in enumerate(lines) if line.startswith("$ ") and "--json" in line
    ]
    assert documents, f"{path.name} shows no --json"
    for at in documents:
        code = next(line for line in lines[at:] if line.startswith("[exit "))
        assert code == f"[exit {json.loads(lines[at])['exit_code']}]"


def test_f26_more_than_twenty_kinds_of_fault_are_shown_in_every_format() -> None:
    # given each golden that tells of the same file in TOML, YAML and JSON
    names = ("shape.toml", "shape.yaml", "shape.json")
    refused = []
    for path in goldens():
        text = path.read_text(encoding="utf-8")
        if {*names} <= {name for name, _, _ in parse(text).files}:
            # when the three are judged, and the answer is a document
            files = text.split("\n$ ")[0]
            said = replayed(f"{files}\n$ validate --json {' '.join(names)}\n")
            line = next(line for line in said.splitlines() if line.startswith('{"valid"'))
            judged = json.loads(line)["files"]
            if all(not each["valid"] and each["faults"] for each in judged):
                refused.append(path.stem)
    # then so many kinds are refused in each of them, none of which stands there twice
    assert len(refused) > 20

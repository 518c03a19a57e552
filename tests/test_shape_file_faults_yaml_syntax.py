"""Texts that are no YAML, or more than a shape needs of it, with the lines that a person gets."""

from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.shape_file import load

BROKEN = [
    pytest.param(
        """\
run_id: 1
groups:
	- group_id: w
""",
        [
            "shape.yaml:3: expected spaces as indentation, found a tab",
        ],
        id="tab",
    ),
    pytest.param(
        """\
run_id: 1
---
run_id: 2
""",
        [
            (
                "shape.yaml:2: expected one document, found a second one; give each "
                "shape its own file"
            ),
        ],
        id="two_documents",
    ),
    pytest.param(
        """\
run_id: w: x
groups: []
""",
        [
            (
                'shape.yaml:1:10: expected one key on a line, found "run_id: w: x"; '
                "put a value with a colon in quotes; indent the keys of a table alike"
            ),
        ],
        id="colon_in_a_value",
    ),
    pytest.param(
        """\
run_id: %w
groups: []
""",
        [
            'shape.yaml:1:9: expected a value, found "run_id: %w"; put the value in quotes',
        ],
        id="value_that_begins_with_percent",
    ),
    pytest.param(
        """\
run_id: !!python/name:os.exit 1
groups: !x []
""",
        [
            'shape.yaml:1:1: run_id: expected a plain value, found the tag "!!python/name:os.exit"',
            (
                "shape.yaml:1:1: run_id: expected an integer from 0 to 2^63 - 1, found "
                'the string "1"; write it without quotes'
            ),
            'shape.yaml:2:1: groups: expected a plain value, found the tag "!x"',
        ],
        id="tag",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: process
- <<: {role: r}
  group_id: x
  role: r
  count: 1
  provider: process
""",
        [
            (
                'shape.yaml:7:3: groups[1]["<<"]: expected a key, found a merge; write '
                "the keys out, or use an alias for a whole value"
            ),
        ],
        id="merge_key",
    ),
    pytest.param(
        """\
run_id: 1
groups: &a [*a]
""",
        [
            "shape.yaml: expected a shape, found aliases that expand without end",
        ],
        id="alias_of_itself",
    ),
    pytest.param(
        """\
# nothing
""",
        [
            "shape.yaml: expected a shape with run_id and groups, found an empty file",
        ],
        id="comments_only",
    ),
    pytest.param(
        "hello\n",
        [
            'shape.yaml:1:1: expected a table, found the string "hello"',
        ],
        id="wrong_top",
    ),
]


@pytest.mark.parametrize(("text", "lines"), BROKEN)
def test_each_fault_of_a_broken_yaml_file_gets_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, lines: list[str]
) -> None:
    # given a file with these faults
    monkeypatch.chdir(tmp_path)
    Path("shape.yaml").write_text(text)
    # when it is read
    loading = load("shape.yaml")
    # then all of them are told at once, in the order of their lines, and nothing is loaded
    assert [str(fault) for fault in loading.faults] == lines
    assert loading.loaded is None

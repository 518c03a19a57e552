"""Broken shape files in JSON, each with the exact lines that a person gets (case F26)."""

from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.shape_file import load

BROKEN = [
    pytest.param(
        """\
{"run_id": 1, "groups": [
 {"group_id": "w", "role": "r",
  "cuont": 1, "provider": "process"}]}
""",
        [
            (
                'shape.json:3:3: groups[0].cuont: expected a known key, found "cuont" '
                '(did you mean "count"?)'
            ),
        ],
        id="misspelt_key",
    ),
    pytest.param(
        """\
{"run_id": 1}""",
        [
            (
                "shape.json:1:1: groups: expected a list of groups ([...]), found "
                "nothing; add this key"
            ),
        ],
        id="missing_groups",
    ),
    pytest.param(
        """\
{"run_id": true,
"groups": []}""",
        [
            (
                "shape.json:1:2: run_id: expected an integer from 0 to 2^63 - 1, found "
                "the boolean true"
            ),
        ],
        id="boolean_for_a_number",
    ),
    pytest.param(
        """\
{"run_id": 1,
 "groups": [{"group_id": "w", "role": "r", "count": 1000001, "provider": "process"}]}""",
        [
            (
                "shape.json:2:44: groups[0].count: expected an integer from 0 to 1000000, "
                "found the number 1000001"
            ),
        ],
        id="count_beyond_all_bounds",
    ),
    pytest.param(
        """\
{"run_id": 1, "groups": [{"group_id": "w", "role": "r", "count": NaN, "provider": "process"}]}""",
        [
            (
                "shape.json:1:57: groups[0].count: expected an integer from 0 to 1000000, "
                "found the number nan"
            ),
        ],
        id="NaN",
    ),
    pytest.param(
        """\
{"run_id": 1, "groups": [{"group_id": "a b/c", "role": "", "count": 1, "provider": "process"}]}""",
        [
            (
                "shape.json:1:27: groups[0].group_id: expected a name without spaces and "
                'slashes, found "a b/c"'
            ),
            "shape.json:1:48: groups[0].role: expected a name, found an empty string",
        ],
        id="bad_group_id",
    ),
    pytest.param(
        """\
{"run_id": 1,
"run_id": 2, "groups": [{"group_id": "w", "role": "r", "count": 1, "provider": "process",
"count": 1}]}""",
        [
            (
                "shape.json:2:1: run_id: expected each key only once, found it again, "
                "first on line 1; remove one of the two"
            ),
            (
                "shape.json:3:1: groups[0].count: expected each key only once, found it "
                "again, first on line 2; remove one of the two"
            ),
        ],
        id="duplicate_key",
    ),
    pytest.param(
        r"""{"run_id": 1,
 "groups": [{"group_id": "w", "role": "\ud800", "count": 1, "provider": "process",
             "boot": {"args": ["a\u0000"]}}]}""",
        [
            (
                "shape.json:2:31: groups[0].role: expected a name without NUL and lone "
                'surrogates, found the string "\\ud800"'
            ),
            (
                "shape.json:3:32: groups[0].boot.args[0]: expected a string without NUL "
                'and lone surrogates, found the string "a\\u0000"'
            ),
        ],
        id="NUL_and_lone_surrogate",
    ),
    pytest.param(
        """\
{"run_id": 1,
"groups": [],
}""",
        [
            (
                'shape.json:3:1: expected a key in double quotes, found "}"; JSON has no '
                "comma before }"
            ),
        ],
        id="trailing_comma",
    ),
    pytest.param(
        """\
{"run_id": 1, // one
"groups": []}""",
        [
            (
                'shape.json:1:15: expected a key in double quotes, found "// one"; JSON has no '
                "comments"
            ),
        ],
        id="comment",
    ),
    pytest.param(
        """\
{"run_id": 1,
"groups": [""",
        [
            "shape.json:2:12: expected a value, found the end of the file",
        ],
        id="cut_off",
    ),
    pytest.param(
        """\
{'run_id': 1, "groups": []}""",
        [
            (
                "shape.json:1:2: expected a key in double quotes, "
                """found "'run_id': 1, \\"groups\\": []}"; use double quotes"""
            ),
        ],
        id="single_quotes",
    ),
    pytest.param(
        """\

""",
        [
            ("shape.json: expected a shape with run_id and groups, found an empty file"),
        ],
        id="blank",
    ),
    pytest.param(
        """\
[1]""",
        [
            (
                "shape.json:1:1: expected a table, found a list; the groups stand in a table with "
                "the keys run_id and groups"
            ),
        ],
        id="wrong_top",
    ),
    pytest.param(
        r"""{"run_id": 1, "groups": [], "a\u001b[31m": 1}""",
        [
            (
                'shape.json:1:29: ["a\\u001b[31m"]: expected one of the keys run_id, '
                "groups, generation, retry, limits, swarm, providers, found "
                '"a\\u001b[31m"'
            ),
        ],
        id="terminal_escape",
    ),
]


@pytest.mark.parametrize(("text", "lines"), BROKEN)
def test_each_fault_of_a_broken_json_file_gets_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, lines: list[str]
) -> None:
    # given a file with these faults
    monkeypatch.chdir(tmp_path)
    Path("shape.json").write_text(text)
    # when it is read
    loading = load("shape.json")
    # then all of them are told at once, in the order of their lines, and nothing is loaded
    assert [str(fault) for fault in loading.faults] == lines
    assert loading.loaded is None

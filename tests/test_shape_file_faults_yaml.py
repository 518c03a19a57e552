"""Wrong keys and values in YAML, each with the exact lines that a person gets (case F26)."""

from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.shape_file import load

BROKEN = [
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  cuont: 1
  provider: process
""",
        [
            (
                'shape.yaml:5:3: groups[0].cuont: expected a known key, found "cuont" '
                '(did you mean "count"?)'
            ),
        ],
        id="misspelt_key",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: process
limit:
  process: {in_flight: 1}
""",
        [
            'shape.yaml:7:1: limit: expected a known key, found "limit" (did you mean "limits"?)',
        ],
        id="unknown_section",
    ),
    pytest.param(
        """\
run_id: 1.5
groups:
- group_id: w
  role: r
  count: 1
  provider: process
""",
        [
            (
                "shape.yaml:1:1: run_id: expected an integer from 0 to 2^63 - 1, found the "
                "number 1.5"
            ),
        ],
        id="fraction_for_an_integer",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: 1.10
  count: 1
  provider: process
""",
        [
            (
                "shape.yaml:4:3: groups[0].role: expected a name, found the number 1.10; "
                'quote it: "1.10"'
            ),
        ],
        id="number_for_a_string",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: process
  boot:
    env: {DEBUG: true, LEVEL: 10, EMPTY: }
""",
        [
            (
                "shape.yaml:8:11: groups[0].boot.env.DEBUG: expected a string, found the "
                'boolean true; quote it: "true"'
            ),
            (
                "shape.yaml:8:24: groups[0].boot.env.LEVEL: expected a string, found the "
                'number 10; quote it: "10"'
            ),
            (
                "shape.yaml:8:35: groups[0].boot.env.EMPTY: expected a string, found "
                'nothing (null); quote it: ""'
            ),
        ],
        id="boolean_for_a_string",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: process
  shape:
    require_verified: yes
""",
        [
            (
                "shape.yaml:8:5: groups[0].shape.require_verified: expected true or "
                'false, found the string "yes"; write true'
            ),
        ],
        id="yes_for_a_boolean",
    ),
    pytest.param(
        """\
run_id: 012
groups:
- group_id: w
  role: r
  count: 1
  provider: process
""",
        [
            (
                "shape.yaml:1:1: run_id: expected an integer from 0 to 2^63 - 1, found "
                'the string "012"; write 12'
            ),
        ],
        id="leading_zero",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: process
retry: 5
""",
        [
            "shape.yaml:7:1: retry: expected a table [retry], found the number 5",
        ],
        id="number_for_a_table",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: process
retry:
""",
        [
            (
                "shape.yaml:7:1: retry: expected a table [retry], found nothing (null); "
                "give it a value, or leave an optional key out"
            ),
        ],
        id="section_without_content",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: process
retry:
  jitter: .nan
  max_delay: .inf
""",
        [
            "shape.yaml:8:3: retry.jitter: expected a number from 0 to 1, found the number nan",
            (
                'shape.yaml:9:3: retry.max_delay: expected a duration such as "500ms", '
                '"10s", "2m" or "1h", or a number of seconds, found the number inf'
            ),
        ],
        id="NaN",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: memory
""",
        [
            (
                "shape.yaml:6:3: groups[0].provider: expected a known provider (process), found "
                '"memory"; another name for one is given with [providers.NAME] kind = "process"'
            ),
        ],
        id="provider_of_another_file",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: process
- group_id: w
  role: r
  count: 1
  provider: process
""",
        [
            (
                "shape.yaml:7:3: groups[1].group_id: expected a name of its own, found "
                '"w", which is also the name of groups[0] on line 3; rename one'
            ),
        ],
        id="duplicate_group_id",
    ),
    pytest.param(
        """\
run_id: 1
run_id: 2
groups:
- group_id: w
  role: r
  count: 1
  provider: process
  count: 2
""",
        [
            (
                "shape.yaml:2:1: run_id: expected each key only once, found it again, "
                "first on line 1; remove one of the two"
            ),
            (
                "shape.yaml:8:3: groups[0].count: expected each key only once, found it "
                "again, first on line 6; remove one of the two"
            ),
        ],
        id="duplicate_key",
    ),
    pytest.param(
        """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  provider: process
  boot:
    env: {A-B: x}
""",
        [
            (
                "shape.yaml:8:11: groups[0].boot.env.A-B: expected the name of a variable "
                "(letters, "
                'digits and _, no digit first), found "A-B" (did you mean "A_B"?)'
            ),
        ],
        id="bad_variable_name",
    ),
]


@pytest.mark.parametrize(("text", "lines"), BROKEN)
def test_each_fault_of_a_yaml_file_gets_one_line_that_says_what_to_do(
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

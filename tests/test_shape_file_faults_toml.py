"""Wrong keys and values in TOML, each with the exact lines that a person gets (case F26)."""

from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.shape_file import load

BROKEN = [
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
cuont = 1
provider = "process"
""",
        [
            (
                'shape.toml:5:1: groups[0].cuont: expected a known key, found "cuont" '
                '(did you mean "count"?)'
            ),
        ],
        id="misspelt_key",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
[swarm]
zzz = 1
""",
        [
            (
                "shape.toml:8:1: swarm.zzz: expected one of the keys listen, heartbeat, "
                'grace, advertise, found "zzz"'
            ),
        ],
        id="unknown_key",
    ),
    pytest.param(
        """\
[[groups]]
group_id = "w"
""",
        [
            (
                "shape.toml: run_id: expected an integer from 0 to 2^63 - 1, found nothing; add "
                "this key"
            ),
            (
                "shape.toml:1:1: groups[0].count: expected an integer from 0 to 1000000, found "
                "nothing; add this key"
            ),
            (
                "shape.toml:1:1: groups[0].provider: expected a provider (process), found "
                "nothing; add this key"
            ),
            "shape.toml:1:1: groups[0].role: expected a name, found nothing; add this key",
        ],
        id="missing_keys",
    ),
    pytest.param(
        """\
run_id = "1"
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
""",
        [
            (
                "shape.toml:1:1: run_id: expected an integer from 0 to 2^63 - 1, found "
                'the string "1"; write it without quotes'
            ),
        ],
        id="string_for_a_number",
    ),
    pytest.param(
        """\
run_id = true
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
""",
        [
            (
                "shape.toml:1:1: run_id: expected an integer from 0 to 2^63 - 1, found "
                "the boolean true"
            ),
        ],
        id="boolean_for_a_number",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = 2024-01-01
count = 1
provider = "process"
""",
        [
            ("shape.toml:4:1: groups[0].role: expected a name, found the date or time 2024-01-01"),
        ],
        id="date_for_a_string",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
[groups.boot]
verify_commands = "ls"
""",
        [
            (
                "shape.toml:8:1: groups[0].boot.verify_commands: expected a list of "
                'shell command lines, found the string "ls"; put it in brackets: [...]'
            ),
        ],
        id="string_for_a_list",
    ),
    pytest.param(
        """\
run_id = 1
[groups]
x = "w"
""",
        [
            (
                "shape.toml:2:1: groups: expected a list of groups ([[groups]]), found a "
                "table; write two brackets: [[groups]]"
            ),
        ],
        id="table_for_a_list",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = -1
provider = "process"
""",
        [
            (
                "shape.toml:5:1: groups[0].count: expected an integer from 0 to 1000000, "
                "found the number -1"
            ),
        ],
        id="negative_count",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 999999
provider = "process"
[[groups]]
group_id = "x"
role = "r"
count = 2
provider = "process"
""",
        [
            ("shape.toml:2:1: groups: expected at most 1000000 nodes together, found 1000001"),
        ],
        id="too_many_nodes_together",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
[groups.shape]
min_reliability = nan
min_up_mbps = inf
""",
        [
            (
                "shape.toml:8:1: groups[0].shape.min_reliability: expected a number from "
                "0 to 1, found the number nan"
            ),
            (
                "shape.toml:9:1: groups[0].shape.min_up_mbps: expected a number of at "
                "least 0, found the number inf"
            ),
        ],
        id="NaN",
    ),
]


@pytest.mark.parametrize(("text", "lines"), BROKEN)
def test_each_fault_in_keys_and_values_gets_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, lines: list[str]
) -> None:
    # given a file with these faults
    monkeypatch.chdir(tmp_path)
    Path("shape.toml").write_text(text)
    # when it is read
    loading = load("shape.toml")
    # then all of them are told at once, in the order of their lines, and nothing is loaded
    assert [str(fault) for fault in loading.faults] == lines
    assert loading.loaded is None

"""Breaches of rules and of syntax in TOML, with the exact lines that a person gets (case F26)."""

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
count = 1
provider = "proces"
""",
        [
            (
                "shape.toml:6:1: groups[0].provider: expected a known provider "
                '(process), found "proces" (did you mean "process"?)'
            ),
        ],
        id="unknown_provider",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "big"
[providers.big]
""",
        [
            (
                "shape.toml:7:1: providers.big: expected a known kind of provider "
                '(process), found "big"; give it a kind: kind = "process"'
            ),
        ],
        id="provider_without_a_kind",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "big"
[providers.big]
kind = "proces"
""",
        [
            (
                "shape.toml:8:1: providers.big.kind: expected a known kind of provider "
                '(process), found "proces" (did you mean "process"?)'
            ),
        ],
        id="provider_of_an_unknown_kind",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
[providers.process]
state_dir = "x"
[providers.big]
kind = "process"
state_dir = "x"
""",
        [
            (
                "shape.toml:11:1: providers.big.state_dir: expected a directory of its "
                'own, found "x", which is also that of "process"'
            ),
        ],
        id="two_providers_in_one_directory",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
[limits.procss]
in_flight = 0
""",
        [
            (
                "shape.toml:7:1: limits.procss: expected a known provider (process), "
                'found "procss" (did you mean "process"?)'
            ),
            (
                "shape.toml:8:1: limits.procss.in_flight: expected an integer from 1 to "
                "1000000, found the number 0"
            ),
        ],
        id="limits_of_an_unknown_provider",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
""",
        [
            (
                "shape.toml:8:1: groups[1].group_id: expected a name of its own, found "
                '"w", which is also the name of groups[0] on line 2; rename one'
            ),
        ],
        id="duplicate_group_id",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
run_id = 2
""",
        [
            (
                "shape.toml:7:1: groups[0].run_id: expected the run_id of the file, "
                "found the number 2; leave it out"
            ),
        ],
        id="group_of_another_run",
    ),
    pytest.param(
        """\
run_id = 1
run_id = 2
[retry]
jitter = 0
[retry]
""",
        [
            (
                "shape.toml: groups: expected a list of groups ([[groups]]), found "
                "nothing; add this key"
            ),
            (
                "shape.toml:2:1: run_id: expected each key only once, found it again, "
                "first on line 1; remove one of the two"
            ),
            (
                "shape.toml:5:1: retry: expected each key only once, found it again, "
                "first on line 3; remove one of the two"
            ),
        ],
        id="duplicate_key",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
[retry]
initial_delay = "5"
max_delay = "1 week"
join_timeout = -1
least_delay = 0
operation_timeout = true
""",
        [
            (
                "shape.toml:8:1: retry.initial_delay: expected a duration such as "
                '"500ms", "10s", "2m" or "1h", or a number of seconds, found the '
                'string "5"; a unit is missing'
            ),
            (
                'shape.toml:9:1: retry.max_delay: expected a duration such as "500ms", '
                '"10s", "2m" or "1h", or a number of seconds, found the string "1 week"'
            ),
            (
                "shape.toml:10:1: retry.join_timeout: expected a duration such as "
                '"500ms", "10s", "2m" or "1h", or a number of seconds, found the '
                "number -1; it is negative"
            ),
            (
                "shape.toml:11:1: retry.least_delay: expected a duration greater than 0, "
                "found the number 0"
            ),
            (
                "shape.toml:12:1: retry.operation_timeout: expected a duration such as "
                '"500ms", "10s", "2m" or "1h", or a number of seconds, found the '
                "boolean true"
            ),
        ],
        id="duration_without_a_unit",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
[retry]
jitter = 1.5
""",
        [
            ("shape.toml:8:1: retry.jitter: expected a number from 0 to 1, found the number 1.5"),
        ],
        id="share_out_of_bounds",
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
listen = "localhost"
""",
        [
            (
                "shape.toml:8:1: swarm.listen: expected host:port with a port from 0 to "
                '65535, such as "127.0.0.1:0", found the string "localhost"'
            ),
        ],
        id="bad_listen_address",
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
heartbeat = "2s"
grace = "1s"
""",
        [
            (
                "shape.toml:9:1: swarm.grace: expected a duration greater than the "
                "heartbeat (2s), found 1s"
            ),
        ],
        id="grace_within_the_heartbeat",
    ),
    pytest.param(
        """\
run_id = 1
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
[[groups.boot.mounts]]
host_path = "/a"
""",
        [
            (
                "shape.toml:7:1: groups[0].boot.mounts[0].container_path: expected a "
                "path, found nothing; add this key"
            ),
        ],
        id="mount_without_a_place",
    ),
    pytest.param(
        """\
run_id =
""",
        [
            (
                "shape.toml: groups: expected a list of groups ([[groups]]), found "
                "nothing; add this key"
            ),
            "shape.toml:1:9: run_id: expected a value, found the end of the line",
        ],
        id="missing_value",
    ),
    pytest.param(
        """\
run_id 1
""",
        [
            'shape.toml:1:8: expected an equals sign after the key, found "1"',
        ],
        id="missing_equals_sign",
    ),
    pytest.param(
        """\
run_id = 1 2
""",
        [
            (
                "shape.toml: groups: expected a list of groups ([[groups]]), found "
                "nothing; add this key"
            ),
            'shape.toml:1:12: run_id: expected the end of the line after the value, found "2"',
        ],
        id="text_after_the_value",
    ),
    pytest.param(
        """\
run_id = 1
x = "abc
""",
        [
            (
                "shape.toml: groups: expected a list of groups ([[groups]]), found "
                "nothing; add this key"
            ),
            (
                "shape.toml:2:1: x: expected one of the keys run_id, groups, generation, retry, "
                'limits, swarm, providers, found "x"'
            ),
            (
                "shape.toml:2:9: x: expected a string that ends on its line, found the end of "
                "the line"
            ),
        ],
        id="open_string",
    ),
    pytest.param(
        """\
run_id = 1
x = [1, 2
""",
        [
            (
                "shape.toml: groups: expected a list of groups ([[groups]]), found "
                "nothing; add this key"
            ),
            (
                "shape.toml:2:1: x: expected one of the keys run_id, groups, generation, retry, "
                'limits, swarm, providers, found "x"'
            ),
            (
                "shape.toml:3: x: expected a closing ] or a comma, found the end of the file; it "
                "begins on line 2"
            ),
        ],
        id="open_list",
    ),
    pytest.param(
        """""",
        [
            ("shape.toml: expected a shape with run_id and groups, found an empty file"),
        ],
        id="empty",
    ),
]


@pytest.mark.parametrize(("text", "lines"), BROKEN)
def test_each_fault_in_names_rules_and_syntax_gets_one_line_that_says_what_to_do(
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

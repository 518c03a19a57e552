"""The place and the hint of a fault lead to what was meant, and never astray (F26)."""

from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.shape_file import load

GROUP = 'group_id = "w"\nrole = "r"\ncount = 1\nprovider = "process"\n'
TOML = f"run_id = 1\n[[groups]]\n{GROUP}"


def told(name: str, text: str) -> list[str]:
    """Each fault without the name of the file."""
    Path(name).write_text(text)
    return [str(fault).removeprefix(f"{name}:") for fault in load(name).faults]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_table_that_stands_only_in_the_header_of_another_is_told_at_that_header() -> None:
    text = f"{TOML}[groups.bot.env]\nA = 1\n[limit.process]\nin_flight = 3\n[limit]\n"
    assert told("shape.toml", text) == [
        '7:1: groups[0].bot: expected a known key, found "bot" (did you mean "boot"?)',
        '8:1: groups[0].boot.env.A: expected a string, found the number 1; quote it: "1"',
        '11:1: limit: expected a known key, found "limit" (did you mean "limits"?)',
    ]


def test_a_table_without_a_header_of_its_own_is_told_at_the_first_that_names_it() -> None:
    text = f"{TOML}[limit.process]\nin_flight = 3\n[limit.local]\nin_flight = -1\n"
    assert told("shape.toml", text)[0] == (
        '7:1: limit: expected a known key, found "limit" (did you mean "limits"?)'
    )


def test_run_in_a_group_is_the_command_and_in_the_file_the_run() -> None:
    of_group = told("shape.toml", f'{TOML}run = "sleep 9"\n')
    of_file = told("shape.toml", TOML.replace("run_id", "run"))
    assert [*of_group, *of_file] == [
        (
            '7:1: groups[0].run: expected a known key, found "run" '
            '(did you mean "boot.start_swactor_command"?)'
        ),
        '1:1: run: expected a known key, found "run" (did you mean "run_id"?)',
    ]


def test_a_word_of_python_in_an_inline_table_or_list_is_told_as_what_toml_writes() -> None:
    text = f"{TOML}[groups.boot]\nenv = {{ A = True, B = false }}\nargs = [False]\n"
    assert told("shape.toml", text) == [
        '8:13: groups[0].boot.env: expected a value, found "True, B = false }"; write true',
        '9:9: groups[0].boot.args: expected a value, found "False]"; write false',
    ]


def test_a_yaml_key_without_a_space_after_its_colon_is_one_fault_and_the_rest_is_judged() -> None:
    group = "groups:\n  - group_id: w\n    role:r\n    count: x\n    provider: process\n"
    lacking = "expected a space after the colon, found"
    assert [*told("a.yaml", f"run_id:5\n{group}"), *told("b.yaml", f"run_id: 5\n{group}")] == [
        f'1:1: {lacking} "run_id:5"; write "run_id: 5"',
        f'4:5: {lacking} "role:r"; write "role: r"',
        '5:5: groups[0].count: expected an integer from 0 to 1000000, found the string "x"',
        f'4:5: {lacking} "role:r"; write "role: r"',
        '5:5: groups[0].count: expected an integer from 0 to 1000000, found the string "x"',
    ]


def test_a_comma_missing_within_a_line_of_json_does_not_end_the_reading() -> None:
    text = (
        '{"run_id": 1, "groups": [{"group_id": "w" "role": "r", "count": 1 "provider": "process"}\n'
        '{"group_id": "v", "role": "r", "count": "x", "provider": "process", "boot": {} "x": 1}]}'
    )
    faults = [fault.partition(", found")[0] for fault in told("shape.json", text)]
    comma = "expected a comma, or the end of the list or table"
    assert faults == [
        f"1:43: {comma}",
        f"1:67: {comma}",
        f"2:1: {comma}",
        "2:32: groups[1].count: expected an integer from 0 to 1000000",
        f"2:80: {comma}",
        (
            "2:80: groups[1].x: expected one of the keys group_id, role, count, provider, run_id, "
            "shape, boot, swarm_join"
        ),
    ]


def test_a_first_delay_beyond_the_longest_gets_a_caution(tmp_path: Path) -> None:
    file = tmp_path / "shape.toml"
    file.write_text(f'{TOML}[retry]\ninitial_delay = "2m"\n')
    assert [str(caution).partition("shape.toml:")[2] for caution in load(str(file)).cautions] == [
        (
            "8:1: retry.initial_delay: warning: initial_delay (2m) is longer than max_delay (1m): "
            "no wait is longer than max_delay"
        )
    ]


HINTS = {
    "boot_outside": ("a.toml", f'{TOML}[boot]\nargs = ["a"]\n', "7:1: boot", "write [groups.boot]"),
    "mounts": (
        "a.toml",
        f'{TOML}[groups.boot.mounts]\nhost_path = "a"\n',
        "7:1: groups[0].boot.mounts",
        "write two brackets: [[groups.boot.mounts]]",
    ),
    "env": (
        "a.toml",
        f'{TOML}[groups.boot]\nenv = ["A=B"]\n',
        "8:1: groups[0].boot.env",
        'write a table: { NAME = "value" }',
    ),
    "command": (
        "a.toml",
        f'{TOML}[groups.boot]\nstart_swactor_command = ["sleep", "9"]\n',
        "8:1: groups[0].boot.start_swactor_command",
        "write the command as one text; further words may stand in args",
    ),
    "named_groups": (
        "a.yaml",
        "run_id: 1\ngroups:\n  web:\n    role: r\n",
        "2:1: groups",
        'for each group write "- group_id: web" in place of its name',
    ),
    "merge": (
        "a.toml",
        "run_id = 1\n<<<<<<< HEAD\na = 1\n=======\na = 2\n>>>>>>> more\n",
        "2: expected one version of the file, found marks of a merge",
        "remove the lines <<<<<<<, ======= and >>>>>>>",
    ),
    "template_toml": ("a.toml", TOML.replace("1", "{{ run }}", 1), "1:11: run_id", "template"),
    "template_yaml": ("a.yaml", "run_id: {{ run }}\ngroups: []\n", "1:1: run_id", "template"),
    "template_json": ("a.json", '{"run_id": {{ run }}, "groups": []}', "1:13", "template"),
    "template_text": ("a.toml", TOML.replace("1", '"${RUN}"', 1), "1:1: run_id", "template"),
    "colon": (
        "a.yaml",
        "run_id: 1\ngroups: []\nretry:\n  jitter:1\n",
        "3:1: retry",
        "write a space after the colon",
    ),
    "list": ("a.json", '[{"group_id": "w"}]', "1:1", "with the keys run_id and groups"),
    "backslash": (
        "a.toml",
        f'{TOML}[groups.boot]\nssh_user = "C:\\Users"\n',
        "8:",
        "in single quotes a backslash is only a backslash",
    ),
}


@pytest.mark.parametrize(("name", "text", "place", "hint"), HINTS.values(), ids=HINTS)
def test_what_is_often_meant_is_told_once_with_what_to_do(
    name: str, text: str, place: str, hint: str
) -> None:
    found = told(name, text)
    assert [(each.startswith(place), hint in each) for each in found] == [(True, True)], found

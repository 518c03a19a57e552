"""What was meant is told, and what stands in a misspelt or misplaced table is judged too (F26)."""

from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.shape_file import load

GROUP = 'group_id = "w"\nrole = "r"\ncount = 1\nprovider = "process"\n'
TOML = f"run_id = 1\n[[groups]]\n{GROUP}"


def told(name: str, text: str) -> list[str]:
    """Each fault without the name of the file."""
    Path(name).write_text(text)
    loading = load(name)
    assert loading.loaded is None
    return [str(fault).removeprefix(f"{name}:") for fault in loading.faults]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def known(place: str, key: str, meant: str) -> str:
    return f'{place}: expected a known key, found "{key}" (did you mean "{meant}"?)'


def test_a_misspelt_table_is_read_as_the_one_that_is_meant() -> None:
    text = f"run_id = 1\n[[group]]\n{GROUP}[group.bot]\nargs = 3\n[retires]\njitter = 2\n"
    assert told("shape.toml", text) == [
        known("2:1: group", "group", "groups"),
        known("7:1: group[0].bot", "bot", "boot"),
        "8:1: groups[0].boot.args: expected a list of strings, found the number 3",
        known("9:1: retires", "retires", "retry"),
        "10:1: retry.jitter: expected a number from 0 to 1, found the number 2",
    ]


def test_a_single_group_is_read_as_the_list_that_it_should_be() -> None:
    yaml = "run_id: 1\ngroups:\n  group_id: w\n  role: r\n  count: -1\n  provider: process\n"
    toml = f"run_id = 1\n[groups]\n{GROUP}x = 1\n[groups.boot]\nargs = 3\n"
    assert [*told("shape.yaml", yaml), *told("shape.toml", toml)] == [
        (
            "2:1: groups: expected a list of groups (a dash before the first key of each), found "
            "a table; put a dash before the first key of each group"
        ),
        ("5:3: groups[0].count: expected an integer from 0 to 1000000, found the number -1"),
        (
            "2:1: groups: expected a list of groups ([[groups]]), found a table; write two "
            "brackets: [[groups]]"
        ),
        (
            "7:1: groups[0].x: expected one of the keys group_id, role, count, provider, run_id, "
            'shape, boot, swarm_join, found "x"'
        ),
        "9:1: groups[0].boot.args: expected a list of strings, found the number 3",
    ]


@pytest.mark.parametrize("reference", ["env:", "file:", "env:A=B"])
def test_a_reference_that_names_nothing_is_a_fault_of_the_file(reference: str) -> None:
    text = f'{TOML}[groups.boot.env]\nSECRET = "{reference}"\n'
    assert told("shape.toml", text) == [
        (
            f'8:1: groups[0].boot.env.SECRET: expected a reference to a secret: "env:NAME" or '
            f'"file:PATH", found "{reference}"; the name of a variable, or the path of a file, is '
            "missing or cannot be one"
        )
    ]


def test_a_key_below_the_header_of_an_inner_table_is_told_where_it_belongs() -> None:
    lines = GROUP.replace("count = 1\n", "")
    text = f"[[groups]]\n{lines}generation = 2\n[groups.boot]\ncount = 3\nrun_id = 1\n"
    keys = "ssh_user, verify_commands, start_swactor_command, stdout_sources, stderr_sources"
    below = (
        f"expected one of the keys {keys}, env, args, mounts, found {{}}; "
        "a key below [groups.boot] belongs to that table; move it up, above {}"
    )
    assert told("shape.toml", text) == [
        (
            "5:1: groups[0].generation: expected one of the keys group_id, role, count, provider, "
            'run_id, shape, boot, swarm_join, found "generation"; a key below [[groups]] belongs '
            "to that table; move it up, above the first [table]"
        ),
        "7:1: groups[0].boot.count: " + below.format('"count"', "[groups.boot]"),
        "8:1: groups[0].boot.run_id: " + below.format('"run_id"', "the first [table]"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        (
            "a.toml",
            f'{TOML}[groups.boot]\nstart_swactor_command = "a "b" c"\n',
            'within double quotes write \\" for a quote, or put the text in single quotes',
        ),
        (
            "a.toml",
            f"{TOML}boot = {{\n  args = [],\n}}\n",
            "{...} stands on one line; what needs more gets a [table] of its own",
        ),
        ("a.toml", TOML.replace('"r"', "\u201cr\u201d"), "write straight quotes"),
        ("a.yaml", "run_id: \u201c1\u201d\ngroups: []\n", "write straight quotes"),
        ("a.yaml", "run_id: \u201c1: 2\u201d\ngroups: []\n", "write straight quotes"),
        ("a.json", '{"run_id": \u201c1\u201d, "groups": []}', "write straight quotes"),
        (
            "a.toml",
            f'{TOML}[groups.shape]\nrequire_verified = "true"\n',
            "write it without quotes",
        ),
        (
            "a.json",
            '{"run_id": 1, "groups": null}',
            "give it a value, or leave an optional key out",
        ),
    ],
)
def test_the_first_fault_says_what_to_do(name: str, text: str, hint: str) -> None:
    Path(name).write_text(text)
    assert load(name).faults[0].hint == hint


def test_a_mount_that_is_no_table_is_told_its_keys() -> None:
    text = f'{TOML}[groups.boot]\nmounts = ["/a:/b"]\n'
    assert told("shape.toml", text) == [
        (
            "8:11: groups[0].boot.mounts[0]: expected a table with the keys host_path, "
            'container_path, readonly, found the string "/a:/b"'
        )
    ]


def test_a_backslash_is_shown_as_it_stands_in_the_file() -> None:
    _, second = told("a.json", '{"run_id": "\\d", "groups": []}')
    assert second.startswith('1:13: expected a valid escape after the backslash, found "\\d')


@pytest.mark.parametrize(
    ("name", "run_id"), [("a.toml", "run_id = 'a\\d'"), ("a.yaml", "run_id: a\\d")]
)
def test_a_backslash_of_a_value_is_shown_once(name: str, run_id: str) -> None:
    last = told(name, f"{run_id}\n")[-1]
    assert last.endswith('found the string "a\\d"')


def test_a_misplaced_key_that_stands_where_it_belongs_too_is_told_so() -> None:
    text = f"{TOML}[groups.boot]\ncount = 3\n"
    yaml = "run_id: 1\ngroups:\n- {group_id: w, role: r, count: 1, provider: process}\n"
    yaml += "retry: {run_id: 2}\n"
    Path("a.toml").write_text(text)
    Path("a.yaml").write_text(yaml)
    assert [load(name).faults[0].hint for name in ("a.toml", "a.yaml")] == [
        "it is a key of groups[0], which has it already on line 5; remove one of the two",
        "it is a key of the file as a whole, which has it already on line 1; remove one of the two",
    ]


def test_curly_quotes_that_yaml_takes_for_a_part_of_the_value_are_a_caution() -> None:
    group = "{group_id: \u201cw\u201d, role: r, count: 1, provider: process}"
    Path("a.yaml").write_text(f"run_id: 1\ngroups:\n- {group}\n")
    loading = load("a.yaml")
    assert [str(caution) for caution in loading.cautions] == [
        (
            "a.yaml:3:4: groups[0].group_id: warning: curly quotes are a part of the value here; "
            "write straight quotes"
        )
    ]
    assert loading.loaded is not None

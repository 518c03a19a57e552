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

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

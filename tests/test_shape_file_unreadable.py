"""Files that hold no text of a shape at all: told in one line, never read for ever (case F26)."""

import os
import socket
from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.shape_file import load

NO_GROUPS = (
    "shape.toml: groups: expected a list of groups ([[groups]]), found nothing; add this key"
)
DEEP = "expected a shape, found a text that is nested too deeply; a shape is at most 5 levels deep"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def faults(file: str) -> list[str]:
    loading = load(file)
    assert loading.loaded is None
    return [str(fault) for fault in loading.faults]


def test_a_missing_file_is_told_with_the_name_that_was_meant() -> None:
    Path("shape.toml").touch()
    assert faults("shpae.toml") == [
        'shpae.toml: expected a file, found nothing there (did you mean "shape.toml"?)'
    ]
    assert load("shpae.toml").faults[0].nearest == "shape.toml"


def test_a_name_that_only_shares_its_suffix_was_not_meant() -> None:
    for name in ("pyproject.toml", "h.toml", "new.toml"):
        Path(name).touch()
    assert [*faults("nope.toml"), *faults("nosuch.toml")] == [
        "nope.toml: expected a file, found nothing there",
        "nosuch.toml: expected a file, found nothing there",
    ]


@pytest.mark.parametrize(
    ("name", "text", "line", "of_name", "other"),
    [
        ("a.toml", "# mine\nrun_id: 7\ngroups:\n  - group_id: w\n", 2, "TOML", "YAML"),
        ("a.toml", '{"run_id": 7}', 1, "TOML", "JSON"),
        ("a.yaml", 'run_id = 7\n[[groups]]\ngroup_id = "w"\n', 1, "YAML", "TOML"),
        ("a.json", "[[groups]]\nrun_id = 7\n", 1, "JSON", "TOML"),
    ],
)
def test_a_text_of_another_format_is_told_once(
    name: str, text: str, line: int, of_name: str, other: str
) -> None:
    Path(name).write_text(text)
    assert faults(name) == [
        (
            f"{name}:{line}: expected {of_name}, as the file's name says, found a text that looks "
            f"like {other}; give the file the suffix of its format"
        )
    ]


def test_null_is_no_empty_file() -> None:
    Path("a.json").write_text("null")
    Path("a.yaml").write_text("~")
    null = "expected a table, found nothing (null); give it a value, or leave an optional key out"
    assert [*faults("a.json"), *faults("a.yaml")] == [f"a.json:1:1: {null}", f"a.yaml:1:1: {null}"]


def test_a_link_that_leads_nowhere_is_not_what_was_meant() -> None:
    Path("shape.toml").symlink_to("nothing.toml")
    assert [*faults("shape.toml"), *faults("shpae.toml")] == [
        "shape.toml: expected a file, found a link that leads nowhere",
        "shpae.toml: expected a file, found nothing there",
    ]


def test_a_missing_directory() -> None:
    assert faults("nowhere/shape.toml") == [
        (
            "nowhere/shape.toml: expected a file, found nothing there; "
            'there is no directory "nowhere" either'
        )
    ]


def test_a_directory() -> None:
    Path("shape.toml").mkdir()
    assert faults("shape.toml") == ["shape.toml: expected a file, found a directory"]


def test_a_pipe_is_not_waited_for() -> None:
    os.mkfifo("shape.yaml")
    assert faults("shape.yaml") == ["shape.yaml: expected a file, found a device, socket or pipe"]


def test_a_socket() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("shape.json")
        assert faults("shape.json") == [
            "shape.json: expected a file, found a device, socket or pipe"
        ]


def test_a_file_that_may_not_be_read() -> None:
    Path("shape.toml").write_text("run_id = 1\n")
    Path("shape.toml").chmod(0)
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    assert faults("shape.toml") == [
        "shape.toml: expected a readable file, found an error: Permission denied"
    ]


def test_a_name_that_no_file_can_have() -> None:
    assert faults("a\0b.toml") == [
        "a\\x00b.toml: expected a readable file, found an error: embedded null byte"
    ]


@pytest.mark.parametrize(
    ("file", "found"), [("shape.txt", 'the suffix ".txt"'), ("a", "no suffix")]
)
def test_a_suffix_that_says_no_format(file: str, found: str) -> None:
    assert faults(file) == [
        f"{file}: expected a file name that ends in .toml, .yaml, .yml or .json, found {found}"
    ]


@pytest.mark.parametrize("suffix", ["toml", "yaml", "json"])
class TestInEveryFormat:
    def test_bytes_that_are_not_utf_8(self, suffix: str) -> None:
        Path(f"shape.{suffix}").write_bytes(b"\n\nx = '\xff'\n")
        assert faults(f"shape.{suffix}") == [
            (
                f"shape.{suffix}:3: expected a text in UTF-8, found the byte 0xff, "
                "which is not UTF-8; save the file as UTF-8"
            )
        ]

    def test_utf_16(self, suffix: str) -> None:
        Path(f"shape.{suffix}").write_text("run_id", encoding="utf-16")
        assert faults(f"shape.{suffix}") == [
            f"shape.{suffix}:1: expected a text in UTF-8, found UTF-16; save the file as UTF-8"
        ]

    def test_a_huge_file(self, suffix: str) -> None:
        Path(f"shape.{suffix}").write_bytes(b" " * (1024 * 1024 + 1))
        assert faults(f"shape.{suffix}") == [
            f"shape.{suffix}: expected a shape of at most 1024 KiB, found a larger file"
        ]

    def test_an_empty_file(self, suffix: str) -> None:
        Path(f"shape.{suffix}").touch()
        assert faults(f"shape.{suffix}") == [
            f"shape.{suffix}: expected a shape with run_id and groups, found an empty file"
        ]

    def test_a_text_that_is_nested_without_end(self, suffix: str) -> None:
        start = "a = " if suffix == "toml" else ""
        Path(f"shape.{suffix}").write_text(start + "[" * 5000)
        assert faults(f"shape.{suffix}") == [f"shape.{suffix}: {DEEP}"]


def test_numbers_of_thousands_of_digits() -> None:
    digits = "9" * 5000
    Path("shape.toml").write_text(f"run_id = {digits}\n")
    Path("shape.json").write_text(f'{{"run_id": {digits}}}')
    Path("shape.yaml").write_text(f"run_id: {digits}\ngroups: []\n")
    assert [*faults("shape.toml"), *faults("shape.json"), *faults("shape.yaml")] == [
        NO_GROUPS,
        (
            "shape.toml:1:1: run_id: expected numbers and dates that can be meant, "
            "found one that is out of range"
        ),
        "shape.json: expected numbers that can be meant, found a number of thousands of digits",
        (
            "shape.yaml:1:1: run_id: expected an integer from 0 to 2^63 - 1, found the string "
            f'"{"9" * 57}..."'
        ),
    ]


def test_a_key_of_a_thousand_parts() -> None:
    Path("shape.toml").write_text("run_id = 1\n" + "a." * 1000 + "b = 1\n")
    assert faults("shape.toml") == [
        "shape.toml:2: expected a key of a few parts, found one of 64 or more"
    ]


def test_aliases_that_explode() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    Path("shape.yaml").write_text("\n".join(lines))
    assert faults("shape.yaml") == [
        "shape.yaml: expected a shape, found aliases that expand without end"
    ]

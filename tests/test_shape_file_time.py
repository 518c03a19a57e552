"""However a file is written, it is judged in a time that grows with its length, and no faster."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.shape_file import load
from cluster_reconciler.executors.secret_words import without_secrets

TOML = 'run_id = 7\n[[groups]]\ngroup_id = "w"\nrole = "w"\ncount = 1\nprovider = "process"\n'
COMMAND = f"{TOML}[groups.boot]\nstart_swactor_command = "

WORDS = {
    "dashes": "-",
    "dots": "a.b-",
    "colons": "a:",
    "quotes": '"\\',
    "escaped_quotes": '\\"',
    "equals_after_a_login": " -u" + "=" * 40,
    "schemes": "a://",
    "headers": "authorization: ",
    "options": "--password ",
    "blanks": " " * 40 + ":",
    "single_letters": "a b=c ",
}

FILES: dict[str, tuple[str, Callable[[int], str]]] = {
    "command": ("toml", lambda size: f"{COMMAND}'{'-' * 40 * size}'\n"),
    "keys_twice": ("toml", lambda size: TOML + "count = 1\n" * size),
    "tables": ("toml", lambda size: TOML + "".join(f"[a{i}]\n" for i in range(size))),
    "groups": ("toml", lambda size: TOML + "[[groups]]\n" * size),
    "groups_with_one_bracket": ("toml", lambda size: "[groups]\n" * size),
    "broken_headers": ("toml", lambda size: TOML + "[[groups\n" * size),
    "dotted_and_tables": ("toml", lambda size: "".join(f"a{i}.b = 1\n" for i in range(size))),
    "keys_on_one_line": (
        "json",
        lambda size: json.dumps({"run_id": 1, "groups": [{f"a{i}": 1} for i in range(size)]}),
    ),
    "keys_twice_on_one_line": ("json", lambda size: "{" + '"a":1,' * size + '"a":1}'),
    "words": ("json", lambda size: '{"a":[' + "x," * size + "]}"),
    "commas": ("json", lambda size: '{"a":[1' + " ," * 10 * size + "]}"),
    "lists": ("yaml", lambda size: "run_id: 1\n" + "".join(f"x{i}: 1\n" for i in range(size))),
    "broken_values": ("yaml", lambda size: "run_id: 1\n" + "a: @\n" * size),
}


TOO_LONG = 10
"""Times as long for four times as much: a quadratic search takes sixteen."""


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times longer four times as much takes, the best of three of each; of the large one
    no more than it needs to be seen that it is not `TOO_LONG`."""

    def took(size: int) -> float:
        start = time.process_time()
        work(size)
        return time.process_time() - start

    small = max(min(took(size) for _ in range(3)), 0.002)
    ratio = float("inf")
    for _ in range(3):
        ratio = min(ratio, took(4 * size) / small)
        if ratio < TOO_LONG:
            break
    return ratio


@pytest.mark.parametrize("name", WORDS)
def test_secrets_are_looked_for_in_linear_time(name: str) -> None:
    assert growth(lambda size: without_secrets(WORDS[name] * size), 1000) < TOO_LONG


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_judged_in_linear_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    suffix, text = FILES[name]

    def judged(size: int) -> None:
        Path(f"shape.{suffix}").write_text(text(size))
        load(f"shape.{suffix}")

    assert growth(judged, 1000) < TOO_LONG

"""A secret that a shape writes out, against all advice, stands in nothing that is told of its node.

`validate` warns of such a literal (`test_shape_file_*`); what names a secret by reference is in
`test_secret_references`.
"""

import os
import subprocess
import sys
from pathlib import Path

from cluster_reconciler.executors.secret_words import literal_secrets
from cluster_reconciler.messages import BootSpec

SHAPE = """\
run_id = 7

[retry]
initial_delay = "1h"

[[groups]]
group_id = "start"
role = "r"
count = 1
provider = "process"
[groups.boot]
start_swactor_command = "API_TOKEN=hunter2secret false https://u:pwpw12345@h/x?api_key=kkkk12345"

[[groups]]
group_id = "args"
role = "r"
count = 1
provider = "process"
[groups.boot]
start_swactor_command = "exec false"
args = ["--password", "hunter2secret", "--token=tttt12345"]

[[groups]]
group_id = "check"
role = "r"
count = 1
provider = "process"
[groups.boot]
verify_commands = ["echo --token=tttt12345; false"]

[[groups]]
group_id = "speaks"
role = "r"
count = 1
provider = "process"
[groups.boot]
start_swactor_command = "echo starting password=hunter2secret >&2; exit 3"
"""
SECRETS = ("hunter2secret", "pwpw12345", "kkkk12345", "tttt12345")


def test_of_every_part_of_a_boot_the_secrets_are_found_and_nothing_else() -> None:
    boot = BootSpec(
        verify_commands=("test -w .", "curl -H 'Authorization: Bearer bbbb12345' localhost"),
        start_swactor_command="serve --password hunter2secret --port 8080",
        args=("--token", "tttt12345", "--verbose"),
        env={"GREETING": "hello"},
    )
    assert set(literal_secrets(boot)) == {"bbbb12345", "hunter2secret", "tttt12345"}


def test_a_reference_is_no_secret_and_a_variable_is_none() -> None:
    boot = BootSpec(
        start_swactor_command='serve --password "$PASSWORD" --token ${TOKEN}',
        env={"PASSWORD": "env:PASSWORD"},
    )
    assert literal_secrets(boot) == ()


class Told:
    """Nodes that fail, and say what they were started with; `words`: how it is to be told."""

    def __init__(self, folder: Path, *words: str) -> None:
        (folder / "shape.toml").write_text(SHAPE)
        self._folder = folder
        self._words = words
        wanted = ["--once", "--timeout", "2s", "-vvv", "--log", "log.txt", "--trace", "run.jsonl"]
        self._up = self._begin("up", "shape.toml", *wanted)

    def _begin(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "cluster_reconciler.actors", *words, *self._words],
            cwd=self._folder,
            env={**os.environ, "XDG_STATE_HOME": str(self._folder / "state")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def by_place(self) -> dict[str, str]:
        """All that was told of them, and all that is kept."""
        told = {"up": self._up.communicate(timeout=60)[0]}
        read = {
            "trace": self._begin("trace", "run.jsonl"),
            "summary": self._begin("trace", "run.jsonl", "--summary"),
        }
        told |= {name: trace.communicate(timeout=60)[0] for name, trace in read.items()}
        told["log"] = (self._folder / "log.txt").read_text()
        kept = [path for path in (self._folder / "state").rglob("*") if path.is_file()]
        return told | {path.name: path.read_text() for path in kept}


def test_nothing_that_is_told_of_a_node_shows_what_its_shape_writes_out(tmp_path: Path) -> None:
    # given nodes that fail, with all that can be told of them, to people and to programs
    runs = {}
    for name, words in (("people", ()), ("programs", ("--json",))):
        (tmp_path / name).mkdir()
        runs[name] = Told(tmp_path / name, *words)

    for run in runs.values():
        # when they have run
        told = run.by_place()

        # then each node has failed, and no secret is shown
        assert all(f"{group}-0" in told["up"] for group in ("start", "args", "check", "speaks"))
        shown = {
            (where, secret) for where, text in told.items() for secret in SECRETS if secret in text
        }
        assert shown == set()

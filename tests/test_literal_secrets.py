"""A secret that a shape writes out, against all advice, stands in nothing that is told of its node.

`validate` warns of such a literal (`test_shape_file_*`); what names a secret by reference is in
`test_secret_references`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_nothing_that_is_told_of_a_node_shows_what_its_shape_writes_out(
    tmp_path: Path, more: list[str]
) -> None:
    # given nodes that fail, and say what they were started with
    (tmp_path / "shape.toml").write_text(SHAPE)
    surroundings = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cluster_reconciler.actors", *words],
            cwd=tmp_path,
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout + done.stderr

    # when they run, with all that can be told of them
    wanted = ["--once", "--timeout", "2s", "-vvv", "--log", "log.txt", "--trace", "run.jsonl"]
    told = {
        "up": run("up", "shape.toml", *wanted, *more),
        "trace": run("trace", "run.jsonl", *more),
        "summary": run("trace", "run.jsonl", "--summary", *more),
        "log": (tmp_path / "log.txt").read_text(),
    }
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    told |= {path.name: path.read_text() for path in kept}

    # then each node has failed, and no secret is shown
    assert all(f"{group}-0" in told["up"] for group in ("start", "args", "check", "speaks"))
    shown = {
        (where, secret) for where, text in told.items() for secret in SECRETS if secret in text
    }
    assert shown == set()

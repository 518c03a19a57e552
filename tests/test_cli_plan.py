"""`plan` as a command: text and JSON, exit codes, what is hidden; and it touches nothing."""

import json
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.main import main
from cluster_reconciler.actors.cli.plan import plan_report
from cluster_reconciler.actors.cli.plan_words import plan_lines
from cluster_reconciler.actors.cli.reports import PlanReport
from cluster_reconciler.actors.cli.shape_diff import FieldChange, TakesEffect, diff_groups
from cluster_reconciler.actors.cli.shape_file import load
from cluster_reconciler.decider import expand_shape
from cluster_reconciler.messages import (
    BootSpec,
    ClusterShape,
    NodeGroupId,
    ProviderKind,
    ProviderLimits,
    RoleId,
    RunId,
    RunNodeGroupSpec,
)

PROCESS = ProviderKind("process")
SECRET = "tomato-3-and-more"


def group(name: str, count: int, command: str = "") -> RunNodeGroupSpec:
    return RunNodeGroupSpec(
        RunId(7),
        NodeGroupId(name),
        RoleId("r"),
        count,
        PROCESS,
        boot=BootSpec(start_swactor_command=command),
    )


def shape(generation: int, *groups: RunNodeGroupSpec, in_flight: int = 64) -> ClusterShape:
    return ClusterShape(RunId(7), generation, groups, {PROCESS: ProviderLimits(in_flight)})


OLD = f"""\
run_id: 7
groups:
- group_id: w
  role: r
  count: 2
  provider: process
  boot:
    start_swactor_command: "run --password {SECRET}"
    env: {{API_TOKEN: {SECRET}, T: "env:A"}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("old.yaml").write_text(OLD)
    Path("new.yaml").write_text(OLD.replace("count: 2", "count: 3").replace(SECRET, f"{SECRET}er"))
    Path("settings.yaml").write_text(OLD + "retry: {jitter: 0.1}\n")
    Path("broken.yaml").write_text("run_id: 7\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["old.yaml", "--from", "old.yaml"], 0),
        (["old.yaml", "--from", "old.yaml", "--exit-code"], 0),
        (["new.yaml", "--from", "old.yaml"], 0),
        (["new.yaml", "--from", "old.yaml", "--exit-code"], 3),
        (["settings.yaml", "--from", "old.yaml", "--exit-code"], 3),
        (["new.yaml", "--exit-code"], 3),
        (["broken.yaml", "--from", "old.yaml"], 2),
        (["new.yaml", "--from", "broken.yaml", "--exit-code"], 2),
        (["nowhere.yaml", "--exit-code"], 2),
    ],
)
@pytest.mark.usefixtures("here")
def test_the_exit_code_says_the_same_as_the_document(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    expected: int,
) -> None:
    # given colour forced, and warnings in the file
    monkeypatch.setenv("FORCE_COLOR", "1")
    # when the plan is asked for as text and as JSON
    assert main(["plan", *arguments]) == expected
    capsys.readouterr()
    assert main(["plan", *arguments, "--json"]) == expected
    # then stdout holds one document of the documented shape and nothing else
    printed = capsys.readouterr()
    report = msgspec.json.decode(printed.out, type=PlanReport)
    assert (printed.err, printed.out.count("\n"), report.exit_code) == ("", 1, expected)
    assert report.valid == (expected != 2) == (not report.faults)


@pytest.mark.usefixtures("here")
def test_a_secret_is_shown_nowhere_and_a_reference_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # given a literal secret in a variable and in a command, which is another one in the new file
    Path("new.yaml").write_text(Path("new.yaml").read_text().replace("env:A", "env:B"))
    # when the plan is told in both ways
    for json_too in ([], ["--json"]):
        main(["plan", "new.yaml", "--from", "old.yaml", *json_too])
        printed = capsys.readouterr()
        # then neither of the two stands anywhere, and the references do
        assert SECRET not in printed.out + printed.err
        assert "env:A" in printed.out
        assert "env:B" in printed.out


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("run --password hunter-2 -v", "run --password *** -v"),
        ("run --password 'two words' -v", "run --password '***' -v"),
        ("sh -c 'DB_PASSWORD=hunter-2 run'", "sh -c 'DB_PASSWORD=*** run'"),
        ("psql postgres://me:hunter-2@host/db -c 1", "psql *** -c 1"),
        ("run --token-file /run/token $API_KEY", "run --token-file /run/token $API_KEY"),
        ("echo '-----BEGIN RSA PRIVATE KEY----- hunter-2'", "echo '***'"),
        ("run 'not closed --password hunter-2", "run 'not closed --password ***"),
    ],
)
def test_a_secret_in_a_command_hides_no_more_than_itself(command: str, shown: str) -> None:
    before = expand_shape(shape(1, group("a", 1, command)))
    after = expand_shape(shape(2, group("a", 1)))
    [diff] = diff_groups(before, after)
    assert diff.changes == (
        FieldChange("boot.start_swactor_command", shown, "", hidden=shown != command),
    )


def test_a_long_command_is_told_from_shortly_before_the_difference(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "exec worker " + "--option value " * 20
    for name, end in (("old", "--port 80"), ("new", "--port 81")):
        text = "run_id: 7\ngroups:\n- {group_id: w, role: r, count: 1, provider: process, boot: "
        (here / f"{name}.yaml").write_text(f"{text}{{start_swactor_command: {long}{end}}}}}\n")
    assert main(["plan", "new.yaml", "--from", "old.yaml"]) == 0
    assert (
        '    boot.start_swactor_command: "...ption value --port 80" -> "...ption value --port 81"\n'
        in capsys.readouterr().out
    )


@pytest.mark.usefixtures("here")
def test_what_a_terminal_would_obey_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.yaml").write_text(OLD.replace(f"run --password {SECRET}", "\\e[31m run"))
    assert main(["plan", "new.yaml", "--from", "old.yaml"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_plan_leaves_nothing_behind(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(here.rglob("*")), threading.active_count(), os.listdir("/proc/self/fd")
    assert main(["plan", "new.yaml", "--from", "old.yaml"]) == 0
    after = sorted(here.rglob("*")), threading.active_count(), os.listdir("/proc/self/fd")
    assert after == before


@pytest.mark.usefixtures("here")
def test_ten_thousand_nodes_are_planned_within_three_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # given ten thousand nodes, all of which are to be replaced
    for name, command in (("big-old", "x"), ("big-new", "y")):
        text = "run_id: 7\ngroups:\n- {group_id: w, role: r, count: 10000, provider: process, "
        Path(f"{name}.yaml").write_text(text + f"boot: {{start_swactor_command: {command}}}}}\n")
    # when the plan is made
    began = time.process_time()
    assert main(["plan", "big-new.yaml", "--from", "big-old.yaml"]) == 0
    # then it takes no time worth speaking of, and fits on a screen
    assert time.process_time() - began < 3
    assert "  ~ w-0..w-9999: 10000 replaced, all at once\n" in (out := capsys.readouterr().out)
    assert out.count("\n") < 30


@pytest.mark.parametrize(
    ("arguments", "environment", "coloured"),
    [([], {}, True), (["--no-color"], {}, False), ([], {"NO_COLOR": "1"}, False)],
)
def test_a_terminal_gets_colours_unless_it_wants_none(
    here: Path, arguments: list[str], environment: Mapping[str, str], coloured: bool
) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "cluster_reconciler.actors", "plan", "new.yaml", *arguments]
    plain = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "COLUMNS"}}
    done = subprocess.run(
        [*command, "--from", "old.yaml"],
        env={**plain, "TERM": "xterm-256color", **environment},
        cwd=here,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    os.close(terminal)
    shown = os.read(controller, 65536).decode()
    os.close(controller)
    assert (done.returncode, "\x1b[" in shown) == (0, coloured)
    assert "w-2: added" in shown


@pytest.mark.usefixtures("here")
def test_settings_say_when_they_count(capsys: pytest.CaptureFixture[str]) -> None:
    # given other limits, waits and listener, and nothing of the nodes
    Path("new.yaml").write_text(
        OLD + "limits: {process: {in_flight: 3}}\nretry: {max_delay: 61s}\nswarm: {grace: 9s}\n"
    )
    assert main(["plan", "new.yaml", "--from", "old.yaml", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"kept": 2, "added": 0, "removed": 0, "replaced": 0}
    assert report["settings"] == [
        {"path": "limits.process.in_flight", "old": 64, "new": 3, "takes_effect": "at_once"},
        {"path": "retry.max_delay", "old": "1m", "new": "1m1s", "takes_effect": "at_once"},
        {"path": "swarm.grace", "old": "5s", "new": "9s", "takes_effect": "at_a_new_start"},
    ]


@pytest.mark.usefixtures("here")
def test_settings_of_a_file_that_a_running_cluster_refuses_count_at_a_new_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # given settings that could be taken over at once, and a group that asks for another provider
    Path("new.yaml").write_text(
        OLD.replace("provider: process", "provider: gpu")
        + "providers: {gpu: {kind: process}}\nlimits: {gpu: {in_flight: 3}}\n"
        + "retry: {max_delay: 61s}\n"
    )
    # when the plan is asked for as JSON and as text
    assert main(["plan", "new.yaml", "--from", "old.yaml", "--json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=PlanReport)
    assert main(["plan", "new.yaml", "--from", "old.yaml"]) == 0
    text = capsys.readouterr().out
    # then both say the same: `up --watch` takes the file as a whole or not at all
    assert report.refused_providers == ("gpu",)
    paths = [change.path for change in report.settings]
    assert paths[:2] == ["limits.gpu.in_flight", "retry.max_delay"]
    assert {change.takes_effect for change in report.settings} == {TakesEffect.AT_A_NEW_START}
    _, _, told = text.partition("settings that count only once `up` is started anew\n")
    assert [line.split()[1].rstrip(":") for line in told.splitlines()[: len(paths)]] == paths
    assert "takes over at once" not in text


def groups_of(number: int, command: str) -> str:
    """A file with so many groups of one node."""
    one = "{group_id: g%d, role: r, count: 1, provider: process, boot: {start_swactor_command: %s}}"
    return f"run_id: 7\ngroups: [{', '.join(one % (n, command) for n in range(number))}]\n"


@pytest.mark.usefixtures("here")
def test_two_thousand_groups_are_folded_to_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    # given two thousand groups, of which all but the first hundred get another command
    Path("old.yaml").write_text(groups_of(2000, "x"))
    Path("new.yaml").write_text(groups_of(2000, "y").replace("command: y", "command: x", 100))
    # when the plan is told
    assert main(["plan", "new.yaml", "--from", "old.yaml"]) == 0
    # then the first are named, the rest is counted, and no line is longer than people read
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "more group" in line] == [
        "and 1880 more groups: 1880 replaced (--json names all)",
        "and 80 more groups: 80 kept (--json names all)",
    ]
    assert lines[2:5] == [
        "g100: 1 replaced",
        '    boot.start_swactor_command: "x" -> "y"',
        "  ~ g100-0: replaced",
    ]
    assert (len(lines) < 150, max(map(len, lines)) <= 100) == (True, True)


@pytest.mark.usefixtures("here")
def test_the_time_of_a_plan_grows_with_the_groups_and_no_faster() -> None:
    # given files of some groups, and of four times as many
    took = []
    for number in (250, 1000):
        Path("old.yaml").write_text(groups_of(number, "x"))
        Path("new.yaml").write_text(groups_of(number, "y"))
        report = plan_report(load("old.yaml"), load("new.yaml"))
        report = msgspec.structs.replace(report, waves=())
        # when the plan is put into words
        began = time.process_time()
        plan_lines(report)
        took.append(time.process_time() - began)
    # then four times as many take four times as long, not sixteen
    assert took[1] < 9 * took[0] + 0.02


@pytest.mark.usefixtures("here")
def test_a_renamed_group_is_told_to_be_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.yaml").write_text(OLD.replace("group_id: w", "group_id: v"))
    assert main(["plan", "new.yaml", "--from", "old.yaml"]) == 0
    printed = capsys.readouterr().out
    assert printed[: printed.index("\norder")] == (
        "run 7, generation 1 -> 2: 2 added, 2 removed\n"
        "\n"
        'v: 2 added; "w" under another name is another group: no node is taken over\n'
        "  + v-0, v-1: 2 added\n"
        "w: 2 removed; the group is gone\n"
        "  - w-0, w-1: 2 removed\n"
    )


@pytest.mark.usefixtures("here")
def test_a_generation_alone_is_no_change(capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.yaml").write_text(f"generation: 9\n{OLD}")
    assert main(["plan", "new.yaml", "--from", "old.yaml", "--exit-code"]) == 0
    assert capsys.readouterr().out == (
        "run 7, generation 1 -> 9: no changes but its number\n\nw: 2 kept\n"
    )

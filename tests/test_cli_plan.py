"""`plan`: what it says is what the decider would do, in its order; saying so touches nothing."""

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
from hypothesis import given
from hypothesis import strategies as st

from cluster_reconciler.actors.cli.main import main
from cluster_reconciler.actors.cli.plan_words import ranges
from cluster_reconciler.actors.cli.rehearsal import Rehearsal, converged_state, rehearse
from cluster_reconciler.actors.cli.reports import PlanReport
from cluster_reconciler.actors.cli.shape_diff import diff_groups
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.decider import check_converged, check_state, expand_shape, is_converged
from cluster_reconciler.messages import (
    BootSpec,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    BootstrapStarted,
    ClusterShape,
    CreateLease,
    LeaseCreated,
    LeaseFacts,
    LocalEndpoint,
    NodeGroupId,
    ProviderKind,
    ProviderLeaseId,
    ProviderLimits,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    StartBootstrap,
    SwactorId,
    SwactorJoined,
    kind_of,
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


groups = st.lists(
    st.builds(group, st.sampled_from(["a", "b", "c"]), st.integers(0, 13), st.sampled_from("xy")),
    max_size=3,
    unique_by=lambda each: each.group_id,
)


def acting(rehearsal: Rehearsal, action: str) -> list[str]:
    """The nodes that take the action, over all waves."""
    return sorted(
        node
        for wave in rehearsal.waves
        for step in wave.steps
        if step.action == action
        for node in step.nodes
    )


class TestWhatBecomesOfTheNodes:
    @given(groups, groups, st.integers(1, 5))
    def test_what_is_said_is_what_the_decider_does(
        self, old: list[RunNodeGroupSpec], new: list[RunNodeGroupSpec], in_flight: int
    ) -> None:
        # given any two shapes
        before = expand_shape(shape(1, *old, in_flight=in_flight))
        after = expand_shape(shape(2, *new, in_flight=in_flight))
        # when they are compared, and the decider goes from one to the other
        diff = diff_groups(before, after)
        rehearsal = rehearse(before, after)
        # then the decider gets there, and does to each node what was said
        added = sorted(node for each in diff for node in each.added)
        removed = sorted(node for each in diff for node in each.removed)
        replaced = sorted(node for each in diff for node in each.replaced)
        kept = {node for each in diff for node in each.kept}
        assert rehearsal.complete
        assert acting(rehearsal, "insert") == added
        assert acting(rehearsal, "reap") == removed
        assert acting(rehearsal, "restart") == replaced
        assert acting(rehearsal, "begin_delete") == sorted(removed + replaced)
        touched = {n for wave in rehearsal.waves for step in wave.steps for n in step.nodes}
        assert not kept & touched
        assert kept | set(replaced) | set(added) == set(after.nodes)

    @given(groups, groups, st.integers(1, 5))
    def test_no_wave_asks_for_more_than_the_limit_lets_through(
        self, old: list[RunNodeGroupSpec], new: list[RunNodeGroupSpec], in_flight: int
    ) -> None:
        before, after = expand_shape(shape(1, *old)), expand_shape(shape(2, *new))
        limited = expand_shape(shape(2, *new, in_flight=in_flight))
        for wave in rehearse(before, limited).waves:
            made = {step.action: len(step.nodes) for step in wave.steps}
            acquiring = made.get("create_lease", 0) + made.get("start_bootstrap", 0)
            assert acquiring <= in_flight
            assert made.get("destroy_lease", 0) <= in_flight
        assert rehearse(before, after).complete

    def test_the_highest_numbers_go_first(self) -> None:
        before, after = (
            expand_shape(shape(1, group("a", 12))),
            expand_shape(shape(2, group("a", 9))),
        )
        [diff] = diff_groups(before, after)
        assert (diff.removed, len(diff.kept)) == (("a-9", "a-10", "a-11"), 9)


class TestTheOrder:
    def test_the_rehearsal_begins_as_a_real_driver_does(self) -> None:
        # given a real driver whose cluster has converged, under a limit of 2
        old = shape(1, group("a", 3, "x"), group("b", 2), in_flight=2)
        new = shape(2, group("a", 4, "y"), group("b", 1), in_flight=2)
        cluster = brought_up(old)
        # when it is offered the new shape
        cluster.update_desired(new)
        dispatched = cluster.drive()
        # then it submits first what the first wave says, and holds back the same nodes
        wave = rehearse(expand_shape(old), expand_shape(new)).waves[0]
        submitted: dict[str, list[str]] = {}
        for effect in dispatched:
            submitted.setdefault(kind_of(effect.command), []).append(effect.node)
        assert {
            step.action: list(step.nodes) for step in wave.steps if step.action in submitted
        } == submitted
        assert cluster.plan is not None
        assert wave.held_back == cluster.plan.held_back

    def test_it_begins_from_a_state_that_the_invariants_accept(self) -> None:
        expanded = expand_shape(shape(3, group("a", 3), group("b", 2, "x")))
        state = converged_state(expanded)
        check_state(state)
        check_converged(state, expanded)
        assert is_converged(state, expanded)

    def test_what_is_converged_needs_nothing(self) -> None:
        same = expand_shape(shape(1, group("a", 3)))
        assert rehearse(same, same) == Rehearsal((), True)

    def test_ranges_fold_what_follows_upon_each_other(self) -> None:
        assert ranges(["a-10", "a-9", "a-8", "b-0", "b-1", "a-0", "odd"]) == (
            "a-0, a-8..a-10, b-0, b-1, odd"
        )


def brought_up(old: ClusterShape) -> SteppingCluster:
    cluster = SteppingCluster(old)
    waiting = cluster.drive()
    while waiting:
        for effect in waiting:
            attempt = effect.operation.attempt
            session = BootstrapSessionId(attempt)
            match effect.command:
                case CreateLease():
                    lease = LeaseFacts(PROCESS, ProviderLeaseId(f"{attempt}"))
                    cluster.succeed(effect, LeaseCreated(lease, LocalEndpoint("x")))
                case StartBootstrap():
                    cluster.succeed(effect, BootstrapStarted(session))
                    joined = SwactorJoined(session, SwactorId(effect.node))
                    cluster.observe(effect.node, attempt, joined)
                case BootstrapConvergenceObserved():
                    cluster.succeed(effect, BootstrapConvergenceAccepted())
        waiting = cluster.drive()
    assert cluster.converged
    return cluster


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
    assert "  ~ w-0..w-9999: 10000 replaced\n" in (out := capsys.readouterr().out)
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

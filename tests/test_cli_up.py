"""`up` against a cluster of the test's own, in a process of its own: signals, streams, exit codes.

The same on real processes is in `test_cli_up_processes`.
"""

import io
import json
import os
import pty
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from cluster_reconciler.actors.cli.reports import EventLine
from cluster_reconciler.actors.cli.words import rich_table
from cluster_reconciler.actors.status import ClusterStatus
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.messages import (
    LeaseCreated,
    LeaseFacts,
    LogicalNodeId,
    NodeStage,
    ProviderKind,
    ProviderLeaseId,
)
from tests.cli_kit import SHAPE, Run, Up, report_of, run

__all__ = ["run"]

MEMORY = ProviderKind("memory")


def started_status(lease_id: str) -> ClusterStatus:
    """Three nodes that are ready, and have leases of such a name."""
    stepped = SteppingCluster(shape(group("worker", 1)))
    [create] = stepped.drive()
    stepped.succeed(create, LeaseCreated(LeaseFacts(MEMORY, ProviderLeaseId(lease_id))))
    stepped.drive()
    status = stepped.status()
    [node] = status.nodes
    ready = replace(node, ready=True, waits_for=None, stage=NodeStage.DORMANT)
    nodes = tuple(replace(ready, node=LogicalNodeId(f"worker-{n}")) for n in (10, 11, 12))
    return replace(status, nodes=nodes)


def drawn(status: ClusterStatus, width: int) -> list[str]:
    """The lines of its table on a terminal of that width."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(rich_table(status, width))
    return capture.get().splitlines()


class TestOnce:
    def test_it_converges_prints_an_aligned_table_drains_and_exits_0(self, run: Run) -> None:
        code, out, errors = run("--once").end()
        assert code == 0
        header, row = out.splitlines()
        assert header.split() == [
            "NODE", "PROVIDER", "STAGE", "READY", "ATTEMPT", "AGE", "LEASE", "REMARK",
        ]  # fmt: skip
        assert row.split() == ["w-0", "process", "ready", "yes", "1", "0ms", "lease-1"]
        assert header.index("READY") == row.index("yes")
        assert "drained: nothing is left" in errors

    def test_json_is_one_document_and_prose_goes_to_stderr(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        code, out, errors = run("--once", "--json", "-v").end()
        document: dict[str, Any] = json.loads(out)
        assert out.count("\n") == 1
        assert code == document["exit_code"] == 0
        assert document["run_id"] == 7
        assert document["generation"] == 1
        assert document["converged"] is True
        assert document["drained"] is True
        assert document["left"] == []
        assert document["counts"]["ready"] == 1
        assert [node["node"] for node in document["nodes"]] == ["w-0"]
        assert "03:04:05 w-0 ready | indeed \\x1b[31m (attempt 1)" in errors

    def test_quiet_says_nothing_when_all_is_well(self, run: Run) -> None:
        code, out, errors = run("--once", "-q").end()
        assert (code, out) == (0, "")
        assert errors.splitlines() == ["started", "closed"]

    def test_quiet_shows_the_nodes_when_one_is_not_ready(self, run: Run) -> None:
        code, out, _ = run("--once", "-q", "--timeout", "50ms", converges=False).end()
        assert (code, len(out.splitlines())) == (4, 2)

    @pytest.mark.parametrize("timeout", ["50ms", "0"])
    def test_not_converged_in_time_drains_and_exits_4(self, run: Run, timeout: str) -> None:
        code, out, _ = run("--once", "--json", "--timeout", timeout, converges=False).end()
        report = report_of(out)
        assert code == report.exit_code == 4
        assert (report.converged, report.drained) == (False, True)
        assert report.error is not None
        assert "0 of 1 nodes are ready" in report.error

    def test_leases_left_after_the_drain_are_all_named_and_exit_1(self, run: Run) -> None:
        code, out, errors = run("--once", "--json", drain="fails").end()
        report = report_of(out)
        assert code == report.exit_code == 1
        assert report.drained is False
        assert [lease.lease_id for lease in report.left] == ["lease-1"]
        assert "lease lease-1 of run 7, node w-0, attempt 1" in errors

    def test_a_dead_driver_exits_1_and_names_what_may_be_left(self, run: Run) -> None:
        code, out, errors = run("--once", "--json", dies=True).end()
        assert code == report_of(out).exit_code == 1
        assert "the driver died: a bug" in errors
        assert [lease.lease_id for lease in report_of(out).left] == ["lease-1"]


class TestOnATerminal:
    @pytest.mark.parametrize(
        ("width", "columns"),
        [
            (80, "NODE PROVIDER STAGE READY ATTEMPT AGE REMARK"),
            (120, "NODE PROVIDER STAGE READY ATTEMPT AGE LEASE REMARK"),
        ],
    )
    def test_a_node_takes_one_line_and_leases_only_stand_where_there_is_room(
        self, width: int, columns: str
    ) -> None:
        header, *rows = drawn(started_status("run-1/worker-12-1ae6fac6e0a6-4711"), width)
        assert (header.split(), [row.split()[0] for row in rows]) == (
            columns.split(),
            ["worker-10", "worker-11", "worker-12"],
        )

    @pytest.mark.parametrize("length", range(1, 60))
    def test_no_length_of_a_lease_makes_two_lines_of_a_node(self, length: int) -> None:
        assert len(drawn(started_status("x" * length), 80)) == 4

    def test_the_table_is_coloured_unless_that_is_not_wanted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        coloured, plain = self.table(tmp_path), self.table(tmp_path, "--no-color")
        monkeypatch.setenv("NO_COLOR", "1")
        also_plain = self.table(tmp_path)
        assert "\x1b[33m" in coloured
        assert "w-0" in plain
        assert "\x1b" not in plain + also_plain

    def table(self, folder: Path, *flags: str) -> str:
        """What a person sees on stdout."""
        ours, theirs = pty.openpty()
        try:
            arguments = ["shape.yaml", "--once", "-q", "--timeout", "50ms", *flags]
            up = Up(folder, arguments, {"converges": False}, out=theirs)
            assert up.process.wait(timeout=30) == 4
            return os.read(ours, 65536).decode()
        finally:
            os.close(ours)
            os.close(theirs)


class TestStaying:
    def test_a_line_for_each_change_and_no_output_of_nodes(self, run: Run) -> None:
        up = run()
        up.wait_for("converged: 1 of 1 nodes are ready")
        up.send(signal.SIGTERM)
        code, out, _ = up.end()
        assert code == 143
        assert out.splitlines() == ["03:04:05 w-0 ready | indeed \\x1b[31m (attempt 1)"]

    def test_json_is_an_event_a_line_and_the_report_last(self, run: Run) -> None:
        up = run("--json", "-v")
        up.wait_for("converged")
        up.send(signal.SIGINT)
        code, out, _ = up.end()
        *events, report = out.splitlines()
        decoded = [msgspec.json.decode(line, type=EventLine).event.text for line in events]
        assert decoded == ["ready\nindeed \x1b[31m", "hello"]
        assert code == report_of(report).exit_code == 130
        assert report_of(report).signal == "SIGINT"

    def test_a_driver_that_dies_while_it_stays_ends_it(self, run: Run) -> None:
        code, _, errors = run(dies_later=True).end()
        assert code == 1
        assert "the driver died" in errors


class TestSignals:
    @pytest.mark.parametrize(
        ("number", "code", "how"),
        [
            (signal.SIGINT, 130, "Ctrl-C again, or `kill {}`, ends"),
            (signal.SIGTERM, 143, "`kill {}` again ends"),
            (signal.SIGHUP, 129, "`kill {}` ends"),
        ],
    )
    @pytest.mark.parametrize("converges", [True, False])
    def test_the_first_one_drains_and_says_how_to_force(
        self, run: Run, number: signal.Signals, code: int, how: str, converges: bool
    ) -> None:
        up = run(converges=converges)
        up.wait_for("converged" if converges else "started")
        up.send(number)
        ended, _, errors = up.end()
        assert ended == code
        assert (
            f"{number.name}: draining, waits for 1 lease to end, at most 2m; "
            f"{how.format(up.process.pid)} it at once and may leave machines behind\n"
        ) in errors
        assert "drained: nothing is left" in errors

    def test_one_during_the_start_drains_what_the_start_makes(self, run: Run) -> None:
        up = run(start_takes=0.5)
        up.wait_for("started")
        up.send(signal.SIGINT)
        code, _, errors = up.end()
        assert code == 130
        assert "SIGINT: drains as soon as the start is done" in errors
        assert "drained: nothing is left" in errors

    def test_one_during_the_drain_of_once_does_not_cut_it_short(self, run: Run) -> None:
        up = run("--once", drain="hangs")
        up.wait_for("draining")
        up.send(signal.SIGINT)
        up.wait_for("SIGINT: already draining")
        assert up.process.poll() is None

    @pytest.mark.parametrize("flags", [[], ["--json"], ["--once", "--json"]])
    def test_the_second_ends_within_two_seconds_and_names_what_may_be_left(
        self, run: Run, flags: list[str]
    ) -> None:
        # given a drain that hangs
        up = run(*flags, drain="hangs", converges=False)
        up.wait_for("started")
        up.send(signal.SIGINT)
        up.wait_for("SIGINT: draining")
        # when a second signal comes
        took = up.send_again(signal.SIGINT)
        code, out, errors = up.end()
        # then it ends at once, and the exit code agrees with the text
        assert took < 2
        assert code == 1
        assert "lease lease-1 of run 7, node w-0, attempt 1" in errors
        if flags:
            report = report_of(out)
            assert [lease.lease_id for lease in report.left] == ["lease-1"]
            assert (report.exit_code, report.drained) == (1, False)

    def test_another_signal_than_the_first_is_not_called_the_same_again(self, run: Run) -> None:
        up = run(drain="hangs", converges=False)
        up.wait_for("started")
        up.send(signal.SIGTERM)
        up.wait_for("SIGTERM: draining")
        up.send_again(signal.SIGINT)
        assert "SIGINT after SIGTERM: ends at once" in up.end()[2]

    def test_the_second_ends_it_even_when_nobody_reads_stdout(self, run: Run) -> None:
        # given a full pipe, in which the next write is stuck
        up = run(floods=True, drain="hangs")
        up.wait_for("converged")
        up.send(signal.SIGINT)
        up.wait_for("SIGINT: draining")
        assert up.send_again(signal.SIGTERM) < 2
        assert "lease lease-1" in up.errors.read_text()


class TestBeforeTheStart:
    def test_a_broken_shape_exits_2_with_its_faults(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "broken.json").write_text('{"run_id": -1}')
        up = Up(tmp_path, ["broken.json", "--json"], {})
        code, out, errors = up.end()
        report = report_of(out)
        assert code == report.exit_code == 2
        assert [fault.path for fault in report.faults] == ["groups", "run_id"]
        assert "started" not in errors

    def test_a_run_that_another_process_drives_exits_2(self, run: Run) -> None:
        code, out, errors = run("--once", "--json", refuses=True).end()
        assert code == report_of(out).exit_code == 2
        assert "run 7 is driven by process 42 already" in errors

    def test_a_trace_without_a_directory_exits_2(self, run: Run) -> None:
        code, out, errors = run("--trace", "nowhere/trace", "--once", "--json").end()
        assert code == report_of(out).exit_code == 2
        assert errors == (
            "--trace nowhere/trace: expected a place for a file, found no such directory\n"
        )

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            (
                ["--trace", "shape.yaml"],
                "--trace {}: expected a file of its own, found that of FILE",
            ),
            (["--log", "shape.yaml"], "--log {}: expected a file of its own, found that of FILE"),
            (["--trace", "x", "--log", "x"], "--log {}: expected another file than --trace has"),
        ],
    )
    def test_what_is_written_is_not_what_is_read(
        self, run: Run, tmp_path: Path, flags: list[str], said: str
    ) -> None:
        code, out, errors = run(*flags, "--once", "--json").end()
        assert code == report_of(out).exit_code == 2
        other = "--trace" if len(flags) > 2 else "FILE"
        assert errors == said.format(tmp_path.resolve() / flags[-1], other) + "\n"
        assert (tmp_path / "shape.yaml").read_text() == SHAPE

    def test_a_log_that_cannot_be_written_exits_2(self, run: Run) -> None:
        code, out, errors = run("--log", "/proc/x", "--once", "--json").end()
        assert code == report_of(out).exit_code == 2
        assert "--log /proc/x: cannot be written" in errors

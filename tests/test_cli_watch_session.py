"""`up --watch`: what an edit does to a cluster that runs, what it says, and what interrupts it."""

import json
from pathlib import Path
from signal import Signals
from typing import Any

import pytest

from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.up import up
from cluster_reconciler.actors.errors import ClusterError, DriverDied
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import (
    ShapeRefused,
)
from tests.cli_watch_kit import (
    SHAPE,
    FakeCluster,
    Heard,
    Watched,
    asked,
    json_lines,
    until,
    with_count,
)

RETRY = "retry: {jitter: 0.25}\n"


@pytest.fixture
def heard(capfd: pytest.CaptureFixture[str]) -> Heard:
    return Heard(capfd)


def about_the_file(lines: list[dict[str, Any]], *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(line[f] for f in fields) for line in lines if line["type"] == "shape"]


class TestAnEdit:
    def test_that_is_right_is_planned_run_and_converged_again(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        # given a cluster that has converged
        watched = Watched(tmp_path)
        cluster = watched.begin()
        heard.wait_for("converged: 1 of 1 nodes are ready; Ctrl-C drains")
        # when the file is edited
        watched.save(with_count(3, RETRY + "swarm: {grace: 9s}\n"))
        heard.wait_for("converged: 3 of 3 nodes are ready; Ctrl-C drains")
        code = watched.end()
        # then it got the next generation, the policy first, and each is told once
        assert (code, asked(cluster), cluster.drained) == (130, [0.25, (2, 3)], True)
        name = str(watched.file)
        assert heard.err.splitlines()[1:7] == [
            f"{name}: generation 2, 1 kept, 2 added, 0 removed, 0 replaced",
            "  w: adds 2 nodes",
            "  retry.jitter: 0.5 -> 0.25, from the next wait on",
            f"{name}: only a new start of `up` brings into force:",
            '  swarm.grace: "5s" -> "9s"',
            "converged: 3 of 3 nodes are ready; Ctrl-C drains",
        ]

    def test_that_is_wrong_is_reported_once_and_changes_nothing(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        watched = Watched(tmp_path)
        cluster = watched.begin()
        heard.wait_for("converged")
        # when a wrong edit, its absence and its repair follow each other
        watched.save(with_count("two"))
        heard.wait_for("not used; nothing changes, generation 1 goes on")
        watched.file.unlink()
        heard.wait_for("not used; nothing changes, generation 1 goes on", times=2)
        watched.save(with_count("two"))
        watched.save(SHAPE)
        heard.wait_for("nothing to do, generation 1 is that")
        watched.end()
        # then the faults are told with their places, and the cluster was asked for nothing
        name = str(watched.file)
        assert (asked(cluster), heard.err.splitlines()[1:6]) == (
            [],
            [
                (
                    f"{name}:5:3: groups[0].count: expected an integer from 0 to 1000000, "
                    'found the string "two"'
                ),
                f"{name}: not used; nothing changes, generation 1 goes on",
                f"{name}: expected a file, found nothing there",
                f"{name}: not used; nothing changes, generation 1 goes on",
                f"{name}: nothing to do, generation 1 is that",
            ],
        )

    def test_that_comes_during_the_convergence_counts_and_it_is_told_once(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        watched = Watched(tmp_path, converges=False)
        cluster = watched.begin()
        watched.save(with_count(2))
        until(lambda: asked(cluster) == [(2, 2)])
        watched.save(with_count(3))
        until(lambda: asked(cluster) == [(2, 2), (3, 3)])
        cluster.may_converge.set()
        heard.wait_for("converged: 3 of 3")
        watched.end()
        assert heard.err.count("converged: ") == 1

    def test_that_the_driver_refuses_changes_nothing_and_gives_its_reason(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        # given a driver that refuses one shape
        watched = Watched(tmp_path)
        cluster = watched.begin()
        heard.wait_for("converged")
        cluster.refusals = [ShapeRefused("not on a Monday\x1b[31m")]
        # when a shape and a policy are edited, and then the shape once more
        watched.save(with_count(2, RETRY))
        heard.wait_for("refused, not on a Monday\\x1b[31m; nothing changes, generation 1 goes on")
        watched.save(with_count(3))
        heard.wait_for("converged: 3 of 3")
        # then the policy was put back, and the generation was not used up
        watched.end()
        assert asked(cluster) == [0.25, RetryPolicy().jitter, (2, 3)]

    def test_of_another_run_or_provider_is_refused_with_a_word(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        watched = Watched(tmp_path)
        cluster = watched.begin()
        heard.wait_for("converged")
        watched.save(SHAPE.replace("run_id: 7", "run_id: 8"))
        heard.wait_for("refused, run_id is 8, this process drives run 7")
        other = SHAPE.replace("provider: process", "provider: fast")
        watched.save(other + "providers: {fast: {kind: process}}\n")
        heard.wait_for("which this process did not start (it has process); start `up` again")
        watched.end()
        assert asked(cluster) == []

    def test_that_a_busy_driver_has_not_answered_is_tried_again(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        watched = Watched(tmp_path)
        cluster = watched.begin()
        heard.wait_for("converged")
        cluster.refusals = [ClusterError("the driver has not answered")]
        watched.save(with_count(2))
        heard.wait_for("refused, the driver has not answered; it is tried again")
        heard.wait_for("converged: 2 of 2")
        watched.end()
        assert asked(cluster) == [(2, 2)]

    def test_that_finds_the_driver_dead_ends_it(self, tmp_path: Path, heard: Heard) -> None:
        watched = Watched(tmp_path)
        cluster = watched.begin()
        heard.wait_for("converged")
        cluster.refusals = [DriverDied("a bug")]
        watched.save(with_count(2))
        watched.thread.join(20)
        assert (watched.end(), "the driver died: a bug" in heard.err) == (1, True)

    def test_warns_of_what_is_probably_not_meant_once(self, tmp_path: Path, heard: Heard) -> None:
        watched = Watched(tmp_path)
        watched.begin()
        heard.wait_for("converged")
        unused = "  shape: {image: ubuntu}\n"
        watched.save(with_count(2, unused))
        heard.wait_for("converged: 2 of 2")
        watched.save(with_count(3, unused))
        heard.wait_for("converged: 3 of 3")
        watched.end()
        assert heard.err.count(": warning: ") == 1


class TestTime:
    def test_before_the_first_convergence_an_edit_begins_the_timeout_anew(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        watched = Watched(tmp_path, "--timeout", "1500ms", converges=False)
        cluster = watched.begin()
        watched.save(with_count(2))
        until(lambda: asked(cluster) == [(2, 2)])
        watched.thread.join(20)
        # then both times were waited for in full, and the shape that was asked for last is named
        assert (watched.end(), cluster.waits) == (4, [1.5, 1.5])
        assert "generation 2 is not converged" in heard.err

    def test_what_has_converged_once_is_not_drained_for_an_edit_that_does_not(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        watched = Watched(tmp_path, "--timeout", "100ms")
        cluster = watched.begin()
        heard.wait_for("converged: 1 of 1")
        cluster.may_converge.clear()
        watched.save(with_count(2))
        heard.wait_for("generation 2 is not converged")
        heard.wait_for("it goes on")
        cluster.may_converge.set()
        heard.wait_for("converged: 2 of 2")
        assert watched.end() == 130


class TestSignals:
    def test_in_the_middle_of_a_change_drains(self, tmp_path: Path, heard: Heard) -> None:
        watched = Watched(tmp_path)
        cluster = watched.begin()
        heard.wait_for("converged")
        cluster.may_update.clear()
        watched.save(with_count(2))
        heard.wait_for("generation 2, 1 kept, 1 added")
        code = watched.end()
        cluster.may_update.set()
        assert (code, cluster.drained) == (130, True)
        assert "drained: nothing is left" in heard.err

    def test_the_second_one_in_the_middle_of_a_change_ends_at_once(
        self, tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # given a change that hangs, and a drain that does
        watched = Watched(tmp_path)
        cluster = watched.begin()
        heard.wait_for("converged")
        monkeypatch.setattr(cluster, "drain", lambda timeout: cluster.ended.wait(20))
        cluster.may_update.clear()
        watched.save(with_count(2))
        heard.wait_for("generation 2, 1 kept, 1 added")
        # when two signals come
        watched.session.signal_came(Signals.SIGINT, 1)
        heard.wait_for("SIGINT: draining")
        watched.session.signal_came(Signals.SIGINT, 2)
        # then it ends before the drain does
        assert watched.codes.get(timeout=10) == 130
        cluster.may_update.set()
        watched.thread.join(20)
        assert "SIGINT again: ends at once" in heard.err

    def test_an_edit_during_the_drain_is_not_looked_at(
        self, tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watched = Watched(tmp_path)
        cluster = watched.begin()
        heard.wait_for("converged")
        monkeypatch.setattr(cluster, "drain", lambda timeout: watched.save(with_count(5)))
        watched.end()
        assert asked(cluster) == []


class TestJson:
    def test_each_change_is_a_line_and_the_report_knows_the_generation(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        watched = Watched(tmp_path, "--json")
        watched.begin()
        heard.wait_for("converged: 1 of 1")
        for text, said in (
            (with_count("two"), "not used"),
            (SHAPE.replace("run_id: 7", "run_id: 8"), "refused"),
            (with_count(2, "swarm: {grace: 9s}\n" + RETRY), "converged: 2 of 2"),
        ):
            watched.save(text)
            heard.wait_for(said)
        watched.end()
        lines = json_lines(heard.out)
        plan = {"kept": 1, "added": 1, "removed": 0, "replaced": 0, "groups": ["w: adds 1 node"]}
        assert about_the_file(lines, "file", "generation", "accepted", "plan", "takes_effect") == [
            (str(watched.file), 1, False, None, []),
            (str(watched.file), 1, False, None, []),
            (
                *(str(watched.file), 2, True, plan),
                ["retry.jitter: 0.5 -> 0.25, from the next wait on"],
            ),
        ]
        assert [
            ([fault["path"] for fault in faults], (reason or "")[:11], restart)
            for faults, reason, restart in about_the_file(
                lines, "faults", "reason", "needs_restart"
            )
        ] == [
            (["groups[0].count"], "", []),
            ([], "run_id is 8", []),
            ([], "", ['swarm.grace: "5s" -> "9s"']),
        ]
        report = lines[-1]
        assert (report["type"], report["generation"], report["converged"]) == ("report", 2, True)
        assert report["counts"]["wanted"] == 2

    def test_a_report_of_a_change_that_has_not_converged_says_so(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        watched = Watched(tmp_path, "--json")
        cluster = watched.begin()
        heard.wait_for("converged: 1 of 1")
        cluster.may_converge.clear()
        watched.save(with_count(2))
        until(lambda: asked(cluster) == [(2, 2)])
        until(lambda: '"accepted":true' in heard.out)
        watched.end()
        report = json_lines(heard.out)[-1]
        assert (report["generation"], report["converged"], report["counts"]["wanted"]) == (
            *(2, False),
            2,
        )


class TestUsage:
    def test_quiet_leaves_out_the_plan_and_nothing_that_is_wrong(
        self, tmp_path: Path, heard: Heard
    ) -> None:
        watched = Watched(tmp_path, "-q")
        cluster = watched.begin()
        watched.save(with_count(2, "swarm: {grace: 9s}\n"))
        until(lambda: asked(cluster) == [(2, 2)])
        watched.save("")
        heard.wait_for("not used")
        watched.end()
        name = str(watched.file)
        assert heard.err.splitlines()[:4] == [
            f"{name}: only a new start of `up` brings into force:",
            '  swarm.grace: "5s" -> "9s"',
            f"{name}: expected a shape with run_id and groups, found an empty file",
            f"{name}: not used; nothing changes, generation 2 goes on",
        ]

    @pytest.mark.parametrize("flags", [[], ["--json"]])
    def test_watch_with_once_is_wrong_usage(
        self, tmp_path: Path, heard: Heard, flags: list[str]
    ) -> None:
        def start(*_: object) -> FakeCluster:
            raise AssertionError("nothing may be started")

        words = ["up", str(tmp_path / "none.toml"), "--watch", "--once", *flags]
        code = up(make_parser().parse_args(words, UpOptions()), start)
        said = "--watch with --once: expected one of the two, since --once ends by itself"
        assert (code, heard.err) == (2, said + "\n")
        if flags:
            document = json.loads(heard.out)
            assert (document["exit_code"], document["error"]) == (2, said)

    def test_without_watch_an_edit_is_not_looked_at(self, tmp_path: Path, heard: Heard) -> None:
        watched = Watched(tmp_path)
        watched.session._following = None
        cluster = watched.begin()
        heard.wait_for("converged")
        watched.save(with_count(3))
        assert (watched.end(), asked(cluster)) == (130, [])

"""`bench` as people and programs read it: tables of what was measured, each aim and whether it is
met, and one document.  What is measured, and how, is told by `test_bench_measures.py`.
"""

import contextlib
import io
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
from loguru import logger

from cluster_reconciler.actors.bench import run
from cluster_reconciler.actors.bench.comparison import Compared, Missing
from cluster_reconciler.actors.bench.figures import FIGURES, value_of
from cluster_reconciler.actors.bench.machine import Machine, this_machine
from cluster_reconciler.actors.bench.profile import ProfileLine
from cluster_reconciler.actors.cli import bench
from cluster_reconciler.actors.cli import bench_arguments as arguments
from cluster_reconciler.actors.cli.bench_report import BenchReport
from cluster_reconciler.actors.cli.bench_tables import show_report
from cluster_reconciler.actors.cli.main import main
from cluster_reconciler.actors.cli.output import Output

MACHINE = Machine("Some CPU", 2, "CPython 3.11.7", 0.25)
REPORT = BenchReport(
    MACHINE,
    quick=False,
    values=(
        value_of("full_pass", 1_000, 0.2212),
        value_of("full_pass", 10_000, 0.2512),
        value_of("full_pass_to_plan", 10_000, 1234.56),
        value_of("converge_single", 1_000, 0.0912),
        value_of("memory_state", 1_000, 1053.1),
    ),
)
PEERS = (
    Compared(
        "ray", "2.60.0", 10_000, 5.21, 0.251, 20.757, 0.0312, 0.0000213, 1464.8, 0.00213, 14.648,
        12.0, True,
    ),
    Compared(
        "distributed", "2026.8.0", 10_000, 0.501, 0.251, 1.996, 0.0012, 0.0000213, 56.3, 0.00213,
        0.5634, 2.2, False,
    ),
)  # fmt: skip


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """`bench` gives the log back as a process begins with it, and tests are quiet."""
    yield
    logger.remove()


def shown(report: BenchReport, *, json: bool = False, encoding: str = "utf-8") -> str:
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding, write_through=True)
    with contextlib.redirect_stdout(stream):
        show_report(report, json, Output(colour=False))
    return data.getvalue().decode(encoding)


# -- the report ------------------------------------------------------------------------------------


def test_each_figure_is_a_line_with_its_aim_and_whether_it_is_met() -> None:
    assert [re.split(r"  +", line) for line in shown(REPORT).splitlines()] == [
        ["Some CPU, 2 cores, CPython 3.11.7, load 0.25"],
        ["FIGURE", "UNIT", "1000 NODES", "10000 NODES", "AIM", "MET"],
        ["full pass, a node", "µs", "0.221", "0.251", "at most 0.25 with 10000", "missed"],
        [
            *("full pass : planning after one event", "times", "-", "1235"),
            *("at least 300 with 10000", "met"),
        ],
        ["converge reply by reply, no limit", "s", "0.091", "-", "at most 1 with 10000"],
        ["state of a node, ready", "B", "1053", "-", "at most 1200 with 1000 or more", "met"],
        ["aims: 2 met, 1 missed"],
    ]


def test_a_stream_that_takes_ascii_alone_gets_it() -> None:
    assert [line.split()[4] for line in shown(REPORT, encoding="ascii").splitlines()[2:3]] == ["us"]


def test_a_rough_measure_says_so() -> None:
    rough = msgspec.structs.replace(REPORT, quick=True)
    assert shown(rough).splitlines()[-1] == "aims: 2 met, 1 missed (rough: --quick)"


def test_peers_have_a_table_of_their_own_and_one_that_is_missing_is_told() -> None:
    missing = Missing("other", "other>=3", "not installed")
    report = BenchReport(MACHINE, False, (), PEERS, (missing,))

    assert [re.split(r"  +", line) for line in shown(report).splitlines()[1:]] == [
        [
            *("PEER", "NODES", "CONVERGE", "OURS", "RATIO", "AIM", "MET"),
            *("STEADY", "OURS", "RATIO", "OURS, FULL", "RATIO"),
        ],
        [
            *("ray 2.60.0", "10000", "5.21 s", "0.251 s", "20.8", "at least 12", "met"),
            *("31.2 ms", "0.021 ms", "1465", "2.13 ms", "14.6"),
        ],
        [
            *("distributed 2026.8.0", "10000", "0.501 s", "0.251 s", "2.00", "at least 2.2"),
            *("missed", "1.20 ms", "0.021 ms", "56.3", "2.13 ms", "0.563"),
        ],
        ["other was not measured: not installed; it takes other>=3"],
        ["aims: 1 met, 1 missed"],
    ]


def test_on_a_terminal_what_is_met_and_missed_has_a_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ours, its = pty.openpty()
    with open(its, "w", encoding="utf-8") as terminal, contextlib.redirect_stdout(terminal):
        show_report(REPORT, False, Output(colour=True))
        text = ""
        while "aims: " not in text:  # A terminal hands on what it likes.
            text += os.read(ours, 100_000).decode()
    os.close(ours)
    assert ("\x1b[32mmet" in text, "\x1b[31mmissed" in text) == (True, True)


def test_the_document_holds_all_that_the_tables_do() -> None:
    report = BenchReport(MACHINE, True, REPORT.values, PEERS, (Missing("a", "b", "c"),))
    assert msgspec.json.decode(shown(report, json=True), type=BenchReport) == report


# -- the verb --------------------------------------------------------------------------------------


def test_what_is_asked_for_is_measured_once_for_each_number_of_nodes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "bench --nodes 30 20 30 --only plan memory --quick --json"
    assert main(words.split()) == 0

    out, errors = capsys.readouterr()
    report = msgspec.json.decode(out, type=BenchReport)
    figures = ["plan", "full_pass_to_plan"] + [f.name for f in FIGURES if f.measure == "memory"]
    assert [(value.nodes, value.figure) for value in report.values] == [
        (nodes, figure) for nodes in (20, 30) for figure in figures
    ]
    assert (report.quick, report.exit_code, report.peers, report.missing_peers) == (True, 0, (), ())
    assert errors.splitlines() == [
        f"{nodes} nodes: {what}"
        for nodes in (20, 30)
        for what in (
            "converges in batches, no limit",
            "full pass, planning after one event",
            "memory of a node",
        )
    ]


def test_peers_are_compared_with_no_more_nodes_than_they_can_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def compare(nodes: int, _progress: object) -> list[Compared | Missing]:
        asked.append(nodes)
        return [PEERS[0], Missing("other", "other>=3", "not installed")]

    monkeypatch.setattr(bench, "compare", compare)
    monkeypatch.setattr(bench, "measure", lambda _wanted, _progress: iter(()))
    for nodes in ("20", "100000"):
        assert main(["bench", "--peers", "--nodes", nodes, "--json"]) == 0

    reports = [
        msgspec.json.decode(line, type=BenchReport) for line in capsys.readouterr().out.splitlines()
    ]
    assert asked == [20, 10_000]
    assert [(r.peers, r.missing_peers[0].peer) for r in reports] == [((PEERS[0],), "other")] * 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--nodes 0", "bench --nodes: expected a number of nodes, from 1 to 1000000, found '0'"),
        (
            "--nodes 1e3",
            "bench --nodes: expected a number of nodes, from 1 to 1000000, found '1e3'",
        ),
        (
            "--only speed",
            (
                "bench --only: expected one of the measures pass, plan, event, converge, actors, "
                "repairs, memory, trace, found 'speed'"
            ),
        ),
    ],
)
def test_what_cannot_be_measured_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    assert main(["bench", *words.split()]) == 2
    assert capsys.readouterr().err.splitlines()[0] == told


def test_the_command_line_knows_what_can_be_measured_without_waiting_for_it() -> None:
    measures = tuple(dict.fromkeys(figure.measure for figure in FIGURES))
    assert [measures, run.NODES] == [arguments.MEASURES, arguments.NODES]


def test_the_machine_is_named() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert machine.python.startswith(("CPython 3.", "PyPy 3."))


def interrupted_at(line: str, *options: str) -> tuple[int, list[str], str]:
    """`bench`, interrupted as it says that, while what follows takes it minutes: its exit code,
    stdout, and what it said after that."""
    words = [sys.executable, "-m", "cluster_reconciler.actors", "bench", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while process.stderr.readline().rstrip("\n") != line:
        assert process.poll() is None, "it has ended, and has not said so"
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    return process.returncode, out.splitlines(), errors


BEGINS = "1000000 nodes: converges in batches, no limit"


def test_ctrl_c_before_anything_is_measured_ends_it_without_a_word() -> None:
    assert interrupted_at(BEGINS, "--nodes", "1000000") == (130, [], "")


def test_ctrl_c_shows_what_has_been_measured_until_then() -> None:
    code, out, errors = interrupted_at(
        BEGINS, "--only", "memory", "--quick", "--nodes", "1000000", "20"
    )
    figures = [figure.words for figure in FIGURES if figure.measure == "memory"]
    shown = [re.split("  +", line)[0] for line in out[1:]]
    assert shown == ["FIGURE", *figures, "aims: 0 met, 0 missed (rough: --quick)"]
    assert re.split("  +", out[1]) == ["FIGURE", "UNIT", "20 NODES", "AIM", "MET"]
    assert (code, errors) == (130, "interrupted: what was not measured yet is left out\n")


def test_what_an_interrupted_measure_still_does_is_not_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_wanted: object, _progress: object) -> Iterator[object]:
        yield REPORT.values[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", interrupted)
    assert main(["bench"]) == 130
    logger.warning("a repair on another thread")

    out, errors = capsys.readouterr()
    assert out.splitlines()[-1] == "aims: 0 met, 0 missed"
    assert errors == "interrupted: what was not measured yet is left out\n"


def test_ctrl_c_prints_no_document_that_a_program_would_take_for_the_whole() -> None:
    assert interrupted_at(
        BEGINS, "--only", "memory", "--quick", "--json", "--nodes", "1000000", "20"
    ) == (130, [], "")


def test_a_profile_is_a_table_of_its_own() -> None:
    lines = (
        ProfileLine("handle", "actors/driver.py:117", 3.0, 12.34, 150.1),
        ProfileLine("<method 'get' of 'dict' objects>", "", 21.0, 1.5, 1.5),
    )
    report = BenchReport(MACHINE, False, (), profile=lines)

    assert [re.split(r"  +", line) for line in shown(report).splitlines()[1:-1]] == [
        ["FUNCTION", "PLACE", "CALLS", "OWN", "WITH CALLED"],
        ["handle", "actors/driver.py:117", "3.00", "12.3 µs", "150 µs"],
        ["<method 'get' of 'dict' objects>", "21.0", "1.50 µs", "1.50 µs"],
    ]

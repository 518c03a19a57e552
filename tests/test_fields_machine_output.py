"""Field cases of what programs and people read from the command line: broken files (F26), and every
verb with `--json` (F28).

What each fault says to the character is in `goldens/` and `test_shape_file_faults_*`; here it is
that all of them are told at once, in one place and in both forms.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster_reconciler.actors.cli.bench_report import BenchReport
from cluster_reconciler.actors.cli.faults import Fault
from cluster_reconciler.actors.cli.replay_document import ReplayReport
from cluster_reconciler.actors.cli.reports import EventLine, PlanReport, UpReport, ValidateReport
from cluster_reconciler.actors.cli.shape_news import ShapeLine
from cluster_reconciler.actors.cli.trace_document import HeaderEntry, TraceSummary
from cluster_reconciler.actors.cli.trace_reading import Entry
from cluster_reconciler.actors.cli.usage import UsageFault

SOUND = """\
run_id = 7
generation = 3
[[groups]]
group_id = "w"
role = "r"
count = 1
provider = "process"
"""
WARNED = SOUND + '[groups.boot]\nenv = { API_KEY = "sk-live-4f9a8b7c6d5e4f3a2b1c" }\n'


def surroundings(folder: Path) -> dict[str, str]:
    """Colour is forced, and every warning is told."""
    return {
        **{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
        "FORCE_COLOR": "1",
        "CLICOLOR_FORCE": "1",
        "TERM": "xterm-256color",
        "PYTHONWARNINGS": "always",
        "XDG_STATE_HOME": str(folder / "state"),
    }


def said(file: str, arguments: list[str], folder: Path) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of the real command; there is no terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "cluster_reconciler.actors", file, *arguments],
        cwd=folder,
        env=surroundings(folder),
        capture_output=True,
        check=False,
        timeout=60,
    )
    errors = done.stderr.decode()
    assert "Traceback" not in errors
    return done.returncode, done.stdout.decode(), errors


def as_faults(text: str) -> list[str]:
    """The faults that `validate` tells, one a line, without their columns."""
    return [re.sub(r"^([^:]+:\d+):\d+:", r"\1:", line) for line in text.splitlines()]


# -- F26 ------------------------------------------------------------------------------------------

BROKEN = {
    "misspelt.toml": (
        SOUND.replace("count", "cuont"),
        'misspelt.toml:6: groups[0].cuont: expected a known key, found "cuont" (did you mean "co',
    ),
    "wrong_type.toml": (SOUND.replace("= 1\n", '= "one"\n'), "wrong_type.toml:6: groups[0].count:"),
    "negative.toml": (SOUND.replace("= 1\n", "= -1\n"), "negative.toml:6: groups[0].count:"),
    "provider.toml": (
        SOUND.replace('"process"', '"porcess"'),
        "provider.toml:7: groups[0].provider:",
    ),
    "twice.toml": (SOUND + 'role = "s"\n', "twice.toml:8: "),
    "nan.toml": (SOUND + "[groups.shape]\nmin_reliability = nan\n", "nan.toml:9: groups[0].shape"),
    "duration.toml": (
        SOUND + '[retry]\ninitial_delay = "soon"\n',
        "duration.toml:9: retry.initial",
    ),
    "duplicate_group.yaml": (
        "run_id: 7\ngroups:\n" + "- {group_id: w, role: r, count: 1, provider: process}\n" * 2,
        "duplicate_group.yaml:4: groups[1].group_id:",
    ),
    "duplicate_key.yaml": ("run_id: 7\nrun_id: 8\ngroups: []\n", "duplicate_key.yaml:2: run_id:"),
    "tab.yaml": ("run_id: 7\ngroups:\n\t- role: r\n", "tab.yaml:3: "),
    "empty.yaml": ("", "empty.yaml: "),
    "cut_off.json": ('{"run_id": 7, "groups": [', "cut_off.json:1: "),
    "duplicate_key.json": (
        '{"run_id": 7,\n"run_id": 8, "groups": []}',
        "duplicate_key.json:2: run",
    ),
    "list.json": ("[]", "list.json:1: "),
    "lower.toml": (SOUND.replace("= 3", "= 2"), "lower.toml:2: generation: "),
}


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    for name, (text, _line) in BROKEN.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "old.toml").write_text(SOUND)
    return tmp_path


def test_f26_every_broken_file_gets_its_lines_in_one_run_and_no_traceback(broken: Path) -> None:
    # given more than twelve broken files, when they are validated in one run
    code, out, errors = said("validate", [*BROKEN, "--against", "old.toml"], broken)

    # then each has a line with its file, line and path, and what was expected
    lines = as_faults(out)
    beginnings = {name: line for name, (_, line) in BROKEN.items()}
    found = {
        name: next((line for line in lines if line.startswith(wanted)), f"no line in: {out}")
        for name, wanted in beginnings.items()
    }
    assert len(BROKEN) >= 12
    assert {name: line[: len(beginnings[name])] for name, line in found.items()} == beginnings
    assert [
        line for line in found.values() if not re.search(r": expected .+, found .+", line)
    ] == []
    assert (code, errors) == (2, "")


def test_f26_the_document_says_the_same_as_the_text(broken: Path) -> None:
    arguments = [*BROKEN, "--against", "old.toml"]
    _, text, _ = said("validate", arguments, broken)

    code, out, errors = said("validate", [*arguments, "--json"], broken)

    report = msgspec.json.decode(out, type=ValidateReport)
    assert (code, report.exit_code, report.valid, errors) == (2, 2, False, "")
    assert [file.file for file in report.files] == list(BROKEN)
    faults = [fault for file in report.files for fault in (*file.faults, *file.warnings)]
    assert [str(fault) for fault in faults] == text.splitlines()
    nearest = [fault.nearest for fault in faults if isinstance(fault, Fault) and fault.nearest]
    assert nearest == ["count", "process"]


def test_f26_all_problems_of_one_file_are_told_in_one_run(tmp_path: Path) -> None:
    # given one file with a fault on each of its lines but the header of its group
    (tmp_path / "all.toml").write_text(
        'run_id = -7\n[[groups]]\ngroup_id = "a/b"\nrole = 3\ncuont = 1\nprovider = "porcess"\n'
    )
    _, out, _ = said("validate", ["all.toml"], tmp_path)
    told = [int(line.split(":")[1]) for line in as_faults(out)]
    assert sorted(set(told)) == [1, 3, 4, 5, 6]


# -- F28 ------------------------------------------------------------------------------------------

TraceLine = HeaderEntry | Entry

VERBS = [
    pytest.param("validate", ["sound.toml", "warned.toml"], ValidateReport, 0, id="validate"),
    pytest.param("validate", ["broken.toml"], ValidateReport, 2, id="validate_faults"),
    pytest.param("validate", ["nowhere.toml"], ValidateReport, 2, id="validate_no_file"),
    pytest.param("plan", ["warned.toml"], PlanReport, 0, id="plan"),
    pytest.param("plan", ["sound.toml", "--from", "sound.toml"], PlanReport, 0, id="plan_same"),
    pytest.param("plan", ["warned.toml", "--exit-code"], PlanReport, 3, id="plan_changes"),
    pytest.param("plan", ["broken.toml"], PlanReport, 2, id="plan_faults"),
    pytest.param("up", ["warned.toml", "--once", "-v"], UpReport, 0, id="up_once"),
    pytest.param("up", ["broken.toml", "--once"], UpReport, 2, id="up_faults"),
    pytest.param("up", ["broken.toml"], UpReport, 2, id="up_stream_faults"),
    pytest.param("up", ["slow.toml", "--once", "--timeout", "0"], UpReport, 4, id="up_not_in_time"),
    pytest.param("up", ["slow.toml", "--timeout", "0"], EventLine | UpReport, 4, id="up_stream"),
    pytest.param("trace", ["run.jsonl"], TraceLine, 0, id="trace"),
    pytest.param("trace", ["run.jsonl", "--node", "w-0"], TraceLine, 0, id="trace_node"),
    pytest.param("trace", ["run.jsonl", "--node", "no-9"], TraceLine, 0, id="trace_no_match"),
    pytest.param("trace", ["run.jsonl", "--summary"], TraceSummary, 0, id="trace_summary"),
    pytest.param("trace", ["nowhere", "--summary"], TraceSummary, 2, id="trace_no_file"),
    pytest.param("trace", ["nowhere"], TraceLine | TraceSummary, 2, id="trace_stream_no_file"),
    pytest.param("replay", ["run.jsonl"], ReplayReport, 0, id="replay"),
    pytest.param(
        "replay", ["run.jsonl", "--state", "--until", "9"], ReplayReport, 0, id="replay_9"
    ),
    pytest.param("replay", ["run.jsonl", "--node", "w-0"], ReplayReport, 0, id="replay_node"),
    pytest.param("replay", ["altered.jsonl"], ReplayReport, 1, id="replay_differs"),
    pytest.param("replay", ["nowhere"], ReplayReport, 2, id="replay_no_file"),
    pytest.param("bench", ["--nodes", "20", "--quick"], BenchReport, 0, id="bench"),
    pytest.param("up", ["sound.toml", "--once", "--watch"], UpReport, 2, id="up_watch_once"),
    *(
        pytest.param(verb, [*rest], UsageFault, 2, id=f"usage: {' '.join([verb, *rest])}")
        for verb, *rest in (
            ["validate"],
            ["plan"],
            ["trace"],
            ["replay"],
            ["up"],
            ["pln", "sound.toml"],
            ["plan", "sound.toml", "--form", "sound.toml"],
            ["trace", "run.jsonl", "--attempt", "x"],
            ["up", "sound.toml", "--timeout", "soon"],
            ["replay", "run.jsonl", "--until", "soon"],
            ["bench", "--nodes", "many"],
        )
    ),
]
STREAMS = ("up_stream", "trace", "trace_node", "trace_no_match")
"""One document a line; the others are one document."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shapes of every kind, and the trace of a run."""
    folder = tmp_path_factory.mktemp("machine-output")
    (folder / "sound.toml").write_text(SOUND)
    (folder / "warned.toml").write_text(WARNED)
    (folder / "broken.toml").write_text(SOUND.replace("count", "cuont"))
    (folder / "slow.toml").write_text(SOUND + '[groups.boot]\nverify_commands = ["sleep 5"]\n')
    code, _, errors = said("up", ["sound.toml", "--once", "--trace", "run.jsonl"], folder)
    assert code == 0, errors
    text = (folder / "run.jsonl").read_text()
    (folder / "altered.jsonl").write_text(text.replace('"lease_id":"', '"lease_id":"other-', 1))
    return folder


@pytest.mark.parametrize(("verb", "arguments", "kind", "code"), VERBS)
def test_f28_stdout_is_documents_of_the_documented_shape_and_nothing_else(
    here: Path,
    request: pytest.FixtureRequest,
    verb: str,
    arguments: list[str],
    kind: object,
    code: int,
) -> None:
    # given warnings, and colour that is forced; when the verb is asked for JSON
    ended, out, errors = said(verb, [*arguments, "--json"], here)

    # then stdout is one document, or one a line, and ends with a line's end
    assert ended == code, errors
    assert out.endswith("\n")
    assert "\x1b" not in out
    documents = out.splitlines()
    if request.node.callspec.id not in STREAMS:
        assert len(documents) == 1

    assert_documented(documents, kind)

    # and the exit code agrees with the last one
    last = json.loads(documents[-1])
    if "exit_code" in last:
        assert last["exit_code"] == ended
    else:
        assert (verb, ended) == ("trace", 0)
    # what is no data is told to the person, wrong usage too
    if kind is UsageFault:
        assert errors == f"{msgspec.json.decode(documents[0], type=UsageFault)}\n"
    if "warned.toml" in arguments and verb in ("up", "plan"):
        assert ("API_KEY" in errors) or last["warnings"]


def assert_documented(lines: list[str], kind: object) -> None:
    """Each is of the documented shape: decoding and encoding it again loses nothing."""
    again = [msgspec.json.encode(msgspec.json.decode(text, type=kind)) for text in lines]
    assert [json.loads(text) for text in again] == [json.loads(text) for text in lines]


class Running:
    """A verb that goes on until it is told to end; its stdout is read as it comes."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.out, self.errors = folder / "out.jsonl", folder / "errors.txt"
        with self.out.open("wb") as out, self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cluster_reconciler.actors", *words],
                cwd=folder,
                env=surroundings(folder),
                stdout=out,
                stderr=errors,
            )

    def lines(self) -> list[str]:
        """The whole lines up to now."""
        return [
            line.removesuffix("\n")
            for line in self.out.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]

    def wait_for(self, come: Callable[[dict[str, Any]], bool]) -> None:
        """Until such a document has come; fails when it does not within a minute."""
        deadline = time.monotonic() + 60
        while not any(come(json.loads(line)) for line in self.lines()):
            assert self._process.poll() is None, self.errors.read_text()
            assert time.monotonic() < deadline, self.errors.read_text()
            time.sleep(0.02)

    def end(self) -> int:
        """Ctrl-C; the exit code."""
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(60)
        finally:
            self._process.kill()


def test_f28_up_that_watches_prints_a_documented_line_for_each_edit(tmp_path: Path) -> None:
    # given `up --watch` of a shape with a warning
    shape = tmp_path / "shape.toml"
    shape.write_text(WARNED)
    running = Running(tmp_path, "up", "shape.toml", "--watch", "--json", "-v")
    try:
        running.wait_for(lambda line: line.get("event", {}).get("kind") == "converged")

        # when the file is edited wrongly, refused, and edited rightly
        shape.write_text(WARNED.replace("count", "cuont"))
        running.wait_for(lambda line: line["type"] == "shape" and bool(line["faults"]))
        shape.write_text(WARNED.replace("= 7", "= 8"))
        running.wait_for(lambda line: line["type"] == "shape" and line["reason"] is not None)
        shape.write_text(WARNED.replace("= 3", "= 4").replace("count = 1", "count = 2"))
        running.wait_for(lambda line: line["type"] == "shape" and line["accepted"])
    finally:
        code = running.end()

    # then stdout is documented lines alone, and the last one agrees with the exit code
    lines = running.lines()
    assert_documented(lines, EventLine | ShapeLine | UpReport)
    told = [json.loads(line) for line in lines]
    shapes = [
        (line["accepted"], line["generation"], len(line["faults"]), line["reason"] is None)
        for line in told
        if line["type"] == "shape"
    ]
    assert shapes == [(False, 3, 1, True), (False, 3, 0, False), (True, 4, 0, True)]
    assert (code, told[-1]["type"], told[-1]["exit_code"]) == (130, "report", 130)
    assert "\x1b" not in running.out.read_text()
    assert "Traceback" not in running.errors.read_text()


def test_f28_a_trace_that_is_followed_prints_documented_lines_until_ctrl_c(
    here: Path, tmp_path: Path
) -> None:
    # given a trace of which only the first half is there, followed as it grows
    text = (here / "run.jsonl").read_text()
    half = text.index("\n", len(text) // 2) + 1
    log = tmp_path / "run.jsonl"
    log.write_text(text[:half])
    running = Running(tmp_path, "trace", "run.jsonl", "--follow", "--json")
    try:
        running.wait_for(lambda line: line["type"] == "header")
        with log.open("a") as opened:
            opened.write(text[half:])
        _, whole, _ = said("trace", ["run.jsonl", "--json"], tmp_path)
        last = json.loads(whole.splitlines()[-1])
        running.wait_for(lambda line: line == last)
    finally:
        code = running.end()

    # then it is the documented lines that a whole one has, and ends well
    assert (code, running.lines()) == (0, whole.splitlines())
    assert_documented(running.lines(), TraceLine)
    assert "Traceback" not in running.errors.read_text()


def test_f28_every_verb_is_among_those_that_are_checked() -> None:
    helped = subprocess.run(
        [sys.executable, "-m", "cluster_reconciler.actors", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    verbs = set(re.findall(r"^ {4}(\w+) {2,}", helped.stdout, re.MULTILINE))
    checked = {str(param.values[0]) for param in VERBS if param.values[2] is not UsageFault}
    assert verbs == checked

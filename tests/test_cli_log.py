"""The log of `up`: a --log that takes no more ends with one line, and harms neither the run nor its
exit code; a traceback stands in the file, and on stderr only with -vv."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from loguru import logger

from cluster_reconciler.actors.cli.log import configure_log, restore_log
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.reports import UpReport
from cluster_reconciler.actors.trace_log import traceback_text

FULL = Path("/dev/full")
SHAPE = """\
run_id = 7
[[groups]]
group_id = "w"
role = "worker"
count = 1
provider = "process"
[groups.boot]
start_swactor_command = "exec sleep 1000"
[groups.shape]
options = { join_after = "50ms" }
"""
BOUND = 300
"""Bytes that a file may have."""

needs_full = pytest.mark.skipif(not FULL.exists(), reason="no device here that is always full")


@pytest.fixture(autouse=True)
def _after() -> Iterator[None]:
    yield
    restore_log()


class TestALogThatTakesNoMore:
    @needs_full
    def test_is_told_of_once_also_when_it_is_closed(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        configure_log(Output(colour=False), verbose=0, quiet=True, file=str(FULL))

        for number in range(3):
            logger.info("line {}", number)
        restore_log()

        assert capsys.readouterr().err == (
            "--log /dev/full ends here, it cannot be written: No space left on device\n"
        )

    @needs_full
    def test_harms_no_run(self, tmp_path: Path) -> None:
        done = up(tmp_path, "--log", str(FULL))
        report = msgspec.json.decode(done.stdout, type=UpReport)
        told = [line for line in done.stderr.splitlines() if "--log" in line]
        assert (done.returncode, report.exit_code, report.drained, told) == (
            0,
            0,
            True,
            ["--log /dev/full ends here, it cannot be written: No space left on device"],
        )
        assert "Traceback" not in done.stderr
        assert "internal error" not in done.stderr

    def test_holds_all_that_fitted(self, tmp_path: Path) -> None:
        # Given a bound that a few lines reach
        bound = resource.getrlimit(resource.RLIMIT_FSIZE)
        log = tmp_path / "log"
        program = (
            "import resource, sys; from loguru import logger\n"
            "from cluster_reconciler.actors.cli.log import configure_log, restore_log\n"
            "from cluster_reconciler.actors.cli.output import Output\n"
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({BOUND}, {bound[1]}))\n"
            "configure_log(Output(colour=False), verbose=0, quiet=True, file=sys.argv[1])\n"
            "for number in range(50): logger.info('line {}', number)\n"
            "restore_log()\n"
        )

        # When more is written
        done = subprocess.run(
            [sys.executable, "-c", program, str(log)], capture_output=True, text=True, check=False
        )

        # Then the file is full, and one line says so
        assert (done.returncode, log.stat().st_size, done.stderr) == (
            0,
            BOUND,
            f"--log {log} ends here, it cannot be written: File too large\n",
        )


class TestATraceback:
    @pytest.mark.parametrize("verbose", [0, 1, 2])
    def test_is_one_line_on_stderr_and_whole_in_the_file(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], verbose: int
    ) -> None:
        # Given
        log = tmp_path / "log"
        configure_log(Output(colour=False), verbose=verbose, quiet=False, file=str(log))

        # When
        logger.critical("actor executor-w-0-1 dies: SystemExit(3)\n{}", traceback_text(raised()))
        logger.error("actor x: on_stop failed\n{}", traceback_text(caused()))
        logger.error("swarm: {}", traceback_text(caused()))
        restore_log()

        # Then
        told = [line[9:] for line in capsys.readouterr().err.splitlines()]
        if verbose < 2:
            assert told == [
                "CRITICAL actor executor-w-0-1 dies: SystemExit(3)",
                "ERROR    actor x: on_stop failed: ValueError: two",
                "ERROR    swarm: ValueError: two",
            ]
        else:
            assert len(told) > 20
        assert log.read_text().count("Traceback (most recent call last):") == 5

    def test_that_comes_again_and_again_is_told_ever_more_rarely(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        configure_log(Output(colour=False), verbose=0, quiet=False, file=None)

        for _ in range(5):
            logger.critical("actor x dies: SystemExit(3)\n{}", traceback_text(raised()))

        assert [line[9:] for line in capsys.readouterr().err.splitlines()] == [
            "CRITICAL actor x dies: SystemExit(3)",
            "CRITICAL actor x dies: SystemExit(3) (occurrence 2)",
            "CRITICAL actor x dies: SystemExit(3) (occurrence 4)",
        ]


def raised() -> BaseException:
    try:
        raise SystemExit(3)
    except SystemExit as error:
        return error


def caused() -> BaseException:
    try:
        try:
            raise KeyError("one")
        except KeyError as cause:
            raise ValueError("two\nlines") from cause
    except ValueError as error:
        return error


def up(folder: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    (folder / "shape.toml").write_text(SHAPE)
    command = [sys.executable, "-m", "cluster_reconciler.actors", "up", "shape.toml", "--once"]
    return subprocess.run(
        [*command, "--json", *flags],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

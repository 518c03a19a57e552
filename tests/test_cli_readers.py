"""`up` and whoever reads its stdout: one that stalls, one that is slow, one that goes away."""

import signal

from tests.cli_kit import Run, report_of, run

__all__ = ["run"]


def test_a_reader_that_stalls_holds_up_no_drain_and_no_end(run: Run) -> None:
    # given a full pipe, in which the next write is stuck
    up = run(floods=True, reader_s=1)
    up.wait_for("converged")
    up.send(signal.SIGINT)
    assert up.process.wait(timeout=30) == 130
    errors = up.errors.read_text()
    assert "drained: nothing is left" in errors
    assert "Fatal" not in errors


def test_a_reader_that_stalls_for_good_loses_the_report_and_nothing_else(run: Run) -> None:
    # given a full pipe that the report has to go through
    up = run("--json", floods=True, reader_s=0.3)
    up.wait_for("converged")
    # when it is to end
    up.send(signal.SIGINT)
    # then one signal is enough
    assert up.process.wait(timeout=30) == 130
    errors = up.errors.read_text()
    assert "drained: nothing is left" in errors
    assert "stdout's reader has not read: the report is lost" in errors


def test_a_reader_that_is_slow_is_waited_for(run: Run) -> None:
    up = run("--json", floods=True, reader_s=2)
    up.wait_for("converged")
    up.send(signal.SIGINT)
    up.wait_for("stdout's reader does not read; it is waited for")
    code, out, _ = up.end()
    assert code == 130
    assert report_of(out).drained


def test_a_closed_pipe_drains(run: Run) -> None:
    up = run(chatters=True)
    assert up.process.stdout is not None
    up.process.stdout.readline()
    up.process.stdout.close()
    assert up.process.wait(timeout=30) == 141
    errors = up.errors.read_text()
    assert "stdout takes no more data: Broken pipe" in errors
    assert "drained: nothing is left" in errors
    assert "Traceback" not in errors


def test_a_reader_that_goes_while_nothing_happens_is_noticed(run: Run) -> None:
    # given a cluster at rest, of which nothing more is to be told
    up = run(tell_every_s=0.5)
    up.wait_for("converged: ")
    # when the reader goes
    assert up.process.stdout is not None
    up.process.stdout.close()
    # then it drains, without waiting for something to tell
    assert up.process.wait(timeout=30) == 141
    assert "drained: nothing is left" in up.errors.read_text()


def test_a_document_that_nobody_reads_is_not_success(run: Run) -> None:
    up = run("--once", "--json")
    assert up.process.stdout is not None
    up.process.stdout.close()
    assert up.process.wait(timeout=30) == 141
    assert "closed" in up.errors.read_text()

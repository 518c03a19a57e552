"""A log of a real run, of processes and threads on this machine, replays equal at every message."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from loguru import logger

from cluster_reconciler.actors import Cluster, RetryPolicy
from cluster_reconciler.actors.replay import Replay
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.trace import TraceHeader, TraceLine, read_trace
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import Drain, RunPass, UpdateDesired
from tests.cli_watch_kit import json_lines, until
from tests.replay_kit import proved, replay, report
from tests.test_cli_up_processes import Up
from tests.test_cli_watch_processes import ready

SHAPE = """\
run_id = 41
[[groups]]
group_id = "w"
role = "w"
count = 3
provider = "process"
[groups.boot]
verify_commands = ["test -w ."]
start_swactor_command = "sleep 1000"
env = { PASSWORD = "a-literal-secret" }
[retry]
initial_delay = "50ms"
stable_after = "1s"
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three nodes; one is killed, the command is edited, one is added, and all are drained."""
    folder = tmp_path_factory.mktemp("real")
    file, path = folder / "shape.toml", folder / "run.jsonl"
    file.write_text(SHAPE)
    up = Up(file, folder, "--watch", "--json", "--trace", str(path))
    try:
        up.wait_for_errors("converged: 3 of 3 nodes are ready")
        kill_a_node(up)
        until(lambda: len(ready(whole_lines(up))) == 4, up.errors)
        file.write_text(SHAPE.replace("1000", "1001").replace("count = 3", "count = 4"))
        up.wait_for_errors("converged: 4 of 4 nodes are ready")
        up.process.send_signal(signal.SIGINT)
        assert up.wait() == 130
        up.await_nothing_left()
        yield path
    finally:
        end(up)


def end(up: Up) -> None:
    """Nothing that it started stays."""
    deadline = time.monotonic() + 30
    while pids := up.processes():
        assert time.monotonic() < deadline, pids
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    up.process.wait()


def whole_lines(up: Up) -> list[dict[str, Any]]:
    """What it has printed so far."""
    return json_lines(up.out.rpartition("\n")[0])


def kill_a_node(up: Up) -> None:
    """The command of one node ends by SIGKILL."""
    words = b"sleep\x001000\x00"
    pids = []
    for pid in up.processes():
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes() == words:
                pids.append(pid)
        except OSError:
            continue
    os.kill(min(pids), signal.SIGKILL)


def test_a_real_run_replays_equal_at_every_message(log: Path) -> None:
    replayed = proved(log)
    lines = [line for line in read_trace(log) if isinstance(line, TraceLine)]
    passes = [line for line in lines if isinstance(line.message, RunPass)]
    kinds = {type(line.message) for line in lines}
    assert kinds >= {UpdateDesired, Drain, RunPass}
    assert (replayed.checked, replayed.plans_compared) == (len(lines) + 1, len(passes))
    assert replayed.state.nodes == {}
    assert all(line.digest for line in lines)


def test_the_verb_says_so_and_how_much_it_compared(log: Path) -> None:
    found = report(log)
    lines = [line for line in read_trace(log) if isinstance(line, TraceLine)]
    assert (found.exit_code, found.equal, found.difference, found.altered_line) == (
        0, True, None, None,
    )  # fmt: skip
    assert (found.messages, found.compared) == (len(lines), len(lines))
    assert found.passes == found.plans_compared > 10
    # Four nodes, of which three began anew twice, one more: each creates, starts, ends.
    assert found.effects == found.effects_compared >= 3 * 8
    assert (found.nodes, found.defects, found.run_id) == (0, 0, 41)


def test_people_read_it(log: Path) -> None:
    said = replay(log)
    assert (said.code, said.err) == (0, "")
    assert "EQUAL: every message led to the same: " in said.out


def test_nothing_of_it_shows_a_literal_secret(log: Path) -> None:
    assert "a-literal-secret" in log.read_text()
    lines = [line for line in read_trace(log) if isinstance(line, TraceLine)]
    middle = lines[len(lines) // 2].sequence
    for words in ([], ["--json"], ["--node", "w-0"], ["--node", "w-0", "--json"]):
        said = replay(log, "--state", "--until", middle, *words)
        assert said.code == 0
        assert "a-literal-secret" not in said.out + said.err


def test_a_run_that_is_killed_leaves_a_log_that_replays_to_where_it_breaks_off(
    tmp_path: Path,
) -> None:
    # Given a run that is killed while it works
    file, path = tmp_path / "shape.toml", tmp_path / "run.jsonl"
    file.write_text(SHAPE)
    up = Up(file, tmp_path, "--trace", str(path))
    try:
        up.wait_for_errors("converged: 3 of 3 nodes are ready")
        up.process.kill()
        up.process.wait()
    finally:
        end(up)

    # Then all that was handled is there
    found = report(path, "--state")
    assert (found.exit_code, found.equal, found.ready) == (0, True, 3)
    assert found.state is not None
    assert [(node.node, node.stage) for node in found.state.nodes] == [
        ("w-0", "dormant"), ("w-1", "dormant"), ("w-2", "dormant"),
    ]  # fmt: skip


def test_a_run_of_a_host_program_that_checks_invariants_replays_equal(tmp_path: Path) -> None:
    # Given a cluster on threads, checked at every step, whose provider is in trouble
    logger.disable("cluster_reconciler")
    path = tmp_path / "trace.jsonl"
    provider = MemoryProvider()
    provider.script.create("g-1").refuse("sold out", times=3)
    provider.script.create("g-2").lose_reply(times=1)
    provider.script.start("g-3").fail_later(times=2)
    quick = RetryPolicy(initial_delay=timedelta(milliseconds=5), seed=3)
    desired = shape(group(count=4))
    with Cluster.start(
        desired, providers=[provider], retry=quick, trace=path, debug_invariants=True
    ) as cluster:
        cluster.wait_converged(timeout=30)
        cluster.update_retry(RetryPolicy(initial_delay=timedelta(milliseconds=2)))
        cluster.update_desired(shape(group(count=5), generation=2))
        cluster.wait_converged(timeout=30)
    logger.enable("cluster_reconciler")

    # Then it is equal, and the replay checks them as well
    header = next(iter(read_trace(path)))
    assert isinstance(header, TraceHeader)
    assert header.check_invariants
    assert proved(path).state.nodes == {}


def test_the_checks_of_this_file_see_a_driver_that_waits_otherwise(log: Path) -> None:
    # Given this log, and a driver that waits a second less for a node to join
    header, *lines = read_trace(log)
    assert isinstance(header, TraceHeader)
    hasty = msgspec.structs.replace(
        header, policy=msgspec.structs.replace(header.policy, join_timeout=timedelta(seconds=599))
    )

    # When it is replayed
    replayed = Replay(hasty)
    for line in lines:
        assert isinstance(line, TraceLine)
        replayed.feed(line)

    # Then the first moment that differs is named
    assert replayed.difference is not None
    assert replayed.difference.field == "progress.deadline"

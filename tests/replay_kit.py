"""Traces of stepped worlds, written as a real run's are, and `replay` run as a user would.

Nothing is compared here: the replay does that.
"""

import contextlib
import io
import os
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from cluster_reconciler.actors.cli.main import main
from cluster_reconciler.actors.cli.replay_document import ReplayReport
from cluster_reconciler.actors.replay import Replay
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.actors.trace import (
    ExecutorCall,
    TraceHeader,
    TraceLine,
    TraceWriter,
    read_trace,
)
from cluster_reconciler.actors.trace_chain import Chain
from cluster_reconciler.actors.trace_recording import TraceRecording
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import ExecutorResult, NodeAttemptId, OperationId, PlannedEffect
from tests.trace_kit import Said


def fresh_seed(file: str, test: str) -> int:
    """A seed that chance draws, or the one that `REPLAY_SEED` names; how to draw it again is
    printed."""
    seed = int(os.environ.get("REPLAY_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"REPLAY_SEED={seed} .venv/bin/pytest tests/{Path(file).name} -k {test}")
    return seed


def replay(*arguments: object) -> Said:
    """`replay` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["replay", *map(str, arguments)])
    return Said(code, out.getvalue(), err.getvalue())


def report(*arguments: object) -> ReplayReport:
    """What `replay --json` says."""
    said = replay(*arguments, "--json")
    found = msgspec.json.decode(said.out, type=ReplayReport)
    assert found.exit_code == said.code
    return found


def command(folder: Path, *words: object) -> Said:
    """A verb in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "cluster_reconciler.actors", *map(str, words)],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def proved(path: Path) -> Replay:
    """The log, replayed in full: every state, plan and effect was compared, and none differs."""
    header, *lines = read_trace(path)
    assert isinstance(header, TraceHeader)
    replayed = Replay(header)
    effects = 0
    for line in lines:
        assert isinstance(line, TraceLine), line
        effects += len(replayed.feed(line).effects)
        assert replayed.difference is None, str(replayed.difference)
    assert replayed.compared == len(lines)
    assert replayed.effects_compared == effects
    return replayed


def sealed(lines: list[bytes]) -> bytes:
    """The lines with checksums that fit: as if a program had written just these."""
    chain = Chain()
    return b"".join(
        chain.closed(msgspec.json.encode({k: v for k, v in fields.items() if k != "chain"}))
        for fields in map(msgspec.json.decode, lines)
    )


class _Recorded:
    """Stands between a stepped driver and its executors, as the host of production does."""

    def __init__(self, executor: object, recording: TraceRecording) -> None:
        self._executor = executor
        self._recording = recording

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        try:
            answer: ExecutorResult | None = self._executor.submit(effect)  # type: ignore[attr-defined]
        except Exception as error:
            self._recording.submitted(effect, error=error)
            raise
        self._recording.submitted(effect, answer)
        return answer

    def withdraw(self, operation: OperationId) -> bool:
        return self._asked(ExecutorCall.WITHDRAW, operation)

    def expire(self, operation: OperationId) -> bool:
        return self._asked(ExecutorCall.EXPIRE, operation)

    def _asked(self, call: ExecutorCall, operation: OperationId) -> bool:
        ask: Callable[[OperationId], bool] = getattr(self._executor, call)
        try:
            withdrawn = ask(operation)
        except Exception as error:
            self._recording.asked(call, operation, error=error)
            raise
        self._recording.asked(call, operation, withdrawn=withdrawn)
        return withdrawn

    def retire(self, attempt: NodeAttemptId) -> None:
        self._executor.retire(attempt)  # type: ignore[attr-defined]


def trace_world(world: SteppingWorld, path: Path, policy: RetryPolicy) -> TraceWriter:
    """From now on, before its first message, all that the world's driver handles is traced."""
    cluster = world.cluster
    driver, actor, around = cluster._driver, cluster._actor, cluster._world
    writer = TraceWriter(
        path,
        shape=cluster.desired,
        policy=policy,
        started_at=cluster.now,
        first_attempt=driver.state.next_attempt_id,
        check_invariants=True,
    )
    recording = TraceRecording(writer)
    around.executor = _Recorded(around.executor, recording)
    set_timer, handled = around.wake_at, actor._handled

    def wake_at(moment: datetime | None) -> None:
        recording.woken_at(moment)
        set_timer(moment)

    def after(message: object) -> None:
        if handled is not None:
            handled(message)
        assert actor.record is not None
        recording.handled(actor.record, message, driver, actor.raised)

    around.wake_at = wake_at  # type: ignore[method-assign]
    actor._handled = after
    return writer

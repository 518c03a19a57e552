"""Traces of stepped worlds, written as a real run's are, and `replay` run as a user would.

Nothing is compared here: the replay does that.
"""

import contextlib
import io
import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec

from cluster_reconciler.actors.cli.main import main
from cluster_reconciler.actors.cli.replay_document import ReplayReport
from cluster_reconciler.actors.replay import Replay
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.actors.trace import (
    TraceHeader,
    TraceLine,
    TraceWriter,
    read_trace,
)
from cluster_reconciler.actors.trace_chain import Chain
from cluster_reconciler.decider import RetryPolicy
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


def trace_world(world: SteppingWorld, path: Path, policy: RetryPolicy) -> TraceWriter:
    """From now on, before its first message, all that the world's driver handles is traced."""
    cluster = world.cluster
    writer = TraceWriter(
        path,
        shape=cluster.desired,
        policy=policy,
        started_at=cluster.now,
        first_attempt=cluster.state.next_attempt_id,
        check_invariants=True,
    )
    cluster.record(writer)
    return writer

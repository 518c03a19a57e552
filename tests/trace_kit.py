"""Traces for tests: the production driver, host and writer, pumped by hand on a clock that is
stepped, so that every time in the file is known; and `trace` run as a user would.

Effects go nowhere: the test answers them.
"""

import contextlib
import io
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from cluster_reconciler.actors.bench.replies import outcome_of, session_of
from cluster_reconciler.actors.cli.main import main
from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.driver_actor import DriverActor
from cluster_reconciler.actors.driver_host import RuntimeHost
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.subscriptions import Subscriptions
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.actors.timers import ManualTimers
from cluster_reconciler.actors.trace import TraceWriter
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors import Executors
from cluster_reconciler.messages import (
    AttemptIdentity,
    ClusterShape,
    Disposition,
    EffectError,
    ExecutorResult,
    NodeLost,
    NodeObserved,
    OperationId,
    PlannedEffect,
    SafetyTick,
    StartBootstrap,
    SwactorId,
    SwactorJoined,
    UpdateDesired,
)

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
POLICY = RetryPolicy(jitter=0.0, seed=11)


class Said(Struct, frozen=True):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


def trace(*arguments: object) -> Said:
    """`trace` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["trace", *map(str, arguments)])
    return Said(code, out.getvalue(), err.getvalue())


class Effects:
    """Stands for the executors: takes every effect, until it is told to refuse them."""

    def __init__(self) -> None:
        self.taken: list[PlannedEffect] = []
        self.refuses: str | None = None
        self.withdraws = False

    def submit(self, effect: PlannedEffect) -> None:
        if self.refuses is not None:
            raise RuntimeError(self.refuses)
        self.taken.append(effect)

    def withdraw(self, operation: OperationId) -> bool:
        return self.withdraws

    def expire(self, operation: OperationId) -> bool:
        return self.withdraws

    def retire(self, attempt: int) -> None:
        """Nothing is kept."""


class Recording:
    """One traced run of group `g`."""

    def __init__(
        self,
        path: Path,
        desired: ClusterShape | None = None,
        policy: RetryPolicy = POLICY,
        start: datetime = START,
    ) -> None:
        desired = desired if desired is not None else shape(group(count=2))
        self.path = path
        self.clock = ManualClock(start)
        self.timers = ManualTimers(self.clock)
        self.effects = Effects()
        self.ended: list[AttemptIdentity] = []
        self.writer = TraceWriter(path, shape=desired, policy=policy, started_at=start)
        self.host = RuntimeHost(
            self.clock, self.timers, Subscriptions(), self.ended.append, policy.stable_after
        )
        self.driver = Driver(desired, policy, self.host, self.host)
        system = ActorSystem("recording", self.clock)
        self.actor = DriverActor(system, self.driver, self.host.handled)
        executors = cast(Executors, self.effects)
        self.host.connect(self.actor, self.driver, executors, self.writer)

    def tell(self, *messages: object) -> list[PlannedEffect]:
        """Into the mailbox, and handle all that follows; the effects that were dispatched."""
        for message in messages:
            self.actor.tell(message)
        while self.actor.pump_one():
            pass
        taken, self.effects.taken = self.effects.taken, []
        return taken

    def wait(self, seconds: float) -> list[PlannedEffect]:
        """Time passes, and what is due then happens, each at its moment."""
        end = self.clock.now() + timedelta(seconds=seconds)
        taken: list[PlannedEffect] = []
        while (due := self.timers.next_due()) is not None and due <= end:
            self.clock.set(max(due, self.clock.now()))
            self.timers.fire_due()
            taken += self.tell()
        self.clock.set(end)
        return taken

    def begin(self) -> list[PlannedEffect]:
        return self.tell(SafetyTick())

    def answer(self, effect: PlannedEffect) -> list[PlannedEffect]:
        return self.tell(ExecutorResult(effect.node, effect.operation, outcome_of(effect)))

    def fail(
        self, effect: PlannedEffect, reason: str, how: Disposition = Disposition.DEFINITE
    ) -> list[PlannedEffect]:
        error = EffectError(reason, how)
        return self.tell(ExecutorResult(effect.node, effect.operation, error=error))

    def join(self, start: PlannedEffect) -> list[PlannedEffect]:
        joined = SwactorJoined(session_of(start), SwactorId(f"swactor-{start.node}"))
        return self.tell(NodeObserved(start.node, start.operation.attempt, joined))

    def lose(self, effect: PlannedEffect, reason: str) -> list[PlannedEffect]:
        return self.tell(NodeObserved(effect.node, effect.operation.attempt, NodeLost(reason)))

    def settle(self, effects: Sequence[PlannedEffect]) -> None:
        """Let everything succeed until nothing more is dispatched."""
        waiting = list(effects)
        while waiting:
            effect = waiting.pop(0)
            waiting += self.answer(effect)
            if isinstance(effect.command, StartBootstrap):
                waiting += self.join(effect)

    def close(self) -> Path:
        self.writer.close()
        return self.path


def damage_header(path: Path) -> None:
    """Let its shape name another run than its groups do, as no writer does."""
    header, rest = path.read_bytes().split(b"\n", 1)
    fields = msgspec.json.decode(header)
    fields["shape"]["run_id"] = 9
    path.write_bytes(msgspec.json.encode(fields) + b"\n" + rest)


def random_life(path: Path, seed: int, moves: int = 120, nodes: int = 6) -> Path:
    """A run among faults, all drawn from the seed."""
    dice = random.Random(seed)
    policy = RetryPolicy(jitter=0.5, seed=seed + 1)
    run = Recording(path, shape(group(count=nodes)), policy)
    waiting = run.begin()
    generation, known = 1, list(waiting)
    for _ in range(moves):
        move = dice.random()
        run.effects.withdraws = dice.random() < 0.3
        run.effects.refuses = "the queue is full" if dice.random() < 0.05 else None
        if waiting and move < 0.6:
            effect = waiting.pop(dice.randrange(len(waiting)))
            known = [*known[-20:], effect]
            if dice.random() < 0.7:
                waiting += run.answer(effect)
                if isinstance(effect.command, StartBootstrap) and dice.random() < 0.8:
                    waiting += run.join(effect)
            else:
                waiting += run.fail(effect, f"fault {seed}", dice.choice(list(Disposition)))
        elif move < 0.7:
            waiting += run.lose(dice.choice(known), "its power failed")
        elif move < 0.75:
            waiting += run.answer(dice.choice(known))
        elif move < 0.8:
            generation += 1
            desired = shape(group(count=dice.randint(0, nodes)), generation=generation)
            waiting += run.tell(UpdateDesired(desired))
        else:
            waiting += run.wait(dice.choice((0.3, 1, 5, 70, 130)))
    return run.close()

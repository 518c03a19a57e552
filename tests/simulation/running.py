"""Runs one life in one mode, and says what came of it.

*Safety*: all faults stay on; whatever the oracle says at each rest must hold to the end.
*Liveness*: after the moves the faults stop; then the strongest true claim must come true within a
computed bound (`bound`), and nothing more may happen for a day.
"""

import re
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from enum import StrEnum, auto

from msgspec import Struct

from cluster_reconciler.actors.trace_recording import TraceSink
from tests.planning_counts import Compared, compared_by, planning_of
from tests.simulation import liveness
from tests.simulation.acts import act
from tests.simulation.life import Life
from tests.simulation.moves import AnyMove
from tests.simulation.oracle import Oracle, PlansAlone
from tests.simulation.world import SimulatedWorld

LAST_STORY_LINES = 14
FAULTS_GO_ON = 400.0
"""Seconds that a life in safety mode goes on after its last move."""


class Mode(StrEnum):
    """What is to be shown."""

    SAFETY = auto()
    LIVENESS = auto()


class Failure(Struct, frozen=True):
    """What did not hold, and what is known of it."""

    kind: str
    text: str
    move: str
    """During which move, or after them all."""
    story: tuple[str, ...]


class Outcome(Struct, frozen=True):
    """What came of one life in one mode."""

    life: Life
    mode: Mode
    failure: Failure | None
    moves: int
    messages: int
    virtual_seconds: float
    counts: dict[str, int]
    fired: dict[str, str]
    compared: Compared
    """Its plans, with those of all nodes."""
    converged_after: float | None = None
    bound: float | None = None
    claim: str = ""
    digest: str = ""
    """Of its whole trace, where that was asked for."""


def run(
    life: Life,
    mode: Mode,
    *,
    moves: Collection[str] | None = None,
    faults: Collection[str] | None = None,
    trace: TraceSink | None = None,
    plans_alone: bool = False,
) -> Outcome:
    """One life; `moves`, `faults`: only those of these names (None: all).  `plans_alone`: nothing
    is judged on the way but whether each pass's plan is that of all nodes."""
    world = SimulatedWorld(life, faults, plans_alone=plans_alone)
    if trace is not None:
        world.cluster.record(trace)
    oracle = PlansAlone(world) if plans_alone else Oracle(world)
    counts: Counter[str] = Counter()
    begun, doing, done = world.now, "the beginning", 0
    found = liveness.Found()
    failure: Failure | None = None
    try:
        world.settle()
        for move in life.moves:
            if moves is not None and move.name not in moves:
                continue
            doing = move.name
            _one_move(world, oracle, move)
            counts[f"move: {type(move).__name__}"] += 1
            done += 1
        doing = "after the moves"
        world.settle()
        if mode is Mode.LIVENESS:
            found = liveness.show(world)
        else:
            world.run(FAULTS_GO_ON)
        oracle.check()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        failure = Failure(type(error).__name__, str(error), doing, _story(world, str(error)))
    finally:
        world.faults.on = False
        world.close()
    counts.update(world.faults.counts)
    return Outcome(
        life=life,
        mode=mode,
        failure=failure,
        moves=done,
        messages=world.cluster.handled,
        virtual_seconds=(world.now - begun).total_seconds(),
        counts=dict(counts),
        fired=dict(world.faults.fired),
        compared=compared_by(planning_of(world.cluster)),
        converged_after=found.after,
        bound=found.bound,
        claim=found.claim,
    )


def _one_move(world: SimulatedWorld, oracle: Oracle | PlansAlone, move: AnyMove) -> None:
    wait = (world.life.start - world.now) + timedelta(seconds=move.at)
    if wait > timedelta(0):
        world.run(wait)
    act(world, move)
    if move.name in world.life.halfway:
        world.take_turns(world.life.halfway[move.name])
    else:
        world.settle()
        oracle.check()


def _story(world: SimulatedWorld, text: str) -> tuple[str, ...]:
    """The last lines of the node that the failure names, or of the driver."""
    named = [node for node in world.cluster.state.nodes if re.search(rf"\b{node}\b", text)]
    if named:
        return tuple(world.cluster.story(min(named))[-LAST_STORY_LINES:])
    return tuple(str(event.text) for event in world.cluster.events[-LAST_STORY_LINES:])

"""Where the time of one event goes: the functions that take most of it.

Its times are CPU time of the thread, so that nobody else is in them.  To read that clock at each
call and return makes every call dearer: what calls a lot, and what is called a lot, is shown with
more than its share.
"""

import cProfile
import pstats
from pathlib import Path
from time import thread_time_ns

from msgspec import Struct

from cluster_reconciler.actors.bench.events import at_rest, lose, repair
from cluster_reconciler.actors.bench.loop import Ready
from cluster_reconciler.actors.bench.stopwatch import quiet, spread

LINES = 25
PACKAGE = Path(__file__).resolve().parent.parent.parent


class ProfileLine(Struct, frozen=True):
    """One function, in one event: from a loss told to its destroy dispatched."""

    function: str
    place: str
    """Its file within the package, and its line; empty: it is written in C."""
    calls: float
    own_microseconds: float
    """In itself."""
    total_microseconds: float
    """With what it calls."""


def event_profile(ready: Ready, *, events: int, lines: int = LINES) -> list[ProfileLine]:
    """The functions with the most time of their own, that first."""
    production, executors = at_rest(ready)
    nodes = spread(ready.state.nodes, events)
    profile = cProfile.Profile(thread_time_ns, 1e-9)
    with quiet():
        for node in nodes:
            profile.enable()
            lose(production, executors, node)
            profile.disable()
            repair(production, executors)
    production.close()
    found = pstats.Stats(profile).stats  # type: ignore[attr-defined]  # what its prints are made of
    made = [
        ProfileLine(name, _place(file, line), calls / len(nodes), *_each(len(nodes), own, total))
        for (file, line, name), (_, calls, own, total, _) in found.items()
    ]
    return sorted(made, key=lambda line: -line.own_microseconds)[:lines]


def _each(events: int, *seconds: float) -> tuple[float, ...]:
    return tuple(one / events * 1e6 for one in seconds)


def _place(file: str, line: int) -> str:
    if not line:
        return ""
    path = Path(file)
    name = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else Path(path.name)
    return f"{name}:{line}"

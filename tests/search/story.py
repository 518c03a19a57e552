"""A path through the search, told as prose: one line a move, with the time and how the node stands.

It plays the path again with real code; it judges nothing.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from cluster_reconciler.decider import ManagedNode
from tests.decider_words import T0
from tests.search.moves import friendly_move, is_home, moves
from tests.search.place import Place, Setting
from tests.search.rig import Rig
from tests.search.search import start_of

FRIENDLY_TOLD = 30


def story(setting: Setting, path: tuple[int, ...], *, way: bool = False) -> Iterator[str]:
    """Each move of the path, and what breaks at its end; `way`: how a friendly world goes on."""
    rig, place = Rig(setting), start_of(setting)
    for step, number in enumerate(path, start=1):
        try:
            move = next(islice(moves(rig, place), number, None))
        except AssertionError as error:
            yield f"{step:4}. {_moment(place.now)}: here it breaks: {error}"
            return
        place = move.to
        yield f"{step:4}. {_moment(place.now)}: {move.by}{_standing(place)}"
    if way:
        yield from _way(rig, place)


def _way(rig: Rig, place: Place) -> Iterator[str]:
    yield "Then a friendly world goes on:"
    for _ in range(FRIENDLY_TOLD):
        if is_home(rig, place):
            yield "      all is as wanted"
            return
        try:
            move = friendly_move(rig, place)
        except AssertionError as error:
            yield f"      {_moment(place.now)}: {error}"
            return
        place = move.to
        yield f"      {_moment(place.now)}: {move.by}"
    yield "      and so on"


def _moment(moment: datetime) -> str:
    return f"{(moment - T0).total_seconds():g} s"


def _standing(place: Place) -> str:
    told = [f"{node_id} {_facts(node)}" for node_id, node in place.nodes]
    there = [
        f"attempt {identity.attempt} has {thing.machines or 'no'} machine"
        + (" with a session" if thing.alive else "")
        for identity, thing in place.things
    ]
    return f"  [{'; '.join([*told, *there])}]" if told or there else ""


def _facts(node: ManagedNode) -> str:
    pending = f", waits for {node.pending.kind}" if node.pending is not None else ""
    unsure = ", ambiguous" if node.retry.ambiguous_operation is not None else ""
    return f"is {node.intent}, {node.record.stage}{pending}{unsure}"

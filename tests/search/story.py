"""A path through the search, told: one line a move."""

from collections.abc import Iterator
from itertools import islice

from cluster_reconciler.messages import NodeAttemptId
from tests.decider_words import T0
from tests.search.moves import moves
from tests.search.place import Place, Setting
from tests.search.rig import Rig


def story(setting: Setting, path: tuple[int, ...]) -> Iterator[str]:
    """Each move of the path, and what the last one breaks, if it does."""
    rig = Rig(setting)
    place = Place((), NodeAttemptId(1), 0, T0, faults_left=setting.faults)
    for step, number in enumerate(path, start=1):
        seconds = (place.now - T0).total_seconds()
        try:
            move = next(islice(moves(rig, place), number, None))
        except AssertionError as error:
            yield f"{step:3} {seconds:g} s: breaks: {error}"
            return
        yield f"{step:3} {seconds:g} s: {move.by}"
        place = move.to

"""The ways home: from every place that a search has found, a friendly world comes home.

Friendly: no fault happens any more, calls that are out return well, sessions join, what is missing
is noticed, and time goes on when nothing else can.  What it does next is one move at each place
(`moves.friendly`), so the places are a graph with one edge out of each, and following each edge
once tells for all of them whether they lead home or round in a circle.

In two cases the way is walked with real code instead: from places whose moves were not taken
because the search was full, and where only the order of deadlines is known (`order_only`) and a
circle may be a wait for a moment that such a form does not tell from the one before.

Fairness (design rule 28): while each call of the first node hangs for ever, the second one becomes
what it should be, from every place that is asked.
"""

from array import array

from msgspec.structs import replace

from cluster_reconciler.messages import LogicalNodeId
from tests.search.canonical import canonical
from tests.search.moves import ANSWERED_WELL, NEVER, Move, friendly_move, is_home, moves
from tests.search.place import Place
from tests.search.rig import Rig
from tests.search.search import HOME, UNKNOWN, Broken, Search

STEPS_MAX = 500


def check_ways_home(search: Search) -> None:
    """Raises Broken with the path to a place from which a friendly world does not come home."""
    _Ways(search).check()


class _Ways:
    def __init__(self, search: Search) -> None:
        self._search = search
        self._steps = array("l", [UNKNOWN]) * len(search.friendly)
        """By place: how many friendly moves it is from home."""

    def check(self) -> None:
        """Those first whose way must be walked: the others come to places that are known."""
        search, steps = self._search, self._steps
        for at, place in enumerate(search.ahead, start=search.expanded):
            if steps[at] == UNKNOWN:
                self._walk(at, place)
        for begin in range(search.expanded):
            way: list[int] = []
            on_way: set[int] = set()
            at = begin
            while at != HOME and steps[at] == UNKNOWN and at not in on_way:
                on_way.add(at)
                way.append(at)
                at = search.friendly[at]
            if at in on_way:
                self._leave_circle(begin)
            else:
                self._count(way, 0 if at == HOME else steps[at] + 1)

    def _count(self, way: list[int], beyond: int) -> None:
        found = self._search.found
        for count, passed in enumerate(reversed(way), start=beyond):
            if self._steps[passed] == UNKNOWN:
                self._steps[passed] = count
                found.ways_home += 1
                found.longest_way_home = max(found.longest_way_home, count)

    def _leave_circle(self, begin: int) -> None:
        search = self._search
        if not search.setting.order_only:
            raise Broken(
                "livelock: a friendly world goes round for ever", search.path(begin), way=True
            )
        search.found.circles += 1
        self._walk(begin, search.place_at(begin))

    def _walk(self, begin: int, place: Place) -> None:
        search = self._search
        way = [begin]
        for _ in range(STEPS_MAX):
            if is_home(search.rig, place):
                self._count(way, 0)
                return
            place = friendly_move(search.rig, place).to
            at = search.number_of(place)
            if at is not None and self._steps[at] != UNKNOWN:
                self._count(way, self._steps[at] + 1)
                return
            if at is not None:
                way.append(at)
        raise Broken(f"not home within {STEPS_MAX} friendly moves", search.path(begin), way=True)


def check_fairness(search: Search, at_most: int) -> None:
    """Ask so many of the search's samples.  Raises Broken."""
    second = sorted(search.setting.shapes[0].nodes)[1]
    known: set[bytes] = set()
    for at, place in search.samples[:: max(1, len(search.samples) // at_most)]:
        if not _comes_to_its_turn(search, place, second, known):
            reason = f"{second} starves while the calls of the other node hang"
            raise Broken(reason, search.path(at), way=True)
        search.found.fair += 1


def _comes_to_its_turn(
    search: Search, place: Place, second: LogicalNodeId, known: set[bytes]
) -> bool:
    for _ in range(STEPS_MAX):
        form = canonical(place, search.setting)
        if form in known or _is_as_wanted(search, place, second):
            return True
        known.add(form)  # If this walk does not end, it is told; if it does, this place is fine.
        place = _stubborn_move(search.rig, place, second).to
    return False


def _is_as_wanted(search: Search, place: Place, node_id: LogicalNodeId) -> bool:
    node = dict(place.nodes).get(node_id)
    spec = search.setting.shapes[place.wanted].nodes.get(node_id)
    if node is None or spec is None:
        return node is None and spec is None
    return node.record.ready and node.record.desired == spec


def _stubborn_move(rig: Rig, place: Place, second: LogicalNodeId) -> Move:
    """A friendly move, but of the first node no call ever returns."""
    never_mind = replace(place, faults_left=1)
    friendly = [
        move
        for move in moves(rig, never_mind)
        if move.friendly != NEVER and (move.friendly != ANSWERED_WELL or move.node == second)
    ]
    assert friendly, f"nothing happens any more: {place}"
    best = min(friendly, key=lambda move: move.friendly)
    return replace(best, to=replace(best.to, faults_left=place.faults_left))

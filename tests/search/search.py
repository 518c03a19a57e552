"""The search itself: breadth first over places, and the way home from each of them.

Places are the same when their canonical form is (`canonical`).  Only the frontier is held as
values; of a place that was left there stay its form, its parent, the number of the move that led
to it, and where a friendly world goes on from it.

What must hold: real code raises (the driver's invariant guard checks every change, plan, dispatch
and state at rest; the rig checks that late and doubled results change nothing), `check_world` is
asked of every place, and from every place a friendly world must come home: along the one friendly
move of each place, without ever coming back to where it was.
"""

import resource
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from cluster_reconciler.actors.stepping_oracle import check_world
from cluster_reconciler.decider import ClusterState
from cluster_reconciler.messages import NodeAttemptId
from tests.decider_words import T0
from tests.search.canonical import canonical
from tests.search.moves import NEVER, friendly_move, is_home, moves
from tests.search.place import Place, Setting
from tests.search.rig import Rig

STEPS_MAX = 500
HOME = -1
UNKNOWN = -2


class Broken(AssertionError):
    """Something does not hold; the path to it stands beside."""

    def __init__(self, reason: str, path: tuple[int, ...]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        """The numbers of the moves from the empty cluster on, the last one is what broke."""


class Found(Struct):
    """What a search has found."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    peak_mb: float = 0.0
    closed: bool = False
    homes: int = 0
    longest_way_home: int = 0
    circles: int = 0
    """Circles of forms that were followed with their times."""
    checked_home: int = 0
    """How many places have been shown to have a way home."""


def start_of(setting: Setting) -> Place:
    """The empty cluster."""
    return Place((), NodeAttemptId(1), 0, T0, faults_left=setting.faults)


class Search:
    """One search; `run` it once."""

    def __init__(self, setting: Setting, *, states_max: int, check: bool = True) -> None:
        self.setting = setting
        self.states_max = states_max
        self.rig = Rig(setting, check=check)
        self.found = Found()
        self._index: dict[bytes, int] = {}
        self._parent = array("l")
        self._number = array("H")
        self._depth = array("H")
        self._friendly = array("l")

    def run(self, progress: Callable[[Found], None] = lambda _found: None) -> Found:
        """Every place, or at most so many, and the way home from each.  Raises Broken."""
        begun = time.monotonic()
        found = self.found
        start = start_of(self.setting)
        ahead = deque([start])
        self._enter(start, HOME, 0, 0)
        at = 0
        while ahead and len(self._index) < self.states_max:
            place = ahead.popleft()
            for place_found in self._expand(at, place):
                ahead.append(place_found)
            at += 1
            if at % 10_000 == 0:
                found.states, found.seconds = len(self._index), time.monotonic() - begun
                progress(found)
        found.closed = not ahead
        found.depth = self._depth[-1]
        found.states = len(self._index)
        self._ways_home(at, ahead)
        found.seconds = time.monotonic() - begun
        found.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return found

    def _enter(self, place: Place, parent: int, number: int, depth: int) -> int | None:
        """The place's number when it is new."""
        form = canonical(place, self.setting)
        known = self._index.get(form)
        if known is not None:
            self._last = known
            return None
        at = self._last = self._index[form] = len(self._index)
        self._parent.append(parent)
        self._number.append(number)
        self._depth.append(depth)
        self._friendly.append(UNKNOWN)
        return at

    def _expand(self, at: int, place: Place) -> Iterator[Place]:
        number, best, leads = 0, NEVER, UNKNOWN
        depth = self._depth[at] + 1
        if is_home(self.rig, place):
            best, leads = -1, HOME
            self.found.homes += 1
        try:
            for move in moves(self.rig, place):
                new = self._enter(move.to, at, number, depth)
                if new is not None:
                    self._check(move.to)
                    yield move.to
                if move.friendly < best:
                    best, leads = move.friendly, self._last
                number += 1
        except AssertionError as error:
            raise Broken(str(error), (*self.path(at), number)) from error
        self.found.transitions += number
        self._friendly[at] = leads
        if leads == UNKNOWN:
            raise Broken("a place without a way on", self.path(at))

    def _check(self, place: Place) -> None:
        state = ClusterState(0, place.next_attempt, dict(place.nodes))
        live = {identity for identity, thing in place.things if thing.machines}
        doubles = {identity for identity, thing in place.things if thing.doubled}
        check_world(state, self.setting.shapes[place.wanted], live, doubles)

    def path(self, at: int) -> tuple[int, ...]:
        """The numbers of the moves that lead to the place."""
        numbers: list[int] = []
        while at > 0:
            numbers.append(self._number[at])
            at = self._parent[at]
        return tuple(reversed(numbers))

    # -- ways home --------------------------------------------------------------------------------

    def _ways_home(self, expanded: int, ahead: deque[Place]) -> None:
        """Follow the friendly moves; each place once.  From those that were not expanded on, the
        way is walked; from the others on it is known by then, or leads to one of them."""
        self._steps = array("l", [UNKNOWN]) * len(self._index)
        steps = self._steps
        for at, place in enumerate(ahead, start=expanded):
            if steps[at] == UNKNOWN:
                self._follow(at, place)
        for begin in range(expanded):
            way: list[int] = []
            on_way: set[int] = set()
            at = begin
            while at >= 0 and steps[at] == UNKNOWN and at not in on_way:
                on_way.add(at)
                way.append(at)
                at = self._friendly[at]
            if at in on_way:
                self._leave_circle(begin)
            else:
                self._count(way, 0 if at == HOME else steps[at] + 1)

    def _count(self, way: list[int], beyond: int) -> None:
        for count, passed in enumerate(reversed(way), start=beyond):
            if self._steps[passed] == UNKNOWN:
                self._steps[passed] = count
                self.found.checked_home += 1
                self.found.longest_way_home = max(self.found.longest_way_home, count)

    def _leave_circle(self, begin: int) -> None:
        """A circle of forms may be a wait for a moment of which the form says only that it lies
        ahead: followed with its times, it ends."""
        self.found.circles += 1
        self._follow(begin, self._place_at(begin))

    def _follow(self, begin: int, place: Place) -> None:
        way: list[int] = [begin]
        for _ in range(STEPS_MAX):
            if is_home(self.rig, place):
                self._count(way, 0)
                return
            place = friendly_move(self.rig, place).to
            self._enter(place, HOME, 0, 0)
            if self._last >= len(self._steps):
                self._steps.append(UNKNOWN)
            if self._steps[self._last] != UNKNOWN:
                self._count(way, self._steps[self._last] + 1)
                return
            way.append(self._last)
        raise Broken(f"no way home within {STEPS_MAX} friendly moves", self.path(begin))

    def _place_at(self, at: int) -> Place:
        place = start_of(self.setting)
        for number in self.path(at):
            place = next(islice(moves(self.rig, place), number, None)).to
        return place

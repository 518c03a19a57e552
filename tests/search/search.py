"""The search itself: breadth first over places, each checked, then the way home from each.

Only the frontier is held as values; of a place that was left there stay its canonical form, its
parent, the number of the move that led to it, and where a friendly world goes on from it.

What must hold.  Of each step: real code raises (the driver's invariant guard; the rig, when a late
or doubled result changes anything, or when the driver would not wake in time).  Of each place:
`check_world`, and that executors remember no attempt for nothing.  Of all places: a friendly world
comes home from each (see `ways`).

What the driver keeps from pass to pass (`decider/incremental.py`).  Putting a driver at a place
gives it a new map of nodes, at which it forgets everything; so it is let decide there first, and
then takes the step: a message, time, another shape.  After it the plan that it makes, and what it
keeps then (`kept_decisions`), must be those of one who sees the place for the first time; and of
each place the plan of that one must be the full one.  One step at a time is enough: at the empty
cluster nothing is kept, and whoever keeps at a place what is kept there anew, does so after each
step from it, and so after every path.  (Here all is decided after every step, and a driver may take
several before its next pass.  That opens no fewer nodes: it is told of the same changes, a moment
that has come stays one that has come, and who goes from one shape to another and back meets the
same specs.)

What bounds it, and why nothing is lost by it:

- Messages in flight.  Of the results in the mailbox only the one that the node waits for is kept;
  every other one can only be refused, and is read at once to see that.  News of a session may come
  at any moment, also late and twice, so none of it needs to be in flight.
- Attempts.  None: an attempt that left nothing is the same as any other (`canonical`), and each
  attempt that did leave something is part of the place.
- Time goes from deadline to deadline; all durations are small whole seconds (`place.POLICY`), and
  a place knows how far off each deadline is, so that no two different futures are taken for one.
  Other durations bring other orders of deadlines: the simulator and the state machine have them.
- Kept news of unknown sessions: one of any kind, or a join and a closure (`moves`; the walk over
  the decider alone has been done with any two).  Of the stages that are facts alone a session
  tells one, and those that end it.
- Answers that are the same to whoever asked.  Whatever a call fails with that makes nothing is a
  refusal to its operation, an unexpected exception or a wrong value too (`CheckedProvider`), and
  so is a token refused for good by a hand-over, cancel or destroy (`carrier`, design rule 16):
  they are told as refusals.  A result of the wrong kind no executor of ours sends: the walk over
  the decider alone has it, and the dispatch points.
- A call within a call (whether the lease is gone, too) is answered in the same moment.
- Faults, where they are counted, and `states_max`: what was not reached is said (`Found`).
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
from cluster_reconciler.messages import NodeAttemptId, NodeStage
from tests.decider_words import T0
from tests.planning_counts import Compared, compared_by
from tests.search.canonical import canonical
from tests.search.moves import NEVER, is_home, moves
from tests.search.place import Place, Setting
from tests.search.rig import Rig

SAMPLES_MAX = 500
HOME = -1
UNKNOWN = -2


class Broken(AssertionError):
    """Something does not hold; the path to it stands beside."""

    def __init__(self, reason: str, path: tuple[int, ...], *, way: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        """The numbers of the moves from the empty cluster on; the last one shows what is broken."""
        self.way = way
        """It is the way home that is broken, from where the path leads to."""


class Found(Struct):
    """What a search has found."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    """Moves from the empty cluster to the farthest place."""
    closed: bool = False
    """Every move of every place was taken."""
    left: int = 0
    """Places whose moves were not taken: 0 when it is closed."""
    leftovers: int = 0
    """Places at which something of an attempt that is over still exists or runs."""
    homes: int = 0
    """Places at which all is as wanted, and silent."""
    ways_home: int = 0
    """Places from which a friendly world was seen to come home: all of them."""
    longest_way_home: int = 0
    circles: int = 0
    """Circles of friendly moves that were followed with their times, and left."""
    kept_right: int = 0
    """Steps after which what the driver kept was right."""
    compared: Compared = Compared()
    """Plans with the full ones; a difference breaks the search."""
    fair: int = 0
    """Places from which the second node became what it should be while each call of the first one
    hung."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0


def start_of(setting: Setting) -> Place:
    """The empty cluster."""
    return Place((), NodeAttemptId(1), 0, T0, faults_left=setting.faults)


class Search:
    """One search; `run` it once."""

    def __init__(self, setting: Setting, *, states_max: int, check_every: int = 1) -> None:
        self.setting = setting
        self.states_max = states_max
        self.rig = Rig(setting, check_every=check_every)
        self.found = Found()
        self.ahead: deque[Place] = deque()
        """Places that were found, and whose moves were not yet taken."""
        self.expanded = 0
        self.friendly = array("l")
        """By place: where a friendly world goes on, or HOME."""
        self.samples: list[tuple[int, Place]] = []
        """Some places with their numbers, spread evenly over those whose moves were taken."""
        self._sample_every = 1
        self._index: dict[bytes, int] = {}
        self._parent = array("l")
        self._number = array("H")
        self._depth = array("H")

    def run(self, progress: Callable[[Found], None] = lambda _found: None) -> Found:
        """Every place, or at least `states_max` of them.  Raises Broken."""
        clocks = time.monotonic(), time.process_time()
        found, ahead = self.found, self.ahead
        start = start_of(self.setting)
        self.enter(start, HOME, 0, 0)
        ahead.append(start)
        while ahead and len(self._index) < self.states_max:
            place = ahead.popleft()
            self._sample(place)
            ahead.extend(self._expand(self.expanded, place))
            self.expanded += 1
            if self.expanded % 10_000 == 0:
                self._measure(clocks)
                progress(found)
        found.closed = not ahead
        found.depth = self._depth[-1]
        self._measure(clocks)
        return found

    def _sample(self, place: Place) -> None:
        if self.expanded % self._sample_every == 0:
            self.samples.append((self.expanded, place))
        if len(self.samples) > SAMPLES_MAX:
            self.samples = self.samples[::2]
            self._sample_every *= 2

    def _measure(self, clocks: tuple[float, float]) -> None:
        self.found.states, self.found.left = len(self._index), len(self.ahead)
        self.found.kept_right = self.rig.kept_right
        self.found.compared = compared_by(self.rig.driver.planning)
        self.found.seconds = time.monotonic() - clocks[0]
        self.found.cpu_seconds = time.process_time() - clocks[1]
        self.found.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def number_of(self, place: Place) -> int | None:
        """The place's number; None: it was not found."""
        return self._index.get(canonical(place, self.setting))

    def enter(self, place: Place, parent: int, number: int, depth: int) -> tuple[int, bool]:
        """The place's number, and whether it is new."""
        form = canonical(place, self.setting)
        known = self._index.get(form)
        if known is not None:
            return known, False
        at = self._index[form] = len(self._index)
        self._parent.append(parent)
        self._number.append(number)
        self._depth.append(depth)
        self.friendly.append(UNKNOWN)
        return at, True

    def _expand(self, at: int, place: Place) -> Iterator[Place]:
        number, best, leads, depth = 0, NEVER, UNKNOWN, self._depth[at] + 1
        if is_home(self.rig, place):
            best, leads = HOME, HOME
            self.found.homes += 1
        try:
            for move in moves(self.rig, place):
                to, is_new = self.enter(move.to, at, number, depth)
                if is_new:
                    self._check(move.to)
                    yield move.to
                if move.friendly < best:
                    best, leads = move.friendly, to
                number += 1
        except AssertionError as error:
            raise Broken(str(error), (*self.path(at), number)) from error
        if leads == UNKNOWN:
            raise Broken(
                "wedged: nothing happens any more, and this is not home", self.path(at), way=True
            )
        self.found.transitions += number
        self.friendly[at] = leads

    def _check(self, place: Place) -> None:
        """What must hold of every place."""
        state = ClusterState(0, place.next_attempt, dict(place.nodes))
        live = {identity for identity, thing in place.things if thing.machines}
        doubles = {identity for identity, thing in place.things if thing.doubled}
        check_world(state, self.setting.shapes[place.wanted], live, doubles)
        going_on = {
            node.attempt for _, node in place.nodes if node.record.stage is not NodeStage.DESTROYED
        }
        over = [side for side in place.sides if side.identity.attempt not in going_on]
        kept = [side.identity for side in over if side.running is None]
        assert not kept, f"the executors remember attempts that are over: {kept}"
        left = bool(over) or any(i.attempt not in going_on for i, _ in place.things)
        self.found.leftovers += left

    def path(self, at: int) -> tuple[int, ...]:
        """The numbers of the moves that lead to the place."""
        numbers: list[int] = []
        while at > 0:
            numbers.append(self._number[at])
            at = self._parent[at]
        return tuple(reversed(numbers))

    def place_at(self, at: int) -> Place:
        """The place with this number, which must have been entered by the search."""
        return replayed(self.rig, start_of(self.setting), self.path(at))


def replayed(rig: Rig, place: Place, path: tuple[int, ...]) -> Place:
    """The place to which these moves lead; raises AssertionError where one breaks something."""
    for number in path:
        place = next(islice(moves(rig, place), number, None)).to
    return place

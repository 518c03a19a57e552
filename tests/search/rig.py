"""The real driver and the real executors, put at a place and read off again.

Each move of the search is: put both at the place (`stand`), let real code run, read the new place
(`leave`).  Beside `records` this file alone touches what they hold privately.

A call that has not returned is a piece of a thread's stack, and cannot be kept as a value.  It is
kept as what stood before it began, and played again when it returns: the carrier's code up to the
call sees the same values at the same time, and from the call on what is true by then.
"""

from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from cluster_reconciler.actors.admission import news_of
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.decider import (
    ClusterState,
    IncrementalReconciler,
    ReconcilePlan,
    expire,
    reconcile,
)
from cluster_reconciler.decider.observe import refusal
from cluster_reconciler.executors.attempt import Attempt
from cluster_reconciler.executors.carrier import Carrier
from cluster_reconciler.executors.checked_provider import CheckedProvider
from cluster_reconciler.executors.executor import Executors
from cluster_reconciler.executors.ledger import (
    OperationLedger,
    OperationState,
)
from cluster_reconciler.executors.provider import SwarmTicket
from cluster_reconciler.executors.session_context import Listener, SessionIds
from cluster_reconciler.messages import (
    AttemptIdentity,
    ExecutorResult,
    NodeAttemptId,
    NodeObserved,
    RunPass,
)
from tests.decider_words import T0
from tests.kept_decisions import keep_the_same, kept_by
from tests.search.canonical import deadlines
from tests.search.place import NOTHING, POLICY, Operation, Place, Setting, Side
from tests.search.provider import SearchProvider, Suspended, ThreadKilled
from tests.search.records import SearchSpawner, enter, retired_of, side_of, worker_of

TICKET = SwarmTicket("127.0.0.1:1", "a token of no swarm")


class Rig:
    """One driver with its executors.  Every method but `stand` and `leave` lets real code run."""

    def __init__(self, setting: Setting, *, check_every: int = 1) -> None:
        """`check_every`: the driver's invariants are checked at one of so many moves."""
        self.setting = setting
        self._check_every = check_every
        self._stood = 0
        self.provider = SearchProvider()
        self.spawner = SearchSpawner()
        self.told: list[ExecutorResult] = []
        self._woken: datetime | None = None
        self._now = T0
        self._place = Place((), NodeAttemptId(1), 0, T0)
        self.executors = Executors(
            setting.shapes[0].shape.run_id,
            (self.provider,),
            self.spawner,
            self._hear,
            self.now,
            lambda _identity: TICKET,
        )
        self.driver = Driver(
            setting.shapes[0].shape, POLICY, self.executors, self, check_invariants=True
        )
        self._anew = IncrementalReconciler()
        """Sees each place for the first time."""
        self.kept_right = 0
        """Steps after which what the driver kept was right."""
        self._listener = Listener(
            observed=self._hear,
            output=lambda *_line: None,
            dropped=lambda *_line: None,
            ticket=lambda _identity: TICKET,
            is_over=lambda: False,
        )
        self._session_ids = SessionIds()

    # -- the driver's host ------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time."""
        return self._now

    def tell_driver(self, message: object) -> None:
        """A pass is queued: the search takes one whenever it likes."""

    def wake_at(self, moment: datetime | None) -> None:
        """Time goes when the search says so; `check_awake` asks whether that was early enough."""
        self._woken = moment

    def happened(self, event: ClusterEvent) -> None:
        """Nobody listens."""

    def pass_done(self, plan: ReconcilePlan, converged: bool, /) -> None:
        """Nobody listens."""

    def attempt_over(self, identity: AttemptIdentity) -> None:
        """Nobody listens."""

    def _hear(self, message: ExecutorResult | NodeObserved) -> None:
        if isinstance(message, ExecutorResult):
            self.told.append(message)

    # -- putting and reading ----------------------------------------------------------------------

    def stand(self, place: Place) -> None:
        """Put everything at the place."""
        self._stand_driver(place)
        executors, provider = self.executors, self.provider
        executors._attempts = {side.identity.attempt: self._attempt(side) for side in place.sides}
        executors._retired = retired_of(place.retired)
        provider.things = dict(place.things)
        provider.fates, provider.calls = [], []
        provider.suspends = provider.acted = False
        provider.returning = _nothing
        self.spawner.fails = False

    def _stand_driver(self, place: Place) -> None:
        self._place = place
        self._now = place.now
        self._stood += 1
        driver = self.driver
        driver._guard._on = self._stood % self._check_every == 0
        driver.state = ClusterState(0, place.next_attempt, dict(place.nodes))
        driver.desired = self.setting.shapes[place.wanted]
        driver.queued = False
        self._woken = None
        self.told = list(place.unread)

    def after_news(self, place: Place, news: ExecutorResult | NodeObserved) -> Place | None:
        """The place after the driver has read this; None: it was refused.  What is folded does
        nothing to the executors: they need not be put there for it."""
        self._stand_driver(place)
        if self._changes_nothing(news):
            return None
        self.handle(news)
        after = self.driver.state.nodes[news.node]
        self._read_stale()
        pending = after.pending.id if after.pending is not None else None
        sides = place.sides
        for side in sides:
            over = side.answered if side.identity.attempt == after.attempt else None
            if over is not None and over.effect.operation != pending:
                sides = _with_side(sides, replace(side, answered=None))
        nodes = tuple(
            (node_id, after if node_id == news.node else other) for node_id, other in place.nodes
        )
        return replace(place, nodes=nodes, sides=sides, unread=tuple(self.told))

    def leave(self, *, faults: int = 0) -> Place:
        """The place that real code has come to.  What lies in the mailbox and does not answer the
        operation that its node waits for is read as well: it must change nothing, ever."""
        place = self._place
        self._read_stale()
        state = self.driver.state
        pending = {node.attempt: node.pending.id for node in state.nodes.values() if node.pending}
        things = tuple(sorted(pair for pair in self.provider.things.items() if pair[1] != NOTHING))
        retired = self.executors._retired
        return Place(
            nodes=tuple(sorted(state.nodes.items())),
            next_attempt=state.next_attempt_id,
            wanted=place.wanted,
            now=self._now,
            sides=tuple(
                side_of(attempt, pending.get(attempt_id), self._standing(attempt))
                for attempt_id, attempt in sorted(self.executors._attempts.items())
            ),
            things=things,
            unread=tuple(self.told),
            retired=(tuple(retired._starts), tuple(retired._ends)),
            faults_left=max(place.faults_left - faults, -1) if place.faults_left >= 0 else -1,
        )

    def _read_stale(self) -> None:
        """Read, and forget, what can be refused only; a second copy of a result is such, too."""
        kept: list[ExecutorResult] = []
        for result in self.told:
            if result in kept:
                continue
            if self._is_awaited(result):
                kept.append(result)
                continue
            before = dict(self.driver.state.nodes)
            self.driver.handle(result)
            same = self.driver.state.nodes == before
            assert same, f"a late result was folded: {result}"
        self.told = kept

    def _standing(self, attempt: Attempt) -> Operation | None:
        """What ran of the attempt at the place that was begun from: in which call it stands."""
        for side in self._place.sides:
            if side.identity == attempt.identity:
                return side.running
        return None

    def _is_awaited(self, result: ExecutorResult) -> bool:
        node = self.driver.state.nodes.get(result.node)
        return node is not None and node.pending is not None and node.pending.id == result.operation

    def _attempt(self, side: Side) -> Attempt:
        provider = CheckedProvider(self.provider, self.provider.kind, side.identity)
        carrier = Carrier(
            side.identity,
            provider,
            self.provider.settle_time,
            self.now,
            self._session_ids,
            self._listener,
        )
        carrier.lease, carrier.session = side.lease, side.session
        carrier._starts = side.starts
        carrier._done = {kind: (command, outcome) for kind, command, outcome in side.done}
        attempt = Attempt(side.identity, carrier, OperationLedger())
        for operation in (side.answered, side.running, side.waiting):
            if operation is not None:
                enter(attempt, operation)
        if side.running is not None or side.waiting is not None:
            attempt.worker = worker_of(self.executors, attempt)
        return attempt

    # -- letting real code run --------------------------------------------------------------------

    def handle(self, message: object) -> None:
        """The driver, which has seen this place before, handles one message."""
        self._keep()
        self._handle(message)
        self._compare()

    def _handle(self, message: object) -> None:
        before = dict(self.driver.state.nodes)
        self.driver.handle(message)
        if isinstance(message, RunPass):
            self._check_awake()
        elif self.driver.state.nodes != before:
            assert self.driver.queued, f"something has changed, and no pass is queued: {message}"

    def _changes_nothing(self, news: ExecutorResult | NodeObserved) -> bool:
        """What is refused is handled as well, and changes nothing."""
        node_id, attempt, observation = news_of(news)
        node = self.driver.state.nodes.get(node_id)
        if node is not None and node.attempt == attempt and not refusal(node, observation):
            return False
        self._handle(news)
        assert self.driver.state.nodes.get(node_id) is node, f"refused, and folded: {news}"
        return True

    def go_on(self, place: Place, to: Place) -> None:
        """Of the driver only the time or its shape is another one there: what it keeps from the one
        place must be right at the other."""
        self._stand_driver(place)
        self._keep()
        self._now, self.driver.desired = to.now, self.setting.shapes[to.wanted]
        self._compare()

    def keep_at(self, place: Place) -> ReconcilePlan:
        """Put the driver at the place, let it see that for the first time, and hold the plan that
        it would go by to the full one, which is answered."""
        self._stand_driver(place)
        planning, state, desired = self.driver.planning, self.driver.state, self.driver.desired
        plan = planning.decide(state, desired, self._now)
        assert planning.differences == 0, "this place's own plan is not the full one"
        return plan

    def _keep(self) -> None:
        """Decide everything, and keep it: the map of nodes is a new one, of which nothing is kept
        yet."""
        self.driver.planning.reconcile(self.driver.state, self.driver.desired, self._now)

    def _compare(self) -> None:
        """The plan from what is kept, and what is kept then, are those of one who sees the place
        for the first time."""
        planning, state, desired = self.driver.planning, self.driver.state, self.driver.desired
        assert planning.differences == 0, "the pass has gone by the full plan"
        plan = planning.reconcile(state, desired, self._now)
        plan_anew = self._anew.reconcile(state, desired, self._now)
        assert plan == plan_anew, f"a defect: planned is {plan}, and should be {plan_anew}"
        if not keep_the_same(planning, self._anew):
            kept, anew = kept_by(planning), kept_by(self._anew)
            raise AssertionError(f"a defect: kept is {kept}, and should be {anew}")
        self.kept_right += 1

    def _check_awake(self) -> None:
        """After a pass another one is queued, or the driver wakes itself before time alone can
        change anything: so the search may take a pass, and let time go, without asking who will."""
        driver = self.driver
        if driver.queued:
            return
        for moment in (self._now, *sorted(_ahead(driver.state, self._now))):
            changes = reconcile(driver.state, driver.desired, moment).actions or any(
                expire(node, moment, POLICY) is not node for node in driver.state.nodes.values()
            )
            if changes:
                awake = self._woken is not None and self._woken <= moment
                assert awake, f"something is due at {moment}, the driver wakes at {self._woken}"
                return

    def submit_again(self) -> None:
        """What waits is submitted once more: it must be known, and wait once (design rule 26)."""
        for attempt in self.executors._attempts.values():
            waiting, recorded = attempt.waiting, len(attempt.ledger)
            if waiting is not None:
                self.executors.submit(waiting.effect)
                same = attempt.waiting is waiting and len(attempt.ledger) == recorded
                assert same, f"{waiting.effect.operation} was taken twice"

    def begin(self, identity: AttemptIdentity) -> str:
        """What waits begins; the call in which it stands then, or nothing when it needed none."""
        attempt = self.executors._attempts[identity.attempt]
        waiting, worker = attempt.waiting, attempt.worker
        assert waiting is not None, f"{identity}: nothing waits"
        assert worker is not None, f"{identity}: nobody works"
        self.provider.suspends = True
        try:
            self.executors.run(worker, waiting.effect)
        except Suspended as suspended:
            return str(suspended)
        finally:
            self.provider.suspends = False
        return ""

    def finish(self, identity: AttemptIdentity, *fates: str) -> int:
        """The call in which the attempt's operation stands returns, with this fate; how many calls
        the operation has made in all."""
        attempt = self.executors._attempts[identity.attempt]
        running, waiting, worker = attempt.running, attempt.waiting, attempt.worker
        assert running is not None, f"{identity}: nothing runs"
        assert worker is not None, f"{identity}: nobody works"
        assert running.began_at is not None, f"{identity}: began at no time"
        expired, returned_at = running.expired, self._now
        self._now = running.began_at
        running.state, running.expired = OperationState.WAITING, False
        attempt.waiting, attempt.running = running, None

        def returning() -> None:
            self._now = returned_at
            attempt.waiting, running.expired = waiting, expired

        provider = self.provider
        side = next(side for side in self._place.sides if side.identity == identity)
        assert side.running is not None, f"{identity}: nothing runs"
        provider.fates, provider.returning = list(fates), returning
        provider.acted = side.running.acted
        with suppress(ThreadKilled):
            worker.handle(running.effect)
        assert provider.calls, f"{identity}: {side.running.call} was not called again"
        assert provider.calls[0] == side.running.call, f"{identity}: called {provider.calls}"
        return len(provider.calls)

    def die(self, identity: AttemptIdentity) -> None:
        """The attempt's executor dies before what waits has begun."""
        attempt = self.executors._attempts[identity.attempt]
        assert attempt.worker is not None, f"{identity}: nobody works"
        self.executors.worker_died(attempt.worker, "killed")


def _ahead(state: ClusterState, now: datetime) -> set[datetime]:
    dues = {due for node in state.nodes.values() for due in deadlines(node)}
    return {due for due in dues if due is not None and due > now}


def _nothing() -> None:
    return


def with_side(place: Place, side: Side) -> Place:
    """The place with the side of that attempt replaced."""
    return replace(place, sides=_with_side(place.sides, side))


def _with_side(sides: tuple[Side, ...], side: Side) -> tuple[Side, ...]:
    return tuple(side if old.identity == side.identity else old for old in sides)

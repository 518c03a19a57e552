"""Asking providers, now and then, whether the leases are still there (design §5, case F9).

It only reports: a lease that is missing is told as a NodeLost, a disagreement with the swarm as a
warning.  It destroys nothing and changes no state.
"""

import threading
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from cluster_reconciler.actors.clock import Clock
from cluster_reconciler.decider import later
from cluster_reconciler.executors.checked_provider import checked_listing
from cluster_reconciler.executors.provider import Provider
from cluster_reconciler.messages import AttemptIdentity, ProviderKind, RunId

MISSES_TO_LOSE = 2


class Verdict(Struct, frozen=True, gc=False):
    """What one listing says."""

    lost: tuple[AttemptIdentity, ...]
    disputed: tuple[AttemptIdentity, ...]
    """Missing from the listings, yet alive in the swarm: shown, not acted on."""


class MissingLeases:
    """Counts in how many listings in a row a lease was missing.  Pure but for its own counts."""

    def __init__(self, settle_time: timedelta) -> None:
        self._settle_time = settle_time
        self._known_since: dict[AttemptIdentity, datetime] = {}
        self._misses: dict[AttemptIdentity, int] = {}

    def judge(
        self,
        asked_at: datetime,
        known: Iterable[AttemptIdentity],
        listed: Iterable[AttemptIdentity],
        is_alive: Callable[[AttemptIdentity], bool],
    ) -> Verdict:
        """Fold one listing that was asked for at `asked_at`, when `known` were known to exist."""
        known, listed = frozenset(known), frozenset(listed)
        self._known_since = {i: self._known_since.get(i, asked_at) for i in known}
        settled = {
            i
            for i, since in self._known_since.items()
            if later(since, self._settle_time) <= asked_at
        }
        self._misses = {i: self._misses.get(i, 0) + 1 for i in settled - listed}
        missing = sorted(i for i, count in self._misses.items() if count >= MISSES_TO_LOSE)
        alive = {i for i in missing if is_alive(i)}
        return Verdict(
            lost=tuple(i for i in missing if i not in alive),
            disputed=tuple(i for i in missing if i in alive),
        )


class LeaseCheck:
    """One provider's check, on a thread of its own: a listing that hangs delays nobody else."""

    def __init__(
        self,
        provider: Provider,
        run_id: RunId,
        interval: timedelta,
        clock: Clock,
        *,
        known: Callable[[], Iterable[AttemptIdentity]],
        is_alive: Callable[[AttemptIdentity], bool],
        lost: Callable[[AttemptIdentity, str], None],
        warn: Callable[[str, str | None], None],
        named: Callable[[Collection[ProviderKind]], None] = lambda _names: None,
    ) -> None:
        """`known`: the provider's leases by the state now.  `warn(topic, text)`: shown until the
        same topic is told None.  `named(names)`: what the listing calls their provider."""
        self._provider = provider
        self._run_id = run_id
        self._interval = interval
        self._clock = clock
        self._known = known
        self._is_alive = is_alive
        self._lost = lost
        self._warn = warn
        self._named = named
        self._missing = MissingLeases(provider.settle_time)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"lease-check-{provider.kind}", daemon=True
        )

    def start(self) -> None:
        """Begin; the first listing is one interval from now."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; a listing that hangs is left to its daemon thread."""
        self._stop.set()

    def check_once(self) -> None:
        """Ask once, and tell what is missing.  Whatever the provider raises becomes a warning."""
        kind = self._provider.kind
        topic = f"listing of {kind}"
        try:
            asked_at = self._clock.now()
            known = tuple(self._known())
            leases = checked_listing(self._provider, self._run_id)
            listed = [lease.identity for lease in leases]
            verdict = self._missing.judge(asked_at, known, listed, self._is_alive)
        except BaseException as error:  # noqa: BLE001 - it must not end the check silently
            self._warn(topic, f"provider {kind} could not list its leases: {error!r}")
            return
        self._warn(topic, None)
        self._named({lease.lease.provider for lease in leases})
        for identity in verdict.lost:
            self._lost(identity, f"provider {kind} does not list its lease any more")
        disputed = ", ".join(str(identity) for identity in verdict.disputed)
        self._warn(
            f"dispute with {kind}",
            f"provider {kind} does not list leases whose nodes are alive in the swarm: {disputed}"
            if disputed
            else None,
        )

    def _run(self) -> None:
        while not self._stop.wait(min(self._interval.total_seconds(), threading.TIMEOUT_MAX)):
            self.check_once()

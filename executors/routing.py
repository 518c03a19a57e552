"""Which provider an effect goes to, and whether it can be an effect of this run at all.  Pure.

An attempt's provider is found once, for its first operation, and then remembered with the attempt.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import assert_never

from msgspec import Struct

from cluster_reconciler.executors.ledger import SubmissionRefused
from cluster_reconciler.executors.provider import Provider
from cluster_reconciler.messages import (
    BootstrapConvergenceObserved,
    CancelBootstrap,
    CreateLease,
    DestroyLease,
    LookupEndpoint,
    NodeManagerCommand,
    PlannedEffect,
    ProviderKind,
    RunId,
    StartBootstrap,
    kind_of,
)


class Route(Struct, frozen=True):
    """A provider, and what it said of itself when the run began."""

    provider: Provider
    kind: ProviderKind
    settle_time: timedelta


class Routes:
    """The providers of a run."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        """Raises ValueError: one has no usable kind or settle time, or two have the same kind."""
        self._routes: dict[ProviderKind, Route] = {}
        for provider in providers:
            route = route_to(provider)
            if route.kind in self._routes:
                raise ValueError(
                    f"two providers are called {route.kind!r}; every one needs a kind of its own"
                )
            self._routes[route.kind] = route

    def of(self, effect: PlannedEffect) -> Route:
        """Where the first effect of an attempt goes.

        Raises:
            SubmissionRefused: it names no provider, or one that is not known.
        """
        kind = _named_in(effect.command)
        if kind is None and len(self._routes) == 1:
            return next(iter(self._routes.values()))
        if kind is None:
            raise SubmissionRefused(
                f"{effect.operation} of {effect.node}: {kind_of(effect.command)} names no "
                "provider, and no operation of its attempt has come before"
            )
        route = self._routes.get(kind)
        if route is None:
            known = ", ".join(repr(kind) for kind in sorted(self._routes)) or "none"
            raise SubmissionRefused(
                f"{effect.operation} of {effect.node}: provider {kind!r} is not known here; "
                f"known: {known}"
            )
        return route


def check_effect(effect: PlannedEffect, run_id: RunId) -> None:
    """Raises SubmissionRefused: the effect names another run or node in its command."""
    if not isinstance(effect, PlannedEffect):
        raise SubmissionRefused(f"expected a PlannedEffect, found a {type(effect).__name__}")
    match effect.command:
        case CreateLease(spec):
            named = spec.run_id, spec.logical_node_id
        case StartBootstrap(session):
            named = session.run_id, session.logical_node_id
        case _:
            return
    if named != (run_id, effect.node):
        raise SubmissionRefused(
            f"{effect.operation}: its command is for node {named[1]} of run {named[0]}, "
            f"it was submitted for node {effect.node} of run {run_id}"
        )


def _named_in(command: NodeManagerCommand) -> ProviderKind | None:
    match command:
        case CreateLease(spec):
            return spec.provider
        case LookupEndpoint(lease):
            return lease.provider
        case DestroyLease(handle):
            return handle.provider
        case StartBootstrap() | BootstrapConvergenceObserved() | CancelBootstrap():
            return None
        case _:
            assert_never(command)


def route_to(provider: Provider) -> Route:
    """Raises ValueError: the provider says something impossible of itself."""
    kind, settle_time = provider.kind, provider.settle_time
    if not isinstance(kind, str) or not kind:
        raise ValueError(
            f"{type(provider).__name__}: its kind must be a text that is not empty, found {kind!r}"
        )
    if not isinstance(settle_time, timedelta) or settle_time < timedelta(0):
        raise ValueError(
            f"provider {kind!r}: its settle_time must be a timedelta of at least 0, "
            f"found {settle_time!r}"
        )
    return Route(provider, kind, settle_time)

"""Faults of the way to a provider that no other test would notice: each test has killed mutants
that `python -m tests.mutation --set executors` had found alive.

It calls no provider.
"""

from datetime import timedelta

import pytest

from cluster_reconciler.executors import MemoryProvider, SubmissionRefused
from cluster_reconciler.executors.routing import Routes, check_effect, route_to
from cluster_reconciler.messages import (
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    CancelBootstrap,
    CreateLease,
    LookupEndpoint,
    NodeManagerCommand,
    ProviderKind,
    RunId,
    SwactorId,
)
from tests.test_executor_operations import LEASE_1, RUN, create, destroy, effect, spec, start

SESSION = BootstrapSessionId(41)
CANCEL = CancelBootstrap(SESSION)
OF_NO_PROVIDER = [
    CANCEL,
    BootstrapConvergenceObserved(SESSION, SwactorId("s")),
    start(1).command,
]


def provider(kind: object = "memory", settle_time: object = timedelta(0)) -> MemoryProvider:
    """One that says so of itself, whether or not it may."""
    made = MemoryProvider()
    said = {"kind": property(lambda _: kind), "settle_time": property(lambda _: settle_time)}
    made.__class__ = type("MemoryProvider", (MemoryProvider,), said)
    return made


def refusal(command: NodeManagerCommand, *kinds: str) -> str:
    """Why the command goes to none of these providers."""
    with pytest.raises(SubmissionRefused) as refused:
        Routes([provider(kind) for kind in kinds]).of(effect(1, command))
    return refused.value.reason


@pytest.mark.parametrize("command", OF_NO_PROVIDER)
def test_what_names_no_provider_goes_to_the_only_one(command: NodeManagerCommand) -> None:
    only = provider("only")
    assert Routes([only]).of(effect(1, command)).provider is only


@pytest.mark.parametrize("kinds", [(), ("memory", "other"), ("a", "b", "c")])
def test_what_names_no_provider_is_refused_when_there_is_none_or_a_choice(
    kinds: tuple[str, ...],
) -> None:
    assert refusal(CANCEL, *kinds) == (
        "op(1,1) of g-0: cancel_bootstrap names no provider, and no operation of its attempt has "
        "come before"
    )


@pytest.mark.parametrize(
    ("kinds", "known"), [((), "none"), (("zebra",), "'zebra'"), (("z", "a"), "'a', 'z'")]
)
def test_a_provider_that_is_not_known_is_refused_with_those_that_are(
    kinds: tuple[str, ...], known: str
) -> None:
    told = "op(1,1) of g-0: provider 'memory' is not known here; known: "
    assert refusal(CreateLease(spec()), *kinds) == told + known


@pytest.mark.parametrize(
    "command", [CreateLease(spec()), LookupEndpoint(LEASE_1), destroy(1).command]
)
def test_what_names_a_provider_goes_to_that_one(command: NodeManagerCommand) -> None:
    named = provider("memory")
    route = Routes([provider("other"), named]).of(effect(1, command))
    assert (route.provider, route.kind, route.settle_time) == (named, "memory", timedelta(0))


@pytest.mark.parametrize("made", [create(1), start(1)])
def test_a_command_for_another_run_or_node_is_refused_with_both(made: object) -> None:
    check_effect(made, RUN)  # type: ignore[arg-type]
    with pytest.raises(SubmissionRefused) as refused:
        check_effect(made, RunId(8))  # type: ignore[arg-type]
    assert refused.value.reason == (
        "op(1,1): its command is for node g-0 of run 7, it was submitted for node g-0 of run 8"
    )


def test_what_is_no_effect_is_refused_with_what_it_is() -> None:
    with pytest.raises(SubmissionRefused, match=r"^expected a PlannedEffect, found a str$"):
        check_effect("create", RUN)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["", None, 7])
def test_a_provider_without_a_kind_is_refused(kind: object) -> None:
    told = "MemoryProvider: its kind must be a text that is not empty, found "
    with pytest.raises(ValueError, match=f"^{told}{kind!r}$"):
        route_to(provider(kind))


@pytest.mark.parametrize("settle_time", [timedelta(microseconds=-1), 3, None])
def test_a_provider_with_no_usable_settle_time_is_refused(settle_time: object) -> None:
    with pytest.raises(ValueError, match=r"^provider 'memory': its settle_time must be a timed"):
        route_to(provider(settle_time=settle_time))


def test_a_settle_time_of_nothing_is_one() -> None:
    route = route_to(provider(settle_time=timedelta(0)))
    assert (route.kind, route.settle_time) == (ProviderKind("memory"), timedelta(0))


def test_a_route_never_changes_while_the_run_goes_on() -> None:
    route = route_to(provider())
    with pytest.raises(AttributeError, match="immutable"):
        route.settle_time = timedelta(1)  # type: ignore[misc]

"""Whether the parts that a host hands over can work: providers, policy, swarm and trace.

Refuses what cannot, by name, before anything is locked or begun.  It calls none of their methods.
"""

from collections.abc import Iterable
from pathlib import Path

from cluster_reconciler.actors.swarm import SwarmSource
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors.provider import Provider
from cluster_reconciler.executors.routing import route_to


def checked_providers(providers: object) -> tuple[Provider, ...]:
    """The providers.  Raises ValueError for what is no provider, or says something impossible of
    itself, or has a name that another one has."""
    if not isinstance(providers, Iterable) or isinstance(providers, str | bytes):
        raise ValueError(
            f"providers: expected a list of providers, found {type(providers).__name__}; "
            "write providers=[...]"
        )
    checked = tuple(providers)
    kinds: list[object] = []
    for index, provider in enumerate(checked):
        refuse_unlike(f"providers[{index}]", provider, Provider)
        kind = route_to(provider).kind
        if kind in kinds:
            raise ValueError(f"two providers are called {kind!r}; rename one")
        kinds.append(kind)
    return checked


def refuse_wrong_parts(retry: object, swarm: object, trace: object) -> None:
    """Raises ValueError; None is right for each."""
    for name, value, kind in (("retry", retry, RetryPolicy), ("trace", trace, Path)):
        if value is not None:
            refuse_wrong_kind(name, value, kind)
    if swarm is not None:
        refuse_unlike("swarm", swarm, SwarmSource)


def refuse_wrong_kind(name: str, value: object, kind: type) -> None:
    """Raises ValueError: the value is not of that class."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: expected a {kind.__name__}, found {value!r}")


def refuse_unlike(name: str, part: object, protocol: type) -> None:
    """Raises ValueError, which names what the part lacks of the protocol."""
    if isinstance(part, type):
        raise ValueError(f"{name}: expected {part.__name__}(...), found the class")
    wanted = [member for member in vars(protocol) if not member.startswith("_")]
    lacking = [member for member in wanted if not _has(part, member, protocol)]
    if len(lacking) == len(wanted):
        raise ValueError(f"{name}: expected a {protocol.__name__}, found {part!r}")
    if lacking:
        raise ValueError(
            f"{name}: expected a {protocol.__name__}, found {type(part).__name__}, "
            f"which has no {', '.join(lacking)}"
        )


def _has(part: object, member: str, protocol: type) -> bool:
    if isinstance(vars(protocol)[member], property):
        return hasattr(part, member)
    return callable(getattr(part, member, None))

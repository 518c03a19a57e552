"""One provider call, and its answer in the terms of the reconciler (design §4, 13-17).

Whatever a provider raises or returns becomes an outcome or an EffectError: an unexpected exception
or a value of the wrong type out of a call that makes something is ambiguous, out of any other it is
a definite failure.  Only a BaseException that is no Exception passes: it ends the actor.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from cluster_reconciler.executors.provider import Provider, ProviderError
from cluster_reconciler.messages import Disposition, EffectError

T = TypeVar("T")


class CallFailed(Exception):
    """The call has no outcome; `error` is what the driver is told."""

    def __init__(self, error: EffectError) -> None:
        super().__init__(error.reason)
        self.error = error


def call(provider: Provider, name: str, result: type[T] | object, act: Callable[[], T]) -> T:
    """Call what makes nothing.  Raises CallFailed, DEFINITE or, from a provider that says so,
    AMBIGUOUS (which a call that makes nothing survives as an ordinary failure)."""
    return _call(provider, name, result, act, Disposition.DEFINITE)


def make(provider: Provider, name: str, result: type[T] | object, act: Callable[[], T]) -> T:
    """Call what makes something.  Raises CallFailed with what is known of the effect."""
    return _call(provider, name, result, act, Disposition.AMBIGUOUS)


def look(provider: Provider, name: str, result: type[T] | object, act: Callable[[], T]) -> T:
    """Call what only looks: whatever goes wrong, nothing was made and no token presented."""
    try:
        return _call(provider, name, result, act, Disposition.DEFINITE)
    except CallFailed as failed:
        error = msgspec.structs.replace(failed.error, disposition=Disposition.DEFINITE)
        raise CallFailed(error) from failed


def _call(
    provider: Provider,
    name: str,
    result: type[T] | object,
    act: Callable[[], T],
    unexpected: Disposition,
) -> T:
    where = f"provider {provider.kind}, {name}"
    try:
        returned = act()
    except ProviderError as error:
        raise CallFailed(error.error) from error
    except Exception as error:
        reason = f"{where} raised {type(error).__name__}: {error}"
        raise CallFailed(EffectError(reason, unexpected)) from error
    try:
        checked: T = msgspec.convert(msgspec.to_builtins(returned), result)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = f"{where} returned a {type(returned).__name__} that is not what it must: {error}"
        raise CallFailed(EffectError(reason, unexpected)) from error
    return checked

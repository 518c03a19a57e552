"""The edges of what a host may hand over: a duration at its limit, and which of many providers."""

from datetime import timedelta

import pytest

from cluster_reconciler.actors.parts import checked_providers
from cluster_reconciler.executors.durations import duration
from cluster_reconciler.executors.providers.memory import MemoryProvider

SECOND = timedelta(seconds=1)


class Other(MemoryProvider):
    kind = "other"  # type: ignore[assignment]


def test_a_duration_may_be_the_least_one_and_must_be_longer_than_the_one_above() -> None:
    least = (duration("wait", 0), duration("wait", SECOND, least=SECOND))
    longer = duration("wait", 1.000001, above=SECOND)

    with pytest.raises(ValueError, match=r"^wait: ") as raised:
        duration("wait", 1, above=SECOND)

    assert (least, longer, str(raised.value)) == (
        (timedelta(0), SECOND),
        timedelta(seconds=1, microseconds=1),
        "wait: expected a timedelta or a number of seconds above 1, found 1",
    )


@pytest.mark.parametrize(
    ("providers", "said"),
    [
        (b"process", "providers: expected a list of providers, found bytes; write providers=[...]"),
        (
            [MemoryProvider(), Other(), MemoryProvider()],
            "two providers are called 'memory'; rename one",
        ),
        (
            [MemoryProvider(), Other],
            "providers[1]: expected Other(...), found the class",
        ),
    ],
    ids=["bytes", "not beside each other", "the second"],
)
def test_the_wrong_one_of_several_providers_is_named(providers: object, said: str) -> None:
    with pytest.raises(ValueError, match="provider") as raised:
        checked_providers(providers)

    assert str(raised.value) == said


def test_providers_keep_their_order() -> None:
    providers = [Other(), MemoryProvider()]

    assert checked_providers(iter(providers)) == tuple(providers)

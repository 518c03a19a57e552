"""What a provider's wrong answer is called: which class was expected, what was found, where."""

from types import NoneType, UnionType

import pytest

from cluster_reconciler.executors.checked_provider import WrongType, checked
from cluster_reconciler.executors.provider import ListedLease
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapFailed,
    BootstrapSessionId,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseFacts,
    LogicalNodeId,
    NodeAttemptId,
    ProviderKind,
    ProviderLeaseId,
    RunId,
    SessionObservation,
    SshEndpoint,
)

FACTS = LeaseFacts(ProviderKind("fleet"), ProviderLeaseId("h0"))
IDENTITY = AttemptIdentity(RunId(1), LogicalNodeId("w-0"), NodeAttemptId(1))
LOOKED_UP = EndpointLookup | LeaseAbsent
TOLD = "BootstrapObserved, BootstrapFailed, SwactorJoined or BootstrapClosed"


@pytest.mark.parametrize(
    ("answer", "expected", "text"),
    [
        ("h0", LeaseCreated, "LeaseCreated: found str"),
        (None, LeaseCreated, "LeaseCreated: found None"),
        (True, LeaseCreated | None, "LeaseCreated or None: found bool"),
        (None, LOOKED_UP, "EndpointLookup or LeaseAbsent: found None"),
        (7, NoneType, "None: found int"),
        ("joined", SessionObservation, f"{TOLD}: found str"),
        (True, int | None, "int or None: found bool"),
        (1 << 70, int | None, "int or None: found an int that cannot be written"),
        (
            LeaseCreated(FACTS, "10.0.0.1"),  # type: ignore[arg-type]
            LeaseCreated,
            "LeaseCreated: its endpoint must be SshEndpoint, LocalEndpoint or None, found str",
        ),
        (
            LeaseCreated(LeaseFacts(ProviderKind("fleet"), 7)),  # type: ignore[arg-type]
            LeaseCreated | None,
            "LeaseCreated: its lease.lease_id must be str (ProviderLeaseId), found int",
        ),
        (
            LeaseCreated(object()),  # type: ignore[arg-type]
            LeaseCreated,
            "LeaseCreated: its lease must be LeaseFacts, found object",
        ),
        (
            EndpointLookup(SshEndpoint("h", port="22")),  # type: ignore[arg-type]
            LOOKED_UP,
            "EndpointLookup: its endpoint.port must be int, found str",
        ),
        (
            BootstrapFailed(BootstrapSessionId(1), "half \ud83d"),
            SessionObservation,
            "BootstrapFailed: its reason must be str, found a str that cannot be written",
        ),
        (
            ListedLease(IDENTITY, FACTS, "gone"),  # type: ignore[arg-type]
            ListedLease,
            "ListedLease: its state must be LeaseState ('live' or 'dead'), found str",
        ),
        (
            ListedLease(AttemptIdentity(RunId(1), LogicalNodeId("w"), "1"), FACTS),  # type: ignore[arg-type]
            ListedLease,
            "ListedLease: its identity.attempt must be int (NodeAttemptId), found str",
        ),
    ],
)
def test_a_wrong_answer_names_class_field_and_what_was_found(
    answer: object, expected: type | UnionType, text: str
) -> None:
    with pytest.raises(WrongType) as wrong:
        checked(answer, expected)

    assert str(wrong.value) == text


def test_a_field_that_somebody_added_to_a_class_of_ours_is_named_too() -> None:
    class Mine(LeaseCreated, frozen=True):
        more: object = None

    with pytest.raises(WrongType) as wrong:
        checked(Mine(FACTS, None, more=object()), LeaseCreated)

    assert str(wrong.value) == (
        "Mine: its more must be object, found an object that cannot be written"
    )
